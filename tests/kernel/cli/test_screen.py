from __future__ import annotations

import io
import re

import pytest

from ganglion.cli.screen import LiveProgress
from ganglion.cli.settings import Settings
from ganglion.supervisor.runs import Outcome
from ganglion.wire.messages import RunEvent


@pytest.fixture(autouse=True)
def _terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have what is drawn in memory drawn as on a terminal of 200 columns."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")


class _Watched:
    """Draw a run in memory, at times that a test says."""

    def __init__(self) -> None:
        self.now_s, self.out = 0.0, io.StringIO()
        self.progress = LiveProgress(Settings(), self.out, io.StringIO(), lambda: self.now_s)

    def at(self, now_s: float, what: str, run: str = "x-1", /, **fields: object) -> str:
        """Tell an event at a time; return what is drawn then, without colours."""
        self.now_s = now_s
        before = len(self.out.getvalue())
        self.progress.event(run, RunEvent(what, dict(fields), 0.0))
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.out.getvalue()[before:])


def test_steps_are_counted_once_and_a_pause_is_shown() -> None:
    """A late word of an ended episode counts nothing; a paused worker is shown where the steps per second were."""
    run = _Watched()
    run.at(0.0, "phase.started", phase=0, name="train", workers=1, episodes=4)
    for n in range(1, 4):
        run.at(10.0 * n, "episode.ended", phase=0, worker=0, episode=n - 1, steps=100)
        drawn = run.at(10.0 * n + 1, "steps.taken", phase=0, worker=0, episode=n - 1, steps=99)
    paused = run.at(40.0, "phase.paused", phase=0, workers=[0], moving=False)

    assert "3/4 episodes  10 steps/s" in drawn
    assert "3/4 episodes  paused: worker 0" in paused
    assert "steps/s" not in paused
    assert "paused" not in run.at(50.0, "phase.resumed", phase=0)


def test_with_bodies_the_tick_is_shown_and_all_episodes_are_counted() -> None:
    """Each environment has episodes of its own: an end stands for some of them; steps go on over the ends."""
    run = _Watched()
    run.at(0.0, "phase.started", phase=0, name="train", workers=1)
    for n in (1, 2, 3):
        run.at(10.0 * n, "episode.ended", phase=0, worker=0, environment="lake", episode=n - 1, episodes=2, steps=9)
        told = {"tick": 200 * n, "steps": 100 * n, "episodes": {"lake": n, "moor": n}}
        drawn = run.at(10.0 * n + 1, "steps.taken", phase=0, worker=0, **told)

    assert "6 episodes  tick 600  10 steps/s" in drawn
    resumed = run.at(50.0, "steps.taken", phase=0, worker=0, tick=700, steps=350, episodes={"lake": 8, "moor": 1})
    assert "9 episodes  tick 700" in resumed


def test_a_resumed_run_counts_the_episodes_before() -> None:
    """The number of an episode says how many there were, also before the run was resumed."""
    run = _Watched()
    run.at(0.0, "run.started", participants="governor")
    run.at(0.5, "phase.started", phase=1, name="train", workers=2, episodes=30, resumed=True)
    run.at(1.0, "steps.taken", phase=1, worker=0, episode=19, steps=5)
    assert "39/60 episodes" in run.at(2.0, "episode.ended", phase=1, worker=1, episode=19, steps=5)


def test_runs_at_the_same_time_have_bars_of_their_own() -> None:
    """Bars of several runs say of which; the end of one leaves those of the other."""
    run = _Watched()
    for name in ("x-1", "y-1"):
        run.progress.begin(name, "1", "results")
        run.at(0.0, "phase.started", name, phase=0, name="train", workers=1, episodes=2)
    drawn = run.at(1.0, "episode.ended", "y-1", phase=0, worker=0, episode=0, steps=5)
    run.progress.end(Outcome("x-1", "finished", "completed", 0, [], 1.0), None)

    assert "x-1 train" in drawn
    assert "y-1 train" in drawn
    assert "x-1 finished in 1.0 s" in run.out.getvalue()
    assert "2/2 episodes" in run.at(2.0, "episode.ended", "y-1", phase=0, worker=0, episode=1, steps=5)


def test_run_is_drawn_to_its_end() -> None:
    """What was up, the bar of a phase, returns, evaluations and the end are drawn; no name is obeyed."""
    run = _Watched()
    run.progress.begin("x-1", "42", "results/x-1")
    run.at(0.0, "run.started", participants="governor, store")
    run.at(0.0, "phase.started", phase=0, name="train\x1b]0;boo\x07", workers=2, episodes=5)
    for n in range(10):
        run.at(n, "episode.ended", phase=0, worker=n % 2, episode=n // 2, steps=3, returns={"scout": float(n)})
    run.at(11.0, "episode.ended", phase=0, mode="evaluate", steps=3, returns={"scout": 900.0})
    run.at(11.0, "evaluation.ended", phase=0, number=0, metrics={"scout": {"return": 237.75}})
    assert "waiting 4.2 s for scout" in run.at(12.0, "waiting", text="waiting 4.2 s for scout")
    drawn = run.at(13.0, "phase.ended", phase=0)
    run.progress.end(Outcome("x-1", "finished", "completed", 0, [], 1.0), "x.db")
    text = run.out.getvalue()

    assert "train\\x1b]0;boo\\x07" in drawn
    assert "10/10 episodes" in drawn
    assert "scout 0 → 9 ▁▁▂▃▄▅▆▇██ evaluated 237.8" in drawn
    for words in ("run x-1 · seed 42", "broker, governor, store", "finished in 1.0 s, 33 steps in x.db"):
        assert words in text
    assert "\x1b]0;" not in text
