from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ganglion.errors import CallFailed, DeadlineExceeded, PeerLost, RemoteProtocolError
from ganglion.limits import HANDSHAKE_S, OPEN_CALLS
from ganglion.peer.conversation import Answer, Gone, Leave, Told
from ganglion.peer.participant import DEFERRED, Participant
from ganglion.transport.memory import MemoryBus
from ganglion.wire.codec import Content, codec_of
from ganglion.wire.envelope import Head, decode_head, encode_head, encode_reply
from ganglion.wire.messages import (
    Bye,
    Done,
    EnvironmentReset,
    EnvironmentUpdated,
    Failure,
    FlowSignal,
    Hello,
    MuscleReset,
    Nothing,
    RecordAck,
    Think,
    Thought,
)
from ganglion.wire.name import Role
from ganglion.wire.verb import Verb

A, B = "r/muscle/a/0", "r/muscle/b/0"


@pytest.fixture
def participant(link: Any, clock: Any) -> Iterator[Participant]:
    """Return a participant on the fake link, which has not joined."""
    made = Participant(lambda: link, {}, clock=clock)
    yield made
    made._closed.set()


def leave_when_idle(link: Any) -> None:
    """Let the kernel say BYE as soon as the peer has nothing else to do."""
    link.idle.append(lambda: link.deliver("", Head(Verb.BYE, 5), codec_of(Bye).encode(Bye("done"))))


# -- joining and leaving ----------------------------------------------------------------------------------------------
def test_joining_takes_the_name_of_the_welcome(participant: Participant, link: Any) -> None:
    """Who joins says HELLO and takes name and run from the WELCOME."""
    welcome = participant.join(participant.hello("muscle", "a", "t0ken", 3))

    assert ("r/muscle/a/0", "r", "r/muscle/a/0") == (participant.name, welcome.run, welcome.name)
    assert Hello(1, "muscle", "a", "t0ken", "python", "msgpack", 3, ["beats_in_call"]) == codec_of(Hello).decode(
        link.sent[0].body
    )


def test_refused_joining_says_why(participant: Participant, link: Any) -> None:
    """The kernel's ERROR in answer to HELLO is raised with its message."""
    link.send = lambda frames: link.deliver(
        "", Head(Verb.ERROR, 1), codec_of(Failure).encode(Failure("refused", "the token is wrong"))
    )
    with pytest.raises(RemoteProtocolError, match=r"the kernel refuses 'a': the token is wrong"):
        participant.join(participant.hello("muscle", "a", "?"))

    assert participant.welcome is None


def test_joining_without_an_answer_ends(participant: Participant, link: Any, clock: Any) -> None:
    """A kernel that does not answer HELLO is given up after the span."""
    link.send = lambda frames: None
    with pytest.raises(DeadlineExceeded, match="HELLO"):
        participant.join(participant.hello("muscle", "a", "?"))

    assert 100.0 + HANDSHAKE_S * 5 == clock.now_s


def test_anything_else_than_a_welcome_is_refused(participant: Participant, link: Any) -> None:
    """An answer to HELLO that is neither WELCOME nor ERROR breaks the protocol."""
    link.send = lambda frames: link.deliver("", Head(Verb.BEAT))
    with pytest.raises(RemoteProtocolError, match="expected WELCOME, found BEAT"):
        participant.join(participant.hello("muscle", "a", "?"))


def test_leaving_says_bye_and_closes(participant: Participant, link: Any) -> None:
    """Who leaves says BYE, waits for its answer and closes the link."""
    participant.leave("done")

    assert ([Verb.BYE], True, 0) == ([e.head.verb for e in link.sent], link.closed, len(link.inbox))


def test_leaving_a_dead_kernel_only_closes(participant: Participant, link: Any) -> None:
    """Where the broker is gone already, leaving raises nothing."""
    link.lost = "it died"
    participant.leave()

    assert link.closed


