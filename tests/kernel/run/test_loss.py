from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ganglion.run.loss import awaited, mended, mends, policy, recovers, restarts, returns, unrepeatable
from ganglion.run.plan import FAIL, RECOVER, RESTART, EnvironmentPlan, PluginPlan, Recovery, processes_of
from ganglion.wire.name import Role

PROGRAM = EnvironmentPlan("mill", command=["mill"])
OURS = EnvironmentPlan("hill", PluginPlan("dummy"))
THEIRS = EnvironmentPlan("moor", attach=True)


def run(kit: Any, **more: Any) -> Any:
    """Return a phase with an environment of each form, and an agent that learns."""
    return kit.phase(environments=[OURS, PROGRAM, THEIRS], agents=[kit.agent(brain="dummy")], **more)


@pytest.mark.parametrize("sync", ["lockstep", "pipelined", "async"])
def test_with_recover_all_of_ours_come_back(kit: Any, sync: str) -> None:
    """Who writes down what is heard comes back as it was; any program is led, unless nobody knows the order."""
    phase = run(kit, on_loss=RECOVER, sync=sync)
    places = processes_of("r", phase)
    labels = {process.label for process in places if returns(phase, process)}
    back = {process.label for process in places if mended(phase, process)}
    programs = {"environment mill (worker 0)"}
    theirs = {"environment moor (worker 0)"}
    waits = {process.label for process in places if awaited(phase, process)}

    assert labels == {
        "brain ada", "controller (worker 0)", "environment hill (worker 0)", "muscle ada (worker 0)",
    }  # fmt: skip
    assert back == labels | (programs if sync != "async" else set())
    assert waits == (programs | theirs if sync != "async" else set())
    assert mends(phase) == (sync != "async")
    assert not any(restarts(phase, process) for process in places)


def test_with_restart_who_takes_part_in_episodes_begins_anew(kit: Any) -> None:
    """Environments and muscles are started anew, or awaited if others start them; all else comes back as it was."""
    phase, theirs = run(kit, on_loss=RESTART), {"environment moor (worker 0)"}
    places = processes_of("r", phase)
    anew = {process.label for process in places if restarts(phase, process)}

    assert anew == {process.label for process in places if awaited(phase, process)}
    assert anew == {
        "environment hill (worker 0)", "environment mill (worker 0)", "environment moor (worker 0)",
        "muscle ada (worker 0)",
    }  # fmt: skip
    assert {"brain ada", "controller (worker 0)"} == {p.label for p in places if returns(phase, p)}
    assert {p.label for p in places if mended(phase, p)} == (anew - theirs) | {"brain ada", "controller (worker 0)"}


def test_with_fail_nobody_comes_back(kit: Any) -> None:
    """The run ends with the first loss; nobody needs to write anything down."""
    phase = run(kit, on_loss=FAIL)

    assert not any(mended(phase, process) for process in processes_of("r", phase))
    assert not recovers(kit.plan(phase))


def test_one_who_comes_back_is_enough_to_write(kit: Any) -> None:
    """If anybody of a run recovers or begins anew, all of ours write down what they hear."""
    hill = replace(OURS, recovery=Recovery(on_loss=RESTART))

    assert recovers(kit.plan(kit.phase(on_loss=FAIL), kit.phase(1, on_loss=FAIL, environments=[hill])))


@pytest.mark.parametrize("said", [RECOVER, RESTART, FAIL])
def test_what_the_loss_of_each_process_means(kit: Any, said: str) -> None:
    """An entry's word is for its own processes; only who takes part in episodes can begin the next one anew."""
    hill = EnvironmentPlan("hill", recovery=Recovery(on_loss=said))
    phase = kit.phase(environments=[hill, EnvironmentPlan("sea")], agents=[kit.agent(brain="dummy")], on_loss=FAIL)
    found = {process.label: policy(phase, process) for process in processes_of("r", phase)}
    whole = {policy(replace(phase, on_loss=said), p) for p in processes_of("r", phase) if p.role in _LASTING}

    assert found["environment hill (worker 0)"] == said
    assert {FAIL} == {means for label, means in found.items() if "hill" not in label}
    assert {RECOVER if said == RESTART else said} == whole


_LASTING = (Role.CONTROLLER, Role.BRAIN)


def test_what_cannot_be_repeated_is_known_by_its_first_phase(kit: Any) -> None:
    """Rows in order of arrival, or an entry that is not deterministic: from there on nothing is compared."""
    usual, free = run(kit), run(kit, index=1, sync="async")
    odd = run(kit, index=1, deterministic=False)
    entry = replace(OURS, recovery=Recovery(deterministic=False))
    rough = replace(run(kit, index=1), environments=[entry])

    assert unrepeatable(kit.plan(usual)) is None
    for phase in (free, odd, rough):
        assert 1 == unrepeatable(kit.plan(usual, phase))
        assert 1 == unrepeatable(kit.plan(usual, phase, run(kit, index=2)))
