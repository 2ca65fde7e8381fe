from ganglion.wire.codec import codec_of, encode_map
from ganglion.wire.messages import Act, Acted


def test_readings_ask_for_a_decision() -> None:
    """An act with readings alone asks for a decision in the midst of an episode, and brings no outcome."""
    act = codec_of(Act).decode(encode_map({"readings": [[0.5]]}))

    assert Act([[0.5]], rewards=None, decide=True, terminated=False, truncated=False, closing=False) == act


def test_no_rewards_are_not_none_at_all() -> None:
    """Rewards of nobody (an empty list) complete a decision; null says that it was settled before."""
    codec = codec_of(Act)

    assert [] == codec.decode(encode_map({"readings": [], "rewards": []})).rewards
    assert codec.decode(encode_map({"readings": [], "rewards": None})).rewards is None


def test_empty_answer_only_settles() -> None:
    """An answer without fields proposes nothing, settles nothing and wishes nothing."""
    assert Acted(setpoints=None, proposed=None, objective=None, signal=None) == codec_of(Acted).decode(b"")