def test_leaving_a_silent_kernel_ends(participant: Participant, link: Any, clock: Any) -> None:
    """A kernel that does not answer BYE is waited for only for a moment."""
    link.send = lambda frames: None
    participant.leave()

    assert link.closed
    assert 100.0 + HANDSHAKE_S <= clock.now_s < 100.0 + HANDSHAKE_S + 0.5


# -- asking -----------------------------------------------------------------------------------------------------------
def test_answers_are_gathered_in_the_order_of_asking(participant: Participant, link: Any) -> None:
    """What arrives last stands first if it was asked first."""
    late = []
    link.answers["brain.think"] = lambda peer, message: late.append(peer)
    first = participant.ask(A, "brain.think", Think(0, 0, 0, [], [], [], [], []), 5.0)
    second = participant.ask(B, "brain.think", Think(1, 0, 0, [], [], [], [], []), 5.0)
    for envelope, update in zip(reversed(link.calls()), ("b", "a"), strict=True):
        link.answer(envelope, Thought(update, True))

    assert ["a", "b"] == [thought.update for thought in participant.gather([first, second])]


def test_collect_returns_blobs(participant: Participant, link: Any) -> None:
    """Blobs of an answer come with its message."""
    link.answers["brain.think"] = lambda peer, message: (Thought(1, True), (b"one", b"two"))
    asked = participant.ask(A, "brain.think", Think(0, 0, 0, [], [], [], [], []), 5.0, None, [b"mine"])

    assert [(Thought(1, True), (b"one", b"two"))] == participant.collect([asked])
    assert (b"mine",) == link.calls()[0].blobs


def test_gathering_nothing_waits_for_nothing(participant: Participant, clock: Any) -> None:
    """No calls have no answers."""
    assert ([], 100.0) == (participant.gather([]), clock.now_s)


def test_the_first_error_to_arrive_is_raised(participant: Participant, link: Any) -> None:
    """Of two failed calls the one whose ERROR comes first counts, whichever was asked first."""
    asked = [participant.ask(peer, "muscle.reset", MuscleReset(1), 5.0) for peer in (A, B)]
    for envelope in reversed(link.calls()):
        link.answer(envelope, Failure("author", f"{envelope.peer} raised"))
    with pytest.raises(CallFailed) as caught:
        participant.gather(asked)

    assert (B, "muscle.reset", "author") == (caught.value.peer, caught.value.call, caught.value.remote_kind)


def test_what_arrives_with_an_error_is_not_lost(link: Any, clock: Any) -> None:
    """What is told right behind an ERROR is still heard, for instance a store's acknowledgement."""
    heard: list[Told] = []
    participant = Participant(lambda: link, {}, told=heard.append, clock=clock)
    asked = participant.ask(A, "muscle.reset", MuscleReset(1), 5.0)
    link.answer(link.calls()[0], Failure("author", "no"))
    participant._busy_since_s = -1000.0
    link.tell("r/store", "record.ack", RecordAck(1))
    while link.inbox:  # as the pulse does while a hook runs for long
        participant._inbox.extend(participant._read(link.receive(0.0)))
    with pytest.raises(CallFailed):
        participant.gather([asked])
    participant.pump(0.1)

    assert ["record.ack"] == [told.head.call for told in heard]


def test_another_failure_of_those_asked_together_does_not_spin(participant: Participant, link: Any) -> None:
    """The second ERROR of calls that were gathered is nobody's any more: later waits do not trip over it."""
    asked = [participant.ask(peer, "muscle.reset", MuscleReset(1), 5.0) for peer in (A, B)]
    for envelope in link.calls():
        link.answer(envelope, Failure("author", f"{envelope.peer} raised"))
    with pytest.raises(CallFailed):
        participant.gather(asked)
    later = participant.ask(A, "muscle.reset", MuscleReset(2), 5.0)
    link.idle.append(lambda: link.answer(link.calls()[-1], Done()))
    participant.pump(0.5)

    assert [Done()] == participant.gather([later])


