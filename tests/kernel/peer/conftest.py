"""The other side of a participant: a link that answers by a script, a clock that jumps, hosts that stand on both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgpack
import numpy as np
import pytest
from fakepeer import OWN, STREAM, TEN, FakeClock, FakeLink, Hosted, declared

from ganglion.peer.worker.controller import ControllerHost
from ganglion.sdk.controller import Controller
from ganglion.sdk.spaces import Discrete
from ganglion.testing.stage import Classes
from ganglion.wire.codec import codec_of
from ganglion.wire.messages import (
    Act,
    Acted,
    Boundary,
    ControllerReady,
    ControllerSetup,
    ControllerStart,
    Done,
    EnvironmentDeclared,
    EnvironmentUpdated,
    EpisodeEnded,
    Failure,
    Go,
    MuscleReady,
    RecordAck,
    RecordBatch,
    Stands,
    Verdict,
    WorkerFailed,
)


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


# -- a worker whose environments and muscles are on the wire ----------------------------------------------------------
class FakeWorldPeer:
    """Answer the calls of a controller as an environment would: one sensor that counts, one reward, one end.

    `ends` is the step in which it terminates, `truncates` that in which it is cut off; 0 is never.
    """

    def __init__(self, actuators: Sequence[str] = ("a",), ends: int = 0, truncates: int = 0) -> None:
        self.actuators, self.ends, self.truncates = list(actuators), ends, truncates
        self.step = 0
        self.sensor = "s"

    def start(self) -> EnvironmentDeclared:
        """Declare."""
        self.step = 0
        actuators = [declared(uid, TEN, 0) for uid in self.actuators]
        rewards = [declared("r", Discrete(10_000))]
        return EnvironmentDeclared([declared(self.sensor, Discrete(1000))], actuators, [[0]], rewards)

    def update(self) -> EnvironmentUpdated:
        """Count one step; the reward is ten times its number."""
        self.step += 1
        flags = (self.step == self.ends, self.step == self.truncates)
        return EnvironmentUpdated([[self.step]], [[10 * self.step]], *flags, self.step)

    def reset(self) -> EnvironmentUpdated:
        """Begin at 0."""
        self.step = 0
        return EnvironmentUpdated([[0]], [])


class FakeAgentPeer:
    """Answer the calls of a controller as a muscle would: setpoints count decisions, objectives sum rewards."""

    def __init__(self, actuators: Sequence[str] = ("w.a",), sensors: Sequence[str] = ("w.s",), **setup: Any) -> None:
        self.actuators, self.sensors, self.setup = list(actuators), list(sensors), setup
        self.acts: list[Act] = []
        self.decisions = 0
        self.signals: dict[int, str] = {}  # number of the act -> signal of the brain in its answer

    def act(self, act: Act) -> Acted | Failure:
        """Propose, settle or close."""
        self.acts.append(act)
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
        self.link.answers |= {
            "environment.start": lambda peer, it: self.worlds[it.uid].start(),
            "environment.update": lambda peer, it: self._world(peer).update(),
            "environment.reset": lambda peer, it: self._world(peer).reset(),
            "environment.shutdown": lambda peer, it: Done(),
            "muscle.setup": lambda peer, it: MuscleReady(),
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

    def setup(self, evaluation: bool = False, mends: bool = False) -> ControllerReady:
        """Begin the phase."""
        seeds = {"seed": 1, "stream": STREAM, "episode_seed": 2, "episode_stream": STREAM}
        parts = {"plugin": OWN, "params": {}, "reward": None, "transformer": None, "restarts": False}
        environments = [{"uid": uid, "peer": f"r/environment/{uid}/0", **parts, **seeds} for uid in self.worlds]
        message = ControllerSetup(
            *("r", 0, "one", "evaluate" if evaluation else "train", 0, OWN, self.conditions, environments),
            *(STREAM, {}, "r/governor", "r/store", evaluation),
            mends=mends,
        )
        found: ControllerReady = self.hosted.ask("controller.setup", message, "r/governor")
        return found

    def start(self, common: bool = False, settle: bool = False, verdict: Verdict | None = None) -> Any:
        """Set the muscles up."""
        agents = []
        for name, agent in self.agents.items():
            touched = {uid.partition(".")[0] for uid in (*agent.sensors, *agent.actuators)}
            setup = {"name": name, "peer": f"r/muscle/{name}/0", "brain": None, "muscle": OWN, "objective": OWN}
            setup |= {"rewards": None, "models": None, "stream": STREAM, "objective_stream": STREAM}
            setup["sensors"] = [declared(uid, Discrete(1000)) for uid in agent.sensors]
            setup["actuators"] = [declared(uid, TEN, 0) for uid in agent.actuators]
            setup["environments"] = [uid for uid in self.worlds if uid in touched]
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

    def fail(self, common: bool = False, verdict: Verdict | None = None, **setup: bool) -> WorkerFailed:
        """Run a phase that fails, and return what the governor is told."""
        self.setup(**setup)
        self.start(common, verdict=verdict)
        self.hosted.host.tick()
        [report] = self.failures
        return report

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
            return [[*record[:-2], [[_plain(v) for v in row] for row in record[-2]]] for record in found]
        return found


def _plain(value: Any) -> Any:
    if isinstance(value, list):  # a row in which a value is missing
        return value[0]
    if isinstance(value, bytes) and len(value) % 8 == 0:  # blocks, of integers as all values here are
        return np.frombuffer(value, "<i8").tolist()
    return msgpack.unpackb(value) if isinstance(value, bytes) else value


class AtOnce(Controller):
    """Let all act at once."""

    async def advance(self) -> None:
        """Make one step."""
        await self.update(await self.act(self.agents), self.agents)


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
        return Worker(loader, chosen, {"one": FakeAgentPeer()} if agents is None else agents, controller, conditions)

    return make


@pytest.fixture
def world() -> type[FakeWorldPeer]:
    """Return the class of environments on the wire."""
    return FakeWorldPeer


@pytest.fixture
def agent() -> type[FakeAgentPeer]:
    """Return the class of muscles on the wire."""
    return FakeAgentPeer
