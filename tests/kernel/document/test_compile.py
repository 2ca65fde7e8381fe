# ruff: noqa: E501 - a row of a table of cases is easier to compare on one line
from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from ganglion import registry
from ganglion.document import schema
from ganglion.document.compile import resolved
from ganglion.document.fault import Fault
from ganglion.document.schema import PARAMETERISED
from ganglion.run.plan import Plan

Load = Callable[..., tuple[Plan, list[Fault]]]

TEXT = """\
uid: u
seed: 1
version: "0.1"
run_config: {condition: max_episodes}
schedule:
  - one:
      environments: [{environment: {uid: hill, name: dummy}}]
      agents: [{name: ada, muscle: dummy, brain: dummy, sensors: [hill.0]}]
  - two:
      agents: [{name: ada, replay: [{}, {agent: ~, phase: one, mode: TESTING, strict: false}]}]
"""


def test_recorded_episodes(load: Load) -> None:
    """An entry of `replay` is kept without what it leaves open, with its place; written out it reads the same."""
    plan, warnings = load(TEXT)
    ada = plan.phases[1].agents[0]

    assert [] == warnings
    assert [{}, {"phase": "one", "mode": "test", "strict": False}] == ada.replay
    paths = [f"schedule.two.agents.ada.replay.{index}" for index in (0, 1)]
    assert [f"run.yml:10:37: {paths[0]}", f"run.yml:10:41: {paths[1]}"] == ada.replay_at
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


# -- any document -----------------------------------------------------------------------------------------------------
UIDS = ["hill", "net.1", "-x", "yes", "12", "ü n", "{}", "#", "a: b"]
PLAIN = st.dictionaries(st.sampled_from(["a", "null", "1", "yes", "<<"]), VALUES, max_size=2)
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
PROGRAM = st.builds(
    lambda params, form: {"muscle": {"params": params, **form}},
    PLAIN,
    st.sampled_from([{"attach": True}, {"command": ["./act", "-v"], "cwd": "sub", "variables": {"A": "1"}}]),
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
        **draw(PROGRAM | st.fixed_dictionaries({"muscle": PART}, optional={"objective": PART})),
        **draw(keys(brain=PART | st.sampled_from(["none", None]), load=st.sampled_from([{}, False]))),
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
                {"name": name, **draw(keys(brain=PART, sensors=ids(uids, ("7",)), load=st.just({})))} for name in known
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


SCHEMA = Draft202012Validator(schema())


@given(document=documents())
def test_any_document_resolved_gives_the_same_plan(read: Load, document: dict[str, Any]) -> None:
    """A sound document, written out with all its defaults, reads as the same plan, and both fit the schema; a plan travels."""
    plan, _ = read(yaml.safe_dump(document, sort_keys=False, allow_unicode=True))
    again, faults = read(resolved(plan))

    SCHEMA.validate(document)
    SCHEMA.validate({**yaml.safe_load(resolved(plan)), "seed": document["seed"]})
    assert {"warning"} >= {fault.severity for fault in faults}
    assert plan == Plan.from_map(json.loads(json.dumps(plan.to_map())))
    assert placeless(plan.to_map()) == placeless(again.to_map())
    assert resolved(plan) == resolved(again)
    assert [len(phase.environments) for phase in plan.phases] == [len(phase.environments) for phase in again.phases]


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


@given(document=documents(), data=st.data())
def test_what_the_schema_refuses_is_refused(read: Load, document: dict[str, Any], data: st.DataObject) -> None:
    """Whatever stands in the place of any value: an editor marks nothing that the loader would take."""
    changed = copy.deepcopy(document)
    place = data.draw(st.sampled_from(list(maps(changed))))
    if place:
        place[data.draw(st.sampled_from(sorted(place)))] = data.draw(
            st.sampled_from([None, True, 0, 1, -1, 1.5, "", "x", "TEST", [], {}, ["x"], {"x": 1}, {"name": "x"}])
        )

    text = yaml.safe_dump(changed, sort_keys=False, allow_unicode=True)
    assert SCHEMA.is_valid(changed) or read(text)[0] is None


def test_editors_and_loader_know_the_same_kinds() -> None:
    """Each kind of plugin that stands in a document has a place for its parameters, and is a kind that there is."""
    assert set(registry.GROUPS) >= set(PARAMETERISED)
    assert {"environment", "muscle", "brain", "objective", "condition", "controller"} <= set(PARAMETERISED)
