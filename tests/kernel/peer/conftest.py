"""The other side of a participant: a link that answers by a script, a clock that jumps, hosts that stand on both."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest

from ganglion import registry
from ganglion.errors import PeerLost
from ganglion.peer.controller import ControllerHost
from ganglion.peer.conversation import Request
from ganglion.peer.participant import DEFERRED, Participant
from ganglion.peer.records import declaration_rows, pack
from ganglion.peer.spool import Episode as Spooled
from ganglion.peer.spool import Source, Spool
from ganglion.sdk.controller import Controller
from ganglion.sdk.mode import Mode
from ganglion.sdk.seed import words
from ganglion.sdk.spaces import Box, Discrete, Space
from ganglion.testing.stage import Classes
from ganglion.transport.memory import MemoryBus
from ganglion.wire.codec import codec_of
from ganglion.wire.envelope import Envelope, Head, decode, encode
from ganglion.wire.messages import (
    CALL_BY_NAME,
    Act,
    Acted,
    Boundary,
    BrainPretrain,
    ControllerReady,
    ControllerSetup,
    ControllerStart,
    Done,
    EnvironmentDeclared,
    EnvironmentUpdated,
    EpisodeEnded,
    Failure,
    Go,
    Lost,
    RecordAck,
    RecordBatch,
    RunEvent,
    Stands,
    Verdict,
    Welcome,
    WorkerFailed,
)
from ganglion.wire.name import Role
from ganglion.wire.verb import Verb

STREAM = words(1, ["test"])
WAIT_S = 10.0  # nothing here takes so long unless it is broken
_BODIES: dict[str, type[Any]] = {"record.batch": RecordBatch, "record.ack": RecordAck, "event": RunEvent}


class FakeClock:
    """Be a clock that only jumps, to the end of a wait for nothing."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class FakeLink:
    """Be the bus and everybody on it: a CALL is answered by the function that `answers` has for it, at once.

    The function takes the peer's name and the message, and returns a message, a message with blobs, a Failure, or
    None for no answer. `idle` holds what happens when the peer waits for nothing: one function per wait. Without one
    the clock jumps to the end of the wait.
    """

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.inbox: deque[list[bytes]] = deque()
        self.sent: list[Envelope] = []
        self.answers: dict[str, Callable[[str, Any], Any]] = {}
        self.idle: deque[Callable[[], Any]] = deque()
        self.lost = ""
        self.closed = False
        self._calls: dict[int, str] = {}
        self._ends_s = clock.now_s + 100_000.0

    # -- the peer's side ----------------------------------------------------------------------------------------------
    def send(self, frames: Sequence[bytes]) -> None:
        """Take a message of the peer."""
        if self.lost:
            raise PeerLost("broker", self.lost)
        envelope = decode([bytes(frame) for frame in frames])
        self.sent.append(envelope)
        head = envelope.head
        if head.verb is Verb.HELLO:
            welcome = Welcome(1, "r/muscle/a/0", 0, 0.5, 1.5, {}, "r", 0)
            self.deliver("", Head(Verb.WELCOME, head.serial), codec_of(Welcome).encode(welcome))
        elif head.verb is Verb.BYE:
            self.deliver("", Head(Verb.BYE, head.serial))
        elif head.verb is Verb.CALL and head.call in self.answers:
            call = CALL_BY_NAME[head.call]
            answer = self.answers[head.call](envelope.peer, codec_of(call.request).decode(envelope.body))
            self.answer(envelope, answer)

    def receive(self, timeout_s: float | None) -> list[bytes] | None:
        """Return what has been delivered; else let the next idle event happen, or the clock jump."""
        if not self.inbox and self.idle and timeout_s:
            self.idle.popleft()()
        if self.inbox:
            return self.inbox.popleft()
        if self.lost:
            raise PeerLost("broker", self.lost)
        self.clock.now_s += timeout_s or 0.0
        assert self.clock.now_s < self._ends_s, "it waits for ever"
        return None

    def close(self) -> None:
        """Note that the peer has closed."""
        self.closed = True

    # -- the test's side ----------------------------------------------------------------------------------------------
    def deliver(self, peer: str, head: Head, body: bytes = b"", *blobs: bytes) -> None:
        """Put a message into the peer's inbox."""
        self.inbox.append(encode(Envelope(peer, head, body, tuple(blobs))))

    def answer(self, asked: Envelope, answer: Any) -> None:
        """Answer a CALL of the peer."""
        if answer is None:
            return
        if isinstance(answer, Failure):
            head = Head(Verb.ERROR, asked.head.serial)
            self.deliver(asked.peer, head, codec_of(Failure).encode(answer))
            return
        message, blobs = answer if isinstance(answer, tuple) else (answer, ())
        body = codec_of(CALL_BY_NAME[asked.head.call].reply).encode(message)
        self.deliver(asked.peer, Head(Verb.REPLY, asked.head.serial), body, *blobs)

    def request(self, peer: str, call: str, message: Any, serial: int) -> None:
        """Let somebody call the peer."""
        self._calls[serial] = call
        body = codec_of(CALL_BY_NAME[call].request).encode(message)
        self.deliver(peer, Head(Verb.CALL, serial, call), body)

    def tell(
        self, peer: str, name: str, message: Any, verb: Verb = Verb.TELL, blobs: Sequence[bytes] = ()
    ) -> None:
        """Let somebody tell the peer something."""
        self.deliver(peer, Head(verb, 0, name), codec_of(type(message)).encode(message), *blobs)

    def lose(self, peer: str, reason: str = "exit 9") -> None:
        """Let the kernel say that a peer is lost."""
        self.deliver("", Head(Verb.LOST), codec_of(Lost).encode(Lost(peer, 1, reason)))

    def asked(self, call: str) -> list[tuple[str, Any]]:
        """Return the CALLs of this name so far: whom, and with which message."""
        codec = codec_of(CALL_BY_NAME[call].request)
        return [(e.peer, codec.decode(e.body)) for e in self.calls(call)]

    def calls(self, call: str | None = None) -> list[Envelope]:
        """Return the CALLs of the peer so far."""
        return [e for e in self.sent if e.head.verb is Verb.CALL and call in (None, e.head.call)]

    def told(self, name: str) -> list[tuple[str, Any]]:
        """Return the TELLs of this name so far: to whom, and what."""
        return [
            (e.peer, codec_of(_BODIES[name]).decode(e.body))
            for e in self.sent
            if e.head.verb is Verb.TELL and e.head.call == name
        ]

    def replied(self, serial: int, call: str = "") -> Any:
        """Return the answer to a request, None if there is none yet."""
        for e in self.sent:
            if e.head.serial == serial and e.head.verb is Verb.ERROR:
                return codec_of(Failure).decode(e.body)
            if e.head.serial == serial and e.head.verb is Verb.REPLY:
                return codec_of(CALL_BY_NAME[call or self._calls[serial]].reply).decode(e.body)
        return None


