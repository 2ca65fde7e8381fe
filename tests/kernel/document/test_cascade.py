from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ganglion.document.cascade import Expanded, cascade
from ganglion.document.marks import Node, Source, compose
from ganglion.limits import PHASES_PER_RUN, PROCESSES_PER_RUN

NOWHERE = Source("", inline=True)


def phase(name: str, given_: dict[str, Any]) -> tuple[Node, Node]:
    """Return a phase without places."""
    node, _ = compose(NOWHERE, json.dumps(given_))
    assert node is not None
    return Node(name, NOWHERE), node


def expanded(*given_: dict[str, Any], replace: bool = False) -> list[Expanded]:
    """Return phases, named by their index, after the cascade."""
    return cascade([phase(str(index), one) for index, one in enumerate(given_)], replace)


def plain(phase_: Expanded) -> dict[str, Any]:
    """Return an expanded phase as plain values."""
    parts = {"simulation": phase_.simulation, "phase_config": phase_.config, "recovery": phase_.recovery}
    return {
        "environments": [node.plain() for node in phase_.environments.values()],
        "agents": [node.plain() for node in phase_.agents.values()],
        **{key: None if part is None else part.plain() for key, part in parts.items()},
    }


def environment(uid: str, **keys: Any) -> dict[str, Any]:
    """Return an environment's entry."""
    return {"environment": {"uid": uid, **keys}}


def agent(name: str, **keys: Any) -> dict[str, Any]:
    """Return an agent."""
    return {"name": name, **keys}


WARM_UP = {
    "environments": [{**environment("hill", name="dummy", params={"max_iter": 8}), "reward": {"name": "my:Slope"}}],
    "agents": [agent("walker", muscle={"name": "dummy"}, sensors=["hill.0", "hill.1"], actuators=["hill.0"])],
    "phase_config": {"mode": "train", "worker": 2, "episodes": 5},
}


def test_full_definition_overwrites_all() -> None:
    """An entry with a name replaces what was defined, reward included, and says that it drops one."""
    _, second = expanded(WARM_UP, {"environments": [environment("hill", name="dummy")]})

    assert [environment("hill", name="dummy")] == plain(second)["environments"]
    assert ["this full definition of `hill` drops its reward of an earlier phase"] == [f.message for f in second.faults]


def test_null_removes_an_optional_part() -> None:
    """`~` takes an inherited reward away without a new definition."""
    _, second = expanded(WARM_UP, {"environments": [{**environment("hill"), "reward": None}]})

    assert plain(second)["environments"][0]["reward"] is None  # type: ignore[index]


PARAMS = st.dictionaries(st.sampled_from("xyz"), st.integers(0, 3), max_size=3)
SIMPLE = st.fixed_dictionaries({}, optional={"name": st.sampled_from(["p", "q"]), "params": PARAMS})
LOADS = st.sampled_from([False, {}, {"phase": 0}])
GIFT = st.fixed_dictionaries(
    {},
    optional={
        "environments": st.lists(
            st.builds(
                lambda uid, keys, more: {"environment": {"uid": uid, **keys}, **more},
                st.sampled_from(["e", "f", "g"]),
                st.fixed_dictionaries({}, optional={"name": st.sampled_from("pq"), "params": PARAMS}),
                st.fixed_dictionaries({}, optional={"reward": SIMPLE, "state_transformer": SIMPLE}),
            ),
            max_size=3,
            unique_by=lambda e: e["environment"]["uid"],
        ),
        "agents": st.lists(
            st.builds(
                lambda name, keys: {"name": name, **keys},
                st.sampled_from(["a", "b", "c"]),
                st.fixed_dictionaries(
                    {},
                    optional={
                        "brain": SIMPLE,
                        "muscle": SIMPLE,
                        "objective": SIMPLE,
                        "sensors": st.lists(st.sampled_from("stu"), max_size=2),
                        "actuators": st.none() | st.just([]),
                        "load": LOADS,
                    },
                ),
            ),
            max_size=3,
            unique_by=lambda a: a["name"],
        ),
        "simulation": st.fixed_dictionaries(
            {}, optional={"name": st.sampled_from("vt"), "params": PARAMS, "conditions": st.lists(SIMPLE, max_size=2)}
        ),
        "phase_config": st.dictionaries(st.sampled_from(["worker", "episodes"]), st.integers(1, 3)),
    },
)


@given(st.lists(GIFT, min_size=1, max_size=4), st.booleans())
def test_empty_phase_and_repeated_phase_change_nothing(given_: list[dict[str, Any]], replace: bool) -> None:
    """A phase that gives nothing, or the same once more, is like the one before."""
    last = plain(expanded(*given_, replace=replace)[-1])

    assert acted(last) == plain(expanded(*given_, {}, replace=replace)[-1])
    assert last == plain(expanded(*given_, given_[-1], replace=replace)[-1])


