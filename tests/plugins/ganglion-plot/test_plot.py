"""Curves as numbers, charts and pictures."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from ganglion_plot.chart import HEIGHT, chart
from ganglion_plot.curve import POINTS_MAX, Curve, Series, combined, distinct, smoothed


def curves(ganglion: Callable[..., Any], *words: str) -> list[dict[str, Any]]:
    """Return the curves that a command line gives as JSON."""
    status, out, err = ganglion("plot", *words, "--json")
    assert (0, "") == (status, err)
    return json.loads(out)["curves"]


def test_runs_that_differ_in_the_seed_are_one_curve(ganglion: Any, write: Any) -> None:
    """Two seeds of one document are one mean with a band; another document is a curve of its own on the same axes."""
    write("demo-1", {0: [0.0, 2.0]}, seed="1")
    write("demo-2", {0: [4.0, 6.0]}, seed="2")
    write("demo-3", {0: [9.0]}, text="a: 2")
    first, second = curves(ganglion, "demo-1", "demo-2", "demo-3", "--band", "minmax")

    assert ["demo (2 runs)", "demo-3"] == [first["label"], second["label"]]
    assert ([2.0, 4.0], [0.0, 2.0], [4.0, 6.0]) == (first["mean"], first["low"], first["high"])
    assert ([9.0], [None]) == (second["mean"], second["low"])
    assert ["demo-1", "demo-2"] == [c["label"] for c in curves(ganglion, "demo-1", "demo-2", "--by", "run")]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), [[2.0, 3.0]]),
        (("--by", "worker"), [[0.0, 2.0], [4.0, 4.0]]),
        (("--by", "phase"), [[2.0, 3.0]]),
        (("--what", "objective"), [[4.0, 6.0]]),
        (("--what", "length"), [[1.0, 1.0]]),
        (("--what", "grid.a[0]"), [[1.0, 2.0]]),
        (("--what", "grid.x"), [[0.5, 0.5]]),
        (("--what", "brain.loss"), [[0.0, 10.0]]),
        (("--smooth", "2"), [[2.0, 2.5]]),
        (("--x", "step"), [[2.0, 3.0]]),
    ],
)
def test_what_is_drawn_and_by_what(ganglion: Any, write: Any, words: tuple[str, ...], expected: list[Any]) -> None:
    """Without more the newest run's returns are drawn, over its workers; options choose other values and curves."""
    write("demo-1", {0: [0.0, 2.0], 1: [4.0, 4.0]})

    assert expected == [curve["mean"] for curve in curves(ganglion, *words)]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("dmo-1", "there is no run `dmo-1`; did you mean `demo-1`?"),
        ("--what lenght", "--what: there is no `lenght`; did you mean `length`?"),
        ("--what loss", "--what: there is no `loss`; did you mean `brain.loss`?"),
        ("--what grid.a", "expected an element, as in grid.a[0]; its shape is (2,)"),
        ("--what grid.a[2]", "expected an element, as in grid.a[0]; its shape is (2,)"),
        ("--what grid.x[0]", "expected no element: it is one number; its shape is ()"),
        ("--phase frist", "--phase: there is no phase `frist`; did you mean `first`?"),
        ("--agent adda", "--agent: there is no agent `adda`; did you mean `ada`?"),
        ("--agent ada --what length", "expected --what return or objective, which agents have, found length"),
        ("--mode test", "--mode test: there is no episode of it; there are: train"),
        ("--out there.png", "there.png: expected a new file, found one, and nothing is overwritten"),
        ("--out new.jpg", "new.jpg: expected a file that ends with .png, .svg or .pdf"),
        ("--out new.png --text", "--out: expected neither --text nor --json beside it"),
        ("empty-1", "empty-1: expected an episode with return, found none: nothing to draw"),
    ],
)
def test_refusals(
    ganglion: Any, write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, said: str
) -> None:
    """What cannot be drawn is exit status 2, with what there is instead, and no file is made or changed."""
    monkeypatch.chdir(tmp_path)
    write("empty-1", {})
    write("demo-1", {0: [0.0, 2.0]})
    (tmp_path / "there.png").write_text("mine")
    status, out, err = ganglion("plot", *words.split())

    assert (2, "") == (status, out)
    assert said in err
    assert [("there.png", "mine")] == [(path.name, path.read_text()) for path in tmp_path.glob("*.[jp]*g")]


def test_an_empty_run_beside_others_is_named(ganglion: Any, write: Any) -> None:
    """A run without episodes is left out of a picture of several, and that is said."""
    write("empty-1", {})
    write("demo-1", {0: [0.0, 2.0]})

    assert "run empty-1 has no return to draw, and is left out\n" == ganglion("plot", "demo-1", "empty-1")[2]


