from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ganglion.document.cascade import Expanded, cascade, expand
from ganglion.document.marks import Node, Source, node_of

NOWHERE = Source("", inline=True)


def phase(name: str, given_: dict[str, Any]) -> tuple[Node, Node]:
    """Return a phase without places."""
    return Node(name, NOWHERE), node_of(given_, NOWHERE)


def expanded(*given_: dict[str, Any], replace: bool = False) -> list[Expanded]:
    """Return phases, named by their index, after the cascade."""
    return cascade([phase(str(index), one) for index, one in enumerate(given_)], replace)


def environment(uid: str, **keys: Any) -> dict[str, Any]:
    """Return an environment's entry."""
    return {"environment": {"uid": uid, **keys}}


def agent(name: str, **keys: Any) -> dict[str, Any]:
    """Return an agent."""
    return {"name": name, **keys}


WARM_UP = {
    "environments": [
        {**environment("hill", name="dummy", params={"max_iter": 8}), "reward": {"name": "my:Slope"}}
    ],
    "agents": [agent("walker", muscle={"name": "dummy"}, sensors=["hill.0", "hill.1"], actuators=["hill.0"])],
    "phase_config": {"mode": "train", "worker": 2, "episodes": 5},
}
DUET = {
    "environments": [environment("lake", name="dummy"), environment("hill", params={"discrete": False})],
    "agents": [
        agent("swimmer", muscle={"name": "dummy"}, sensors=["lake.0"]),
        agent("walker", sensors=["hill.1"]),
    ],
}
SOLO = {
    "environments": [{**environment("hill"), "remove": True}],
    "agents": [agent("walker", remove=True)],
    "phase_config": {"mode": "test", "episodes": 1},
}


def test_entities_merge_change_and_leave() -> None:
    """What is given overwrites, new entities follow, all else stays; what is removed is gone."""
    warm_up, duet, solo = (one.plain() for one in expanded(WARM_UP, DUET, SOLO))

    assert WARM_UP["environments"] == warm_up["environments"]
    changed = {
        **environment("hill", name="dummy", params={"max_iter": 8, "discrete": False}),
        "reward": {"name": "my:Slope"},
    }
    assert [changed, environment("lake", name="dummy")] == duet["environments"]
    walker = agent("walker", muscle={"name": "dummy"}, sensors=["hill.1"], actuators=["hill.0"])
    swimmer = agent("swimmer", muscle={"name": "dummy"}, sensors=["lake.0"])
    assert [walker, swimmer] == duet["agents"]
    assert {"mode": "train", "worker": 2, "episodes": 5} == duet["phase_config"]
    assert [environment("lake", name="dummy")] == solo["environments"]
    assert [swimmer] == solo["agents"]
    assert {"mode": "test", "worker": 2, "episodes": 1} == solo["phase_config"]


def test_full_definition_overwrites_all() -> None:
    """An entry with a name replaces what was defined, reward included, and says that it drops one."""
    _, second = expanded(WARM_UP, {"environments": [environment("hill", name="dummy")]})

    assert [environment("hill", name="dummy")] == second.plain()["environments"]
    assert ["this full definition of `hill` drops its reward of an earlier phase"] == [
        f.message for f in second.faults
    ]


def test_other_forms_are_full_definitions_too() -> None:
    """`command` and `attach` define an environment anew; `attach: false` does not."""
    first = {"environments": [environment("e", name="dummy", params={"a": 1})]}

    for keys in ({"command": ["x"]}, {"attach": True}):
        assert [environment("e", **keys)] == expanded(first, {"environments": [environment("e", **keys)]})[
            1
        ].plain()["environments"]
    changed = expanded(first, {"environments": [environment("e", attach=False)]})[1].plain()["environments"]
    assert [environment("e", name="dummy", params={"a": 1}, attach=False)] == changed


def test_null_removes_an_optional_part() -> None:
    """`~` takes an inherited reward away without a new definition."""
    _, second = expanded(WARM_UP, {"environments": [{**environment("hill"), "reward": None}]})

    assert second.plain()["environments"][0]["reward"] is None  # type: ignore[index]


def test_parts_with_a_name_replace_and_without_one_merge() -> None:
    """A brain without a name changes params key by key, with a name it is a new one; lists replace as a whole."""
    first = {"agents": [agent("a", brain={"name": "b", "params": {"x": 1, "y": 2}}, sensors=["e.1", "e.2"])]}

    merged = expanded(first, {"agents": [agent("a", brain={"params": {"y": 3}}, sensors=["e.3"])]})[1]
    new = expanded(first, {"agents": [agent("a", brain={"name": "c"})]})[1]

    assert [agent("a", brain={"name": "b", "params": {"x": 1, "y": 3}}, sensors=["e.3"])] == merged.plain()[
        "agents"
    ]
    assert [agent("a", brain={"name": "c"}, sensors=["e.1", "e.2"])] == new.plain()["agents"]


def test_simulation_with_a_name_replaces() -> None:
    """A named simulation drops inherited conditions; one without a name changes what it gives."""
    first = {"simulation": {"name": "vanilla", "params": {"a": 1}, "conditions": [{"name": "max_steps"}]}}

    assert {"name": "x"} == expanded(first, {"simulation": {"name": "x"}})[1].plain()["simulation"]
    changed = expanded(first, {"simulation": {"params": {"b": 2}, "conditions": []}})[1].plain()["simulation"]
    assert {"name": "vanilla", "params": {"a": 1, "b": 2}, "conditions": []} == changed


