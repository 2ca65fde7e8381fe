"""Masks and arrays of several lengths, through the whole bus: told, kept, recorded, refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from simulation import Outcome, calm, searched, sets, simulate, survives

PLAIN = """
uid: masks
seed: 1
version: "0.1"
schedule:
  - train:
      environments:
        - {{environment: {{uid: house, name: {environment}, params: {params}}}}}
      agents:
        - name: ada
          brain: {brain}
          muscle: {muscle}
          filters: {filters}
          sensors: {sensors}
          actuators: ["house.*"]
      phase_config: {{mode: train, worker: {workers}, episodes: 2, evaluate_every: 2}}
run_config: {{condition: vanilla}}
"""
BODIES = """
uid: masks
seed: 1
version: "0.1"
schedule:
  - train:
      environments:
        - environment: {{uid: house, name: {environment}, params: {params}}}
          budget: {{episodes: {episodes}}}
          episode_end: {end}
        - environment: {{uid: hut, name: {environment}, params: {params}}}
          budget: {{episodes: {episodes}}}
          clock: {{period: 2}}
      agents: [{{name: ada, brain: {brain}, muscle: {muscle}, filters: {filters}}}]
      bodies: {{num: [2, 1]}}
      phase_config: {{mode: train, worker: {workers}}}
      simulation: {{name: aeb}}
"""
FEW = {
    "environment": "doors",
    "params": "{longest: 6, listed: true}",
    "brain": "simulation.masks:ArrayBrain",
    "muscle": "simulation.masks:ArrayMuscle",
    "sensors": "[house.prizes, house.open, house.list]",
    "filters": "[]",
    "workers": 1,
    "episodes": 2,
    "end": "all",
}
OBJECTS = {"muscle": "simulation.masks:ObjectMuscle"}
REBEL = "{name: 'simulation.masks:%s', params: {rebels: 1}}"


def run(document: str, results: Path, **given: Any) -> Outcome:
    """Carry out a document to its good end."""
    return calm(document.format(**{**FEW, **given}), 1, results)


@pytest.mark.parametrize(("document", "workers"), [(PLAIN, 2), (BODIES, 1)], ids=["plain", "bodies"])
def test_objects_and_arrays_are_told_the_same(results: Path, document: str, workers: int) -> None:
    """Each sees what is allowed and what is listed, does nothing else, and learns from equal masks, filters or none."""
    arrays = run(document, results, workers=workers)
    assert arrays.tables["actions"]
    for row in arrays.tables["actions"]:
        seen = {uid.rpartition(".")[2]: value for uid, value in row["sensors"].items()}
        (chosen,) = row["setpoints"].values()
        assert 1 == seen["open"][chosen]
        assert [i for i, free in enumerate(seen["open"]) if free] == [number for number, _ in seen["list"]]
    names = ("phases", "episodes", "steps", "actions", "resets")
    assert sets(arrays, names) == sets(run(document, results, workers=workers, **OBJECTS), names)


def test_learners_keep_to_masks_behind_a_filter(results: Path) -> None:
    """`norm` shows masks as they are, and the muscle of the toys draws what is allowed."""
    rows = run(PLAIN, results, filters="[norm]", muscle="random", brain="log").tables["actions"]
    assert all(1 == row["sensors"]["house.open"][row["setpoints"]["house.door"]] for row in rows)


@pytest.mark.parametrize(
    ("document", "given", "texts"),
    [
        *(
            (document, {"muscle": REBEL % muscle}, ["setpoint house.door: only", "is allowed now, found"])
            for document, muscle in ((PLAIN, "ObjectMuscle"), (PLAIN, "ArrayMuscle"))
        ),
        *(
            (BODIES, {"muscle": REBEL % muscle}, ["setpoint door of body house/", ": only", "is allowed now, found"])
            for muscle in ("ObjectMuscle", "ArrayMuscle")
        ),
        *(
            (document, {"environment": "simulation.masks:WrongDoors", "params": f"{{listed: true, wrong: {wrong}}}"}, t)
            for document in (PLAIN, BODIES)
            for wrong, t in (
                ("short", ["open"]),
                ("nothing", ["open", 'Mask(5, of="door")', "False, False, False, False, False"]),
                (
                    "name",
                    ["sensor 'gate' is Mask(5, of=\"gate\"): expected an actuator 'gate' with Discrete(5), found none"],
                ),
                ("twice", ["actuator 'door' has two masks: sensors 'open' and 'twin'"]),
            )
        ),
        (
            BODIES,
            {"environment": "simulation.masks:WrongDoors", "params": "{listed: true, wrong: float}"},
            ["open", "Mask(5"],
        ),
        (PLAIN, {"sensors": "[house.prizes]"}, ["'house.open' is missing, which says what is allowed of its actuator"]),
    ],
)
def test_what_no_mask_allows_is_refused_by_coordinate(
    results: Path, document: str, given: dict[str, Any], texts: list[str]
) -> None:
    """A setpoint in the muscle, a mask in the environment, and an agent that does not see what binds it."""
    outcome = simulate(document.format(**{**FEW, **given}), 1, results)

    assert "failed" == outcome.status
    assert [] == [text for text in texts if text not in outcome.reason], outcome.reason


def test_a_tolerated_error_goes_on_with_something_allowed(results: Path) -> None:
    """What was set before may be forbidden now: the first value that is allowed takes its place."""
    muscle = "{name: 'simulation.masks:TiltedMuscle', on_error: continue}"
    for document in (PLAIN, BODIES):
        for row in run(document, results, muscle=muscle, brain="log").tables["actions"]:
            (mask,) = (value for uid, value in row["sensors"].items() if uid.endswith("open"))
            assert 1 == mask[next(iter(row["setpoints"].values()))]


# -- losses -----------------------------------------------------------------------------------------------------------
DRAWN = {
    "document": st.sampled_from([PLAIN, BODIES]),
    "form": st.sampled_from([{}, OBJECTS]),
    "workers": st.integers(1, 2),
    "end": st.sampled_from(["all", "each"]),
    "seed": st.integers(0, 2**32),
    "share": st.floats(0.0, 1.0),
}
CASE = {"document": BODIES, "form": {}, "workers": 2, "end": "each", "seed": 5, "share": 0.5}


@searched(200, DRAWN, case=CASE)
def test_a_loss_does_not_show(results: Path, document: str, form: Any, seed: int, share: float, **given: Any) -> None:
    """Whoever is killed at whatever moment: masks and lists are those of the undisturbed run."""
    survives(document.format(**{**FEW, **given, **form, "episodes": 4}), results, seed=seed, shares=[share])
