from __future__ import annotations

from collections import deque
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ganglion.errors import CallFailed, DeadlineExceeded, PeerLost, RemoteProtocolError
from ganglion.limits import ANSWERS_PER_CALLER
from ganglion.wire.codec import codec_of
from ganglion.wire.conversation import Answer, Conversation, Leave, Request
from ganglion.wire.envelope import Head, Position, decode_head, encode_head
from ganglion.wire.messages import Bye, Failure, Lost
from ganglion.wire.verb import Verb

MUSCLE, BRAIN = "farm/muscle/ada/0", "farm/brain/ada"


def sent(peer: str, head: Head, body: bytes = b"", *blobs: bytes) -> list[bytes]:
    """Return a message as it comes from the broker."""
    return [peer.encode(), encode_head(head), body, *blobs]


def heard(conversation: Conversation, peer: str, head: Head, message: Any = None, now_s: float = 0.0) -> list[Any]:
    """Let a message come; returns what it means."""
    body = b"" if message is None else codec_of(type(message)).encode(message)
    return conversation.receive(sent(peer, head, body), now_s)[0]


def lost(peer: str) -> Lost:
    """Return the kernel's word that a peer is gone."""
    return Lost(peer, 1, "killed")


# -- asking -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [b"\xc1", b"\x91\x01", b"{", b"\x81\xa4kind\x05", b"\x81\xa5where\x05"])
def test_error_of_any_body_settles_the_call(body: bytes) -> None:
    """An ERROR whose body is broken has ended the call all the same: nobody waits on."""
    conversation = Conversation()
    conversation.call(BRAIN, "brain.think", b"", 0.0, None)
    (answer,), _ = conversation.receive(sent(BRAIN, Head(Verb.ERROR, 1), body), 0.0)

    assert isinstance(answer, Answer)
    assert isinstance(answer.error, CallFailed)
    assert answer.error.where is None
    assert [] == conversation.waits()


# (peer, head) of answers that nobody awaits while a call with serial 1 to the brain is open
STRAY = [
    (BRAIN, Head(Verb.REPLY, 2)),
    (BRAIN, Head(Verb.REPLY, 0)),
    (MUSCLE, Head(Verb.REPLY, 1)),
    (MUSCLE, Head(Verb.ERROR, 1)),
    ("supervisor", Head(Verb.REPLY, 1)),
    (BRAIN, Head(Verb.ERROR, 0)),
    ("", Head(Verb.ERROR, 7)),
]


@pytest.mark.parametrize(("peer", "head"), STRAY)
def test_stray_answer_is_ignored(peer: str, head: Head) -> None:
    """An answer that is late, doubled, crossed or forged settles nothing."""
    conversation = Conversation()
    pending, _ = conversation.call(BRAIN, "brain.think", b"", 0.0, None)

    assert ([], []) == conversation.receive(sent(peer, head), 0.0)
    assert [pending] == conversation.waits()


BUSY = Failure("busy", "r/brain has 64 open calls of this caller", retry_after_ms=50)


def test_busy_is_no_answer() -> None:
    """A CALL for which the kernel is busy is said again, unchanged and as often as needed; then it is answered."""
    conversation = Conversation()
    pending, said = conversation.call(BRAIN, "brain.think", b"body", 0.0, 2.0, None, [b"blob"])
    for begin_s in (1.0, 1.5):
        assert [] == heard(conversation, "", Head(Verb.ERROR, 1), BUSY, now_s=begin_s)
        assert begin_s + 0.05 == conversation.deadline_before(begin_s + 0.06)
        assert [] == conversation.repeat(begin_s + 0.04)
        assert [tuple(said)] == conversation.repeat(begin_s + 0.05)
        assert [] == conversation.repeat(begin_s + 0.06)
    (answer,) = heard(conversation, BRAIN, Head(Verb.REPLY, 1))

    assert (pending, None) == (answer.pending, answer.error)
    assert conversation.next_deadline_s() is None


