from __future__ import annotations

import pytest

from ganglion.peer.conversation import Conversation
from ganglion.peer.wait import Accusations, Reports
from ganglion.wire.codec import codec_of
from ganglion.wire.envelope import Head, encode_head, encode_reply
from ganglion.wire.messages import Done, Failure, Lost, Overdue
from ganglion.wire.verb import Verb


def test_waits_are_told_ever_more_rarely() -> None:
    """A wait is told after 2 s, then after twice as long each time up to 64 s; another wait begins anew."""
    reports = Reports()
    told = [second for second in range(300) if reports.due(10.0, 10.0 + second)]
    again = [second for second in range(8) if reports.due(1000.0, 1000.0 + second)]

    assert ([2, 6, 14, 30, 62, 126, 190, 254], [2, 6]) == (told, again)


@pytest.mark.parametrize("helps", [True, False])
def test_who_is_late_is_accused_once(helps: bool) -> None:
    """A late call is told to the supervisor and waited for; where that cannot help it is given up."""
    conversation, said = Conversation(), list[Overdue]()

    def ask(overdue: Overdue) -> int:
        said.append(overdue)
        return 1000 + len(said)

    accusations = Accusations(conversation, ask)
    pending, _ = conversation.call("r/a", "brain.think", b"", 0.0, 5.0)
    assert not accusations
    assert [] == accusations.accuse(conversation.late(6.0), 6.0)
    assert ([Overdue("r/a", "brain.think", 6.0)], 11.0, True) == (said, pending.deadline_s, bool(accusations))

    head, body = encode_reply(1001), codec_of(Done).encode(Done())
    if not helps:
        head, body = encode_head(Head(Verb.ERROR, 1001)), codec_of(Failure).encode(Failure("failed", "no"))
    accusations.hear([b"", head, body], 7.0)
    assert (not helps, 11.0 if helps else 7.0) == (pending.accused, pending.deadline_s)
    assert not accusations
    conversation.check()  # who sleeps until the nearest deadline wakes in time
    again = accusations.accuse(conversation.late(12.0), 12.0)
    assert ([], 2) == (again, len(said)) if helps else ([pending], 1) == (again, len(said))


def refused(serial: int, kind: str) -> list[bytes]:
    """Return an ERROR of the kernel."""
    return [b"", encode_head(Head(Verb.ERROR, serial)), codec_of(Failure).encode(Failure(kind, "no"))]


def test_a_refusal_that_crosses_a_loss_ends_nothing() -> None:
    """Who is lost while he is being accused is no longer late: that the accusation is refused says nothing of him."""
    conversation, serials = Conversation(), iter([1001, 1002])
    accusations = Accusations(conversation, lambda overdue: next(serials))
    pending, _ = conversation.call("r/a", "brain.think", b"", 0.0, 5.0)
    accusations.accuse(conversation.late(5.0), 5.0)
    lost = codec_of(Lost).encode(Lost("r/a", 1, "it closed the connection", True))
    conversation.receive([b"", encode_head(Head(Verb.LOST)), lost], 5.1)
    accusations.hear(refused(1001, "forbidden"), 5.2)

    assert ([], 10.1) == (conversation.late(10.0), pending.deadline_s)
    assert [] == accusations.accuse(conversation.late(10.1), 10.1)  # and is accused again if he is late again
    accusations.hear(refused(1001, "forbidden"), 10.2)  # what was asked before is of no interest
    assert [] == conversation.late(10.2)
    accusations.hear(refused(1002, "forbidden"), 10.3)
    assert [pending] == accusations.accuse(conversation.late(10.3), 10.3)


def test_an_accusation_that_nobody_could_hear_is_said_again() -> None:
    """Where there is no supervisor at the moment, or no room, the call is waited for and told again when it is late."""
    conversation, said = Conversation(), list[Overdue]()

    def ask(overdue: Overdue) -> int:
        said.append(overdue)
        return 1000 + len(said)

    accusations = Accusations(conversation, ask)
    conversation.call("r/a", "brain.think", b"", 0.0, 5.0)
    for number in (1, 2, 3):
        assert [] == accusations.accuse(conversation.late(5.0 * number), 5.0 * number)
        accusations.hear(refused(1000 + number, "busy"), 5.0 * number + 0.1)

    assert 3 == len(said)
    assert [5.0, 10.0, 15.0] == [overdue.waited_s for overdue in said]
