from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import pytest
from fakepeer import MemoryReel

from ganglion.errors import DeadlineExceeded, PeerLost
from ganglion.peer.journal import Tape, TapeDiffers
from ganglion.peer.participant import Participant
from ganglion.transport.memory import MemoryBus
from ganglion.wire.codec import codec_of
from ganglion.wire.envelope import Head, decode_head
from ganglion.wire.messages import Bye, Done, Failure, MuscleReset, Overdue, Thought, UpdateAsked
from ganglion.wire.name import Role
from ganglion.wire.verb import Verb

A = "r/muscle/a/0"


def leave_when_idle(link: Any) -> None:
    """Let the kernel say BYE as soon as the peer has nothing else to do."""
    link.idle.append(lambda: link.deliver("", Head(Verb.BYE, 5), codec_of(Bye).encode(Bye("done"))))


class _Dies(BaseException):
    """End a process in the middle of what it does."""


class MortalLink:
    """Be a fake link that ends its process at its n-th CALL or REPLY: before it is sent, or after."""

    def __init__(self, link: Any, place: int, sent: bool) -> None:
        self.link, self.place, self.sent = link, place, sent

    def send(self, frames: Any) -> None:
        """Send, unless this is the end."""
        counts = decode_head(bytes(frames[1])).verb in (Verb.CALL, Verb.REPLY)
        self.place -= counts
        if counts and self.place < 0 and not self.sent:
            raise _Dies
        self.link.send(frames)
        if counts and self.place < 0:
            raise _Dies

    def receive(self, timeout_s: float | None) -> list[bytes] | None:
        """Receive."""
        found: list[bytes] | None = self.link.receive(timeout_s)
        return found

    def close(self) -> None:
        """Close."""


class Worker:
    """Answer `muscle.reset` with what `think` says, summed up over all episodes."""

    def __init__(self, connect: Any, clock: Any, reel: MemoryReel) -> None:
        self.total, self.returns = 0, 0
        handlers = {"muscle.reset": self.reset, "muscle.shutdown": lambda request, it: Done()}
        self.participant = Participant(connect, handlers, clock=clock, pulse=False, tape=Tape(reel))
        self.participant.on_return = self.come_back

    def live(self) -> None:
        """Join and serve."""
        self.participant.join(self.participant.hello("muscle", "a", "t"))
        self.participant.serve()

    def reset(self, request: Any, reset: MuscleReset) -> Done:
        """Ask twice, and sum up."""
        for step in range(2):
            asked = UpdateAsked(0, 10 * reset.episode + step)
            thought = self.participant.call(A, "brain.update", asked, 5.0, (0, 0, reset.episode, 0, step, 0))
            self.total = 3 * self.total + thought.signal["n"]
        return Done()

    def come_back(self) -> None:
        """Count."""
        self.returns += 1


def brain_of(link: Any) -> list[int]:
    """Let a link answer updates by their round, each serial once; return the serials that were executed."""
    seen: dict[int, Thought] = {}
    executed: list[int] = []

    def update(peer: str, asked: UpdateAsked) -> Thought:
        serial = link.sent[-1].head.serial
        if serial not in seen:
            executed.append(asked.round)
            seen[serial] = Thought(signal={"n": asked.round})
        return seen[serial]

    link.answers["brain.update"] = update
    return executed


def requests(link: Any, episodes: Iterable[int] = (0, 1, 2)) -> None:
    """Let these episodes be asked for once the peer has joined, then let it leave."""

    def ask(episodes: Iterable[int]) -> None:
        for episode in episodes:
            link.request("r/controller/0", "muscle.reset", MuscleReset(episode), 70 + episode)

    link.idle.append(lambda: ask(episodes))
    leave_when_idle(link)


def test_successor_that_does_otherwise_ends(link: Any, clock: Any) -> None:
    """Who does not do again what is on the tape ends by name and place, and has said nothing."""
    brain_of(link)
    requests(link)
    reel = MemoryReel()
    with pytest.raises(_Dies):
        Worker(lambda: MortalLink(link, 6, True), clock, reel).live()
    before = len(link.sent)
    other = Worker(lambda: link, clock, reel)
    other.participant._handlers = {"muscle.reset": lambda request, it: Done()}

    with pytest.raises(TapeDiffers, match=r"muscle\.reset it says muscle\.reset otherwise"):
        other.live()
    assert before == len(link.sent)


@pytest.mark.parametrize("helps", [True, False])
def test_who_is_late_is_accused_before_the_call_fails(link: Any, clock: Any, helps: bool) -> None:
    """With a tape a deadline is told to the supervisor: what it sees to is waited for, else the call fails."""
    answer = Done() if helps else Failure("refused", "not mine")
    link.answers["kernel.overdue"] = lambda peer, overdue: answer
    worker = Worker(lambda: link, clock, MemoryReel())
    worker.participant.join(worker.participant.hello("muscle", "a", "t"))
    asked = worker.participant.ask(A, "brain.update", UpdateAsked(0, 0), 5.0)
    if helps:
        late = [lambda: setattr(clock, "now_s", clock.now_s + 6.0)] * 3
        link.idle.extend([*late, lambda: link.answer(link.calls("brain.update")[0], Thought(signal={"n": 3}))])
        assert {"n": 3} == worker.participant.gather([asked])[0].signal
    else:
        with pytest.raises(DeadlineExceeded, match=r"brain\.update"):
            worker.participant.gather([asked])
    assert ("", Overdue(A, "brain.update", pytest.approx(5.0, abs=7.0))) == link.asked("kernel.overdue")[0]