def test_without_matplotlib_text_is_drawn_and_pictures_name_it(
    ganglion: Any, write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Text needs no matplotlib; a picture without it is refused with the command that installs it."""
    write("demo-1", {0: [0.0, 2.0]})
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    status, out, _ = ganglion("plot", "--text")
    refused = ganglion("plot", "--out", str(tmp_path / "new.png"))

    assert (0, "* demo-1 ada: 0 → 2") == (status, out.splitlines()[-1])
    assert 2 == refused[0]
    assert "pip install 'ganglion-plot[matplotlib]'" in refused[2]


@pytest.mark.parametrize(
    ("form", "begin", "count"),
    [
        pytest.param("png", b"\x89PNG\r\n", 1, marks=pytest.mark.long),
        ("svg", b"<?xml", 2),
        pytest.param("pdf", b"%PDF-", 1, marks=pytest.mark.long),
    ],
)
def test_pictures_are_of_the_form_of_their_name(
    ganglion: Any, write: Any, tmp_path: Path, form: str, begin: bytes, count: int
) -> None:
    """A picture is written in the form of its file's name; equal curves are equal bytes; names are no markup."""
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'ganglion-plot[matplotlib]'")
    write("demo-1", {0: [0.0, 2.0], 1: [1.0, 5.0]}, agent="_$x^$<b>")
    paths = [tmp_path / f"{number}.{form}" for number in range(count)]
    found = [ganglion("plot", "--by", "worker", "--out", str(path)) for path in paths]

    assert [0] * count == [status for status, _, _ in found]
    assert paths[0].read_bytes().startswith(begin)
    assert 1 == len({path.read_bytes() for path in paths})


def test_the_command_imports_matplotlib_only_for_a_picture() -> None:
    """The help, and a chart of text, load no matplotlib."""
    code = (
        "import sys; import ganglion_plot.command, ganglion_plot.chart, ganglion_plot.source;"
        "assert 'matplotlib' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert (0, "") == (done.returncode, done.stderr)


def series(*values: float, first: int = 0, length: float = 10.0) -> Series:
    """Return a series of one run, whose episodes last `length` steps."""
    episodes = np.arange(first, first + len(values), dtype=np.float64)
    return Series((), "r", episodes, (episodes + 1) * length, np.array(values))


@pytest.mark.parametrize(("width", "expected"), [(1, [2, 4, 9]), (2, [2, 3, 6.5]), (9, [2, 3, 5])])
def test_smoothing_looks_back_only(width: int, expected: list[float]) -> None:
    """A value is smoothed with those before it, as many as there are."""
    assert_allclose(smoothed(np.array([2.0, 4.0, 9.0]), width), expected)


@pytest.mark.parametrize(
    ("band", "low", "high"),
    [
        ("minmax", [0.0, 2.0], [4.0, 6.0]),
        ("std", [0.0, 2.0], [4.0, 6.0]),  # of 0, 2, 4
        ("ci95", [2 - 4.303 * 2 / 3**0.5, 4 - 4.303 * 2 / 3**0.5], [2 + 4.303 * 2 / 3**0.5, 4 + 4.303 * 2 / 3**0.5]),
    ],
)
def test_bands_are_those_of_the_books(band: str, low: list[float], high: list[float]) -> None:
    """Of three series the interval is by Student's t with two degrees of freedom; the deviation has n - 1."""
    x, mean, below, above, count = combined([series(0, 2), series(2, 4), series(4, 6)], band=band)

    assert_allclose(x, [0, 1])
    assert_allclose(mean, [2, 4])
    assert_allclose(below, low)
    assert_allclose(above, high)
    assert [3, 3] == count.tolist()


def test_a_series_alone_has_no_band() -> None:
    """Where only one series goes on there is its value, and no band."""
    _, mean, low, _, count = combined([series(1, 3, 8), series(3)])

    assert_allclose(mean, [2, 3, 8])
    assert [False, True, True] == np.isnan(low).tolist()
    assert [2, 1, 1] == count.tolist()


def test_by_step_series_of_different_pace_are_compared_at_equal_steps() -> None:
    """A slow series has at step 40 what it had at its second episode, a fast one what it had at its fourth."""
    x, mean, _, _, _ = combined([series(0, 1, 2, 3), series(0, 10, length=20.0)], x="step")

    assert_allclose(x, [10, 20, 30, 40])
    assert_allclose(mean, [0, 0.5, 3.5, 6.5])


def test_many_episodes_become_few_points_of_the_same_mean() -> None:
    """A long series is thinned by means of neighbours, at the middle of their episodes."""
    x, mean, _, _, _ = combined([series(*range(10 * POINTS_MAX))])

    assert POINTS_MAX == len(x)
    assert_allclose(mean, x)


def test_labels_have_what_differs() -> None:
    """What is the same for all curves is in none of their labels; a curve alone says all that it is."""
    assert ["a", "b"] == distinct([["demo", "a", ""], ["demo", "b", ""]])
    assert ["demo a"] == distinct([["demo", "a", ""]])


def test_a_chart_has_its_curve_from_left_to_right() -> None:
    """The mark of a rising curve goes from the bottom left to the top right, and each column has one."""
    values = np.arange(5.0)
    none = np.full(5, np.nan)
    curve = Curve("ada", {}, values, values, none, none, np.ones(5, dtype=np.int64))
    lines = list(chart("title", "episode", [curve], 40))
    drawn = [line.partition("|")[2].ljust(36) for line in lines[1 : 1 + HEIGHT]]

    assert ("*", "*") == (drawn[0].rstrip()[-1], drawn[-1][0])
    assert all(any(line[column] == "*" for line in drawn) for column in range(len(drawn[0].rstrip())))
    assert ["title", "* ada: 0 → 4"] == [lines[0], lines[-1]]