def test_an_answer_that_comes_twice_is_doubted() -> None:
    """Who has said a call twice and is answered twice says the next one again: its answer may have been dropped."""
    conversation = Conversation()
    conversation.call(BRAIN, "brain.think", b"", 0.0, 5.0)
    pending = conversation.waits()[0]
    pending.reported = True
    assert 1 == len(conversation.repeat_all(1.0))
    assert not pending.reported, "that somebody is late was lost with the connection"
    assert 6.0 == conversation.next_deadline_s()
    heard(conversation, BRAIN, Head(Verb.REPLY, 1), now_s=1.0)
    _, said = conversation.call(BRAIN, "brain.think", b"", 1.0, None)
    conversation.call(MUSCLE, "muscle.act", b"", 1.0, None)
    assert [] == heard(conversation, BRAIN, Head(Verb.REPLY, 1), now_s=1.0)
    assert [] == conversation.repeat(1.2)
    assert [tuple(said)] == conversation.repeat(1.25)

    assert [] == heard(conversation, BRAIN, Head(Verb.REPLY, 1), now_s=2.0)
    assert [] == conversation.repeat(9.0)


# -- answering --------------------------------------------------------------------------------------------------------
def ask(conversation: Conversation, serial: int, call: str = "brain.think", peer: str = MUSCLE) -> Any:
    """Let a CALL come; returns what it means and what is sent at once."""
    return conversation.receive(sent(peer, Head(Verb.CALL, serial, call), b"body"), 0.0)


@pytest.mark.parametrize("position", [None, (0, 0, 1, 1, 2, 3)])
@pytest.mark.parametrize("span_s", [None, 2.5])
def test_heads_are_those_of_the_envelope(position: Position | None, span_s: float | None) -> None:
    """The heads of a CALL, of its REPLY and of an ERROR have the bytes that an envelope gives them."""
    deadline_ms = None if span_s is None else 2500
    _, frames = Conversation().call("farm/x", "any.thing", b"", 1.0, span_s, position)
    (request,), _ = ask(Conversation(), 1)

    assert encode_head(Head(Verb.CALL, 1, "any.thing", position, deadline_ms)) == frames[1]
    assert encode_head(Head(Verb.REPLY, 1)) == Conversation().reply(request, b"")[1]
    assert encode_head(Head(Verb.ERROR, 1)) == Conversation().fail(request, Failure("author", "boom"))[1]


def test_repeat_is_answered_from_memory() -> None:
    """A repeated CALL is answered from memory and not executed again; so is one that had failed."""
    conversation = Conversation()
    (request,), _ = ask(conversation, 1)
    reply = conversation.reply(request, b"reply", [b"blob"])
    assert ([], [reply]) == ask(conversation, 1)

    (request,), _ = ask(conversation, 2)
    failure = conversation.fail(request, Failure("author", "boom"))
    assert ([], [failure]) == ask(conversation, 2)


def test_repeat_of_what_is_done_now_is_dropped() -> None:
    """Who asks again while we are at it gets the one answer, and nothing is done twice."""
    conversation = Conversation()
    (request,), _ = ask(conversation, 1)

    assert ([], []) == ask(conversation, 1)
    conversation.reply(request, b"")
    assert 1 == len(ask(conversation, 1)[1])


def test_memory_is_bounded() -> None:
    """So many last answers are remembered per caller, and not more."""
    conversation = Conversation()
    for serial in range(1, 100):
        (request,), _ = ask(conversation, serial)
        conversation.reply(request, b"%d" % serial)
    remembered = [serial for serial in range(1, 100) if not ask(conversation, serial)[0]]

    assert list(range(100 - ANSWERS_PER_CALLER, 100)) == remembered


def test_what_is_not_kept_or_forgotten_is_carried_out_again() -> None:
    """A reply may be too large to be kept; what peers of a name had asked is forgotten when others get the name."""
    conversation = Conversation()
    for serial, peer in enumerate(("operator/1", "operator/1", MUSCLE)):
        (request,), _ = ask(conversation, serial, peer=peer)
        if serial != 1:
            conversation.reply(request, b"", kept=peer != MUSCLE)
    asked = [len(ask(conversation, serial, peer="operator/1")[0]) for serial in (0, 1)]
    conversation.forget(("operator/",))
    again = [len(ask(conversation, serial, peer="operator/1")[0]) for serial in (0, 1)]

    assert ([0, 0], [1, 1], 1) == (asked, again, len(ask(conversation, 2)[0]))


# -- everything else --------------------------------------------------------------------------------------------------