class Hosted:
    """Stand a host on a participant on a fake link; `ask` calls its handlers as the wire would."""

    def __init__(self, host: Any) -> None:
        self.host = host
        self.clock = FakeClock()
        self.link = FakeLink(self.clock)
        told, gone = getattr(host, "told", None), getattr(host, "gone", None)
        self.participant = Participant(lambda: self.link, host.handlers(), told, gone, self.clock)
        host.participant = self.participant
        self.serial = 1000

    def ask(self, call: str, message: Any, peer: str = "r/controller/0", *blobs: bytes) -> Any:
        """Return the answer of a handler; what it raises passes through. A deferred answer is its serial."""
        self.serial += 1
        row = CALL_BY_NAME[call]
        body = codec_of(row.request).encode(message)
        request = Request(peer, Head(Verb.CALL, self.serial, call), body, tuple(blobs))
        reply = self.host.handlers()[call](request, codec_of(row.request).decode(body))
        if reply is DEFERRED:
            return self.serial
        return codec_of(row.reply).decode(codec_of(row.reply).encode(reply))


class StandingPeer:
    """Be a participant whose tape is begun anew at every stand; keeps the state and the warnings."""

    recorded = tapes = idle = portraits = True
    size_bytes = 0

    def __init__(self, name: str, state: bytes | None = None) -> None:
        self.state, self.warnings = state, list[str]()
        self.welcome, self.name = None, name

    def clock(self) -> float:
        """Return ever later times."""
        return float(self.tape_bytes)

    @property
    def tape_bytes(self) -> int:
        """Return ever more bytes."""
        self.size_bytes += 1 << 30
        return self.size_bytes

    def stand(self, anew: bool = False) -> bytes | None:
        """Return what a predecessor left."""
        return self.state

    def rebase(self, state: bytes) -> bool:
        """Keep a state."""
        self.state = state
        return True

    def warn(self, text: str) -> None:
        """Keep a warning."""
        self.warnings.append(text)

    def tell(self, *args: Any, **more: Any) -> None:
        """Say nothing."""


