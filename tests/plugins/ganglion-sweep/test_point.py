from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ganglion.cli.extension import DocumentError, UsageError, read_tree, written
from ganglion.sdk.seed import integer_from_words, words
from ganglion_sweep.experiment import Experiment
from ganglion_sweep.point import check_points, points_of, rows_of, seed_of

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
    """A design is a function of the document, bit by bit; another seed or uid gives another one."""
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
