"""A stage for plugins: the hosts of a run, joined in memory, without a bus or a clock."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from numpy.random import Generator

from ganglion import registry
from ganglion.errors import RemoteProtocolError, UsageError
from ganglion.peer.agent.brain import BrainHost
from ganglion.peer.agent.muscle import MuscleHost
from ganglion.peer.author import Loader
from ganglion.peer.environment.host import EnvironmentHost
from ganglion.peer.environment.trial import WIRE_BITS, first_seeds
from ganglion.peer.journal.snapshot import State, export
from ganglion.peer.participant import DEFERRED, Participant
from ganglion.peer.step.layout import Layout, declaration
from ganglion.sdk.brain import Brain, CheckpointableBrain, EpisodeSummary
from ganglion.sdk.environment import Environment, Reward, StateTransformer
from ganglion.sdk.filter import Filter
from ganglion.sdk.information import ActuatorInformation, Information, RewardInformation, SensorInformation
from ganglion.sdk.memory import Memory
from ganglion.sdk.muscle import Muscle, Objective
from ganglion.sdk.seed import integer_from_words, words
from ganglion.sdk.session import Session
from ganglion.wire import messages
from ganglion.wire.codec import codec_of
from ganglion.wire.conversation import Request
from ganglion.wire.envelope import Envelope, Head, decode, encode
from ganglion.wire.parcel import attach, encoded, lower
from ganglion.wire.verb import Verb

RUN = "stage"
_CONTROLLER, _BRAIN, _GOVERNOR = f"{RUN}/controller/0", f"{RUN}/brain/agent", f"{RUN}/governor"


@dataclass(frozen=True)
class Classes(Loader):
    """Load given classes by kind."""

    folder: str = ""
    allow: tuple[str, ...] = ()
    classes: Mapping[tuple[str, str], type[Any]] = field(default_factory=dict)

    def load(self, kind: str, name: str) -> type[Any]:
        """Return the class."""
        return self.classes[kind, name]


class _Link:
    """Join a participant to at most one other participant, which answers at once."""

    def __init__(self, other: _Hosted | None = None) -> None:
        self.other = other
        self.inbox: deque[list[bytes]] = deque()
        self.said: deque[list[bytes]] = deque()

    def send(self, frames: Sequence[bytes]) -> None:
        """Pass a CALL to the other participant; keep any other message."""
        envelope = decode([bytes(frame) for frame in frames])
        if envelope.head.verb is Verb.CALL and self.other is not None:
            answer = decode(self.other.answer(envelope.head, envelope.body, envelope.blobs))
            self.inbox.append(encode(replace(answer, peer=envelope.peer)))
        else:
            self.said.append([bytes(frame) for frame in frames])

    def receive(self, timeout_s: float | None) -> list[bytes] | None:
        """Return one message; raise without one, since none can come."""
        if self.inbox:
            return self.inbox.popleft()
        raise RemoteProtocolError("the stage is empty: there is no other host that could answer")

    def close(self) -> None:
        """Do nothing."""


class _Hosted:
    """Call a host; requests and replies pass through the codec, as on the bus."""

    def __init__(self, host: Any, other: _Hosted | None = None) -> None:
        self.link = _Link(other)
        self._host = host
        self._handlers = host.handlers()
        host.participant = Participant(lambda: self.link, self._handlers, pulse=False)
        self._serial = 0

    def ask(self, peer: str, call: str, message: Any) -> Any:
        """Return the answer to a request; exceptions of the author's code pass through."""
        row = messages.CALL_BY_NAME[call]
        self._serial += 1
        answer = decode(
            self.answer(Head(Verb.CALL, self._serial, call), *encoded(codec_of(row.request), message), peer)
        )
        return lower(codec_of(row.reply).decode(answer.body), answer.blobs)

    def answer(self, head: Head, body: bytes, blobs: Sequence[bytes], peer: str = _CONTROLLER) -> list[bytes]:
        """Return the answer's frames."""
        row = messages.CALL_BY_NAME[head.call]
        request = Request(peer, head, body, tuple(blobs))
        message = attach(head.call, codec_of(row.request).decode(body), blobs)
        reply = self._handlers[head.call](request, message)
        if reply is DEFERRED:
            return self.link.said.popleft()
        answer, beside = encoded(codec_of(row.reply), reply)
        return encode(Envelope(peer, Head(Verb.REPLY, head.serial), answer, tuple(beside)))


def _plugin(name: str, params: Mapping[str, Any] | None) -> dict[str, Any]:
    return {"name": name, "params": dict(params or {})}


