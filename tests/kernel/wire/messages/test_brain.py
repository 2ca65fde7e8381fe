import pytest

from ganglion.errors import RemoteProtocolError
from ganglion.wire.codec import codec_of, encode_map
from ganglion.wire.messages import BrainEvaluated, BrainStore, Thought


def test_null_may_be_an_update() -> None:
    """`fresh` tells an update that is null from no update: what a brain hands out may be anything."""
    codec = codec_of(Thought)

    assert Thought(update=None, fresh=False) == codec.decode(b"")
    assert Thought(update=None, fresh=True) == codec.decode(encode_map({"update": None, "fresh": True}))


def test_update_stays_what_it_is() -> None:
    """An update is a tree of plain values, bytes among them, and comes as it was given."""
    update = {"weights": {"dtype": "<f8", "shape": [1], "data": bytes(8)}, "step": 3}

    assert update == codec_of(Thought).decode(encode_map({"update": update, "fresh": True})).update


def test_store_without_words_is_that_of_a_phase_s_end() -> None:
    """A brain that is asked to store, and told nothing, stores its own model for the end of the phase."""
    assert BrainStore("phase end", source=None, models=None, second=None) == codec_of(BrainStore).decode(b"")


def test_evaluation_is_answered_by_metrics() -> None:
    """A brain without metrics of its own says so by an empty map, and does not leave them out."""
    codec = codec_of(BrainEvaluated)

    assert BrainEvaluated({}) == codec.decode(encode_map({"metrics": {}}))
    with pytest.raises(RemoteProtocolError, match=r"brainevaluated\.metrics: expected"):
        codec.decode(b"")
