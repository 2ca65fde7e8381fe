from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganglion.document.cascade import recovery, recovery_faults
from ganglion.document.fault import Fault
from ganglion.document.marks import Node, Source, compose
from ganglion.run.plan import FAIL, ON_LOSS, RECOVER, RESTART, Plan

TEXT = """\
uid: u
seed: 1
version: "0.1"
run_config: {condition: max_episodes}
recovery: {on_loss: fail, deadlines_s: {act: 5, update: 7}, restarts: {max: 2, poison: 4}, run_as: alice}
schedule:
  - one:
      environments:
        - {environment: {uid: hill, name: dummy}, recovery: {deadlines_s: {update: ~}, run_as: ~}}
        - {environment: {uid: sea, name: dummy}}
      agents:
        - {name: ada, muscle: dummy, recovery: {restarts: {max: 9}, deadlines_s: {act: 2}}}
      phase_config: {episodes: 3}
      recovery: {deadlines_s: {act: 6}}
  - two:
      environments: [{environment: {uid: hill}, recovery: {deadlines_s: {reset: 1}}}]
      recovery: {restarts: {within_s: 8}}
"""


def nodes(*texts: str) -> list[Node | None]:
    """Return maps as they stand in a document, the farthest first; an empty text stands for none."""
    return [compose(Source.of("a.yml", text), text)[0] if text else None for text in texts]


def test_the_nearest_wins_key_by_key(load: Callable[..., tuple[Plan, list[Fault]]]) -> None:
    """Document, phase, entry: each says what it says, and all else holds on; so it does from phase to phase."""
    plan = load(TEXT)[0]
    one, two = plan.phases
    hill, ada = one.environments[0].recovery, one.agents[0].recovery

    assert hill is not None
    assert ada is not None
    assert {"act": 5, "update": 7} == plan.recovery.deadlines_s
    assert ({"act": 6, "update": 7}, 2, 4, "alice") == (
        one.deadlines_s, one.restarts_max, one.restarts_poison, one.run_as,
    )  # fmt: skip
    assert ({"act": 6, "update": None}, None, 2) == (hill.deadlines_s, hill.run_as, hill.restarts_max)
    assert one.environments[1].recovery is None
    assert (9, 4, "alice", 2) == (
        ada.restarts_max, ada.restarts_poison, ada.run_as, ada.deadlines_s["act"],
    )  # fmt: skip
    assert (2, 8, {"act": 6, "update": 7}) == (two.restarts_max, two.restarts_within_s, two.deadlines_s)
    again = two.environments[0].recovery
    assert again is not None
    assert ({"act": 6, "update": None, "reset": 1}, 8) == (again.deadlines_s, again.restarts_within_s)


@pytest.mark.parametrize(
    ("levels", "repeatable", "means"),
    [
        ([""], True, ON_LOSS),
        (["on_loss: recover"], True, RECOVER),
        (["deterministic: false"], True, RESTART),
        (["on_loss: recover", "deterministic: false"], True, RESTART),
        (["on_loss: fail", "deterministic: false"], True, FAIL),
        (["deterministic: false", "deterministic: true"], True, ON_LOSS),
        (["on_loss: recover", ""], False, RESTART),
        (["on_loss: fail", ""], False, FAIL),
    ],
)
def test_what_a_loss_means(levels: list[str], repeatable: bool, means: str) -> None:
    """Who would not give the same answers again begins anew, unless the run is to end."""
    assert means == recovery(nodes(*levels), repeatable).on_loss


@pytest.mark.parametrize(
    ("levels", "said"),
    [
        (["on_loss: recover\ndeterministic: false"], "1:10: : {} `deterministic: false` (line 2), {}"),
        (["deterministic: false", "on_loss: recover"], "1:10: : {} `deterministic: false` (line 1), {}"),
        (["deterministic: false", "", "on_loss: recover"], "1:10: : {} `deterministic: false` (line 1), {}"),
    ],
)
def test_a_contradiction_is_a_fault_at_its_place(levels: list[str], said: str) -> None:
    """Who asks for what cannot be is told so, at the line where he asks."""
    text = "found recover: what gives other answers again is not led back"
    [fault] = recovery_faults(nodes(*levels))

    assert said.format("expected restart or fail beside", text) == (
        f"{fault.line}:{fault.column}: {fault.path}: {fault.message}"
    )


@given(
    far=st.sampled_from(["on_loss: recover", "on_loss: restart", "deterministic: true", ""]),
    near=st.sampled_from(["deterministic: false", "on_loss: fail", "on_loss: restart", "run_as: bob", ""]),
)
def test_what_is_said_farther_away_contradicts_nothing(far: str, near: str) -> None:
    """A document may recover all but one: what stands nearer makes the exception."""
    assert [] == recovery_faults(nodes(far, near))


def test_faults_of_entries_stand_at_their_lines(faults_of: Callable[..., list[str]]) -> None:
    """A call that there is not, or a value of another kind, is named in the entry that has it, once for all phases."""
    text = TEXT.replace("run_as: ~", "run_as: 3").replace("{update: ~}", "{updat: ~}")

    assert [
        "9:76: schedule.one.environments.hill.recovery.deadlines_s.updat: unknown call `updat`; did you mean `update`?",
        "9:95: schedule.one.environments.hill.recovery.run_as: expected the name of a user or null, found the number 3",
    ] == [said for said in faults_of(text) if "not built yet" not in said]
