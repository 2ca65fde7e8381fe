"""Designs and their points."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ganglion.cli.extension import DocumentError, Node, Source, UsageError, read_tree, written
from ganglion.sdk.seed import integer_from_words, words
from ganglion_sweep.design import full, lhs, random, size, thinned
from ganglion_sweep.experiment import Experiment
from ganglion_sweep.factor import Factor
from ganglion_sweep.folder import Folder
from ganglion_sweep.point import Point, check_points, points_of, rows_of, seed_of
from ganglion_sweep.quasi import halton, indices, sensitivity, sobol
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


LEVELS = st.lists(st.integers(1, 5), min_size=1, max_size=4)
AXES = st.lists(st.none() | st.integers(1, 5), min_size=1, max_size=4)
SEEDS = st.integers(0, 2**32)


@given(LEVELS)
def test_full_is_the_product_in_order(levels: list[int]) -> None:
    """Every combination comes once, the last factor fastest."""
    expected = [list(map(float, row)) for row in itertools.product(*(range(n) for n in levels))]

    assert expected == full(levels).tolist()
    assert len(expected) == size(levels)


@given(LEVELS, st.data(), SEEDS)
def test_thinning_keeps_points_of_the_full_design(levels: list[int], data: st.DataObject, seed: int) -> None:
    """As many as wanted are kept, each once, in their order, and the same ones for the same generator."""
    points = data.draw(st.integers(1, size(levels)))
    kept = thinned(levels, points, np.random.default_rng(seed)).tolist()

    assert points == len(kept) == len({tuple(row) for row in kept})
    assert sorted(kept) == kept
    assert all(row in full(levels).tolist() for row in kept)
    assert kept == thinned(levels, points, np.random.default_rng(seed)).tolist()


@given(LEVELS, SEEDS)
def test_thinning_goes_far(levels: list[int], seed: int) -> None:
    """Of two points that are kept, the one is among the farthest from the other, levels scaled to 0..1."""
    assume(size(levels) >= 2)
    scale = np.maximum(np.array(levels) - 1, 1)
    pair = thinned(levels, 2, np.random.default_rng(seed)) / scale
    away = [np.linalg.norm(full(levels) / scale - point, axis=1).max() for point in pair]

    assert np.isclose(away, np.linalg.norm(pair[0] - pair[1])).any()


@given(AXES, st.integers(1, 40), SEEDS)
def test_lhs_hits_each_stratum_once(axes: list[int | None], samples: int, seed: int) -> None:
    """Of n strata of a range each is hit once; of levels each comes equally often, up to one."""
    rows = lhs(axes, samples, np.random.default_rng(seed))

    assert (samples, len(axes)) == rows.shape
    for column, levels in zip(rows.T, axes, strict=True):
        if levels is None:
            edges = np.arange(samples + 1) / samples
            assert [1] * samples == [
                int(((low <= column) & (column < high)).sum()) for low, high in itertools.pairwise(edges)
            ]
        else:
            counts = np.bincount(column.astype(int), minlength=levels)
            assert len(counts) == levels
            assert counts.max() - counts.min() <= 1


@given(AXES, st.integers(1, 20), SEEDS)
def test_random_stays_on_its_axes(axes: list[int | None], samples: int, seed: int) -> None:
    """Coordinates are numbers of levels, or in [0, 1); the same generator draws the same points."""
    rows = random(axes, samples, np.random.default_rng(seed))

    for column, levels in zip(rows.T, axes, strict=True):
        assert ((column >= 0) & (column < (levels or 1))).all()
        assert levels is None or (column == np.floor(column)).all()
    assert rows.tolist() == random(axes, samples, np.random.default_rng(seed)).tolist()


DESIGNS = [sobol, halton]


def test_sobol_keeps_its_balance() -> None:
    """Of eight points each eighth of each range is hit once."""
    pytest.importorskip("scipy", reason="needs scipy: pip install 'ganglion-sweep[scipy]'")
    rows = sobol([None] * 3, 8, np.random.default_rng(0))

    assert [list(range(8))] * 3 == [sorted((column * 8).astype(int).tolist()) for column in rows.T]


@pytest.mark.parametrize("design", DESIGNS)
def test_what_is_missing_is_said(design: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without scipy the design names the extra to install."""
    monkeypatch.setitem(sys.modules, "scipy.stats.qmc", None)
    assert callable(design)
    with pytest.raises(UsageError, match=r"needs scipy: pip install 'ganglion-sweep\[scipy\]'"):
        design([None], 4, np.random.default_rng(0))