def test_a_late_answer_is_dropped(participant: Participant, link: Any, clock: Any) -> None:
    """An answer that comes after its deadline is no answer to anything."""
    asked = participant.ask(A, "muscle.reset", MuscleReset(1), 5.0)
    with pytest.raises(DeadlineExceeded) as caught:
        participant.gather([asked])
    link.answer(link.calls()[0], Done())
    link.answers["muscle.reset"] = lambda peer, message: Done()

    assert (A, 105.0) == (caught.value.peer, clock.now_s)
    assert "waited 5.0 s in vain for muscle a (worker 0) to answer muscle.reset" == str(caught.value)
    assert Done() == participant.call(A, "muscle.reset", MuscleReset(2), 5.0)


def test_no_deadline_waits_on(participant: Participant, link: Any, clock: Any) -> None:
    """A call without a span is answered however late."""
    asked = participant.ask(A, "muscle.reset", MuscleReset(1), None)
    link.idle.extend([lambda: setattr(clock, "now_s", 50_000.0), lambda: link.answer(link.calls()[0], Done())])

    assert [Done()] == participant.gather([asked])


def test_a_busy_kernel_is_asked_again(participant: Participant, link: Any, clock: Any) -> None:
    """Who asks gets his answer although the kernel was busy twice, and learns nothing of that."""
    busy = Failure("busy", "too much waits", retry_after_ms=50)
    asked = participant.ask(A, "muscle.reset", MuscleReset(1), 5.0)

    def wait() -> None:
        clock.now_s += 0.05

    def refuse() -> None:
        link.deliver("", Head(Verb.ERROR, asked.serial), codec_of(Failure).encode(busy))

    link.idle.extend([refuse, wait, refuse, wait])
    link.idle.append(lambda: link.answer(link.calls()[-1], Done()))

    assert [Done()] == participant.gather([asked])
    assert [asked.serial] * 3 == [call.head.serial for call in link.calls()]


class SlowBrain:
    """Be a muscle's link to a broker in memory; the brain answers when nothing is left to read, and time passes."""

    def __init__(self) -> None:
        self.bus = MemoryBus()
        for name, role in (("r/muscle/a/0", Role.MUSCLE), ("r/brain/a", Role.BRAIN)):
            self.bus.admit(name, role, "r", name, uid="a", worker=0)
        self._link, self._brain = self.bus.connect(), self.bus.connect()
        hello = codec_of(Hello).encode(Hello(1, "brain", "r/brain/a", "r/brain/a"))
        self._brain.send([b"", encode_head(Head(Verb.HELLO, 1)), hello])
        self.send = self._link.send
        self.close = self._link.close
        self.asked: list[int] = []

    def receive(self, timeout_s: float | None) -> list[bytes] | None:
        """Return what has come, or let the brain answer all that has reached it."""
        frames = self._link.receive()
        if frames is None:
            while asked := self._brain.receive():
                head = decode_head(asked[1])
                if head.verb is Verb.CALL:
                    self.asked.append(head.serial)
                    self._brain.send([asked[0], encode_reply(head.serial), codec_of(Thought).encode(Thought())])
            self.bus.now_s += 0.05
        return frames


def test_more_calls_than_may_be_open() -> None:
    """Who asks more than may be open at once gets all answers: the broker refuses some, the library repeats them."""
    link = SlowBrain()
    muscle = Participant(lambda: link, {}, clock=lambda: link.bus.now_s, pulse=False)
    muscle.join(muscle.hello("muscle", "r/muscle/a/0", "r/muscle/a/0"))
    asked = [muscle.ask("r/brain/a", "brain.policy", Nothing(), 5.0) for _ in range(3 * OPEN_CALLS)]

    assert [Thought()] * 3 * OPEN_CALLS == muscle.gather(asked)
    assert sorted(pending.serial for pending in asked) == sorted(link.asked)  # each once


def test_a_lost_callee_fails_its_calls(link: Any, clock: Any) -> None:
    """LOST of whom we wait for ends the wait at once, by name and reason, and is heard."""
    gone: list[Gone] = []
    participant = Participant(lambda: link, {}, gone=gone.append, clock=clock)
    asked = participant.ask(A, "muscle.reset", MuscleReset(1), 5.0)
    link.lose(A, "killed by signal 9")
    with pytest.raises(PeerLost) as caught:
        participant.gather([asked])

    assert (A, "killed by signal 9", 100.0) == (caught.value.peer, caught.value.reason, clock.now_s)
    assert [Gone(A, 1, "killed by signal 9")] == gone