class ThreadLink:
    """Be one peer's link to a bus in memory that threads share."""

    def __init__(self, bus: MemoryBus, change: threading.Condition) -> None:
        self._change = change
        with change:
            self._link = bus.connect()

    def send(self, frames: Sequence[bytes]) -> None:
        """Send one message."""
        with self._change:
            self._link.send(frames)
            self._change.notify_all()

    def receive(self, timeout_s: float | None) -> list[bytes] | None:
        """Return one message, or None after `timeout_s`."""
        link = self._link
        with self._change:
            self._change.wait_for(lambda: link.pending() or link._sink.ended, timeout_s)
            return link.receive()

    def close(self) -> None:
        """Close the link."""
        with self._change:
            self._link.close()
            self._change.notify_all()


class Crowd:
    """Join hosts to one broker in memory, each served by a thread of its own, and send them home at the end."""

    def __init__(self) -> None:
        self.bus = MemoryBus("supervisor")
        self.change = threading.Condition(threading.RLock())
        self.failures: list[BaseException] = []
        self._threads: list[threading.Thread] = []
        self._done = threading.Event()
        self.supervisor = Participant(lambda: ThreadLink(self.bus, self.change), {})
        self.supervisor.join(Participant.hello("supervisor", "supervisor", "supervisor"))
        self._members: list[Participant] = [self.supervisor]

    def add(
        self, host: Any, name: str, role: Role, uid: str | None = None, worker: int | None = None
    ) -> Participant:
        """Admit a host under a name, join it, serve it in a thread."""
        with self.change:
            self.bus.admit(name, role, "r", name, uid=uid, worker=worker)
        told, gone = getattr(host, "told", None), getattr(host, "gone", None)
        member = Participant(lambda: ThreadLink(self.bus, self.change), host.handlers(), told, gone)
        host.participant = member
        member.join(Participant.hello(role.value, name, name))
        thread = threading.Thread(target=self._serve, args=(member, host), name=name, daemon=True)
        thread.start()
        self._members.append(member)
        self._threads.append(thread)
        return member

    def _serve(self, member: Participant, host: Any) -> None:
        tick = getattr(host, "tick", None)

        def look() -> None:
            if self._done.is_set():
                member._closed.set()
                raise KeyboardInterrupt
            if tick is not None:
                tick()

        try:
            member.serve(look, 0.02)
        except KeyboardInterrupt:
            pass
        except BaseException as error:  # noqa: BLE001 - told to the test
            self.failures.append(error)

    def close(self) -> None:
        """End all threads."""
        self._done.set()
        for thread in self._threads:
            thread.join(WAIT_S)
        for member in self._members:
            member._closed.set()
        assert [] == [thread.name for thread in self._threads if thread.is_alive()]


def declared(uid: str, space: Space, value: Any = None) -> dict[str, Any]:
    """Return a declaration as it travels."""
    found: dict[str, Any] = {"id": uid, "space": space.to_wire()}
    if value is not None:
        found["value"] = value
    return found


UNIT = Box(0.0, 1.0, ())
TEN = Discrete(10)


@pytest.fixture
def standing() -> type[StandingPeer]:
    """Return the class of a participant whose tape is begun anew at every stand."""
    return StandingPeer


@pytest.fixture
def clock() -> FakeClock:
    """Return a clock that only jumps."""
    return FakeClock()


@pytest.fixture
def link(clock: FakeClock) -> FakeLink:
    """Return a link that answers by a script."""
    return FakeLink(clock)


@pytest.fixture
def hosted() -> type[Hosted]:
    """Return the class that stands a host on a fake link."""
    return Hosted


