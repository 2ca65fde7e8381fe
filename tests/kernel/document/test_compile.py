# ruff: noqa: E501 - a row of a table of cases is easier to compare on one line
from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from ganglion.document import load_document, schema
from ganglion.document.compile import resolved
from ganglion.document.fault import Fault
from ganglion.document.marks import Source, compose
from ganglion.errors import DocumentError
from ganglion.run.plan import AgentPlan, EnvironmentPlan, PhasePlan, Plan, PluginPlan, ProgramPlan

Load = Callable[..., tuple[Plan, list[Fault]]]

TEXT = """\
uid: u
seed: 123456789012345678901234567890
version: "0.1"
run_config: {condition: max_episodes}
recovery: {deadlines_s: {act: 5, update: 7}}
schedule:
  - one:
      environments:
        - {environment: {uid: hill, name: dummy, params: {a: "1e-4", b: 1e-4, c: yes, d: "true"}}, reward: slope}
        - {environment: {uid: sea, attach: true, params: {x: [1, ~]}}}
        - {environment: {uid: mill, name: dummy}, state_transformer: counting}
        - environment: {uid: prog, command: [./prog, "{connection}"], cwd: sub, variables: {A: "1"}, per_worker: [{p: 1}]}
      agents:
        - {name: ada, muscle: dummy, brain: {name: dummy, params: {lr: 0.5}}, sensors: [hill.0, sea.*], actuators: [hill.0]}
        - {name: bob, muscle: dummy, brain: none, objective: dummy, rewards: [sea]}
        - {name: cyd, muscle: dummy, load: {agent: ~}}
      phase_config: {worker: 2, episodes: 3}
      recovery: {deadlines_s: {act: 6}}
  - two:
      agents: [{name: bob, load: {}}]
      phase_config: {mode: TESTING}
      simulation: {name: taking_turns, conditions: [{name: max_steps, params: {steps: 4}}]}
"""


def test_recorded_episodes(load: Load) -> None:
    """An entry of `replay` is kept without what it leaves open, with its place; written out it reads the same."""
    text = TEXT.replace(
        "agents: [{name: bob, load: {}}]",
        "agents: [{name: ada, replay: [{}, {agent: ~, phase: one, mode: TESTING, strict: false}]}]",
    ).replace("mode: TESTING}\n", "mode: train}\n")
    plan, warnings = load(text)
    ada = plan.phases[1].agents[0]

    assert [] == warnings
    assert [{}, {"phase": "one", "mode": "test", "strict": False}] == ada.replay
    assert [
        "run.yml:20:37: schedule.two.agents.ada.replay.0",
        "run.yml:20:41: schedule.two.agents.ada.replay.1",
    ] == ada.replay_at
    assert [] == plan.phases[0].agents[0].replay
    assert placeless(plan.to_map()) == placeless(load(resolved(plan))[0].to_map())


