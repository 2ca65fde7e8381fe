from __future__ import annotations

from collections import deque
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ganglion.errors import CallFailed, DeadlineExceeded, PeerLost, RemoteProtocolError
from ganglion.limits import ANSWERS_PER_CALLER
from ganglion.peer.conversation import Answer, Conversation, Gone, Leave, Request, Told
from ganglion.wire.codec import codec_of
from ganglion.wire.envelope import Head, decode_head, encode_head
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
def test_call_and_answer() -> None:
    """A CALL has the next serial, its position and deadline; its REPLY settles it with body and blobs."""
    conversation = Conversation()
    pending, frames = conversation.call(BRAIN, "brain.think", b"body", 5.0, 2.5, (0, 1, 2, 3, 4, 5), [b"blob"])

    assert [BRAIN.encode(), b"body", b"blob"] == [frames[0], *frames[2:]]
    assert Head(Verb.CALL, 1, "brain.think", (0, 1, 2, 3, 4, 5), 2500) == decode_head(frames[1])
    assert [pending] == conversation.waits()

    incoming, answers = conversation.receive(sent(BRAIN, Head(Verb.REPLY, 1), b"x", b"y"), 6.0)
    assert ([Answer(pending, b"x", (b"y",))], []) == (incoming, answers)
    assert [] == conversation.waits()


def test_error_settles_the_call() -> None:
    """An ERROR settles a CALL with what the peer said."""
    conversation = Conversation()
    conversation.call(BRAIN, "brain.think", b"", 0.0, None)
    (answer,) = heard(conversation, BRAIN, Head(Verb.ERROR, 1), Failure("author", "boom", "hook think"))

    assert isinstance(answer.error, CallFailed)
    assert (BRAIN, "brain.think", "author", "hook think") == (
        answer.error.peer,
        answer.error.call,
        answer.error.remote_kind,
        answer.error.where,
    )


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


def test_second_answer_is_ignored() -> None:
    """A call has one outcome."""
    conversation = Conversation()
    conversation.call(BRAIN, "brain.think", b"", 0.0, None)

    assert 1 == len(heard(conversation, BRAIN, Head(Verb.REPLY, 1)))
    assert [] == heard(conversation, BRAIN, Head(Verb.REPLY, 1))
    assert [] == heard(conversation, BRAIN, Head(Verb.ERROR, 1))


@pytest.mark.parametrize(("asked", "answering"), [(BRAIN, ""), ("", ""), ("", "supervisor")])
def test_who_may_answer_in_another_s_place(asked: str, answering: str) -> None:
    """The kernel refuses in a peer's place; the supervisor answers in the kernel's."""
    conversation = Conversation()
    pending, _ = conversation.call(asked, "any.thing", b"", 0.0, None)
    (answer,) = heard(conversation, answering, Head(Verb.ERROR, 1), Failure("unreachable", "nobody"))

    assert pending is answer.pending
    assert answer.error.peer == (asked or "the kernel")


def test_deadline() -> None:
    """A call that is not answered in time ends with its error; the late answer is ignored."""
    conversation = Conversation()
    conversation.call(BRAIN, "brain.setup", b"", 0.0, None)
    pending, _ = conversation.call(BRAIN, "brain.think", b"", 10.0, 2.0)
    assert 12.0 == conversation.next_deadline_s()
    assert [] == conversation.give_up(conversation.late(11.9), 11.9)
    (answer,) = conversation.give_up(conversation.late(12.5), 12.5)

    assert pending is answer.pending
    assert isinstance(answer.error, DeadlineExceeded)
    assert str(answer.error).startswith("waited 2.5 s in vain for ")
    assert "brain.think" in str(answer.error)
    assert [] == heard(conversation, BRAIN, Head(Verb.REPLY, 2))
    assert conversation.next_deadline_s() is None


BUSY = Failure("busy", "r/brain has 64 open calls of yours", retry_after_ms=50)


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


def test_busy_to_the_end() -> None:
    """A CALL that never finds room ends at its deadline, with that reason, and is not said any more."""
    conversation = Conversation()
    conversation.call(BRAIN, "brain.think", b"", 0.0, 2.0)
    heard(conversation, "", Head(Verb.ERROR, 1), BUSY, now_s=1.98)
    (answer,) = conversation.give_up(conversation.late(2.0), 2.0)

    assert str(answer.error).endswith("; the kernel was busy to the end")
    assert [] == conversation.repeat(3.0)


@pytest.mark.parametrize("ended", ["lost", "answered"])
def test_what_has_ended_is_not_repeated(ended: str) -> None:
    """A CALL whose peer is lost, or that was answered after all, is not said again."""
    conversation = Conversation()
    conversation.call(BRAIN, "brain.think", b"", 0.0, None)
    heard(conversation, "", Head(Verb.ERROR, 1), BUSY)
    if ended == "lost":
        heard(conversation, "", Head(Verb.LOST), lost(BRAIN))
    else:
        heard(conversation, BRAIN, Head(Verb.REPLY, 1))

    assert [] == conversation.repeat(9.0)