@pytest.fixture
def loader() -> Callable[..., Classes]:
    """Return a function that makes a loader of `kind=class` or `kind__name=class`; the name is else `own`."""

    def make(**classes: type[Any]) -> Classes:
        found = {}
        for key, cls in classes.items():
            kind, _, name = key.partition("__")
            found[kind, name or "own"] = cls
        return Classes(classes=found)

    return make


@pytest.fixture
def crowd() -> Iterator[Crowd]:
    """Return hosts in threads around one broker in memory."""
    made = Crowd()
    yield made
    made.close()


# -- a worker whose environments and muscles are on the wire ----------------------------------------------------------
class FakeWorldPeer:
    """Answer the calls of a controller as an environment would: one sensor that counts, one reward, one end.

    `ends` is the step in which it terminates, `truncates` that in which it is cut off; 0 is never.
    """

    def __init__(
        self, actuators: Sequence[str] = ("a",), ends: int = 0, truncates: int = 0, late: bool = False
    ) -> None:
        self.actuators, self.ends, self.truncates, self.late = list(actuators), ends, truncates, late
        self.step = 0
        self.sensor = "s"
        self.fails_at = 0
        self.told = False
        self.stamp: str | None = None
        self.left: Any = None  # a world state

    def start(self) -> EnvironmentDeclared:
        """Declare; with `late` rewards come with the first update."""
        self.step, self.told = 0, not self.late
        rewards = None if self.late else [declared("r", Discrete(1000))]
        actuators = [declared(uid, TEN, 0) for uid in self.actuators]
        return EnvironmentDeclared([declared(self.sensor, Discrete(1000))], actuators, [[0]], rewards)

    def update(self) -> EnvironmentUpdated | Failure:
        """Count one step; the reward is ten times its number."""
        self.step += 1
        if self.step == self.fails_at:
            return Failure("author", "ValueError: no", "environment, hook update", "Traceback: here")
        ids = None if self.told else [declared("r", Discrete(1000))]
        self.told = True
        flags = (self.step == self.ends, self.step == self.truncates)
        rows = ([[self.step]], [[10 * self.step]])
        return EnvironmentUpdated(*rows, *flags, self.step, self.stamp, ids, self.left)

    def reset(self) -> EnvironmentUpdated:
        """Begin at 0."""
        self.step = 0
        return EnvironmentUpdated([[0]], [])


class FakeAgentPeer:
    """Answer the calls of a controller as a muscle would: setpoints count decisions, objectives sum rewards."""

    def __init__(
        self, actuators: Sequence[str] = ("w.a",), sensors: Sequence[str] = ("w.s",), **setup: Any
    ) -> None:
        self.actuators, self.sensors, self.setup = list(actuators), list(sensors), setup
        self.acts: list[Act] = []
        self.decisions = 0
        self.signals: dict[int, str] = {}  # number of the act -> signal of the brain in its answer
        self.fails_at = 0

    def act(self, act: Act) -> Acted | Failure:
        """Propose, settle or close."""
        self.acts.append(act)
        if len(self.acts) == self.fails_at:
            return Failure("author", "ValueError: bad", "muscle, hook propose_actions", "Traceback: there")
        objective = None
        if act.rewards is not None:
            objective = [float(sum(value for value in act.rewards[0] if value is not None))]
        name = self.signals.get(len(self.acts))
        signal = None if name is None else {"signal": name, "reason": "because"}
        if not act.decide:
            return Acted(objective=objective, signal=signal)
        self.decisions += 1
        return Acted([[self.decisions % 10] * len(self.actuators)], None, objective, signal)


