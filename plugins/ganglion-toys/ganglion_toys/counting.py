"""Counting environment: readings that say where and when they were made."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ganglion.sdk import (
    ActuatorInformation,
    Box,
    Environment,
    EnvironmentBaseline,
    EnvironmentState,
    ResetRequest,
    RewardInformation,
    SensorInformation,
    SimTime,
    StepBatch,
)
from ganglion_toys.echo import MODULUS, checksum

__all__ = ["CountingEnvironment"]

OBSERVATION = Box(0, 2**31 - 1, (4,), np.int64)
ANSWER = Box(-1, MODULUS - 1, (), np.int64)
NO_OP = -1
REWARD = Box(-np.inf, np.inf, ())
CRASH_STATUS = 3


class CountingEnvironment(Environment):
    """Report position, episode and step, so that every reading and reward names its origin.

    Sensor `observation` is [e, episode, t, b]: e the environment's place in the phase, episode the resets so far, t
    the steps of this episode (0 after its start), b the body. Actuator `answer` has no influence, its no-op is -1.
    Reward `reward` of the step that made t is 100 a + 10 e + b + t / 1000, where a is the place of the agent. Without
    bodies e, a and b are 0. Simulated time is t.

    Params:
        length: The episode terminates at t = length, >= 1; default 10. A list has one for each body, by agents and b.
        truncate_at: It is truncated at t = truncate_at; default None, never. At both it terminates. Likewise.
        anonymous: True hides e, a, b: observation [0, episode, t, 0], reward t / 1000. Default False.
        verify: True raises ValueError where `answer` is not the checksum of the observation before. Default False.
        events: [{after, spawn, retire, group, reward}, ..]: with bodies, in each episode after that step of it, >= 1:
            the youngest body of the agent `retire` that was spawned is gone, terminated, then one of the agent `spawn`
            comes, with the next number, the greatest length, and readings as of this step; the bodies of `group` get
            `reward`. With episodes of each body those of the first body that takes part count, and one that comes
            counts from 0. Default none.
        crash_at: {episode, step}: end the process with exit status 3 in this step, before it is made; once per run: its
            successor goes on. For tests of lost processes. Default None.
    """

    def __init__(
        self,
        length: int | list[int] = 10,
        truncate_at: int | list[int | None] | None = None,
        anonymous: bool = False,
        verify: bool = False,
        events: Sequence[Mapping[str, Any]] = (),
        crash_at: dict[str, int] | None = None,
    ) -> None:
        super().__init__()
        self.lengths, self.cuts = _listed(length), _listed(truncate_at)
        if min(self.lengths) < 1 or min(cut or 1 for cut in self.cuts) < 1 or 0 in self.cuts:
            raise ValueError(f"length and truncate_at are at least 1, found {length} and {truncate_at}")
        self.length, self.truncate_at = self.lengths[0], self.cuts[0]
        self.anonymous = anonymous
        self.verify = verify
        strange = [event for event in events if not _is_event(event)]
        if strange:
            text = "each of events is {after: n >= 1} with spawn or retire, which name agents, or group and reward"
            raise ValueError(f"{text}, found {strange[0]!r}")
        self.events = [dict(event) for event in events]
        self.crash_at = None if int(os.environ.get("GANGLION_INCARNATION") or 0) > 1 else crash_at
        self.first = 0  # number of the episode that `start_environment` opened
        self.resets = 0
        self.t = self.static = 0
        # Of many bodies: steps and number of the episode of each, when each ends, b, and what each is paid for.
        self.times = self.numbers = self.ends = self.truncations = self.indices = np.zeros(0, np.int64)
        self.places = np.zeros(0)

    @property
    def batched(self) -> bool:  # type: ignore[override]
        """Whether there are bodies, which are counted together."""
        return bool(self.bodies)

    @classmethod
    def longest_episode(cls, length: Any = 10, truncate_at: Any = None, **params: Any) -> int | None:
        """Return the step in which every episode ends."""
        lengths, cuts = _listed(length), _listed(truncate_at)
        longest: int = max(lengths) if None in cuts else min(max(lengths), max(cuts))
        return longest

    def start_environment(self) -> EnvironmentBaseline:
        """Begin the first episode."""
        self.first = self.episode
        count = len(self.bodies)
        if self.events and not count:
            raise ValueError("events: there are no bodies in this phase, so none can come or go")
        for name, given in (("length", self.lengths), ("truncate_at", self.cuts)):
            if len(given) not in (1, count or 1):
                raise ValueError(
                    f"{name}: expected a number or one for each of {count or 1} bodies, found {len(given)}"
                )
        self.times, self.numbers = np.zeros(count, np.int64), np.full(count, -1)
        self.static = count
        self._look()
        return self._begin()

    def _look(self) -> None:
        """Know the bodies that have rows: those of the document, and behind them those that were spawned."""
        count, more = len(self.bodies), len(self.bodies) - self.static
        shown = 0.0 if self.anonymous else 1.0
        self.indices = np.array([body.b for body in self.bodies], np.int64)
        self.places = np.array([shown * (100 * body.a + 10 * self.index + body.b) for body in self.bodies])
        cuts = [-1 if cut is None else cut for cut in self.cuts]
        self.ends, self.truncations = (
            np.concatenate([np.broadcast_to(np.array(given, np.int64), (self.static,)), np.full(more, other)])
            for given, other in ((self.lengths, max(self.lengths)), (cuts, cuts[0] if len(cuts) == 1 else -1))
        )
        self.times, self.numbers = (
            np.concatenate([one[:count], np.zeros(max(count - len(one), 0), np.int64)])
            for one in (self.times, self.numbers)
        )

    def reset(self, request: ResetRequest) -> EnvironmentBaseline:
        """Begin the next episode."""
        self.resets = request.episode - self.first  # not a count of our own: the same request again is the same episode
        return self._begin()

    def _begin(self) -> EnvironmentBaseline:
        self.t = 0
        return EnvironmentBaseline(
            sensors_available=self._readings(),
            actuators_available=[ActuatorInformation(NO_OP, ANSWER, "answer")],
            simtime=SimTime(simtime_ticks=0),
            rewards_available=[RewardInformation(0.0, REWARD, "reward")],
        )

    def update(self, actuators: list[ActuatorInformation]) -> EnvironmentState:
        """Make one step.

        Raises:
            ValueError: With `verify`: an answer is not the checksum of the observation that was sent last.
        """
        if self.crash_at == {"episode": self.first + self.resets, "step": self.t + 1}:
            os._exit(CRASH_STATUS)  # as a crash: nothing is said, nothing is cleaned up
        if self.verify:
            self._verify(actuators)
        self.t += 1
        reward = (0.0 if self.anonymous else 10.0 * self._place()) + self.t / 1000
        terminated = self.t >= self.length
        return EnvironmentState(
            sensor_information=self._readings(),
            rewards=[RewardInformation(reward, REWARD, "reward")],
            terminated=terminated,
            truncated=not terminated and self.t == self.truncate_at,
            simtime=SimTime(simtime_ticks=self.t),
        )

    def begin_batch(self, rows: np.ndarray[Any, Any], seeds: Sequence[int]) -> Mapping[str, np.ndarray[Any, Any]]:
        """Begin an episode of each of these bodies; the seeds have no influence."""
        known = self.indices
        if len(self.bodies) != len(known) or any(self.bodies[row].b != known[row] for row in rows.tolist()):
            self._look()
        born = [row for row in rows.tolist() if row >= len(known) or known[row] != self.indices[row]]
        self.times[rows] = 0
        self.numbers[rows] += 1
        if born:
            self.times[born], self.numbers[born] = (0, 0) if self.each else (self.t, self.numbers[0])
        return {"observation": self._observations(rows)}

    def update_batch(self, setpoints: Mapping[str, np.ndarray[Any, Any]]) -> StepBatch:
        """Make one step with these bodies; raises as `update`."""
        rows = self.rows
        if self.crash_at is not None and len(rows):
            place = {"episode": self.first + int(self.numbers[rows[0]]), "step": int(self.times[rows[0]]) + 1}
            if self.crash_at == place:
                os._exit(CRASH_STATUS)
        if self.verify:
            self._verify_batch(rows, setpoints["answer"])
        self.times[rows] += 1
        times = self.times[rows]
        terminated = times >= self.ends[rows]
        found = StepBatch(
            readings={"observation": self._observations(rows)},
            rewards={"reward": self.places[rows] + times / 1000},
            terminated=terminated,
            truncated=~terminated & (times == self.truncations[rows]),
        )
        if self.events and len(rows):
            self.t = int(times[0])
            self._happen(found, [event for event in self.events if event["after"] == self.t])
        return found

    def _happen(self, found: StepBatch, events: Sequence[Mapping[str, Any]]) -> None:
        """Retire and spawn bodies."""
        spawned = [(row, self.bodies[row]) for row in self.rows.tolist() if row >= self.static]
        leaving: dict[tuple[str, int], Any] = {}
        for agent in (event["retire"] for event in events if "retire" in event):
            there = [body.b for _, body in spawned if body.agent == agent and (agent, body.b) not in leaving]
            if there:
                leaving[agent, max(there)] = "terminated"
        coming: list[tuple[str, int]] = []
        for agent in (event["spawn"] for event in events if "spawn" in event):
            coming.append((agent, 1 + max([self.used.get(agent, -1), *(b for name, b in coming if name == agent)])))
        found.retired, found.spawned = leaving or None, coming
        given: dict[str, float] = {}
        for event in events:
            if "group" in event:
                given[event["group"]] = given.get(event["group"], 0.0) + float(event["reward"])
        found.group_rewards = given or None

    def save_state(self) -> dict[str, Any]:
        """Return what it counts."""
        names = ("first", "resets", "t", "times", "numbers")
        return {name: getattr(self, name) for name in names}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on where `save_state` was called."""
        self.first, self.resets, self.t = (int(state[name]) for name in ("first", "resets", "t"))
        self.times, self.numbers = np.array(state["times"]), np.array(state["numbers"])
        if self.bodies:
            self._look()

    def _observations(self, rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        found = np.zeros((len(rows), 4), np.int64)
        found[:, 1], found[:, 2] = self.numbers[rows], self.times[rows]
        if not self.anonymous:
            found[:, 0], found[:, 3] = self.index, self.indices[rows]
        return found

    def _verify_batch(self, rows: np.ndarray[Any, Any], answers: np.ndarray[Any, Any]) -> None:
        seen = self._observations(rows)
        for row, observation, answer in zip(rows.tolist(), seen, answers.tolist(), strict=True):
            expected, body = checksum([observation]), self.bodies[row]
            if answer != expected:
                raise ValueError(
                    f"body {body.agent}/{self.uid}/{body.b}: expected the answer {expected} to "
                    f"{observation.tolist()}, found {answer}"
                )

    def _place(self) -> int:
        return int(getattr(self, "index", 0))

    def _observation(self) -> np.ndarray[Any, Any]:
        return np.array([0 if self.anonymous else self._place(), self.resets, self.t, 0], dtype=np.int64)

    def _readings(self) -> list[SensorInformation]:
        return [SensorInformation(self._observation(), OBSERVATION, "observation")]

    def _verify(self, actuators: list[ActuatorInformation]) -> None:
        expected = checksum([self._observation()])
        for actuator in actuators:
            if actuator.value != expected:
                raise ValueError(
                    f"{self.uid}, episode {self.resets}, step {self.t + 1}: expected the answer {expected} to "
                    f"{self._observation().tolist()}, found {actuator.value}"
                )


def _is_event(event: Any) -> bool:
    """Say whether this is something that happens: {after, spawn, retire, group, reward}."""
    if not isinstance(event, Mapping) or type(event.get("after")) is not int or event["after"] < 1:
        return False
    names = {key: name for key, name in event.items() if key not in ("after", "reward")}
    if ("group" in names) != (type(event.get("reward")) in (int, float)) or ("reward" in event) != ("group" in names):
        return False
    return bool(names) and names.keys() <= {"spawn", "retire", "group"} and {*map(type, names.values())} == {str}


def _listed(given: Any) -> list[Any]:
    return list(given) if isinstance(given, list) else [given]