class StagedEnvironment:
    """Host an environment of a class as a run with this seed does; each worker has other random numbers."""

    def __init__(
        self,
        cls: type[Environment],
        params: Mapping[str, Any] | None = None,
        *,
        seed: int = 1,
        worker: int = 0,
        mode: str = "train",
        reward: type[Reward] | None = None,
        transformer: type[StateTransformer] | None = None,
    ) -> None:
        classes: dict[tuple[str, str], Any] = {
            (kind, "own"): it for kind, it in (("environment", cls), ("reward", reward), ("transformer", transformer))
        }
        self._host = EnvironmentHost(Classes(classes=classes))
        self._hosted = _Hosted(self._host)
        self._path: list[str | int] = ["environment", "world", "worker", worker]
        self._seed, self._params, self._worker, self._mode = seed, params, worker, mode
        parts = {"reward": reward, "transformer": transformer}
        self._parts: Any = {name: None if it is None else _plugin("own", None) for name, it in parts.items()}
        self._episode = 0

    @property
    def environment(self) -> Environment:
        """Return the author's object, which exists after `start`."""
        found = self._host._environment  # noqa: SLF001 - the stage is the host's other half
        assert found is not None, "expected start first"
        return found

    def start(self) -> messages.EnvironmentDeclared:
        """Make the environment and open its first episode."""
        place = (RUN, 0, "stage", self._mode, self._worker, "world", dict(self._params or {}))
        seeds = first_seeds(self._seed, self._path)
        start = messages.EnvironmentStart(*place, *seeds, _plugin("own", None), **self._parts)
        self._episode = 0
        declared: messages.EnvironmentDeclared = self._hosted.ask(_CONTROLLER, "environment.start", start)
        return declared

    def update(self, setpoints: Sequence[Any], actuators: Sequence[int] | None = None) -> messages.EnvironmentUpdated:
        """Advance by one step; `setpoints` are in declared order, or those at the places `actuators`."""
        update = messages.EnvironmentUpdate([list(setpoints)], None if actuators is None else list(actuators))
        updated: messages.EnvironmentUpdated = self._hosted.ask(_CONTROLLER, "environment.update", update)
        return updated

    def reset(self, again: messages.EnvironmentUpdated | None = None) -> messages.EnvironmentUpdated:
        """Open the next episode, with its own seed; or the same episode again, by the answer that opened it."""
        self._episode += again is None
        stream = words(self._seed, [*self._path, "episode", self._episode])
        state = None if again is None else again.state or {}  # omitted generators are unused since the start
        reset = messages.EnvironmentReset(self._episode, integer_from_words(stream) >> WIRE_BITS, stream, state)
        opened: messages.EnvironmentUpdated = self._hosted.ask(_CONTROLLER, "environment.reset", reset)
        return opened

    def take_state(self) -> State:
        """Return the state for another environment, as a journal keeps it."""
        return self._host.take_state()

    def go_on(self, state: State) -> None:
        """Restore the state of another environment; this one must be started and no more."""
        self._host.go_on(state)
        self._episode = self.environment.episode

    def shutdown(self) -> None:
        """End the phase."""
        self._hosted.ask(_CONTROLLER, "environment.shutdown", messages.Nothing())