def placeless(value: Any) -> Any:
    """Return a plan's map without places and texts."""
    if isinstance(value, dict):
        shut = {"at", "sensors_at", "actuators_at", "rewards_at", "load_at", "models_at", "replay_at"}
        shut |= {"source", "folder", "document"}
        return {key: placeless(part) for key, part in value.items() if key not in shut}
    return [placeless(part) for part in value] if isinstance(value, list) else value


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False)
    | st.text(st.characters(codec="utf-8", exclude_characters="\x7f\ufeff", exclude_categories=["Cc", "Cs", "Cn", "Co"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab~1.-: #", min_size=1), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(["a", "null", "1", "yes", "<<"]), VALUES))
def test_any_params_survive_being_written(params: dict[str, Any]) -> None:
    """Whatever parameters a plan has, the written-out document holds just these."""
    plugin = PluginPlan("dummy", params)
    agent = AgentPlan("a", plugin, None, plugin, [], [])
    phase = PhasePlan(0, "p", [EnvironmentPlan("e", plugin, params=params)], [agent], plugin, [], [])
    text = resolved(Plan("u", "u", "1", [phase]))

    root, faults = compose(Source("a.yml", text), text)

    assert [] == faults
    assert root is not None
    assert params == root.plain()["schedule"][0]["p"]["environments"][0]["environment"]["params"]


# -- any document -----------------------------------------------------------------------------------------------------
UIDS = ["hill", "net.1", "-x", "yes", "12", "ü n", "{}", "#", "a: b"]
PLAIN = st.dictionaries(
    st.sampled_from(["a", "null", "1"]), st.integers(-(2**53) + 1, 2**53 - 1) | st.text("ab:'", max_size=3), max_size=2
)
CHANCE = st.booleans()


def keys(**optional: Any) -> st.SearchStrategy[dict[str, Any]]:
    """Return maps with some of these keys."""
    return st.fixed_dictionaries({}, optional=optional)


FORM = st.sampled_from([{"name": "dummy"}, {"attach": True}, {"command": ["run", "{connection}"], "cwd": "below"}])
DEFINITION = keys(params=PLAIN, per_worker=st.lists(PLAIN, max_size=2))
CONDITIONS = st.lists(
    st.sampled_from(["max_episodes", "environment"]) | st.builds(lambda p: {"name": "max_steps", "params": p}, PLAIN),
    max_size=2,
)
CONFIG = keys(
    mode=st.sampled_from(["train", "Testing", "TEST"]), worker=st.integers(1, 3), episodes=st.none() | st.integers(1, 3),
    conditions=st.none() | CONDITIONS,
)  # fmt: skip
SIMULATION = keys(name=st.sampled_from(["vanilla", "taking_turns"]), params=PLAIN, conditions=CONDITIONS)
RECOVERY = keys(
    deadlines_s=st.dictionaries(st.sampled_from(["act", "update"]), st.none() | st.integers(1, 9)),
    on_loss=st.sampled_from(["fail", "restart"]),
    deterministic=st.booleans(),
    checkpoint_s=st.integers(1, 99),
    run_as=st.none() | st.just("bob"),
    restarts=keys(max=st.integers(1, 9), within_s=st.integers(1, 9), poison=st.integers(1, 9)),
)
PART = st.just("dummy") | st.builds(lambda p: {"name": "dummy", "parameters": p}, PLAIN)


def ids(uids: list[str], among: tuple[str, ...]) -> st.SearchStrategy[list[str]]:
    """Return lists of full ids of these environments."""
    return st.lists(st.sampled_from([f"{uid}.{local}" for uid in uids for local in among]), max_size=3, unique=True)


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """Return a sound document: a first phase, and others that change, add and take away."""
    uids = draw(st.lists(st.sampled_from(UIDS), min_size=1, max_size=3, unique=True))
    names = draw(st.lists(st.sampled_from(UIDS), min_size=1, max_size=2, unique=True))
    entry = lambda uid: {"environment": {"uid": uid, **draw(FORM), **draw(DEFINITION)}}  # noqa: E731
    agent = lambda name: {  # noqa: E731
        "name": name,
        "muscle": draw(PART),
        **draw(keys(brain=PART | st.sampled_from(["none", None]), objective=PART, load=st.sampled_from([{}, False]))),
        **draw(
            keys(
                sensors=ids(uids, ("0", "1.2")),
                actuators=ids(uids, ("*",)),
                rewards=st.lists(st.sampled_from(uids), max_size=1),
            )
        ),
    }
    phases: list[dict[str, Any]] = [
        {"environments": [entry(uid) for uid in uids], "agents": [agent(name) for name in names]}
    ]
    for index in range(draw(st.integers(0, 2))):
        changed = draw(st.lists(st.sampled_from(uids), max_size=2, unique=True))
        known = draw(st.lists(st.sampled_from(names), max_size=2, unique=True))
        gift: dict[str, Any] = {
            "environments": [
                {"environment": {"uid": uid, **draw(keys(params=PLAIN))}, **draw(keys(recovery=RECOVERY))}
                for uid in changed
            ],
            "agents": [
                {"name": name, **draw(keys(muscle=PART, sensors=ids(uids, ("7",)), load=st.just({})))} for name in known
            ],
        }
        if draw(CHANCE):
            gift["environments"].append({"environment": {"uid": f"new {index}", "name": "dummy"}})
            gift["agents"].append({"name": f"new {index}", "muscle": "dummy", "sensors": [f"new {index}.0"]})
        elif index == 1 and "new 0" in [a["name"] for a in phases[1]["agents"]]:
            gift["environments"].append({"environment": {"uid": "new 0"}, "remove": True})
            gift["agents"].append({"name": "new 0", "remove": True})
        phases.append(gift)
    for phase in phases:
        phase |= draw(keys(phase_config=CONFIG, simulation=SIMULATION, recovery=RECOVERY))
    return {
        "uid": draw(st.sampled_from(UIDS)),
        "seed": draw(st.integers(0, 2**70)),
        "version": "0.1",
        "run_config": {"condition": draw(PART.map(lambda _: "vanilla"))},
        "schedule": [{f"{index}": phase} for index, phase in enumerate(phases)],
        **draw(keys(experiment=st.sampled_from(UIDS), recovery=RECOVERY)),
    }


@settings(max_examples=50)
@given(document=documents())
def test_any_document_resolved_gives_the_same_plan(document: dict[str, Any]) -> None:
    """Whatever a sound document says, written out with all its defaults it reads as the same plan, and stays so."""
    plan, _ = read(yaml.safe_dump(document, sort_keys=False, allow_unicode=True))
    again, faults = read(resolved(plan))

    assert {"warning"} >= {fault.severity for fault in faults}
    assert placeless(plan.to_map()) == placeless(again.to_map())
    assert resolved(plan) == resolved(again)
    assert [len(phase.environments) for phase in plan.phases] == [len(phase.environments) for phase in again.phases]


SCHEMA = Draft202012Validator(schema())
FREE = ("params", "parameters", "per_worker", "deadlines_s", "load")  # below them anything goes, or other rules hold


def maps(tree: Any, place: str = "") -> Iterator[dict[str, Any]]:
    """Yield every map of a document whose keys are fixed."""
    if isinstance(tree, list):
        for part in tree:
            yield from maps(part, place)
    elif isinstance(tree, dict):
        if place != "schedule":
            yield tree
        for key, part in tree.items():
            if key not in FREE:
                yield from maps(part, key)


def is_refused(document: dict[str, Any]) -> bool:
    """Say whether the loader finds an error."""
    try:
        read(yaml.safe_dump(document, sort_keys=False, allow_unicode=True))
    except DocumentError:
        return True
    return False


@settings(max_examples=100)
@given(document=documents())
def test_any_document_fits_the_schema(document: dict[str, Any]) -> None:
    """Whatever a sound document says, the schema accepts it, and what it resolves to."""
    SCHEMA.validate(document)
    plan, _ = read(yaml.safe_dump(document, sort_keys=False, allow_unicode=True))
    SCHEMA.validate({**yaml.safe_load(resolved(plan)), "seed": document["seed"]})


@settings(max_examples=100)
@given(document=documents(), data=st.data())
def test_broken_documents_are_refused_by_both(document: dict[str, Any], data: st.DataObject) -> None:
    """A key that there is not, a missing one and a value of a wrong type are refused by schema and loader alike."""
    broken = copy.deepcopy(document)
    place = data.draw(st.sampled_from(list(maps(broken))))
    known = sorted(set(place) - {"load"})  # what it may be is not only a matter of form
    change = data.draw(st.sampled_from(["unknown", "missing", *(["wrong"] if known else [])]))
    if change == "unknown":
        place["zzz"] = data.draw(st.sampled_from([None, 1, "x", {}]))
    elif change == "wrong":
        place[data.draw(st.sampled_from(known))] = [[1]]
    else:
        broken.pop(data.draw(st.sampled_from(["uid", "seed", "run_config", "schedule"])))

    assert not SCHEMA.is_valid(broken)
    assert is_refused(broken)


@settings(max_examples=100)
@given(document=documents(), data=st.data())
def test_what_the_schema_refuses_is_refused(document: dict[str, Any], data: st.DataObject) -> None:
    """Whatever stands in the place of any value: an editor marks nothing that the loader would take."""
    changed = copy.deepcopy(document)
    place = data.draw(st.sampled_from(list(maps(changed))))
    if place:
        place[data.draw(st.sampled_from(sorted(place)))] = data.draw(
            st.sampled_from([None, True, 0, 1, -1, 1.5, "", "x", "TEST", [], {}, ["x"], {"x": 1}, {"name": "x"}])
        )

    assert SCHEMA.is_valid(changed) or is_refused(changed)


class AnyPlugin:
    """Know every plugin."""

    def locate(self, kind: str, name: str, folder: str = "", allow: Any = (), local: bool = True) -> str:
        """Return the name."""
        return name

    def alias(self, kind: str, name: str) -> None:
        """Know no names of other projects."""


def read(text: str) -> tuple[Plan, list[Fault]]:
    """Return the plan of a text and its warnings."""
    return load_document("run.yml", plugins=AnyPlugin(), text=text)


def test_programs_that_act_are_planned(load: Load) -> None:
    """A muscle that is a program has its command, folder, variables and parameters; the document comes back from it."""
    form = '{command: [./act, "-v"], cwd: sub, variables: {A: "1"}, params: {bias: [1.0]}}'
    text = TEXT.replace("name: ada, muscle: dummy", f"name: ada, muscle: {form}")
    plan, _ = load(text.replace("name: cyd, muscle: dummy", "name: cyd, muscle: {attach: true}"))
    ada, bob, cyd = plan.phases[0].agents

    assert ProgramPlan(["./act", "-v"], "sub", {"A": "1"}, {"bias": [1.0]}) == ada.program
    assert ((None, None), ProgramPlan()) == ((ada.muscle, bob.program), cyd.program)
    again, _ = load(resolved(plan))
    assert [a.program for p in plan.phases for a in p.agents] == [a.program for p in again.phases for a in p.agents]