class Worker:
    """Stand a controller's host among fake environments, muscles, a governor and a store."""

    def __init__(
        self,
        loader: Callable[..., Classes],
        worlds: Mapping[str, FakeWorldPeer],
        agents: Mapping[str, FakeAgentPeer],
        controller: type[Any],
        conditions: Sequence[type[Any]] = (),
    ) -> None:
        self.worlds, self.agents = dict(worlds), dict(agents)
        classes = {f"condition__{cls.__name__}": cls for cls in conditions}
        self.conditions = [{"name": cls.__name__, "params": {}} for cls in conditions]
        self.hosted = Hosted(ControllerHost(loader(controller=controller, **classes)))
        self.link = self.hosted.link
        self.batches: list[RecordBatch] = []
        self.reports: list[EpisodeEnded] = []
        self.boundaries: list[Boundary] = []
        self.stands: list[Stands] = []
        self.failures: list[WorkerFailed] = []
        self.verdicts: list[Verdict] = []
        self.goes: list[Go] = []
        self.acknowledges = True
        self.link.answers |= {
            "environment.start": lambda peer, it: self.worlds[it.uid].start(),
            "environment.update": lambda peer, it: self._world(peer).update(),
            "environment.reset": lambda peer, it: self._world(peer).reset(),
            "environment.shutdown": lambda peer, it: Done(),
            "muscle.setup": lambda peer, it: Done(),
            "muscle.act": lambda peer, it: self._agent(peer).act(it),
            "muscle.reset": lambda peer, it: Done(),
            "muscle.shutdown": lambda peer, it: Done(),
            "governor.episode": lambda peer, it: self._ended(it),
            "governor.boundary": lambda peer, it: self._stands(it),
            "governor.stands": lambda peer, it: self.stands.append(it) or Done(),  # type: ignore[func-returns-value]
            "governor.failed": lambda peer, it: self.failures.append(it) or Done(),  # type: ignore[func-returns-value]
        }
        send = self.link.send

        def take(frames: Sequence[bytes]) -> None:
            send(frames)
            sent = self.link.sent[-1]
            if sent.head.call == "record.batch":
                batch = codec_of(RecordBatch).decode(sent.body)
                self.batches.append(batch)
                if self.acknowledges:
                    self.link.tell("r/store", "record.ack", RecordAck(batch.number))

        self.link.send = take  # type: ignore[method-assign]

    def _world(self, peer: str) -> FakeWorldPeer:
        return self.worlds[peer.split("/")[2]]

    def _agent(self, peer: str) -> FakeAgentPeer:
        return self.agents[peer.split("/")[2]]

    def _ended(self, report: EpisodeEnded) -> Verdict:
        self.reports.append(report)
        return self.verdicts.pop(0) if self.verdicts else Verdict("STOP_PHASE")

    def _stands(self, report: Boundary) -> Go:
        self.boundaries.append(report)
        return self.goes.pop(0) if self.goes else Go(round=report.round)

    def setup(
        self,
        store: str | None = "r/store",
        evaluation: bool = False,
        mends: bool = False,
        restarts: bool = False,
    ) -> ControllerReady:
        """Begin the phase."""
        mode = "evaluate" if evaluation else "train"
        environments = [
            {
                "uid": uid,
                "peer": f"r/environment/{uid}/0",
                "plugin": {"name": "own", "params": {}},
                "params": {},
                "reward": None,
                "transformer": None,
                "seed": 1,
                "stream": STREAM,
                "episode_seed": 2,
                "episode_stream": STREAM,
                "restarts": restarts,
            }
            for uid in self.worlds
        ]
        plugin = {"name": "own", "params": {}}
        message = ControllerSetup(
            *("r", 0, "one", mode, 0, plugin, self.conditions, environments),
            *(STREAM, {}, "r/governor", store, evaluation),
            mends=mends,
        )
        found: ControllerReady = self.hosted.ask("controller.setup", message, "r/governor")
        return found

    def start(self, common: bool = False, settle: bool = False, verdict: Verdict | None = None) -> Any:
        """Set the muscles up."""
        agents = []
        for name, agent in self.agents.items():
            touched = {uid.partition(".")[0] for uid in (*agent.sensors, *agent.actuators)}
            setup = {
                "name": name,
                "peer": f"r/muscle/{name}/0",
                "brain": None,
                "muscle": {"name": "own"},
                "objective": {"name": "own"},
                "sensors": [declared(uid, Discrete(1000)) for uid in agent.sensors],
                "actuators": [declared(uid, TEN, 0) for uid in agent.actuators],
                "rewards": None,
                "environments": [uid for uid in self.worlds if uid in touched],
                "stream": STREAM,
                "objective_stream": STREAM,
                "models": None,
            }
            agents.append(setup | agent.setup)
        verdict = verdict or Verdict("RESET")
        message = ControllerStart(agents, common, "lockstep", verdict, settle)
        return self.hosted.ask("controller.start", message, "r/governor")

    def run(self, common: bool = False, settle: bool = False, verdict: Verdict | None = None) -> None:
        """Run a whole phase up to the last verdict."""
        self.setup()
        self.start(common, settle, verdict)
        self.hosted.host.tick()
        assert [] == self.failures

    def steps(self) -> list[tuple[str, str]]:
        """Return whom the controller asked for what, by short names, from the first act on."""
        rows = [(e.peer.split("/")[2], e.head.call) for e in self.link.calls() if e.peer.count("/") > 1]
        first = next(i for i, row in enumerate(rows) if row[1] == "muscle.act")
        return [(peer, call.partition(".")[2]) for peer, call in rows[first:]]

    def given(self, uid: str) -> list[tuple[list[int] | None, list[Any]]]:
        """Return what an environment was given in each step: which actuators, and their values."""
        return [
            (message.actuators, message.setpoints[0])
            for peer, message in self.link.asked("environment.update")
            if peer == f"r/environment/{uid}/0"
        ]

    def records(self, kind: str) -> list[list[Any]]:
        """Return the records of a kind that went to the store, with their values decoded."""
        found = [record for batch in self.batches for record in batch.records if record[0] == kind]
        if kind in ("steps", "actions"):
            return [[*record[:-1], [[_plain(v) for v in row] for row in record[-1]]] for record in found]
        return found