def test_lost_broker_is_waited_out(link: Any, clock: Any) -> None:
    """With a tape a peer that loses the broker connects again, joins, repeats what is open, and tells its host."""
    links = [type(link)(clock), type(link)(clock)]
    brain_of(links[1])
    made = iter([links[0], None, links[1]])
    pauses: list[float] = []

    def connect() -> Any:
        found = next(made)
        if found is None:
            raise PeerLost("broker", "nobody listens")
        return found

    worker = Worker(connect, clock, MemoryReel())
    worker.participant._pause = pauses.append
    worker.participant.join(worker.participant.hello("muscle", "a", "t"))
    asked = worker.participant.ask(A, "brain.update", UpdateAsked(0, 4), 5.0)
    links[0].lost = "killed"

    assert {"n": 4} == worker.participant.gather([asked])[0].signal
    assert 1 == worker.returns
    assert 1 == len(pauses)
    assert links[0].calls("brain.update")[0] == links[1].calls("brain.update")[0]


@pytest.mark.parametrize("says", [True, False])
def test_how_somebody_ends_who_has_lost_his_place_is_on_no_tape(link: Any, clock: Any, says: bool) -> None:
    """Who may not come back tries it once, and whatever he does then is not for his successor to do again."""
    links = [type(link)(clock), type(link)(clock)]
    stale = codec_of(Failure).encode(Failure("incarnation", "r/muscle/a/0 is at 2, found the stale 1"))
    links[1].send = lambda frames: links[1].deliver("", Head(Verb.ERROR, 1), stale)
    made, reel = iter(links), MemoryReel()
    participant = Worker(lambda: next(made), clock, reel).participant
    participant.join(participant.hello("muscle", "a", "t"))
    participant.ask(A, "brain.update", UpdateAsked(0, 4), 5.0)
    links[0].lost = "killed"
    before = bytes(reel.data)
    with pytest.raises(PeerLost, match="stale") as lost:
        participant.pump(1.0)

    say = partial(participant.ask, A, "brain.update", UpdateAsked(0, 5), 5.0)
    for _ in range(2):
        with pytest.raises(PeerLost) as again:
            say() if says else participant.pump(1.0)
        assert lost.value is again.value
    assert before == bytes(reel.data)


def test_who_joins_while_the_broker_is_lost_tries_again(clock: Any) -> None:
    """Whoever hears no answer to his first HELLO says it to the next broker, also where the former one has heard it."""
    bus, token = MemoryBus("s" * 43), "t" * 43
    bus.admit(A, Role.MUSCLE, "r", token, returns=True)
    former: list[Any] = []

    class Deaf:
        """Be a link whose WELCOME is lost."""

        def __init__(self) -> None:
            former.append(bus.connect())
            self.send, self.close = former[0].send, lambda linger_s=0.5: None

        def receive(self, timeout_s: float | None) -> Any:
            """Hear that the broker is gone."""
            raise PeerLost("broker", "it has ended")

    pauses: list[float] = []

    def pause(span_s: float) -> None:
        pauses.append(span_s)
        if len(pauses) == 2:  # so long the name is taken
            former[0].close()

    participant = Participant(
        lambda: bus.connect() if former else Deaf(), {}, clock=clock, pulse=False, tape=Tape(MemoryReel()), pause=pause
    )
    participant.join(participant.hello("muscle", A, token, 1))

    assert 2 == len(pauses)
    assert {A} == set(bus.exchange.broker.joined)
    assert participant.welcome is not None


def test_a_base_is_not_passed_by(link: Any, clock: Any) -> None:
    """Who does not stand where its predecessor went on from a state differs; nothing is begun anew that is open."""
    brain_of(link)
    reel = MemoryReel()
    requests(link, [0])
    first = Worker(lambda: link, clock, reel)
    first.participant.join(first.participant.hello("muscle", "a", "t"))
    assert not first.participant.rebase(1)  # nobody has stood yet
    link.request("r/controller/0", "muscle.reset", MuscleReset(0), 70)
    first.participant._inbox.extend(first.participant._receive(0.1, None))
    first.participant.stand()
    assert not first.participant.rebase(1)
    first.participant._take(first.participant._inbox.popleft())
    first.participant.stand()
    assert first.participant.rebase(1)
    second = Worker(lambda: link, clock, reel)

    with pytest.raises(TapeDiffers, match="it does more than before"):
        second.live()
