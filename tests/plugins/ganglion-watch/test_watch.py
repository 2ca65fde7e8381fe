"""Logs, settings and the machine, as they are shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ganglion.cli.settings import Settings
from ganglion.sdk import UsageError
from ganglion_watch import Logs
from ganglion_watch.config import config
from ganglion_watch.doctor import doctor
from ganglion_watch.logs import command


def _entry(second: int, process: str, level: str, event: str, **fields: object) -> str:
    time = f"2030-01-01T00:00:{second:02d}.000000Z"
    return json.dumps({"process": process, **fields, "event": event, "level": level, "time": time}) + "\n"


def _printed(second: int, text: str) -> str:
    return f"2030-01-01T00:00:{second:02d}.000000Z {text}\n"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Return the folder of the logs of a run of three processes, one of them a foreign program."""
    folder = tmp_path / "demo-1" / "logs"
    folder.mkdir(parents=True)
    manifest = {"run": "demo-1", "uid": "demo", "started": "2030-01-01T00:00:00Z"}
    (tmp_path / "demo-1" / "manifest.json").write_text(json.dumps(manifest))
    (folder / "brain.ada.jsonl").write_text(
        _entry(1, "demo-1/brain/ada", "info", "peer.joined", pid=7)
        + _entry(4, "demo-1/brain/ada", "warning", "slow", s=3)
    )
    (folder / "brain.ada.out").write_text(_printed(3, "loss 0.5"))
    (folder / "environment.my.grid.0.out.1").write_text(_printed(0, "compiled"))
    (folder / "environment.my.grid.0.out").write_text(_printed(2, "hello") + "without a time\n")
    (folder / "broker.out").write_text("2030-01-01T00:00:05.000000Z " + _entry(5, "broker", "error", "peer.lost"))
    return folder


def _logs(results: Path, *words: str, json: bool = False) -> Result:
    return CliRunner().invoke(command, words, obj=Settings(results=results, json=json), standalone_mode=False)


EVERY = ["compiled", "peer.joined", "hello", "without a time", "loss 0.5", "slow", "peer.lost"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], EVERY),
        (["--process", "brain"], ["peer.joined", "loss 0.5", "slow"]),
        (["--process", "my.grid", "--process", "broker"], ["compiled", "hello", "without a time", "peer.lost"]),
        (["--process", "environment/*"], ["compiled", "hello", "without a time"]),
        (["--level", "warning"], ["slow", "peer.lost"]),
        (["--level", "output"], ["compiled", "hello", "without a time", "loss 0.5", "slow", "peer.lost"]),
        (["--since", "2030-01-01T00:00:03+00:00"], ["loss 0.5", "slow", "peer.lost"]),
        (["--grep", "^hel|pid=7"], ["peer.joined", "hello"]),
        (["--since", "1h"], []),
    ],
)
def test_lines_of_all_processes_are_in_order_of_time(logs: Path, words: list[str], expected: list[str]) -> None:
    """What was logged and what was printed, by Python and by other programs, is one list; options narrow it."""
    if words == ["--since", "1h"]:  # it is before 2030
        expected = EVERY
    result = _logs(logs.parents[1], "last", *words, json=True)
    found = [json.loads(line) for line in result.output.splitlines()]

    assert expected == [line["event"] for line in found]


def test_a_line_for_people(logs: Path) -> None:
    """A line has process and level; an entry has its fields; a run is found by a beginning of its id."""
    lines = [line.split(maxsplit=1)[1].split() for line in _logs(logs.parents[1], "dem").output.splitlines()[1:]]

    assert ["demo-1/brain/ada", "info", "peer.joined", "pid=7"] == lines[1]
    assert ["demo-1/environment/my.grid/0", "output", "without", "a", "time"] == lines[3]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nosuch"], "found no 'nosuch'"),
        (["demo-1", "--since", "5x"], "expected a time as 10:31"),
        (["demo-1", "--grep", "("], "expected a regular expression"),
        (["demo-1", "--process", "brian"], "no line is of `brian`; there are: broker, demo-1/brain/ada, "),
    ],
)
def test_what_cannot_be_meant_is_refused(logs: Path, words: list[str], said: str) -> None:
    """A run or process that is not there, a time and an expression that cannot be read are refused, with the reason."""
    error = _logs(logs.parents[1], *words).exception

    assert isinstance(error, UsageError)
    assert said in str(error)


def test_each_reading_gives_what_is_new(logs: Path) -> None:
    """A line is given once it is whole; a file that was turned meanwhile is read to its end before the new one."""
    read = Logs("demo-1", logs)

    def events() -> list[str]:
        return [line["event"] for line in read.read()]

    path = logs / "brain.ada.out"
    assert EVERY == events()
    with path.open("a") as file:
        file.write(_printed(6, "first") + "2030-01-01T00:00:07.000000Z sec")
    assert ["first"] == events()
    with path.open("a") as file:
        file.write("ond\n")
    path.replace(logs / "brain.ada.out.2")
    (logs / "brain.ada.out.1").write_text(_printed(8, "turned"))
    path.write_text(_printed(9, "again"))

    assert ["second", "turned", "again"] == events()
    assert [] == events()


def test_the_end_of_long_files_begins_with_a_whole_line(logs: Path) -> None:
    """Who asks for the end of each file gets no half of a line, and what comes later all the same."""
    path = logs / "brain.ada.out"
    path.write_text("".join(_printed(n, f"line {n}") for n in range(10)))
    read = Logs("demo-1", logs, last_bytes=100)

    assert ["line 8", "line 9"] == [line["event"] for line in read.read() if "line " in line["event"]]
    with path.open("a") as file:
        file.write(_printed(11, "line 11"))
    assert ["line 11"] == [line["event"] for line in read.read()]


def test_arguments_of_launchers_are_shown_without_passwords(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are there with the line that they are from; a password in an address is not."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / ".ganglion.yml").write_text('launchers: {ray: {address: "tcp://u:secret@h:1", cpus: 2}}\n')
    settings = Settings.load()
    settings.json = True
    found = json.loads(CliRunner().invoke(config, [], obj=settings).output)

    expected = {"value": {"ray": {"address": "tcp://u:***@h:1", "cpus": 2}}, "origin": ".ganglion.yml:1"}
    assert expected == found["launchers"]


@pytest.fixture(autouse=True)
def _nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "")
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def test_machine_of_the_tests_is_well(tmp_path: Path) -> None:
    """Where the tests run nothing fails; each thing is looked at, and nothing is left in the results folder."""
    result = CliRunner().invoke(doctor, [], obj=Settings(results=tmp_path / "r", json=True), standalone_mode=False)
    rows = json.loads(result.output)

    assert [] == [row for row in rows if row["state"] == "fail"]
    expected = "python packages processes ipc curve files results store kernel launcher plugins"
    assert expected == " ".join(row["what"] for row in rows)
    assert 0 == result.return_value
    assert not (tmp_path / "r").exists()


def test_what_fails_has_its_cure(tmp_path: Path) -> None:
    """A store that nobody ships and a results folder below a file are failures that say what to do: exit status 1."""
    (tmp_path / "file").write_text("")
    settings = Settings(results=tmp_path / "file", store="abacus://x", json=True)
    result = CliRunner().invoke(doctor, [], obj=settings, standalone_mode=False)
    failed = {row["what"]: row for row in json.loads(result.output) if row["state"] == "fail"}

    assert (1, {"results", "store"}) == (result.return_value, set(failed))
    assert "`ganglion plugins stores` lists the installed ones" in failed["store"]["text"]
    assert "choose another folder with --results DIR" == failed["results"]["cure"]
