from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ganglion.cli.extension import DocumentError, UsageError, read_tree, written
from ganglion.sdk.seed import integer_from_words, words
from ganglion_sweep.experiment import Experiment
from ganglion_sweep.folder import Folder
from ganglion_sweep.point import Point, check_points, points_of, rows_of, seed_of
from ganglion_sweep.runner import changed, check_begun, settled, todo

Read = Callable[..., Experiment]

SAMPLED = """
factors:
  rate: {set: schedule.train.agents.ada.brain.params.rate, range: {low: 1.0e-4, high: 0.1, log: true}}
  noise: {set: schedule.train.agents.ada.muscle.params.noise, normal: {mean: 0, std: 1}}
  workers: {set: schedule.train.phase_config.worker, levels: [1, 2, 3]}
"""


def test_seeds(read: Read, grid: str) -> None:
    """A repetition has one seed at all points; without pairing each run has its own; given ones are taken."""

    def of(*path: str | int) -> int:
        return integer_from_words(words(7, ["experiment", "grid", "repetition", *path]))

    paired = read(f"{grid}repetitions: 2\n")
    assert [of(0)] * 4 + [of(1)] * 4 == [point.seed for point in points_of(paired)]
    alone = read(f"{grid}repetitions: 2\npairing: false\n")
    assert of(1, "row", 3) == seed_of(alone, 1, 3)
    assert 8 == len({point.seed for point in points_of(alone)})
    given_ones = read(f"{grid}seeds: [11, 12]\n")
    assert [11] * 4 + [12] * 4 == [point.seed for point in points_of(given_ones)]


@pytest.mark.parametrize("design", ["random", "lhs", "sobol", "halton"])
def test_same_document_same_design(read: Read, head: str, design: str) -> None:
    """A design is a function of the document, bit for bit; another seed or uid gives another one."""
    if design in ("sobol", "halton"):
        pytest.importorskip("scipy", reason="needs scipy: pip install 'ganglion-sweep[scipy]'")
    text = f"{head}{SAMPLED}design: {design}\nsamples: 8\n"
    points = points_of(read(text))

    assert 8 == len(points)
    assert [point.text for point in points] == [point.text for point in points_of(read(text))]
    assert [point.digest for point in points] == [point.digest for point in points_of(read(text))]
    for setting in ("seed=8", "uid=other"):
        assert [p.factors for p in points] != [p.factors for p in points_of(read(text, setting))]


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False)
    | st.text("a1:#'\"-~é \n.", max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab.:1", max_size=4), inner, max_size=3),
    max_leaves=6,
)


@given(PLAIN)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_file_says_what_is_run(read: Read, head: str, value: Any) -> None:
    """The document that is written gives the plan that is carried out, but for places, whatever values it has."""
    experiment = read(f"{head}factors: {{a: {{set: schedule.train.agents.ada.muscle.params.a, levels: [1]}}}}\n")
    [point] = points_of(experiment)
    root = point.root.plain()
    root["schedule"][0]["train"]["agents"][0]["muscle"]["params"]["a"] = value
    tree = read_tree("x.yml", written(root))
    assert root == tree.root.plain()


def test_faults_of_runs_lie_in_the_experiment(read: Read, grid: str) -> None:
    """A level that no run can have is told once, at its place in the experiment document."""
    text = grid.replace("levels: [1, 2]", "levels: [1, two]").replace("episodes: 2", "episodes: many")
    with pytest.raises(DocumentError) as error:
        check_points(points_of(read(f"{text}repetitions: 2\n")))

    wrong = [fault for fault in error.value.faults if fault.severity == "error"]
    assert [(10, "many"), (15, "two")] == [(fault.line, fault.message.split("'")[1]) for fault in wrong]


def test_a_design_of_a_plugin_is_checked(read: Read, head: str, tmp_path: Any) -> None:
    """A design may be anybody's function; coordinates that are none are refused by its name."""
    (tmp_path / "corners.py").write_text(
        "import numpy as np\ndef corners(axes, samples, rng, top=0.0):\n    return np.full((samples, len(axes)), top)\n"
    )
    text = f"{head}{SAMPLED}samples: 2\ndesign: {{name: 'corners:corners', params: {{top: 0.5}}}}\n"
    assert [[0.5] * 3] * 2 == rows_of(read(text)).tolist()
    with pytest.raises(UsageError, match="corners:corners`: expected 2 rows of 3 coordinates"):
        rows_of(read(text.replace("0.5", "1.5")))


def rows(points: list[Point], *states: str) -> list[dict[str, Any]]:
    """Return what the store knows of the first points."""
    return [
        {**point.record(), "state": state, "run": None if state == "planned" else f"{point.uid}-1", "reason": None}
        for point, state in zip(points, states, strict=False)
    ]


