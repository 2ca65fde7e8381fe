import pytest

from ganglion.errors import RemoteProtocolError
from ganglion.wire.codec import codec_of, encode_map
from ganglion.wire.messages import Failure, FlowSignal, RecordAck, RecordBatch, RunEvent


def test_acknowledgement_may_say_why_there_is_none() -> None:
    """An acknowledgement is a number; the error that ends a store is checked as any failure."""
    codec = codec_of(RecordAck)
    full = {"kind": "store", "message": "disk full"}

    assert RecordAck(7, error=None, waiting=None, heads=None) == codec.decode(encode_map({"number": 7}))
    acknowledged = codec.decode(encode_map({"number": 7, "error": full}))
    assert Failure("store", "disk full") == acknowledged.error
    with pytest.raises(RemoteProtocolError, match=r"recordack\.error\.kind: expected"):
        codec.decode(encode_map({"number": 7, "error": {"message": "disk full"}}))


def test_rows_stay_in_order_and_as_they_are() -> None:
    """Rows of all kinds lie in one list, in the order in which they were made."""
    rows = [["step", 1, [0.5], None], ["episode", 1, "limit"], ["step", 2, bytes(3), True]]

    assert rows == codec_of(RecordBatch).decode(encode_map({"number": 1, "records": rows})).records


def test_signal_is_for_the_whole_run_unless_it_names_a_part() -> None:
    """A signal and who gives it are enough; phase, worker and episode are null."""
    signal = codec_of(FlowSignal).decode(encode_map({"signal": "PAUSE", "issuer": "operator"}))

    assert FlowSignal("PAUSE", "operator", phase=None, worker=None, episode=None, number=0) == signal


def test_event_goes_to_the_topic_of_events() -> None:
    """An event that names no topic is one of `events`."""
    event = codec_of(RunEvent).decode(encode_map({"event": "phase", "fields": {}}))

    assert event.topic == ""