MARK = Node("f", Source("x", inline=True))
PLACES = st.floats(0, 1, exclude_max=True)


def ranged(low: float, high: float, **more: Any) -> Factor:
    """Return a factor with a range."""
    return Factor("f", MARK, (("a",),), low=low, high=high, **more)


@given(PLACES, st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_a_range_is_never_left(place: float, low: float, width: float) -> None:
    """Every place of the axis is a number of the range."""
    assert low <= ranged(low, low + width).level(place).label <= low + width


@given(PLACES, st.integers(1, 50), st.integers(1, 50), st.booleans())
def test_whole_numbers_are_whole(place: float, low: int, width: int, log: bool) -> None:
    """A range of whole numbers gives integers between its ends."""
    number = ranged(low, low + width, whole=True, log=log).level(place).label

    assert isinstance(number, int)
    assert low <= number <= low + width


def test_points_of_a_full_design_include_both_ends() -> None:
    """A range is cut evenly, a logarithmic one into equal ratios, and no number comes twice."""
    assert [0.0, 0.5, 1.0] == [level.label for level in ranged(0.0, 1.0, points=3).stepped().levels or ()]
    logarithmic = [level.label for level in ranged(1e-4, 1e-1, log=True, points=4).stepped().levels or ()]
    assert (1e-4, 1e-1) == (logarithmic[0], logarithmic[-1])
    assert logarithmic == pytest.approx([1e-4, 1e-3, 1e-2, 1e-1])
    assert [1, 2, 3] == [level.label for level in ranged(1, 3, whole=True, points=9).stepped().levels or ()]
    assert [5.0] == [level.label for level in ranged(5.0, 6.0, points=1).stepped().levels or ()]


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "library", "more", "count"),
    [
        ("fractional", "pyDOE3", "", 8),
        ("box-behnken", "pyDOE3", "", 13),
        ("ccd", "pyDOE3", "", 15),
        ("sensitivity", "SALib", "samples: 8", 40),
    ],
)
def test_designs_of_libraries(head: str, read: Any, name: str, library: str, more: str, count: int) -> None:
    """Each has the points that its theory says, at the ends of ranges, and the same ones from the same document."""
    pytest.importorskip(library)
    keys = "abcde" if name == "fractional" else "abc"
    paths = [f"schedule.train.agents.ada.brain.params.{key}" for key in keys]
    factors = "".join(f"  {p[-1]}: {{set: {p}, range: {{low: 1.0, high: 3.0}}}}\n" for p in paths)
    text = (
        f"{head.replace('brain: dummy', 'brain: {name: dummy, params: {}}')}factors:\n{factors}design: {name}\n{more}\n"
    )
    first, again = (points_of(read(text)) for _ in range(2))

    assert (count, [p.digest for p in first]) == (len(first), [p.digest for p in again])
    values = {value for point in first for value in point.factors.values()}
    assert {1.0, 3.0} <= values or name == "sensitivity"
    assert all(1.0 <= value <= 3.0 for value in values)


def test_indices_tell_which_factor_explains_the_results() -> None:
    """Of y = 4 a + b the first factor explains 16 of 17 parts; a product needs the pair; equal numbers nothing."""
    pytest.importorskip("SALib", reason="needs SALib: pip install 'ganglion-sweep[salib]'")
    axes, rng = (None, None), np.random.default_rng(1)
    points = sensitivity(axes, 256, rng, second_order=True)
    linear, product = 4 * points[:, 0] + points[:, 1], (points[:, 0] - 0.5) * (points[:, 1] - 0.5)
    first, second, pair = indices(["a", "b"], 256, linear.tolist(), True, 1)
    *_, both = indices(["a", "b"], 256, product.tolist(), True, 1)

    assert [["a"], ["b"], ["a", "b"]] == [row["factors"] for row in (first, second, pair)]
    assert first["own"] == pytest.approx(16 / 17, abs=0.05)
    assert second["total"] == pytest.approx(1 / 17, abs=0.05)
    assert both["own"] == pytest.approx(1.0, abs=0.15)
    assert [] == indices(["a"], 4, [1.0] * 12, False, 1)
