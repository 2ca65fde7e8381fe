from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from ganglion.cli.progress import JsonProgress, PlainProgress, make_progress
from ganglion.cli.settings import Settings
from ganglion.cli.stores import default_uri
from ganglion.supervisor.runs import Outcome
from ganglion.wire.messages import RunEvent

STORY = ["muscle ada was killed by SIGKILL", "its output:", "    boo"]
FAILED = Outcome("demo-1", "failed", "failed: x", 1, STORY, 1.0)


def _plain(**settings: object) -> tuple[PlainProgress, io.StringIO, io.StringIO]:
    out, err = io.StringIO(), io.StringIO()
    return PlainProgress(Settings(**settings), out, err), out, err  # type: ignore[arg-type]


def _episode(second: float, steps: int = 10) -> RunEvent:
    fields = {"phase": 0, "worker": 1, "episode": 0, "steps": steps, "returns": {"scout": 21.0}, "reason": "terminated"}
    return RunEvent("episode.ended", fields, second)


def test_many_episodes_become_one_line() -> None:
    """More than twenty episodes in a second are summed up; all their steps are counted."""
    progress, out, _ = _plain()
    for _ in range(50):
        progress.event("demo-1", _episode(7.0))
    progress.event("demo-1", _episode(8.0))
    lines = out.getvalue().splitlines()

    assert 20 == sum("episode.ended" in line for line in lines[:21])
    assert "episodes.ended   run=demo-1 episodes=30 steps=300" == lines[20][13:]
    assert {"demo-1": 510} == progress.steps


@pytest.mark.parametrize("verbosity", [-1, 0])
def test_warning_is_told_on_stderr(verbosity: int) -> None:
    """What was asked for and is not there is told as a sentence, disarmed, and as no event beside."""
    progress, out, err = _plain(verbosity=verbosity)
    progress.event("demo-1", RunEvent("warning", {"text": "no model\x1b\n  in base /b"}, 1.0))

    assert ("", "warning: no model\\x1b\n  in base /b\n") == (out.getvalue(), err.getvalue())


@pytest.mark.parametrize(
    ("news", "verbosity", "line"),
    [
        (RunEvent("waiting", {"text": "waiting 4.2 s for ada"}, 0.0), 0, "waiting 4.2 s for ada"),
        (RunEvent("peer.joined", {"name": "x"}, 0.0), 0, None),
        (RunEvent("peer.joined", {"name": "x"}, 0.0), 1, "peer.joined      name=x"),
        (RunEvent("phase.started", {"a": 0.1 + 0.2, "b": "c d", "e": {"f": None, "g": 1}}, 0.0), 0,
         'phase.started    a=0.3 b="c d" e.g=1'),
        (RunEvent("phase.started", {}, 0.0), -1, None),
    ],
)  # fmt: skip
def test_an_event_is_a_line(news: RunEvent, verbosity: int, line: str | None) -> None:
    """It has a time, a name and its fields, a wait the sentence that tells it; some are shown only when asked for."""
    progress, out, _ = _plain(verbosity=verbosity)
    progress.event("demo-1", news)

    assert ([] if line is None else [line]) == [shown[13:] for shown in out.getvalue().splitlines()]


def test_failure_is_told_on_stderr() -> None:
    """What went wrong stands on stderr, the culprit first; quiet shows that alone."""
    progress, out, err = _plain(verbosity=-1)
    progress.begin("demo-1", "42", "x")
    progress.event("demo-1", _episode(1.0))
    progress.end(FAILED, None)

    assert "" == out.getvalue()
    assert "failed: muscle ada was killed by SIGKILL\n  its output:\n      boo\n" == err.getvalue()


def test_json_is_one_object_per_line() -> None:
    """Each event is a JSON object with the keys of the line; the last one tells the end, once."""
    out = io.StringIO()
    progress = JsonProgress(Settings(), out, io.StringIO())
    progress.begin("demo-1", "42", "x")
    for news in (_episode(1.0), RunEvent("run.ended", {"status": "finished"}, 2.0)):
        progress.event("demo-1", news)
    progress.end(FAILED, None)
    rows = [json.loads(line) for line in out.getvalue().splitlines()]

    assert ["episode.ended", "run.ended"] == [row["event"] for row in rows]
    assert ("failed", 1, 10) == (rows[1]["status"], rows[1]["exit_status"], rows[1]["steps"])
    assert FAILED.report == rows[1]["story"]


def test_pipe_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a terminal, with a dumb one, and when asked for, there are plain lines; --json goes before."""
    assert isinstance(make_progress(Settings(json=True)), JsonProgress)
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert isinstance(make_progress(Settings()), PlainProgress)


@pytest.mark.parametrize(
    ("outcome", "store", "following"),
    [
        (
            Outcome("demo-1", "finished", "", 0),
            default_uri(Settings().results),
            ["next: ganglion plot demo-1 · ganglion results episodes demo-1 · ganglion runs"],
        ),
        (Outcome("demo-1", "finished", "", 0), None, []),
        (Outcome("demo-1", "interrupted", "", 130), "x", ["next: ganglion resume demo-1"]),
        (Outcome("demo-1", "failed", "", 1), "x", ["next: ganglion resume demo-1"]),
        (Outcome("demo-1", "failed", "", 2), "x", []),
        (Outcome("demo-1", "failed", "", 1, resumable=False), "x", []),
    ],
)
def test_the_end_says_what_can_be_done_next(outcome: Outcome, store: str | None, following: list[str]) -> None:
    """A finished run can be read, one that was cut short or failed can be resumed; one that never began cannot."""
    progress, out, _ = _plain()
    progress.event("demo-1", _episode(1.0))
    progress.end(outcome, store)
    _, end, *rest = out.getvalue().splitlines()

    place = "results/ganglion.db" if outcome.status == "finished" else "x"
    assert end.endswith(f", 10 steps in {place}" if store else ", 10 steps")
    assert following == rest


@pytest.mark.parametrize(
    ("origins", "stored", "status", "words"),
    [
        ({"results": "option --results"}, None, "finished", " --results 'a b'"),
        ({"results": "option --results"}, None, "interrupted", " --results 'a b'"),
        ({"results": "option --results"}, "sqlite:///x", "finished", " --results 'a b' --store sqlite:///x"),
        ({"store": "option --store"}, "sqlite:///x", "finished", " --store sqlite:///x"),
        ({"store": "option --store"}, "sqlite:///x", "interrupted", ""),  # the manifest knows it
        ({"results": "variable GANGLION_RESULTS", "store": "variable GANGLION_STORE"}, "sqlite:///x", "finished", ""),
    ],
)
def test_the_next_commands_have_the_options_that_they_need(
    origins: dict[str, str], stored: str | None, status: str, words: str
) -> None:
    """A folder and a store that were given as options are given again; those of files and variables are found."""
    progress, out, _ = _plain(results=Path("a b"), store=stored, origins=origins)
    progress.end(Outcome("demo-1", status, "", 0 if status == "finished" else 130), stored or default_uri(Path("a b")))
    following = out.getvalue().splitlines()[-1].removeprefix("next: ").split(" · ")

    assert all(command.endswith(f"demo-1{words}") for command in following[:2])
    assert status != "finished" or f"ganglion runs{words}" == following[2]


def test_the_end_names_the_file_of_the_results() -> None:
    """The store of the results folder is named as a path, whoever tells its URI."""
    progress, out, _ = _plain()
    progress.end(Outcome("demo-1", "failed", "", 2), default_uri(progress.settings.results))

    assert f" in {progress.settings.results}/ganglion.db" in out.getvalue()