def test_what_was_running_is_found_out() -> None:
    """A run that the store knows as finished is done; any other that was running is to be repeated."""
    known = [{"point": n, "state": s, "run": f"r-{n}"} for n, s in enumerate(["running", "running", "done", "running"])]

    assert {0: "done", 1: "planned", 3: "planned"} == settled(known, {"r-0": "finished", "r-1": "running"})


def test_begun_experiments_want_to_be_resumed(read: Read, grid: str) -> None:
    """What was only planned may begin; what was begun goes on by --resume only."""
    points = points_of(read(grid))
    check_begun("grid", points, rows(points, "planned", "planned"), resume=False)
    check_begun("grid", points, rows(points, "done", "failed"), resume=True)
    with pytest.raises(UsageError, match="was begun: 1 of 4 points are done; --resume goes on"):
        check_begun("grid", points, rows(points, "done", "failed"), resume=False)


CHANGES = [
    (("factors.length.levels=[4, 5]",), "factor `length`: point 0 is done (run grid-0-1) with 3 and would have 4 now"),
    (("factors.workers.levels=[3]",), "factor `workers`: point 0 is done (run grid-0-1) with 1 and would have 3 now"),
    (("factors.other={set: run_config.x, levels: [1]}",), "factor `other`: point 0 is done (run grid-0-1) without it"),
    (("seed=8",), "seed: point 0 is done (run grid-0-1) with "),
    (("schedule.train.phase_config.episodes=3",), "run: point 0 is done (run grid-0-1) with another run document"),
]


@pytest.mark.parametrize(("settings", "expected"), CHANGES)
def test_another_point_is_refused_by_name(read: Read, grid: str, settings: tuple[str, ...], expected: str) -> None:
    """A point that is done and would be another one now is told with the factor that differs."""
    known = rows(points_of(read(grid)), "done")
    now = points_of(read(grid, *settings))

    why = changed(now[0], known[0])
    assert why is not None
    assert why.startswith(expected)
    with pytest.raises(UsageError, match="experiment grid cannot go on"):
        check_begun("grid", now, known, resume=True)


def test_factors_that_are_gone(read: Read, grid: str, head: str) -> None:
    """A factor, or a whole point, that there is no longer is named."""
    points = points_of(read(grid))
    known = rows(points, "done", "done", "done", "done")
    [alone] = points_of(read(head))

    assert "factor `length`" in str(changed(alone, known[0]))
    assert "no such point any more; it had `length` = 5, `workers` = 2" in str(changed(None, known[3]))
    assert changed(points[0], known[0]) is None


def test_points_that_are_not_done_may_change(read: Read, grid: str) -> None:
    """More repetitions leave the first ones as they are: an experiment can grow."""
    known = rows(points_of(read(grid)), "done", "done", "done", "done")
    more = points_of(read(grid, "repetitions=2"))
    check_begun("grid", more, known, resume=True)

    assert [4, 5, 6, 7] == [point.number for point in todo(more, known, retry_failed=False)]


def test_one_command_at_a_time(tmp_path: Path) -> None:
    """While a command works on an experiment, no other one does; afterwards it may."""
    with Folder(tmp_path, "grid").locked():
        with pytest.raises(UsageError, match="another command is carrying it out"), Folder(tmp_path, "grid").locked():
            pass
        with Folder(tmp_path, "other").locked():
            pass
    with Folder(tmp_path, "grid").locked():
        pass


def test_the_design_may_grow(read: Read, grid: str, tmp_path: Path) -> None:
    """More repetitions add rows to the table and files to the folder; fewer ones are refused."""
    folder = Folder(tmp_path, "grid")
    few, many = (folder.files(points_of(read(grid, f"repetitions={n}"))) for n in (1, 2))
    with folder.locked():
        folder.write(few)
        folder.check(many)
        folder.write(many)
        assert {path: path.read_bytes() for path in many} == many
        with pytest.raises(UsageError, match=r"grid_design\.csv is there with another content;"):
            folder.check(few)


@pytest.mark.parametrize("uid", [".", ".."])
def test_names_that_lead_elsewhere(tmp_path: Path, uid: str) -> None:
    """A uid that would name the folder above is refused."""
    with pytest.raises(UsageError, match="expected a uid that can name a folder"):
        Folder(tmp_path, uid)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    """A place that cannot be written is named."""
    (tmp_path / "sweeps").write_text("a file")
    with pytest.raises(UsageError, match="cannot be written"), Folder(tmp_path, "grid").locked():
        pass