def _plain(value: Any) -> Any:
    return msgpack.unpackb(value) if isinstance(value, bytes) and value else value


class AtOnce(Controller):
    """Let all act at once."""

    async def advance(self) -> None:
        """Make one step."""
        await self.update(await self.act(self.agents), self.agents)


class InTurns(Controller):
    """Let one act after the other."""

    async def advance(self) -> None:
        """Make one turn."""
        acting = self.turn(self.step)
        await self.update(await self.act(acting), acting)

    def turn(self, step: int) -> Sequence[str]:
        """Return who is next."""
        return [self.agents[step % len(self.agents)]]


@pytest.fixture
def worker(loader: Any) -> Callable[..., Worker]:
    """Return a function that stands a controller among fake peers; by default one environment `w`, one agent `one`."""

    def make(
        worlds: Mapping[str, FakeWorldPeer] | None = None,
        agents: Mapping[str, FakeAgentPeer] | None = None,
        controller: type[Any] = AtOnce,
        conditions: Sequence[type[Any]] = (),
    ) -> Worker:
        chosen = {"w": FakeWorldPeer(ends=2)} if worlds is None else worlds
        return Worker(
            loader, chosen, {"one": FakeAgentPeer()} if agents is None else agents, controller, conditions
        )

    return make


@pytest.fixture
def world() -> type[FakeWorldPeer]:
    """Return the class of environments on the wire."""
    return FakeWorldPeer


@pytest.fixture
def agent() -> type[FakeAgentPeer]:
    """Return the class of muscles on the wire."""
    return FakeAgentPeer


@pytest.fixture
def in_turns() -> type[InTurns]:
    """Return a controller in which one agent acts after the other."""
    return InTurns


# -- recorded episodes ------------------------------------------------------------------------------------------------
COUNT, LAMPS, PRIZE = Discrete(9), Box(-1.0, 1.0, (2,), np.float32), Box(-9.0, 9.0, ())


def recorded_source(**changed: Any) -> Source:
    """Return an entry whose agent sees a count and two lamps, and sets a count."""
    given: dict[str, Any] = {
        "at": "run.yml:3:4: a.replay.0",
        "run": "old-1",
        "agent": "a",
        "environment": "w",
        "phase": 0,
        "phase_name": "one",
        "repeat": 1,
        "strict": True,
        "sensors": [["w.s", COUNT.to_string()], ["w.lamps", LAMPS.to_string()]],
        "actuators": [["w.a", COUNT.to_string()]],
        "rewards": [["w.r", PRIZE.to_string()]],
    }
    return Source(**(given | changed))


def recorded_episode(number: int = 0, steps: int = 3, worker: int = 0, final: bool = True) -> Spooled:
    """Return an episode in which everything tells where it belongs; it terminates."""
    rows = steps + final
    count = np.arange(rows, dtype=float) + number
    return Spooled(
        Mode.TEST,
        worker,
        0,
        number,
        100 + number,
        np.stack([count, 0.1 * count, -0.1 * count], axis=1),
        {
            "actions": (np.arange(steps)[:, np.newaxis] + number) % 9,
            "rewards": 0.5 * np.arange(steps)[:, np.newaxis] + number,
            "objectives": np.where(np.arange(steps) == 0, np.nan, np.arange(steps)),
            "terminated": np.arange(steps) == steps - 1,
            "truncated": np.zeros(steps, bool),
            "ticks": np.arange(steps),
        },
    )