# -- what one gift of two gives ---------------------------------------------------------------------------------------
# Two phases in a row may give at once what each of them gives where this can be said in one phase: what the first
# takes away (`remove`, `~`) the second does not change; what the first says of `load` is over.
def joined(first: dict[str, Any], second: dict[str, Any], replace: bool) -> dict[str, Any]:
    """Return what one phase would have to give that stands for two: written without the cascade's own code."""
    if replace:
        return {**acted(first), **second}
    gift = {**acted(first), **second}
    if "environments" in first and "environments" in second:
        gift["environments"] = [
            *(joined_entry(one, two) for one, two in pairs(first, second, "environments", uid_of)),
            *fresh(first, second, "environments", uid_of),
        ]
    if "agents" in first and "agents" in second:
        gift["agents"] = [
            *(joined_agent(one, two) for one, two in pairs(acted(first), second, "agents", name_of)),
            *fresh(first, second, "agents", name_of),
        ]
    for key in ("simulation", "phase_config"):
        if key in first and key in second:
            gift[key] = joined_plugin(first[key], second[key], key == "simulation")
    return gift


def acted(gift: dict[str, Any]) -> dict[str, Any]:
    """Return a gift without its acts: `load` is of its own phase only."""
    if "agents" not in gift:
        return gift
    return {**gift, "agents": [{k: v for k, v in a.items() if k != "load"} for a in gift["agents"]]}


def uid_of(entry: dict[str, Any]) -> str:
    """Return the name of an environment's entry."""
    return str(entry["environment"]["uid"])


def name_of(entry: dict[str, Any]) -> str:
    """Return the name of an agent."""
    return str(entry["name"])


def pairs(first: Any, second: Any, key: str, named: Any) -> list[tuple[Any, Any]]:
    """Return each entry of the first with that of the second of the same name, None where there is none."""
    return [(one, next((t for t in second[key] if named(t) == named(one)), None)) for one in first[key]]


def fresh(first: Any, second: Any, key: str, named: Any) -> list[Any]:
    """Return the entries of the second that the first has not."""
    return [two for two in second[key] if named(two) not in map(named, first[key])]


def joined_plugin(one: dict[str, Any], two: dict[str, Any], named: bool = True) -> dict[str, Any]:
    """Return one `{name, params}` for two: a name begins anew, else the parameters join."""
    if named and "name" in two:
        return two
    both = {**one, **two}
    if "params" in one and "params" in two:
        both["params"] = {**one["params"], **two["params"]}
    return both


def joined_entry(one: dict[str, Any], two: dict[str, Any] | None) -> dict[str, Any]:
    """Return one environment's entry for two."""
    if two is None or "name" in two["environment"]:
        return one if two is None else two
    return {**one, **two, "environment": joined_plugin(one["environment"], two["environment"])}


def joined_agent(one: dict[str, Any], two: dict[str, Any] | None) -> dict[str, Any]:
    """Return one agent's entry for two."""
    if two is None:
        return one
    both = {**one, **two}
    for key in ("brain", "muscle", "objective"):
        if key in one and key in two:
            both[key] = joined_plugin(one[key], two[key])
    return both


@given(st.lists(GIFT, max_size=2), GIFT, GIFT, st.booleans())
def test_two_phases_give_what_one_gives_that_joins_them(
    before: list[dict[str, Any]], first: dict[str, Any], second: dict[str, Any], replace: bool
) -> None:
    """Expanding by one gift and then by another is expanding by both in one."""
    apart = plain(expanded(*before, first, second, replace=replace)[-1])
    at_once = plain(expanded(*before, joined(first, second, replace), replace=replace)[-1])

    assert apart == at_once


@given(st.lists(GIFT, min_size=1, max_size=4), st.booleans())
def test_load_is_there_only_where_it_is_given(given_: list[dict[str, Any]], replace: bool) -> None:
    """Each phase has just the `load`s that it gives itself."""
    for gift, phase_ in zip(given_, expanded(*given_, replace=replace), strict=True):
        there = {a["name"]: a["load"] for a in plain(phase_)["agents"] if "load" in a}  # type: ignore[attr-defined]

        assert {a["name"]: a["load"] for a in gift.get("agents", []) if "load" in a} == there


def test_removal_takes_one_and_a_definition_brings_it_back() -> None:
    """Without the one that is removed all is as before; defined anew it has nothing of the past and stands last."""
    lake = {"environments": [environment("lake", name="dummy")]}
    removal = {"environments": [{**environment("hill"), "remove": True}]}
    *_, out, back = expanded(WARM_UP, lake, removal, {"environments": [environment("hill", name="new")]})

    assert [] == out.vain
    assert lake["environments"] == plain(out)["environments"]
    assert [*lake["environments"], environment("hill", name="new")] == plain(back)["environments"]


def test_too_many_phases_end_the_cascade() -> None:
    """The phase that is one too many is named, none behind it is expanded."""
    text = "".join(f"- p{i}: {{}}\n" for i in range(PHASES_PER_RUN + 50))
    root, _ = compose(Source("a.yml", text), text)
    assert root is not None
    given = [(entry.keys[name], part) for entry in root.items for name, part in entry.map.items()]

    found = cascade(given, replace=False)

    assert PHASES_PER_RUN + 1 == len(found)
    assert [None] * PHASES_PER_RUN == [phase.excess for phase in found[:-1]]
    assert found[-1].excess is not None
    assert ("a.yml:1001:3", True) == (found[-1].excess.place, "phases_per_run" in found[-1].excess.message)


def test_too_many_agents_end_the_cascade() -> None:
    """Agents that add up to more processes than a run may have are refused where they do."""
    found = expanded(*({"agents": [agent(f"a{i}-{j}") for j in range(10)]} for i in range(60)))

    assert 1 + (PROCESSES_PER_RUN - 1) // 10 == len(found)
    assert found[-1].excess is not None
    assert "processes_per_run" in found[-1].excess.message