def test_bye_and_refusal_are_reasons_to_leave() -> None:
    """BYE asks to leave, with a reason if there is one; an ERROR about no call says that the kernel ends it."""
    conversation = Conversation()

    assert [Leave("asked to leave", serial=3)] == heard(conversation, "", Head(Verb.BYE, 3))
    assert [Leave("tea", serial=0)] == heard(conversation, "supervisor", Head(Verb.BYE), Bye("tea"))
    refusal = heard(conversation, "", Head(Verb.ERROR, 0), Failure("limit", "too much"))
    assert [Leave("limit: too much", refused=True)] == refusal
    to, head, _ = conversation.bye()
    assert (b"", Verb.BYE) == (to, decode_head(head).verb)


@pytest.mark.parametrize("verb", [Verb.HELLO, Verb.WELCOME])
def test_verbs_of_joining_are_refused(verb: Verb) -> None:
    """After joining nobody says HELLO or WELCOME."""
    with pytest.raises(RemoteProtocolError, match=f"said {verb.name}, which is not for peers that have joined"):
        heard(Conversation(), "", Head(verb))


@given(st.lists(st.binary(max_size=40), max_size=4))
def test_any_frames_mean_something_or_are_refused(frames: list[bytes]) -> None:
    """No frames lead to anything but meaning or RemoteProtocolError."""
    conversation = Conversation()
    conversation.call("", "kernel.info", b"", 0.0, None)
    try:
        incoming, answers = conversation.receive(frames, 0.0)
    except RemoteProtocolError:
        return
    assert isinstance(incoming, list)
    assert isinstance(answers, list)