def test_requests_wait_while_answers_are_awaited(link: Any, clock: Any) -> None:
    """A request that comes during a wait is answered after it; what is told is heard at once."""
    order: list[str] = []

    def handle(request: Any, message: Any) -> Done:
        order.append("request")
        return Done()

    participant = Participant(
        lambda: link, {"muscle.reset": handle}, told=lambda told: order.append("told"), clock=clock
    )
    asked = participant.ask(A, "environment.reset", EnvironmentReset(1, 0), 5.0)
    link.request("r/controller/0", "muscle.reset", MuscleReset(1), 77)
    link.tell("r/governor", "", FlowSignal("RESET", "operator"), Verb.SIGNAL)
    link.answer(link.calls()[0], EnvironmentUpdated([], []))
    participant.gather([asked])
    order.append("answer")
    leave_when_idle(link)
    participant.serve()

    assert (["told", "answer", "request"], Done()) == (order, link.replied(77))


def test_bodies_travel_as_the_peer_wants_them(participant: Participant, link: Any) -> None:
    """A peer that joined with JSON is asked in JSON."""
    participant.contents[A] = Content.JSON
    participant.ask(A, "muscle.reset", MuscleReset(3), 5.0)

    assert b'{"episode":3}' == link.calls()[0].body


def test_waits_are_told(participant: Participant, link: Any) -> None:
    """A wait without any progress is told on the topic of the run after two seconds, then after twice as long."""
    participant.join(participant.hello("muscle", "a", "?"))
    asked = participant.ask("r/brain/a", "brain.think", Think(0, 4, 0, [], [], [], [], []), 9.0, (0, 0, 4, 0, 17, 0))
    with pytest.raises(DeadlineExceeded):
        participant.gather([asked])
    told = link.told("event")

    assert {"@r/waits"} == {peer for peer, _ in told}
    assert [
        "waiting 2.0 s for brain a to answer brain.think (episode 4, step 17); gives up in 7.0 s",
        "waiting 6.0 s for brain a to answer brain.think (episode 4, step 17); gives up in 3.0 s",
    ] == [event.fields["text"] for _, event in told]
    assert {"r/muscle/a/0"} == {event.fields["name"] for _, event in told}


def test_short_waits_are_not_told(participant: Participant, link: Any) -> None:
    """What is answered within two seconds is nobody's news."""
    participant.join(participant.hello("muscle", "a", "?"))
    asked = participant.ask(A, "muscle.reset", MuscleReset(1), 9.0)
    link.idle.append(lambda: link.answer(link.calls()[0], Done()))
    participant.gather([asked])

    assert [] == link.told("event")


# -- pumping ----------------------------------------------------------------------------------------------------------
def test_pumping_hears_what_is_told_although_a_request_waits(link: Any, clock: Any) -> None:
    """A request in the inbox does not keep the link from being read: who pumps waits for what is told."""
    heard: list[Told] = []
    participant = Participant(lambda: link, {}, told=heard.append, clock=clock)
    link.request("r/controller/0", "muscle.reset", MuscleReset(1), 77)
    participant.pump(1.0)
    link.tell("r/store", "record.ack", RecordAck(1))
    participant.pump(1.0)

    assert ["record.ack"] == [told.head.call for told in heard]


def test_pumping_hears_what_the_pulse_has_read(link: Any, clock: Any) -> None:
    """What came while a hook ran for long is heard by the next pump."""
    heard: list[Told] = []
    participant = Participant(lambda: link, {}, told=heard.append, clock=clock)
    link.tell("r/store", "record.ack", RecordAck(1))
    participant._inbox.extend(participant._read(link.receive(0.0)))
    participant.pump(1.0)

    assert (["record.ack"], 100.0) == ([told.head.call for told in heard], clock.now_s)


