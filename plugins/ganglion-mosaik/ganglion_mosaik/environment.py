"""Environment: a simulator of mosaik, played step by step; its time is the time of the environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from ganglion.sdk import (
    ActuatorInformation,
    Environment,
    EnvironmentBaseline,
    EnvironmentState,
    ResetRequest,
    RewardInformation,
    SensorInformation,
    SimTime,
)
from ganglion_mosaik.link import Object, Program, opened
from ganglion_mosaik.values import moment, plain, spaces

__all__ = ["MosaikEnvironment"]

SOURCE = "ganglion.agents"  # from where a simulator's inputs come, as it is told


class MosaikEnvironment(Environment):
    """Play a simulator of mosaik, API 3: time-based or hybrid, a class of Python or a program.

    Each step of an episode is one step of the simulator, from the time that it named last. It makes its step at time 0
    before the first decision. An episode is truncated once the next step would lie at `end` or later.

    Params:
        simulator: `{python: "module:Class"}` or `{cmd: "./sim %(addr)s", cwd: ...}`.
        models: Which entities it has: `{model, num, params}` each.
        sensors: `entity.attribute` -> space as text, such as `Box(low=0.0, high=1.0, shape=())`.
        actuators: Likewise; what is set is an input of that entity from its next step on.
        rewards: Likewise; attributes that are paid. Default none.
        end: Ticks after which an episode is over, > 0.
        init: Parameters of the simulator. Default none.
        seed_as: Which of these gets the seed of an episode. Default None: none does.
        time_resolution: Seconds per tick. Default 1.
        start_date: When tick 0 is, ISO 8601. Default None: there is no calendar.
        answer_s: How long a program may take to connect and to answer, in s. Default 60.
    """

    def __init__(
        self,
        simulator: Mapping[str, Any],
        models: Sequence[Mapping[str, Any]],
        sensors: Mapping[str, str],
        actuators: Mapping[str, str],
        end: int,
        rewards: Mapping[str, str] | None = None,
        init: Mapping[str, Any] | None = None,
        seed_as: str | None = None,
        time_resolution: float = 1.0,
        start_date: str | None = None,
        answer_s: float = 60.0,
    ) -> None:
        super().__init__()
        if end <= 0:
            raise ValueError(f"end: expected ticks > 0, found {end}")
        self._simulator, self._models, self._end = simulator, models, end
        self._init, self._seed_as, self._answer_s = dict(init or {}), seed_as, answer_s
        self._resolution = time_resolution
        self._start = None if start_date is None else datetime.fromisoformat(start_date)
        self._sensors, self._actuators = spaces("sensors", sensors), spaces("actuators", actuators)
        self._rewards = spaces("rewards", rewards)
        self._asked: dict[str, list[str]] = {}
        for uid in dict.fromkeys((*self._sensors, *self._rewards)):
            entity, attribute = _parted(uid)
            self._asked.setdefault(entity, []).append(attribute)
        self._sim: Object | Program | None = None
        self._next: int | None = 0
        self._episode_seed = self.seed

    def start_environment(self) -> EnvironmentBaseline:
        """Start the simulator, make its entities, and make its step at time 0."""
        sim = self._sim = opened(self._simulator, self._answer_s)
        given = {**self._init, **({self._seed_as: self._episode_seed % 2**31} if self._seed_as else {})}
        meta = sim.ask("init", f"{self.uid}-0", time_resolution=self._resolution, **given)
        version, kind = str(meta.get("api_version", "")), meta.get("type", "time-based")
        if version.partition(".")[0] != "3":
            raise ValueError(f"{sim.whose}: expected API 3, found {version or 'none'}")
        if kind == "event-based":
            raise ValueError(
                f"{sim.whose}: expected time-based or hybrid, found event-based: it has no step of its own"
            )
        attributes = self._made(sim, meta)
        for uid in (*self._sensors, *self._actuators, *self._rewards):
            entity, attribute = _parted(uid)
            if entity not in attributes:
                raise ValueError(f"{sim.whose}: there is no entity {entity!r}; expected {', '.join(attributes)}")
            if attribute not in attributes[entity]:
                known = ", ".join(attributes[entity])
                raise ValueError(f"{sim.whose}: {entity} has no attribute {attribute!r}; expected {known}")
        sim.ask("setup_done")
        self._next, data = self._stepped(sim, 0, {})
        setpoints = [ActuatorInformation(space.default(), space, uid) for uid, space in self._actuators.items()]
        return EnvironmentBaseline(self._readings(data), setpoints, self._time(0))

    def _made(self, sim: Object | Program, meta: Mapping[str, Any]) -> dict[str, list[str]]:
        """Make the entities; return the attributes of each."""
        found: dict[str, list[str]] = {}

        def note(entities: Sequence[Mapping[str, Any]]) -> None:
            for entity in entities:
                found[str(entity["eid"])] = list(meta["models"].get(entity["type"], {}).get("attrs", ()))
                note(entity.get("children") or ())

        for one in self._models:
            if one.get("model") not in meta["models"]:
                known = ", ".join(meta["models"])
                raise ValueError(f"{sim.whose}: there is no model {one.get('model')!r}; expected {known}")
            note(sim.ask("create", int(one.get("num", 1)), one["model"], **one.get("params", {})))
        return found

    def update(self, actuators: list[ActuatorInformation]) -> EnvironmentState:
        """Make the next step with these inputs."""
        sim, now = self._sim, self._next
        assert sim is not None
        assert now is not None
        inputs: dict[str, dict[str, dict[str, Any]]] = {}
        for it in actuators:
            entity, attribute = _parted(it.uid)
            inputs.setdefault(entity, {})[attribute] = {SOURCE: plain(it.value)}
        following, data = self._stepped(sim, now, inputs)
        if following is not None and following <= now:
            raise ValueError(f"{sim.whose}: step at {now}: expected a later next step, found {following}")
        self._next = following
        paid = [RewardInformation(_value(data, uid), space, uid) for uid, space in self._rewards.items()]
        over = following is None or following >= self._end
        return EnvironmentState(self._readings(data), paid, truncated=over, terminated=False, simtime=self._time(now))

    def _stepped(self, sim: Object | Program, now: int, inputs: Mapping[str, Any]) -> tuple[int | None, Any]:
        """Return the time of the step after this one, and what is read behind this one."""
        step = ("step", now, inputs, self._end)
        following, *read = sim.ask_all(step, ("get_data", self._asked)) if self._asked else sim.ask_all(step)
        return following, read[0] if read else {}

    def _readings(self, data: Mapping[str, Any]) -> list[SensorInformation]:
        return [SensorInformation(_value(data, uid), space, uid) for uid, space in self._sensors.items()]

    def _time(self, ticks: int) -> SimTime:
        return moment(ticks, ticks * self._resolution, self._start)

    def reset(self, request: ResetRequest) -> EnvironmentBaseline:
        """Begin anew with another simulator: mosaik's have no reset."""
        self._episode_seed = request.seed
        self.shutdown()
        return self.start_environment()

    def shutdown(self) -> None:
        """Stop the simulator."""
        sim, self._sim = self._sim, None
        if sim is not None:
            sim.close()


def _parted(uid: str) -> tuple[str, str]:
    """Return (entity, attribute) of an id; entities may have dots in their names."""
    entity, dot, attribute = uid.rpartition(".")
    if not dot:
        raise ValueError(f"{uid}: expected `entity.attribute`")
    return entity, attribute


def _value(data: Mapping[str, Any], uid: str) -> Any:
    entity, attribute = _parted(uid)
    try:
        return data[entity][attribute]
    except KeyError:
        raise ValueError(f"{uid}: the simulator gave no value for it") from None