@pytest.mark.parametrize(
    ("peer", "failure"),
    [(BRAIN, BUSY), ("", Failure("busy", "for ever")), ("", Failure("busy", "x", retry_after_ms=0))],
)
def test_only_the_kernel_postpones(peer: str, failure: Failure) -> None:
    """That a callee itself calls itself busy, or the kernel without saying for how long, is an answer."""
    conversation = Conversation()
    conversation.call(BRAIN, "brain.think", b"", 0.0, None)
    (answer,) = heard(conversation, peer, Head(Verb.ERROR, 1), failure)

    assert isinstance(answer.error, CallFailed)
    assert [] == conversation.repeat(9.0)


@given(
    st.lists(st.tuples(st.none() | st.floats(0.0, 100.0), st.booleans()), max_size=8),
    st.lists(st.floats(0.0, 120.0), max_size=5),
)
def test_nearest_deadline_is_the_earliest_open_one(
    calls: list[tuple[float | None, bool]], times_s: list[float]
) -> None:
    """The cheap look at the clock sees what the thorough one sees."""
    conversation = Conversation()
    for number, (span_s, answered) in enumerate(calls, 1):
        conversation.call(BRAIN, "brain.think", b"", 0.0, span_s)
        if answered:
            heard(conversation, BRAIN, Head(Verb.REPLY, number))
    for time_s in times_s:
        nearest_s = conversation.next_deadline_s()
        expected = nearest_s if nearest_s is not None and nearest_s < time_s else None
        assert expected == conversation.deadline_before(time_s)


def test_loss_settles_calls() -> None:
    """LOST ends all calls to that peer with its reason, and no others."""
    conversation = Conversation()
    first, _ = conversation.call(BRAIN, "brain.join", b"", 0.0, None)
    other, _ = conversation.call(MUSCLE, "muscle.act", b"", 0.0, None)
    second, _ = conversation.call(BRAIN, "brain.think", b"", 0.0, None)
    gone, *answers = heard(conversation, "", Head(Verb.LOST), lost(BRAIN))

    assert Gone(BRAIN, 1, "killed") == gone
    assert [first, second] == [answer.pending for answer in answers]
    assert all(isinstance(answer.error, PeerLost) and answer.error.peer == BRAIN for answer in answers)
    assert [other] == conversation.waits()


def test_loss_of_the_supervisor_settles_calls_to_the_kernel() -> None:
    """Who waits for what the supervisor answers hears of its loss."""
    conversation = Conversation()
    pending, _ = conversation.call("", "kernel.need", b"", 0.0, None)
    _, answer = heard(conversation, "", Head(Verb.LOST), lost("supervisor"))

    assert pending is answer.pending


def test_incarnations_share_no_serial() -> None:
    """A successor's calls cannot be taken for repeats of those before it."""
    serials = []
    for incarnation in (0, 1, 2, 3, 1_000_000):
        conversation = Conversation()
        conversation.begin(incarnation)
        pending, frames = conversation.call(BRAIN, "brain.join", b"", 0.0, None)
        assert pending.serial == decode_head(frames[1]).serial
        serials.append(pending.serial)

    assert 1 == serials[0] == serials[1]
    assert 4 == len(set(serials))
    assert max(serials) < 2**53


def test_who_speaks_is_asked_again_at_once() -> None:
    """What an absent peer is to be asked again is said before all else that follows from its first word."""
    conversation = Conversation()
    _, said = conversation.call(BRAIN, "brain.think", b"", 0.0, None)
    other, _ = conversation.call(MUSCLE, "muscle.act", b"", 0.0, None)
    for peer in (BRAIN, MUSCLE):
        heard(conversation, "", Head(Verb.LOST), Lost(peer, 1, "killed", True))
    assert [] == conversation.repeat(0.01)
    heard(conversation, BRAIN, Head(Verb.TELL, 0, "event"), now_s=0.02)

    assert [tuple(said)] == conversation.repeat(0.02)
    assert other in conversation.waits()


def test_an_answer_that_comes_twice_is_doubted() -> None:
    """Who has said a call twice and is answered twice says the next one again: its answer may have been dropped."""
    conversation = Conversation()
    conversation.call(BRAIN, "brain.think", b"", 0.0, 5.0)
    pending = conversation.waits()[0]
    pending.accused = True
    assert 1 == len(conversation.repeat_all(1.0))
    assert not pending.accused, "that somebody is late was lost with the connection"
    assert 6.0 == conversation.next_deadline_s()
    heard(conversation, BRAIN, Head(Verb.REPLY, 1), now_s=1.0)
    _, said = conversation.call(BRAIN, "brain.think", b"", 1.0, None)
    conversation.call(MUSCLE, "muscle.act", b"", 1.0, None)
    assert [] == heard(conversation, BRAIN, Head(Verb.REPLY, 1), now_s=1.0)
    assert [] == conversation.repeat(1.2)
    assert [tuple(said)] == conversation.repeat(1.25)

    assert [] == heard(conversation, BRAIN, Head(Verb.REPLY, 1), now_s=2.0)
    assert [] == conversation.repeat(9.0)


