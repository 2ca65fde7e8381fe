from __future__ import annotations

import io

import hypothesis.strategies as st
import pytest
from hypothesis import given

from ganglion.cli.screen import LiveProgress, sparkline
from ganglion.cli.settings import Settings
from ganglion.supervisor.runs import Outcome
from ganglion.wire.messages import RunEvent


@pytest.mark.parametrize(
    ("values", "line"),
    [([], ""), ([1.0], "▅"), ([1.0, 2.0], "▁█"), ([2.0, 1.0, 1.5], "█▁▅"), ([3.0] * 4, "▅▅▅▅")],
)
def test_numbers_become_bars(values: list[float], line: str) -> None:
    """The lowest is the lowest bar, the highest the highest; equal ones are bars of middle height."""
    assert line == sparkline(values)


@given(st.lists(st.floats(-1e9, 1e9), max_size=200))
def test_line_has_a_width(values: list[float]) -> None:
    """However many numbers there are, the line is at most twelve wide."""
    assert min(12, len(values)) == len(sparkline(values))


def test_run_is_drawn_to_its_end() -> None:
    """What was up, the bar of a phase, the returns and the end stand on the screen."""
    out, err = io.StringIO(), io.StringIO()
    progress = LiveProgress(Settings(), out, err)
    progress.begin("demo-1", "42", "results/demo-1")
    progress.event("demo-1", RunEvent("run.started", {"participants": "governor, store"}, 0.0))
    started = {"phase": 0, "name": "train", "workers": 2, "episodes": 5}
    progress.event("demo-1", RunEvent("phase.started", started, 0.0))
    for number in range(10):
        fields = {"phase": 0, "steps": 3, "returns": {"scout": float(number)}}
        progress.event("demo-1", RunEvent("episode.ended", fields, 0.0))
    progress.event("demo-1", RunEvent("waiting", {"text": "waiting 4.2 s for scout"}, 0.0))
    progress.event("demo-1", RunEvent("phase.ended", {"phase": 0}, 0.0))
    progress.end(Outcome("demo-1", "finished", "completed", 0, [], 1.0), " in x.db")
    text = out.getvalue()

    for words in (
        "run demo-1 · seed 42",
        "broker, governor, store",
        "10/10 episodes",
        "scout 0 → 9 ▁",
        "4.2 s for scout",
    ):
        assert words in text
    assert "finished in 1.0 s, 30 steps in x.db" in text
    assert "" == err.getvalue()


def test_names_cannot_speak_to_the_terminal() -> None:
    """A phase whose name holds an escape sequence shows it and does not obey it."""
    out = io.StringIO()
    progress = LiveProgress(Settings(), out, io.StringIO())
    progress.event("x", RunEvent("phase.started", {"phase": 0, "name": "\x1b]0;boo\x07"}, 0.0))
    progress.event("x", RunEvent("phase.ended", {"phase": 0}, 0.0))
    progress.close()

    assert "\x1b]0;" not in out.getvalue()


def test_evaluations_stand_beside_the_training() -> None:
    """Their episodes are none of the phase's own; the mean return of the last one is shown with its agent."""
    out = io.StringIO()
    progress = LiveProgress(Settings(), out, io.StringIO())
    progress.event("x", RunEvent("phase.started", {"phase": 0, "name": "train", "episodes": 2}, 0.0))
    progress.event("x", RunEvent("episode.ended", {"phase": 0, "steps": 3, "returns": {"ada": 5.0}}, 0.0))
    fields = {"phase": 0, "mode": "evaluate", "steps": 3, "returns": {"ada": 900.0}}
    progress.event("x", RunEvent("episode.ended", fields, 0.0))
    metrics = {"ada": {"return": 237.75}}
    progress.event("x", RunEvent("evaluation.ended", {"phase": 0, "number": 0, "metrics": metrics}, 0.0))
    progress.event("x", RunEvent("phase.ended", {"phase": 0}, 0.0))
    progress.close()

    assert "1/2 episodes" in out.getvalue()
    assert "ada 5 → 5" in out.getvalue()
    assert "evaluated 237.8" in out.getvalue()
