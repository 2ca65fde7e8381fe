from __future__ import annotations

from ganglion.sdk.flow import Mode


def test_modes_are_the_words_of_documents() -> None:
    """A mode is made from the word that documents and tables use, and equals it."""
    assert [Mode.TRAIN, Mode.TEST, Mode.EVALUATE] == [Mode("train"), Mode("test"), Mode("evaluate")]
    assert Mode.TRAIN == "train"
