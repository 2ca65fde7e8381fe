"""The recorder: whole episodes of a run into files, while it goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ganglion.errors import UsageError
from ganglion_replay import import_sessions, sessions
from ganglion_replay.recorder import Recorder


@pytest.fixture
def recorder(archive: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that makes the recorder of run `old`."""
    pytest.importorskip("pyarrow", reason="pyarrow is not installed: scripts/setup --test")
    monkeypatch.setenv("GANGLION_RESULTS", str(tmp_path))
    monkeypatch.setenv("GANGLION_STORE", archive.uri)

    def make() -> Recorder:
        found = Recorder()
        found.run = "old"
        found.setup()
        return found

    return make


def keys(given: Any) -> list[tuple[int, int, int]]:
    """Return phase, worker and episode of sessions."""
    return sorted((one.phase, one.worker, one.episode) for one in given)


def test_a_recorder_that_is_joined_anew_goes_on_behind_what_is_there(
    recorder: Any, archive: Any, tmp_path: Path
) -> None:
    """Episodes that were there before it, those that come, and those of a later phase are in the files once each."""
    archive.run("other")
    first = recorder()
    assert 0 == first.write()  # the store has nothing of the run yet
    archive.run("old", phases=(("one", "test"), ("two", "test")), episodes=3, workers=2, spoil=_before(1))
    assert 2 == first.write()
    archive.remove("old")
    archive.run("old", phases=(("one", "test"), ("two", "test")), episodes=3, workers=2)
    first.observe("events", "episode.ended", {}, 0.0)
    first.teardown()
    again = recorder()

    assert (0, 10) == (again.write(), first.sessions - 2)
    found = import_sessions(tmp_path / "recorded")
    assert keys(sessions(archive.uri, "old")) == keys(found)
    assert ["a-w-0-v0"] == [place.name for place in found.datasets]
    assert [] == [path.name for path in (tmp_path / "recorded").iterdir() if path.name.startswith(".")]


def test_files_of_others_stay(recorder: Any, archive: Any, tmp_path: Path) -> None:
    """A folder in the place of a dataset that is none of the recorder's is refused by its name, and left alone."""
    archive.run("old")
    found = recorder()
    (tmp_path / "recorded" / "old" / "a-w-0-v0").mkdir(parents=True)
    with pytest.raises(UsageError, match=r"a-w-0-v0: expected a dataset of the recorder, found other files"):
        found.write()

    assert [] == list((tmp_path / "recorded" / "old" / "a-w-0-v0").iterdir())


def _before(count: int) -> Any:
    """Return what leaves out of a run all but the first episodes of its first phase."""

    def spoil(record: list[Any]) -> list[Any] | None:
        later = {"resets": 4, "steps": 5, "actions": 5, "episode": 5}
        if record[0] not in later:
            return record
        place = later[record[0]]
        number = record[5][0][0] if record[0] == "resets" else record[place]
        return record if record[1] == 0 and number < count else None

    return spoil
