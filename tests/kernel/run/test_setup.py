from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ganglion.run.agents import resolve
from ganglion.run.plan import EnvironmentPlan, PluginPlan, Recovery
from ganglion.run.setup import Cast, Setup
from ganglion.sdk.condition import TerminationCondition
from ganglion.sdk.flow import Signal


class Paths:
    """Give each path itself as its stream."""

    def words(self, path: Any) -> bytes:
        """Return the path as bytes."""
        return "/".join(map(str, path)).encode()

    def integer(self, words: bytes) -> int:
        """Return its length."""
        return len(words)


class Watching(TerminationCondition):
    """Have an episode part."""

    def episode(self, view: Any) -> Signal:
        """Never end."""
        return Signal.CONTINUE


def setup_of(kit: Any, phase: Any) -> Setup:
    """Return a set-up whose seeds are their paths."""
    return Setup("farm-1", kit.plan(phase), "farm-1/store", "/results", Paths())


def cast(agents: Sequence[Any], models: Mapping[str, str] | None = None) -> Cast:
    """Return a cast of agents, without conditions and static values."""
    return Cast([], {}, agents, models or {}, {}, False)


def test_streams_are_the_documented_paths(kit: Any) -> None:
    """Every participant gets the stream of its documented path: names, not positions."""
    phase = kit.phase(agents=[kit.agent(brain="dummy")], mode="train", workers=2)
    setup = setup_of(kit, phase)
    agents = resolve(phase, {"hill": kit.declared})
    controller = setup.controller(phase, 1, [], {})
    environment = controller.environments[0]
    muscle = setup._agent(phase, agents[0], 1, cast(agents), False)

    assert b"phase/phase 0/train/controller/worker/1" == controller.stream
    assert b"phase/phase 0/train/environment/hill/worker/1" == environment["stream"]
    assert b"phase/phase 0/train/environment/hill/worker/1/episode/0" == environment["episode_stream"]
    assert len(environment["stream"]) == environment["seed"]
    assert len(environment["episode_stream"]) == environment["episode_seed"]
    assert b"phase/phase 0/train/agent/ada/muscle/worker/1" == muscle["stream"]
    assert b"phase/phase 0/train/agent/ada/objective/worker/1" == muscle["objective_stream"]
    assert b"phase/phase 0/agent/ada/brain" == setup.brain(phase, agents[0], {}, {}).stream


def test_filters_have_streams_by_their_number(kit: Any) -> None:
    """Both halves of a filter are named in document order, each with its own stream; an agent without any has none."""
    filters = [PluginPlan("norm", {"epsilon": 1.0}), PluginPlan("delta_step")]
    phase = kit.phase(agents=[kit.agent(brain="dummy"), kit.agent(name="bob")], mode="train", workers=2)
    phase.agents[0].filters[:] = filters
    setup = setup_of(kit, phase)
    agents = resolve(phase, {"hill": kit.declared})
    muscle = setup._agent(phase, agents[0], 1, cast(agents), False)["filters"]
    brain = setup.brain(phase, agents[0], {}, {}).filters
    assert brain is not None

    assert [("norm", {"epsilon": 1.0}), ("delta_step", {})] == [(f["name"], f["params"]) for f in muscle]
    path = "phase/phase 0/train/agent/ada/filter"
    assert [f"{path}/0/worker/1", f"{path}/1/worker/1"] == [f["stream"].decode() for f in muscle]
    path = "phase/phase 0/agent/ada/brain/filter"
    assert [f"{path}/0", f"{path}/1"] == [f["stream"].decode() for f in brain]
    assert setup._agent(phase, agents[1], 0, cast(agents), False)["filters"] is None
    later = setup.episode_seeds(phase, 1, 4)["hill"]
    assert b"phase/phase 0/train/environment/hill/worker/1/episode/4" == later["stream"]
    assert len(later["stream"]) == later["seed"]


def test_first_episode_s_seed_is_the_verdict_s(kit: Any) -> None:
    """What an environment gets at its start for episode 0 is what a verdict would give it."""
    phase = kit.phase()
    setup = setup_of(kit, phase)
    environment = setup.controller(phase, 0, [], {}).environments[0]

    assert setup.episode_seeds(phase, 0, 0)["hill"]["stream"] == environment["episode_stream"]


