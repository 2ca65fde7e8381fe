"""Properties of runs: a few cases in every run of the tests, many in the long part; and what a loss must leave."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from simulation.bus import Disturbance, Simulation, kill_one, read, simulate
from simulation.outcome import Outcome

ROLES = ["environment", "muscle", "brain", "controller", "governor", "store"]
# What several workers tell is in no order; the newest update, and the clock on the wall, are none of the document's.
_UNSAID = ("policy_version", "completed")


def searched(many: int, drawn: Mapping[str, Any], few: int = 1, case: Mapping[str, Any] | None = None) -> Any:
    """Make a test of a property that takes `results` and drawn values.

    Every run of the tests tries the `case`, or else `few` drawn ones, and the long part `many`. What fails is not
    shrunk, which would take minutes: it is printed.
    """

    def made(holds: Callable[..., None]) -> Callable[..., None]:
        @pytest.mark.parametrize("count", [few, pytest.param(many, marks=pytest.mark.long)], ids=["few", "many"])
        def test(results: Path, count: int) -> None:
            if case is not None and count == few:
                holds(results, **case)
                return

            @settings(max_examples=count, suppress_health_check=[*HealthCheck], phases=[Phase.explicit, Phase.generate])
            @given(**drawn)
            def one(**values: Any) -> None:
                holds(results, **values)

            one()

        test.__doc__ = holds.__doc__
        return test

    return made


@lru_cache(maxsize=8)
def calm(text: str, seed: int, results: Path) -> Outcome:
    """Return a run in peace, which must end well: it is carried out once for all that is compared with it."""
    outcome = simulate(text, seed, results)
    assert ("finished", 0, []) == (outcome.status, outcome.exit_status, outcome.defects), outcome.reason
    return outcome


def sets(outcome: Outcome, tables: Sequence[str]) -> dict[str, list[str]]:
    """Return the rows of tables in an order of their own: which worker's rows come first is not said."""
    return {
        name: sorted(repr({k: v for k, v in row.items() if k not in _UNSAID}) for row in outcome.tables[name])
        for name in tables
    }


def rows(outcome: Outcome, tables: Sequence[str]) -> dict[str, list[Any]]:
    """Return the rows of tables in their order."""
    return {name: outcome.tables[name] for name in tables}


_usual = partial(sets, tables=("phases", "episodes", "resets", "steps", "actions", "bodies"))


def survives(
    text: str,
    results: Path,
    victim: str = "",
    *,
    seed: int = 11,
    shares: Sequence[float] = (0.6,),
    tight: bool = False,
    view: Callable[[Outcome], Any] = _usual,
) -> Outcome:
    """Assert that kills leave what a run in peace gives; return the disturbed run.

    Args:
        text: The document.
        results: Where both runs are stored.
        victim: A word in the name of whom is killed, `broker`, or empty for anybody.
        seed: Of the run in peace; the schedule of the disturbed one is another.
        shares: When, as parts of the events of the run in peace.
        tight: Whether journals begin anew at each tick, and bounds are near.
        view: What is compared.
    """
    plain = calm(text, seed, results)
    kill = (lambda simulation: simulation.crash_broker(0.1)) if victim == "broker" else partial(kill_one, victim)
    acts = [(int(share * plain.events), kill) for share in shares]
    simulation = Simulation(read(text), seed + 1, results, Disturbance(acts))
    simulation.tight = tight
    lossy = simulation.carry_out()

    assert ("finished", 0, []) == (lossy.status, lossy.exit_status, lossy.defects), lossy.reason
    wanted, found = view(plain), view(lossy)
    if isinstance(wanted, dict):
        for name, table in wanted.items():
            assert table == found[name], name
    assert wanted == found
    return lossy
