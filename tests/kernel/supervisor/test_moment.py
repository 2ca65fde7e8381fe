from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ganglion.supervisor.checkpoints import Moments


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Return the folder of a run with two tapes."""
    (tmp_path / "tapes").mkdir()
    for name in ("a.tape", "b.tape"):
        (tmp_path / "tapes" / name).write_bytes(name.encode() * 10)
    return tmp_path


def keep(run: Path, stop: bool = False, **facts: object) -> None:
    """Note and keep a moment."""
    moments = Moments(run)
    moment = moments.note([], [run / "tapes" / "a.tape", run / "tapes" / "b.tape"], stop)
    assert moment is not None
    moments.keep(moment, facts)


def test_tapes_of_other_users_come_back_to_their_places(run: Path) -> None:
    """A run may have tapes in more than one folder."""
    other = run / "users" / "1234" / "c.tape"
    other.parent.mkdir(parents=True)
    other.write_bytes(b"theirs")
    moments = Moments(run)
    moment = moments.note([], [run / "tapes" / "a.tape", other])
    assert moment is not None
    moments.keep(moment, {})
    other.write_bytes(b"theirs, and more")
    found, _ = moments.newest()
    assert found is not None
    moments.restore(found)

    assert b"theirs" == other.read_bytes()
    assert ["a.tape"] == [path.name for path in (run / "tapes").iterdir()]


def test_what_was_put_back_is_no_link(run: Path) -> None:
    """Who goes on with a tape that was put back does not change the moment: it can be put back again."""
    keep(run)
    moments = Moments(run)
    moment, _ = moments.newest()
    assert moment is not None
    moments.restore(moment)
    (run / "tapes" / "a.tape").write_bytes(b"")

    again, wrong = moments.newest()
    assert ([], moment) == (wrong, again)


@pytest.mark.parametrize("damage", ["short", "gone", "facts"])
def test_a_damaged_moment_is_named_and_the_one_before_it_taken(run: Path, damage: str) -> None:
    """A tape that is too short or gone, or a changed note: it says which file, and goes back one further."""
    keep(run, number=1)
    for name in ("a.tape", "b.tape"):  # as processes do that begin new tapes
        (run / "tapes" / name).unlink()
        (run / "tapes" / name).write_bytes(b"anew")
    keep(run, number=2)
    newest = run / "cuts" / "moment-000000002"
    if damage == "short":
        (newest / "a.tape").write_bytes(b"x")
    elif damage == "gone":
        (newest / "a.tape").unlink()
    else:
        text = (newest / "moment.json").read_text()
        (newest / "moment.json").write_text(text.replace('"number": 2', '"number": 3'))
    moment, wrong = Moments(run).newest()

    assert moment is not None
    assert 1 == moment.facts["number"]
    assert 1 == len(wrong)
    assert "moment-000000002" in wrong[0]


def test_the_two_newest_are_kept(run: Path) -> None:
    """Older ones are removed; numbers go on, also when a run is carried on by another process."""
    for number in range(1, 5):
        keep(run, number=number)

    assert ["moment-000000003", "moment-000000004"] == sorted(path.name for path in (run / "cuts").iterdir())


def test_no_moment_without_all_tapes_or_with_somebody_gone(run: Path) -> None:
    """A tape that is not there, a process that has ended: nothing is noted, and nothing lies around."""
    program = subprocess.Popen(["true"])
    program.wait()
    moments = Moments(run)

    there, missing = run / "tapes" / "a.tape", run / "tapes" / "z.tape"
    assert [None, None] == [moments.note([], [there, missing]), moments.note([program.pid], [there])]
    assert [] == list((run / "cuts").iterdir())


def test_all_is_forgotten_when_a_phase_begins_again(run: Path) -> None:
    """Moments and tapes are removed; cuts of phases stay."""
    keep(run)
    (run / "cuts" / "phase-000001.json").write_text("kept")
    Moments(run).forget()

    assert ["phase-000001.json"] == [path.name for path in (run / "cuts").iterdir()]
    assert [] == list((run / "tapes").iterdir())