# -- two conversations and a wire that loses, repeats and delays ------------------------------------------------------
class TwoPeers(RuleBasedStateMachine):
    """Let two peers call each other over a wire that delays, repeats and loses; each call has one outcome."""

    @initialize()
    def begin(self) -> None:
        """Begin with an empty wire in both directions."""
        self.now_s = 0.0
        self.names = ("a", "b")
        self.talks = (Conversation(), Conversation())
        self.wire: tuple[deque[list[bytes]], ...] = (deque(), deque())  # to peer 0, to peer 1
        self.asked: tuple[dict[int, list[bytes]], ...] = ({}, {})  # serial -> frames, until its outcome
        self.outcomes: tuple[dict[int, str], ...] = ({}, {})
        self.executed: tuple[dict[int, int], ...] = ({}, {})  # by callee: serial of the caller -> times
        self.open: tuple[list[Request], ...] = ([], [])
        self.forgot = False  # a loss for good has made one forget whom it answered what

    def send(self, source: int, frames: list[bytes]) -> None:
        """Put a message on the wire, as the broker would hand it on."""
        self.wire[1 - source].append([self.names[source].encode(), *frames[1:]])

    def settle(self, who: int, answer: Answer, outcome: str) -> None:
        """Note the outcome of a call; there is none before."""
        serial = answer.pending.serial
        assert serial in self.asked[who]
        assert serial not in self.outcomes[who]
        self.outcomes[who][serial] = outcome
        del self.asked[who][serial]

    @rule(who=st.integers(0, 1), span_s=st.sampled_from([None, 1.0, 5.0]))
    def call(self, who: int, span_s: float | None) -> None:
        """Call the other."""
        body = b"%d" % (len(self.asked[who]) + len(self.outcomes[who]))
        pending, frames = self.talks[who].call(self.names[1 - who], "any.thing", body, self.now_s, span_s)
        self.asked[who][pending.serial] = frames
        self.send(who, frames)

    @precondition(lambda self: any(self.asked))
    @rule(data=st.data())
    def repeat(self, data: st.DataObject) -> None:
        """Repeat the newest unanswered call, as after a reconnection."""
        who = data.draw(st.sampled_from([w for w in (0, 1) if self.asked[w]]))
        self.send(who, list(self.asked[who].values())[-1])

    @precondition(lambda self: any(self.wire))
    @rule(data=st.data(), doubled=st.booleans())
    def deliver(self, data: st.DataObject, doubled: bool) -> None:
        """Deliver the next message of a direction, perhaps twice."""
        to = data.draw(st.sampled_from([w for w in (0, 1) if self.wire[w]]))
        frames = self.wire[to].popleft()
        is_answer = decode_head(frames[1]).verb in (Verb.REPLY, Verb.ERROR)
        for _ in range(2 if doubled and is_answer else 1):
            incoming, answers = self.talks[to].receive(frames, self.now_s)
            for answer in answers:
                self.send(to, answer)
            for one in incoming:
                self.take(to, one)

    def take(self, who: int, one: Any) -> None:
        """Take what came: a request to execute, or an answer."""
        if isinstance(one, Answer):
            if one.error is None:
                assert b"did " + self.asked[who][one.pending.serial][2] == one.body
            self.settle(who, one, "answered")
        else:
            assert isinstance(one, Request)
            self.open[who].append(one)

    @precondition(lambda self: any(self.open))
    @rule(data=st.data(), fails=st.booleans())
    def answer(self, data: st.DataObject, fails: bool) -> None:
        """Execute a request and answer it."""
        who = data.draw(st.sampled_from([w for w in (0, 1) if self.open[w]]))
        request = self.open[who].pop(0)
        self.executed[who][request.head.serial] = self.executed[who].get(request.head.serial, 0) + 1
        if fails:
            self.send(who, self.talks[who].fail(request, Failure("author", "boom")))
        else:
            self.send(who, self.talks[who].reply(request, b"did " + request.body))

    @precondition(lambda self: any(self.wire))
    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        """Lose a message."""
        self.wire[data.draw(st.sampled_from([w for w in (0, 1) if self.wire[w]]))].popleft()

    @rule(span_s=st.sampled_from([0.5, 2.0]))
    def pass_time(self, span_s: float) -> None:
        """Let time pass; calls whose deadline has passed end."""
        self.now_s += span_s
        for who in (0, 1):
            for answer in self.talks[who].give_up(self.talks[who].late(self.now_s), self.now_s):
                assert isinstance(answer.error, DeadlineExceeded)
                self.settle(who, answer, "expired")
            self.say_again(who)
            deadline_s = self.talks[who].next_deadline_s()
            assert deadline_s is None or deadline_s > self.now_s

    @rule(who=st.integers(0, 1))
    def lose_peer(self, who: int) -> None:
        """Tell one that the other is lost: its calls end."""
        self.forgot = True
        message = sent("", Head(Verb.LOST), codec_of(Lost).encode(lost(self.names[1 - who])))
        incoming, _ = self.talks[who].receive(message, self.now_s)
        for one in incoming[1:]:
            assert isinstance(one.error, PeerLost)
            self.settle(who, one, "lost")
        assert {} == self.asked[who]

    @rule(who=st.integers(0, 1))
    def lose_peer_for_a_while(self, who: int) -> None:
        """Tell one that the other is lost and returns: its calls stay open, and what it was asked is remembered."""
        before = {pending.serial for pending in self.talks[who].waits()}
        message = sent("", Head(Verb.LOST), codec_of(Lost).encode(Lost(self.names[1 - who], 1, "killed", True)))
        incoming, _ = self.talks[who].receive(message, self.now_s)
        assert [Lost(self.names[1 - who], 1, "killed", True)] == incoming
        assert before == {pending.serial for pending in self.talks[who].waits()}

    @rule(who=st.integers(0, 1), serial=st.integers(1, 8))
    def absent(self, who: int, serial: int) -> None:
        """Let the kernel say that the other is absent: the call is said again, and its time begins anew."""
        failure = Failure("busy", "absent", retry_after_ms=50, data={"absent": True})
        message = sent("", Head(Verb.ERROR, serial), codec_of(Failure).encode(failure))
        assert ([], []) == self.talks[who].receive(message, self.now_s)

    @rule(who=st.integers(0, 1))
    def say_again(self, who: int) -> None:
        """Say again what is due; it is what was said, and nothing that has an outcome."""
        for frames in self.talks[who].repeat(self.now_s):
            serial = decode_head(frames[1]).serial
            assert list(frames) == list(self.asked[who][serial])
            self.send(who, list(frames))

    @invariant()
    def nothing_is_done_twice(self) -> None:
        """See that what was asked is executed once, however often it was said, unless its caller is forgotten."""
        if hasattr(self, "talks") and not self.forgot:
            for counts in self.executed:
                assert all(count == 1 for count in counts.values()), counts

    @invariant()
    def books_agree(self) -> None:
        """Compare what is awaited with what was asked and has no outcome."""
        if hasattr(self, "talks"):
            for who in (0, 1):
                assert set(self.asked[who]) == {pending.serial for pending in self.talks[who].waits()}
                self.talks[who].check()


TestTwoPeers = TwoPeers.TestCase
TestTwoPeers.settings = settings(max_examples=30, stateful_step_count=40)
