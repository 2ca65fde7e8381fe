import pytest

from ganglion.errors import RemoteProtocolError
from ganglion.wire.codec import codec_of, encode_map
from ganglion.wire.messages import ControllerEvaluate, ControllerShutdown, Verdict


def test_verdict_inside_of_a_request() -> None:
    """The verdict that begins an evaluation is checked as any; what it lacks is named by its path."""
    codec = codec_of(ControllerEvaluate)

    evaluate = codec.decode(encode_map({"verdict": {"signal": "RESET", "episode": 4}}))
    assert ControllerEvaluate(Verdict("RESET", episode=4)) == evaluate
    with pytest.raises(RemoteProtocolError, match=r"controllerevaluate\.verdict\.signal: expected"):
        codec.decode(encode_map({"verdict": {"episode": 4}}))


def test_shutdown_says_what_it_ends() -> None:
    """A shutdown that names nothing ends nothing: muscles and environments are ended by calls of their own."""
    assert ControllerShutdown(muscles=False, environments=False) == codec_of(ControllerShutdown).decode(b"")
