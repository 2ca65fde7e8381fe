from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganglion.run.model import Inheritance, StoredRun, continued, own, pick_phase, pick_run, wish_of
from ganglion.wire.messages import BrainStore

WORDS = [
    ({"phase": 0}, "this run (phase 0)"),
    ({"agent": "ada"}, "this run (its latest earlier phase)"),
    ({"phase": "p", "instance": "x-1"}, "run x-1 (phase `p`)"),
    ({"experiment_run": "x", "instance": "x-1"}, "run x-1 of `x` (the last phase that left one)"),
    ({"experiment_run": "x"}, "the newest finished run of `x` (the last phase that left one)"),
    ({"experiment_run": "farm", "phase": 1}, "this run or of the newest finished run of `farm` (phase 1)"),
]


@pytest.mark.parametrize(("load", "words"), WORDS)
def test_a_wish_is_told_in_words(load: Any, words: str) -> None:
    """What is looked for is said in one sentence."""
    assert f"the model of agent `ada` from {words}" == str(wish_of(load, "ada", "farm", "farm-2"))


def phases(kit: Any, *agents: str) -> list[Any]:
    """Return phases with these agents, one letter for each."""
    return [kit.phase(index, agents=[kit.agent(name) for name in names]) for index, names in enumerate(agents)]


@given(
    took_part=st.lists(st.sets(st.sampled_from("abc"), min_size=1), min_size=1, max_size=6),
    left=st.sets(st.tuples(st.integers(0, 5), st.sampled_from("abc"))),
)
def test_no_model_comes_from_a_later_phase_or_another_agent(
    kit: Any, took_part: list[set[str]], left: set[tuple[int, str]]
) -> None:
    """Whatever has been stored, an agent continues from an earlier phase of its own, and skips none of these."""
    plans = phases(kit, *("".join(sorted(names)) for names in took_part))
    models = {key: f"{key[0]}{key[1]}" for key in left}
    last = len(plans) - 1

    mine = [index for index, names in enumerate(took_part[:last]) if "a" in names]
    expected = models.get((mine[-1], "a")) if mine else None
    assert expected == continued(plans, last, "a", models)


OWN = [
    ({"phase": 0}, "m0", ""),
    ({"phase": "phase 1"}, "m1", ""),
    ({"phase": "0"}, None, "phase `0` is no earlier phase of this run"),
    ({"phase": 2}, None, "phase 2 is no earlier phase of this run"),
    ({"phase": 0, "agent": "b"}, None, "phase 0 of this run has left no model of it"),
    ({"agent": "b"}, "m1b", ""),
    ({"agent": "c"}, None, "no earlier phase of this run has left a model of it"),
]


@pytest.mark.parametrize(("load", "folder", "why"), OWN)
def test_models_of_this_run(kit: Any, load: Any, folder: str | None, why: str) -> None:
    """A number is the index of a phase, text its name; where there is no model it is said why."""
    models = {(0, "a"): "m0", (1, "a"): "m1", (1, "b"): "m1b", (2, "a"): "never"}
    wish = wish_of(load, "a", "farm", "farm-1")

    assert wish is not None
    assert (folder, why) == own(wish, phases(kit, "a", "ab", "abc"), 2, models)


RUNS = [
    StoredRun("x-1", "x", "finished"),
    StoredRun("y-1", "y", "finished"),
    StoredRun("x-2", "x", "finished"),
    StoredRun("x-3", "x", "interrupted"),
    StoredRun("z-1", "z", "failed"),
    StoredRun("farm-1", "farm", "running"),
]
PICKED = [
    ({"experiment_run": "x"}, "x-2"),
    ({"experiment_run": "y"}, "y-1"),
    ({"instance": "x-3"}, "x-3"),
    ({"instance": "x-1", "experiment_run": "x"}, "x-1"),
    ({"instance": "x-1", "experiment_run": "y"}, "run x-1 is one of `x`, not of `y`"),
    ({"instance": "x-9"}, "there is no run x-9"),
    ({"experiment_run": "q"}, "there is no run of `q`"),
    ({"experiment_run": "x-2"}, "there is no run of `x-2`; that is the id of a run: give it as `instance`"),
    ({"experiment_run": "z"}, "no run of `z` has finished: z-1 (failed); `instance` takes a run as it is"),
    ({"experiment_run": "farm"}, "there is no run of `farm`"),  # it is this one, which goes on
]


@pytest.mark.parametrize(("load", "picked"), PICKED)
def test_which_run_is_meant(load: Any, picked: str) -> None:
    """A uid is its newest finished run, an id is that run as it is; else it is said why there is none."""
    wish = wish_of(load, "ada", "farm", "farm-1")
    assert wish is not None
    chosen = pick_run(wish, RUNS, "farm-1")

    assert picked == (chosen if isinstance(chosen, str) else chosen.run)


PHASES = [
    ({}, [0, 2], 2),
    ({"phase": 0}, [0, 2], 0),
    ({"phase": "warm"}, [0, 2], 0),
    ({"phase": "2"}, [0, 2], "run x-1 has no phase `2`"),
    ({"phase": 9}, [0, 2], "run x-1 has no phase 9"),
    ({"phase": 1}, [0, 2], "phase 1 of run x-1 has left no model of agent `ada`"),
    ({}, [], "run x-1 has no model of agent `ada`"),
]


@pytest.mark.parametrize(("load", "having", "picked"), PHASES)
def test_which_phase_of_another_run_is_meant(load: Any, having: list[int], picked: int | str) -> None:
    """It is the one that is named, by index or name, else the last one that has left a model of the agent."""
    wish = wish_of({"instance": "x-1", **load}, "ada", "farm", "farm-1")

    assert wish is not None
    assert picked == pick_phase(wish, {0: "warm", 1: "rest", 2: "hot"}, having, "x-1")


def test_where_nobody_learns_the_former_model_is_stored(kit: Any) -> None:
    """A brain that learns stores what it has become; in a test phase it copies what it began with."""
    found, one = Inheritance(kit.FakeServices(lambda phase: []), "/results"), kit.agent(brain="dummy", models="/second")
    found.restore([[0, "ada", "/a"]])
    found.enter(kit.phase(1, agents=[one]))
    assert BrainStore(source="/a", models="/results/1/ada", second="/second/farm-1/1/ada") == found.request(one)

    found.enter(kit.phase(2, agents=[one], mode="train"))
    assert BrainStore(second="/second/farm-1/2/ada") == found.request(one)