def test_load_is_not_inherited() -> None:
    """`load` is an act of one phase."""
    first, second = expanded({"agents": [agent("a", load=False)]}, {"agents": []})

    assert [agent("a", load=False)] == first.plain()["agents"]
    assert [agent("a")] == second.plain()["agents"]


def test_recovery_merges_key_by_key() -> None:
    """Deadlines of a phase join those that it inherits."""
    first = {"recovery": {"on_loss": "fail", "deadlines_s": {"act": 1, "update": 2}}}
    _, second = expanded(first, {"recovery": {"deadlines_s": {"act": 3}}})

    assert {"on_loss": "fail", "deadlines_s": {"act": 3, "update": 2}} == second.plain()["recovery"]


def test_what_was_removed_may_come_back_behind() -> None:
    """A full definition brings a removed environment back, behind those that stayed."""
    first = {"environments": [environment("a", name="x"), environment("b", name="x")]}
    phases = expanded(
        first,
        {"environments": [{**environment("a"), "remove": True}]},
        {"environments": [environment("a", name="y")]},
    )

    assert [environment("b", name="x"), environment("a", name="y")] == phases[2].plain()["environments"]


def test_removal_of_nothing_is_a_fault() -> None:
    """Only what is inherited can be removed."""
    (only,) = expanded({"environments": [{**environment("a"), "remove": True}]})

    assert ["there is no `a` to remove in phase `0`"] == [fault.message for fault in only.vain]


def test_twice_in_a_phase_is_a_fault() -> None:
    """An entity that one phase gives twice is a fault, and the first one counts."""
    (only,) = expanded({"agents": [agent("a", sensors=["e.1"]), agent("a", sensors=["e.2"])]})

    assert ["duplicate name `a`: each stands once in the agents of a phase"] == [
        fault.message for fault in only.faults
    ]
    assert [agent("a", sensors=["e.1"])] == only.plain()["agents"]


def test_replace_takes_each_key_whole() -> None:
    """With `cascade: replace` what a phase gives takes the place of the inherited key; the rest is inherited."""
    _, second = expanded(WARM_UP, {"agents": [agent("b")], "phase_config": {"mode": "test"}}, replace=True)

    assert WARM_UP["environments"] == second.plain()["environments"]
    assert [agent("b")] == second.plain()["agents"]
    assert {"mode": "test"} == second.plain()["phase_config"]


def test_inherited_phase_stays_as_it_is() -> None:
    """Expanding a later phase changes nothing in the one before."""
    first, _ = expanded(WARM_UP, DUET)
    (alone,) = expanded(WARM_UP)

    assert alone.plain() == first.plain()


PARAMS = st.dictionaries(st.sampled_from("xyz"), st.integers(0, 3), max_size=3)
PLUGIN = st.fixed_dictionaries({}, optional={"name": st.sampled_from(["p", "q"]), "params": PARAMS})
ENTRY = st.builds(
    lambda uid, keys, reward: {"environment": {"uid": uid, **keys}, **reward},
    st.sampled_from(["e", "f", "g"]),
    PLUGIN,
    st.fixed_dictionaries({}, optional={"reward": st.none() | PLUGIN}),
)
AGENT = st.builds(
    lambda name, keys: {"name": name, **keys},
    st.sampled_from(["a", "b"]),
    st.fixed_dictionaries(
        {}, optional={"brain": PLUGIN, "sensors": st.lists(st.sampled_from("stu"), max_size=2)}
    ),
)
PHASE = st.fixed_dictionaries(
    {},
    optional={
        "environments": st.lists(ENTRY, max_size=3, unique_by=lambda e: e["environment"]["uid"]),
        "agents": st.lists(AGENT, max_size=2, unique_by=lambda a: a["name"]),
        "simulation": PLUGIN,
        "phase_config": st.dictionaries(st.sampled_from(["worker", "episodes"]), st.integers(1, 3)),
    },
)


@given(st.lists(PHASE, min_size=1, max_size=4), st.booleans())
def test_empty_phase_and_repeated_phase_change_nothing(given_: list[dict[str, Any]], replace: bool) -> None:
    """A phase that gives nothing, or the same once more, is like the one before."""
    last = expanded(*given_, replace=replace)[-1].plain()

    assert last == expanded(*given_, {}, replace=replace)[-1].plain()
    assert last == expanded(*given_, given_[-1], replace=replace)[-1].plain()


@given(st.lists(PHASE, min_size=2, max_size=4), st.booleans(), st.data())
def test_cascade_is_associative_over_phases(
    given_: list[dict[str, Any]], replace: bool, data: st.DataObject
) -> None:
    """A cascade may be cut anywhere: the rest goes on from the last phase as from a document of its own."""
    cut = data.draw(st.integers(1, len(given_) - 1))
    whole = expanded(*given_, replace=replace)
    begin = expanded(*given_[:cut], replace=replace)[-1]
    kept = {key: value for key, value in begin.plain().items() if value is not None}
    own = expanded(kept, *given_[cut:], replace=replace)

    assert [one.plain() for one in whole[cut:]] == [one.plain() for one in own[1:]]
    assert whole[cut].plain() == expand(begin, *phase("x", given_[cut]), replace).plain()
