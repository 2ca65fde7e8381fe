from __future__ import annotations

from typing import Any

from ganglion.run.effect import Stage


def test_a_phase_goes_through_the_stages_in_order(kit: Any) -> None:
    """From the first call to the last the stages of a learning phase come in the order in which they are declared."""
    phase = kit.phase(agents=[kit.agent(brain="dummy")], mode="train")
    farm = kit.Farm(kit.plan(phase), [("limit", kit.FakeLimit(1), "phase")])
    seen = [farm.governor.stage]
    farm.begin()
    while True:
        if farm.governor.stage is not seen[-1]:
            seen.append(farm.governor.stage)
        if not farm.move():
            break
    if farm.governor.stage is not seen[-1]:
        seen.append(farm.governor.stage)

    assert [stage for stage in Stage if stage is not Stage.FAILING] == seen