@pytest.fixture
def spooled(tmp_path: Path) -> Callable[..., BrainPretrain]:
    """Return a function that spools episodes, source by source, and returns what a brain is told of them."""

    def spool(*entries: tuple[Source, Sequence[Spooled]]) -> BrainPretrain:
        made = Spool(tmp_path / "replay", "asked")
        for source, episodes in entries or [(recorded_source(), [recorded_episode(i) for i in range(3)])]:
            made.begin(source)
            for episode in episodes:
                made.add(episode)
        return BrainPretrain(str(tmp_path / "replay"), made.close())

    return spool


class Archive:
    """Write runs into a store as a kernel does; `uri` is where."""

    def __init__(self, folder: Path) -> None:
        self.uri = f"sqlite:///{folder / 'ganglion.db'}"

    def run(
        self,
        run: str,
        uid: str = "farm",
        phases: Sequence[tuple[str, str]] = (("one", "test"),),
        status: str | None = "finished",
        episodes: int = 2,
        workers: int = 1,
        spoil: Callable[[list[Any]], list[Any] | None] = lambda record: record,
    ) -> None:
        """Write a run: in each phase agent `a` is in `w`, for episodes of three decisions; `spoil` changes records."""
        with registry.load("store", "sqlite").writer(self.uri, run) as writer:
            head = {"uid": uid, "experiment": uid, "seed": "7", "document": "", "started": "2026-01-01"}
            records: list[list[Any]] = [["run", head]]
            for index, (name, mode) in enumerate(phases):
                records += self._phase(index, name, mode, workers, episodes)
            records += [["end", status, "", "2026-01-02"]] if status is not None else []
            writer.apply("governor", [kept for record in records if (kept := spoil(record)) is not None])
            writer.commit()

    def _phase(self, index: int, name: str, mode: str, workers: int, episodes: int) -> list[list[Any]]:
        columns = {"sensor": [("w.s", COUNT), ("w.lamps", LAMPS)], "actuator": [("w.a", COUNT)]}
        columns["reward"] = [("w.r", PRIZE)]
        records: list[list[Any]] = []
        for place in (["w", None], [None, "a"]):
            for kind, declared in columns.items():
                rows = declaration_rows([{"id": uid, "space": space.to_wire()} for uid, space in declared])
                records.append(["declare", index, *place, kind, rows])
        records.append(["phase", index, name, mode, "running", None])
        for worker in range(workers):
            for episode in range(episodes):
                records += self._episode(index, mode, worker, episode)
        return [*records, ["phase", index, name, mode, "finished", "max_episodes"]]

    def _episode(self, index: int, mode: str, worker: int, episode: int) -> list[list[Any]]:
        steps = [
            [i, i, i, None, self.sensors(i, worker), pack([i]), pack([0.5 * i]), i == 3, False]
            for i in (1, 2, 3)
        ]
        rest = [False, False, None]
        actions = [
            [0, i, i, self.sensors(i, worker), pack([i + 1]), None, pack([0.5 * (i + 1)]), *end]
            for i, end in enumerate([[None, *rest], [2.5, *rest], [2.5, True, False, None]])
        ]
        place = [index, mode, worker]
        return [
            ["steps", *place, "w", episode, steps],
            ["actions", *place, "a", episode, actions],
            ["episode", *place, None, episode, 3, True, False, "terminated", 3 * episode],
        ]

    @staticmethod
    def sensors(count: int, worker: int) -> bytes:
        """Return the readings after so many steps as they rest."""
        return bytes(pack([count, np.array([0.1 * count, -0.5 * worker], "<f4").tobytes()]))


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """Return a store without runs."""
    return Archive(tmp_path)


@pytest.fixture
def recording() -> tuple[Callable[..., Source], Callable[..., Spooled]]:
    """Return what makes an entry, and an episode for it."""
    return recorded_source, recorded_episode