class StagedAgent:
    """Host an agent's muscle, objective, filters and, in training, its brain, as a run with one worker does.

    Args:
        sensors: The agent's sensors, with full ids; values are ignored.
        actuators: The agent's actuators; their values are their no-ops.
        rewards: The rewards for the objective.
        brain: Its class; None for an agent that does not learn.
        filters: Classes and parameters, in document order.
        mode: `train`, `test` or `evaluate`; only in `train` the brain takes part.
        models: The folder where the brain stores; needed for `store`.
        load: The folder of a model to begin with.
        sessions: Recorded episodes that the brain learns from before its muscle joins, by its own `pretrain`.
    """

    def __init__(
        self,
        muscle: type[Muscle],
        *,
        sensors: Sequence[SensorInformation],
        actuators: Sequence[ActuatorInformation],
        rewards: Sequence[RewardInformation],
        objective: type[Objective],
        brain: type[Brain] | None = None,
        muscle_params: Mapping[str, Any] | None = None,
        objective_params: Mapping[str, Any] | None = None,
        brain_params: Mapping[str, Any] | None = None,
        filters: Sequence[tuple[type[Filter], Mapping[str, Any] | None]] = (),
        mode: str = "train",
        seed: int = 1,
        models: Path | None = None,
        load: Path | None = None,
        sessions: Sequence[Session] | None = None,
    ) -> None:
        classes: dict[tuple[str, str], Any] = {("muscle", "own"): muscle, ("objective", "own"): objective}
        if brain is not None:
            classes["brain", "own"] = brain
        classes |= {("filter", str(i)): cls for i, (cls, _) in enumerate(filters)}
        stack = [
            {**_plugin(str(i), params), "stream": words(seed, ["filter", i])} for i, (_, params) in enumerate(filters)
        ]
        declared: Sequence[Sequence[Information]] = (sensors, actuators, rewards)
        self._layouts = [
            Layout([it.uid for it in row], [it.space for it in row], missing=place == 2)
            for place, row in enumerate(declared)
        ]
        declarations = [
            [declaration(it.uid, it.space, it.value if place == 1 else None, it.value_ids) for it in row]
            for place, row in enumerate(declared)
        ]
        self._loader = Classes(classes=classes)
        fields: list[Any] = [RUN, 0, "stage", mode, "agent", _plugin("own", brain_params), *declarations]
        fields += [["agent/0"], 1, words(seed, ["brain"]), "" if models is None else str(models)]
        more: dict[str, Any] = {"load": None if load is None else str(load), "filters": stack or None}
        self._setup = messages.BrainSetup(*fields, **more)
        self._seed = seed
        self._brain = self._begin_brain() if brain is not None and mode == "train" else None
        if self._brain is not None and sessions is not None:
            host: Any = self._brain_host  # the stage is its other half
            host._take(host._hooks("pretrain", host._brain.pretrain, sessions))  # noqa: SLF001
        self._episode = 0
        self._round = 0
        self._evaluations = 0
        self._hosted = self._begin_muscle(_plugin("own", muscle_params), _plugin("own", objective_params))

    def _begin_muscle(self, muscle: dict[str, Any], objective: dict[str, Any]) -> _Hosted:
        """Return the host of the muscle, set up as its brain is."""
        told, learns = self._setup, self._brain is not None
        self._muscle_host = MuscleHost(self._loader)
        hosted = _Hosted(self._muscle_host, self._brain)
        fields: list[Any] = [told.run, told.phase, told.phase_name, told.mode, 0, told.agent, muscle, objective]
        fields += [told.sensors, told.actuators, told.rewards]
        fields += [words(self._seed, [part]) for part in ("muscle", "objective")]
        models = None if learns else told.load
        more: dict[str, Any] = {"brain": _BRAIN if learns else None, "models": models, "filters": told.filters}
        setup = messages.MuscleSetup(*fields, **more)
        hosted.ask(_CONTROLLER, "muscle.setup", setup)
        return hosted

    def _begin_brain(self) -> _Hosted:
        """Return the host of a new brain."""
        self._brain_host = BrainHost(self._loader)
        hosted = _Hosted(self._brain_host)
        hosted.ask(_GOVERNOR, "brain.setup", self._setup)
        return hosted

    @property
    def muscle(self) -> Muscle:
        """Return the author's muscle."""
        found = self._muscle_host._muscle  # noqa: SLF001 - the stage is the host's other half
        assert found is not None
        return found

    @property
    def brain(self) -> Brain | None:
        """Return the author's brain; None for an agent that does not learn."""
        return None if self._brain is None else self._brain_host._brain  # noqa: SLF001

    @property
    def memory(self) -> Memory:
        """Return the muscle's memory."""
        return self.muscle.memory

    @property
    def filter_generators(self) -> list[Generator]:
        """Return the generators of the muscle's filters, in document order."""
        filters = self._muscle_host._filters  # noqa: SLF001 - the stage is the host's other half
        return [] if filters is None else list(filters.generators.values())

    @property
    def can_be_replaced(self) -> bool:
        """Return whether `replace_brain` loses nothing of the filters."""
        filters = self._brain_host._filters  # noqa: SLF001 - the stage is the host's other half
        return filters is None or filters.can_be_kept

    def begin(self, readings: Sequence[Any]) -> messages.Acted:
        """Give the first readings of an episode; the answer has the first setpoints."""
        if self._round:
            self._episode += 1
            self._hosted.ask(_CONTROLLER, "muscle.reset", messages.MuscleReset(self._episode))
        return self._act(readings, None)

    def step(
        self, rewards: Sequence[Any], readings: Sequence[Any], *, terminated: bool = False, truncated: bool = False
    ) -> messages.Acted:
        """Give the outcome of the previous decision; the answer has the next setpoints, unless the episode is over."""
        return self._act(readings, rewards, terminated, truncated)

    def _act(
        self, readings: Sequence[Any], rewards: Sequence[Any] | None, terminated: bool = False, truncated: bool = False
    ) -> messages.Acted:
        closing = terminated or truncated
        act = messages.Act(
            [self._layouts[0].to_row(list(readings))],
            None if rewards is None else [self._layouts[2].to_row(list(rewards))],
            decide=not closing,
            terminated=terminated,
            truncated=truncated,
            closing=closing,
            round=self._round,
            workers=[0],
        )
        self._round += 1
        acted: messages.Acted = self._hosted.ask(_CONTROLLER, "muscle.act", act)
        return acted

    def setpoints(self, acted: messages.Acted) -> list[Any]:
        """Return the setpoints of an answer as values of their spaces, in declared order."""
        assert acted.setpoints is not None
        return self._layouts[1].values(acted.setpoints, "setpoints")

    def store(self) -> messages.BrainStored:
        """Let the brain store its model, as at the end of a phase."""
        assert self._brain is not None, "expected an agent with a brain, in mode train"
        stored: messages.BrainStored = self._brain.ask(_GOVERNOR, "brain.store", messages.BrainStore())
        return stored

    def evaluate(self, *episodes: EpisodeSummary) -> messages.BrainEvaluated:
        """Give the brain an evaluation; without `episodes`, one of a single step without objectives."""
        assert self._brain is not None, "expected an agent with a brain, in mode train"
        told = episodes or (EpisodeSummary(0, 0, 1, None, None, terminated=True, truncated=False),)
        evaluate = messages.BrainEvaluate(self._evaluations, [asdict(it) for it in told])
        self._evaluations += 1
        evaluated: messages.BrainEvaluated = self._brain.ask(_GOVERNOR, "brain.evaluate", evaluate)
        return evaluated

    def replace_brain(self) -> None:
        """Replace a `CheckpointableBrain` by a new one that continues from its checkpoint, as after a loss."""
        assert self._brain is not None, "expected an agent with a brain, in mode train"
        former, brain = self._brain_host, self.brain
        assert isinstance(brain, CheckpointableBrain)
        books = former._books()  # noqa: SLF001 - the stage is the host's other half
        state = export(brain, former._memory, former._generators, books)  # noqa: SLF001
        self._brain = self._begin_brain()
        self._brain_host._go_on_from(self._brain_host._brain, state)  # type: ignore[arg-type]  # noqa: SLF001
        self._hosted.link.other = self._brain

    def close(self) -> None:
        """End the phase."""
        self._hosted.ask(_CONTROLLER, "muscle.shutdown", messages.Nothing())
        if self._brain is not None:
            self._brain.ask(_GOVERNOR, "brain.shutdown", messages.Nothing())


