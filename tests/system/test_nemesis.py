"""Real runs that are disturbed: any process is killed, or all, and the results are those of an undisturbed run."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from system.command import Command, ganglion, private
from system.fault import Moment, Scene, Strike, draw
from system.processes import MARKER, ROLES, below, marked
from system.round import Reference, Round, reference
from system.world import EPISODES, RUN, write_world

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """Return a folder with a short path."""
    with tempfile.TemporaryDirectory(prefix="gn-", dir="/tmp") as text:
        yield Path(text)


@pytest.fixture(scope="module")
def undisturbed(place: Path) -> Reference:
    """Return what an undisturbed run of two workers comes to."""
    return reference(2, place, times=1)


def inside(name: str, number: int, role: str, own: bool = True, deed: str = "kill") -> Strike:
    """Return a strike while a hook is being carried out: at whom it belongs to, or at somebody else."""
    return Strike(Moment("inside", name=name, number=number), deed, role, own=own)


def after(name: str, number: int, role: str, pick: int = 0) -> Strike:
    """Return a kill after an event."""
    return Strike(Moment("event", name=name, number=number), "kill", role, pick)


FIRST = [
    inside("environment.update", 40, "environment"),
    inside("muscle.act", 90, "muscle"),
    inside("brain.think", 210, "brain"),
    after("episode.ended", 9, "warm"),
]
SECOND = [
    inside("controller.between", 60, "controller"),
    Strike(Moment("storing", number=2), "kill", "store"),
    inside("governor.boundary", 9, "governor"),
    after("evaluation.ended", 2, "broker"),
]


@pytest.mark.long
@pytest.mark.parametrize("form", ["attach", "command"])
def test_programs_come_through_too(form: str, place: Path) -> None:
    """A program of the run, or one that somebody else starts, is lost, then the broker, then both: no row differs."""
    strikes = [after("episode.ended", n, role) for n, role in ((3, "environment"), (6, "broker"), (10, "broker"))]
    strikes.append(after("episode.ended", 10, "environment", 1))
    quiet = reference(2, place, times=1, form=form)
    verdict = Round(Scene("several", 2, strikes, form), quiet, place / form).play()

    assert ([], []) == (verdict.defects, verdict.missed)


@pytest.mark.long  # the default run kills all of a run in test_resume.py, a program of it in test_foreign.py
@pytest.mark.parametrize("strikes", [FIRST, SECOND], ids=["who plays", "who leads"])
def test_who_is_killed_comes_back(strikes: list[Strike], undisturbed: Reference, place: Path) -> None:
    """Four processes of different kinds are killed in one run: it goes on by itself, and no row differs."""
    verdict = Round(Scene("several", 2, strikes), undisturbed, place / strikes[0].role).play()

    assert [] == verdict.defects
    assert [] == verdict.missed


def test_every_kind_of_process_is_found(place: Path) -> None:
    """Of a run all kinds of processes are found below its supervisor, and all bear its marker."""
    folder = place / "kinds"
    write_world(folder, 1, EPISODES[1])
    more = {**private(folder), MARKER: str(folder)}
    command = Command(folder, "run", "chaos.yml", "--name", RUN, "--store", "sqlite:///rows.db", more=more)
    command.until("phase.started")
    seen = below(command.process.pid)
    found = marked(str(folder))
    command.process.terminate()

    assert 130 == command.end()[0]
    assert set(ROLES) == {process.role for process in seen}
    assert {process.pid for process in seen} | {command.process.pid} <= set(found)
    assert {} == marked(str(folder))


def test_a_round_is_drawn_by_its_seed() -> None:
    """Equal seeds draw equal scenes; in a hundred of them every kind of process is struck in every way."""
    scenes = [draw(f"3/{number}", [1, 3]) for number in range(400)]
    strikes = [strike for scene in scenes for strike in scene.strikes]

    assert scenes == [draw(f"3/{number}", [1, 3]) for number in range(400)]
    assert set(ROLES) | {"supervisor"} == {strike.role for strike in strikes}
    assert {"share", "event", "inside", "storing"} == {strike.moment.kind for strike in strikes}
    assert {1, 3} == {scene.workers for scene in scenes}


@pytest.mark.long
def test_a_round_sees_a_run_that_fails(undisturbed: Reference, place: Path) -> None:
    """Where losses are not made good the run that ends with 1 is a defect, told with the name of who was lost."""
    scene = Scene("one", 2, [inside("brain.think", 5, "brain")])
    verdict = Round(scene, undisturbed, place / "failing", "fail").play()

    assert [1] == verdict.statuses
    assert "it ended with 1: ['brain ada was killed by SIGKILL'" in verdict.defects[0]


@pytest.mark.long
def test_a_round_sees_other_results(undisturbed: Reference, place: Path) -> None:
    """A run with other results is a defect, told with the place where they differ first."""
    folder = place / "other"
    write_world(folder, 2, EPISODES[2])
    document = folder / "chaos.yml"
    document.write_text(document.read_text().replace("longest: 60", "longest: 59"))
    done = ganglion(folder, "run", "chaos.yml", "--name", RUN, "--quiet", more=private(folder))
    assert 0 == done.returncode, done.stderr
    judged = Round(Scene("one", 2), undisturbed, folder)
    judged.judge(0)

    assert 1 == len(judged.verdict.defects)
    assert "other results: episodes row" in judged.verdict.defects[0]


@pytest.mark.long
@pytest.mark.parametrize("number", range(200))
def test_rounds(number: int, undisturbed: Reference, place: Path) -> None:
    """Whatever is done to whom and when: the run ends in order, with the rows of an undisturbed one."""
    scene = draw(f"long/{number}", [2])
    verdict = Round(scene, undisturbed, place / f"long-{number}").play()

    assert [] == verdict.defects, str(scene)


@pytest.mark.long
@pytest.mark.parametrize("number", range(50))
def test_resumes(number: int, undisturbed: Reference, place: Path) -> None:
    """All processes are killed, or the supervisor, or it is interrupted, and killed again while it resumes."""
    scene = draw(f"resume/{number}", [2], kinds=["everything", "supervisor", "interrupt"])
    verdict = Round(scene, undisturbed, place / f"resume-{number}").play()

    assert [] == verdict.defects, str(scene)
