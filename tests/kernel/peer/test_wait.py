from __future__ import annotations

import pytest

from ganglion.peer.conversation import Conversation
from ganglion.peer.wait import Accusations, Reports
from ganglion.wire.codec import codec_of
from ganglion.wire.envelope import Head, encode_head, encode_reply
from ganglion.wire.messages import Done, Failure, Overdue
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