_KEYS = ("name", "brain", "muscle", "objective", "filters", "sensors", "actuators")


def make_agent(
    definition: Mapping[str, Any], *, folder: str = "", allow: Sequence[str] = (), **stage: Any
) -> StagedAgent:
    """Make an agent as a document defines it, without a run: `begin`, `step`, `store` and `close` it yourself.

    Args:
        definition: An entry of `agents`: `muscle`, `objective`, `brain` (absent, null or `none`: no learning) and
            `filters`, each a name, or a map {name, params}. Sensors and actuators that it names are all of those given.
        folder: Where import paths of the definition begin.
        allow: Packages that import paths may name.
        stage: `sensors`, `actuators`, `rewards`, and perhaps `mode`, `seed`, `models`, `load`, as of `StagedAgent`.

    UsageError: the definition has a key that no agent has; PluginInvalid: a name means no plugin, or the class misfits.
    """
    strange = [key for key in definition if key not in _KEYS]
    if strange:
        raise UsageError(f"definition: expected keys of {', '.join(_KEYS)}, found {strange[0]!r}")

    def part(kind: str, given: Any) -> tuple[Any, dict[str, Any]]:
        plugin: Any = {"name": given} if isinstance(given, str) else given
        if not isinstance(plugin, Mapping) or not isinstance(plugin.get("name"), str):
            raise UsageError(
                f"definition.{kind}: expected the name of a plugin, or a map {{name, params}}, found {given!r:.80}"
            )
        name, params = plugin["name"], plugin.get("params") or {}
        return registry.load(kind, name, folder=folder, allow=tuple(allow)), dict(params)

    muscle, muscle_params = part("muscle", definition.get("muscle"))
    objective, objective_params = part("objective", definition.get("objective") or "aggregate_rewards")
    learner = definition.get("brain")
    brain, brain_params = (None, {}) if learner in (None, "none") else part("brain", learner)
    return StagedAgent(
        muscle,
        objective=objective,
        brain=brain,
        muscle_params=muscle_params,
        objective_params=objective_params,
        brain_params=brain_params,
        filters=[part("filter", given) for given in definition.get("filters") or ()],
        **stage,
    )
