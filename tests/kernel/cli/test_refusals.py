"""What commands refuse: a status, a sentence, and nothing started."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from ganglion.cli.main import main

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def faulty(tmp_path: Path) -> Path:
    """Write a document with a fault."""
    path = tmp_path / "faulty.yml"
    path.write_text("uid: x\nsead: 4\n")
    return path


@pytest.mark.parametrize(
    ("line", "status", "sentence"),
    [
        # usage
        ("chekc", 2, "there is no command `chekc`; did you mean `check`?"),
        ("check --stric x", 2, "--strict"),
        ("run dmo", 2, "there is no document `dmo`; did you mean `demo`?"),
        ("run a.yml b.yml --name x", 2, "--name: expected one document for one name, found 2"),
        ("submit a.yml b.yml --name x", 2, "--name: expected one document for one name, found 2"),
        ("submit missing.yml", 2, "missing.yml: cannot be read"),
        ("graph {results}/none.yml", 2, "none.yml"),
        ("graph {results}/faulty.yml", 2, "faulty.yml:2:1: sead: unknown key"),
        ("schema rum", 2, "'run'"),
        ("schema config --plugins", 2, "name no plugins"),
        ("plugins enviroments", 2, "did you mean `environments`?"),
        ("pipe -- true", 2, "expected the variable GANGLION_ENDPOINT, found nothing; see ganglion kernel env"),
        ("runs --store x.db", 2, "expected a store URI such as sqlite:///results/ganglion.db, found 'x.db'"),
        ("runs --store sqlit:///x.db", 2, "sqlit"),
        # runs that are not there
        ("show nobody", 2, "there is no folder of such a run either"),
        ("graph nobody", 2, "expected a document, or a run in {results}, found no 'nobody'"),
        ("resume nobody", 2, "found no 'nobody'"),
        # no kernel
        ("attach environment dummy", 1, "no kernel is running; looked below {results}"),
        ("kernel env tank", 1, "no run is live, and no daemon is running; looked in {results}"),
        ("kernel status", 1, "no daemon is running; looked in {results}"),
        ("kernel stop", 1, "no daemon is running; looked in {results}"),
        ("submit {results}/faulty.yml", 1, "no daemon is running; looked in {results}"),
        # endpoints
        ("run --bind tcp://0.0.0.0:0 --no-curve", 2, "others are always encrypted"),
        ("run --bind tcp://192.0.2.1:0", 2, "cannot be bound"),
        ("kernel --bind tcp://192.0.2.1:0", 2, "cannot be bound"),
        ("kernel --bind udp://127.0.0.1:0", 2, "expected ipc:///path or tcp://host:port"),
        ("kernel --no-curve", 2, "--no-curve: expected --bind"),
    ],
)
def test_refusal(
    ganglion: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    faulty: Path,
    line: str,
    status: int,
    sentence: str,
) -> None:
    """What cannot be done ends with its status and says why and where was looked; no run is begun."""
    monkeypatch.delenv("GANGLION_ENDPOINT", raising=False)
    words = shlex.split(line.format(results=tmp_path))
    found, _, err = ganglion(*words)

    assert status == found
    assert sentence.format(results=tmp_path) in err
    assert [faulty] == [path for path in tmp_path.iterdir() if path.name != ".kernel"]


@pytest.mark.parametrize("line", ["ps nobody", "pause nobody", "continue nobody", "signal nobody RESET", "stop nobody"])
def test_a_run_that_no_kernel_knows(daemon: Path, capsys: pytest.CaptureFixture[str], line: str) -> None:
    """It is shown, paused and ended by nobody: exit status 1. Options stand on either side of the command."""
    place = ["--results", str(daemon)]

    assert (1, 1) == (main([*place, *line.split()]), main([*line.split(), *place]))
    assert 2 == capsys.readouterr().err.count("run 'nobody' is unknown")


@pytest.mark.parametrize(
    ("line", "status", "sentence"),
    [
        ("attach environment dummy --as nobody", 1, "the kernel refuses 'nobody'"),
        ("attach observer x --run nowhere", 1, "run 'nowhere' is unknown"),
        ("submit {faulty}", 2, "{faulty}:2:1: sead: unknown key"),
        ("kernel", 2, "a kernel is running here already: process "),
    ],
)
def test_a_daemon_refuses(
    daemon: Path, capsys: pytest.CaptureFixture[str], faulty: Path, line: str, status: int, sentence: str
) -> None:
    """What a daemon does not take comes back with its reason."""
    assert status == main([*line.format(faulty=faulty).split(), "--results", str(daemon)])
    assert sentence.format(faulty=faulty) in capsys.readouterr().err
