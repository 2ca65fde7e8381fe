from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import pytest

from ganglion.run.agents import resolve
from ganglion.run.plan import BodyPlan, EnvironmentPlan, PluginPlan, conditions_of
from ganglion.run.setup import Cast, Setup
from ganglion.sdk.condition import EpisodeView, PhaseView, TerminationCondition
from ganglion.sdk.flow import Signal
from ganglion.wire.messages import Verdict


class Paths:
    """Give each path itself as its stream."""

    def words(self, path: Any) -> bytes:
        return "/".join(map(str, path)).encode()

    def integer(self, words: bytes) -> int:
        return len(words)


def test_filters_have_streams_by_their_number(kit: Any) -> None:
    """Both halves of a filter are named in document order, each with its own stream; an agent without any has none."""
    filters = [PluginPlan("norm", {"epsilon": 1.0}), PluginPlan("delta_step")]
    phase = kit.phase(agents=[kit.agent(brain="dummy"), kit.agent(name="bob")], mode="train", workers=2)
    phase.agents[0].filters[:] = filters
    setup = Setup("farm-1", phase, "farm-1/store", "/results", Paths())
    agents = resolve(phase, {"hill": kit.declared})
    cast = Cast([], {}, agents)
    muscle = setup.start(1, cast, Verdict("RESET")).agents[0]["filters"]
    brain = setup.brain(agents[0], {}, {}).filters
    assert brain is not None

    assert [("norm", {"epsilon": 1.0}), ("delta_step", {})] == [(f["name"], f["params"]) for f in muscle]
    path = "phase/phase 0/train/agent/ada/filter"
    assert [f"{path}/0/worker/1", f"{path}/1/worker/1"] == [f["stream"].decode() for f in muscle]
    path = "phase/phase 0/agent/ada/brain/filter"
    assert [f"{path}/0", f"{path}/1"] == [f["stream"].decode() for f in brain]
    assert setup.start(0, cast, Verdict("RESET")).agents[1]["filters"] is None
    later = setup.episode_seeds(1, 4)["hill"]
    assert b"phase/phase 0/train/environment/hill/worker/1/episode/4" == later["stream"]
    assert len(later["stream"]) == later["seed"]


# -- bodies -----------------------------------------------------------------------------------------------------------
class Cap(TerminationCondition):
    """End episodes after so many steps."""

    def __init__(self, steps: int = 3) -> None:
        super().__init__()
        self.steps = steps

    def episode(self, view: EpisodeView) -> Signal:
        """Go on; only how long episodes are at most matters here."""
        return Signal.CONTINUE

    def longest_episode(self, environments: Mapping[str, int | None]) -> int | None:
        return self.steps


class CapOfPhase(Cap):
    """Have a phase part besides."""

    def phase(self, view: PhaseView) -> Signal:
        return Signal.CONTINUE


class Ended(CapOfPhase):
    """Look at which environments have ended: how long they take is not known."""

    reads = frozenset({"ended"})

    def longest_episode(self, environments: Mapping[str, int | None]) -> int | None:
        return None


class Limit(CapOfPhase):
    """Look at the document's limit of episodes."""

    reads = frozenset({"episodes"})


class Objective(Ended):
    """Look at what agents have got."""

    reads = frozenset({"objectives"})


class Given(Paths):
    """Give conditions too."""

    def __init__(self, *conditions: tuple[str, TerminationCondition, str]) -> None:
        self._conditions = conditions

    def conditions(self, phase: Any) -> Any:
        return list(self._conditions)


@pytest.mark.parametrize(
    ("kind", "place", "asked"),
    [
        (Cap, "episode", False),
        (Cap, "phase", False),
        (CapOfPhase, "episode", False),
        (CapOfPhase, "phase", True),
        (Ended, "episode", False),
        (Ended, "phase", True),
        (Limit, "phase", False),
        (Objective, "episode", True),
        (Objective, "phase", True),
    ],
)
def test_timelines_take_the_place_of_conditions(kit: Any, kind: Any, place: str, asked: bool) -> None:
    """Clocks end episodes and budgets replace limits; without bodies every condition is asked."""
    given = [("it", kind(), place)]

    assert (given if asked else []) == conditions_of(kit.phase(bodies=[]), given)
    assert given == conditions_of(kit.phase(), given)