def test_pumping_waits_for_the_span(participant: Participant, clock: Any) -> None:
    """Where nothing comes, pumping ends after its span."""
    participant.pump(0.5)

    assert 100.5 == clock.now_s


def test_a_request_that_waits_does_not_shorten_pumping(link: Any, clock: Any) -> None:
    """With a request in the inbox pumping still sleeps: nobody spins."""
    participant = Participant(lambda: link, {}, clock=clock)
    link.request("r/controller/0", "muscle.reset", MuscleReset(1), 77)
    participant.pump(1.0)
    before_s = clock.now_s
    participant.pump(1.0)

    assert 1.0 == clock.now_s - before_s


def test_a_bye_that_waits_is_seen(participant: Participant, link: Any) -> None:
    """Who stands in a wait can see that it is told to leave."""
    before = participant.told_to_leave()
    leave_when_idle(link)
    participant.pump(1.0)

    assert (False, True) == (before, participant.told_to_leave())


# -- serving ----------------------------------------------------------------------------------------------------------
def test_serving_ends_with_the_reason_of_bye(participant: Participant, link: Any) -> None:
    """BYE of the kernel ends serving and says why."""
    leave_when_idle(link)

    assert Leave("done", serial=5) == participant.serve()


def test_serving_ends_when_the_kernel_ends_the_connection(participant: Participant, link: Any) -> None:
    """An ERROR of the kernel about nothing in particular ends serving as refused."""
    failure = codec_of(Failure).encode(Failure("protocol", "too deep"))
    link.deliver("", Head(Verb.ERROR, 0), failure)

    assert Leave("protocol: too deep", refused=True) == participant.serve()


def test_serving_raises_when_the_broker_is_gone(participant: Participant, link: Any) -> None:
    """Where there is nobody to serve any more, PeerLost ends it."""
    link.lost = "it closed the connection"

    with pytest.raises(PeerLost, match="it closed the connection"):
        participant.serve()


def test_serving_ticks(participant: Participant, link: Any) -> None:
    """The tick comes after each message and after each idle span."""
    ticks: list[float] = []
    link.idle.extend([lambda: None, lambda: None])
    leave_when_idle(link)
    participant.serve(lambda: ticks.append(participant.clock()), 0.25)

    assert [100.25, 100.5, 100.5] == ticks


def test_beats_are_answered(participant: Participant, link: Any) -> None:
    """BEAT is answered, an answer to BEAT is not."""
    link.deliver("", Head(Verb.BEAT))
    link.deliver("", Head(Verb.BEAT, 0, "here"))
    leave_when_idle(link)
    participant.serve()

    assert [(Verb.BEAT, "here")] == [(e.head.verb, e.head.call) for e in link.sent]


def test_an_unknown_call_is_answered(participant: Participant, link: Any) -> None:
    """A call that no handler takes is answered with the names of those that there are."""
    made = Participant(lambda: link, {"muscle.act": lambda request, act: DEFERRED}, clock=participant.clock)
    link.request("r/controller/0", "environment.shutdown", Nothing(), 77)
    leave_when_idle(link)
    made.serve()

    assert Failure("unknown_call", "expected one of muscle.act, found 'environment.shutdown'") == link.replied(77)


def test_a_body_that_does_not_fit_is_answered(link: Any, clock: Any) -> None:
    """A request whose body is not of its call is answered with the path of what is wrong; nothing is called."""
    called: list[Any] = []
    made = Participant(lambda: link, {"muscle.reset": lambda request, it: called.append(it)}, clock=clock)
    link.deliver("r/controller/0", Head(Verb.CALL, 77, "muscle.reset"), b"\x81\xa7episode\xa1x")
    leave_when_idle(link)
    made.serve()

    assert ("protocol", []) == (link.replied(77, "muscle.reset").kind, called)