def test_controller_gets_the_conditions_with_an_episode_part(kit: Any) -> None:
    """Episode parts go to the controllers: those of the simulation first, then those of the phase."""
    plans = {name: PluginPlan(name) for name in ("a", "b", "c")}
    phase = kit.phase(episode_conditions=[plans["a"], plans["b"]], phase_conditions=[plans["c"]])
    conditions = [("a", Watching(), "episode"), ("b", kit.FakeLimit(1), "episode"), ("c", Watching(), "phase")]
    message = setup_of(kit, phase).controller(phase, 0, conditions, {})

    assert ["a", "c"] == [condition["name"] for condition in message.conditions]


def test_environments_as_they_are_declared(kit: Any) -> None:
    """Plugins go with their parameters, foreign programs without; the content type is that of the peer."""
    phase = kit.phase(
        environments=[
            EnvironmentPlan("hill", PluginPlan("dummy"), params={"a": 1}, per_worker=[{}, {"a": 2}]),
            EnvironmentPlan("lake", command=["lake"], params={"b": 3}),
        ],
        workers=2,
    )
    contents = {"farm-1/environment/lake/1": "json"}
    hill, lake = setup_of(kit, phase).controller(phase, 1, [], contents).environments

    assert ({"a": 2}, "msgpack", "dummy") == (hill["params"], hill["content"], hill["plugin"]["name"])
    assert ({"b": 3}, "json", None) == (lake["params"], lake["content"], lake["plugin"])
    assert "farm-1/environment/lake/1" == lake["peer"]


def test_only_training_asks_brains(kit: Any) -> None:
    """In a test phase a muscle has no brain to ask, whatever the agent has."""
    declared = {"hill": kit.declared}
    for mode, brain in (("train", "farm-1/brain/ada"), ("test", None)):
        phase = kit.phase(agents=[kit.agent(brain="dummy")], mode=mode)
        agents = resolve(phase, declared)
        agent = setup_of(kit, phase)._agent(phase, agents[0], 0, cast(agents), False)
        assert brain == agent["brain"]


def test_models_lie_in_folders_of_safe_names(kit: Any) -> None:
    """An agent's name becomes no path: its model lies below the phase's folder whatever it is called."""
    setup = setup_of(kit, kit.phase())

    assert "/results/brains/0/%2E%2E%2F%2E%2E%2Fetc" == setup.models(kit.phase(), "../../etc")
    assert "/kept/farm-1/0/ada" == setup.models(kit.phase(), "ada", "/kept/farm-1")


def test_brain_and_muscle_begin_with_the_model_that_was_found(kit: Any) -> None:
    """Both get the folder of their agent's model, and none where none was found."""
    phase = kit.phase(agents=[kit.agent(brain="dummy")], mode="train")
    setup, agent = setup_of(kit, phase), resolve(phase, {"hill": kit.declared})[0]

    for models, source in (({"ada": "/m", "bob": "/n"}, "/m"), ({"bob": "/n"}, None)):
        assert source == setup.brain(phase, agent, models, {}).load
        assert source == setup._agent(phase, agent, 0, cast([agent], models), False)["models"]


def test_controllers_know_whose_loss_costs_an_episode(kit: Any) -> None:
    """Each environment and muscle comes with what its loss means, and with deadlines where it has its own."""
    own = Recovery(on_loss="restart", deadlines_s={"update": 3.0})
    environments = [
        EnvironmentPlan("hill", recovery=own),
        EnvironmentPlan("lake"),
        EnvironmentPlan("moor", attach=True, recovery=own),
    ]
    phase = kit.phase(environments=environments, deadlines_s={"act": 5.0}, on_loss="fail")
    declared = dict.fromkeys(("hill", "lake", "moor"), kit.declared)
    agents = resolve(phase, declared)
    setup = setup_of(kit, phase)
    hill, lake, moor = setup.controller(phase, 0, [], {}).environments
    ada = setup._agent(phase, agents[0], 0, cast(agents), False)

    assert [True, False, True, False] == [part["restarts"] for part in (hill, lake, moor, ada)]
    assert {"update": 3.0} == hill["deadlines_s"] == moor["deadlines_s"]
    assert "deadlines_s" not in {**lake, **ada}
    assert {"act": 5.0} == setup.controller(phase, 0, [], {}).deadlines_s