def bodies_phase(kit: Any, **more: Any) -> Any:
    """Return a phase of two workers with three bodies of ada in two environments and one of bob in the second."""
    environments = [
        EnvironmentPlan("lake", PluginPlan("counting"), period=2, offset=1, budget_episodes=3),
        EnvironmentPlan("moor", PluginPlan("counting"), budget_steps=9, max_steps=4, episode_end="bob/0"),
    ]
    bodies = [
        BodyPlan("ada", "lake", 0),
        BodyPlan("ada", "lake", 1, learn=False, scale=-1.0, high=2.0),
        BodyPlan("ada", "moor", 0, period=5, offset=1, between="zero", role="fast", team="red", group="herd"),
        BodyPlan("bob", "moor", 0, shift=0.5),
    ]
    agents = [kit.agent(brain="log", sensors=[], actuators=[]), kit.agent("bob", sensors=[], actuators=[])]
    given = {"mode": "train", "workers": 2, "end": "moor", **more}
    return kit.phase(environments=environments, bodies=bodies, agents=agents, **given)


def test_controllers_are_told_of_clocks_and_bodies(kit: Any) -> None:
    """Environments have their clocks, bodies all that the document says of them and the places of their agents."""
    phase = bodies_phase(kit)
    message = Setup("farm-1", phase, None, "/results", Given()).controller(1, Cast([], {}))
    keys = ("period", "offset", "budget_steps", "budget_episodes", "max_steps", "episode_end")
    assert message.bodies is not None

    assert [(2, 1, None, 3, None, "all"), (1, 0, 9, None, 4, "bob/0")] == [
        tuple(row[key] for key in keys) for row in message.environments
    ]
    assert [("ada", "lake", 0, 0), ("ada", "lake", 1, 0), ("ada", "moor", 0, 0), ("bob", "moor", 0, 1)] == [
        tuple(row[key] for key in ("agent", "environment", "b", "a")) for row in message.bodies
    ]
    assert [{**asdict(body), "policy": "latest"} for body in phase.bodies] == [
        {key: value for key, value in row.items() if key != "a"} | {"most": 0} for row in message.bodies
    ]
    assert ("moor", False) == (message.end, message.mends)


def test_other_phases_hear_of_no_bodies(kit: Any) -> None:
    """Neither their messages nor what these hold of environments and agents have keys of bodies and timelines."""
    phase = kit.phase(agents=[kit.agent(brain="dummy")], mode="train")
    setup = Setup("farm-1", phase, None, "/results", Given())
    message = setup.controller(0, Cast([], {}))
    agents = resolve(phase, {"hill": kit.declared})
    [ada] = setup.start(0, Cast([], {}, agents), Verdict("RESET")).agents

    assert (None, None, None) == (message.bodies, message.end, setup.brain(agents[0], {}, {}).bodies)
    assert not {"period", "episode_end", "max_steps"} & message.environments[0].keys()
    assert not {"bodies", "locals"} & ada.keys()


@pytest.mark.parametrize(
    ("conditions", "caps"),
    [
        ([], [None, 4]),
        ([("max_steps", Cap(7), "episode")], [7, 4]),
        ([("max_steps", Cap(7), "episode"), ("max_steps", Cap(2), "phase"), ("it", Objective(), "episode")], [2, 4]),
    ],
)
def test_caps_of_conditions_are_for_environments_without_their_own(kit: Any, conditions: Any, caps: Any) -> None:
    """The least of several counts."""
    phase = bodies_phase(kit)
    message = Setup("farm-1", phase, None, "/results", Given(*conditions)).controller(0, Cast([], {}))

    assert caps == [row["max_steps"] for row in message.environments]


def test_bodies_have_streams_by_their_coordinates(kit: Any) -> None:
    """Those of an agent are in its order, each with its stream; a brain knows which of them teach it."""
    phase = bodies_phase(kit)
    setup = Setup("farm-1", phase, None, "/results", Given())
    agents = resolve(phase, {"lake": kit.declared, "moor": kit.declared})
    start = setup.start(1, Cast([], {}, agents), Verdict("RESET"))
    ada, bob = start.agents
    path = "phase/phase 0/train/agent/{}/muscle/worker/1/body/{}"
    streams = [path.format("ada", at) for at in ("lake/0", "lake/1", "moor/0")]

    assert [["lake", 0, True], ["lake", 1, False], ["moor", 0, True]] == [row[:3] for row in ada["bodies"]]
    assert streams == [row[3].decode() for row in ada["bodies"]]
    assert [["moor", 0, True, path.format("bob", "moor/0").encode()]] == bob["bodies"]
    assert (["0"], ["moor.0"]) == ([r["id"] for r in ada["sensors"]], [r["id"] for r in bob["sensors"]])
    assert [{"sensors": ["0"], "actuators": ["0"], "rewards": None}] == ada["locals"] == bob["locals"]
    assert [None, None] == [ada["groups"], bob["groups"]]
    assert [["lake", 0, True], ["lake", 1, False], ["moor", 0, True]] == setup.brain(agents[0], {}, {}).bodies
    assert ["ada/0", "ada/1"] == setup.brain(agents[0], {}, {}).muscles