def test_an_answer_to_a_call_said_once_is_not_doubted() -> None:
    """A second answer of who was asked once is a breach of its own, and changes nothing here."""
    conversation = Conversation()
    conversation.call(BRAIN, "brain.think", b"", 0.0, None)
    heard(conversation, BRAIN, Head(Verb.REPLY, 1))
    conversation.call(BRAIN, "brain.think", b"", 0.0, None)
    heard(conversation, BRAIN, Head(Verb.REPLY, 1))

    assert [] == conversation.repeat(9.0)


# -- answering --------------------------------------------------------------------------------------------------------
def ask(conversation: Conversation, serial: int, call: str = "brain.think", peer: str = MUSCLE) -> Any:
    """Let a CALL come; returns what it means and what is sent at once."""
    return conversation.receive(sent(peer, Head(Verb.CALL, serial, call), b"body"), 0.0)


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


def test_other_calls_and_callers_are_new() -> None:
    """Only the same serial, call and caller is a repeat."""
    conversation = Conversation()
    (request,), _ = ask(conversation, 1)
    conversation.reply(request, b"")

    assert 1 == len(ask(conversation, 1, "brain.join")[0])
    assert 1 == len(ask(conversation, 2)[0])
    assert 1 == len(ask(conversation, 1, peer="farm/muscle/ada/1")[0])


def test_memory_is_bounded() -> None:
    """So many last answers are remembered per caller, and not more."""
    conversation = Conversation()
    for serial in range(1, 100):
        (request,), _ = ask(conversation, serial)
        conversation.reply(request, b"%d" % serial)
    remembered = [serial for serial in range(1, 100) if not ask(conversation, serial)[0]]

    assert list(range(100 - ANSWERS_PER_CALLER, 100)) == remembered


def test_lost_caller_is_forgotten() -> None:
    """After a loss the same serial is another caller's."""
    conversation = Conversation()
    (request,), _ = ask(conversation, 1)
    conversation.reply(request, b"")
    heard(conversation, "", Head(Verb.LOST), lost(MUSCLE))

    assert 1 == len(ask(conversation, 1)[0])


def test_reply_and_error_have_the_caller_s_serial() -> None:
    """An answer goes to who asked, with the serial of the question."""
    conversation = Conversation()
    (request,), _ = ask(conversation, 77)

    assert Request(MUSCLE, Head(Verb.CALL, 77, "brain.think"), b"body", ()) == request
    peer, head, body = conversation.reply(request, b"r")
    assert (MUSCLE.encode(), Head(Verb.REPLY, 77), b"r") == (peer, decode_head(head), body)
    peer, head, body = conversation.fail(request, Failure("k", "m"))
    assert (Head(Verb.ERROR, 77), Failure("k", "m")) == (decode_head(head), codec_of(Failure).decode(body))


# -- everything else --------------------------------------------------------------------------------------------------
def test_beat_is_answered_at_once_and_only_asked_ones() -> None:
    """BEAT is answered here, without anybody's help; its answer is not answered."""
    conversation = Conversation()
    incoming, answers = conversation.receive(sent("", Head(Verb.BEAT, 1)), 0.0)

    assert [] == incoming
    assert [(b"", Head(Verb.BEAT, 0, "here"), b"")] == [(to, decode_head(h), b) for to, h, b in answers]
    assert ([], []) == conversation.receive(sent("", Head(Verb.BEAT, 1, "here")), 0.0)


@pytest.mark.parametrize("verb", [Verb.TELL, Verb.SIGNAL])
def test_what_is_told(verb: Verb) -> None:
    """TELL and SIGNAL are handed on with everything that came."""
    conversation = Conversation()
    incoming, answers = conversation.receive(sent(BRAIN, Head(verb, 0, "event"), b"b", b"c"), 0.0)

    assert ([Told(BRAIN, Head(verb, 0, "event"), b"b", (b"c",))], []) == (incoming, answers)
    to, head, body = conversation.tell(BRAIN, "event", b"b", verb)
    assert (BRAIN.encode(), Head(verb, 0, "event"), b"b") == (to, decode_head(head), body)


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


def test_broken_message_is_blamed_on_its_sender() -> None:
    """What is no message is refused with the name of who sent it; the books are as before."""
    conversation = Conversation()
    pending, _ = conversation.call(BRAIN, "brain.think", b"", 0.0, None)
    with pytest.raises(RemoteProtocolError, match=r"brain.*ada.*head\[1\]"):
        conversation.receive([BRAIN.encode(), b"\x92\x04\xa1x", b""], 0.0)

    assert [pending] == conversation.waits()


@given(st.lists(st.binary(max_size=40), max_size=4))
@settings(max_examples=300)
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
        assert [Gone(self.names[1 - who], 1, "killed", True)] == incoming
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
TestTwoPeers.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
