import pytest

from ganglion.errors import RemoteProtocolError
from ganglion.wire.codec import codec_of, encode_map
from ganglion.wire.messages import Failure, Go, Verdict, WorkerFailed


def test_go_without_words_is_to_go_on() -> None:
    """An empty answer at a boundary is CONTINUE, for everybody."""
    assert Go("CONTINUE", issuer="", reason="", round=0, participants=None) == codec_of(Go).decode(b"")


def test_verdict_has_no_signal_of_its_own() -> None:
    """An end of an episode is answered by a signal that was meant: without one it is refused."""
    assert Verdict("STOP_PHASE") == codec_of(Verdict).decode(encode_map({"signal": "STOP_PHASE"}))
    with pytest.raises(RemoteProtocolError, match=r"verdict\.signal: expected"):
        codec_of(Verdict).decode(encode_map({"episode": 3}))


def test_failure_of_a_worker_is_its_controller_s_own_unless_it_names_a_peer() -> None:
    """`peer` is null where the controller itself cannot go on."""
    body = {"worker": 1, "episode": 2, "step": 3, "failure": {"kind": "failed", "message": "no"}}

    assert WorkerFailed(1, 2, 3, Failure("failed", "no"), peer=None) == codec_of(WorkerFailed).decode(encode_map(body))
