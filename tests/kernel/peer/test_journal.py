from __future__ import annotations

from ganglion.peer.journal import Journal, Told
from ganglion.wire.messages import EnvironmentReset, EnvironmentUpdate
from ganglion.wire.tape import digest


def test_different_answers_have_different_digests() -> None:
    """Equal bodies have equal digests of 16 bytes, others have others."""
    assert digest([b"a"]) == digest([b"a"]) != digest([b"b"])
    assert 16 == len(digest([b""]))


def test_only_the_open_episode_is_kept() -> None:
    """With the next episode the steps of the one before are forgotten, the object's beginning stays."""
    journal = Journal("start", 0, b"1")
    journal.steps.append(Told(EnvironmentUpdate([[1]]), b"2"))
    journal.losses[1] = 2
    journal.began(EnvironmentReset(1, 5), b"3")

    assert ("start", 0, b"1", b"3", [], {}) == (
        journal.start,
        journal.made,
        journal.started,
        journal.opened,
        journal.steps,
        journal.losses,
    )
    assert journal.reset == EnvironmentReset(1, 5)
