from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ganglion.run.loss import mended, policy
from ganglion.run.plan import EnvironmentPlan, processes_of
from ganglion.run.recovery import FAIL, RECOVER, RESTART, Recovery
from ganglion.wire.name import Role


@pytest.mark.parametrize("sync", ["lockstep", "pipelined", "async"])
@pytest.mark.parametrize("on_loss", ["fail", "recover"])
def test_environments_are_mended_where_that_is_asked_for(kit: Any, sync: str, on_loss: str) -> None:
    """Only a lost environment, only with `recover`, and not where nobody knows the order of what it was told."""
    phase = replace(kit.phase(workers=2), sync=sync, on_loss=on_loss)
    found = {process.role for process in processes_of("r", phase) if mended(phase, process)}

    assert found == ({Role.ENVIRONMENT} if on_loss == "recover" and sync != "async" else set())


def test_who_is_started_by_others_is_not_mended(kit: Any) -> None:
    """A program that somebody else starts comes back when he starts it."""
    phase = replace(kit.phase(), on_loss="recover", environments=[EnvironmentPlan("hill", attach=True)])

    assert not any(mended(phase, process) for process in processes_of("r", phase))


@pytest.mark.parametrize("said", [RECOVER, RESTART, FAIL])
def test_what_the_loss_of_each_process_means(kit: Any, said: str) -> None:
    """An entry's word is for its own processes; only who takes part in episodes can begin the next one anew."""
    hill = EnvironmentPlan("hill", recovery=Recovery(on_loss=said))
    phase = kit.phase(
        environments=[hill, EnvironmentPlan("sea")], agents=[kit.agent(brain="dummy")], on_loss=FAIL
    )
    found = {process.label: policy(phase, process) for process in processes_of("r", phase)}
    whole = {policy(replace(phase, on_loss=said), p) for p in processes_of("r", phase) if p.role in _LASTING}

    assert found["environment hill (worker 0)"] == said
    assert {FAIL} == {means for label, means in found.items() if "hill" not in label}
    assert {RECOVER if said == RESTART else said} == whole


_LASTING = (Role.CONTROLLER, Role.BRAIN)