def test_what_a_handler_raises_is_answered_and_shown(link: Any, clock: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """The caller gets the failure, the process's output the traceback, `on_failure` both."""

    def handle(request: Any, message: Any) -> Done:
        raise ValueError("no such thing")

    noted: list[tuple[str, Failure]] = []
    made = Participant(lambda: link, {"muscle.reset": handle}, clock=clock)
    made.on_failure = lambda call, failure: noted.append((call, failure))
    link.request("r/controller/0", "muscle.reset", MuscleReset(1), 77)
    leave_when_idle(link)
    made.serve()
    failure = link.replied(77)

    assert ("internal", "ValueError: no such thing") == (failure.kind, failure.message)
    assert [("muscle.reset", failure)] == noted
    assert failure.traceback in capsys.readouterr().err


def test_a_deferred_request_is_answered_later(link: Any, clock: Any) -> None:
    """DEFERRED answers nothing; `reply` does, when the time has come."""
    kept: list[Any] = []

    def handle(request: Any, message: Any) -> Any:
        kept.append(request)
        return DEFERRED

    made = Participant(lambda: link, {"muscle.reset": handle}, clock=clock)
    link.request("r/controller/0", "muscle.reset", MuscleReset(1), 77)
    leave_when_idle(link)
    made.serve()
    before = link.replied(77)
    made.reply(kept[0], Done())

    assert (None, Done()) == (before, link.replied(77))


def test_a_repeated_request_is_answered_from_memory(link: Any, clock: Any) -> None:
    """A repeat of an answered request is not executed again, and gets the same answer."""
    count: list[int] = []

    def handle(request: Any, message: Any) -> Done:
        count.append(message.episode)
        return Done()

    made = Participant(lambda: link, {"muscle.reset": handle}, clock=clock)
    for _ in range(3):
        link.request("r/controller/0", "muscle.reset", MuscleReset(1), 77)
    leave_when_idle(link)
    made.serve()

    assert ([1], [Verb.REPLY] * 3) == (count, [e.head.verb for e in link.sent])


def test_the_loss_of_somebody_else_within_a_handler_is_answered(link: Any, clock: Any) -> None:
    """A handler that waits for a peer which is lost fails its request by that peer's name, and serving goes on."""
    made: Participant

    def handle(request: Any, message: Any) -> Done:
        link.lose("r/brain/a", "exit 1")
        made.call("r/brain/a", "brain.think", Think(0, 0, 0, [], [], [], [], []), 5.0)
        return Done()

    made = Participant(lambda: link, {"muscle.reset": handle}, clock=clock)
    link.request("r/controller/0", "muscle.reset", MuscleReset(1), 77)
    leave_when_idle(link)
    made.serve()

    assert ("lost", {"peer": "r/brain/a"}) == (link.replied(77).kind, link.replied(77).data)


def test_who_acts_on_an_answer_is_at_work(link: Any, clock: Any) -> None:
    """What an answer or a telling sets off may take long: the pulse reads meanwhile, as for requests."""
    since: list[float | None] = []
    made = Participant(lambda: link, {}, told=lambda _: since.append(made.works_since_s()), clock=clock)
    made.on_answer = lambda _: since.append(made.works_since_s())
    made.ask(A, "muscle.reset", MuscleReset(1), 5.0)
    link.answer(link.calls()[0], Done())
    link.tell(A, "record.ack", RecordAck(1))
    leave_when_idle(link)
    made.serve()

    assert [clock.now_s] * 2 == since
    assert made.works_since_s() is None


def test_unanswered_calls_of_a_served_peer_go_to_on_answer(link: Any, clock: Any) -> None:
    """Who does not gather gets each answer, also that of a deadline, by `on_answer`."""
    answers: list[Answer] = []
    made = Participant(lambda: link, {}, clock=clock)
    made.on_answer = answers.append
    made.ask(A, "muscle.reset", MuscleReset(1), 0.5)
    made.ask(B, "muscle.reset", MuscleReset(1), 5.0)
    link.answer(link.calls()[1], Done())
    link.idle.append(lambda: None)
    leave_when_idle(link)
    made.serve()

    assert [(B, None), (A, DeadlineExceeded)] == [
        (a.pending.peer, None if a.error is None else type(a.error)) for a in answers
    ]
