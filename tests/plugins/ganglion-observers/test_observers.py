"""Observers, and what counts and traces calls."""

from __future__ import annotations

import csv
import io
import json
import os
import struct
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgpack
import pytest
from commandline import ganglion as ganglion
from commandline import write_run as write_run

from ganglion.sdk import Observer, UsageError
from ganglion_observers.calls import NotingLink, Passed, noting
from ganglion_observers.csv_file import CsvObserver
from ganglion_observers.feed import Feed, events_told
from ganglion_observers.mlflow import MlflowObserver
from ganglion_observers.scalars import Phases, Scalar
from ganglion_observers.tensorboard import TensorboardObserver
from ganglion_observers.wandb import WandbObserver

EVENTS: list[dict[str, Any]] = [
    {"event": "run.started", "time_s": 100.0, "run": "demo-1", "seed": "42"},
    {"event": "phase.started", "time_s": 101.0, "run": "demo-1", "phase": 0, "name": "train", "mode": "train"},
    *(
        {
            "event": "episode.ended", "time_s": 102.0 + n, "run": "demo-1", "phase": 0, "worker": 0, "episode": n,
            "steps": 10 * n, "returns": {"ada": 1.5 * n}, "reason": "terminated",
        }
        for n in (0, 1, 2)
    ),
    {"event": "evaluation.ended", "time_s": 106.0, "run": "demo-1", "phase": 0, "number": 0,
     "metrics": {"ada": {"return": 4.0}}},
    {"event": "run.ended", "time_s": 107.0, "run": "demo-1", "status": "finished", "reason": "completed"},
]  # fmt: skip
RETURNS = [(0, 0.0), (1, 1.5), (2, 3.0)]


def feed(observer: Observer, folder: Path, events: list[dict[str, Any]] = EVENTS) -> list[str]:
    """Have an observer hear events; return what was told of its failures."""
    told: list[str] = []

    def make(run: str) -> Observer:
        observer.run, observer.folder = run, str(folder / run)
        return observer

    heard = Feed(make, told.append)
    for event in events:
        heard.take(event)
    heard.close()
    return told


def lines_of(path: Path) -> list[dict[str, str]]:
    """Return the lines of a CSV file by their columns."""
    return list(csv.DictReader(path.read_text().splitlines()))


@pytest.mark.parametrize(
    ("workers", "fields", "expected"),
    [
        (1, {}, [Scalar("train/return/ada", 3, 2.0), Scalar("train/length", 3, 7.0)]),
        (2, {}, [Scalar("train/return/ada/worker 0", 3, 2.0), Scalar("train/length/worker 0", 3, 7.0)]),
        (1, {"environment": "e"}, [Scalar("train/return/ada/e", 3, 2.0), Scalar("train/length/e", 3, 7.0)]),
        (
            1,
            {"mode": "evaluate"},
            [Scalar("train/evaluate/return/ada", 3, 2.0), Scalar("train/evaluate/length", 3, 7.0)],
        ),
        (
            1,
            {"returns": {"a<b>\n": 1, "x": None}},
            [Scalar("train/return/a_b__", 3, 1.0), Scalar("train/length", 3, 7.0)],
        ),
    ],
)
def test_numbers_have_names_that_say_what_they_are_of(
    workers: int, fields: Mapping[str, Any], expected: list[Scalar]
) -> None:
    """A name holds phase, agent, and what else there are several of; odd characters are no part of it."""
    phases = Phases()
    assert [] == list(phases.scalars("phase.started", {"phase": 0, "name": "train", "workers": workers}))
    told = {"phase": 0, "worker": 0, "episode": 3, "steps": 7, "returns": {"ada": 2.0}, **fields}

    assert expected == list(phases.scalars("episode.ended", told))


def test_csv_has_a_line_for_each_episode_and_overwrites_nothing(tmp_path: Path) -> None:
    """Lines are there as episodes end; who looks on again writes another file."""
    feed(CsvObserver(), tmp_path, EVENTS[:3])
    feed(CsvObserver(), tmp_path)
    files = sorted((tmp_path / "demo-1" / "csv").iterdir())
    rows = lines_of(tmp_path / "demo-1" / "csv" / "episodes-2.csv")

    assert ["episodes-2.csv", "episodes.csv", "evaluations.csv"] == [file.name for file in files]
    assert RETURNS == [(int(row["episode"]), float(row["return"])) for row in rows]
    assert ("train", "ada", "terminated") == tuple(rows[0][name] for name in ("mode", "agent", "reason"))
    assert 2 == len((tmp_path / "demo-1" / "csv" / "episodes.csv").read_text().splitlines())


@pytest.mark.long
def test_tensorboard_reads_what_was_written(tmp_path: Path) -> None:
    """TensorBoard's own reader finds the numbers with their episodes and times."""
    pytest.importorskip("tensorboard", reason="needs tensorboard: pip install 'ganglion-observers[tensorboard]'")
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    assert [] == feed(TensorboardObserver(), tmp_path)
    found = accumulator.EventAccumulator(str(tmp_path / "demo-1" / "tensorboard"))
    found.Reload()

    scalars = found.Scalars("train/return/ada")
    assert RETURNS == [(one.step, one.value) for one in scalars]
    assert [102.0, 103.0, 104.0] == [one.wall_time for one in scalars]
    assert [4.0] == [one.value for one in found.Scalars("train/evaluation/ada/return")]


@pytest.mark.long
def test_mlflow_reads_what_was_written(tmp_path: Path) -> None:
    """MLflow's own client finds the run in the local folder, with its numbers and its end."""
    pytest.importorskip("mlflow", reason="needs mlflow-skinny: pip install 'ganglion-observers[mlflow]'")
    assert [] == feed(MlflowObserver(experiment="study"), tmp_path)
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=(tmp_path / "mlruns").as_uri())
    (run,) = client.search_runs([client.get_experiment_by_name("study").experiment_id])
    history = client.get_metric_history(run.info.run_id, "train/return/ada")

    assert ("demo-1", "FINISHED", "42") == (run.info.run_name, run.info.status, run.data.params["seed"])
    assert RETURNS == [(one.step, one.value) for one in sorted(history, key=lambda one: one.step)]


@pytest.mark.long
def test_wandb_reads_what_was_written(tmp_path: Path) -> None:
    """The messages of Weights & Biases in the file of an offline run hold the numbers."""
    pytest.importorskip("wandb", reason="needs wandb: pip install 'ganglion-observers[wandb]'")
    assert [] == feed(WandbObserver(project="study"), tmp_path)
    from wandb.proto import wandb_internal_pb2

    (file,) = (tmp_path / "demo-1" / "wandb").glob("offline-run-*/*.wandb")
    found = []
    for data in records_of(file.read_bytes()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        if record.WhichOneof("record_type") == "history":
            items = {item.key or "/".join(item.nested_key): item.value_json for item in record.history.item}
            if "train/return/ada" in items:
                found.append((int(items["episode"]), float(items["train/return/ada"])))

    assert RETURNS == found


def records_of(data: bytes) -> Iterator[bytes]:
    """Yield the records of a file of Weights & Biases: a head of 7 bytes, then the blocks of a log of LevelDB."""
    place, whole = 7, b""
    while place + 7 <= len(data):
        if 32_768 - place % 32_768 < 7:
            place += 32_768 - place % 32_768
            continue
        length, kind = struct.unpack_from("<HB", data, place + 4)
        whole += data[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield whole
            whole = b""


class Faulty(Observer):
    """Fail at the second episode; hear how many events were left out."""

    def __init__(self) -> None:
        self.gaps: list[tuple[int, int]] = []

    def observe(self, topic: str, event: str, fields: Mapping[str, Any], time_s: float) -> None:
        if fields.get("episode") == 1:
            raise ValueError("disk full")

    def missed(self, topic: str, first: int, last: int) -> None:
        self.gaps.append((first, last))


def test_an_observer_that_fails_is_told_once(tmp_path: Path) -> None:
    """What an observer raises ends its hearing, and is told with the run; gaps are handed on before."""
    observer = Faulty()
    told = feed(observer, tmp_path, [EVENTS[0], {"event": "missed", "count": 3}, *EVENTS[1:]])

    assert ["run demo-1: the observer has failed and gets no more events: ValueError: disk full"] == told
    assert [(2, 4)] == observer.gaps


def test_lines_that_are_no_events_are_told() -> None:
    """A line of a pipe that is no event is named by its number, and the others count."""
    told: list[str] = []
    lines = [json.dumps(EVENTS[0]).encode(), b"ganglion 0.1.0", b""]

    assert [EVENTS[0]] == list(events_told(lines, told.append))
    assert ["<stdin>:2: expected an event as `ganglion run --json` prints it, found b'ganglion 0.1.0'"] == told


def test_a_stored_run_is_observed_years_after(ganglion: Any, write_run: Any, tmp_path: Path) -> None:
    """With RUN an observer hears of episodes, with the returns of agents, and of the end, from the store."""
    write_run("demo-1")
    status, _, err = ganglion("observe", "csv", "demo")
    (row,) = lines_of(tmp_path / "demo-1" / "csv" / "episodes.csv")

    assert (0, "") == (status, err)
    assert ("0", "train", "3", "environment") == tuple(row[name] for name in ("phase", "mode", "steps", "reason"))


def test_a_pipe_is_observed(ganglion: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without RUN an observer hears what `ganglion run --json` prints."""
    lines = "".join(json.dumps(event) + "\n" for event in EVENTS)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
    place = tmp_path / "elsewhere"

    assert (0, "", "") == ganglion("observe", "csv", f"folder={place}")
    assert 4 == len((place / "episodes.csv").read_text().splitlines())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("observe csc demo-1", "there is no observer `csc`; did you mean `csv`?"),
        ("observe csv demmo-1", "there is no run `demmo-1`; did you mean `demo-1`?"),
        ("observe csv foldr=x demo-1", "parameter 'foldr' is not taken; expected folder"),
        ("run --observe", "Option '--observe' requires an argument."),
    ],
)
def test_refusals(ganglion: Any, write_run: Any, words: str, said: str) -> None:
    """What cannot be observed is exit status 2, with what there is instead."""
    write_run("demo-1")
    status, out, err = ganglion(*words.split())

    assert (2, "") == (status, out)
    assert said in err


@pytest.mark.parametrize(
    ("observer", "extra"), [(TensorboardObserver, "tensorboard"), (MlflowObserver, "mlflow"), (WandbObserver, "wandb")]
)
def test_a_missing_tool_is_named(monkeypatch: pytest.MonkeyPatch, observer: Any, extra: str) -> None:
    """An observer without its tool is refused with the command that installs it; it was not imported before."""
    monkeypatch.setitem(sys.modules, observer.tool, None)

    with pytest.raises(UsageError, match=rf"pip install 'ganglion-observers\[{extra}\]'"):
        observer.check()


def test_metrics_without_their_library_are_refused(ganglion: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--metrics` without prometheus-client starts nothing, and names the command that installs it."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    status, out, err = ganglion("run", "--metrics", "0")

    assert (2, "") == (status, out)
    assert "pip install 'ganglion-observers[metrics]'" in err


def test_a_tracer_that_there_is_not_starts_nothing(ganglion: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A misspelt tracer is refused before anything starts, with the nearest right name."""
    monkeypatch.setenv("GANGLION_TRACER", "opentelemtry")
    status, out, err = ganglion("run")

    assert (2, "") == (status, out)
    assert "there is no tracer `opentelemtry`; did you mean `opentelemetry`?" in err


CALL, REPLY, ERROR, TELL, BEAT = 3, 4, 5, 6, 8
POSITION = [0, 1, 2, 0, 7, 0]


class Wire:
    """A link on which messages lie ready; what is sent is kept."""

    def __init__(self, *arriving: list[bytes]) -> None:
        self.arriving = list(arriving)
        self.sent: list[Sequence[bytes]] = []
        self.closed = False

    def send(self, frames: Sequence[bytes]) -> None:
        self.sent.append(frames)

    def receive(self, timeout_s: float | None) -> list[bytes] | None:
        return self.arriving.pop(0) if self.arriving else None

    def close(self) -> None:
        self.closed = True


class Notebook:
    """What is noted, in order."""

    def __init__(self) -> None:
        self.lines: list[tuple[Any, ...]] = []

    def asked(self, call: Passed) -> None:
        self.lines.append(("asked", call.callee, call.call, call.under and call.under.call))

    def answered(self, call: Passed, failed: bool) -> None:
        self.lines.append(("answered", call.call, failed))

    def began(self, call: Passed) -> None:
        self.lines.append(("began", call.caller, call.call, call.position))

    def ended(self, call: Passed, failed: bool) -> None:
        self.lines.append(("ended", call.call, failed))

    def close(self) -> None:
        self.lines.append(("closed",))


def message(peer: str, *head: Any) -> list[bytes]:
    """Return the frames of a message."""
    return [peer.encode(), msgpack.packb(list(head)), b"body"]


def test_calls_are_noted_and_messages_stay_as_they_are() -> None:
    """What is asked while a call is answered lies under it; repeats, news and beats are no calls of their own."""
    arriving = [
        message("r/controller/0", CALL, 5, "muscle.act", POSITION),
        message("r/controller/0", CALL, 5, "muscle.act", POSITION),
        message("r/brain/ada", ERROR, 9),
        message("", BEAT, 0),
        message("@r/events", TELL, 0, "event"),
    ]
    wire, notes = Wire(*arriving), Notebook()
    link = NotingLink(wire, "r/muscle/ada/0", notes)
    sent = [
        message("r/brain/ada", CALL, 9, "brain.think", POSITION),
        message("r/brain/ada", CALL, 9, "brain.think", POSITION),
        message("r/controller/0", REPLY, 5),
    ]
    heard = [link.receive(0.0), link.receive(0.0)]
    link.send(sent[0])
    link.send(sent[1])
    heard += [link.receive(0.0), link.receive(0.0), link.receive(0.0), link.receive(0.0)]
    link.send(sent[2])
    link.close()

    assert [*arriving, None] == heard
    assert (sent, True) == (wire.sent, wire.closed)
    assert [
        ("began", "r/controller/0", "muscle.act", tuple(POSITION)),
        ("asked", "r/brain/ada", "brain.think", "muscle.act"),
        ("answered", "brain.think", True),
        ("ended", "muscle.act", False),
        ("closed",),
    ] == notes.lines


def test_what_is_wrong_with_a_note_holds_no_message_up(capsys: pytest.CaptureFixture[str]) -> None:
    """A message with an odd head passes, and a tracer that fails is told of on standard error."""
    wire = Wire([b"", b"\x93\x03"], [b""])
    link = noting(lambda: wire, "r/muscle/ada/0", Notebook())()

    assert [[b"", b"\x93\x03"], [b""], None] == [link.receive(0.0) for _ in range(3)]
    assert "r/muscle/ada/0: a call was not noted" in capsys.readouterr().err


def test_caller_and_callee_make_one_trace() -> None:
    """Both ends of a call make spans of its name in one trace, the callee's below the caller's; again the same ids."""
    pytest.importorskip("opentelemetry.sdk", reason="needs it: pip install 'ganglion-observers[opentelemetry]'")
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from ganglion_observers.spans import Spans

    def spans(name: str, *said: tuple[str, list[bytes]]) -> list[Any]:
        exporter = InMemorySpanExporter()
        notes = Spans(name, exporter)
        wire = Wire(*(frames for way, frames in said if way == "in"))
        link = NotingLink(wire, name, notes)
        for way, frames in said:
            link.receive(0.0) if way == "in" else link.send(frames)
        notes._provider.force_flush()
        notes._provider.shutdown()
        return list(exporter.get_finished_spans())

    asked = [
        ("out", message("r/muscle/ada/0", CALL, 5, "muscle.act", POSITION)),
        ("in", message("r/muscle/ada/0", REPLY, 5)),
    ]
    (client,) = spans("r/controller/0", *asked)
    acted = [
        ("in", message("r/controller/0", CALL, 5, "muscle.act", POSITION)),
        ("out", message("r/brain/ada", CALL, 9, "brain.think", POSITION)),
        ("in", message("r/brain/ada", ERROR, 9)),
        ("out", message("r/controller/0", REPLY, 5)),
    ]
    thought, server = spans("r/muscle/ada/0", *acted)
    (again,) = spans("r/controller/0", *asked)

    assert ["muscle.act", "muscle.act", "brain.think"] == [one.name for one in (client, server, thought)]
    assert {client.context.trace_id} == {one.context.trace_id for one in (server, thought, again)}
    assert (client.context.span_id, server.context.span_id) == (server.parent.span_id, thought.parent.span_id)
    assert client.context.span_id == again.context.span_id
    assert [True, False] == [one.status.is_ok for one in (server, thought)]
    assert 7 == server.attributes["ganglion.step"]


def test_calls_of_processes_are_added_up(tmp_path: Path) -> None:
    """What each process has counted in the folder is one number for Prometheus, by call and role."""
    pytest.importorskip("prometheus_client", reason="needs it: pip install 'ganglion-observers[metrics]'")
    code = (
        "import msgpack, sys; from ganglion_observers.counting import metrics\n"
        "class Wire:\n"
        "    send = close = lambda *_: None\n"
        "    receive = lambda *_: [b'r/muscle/ada/0', msgpack.packb([4, 5])]\n"
        "link = metrics(Wire, 'r/controller/0')()\n"
        "link.send([b'r/muscle/ada/0', msgpack.packb([3, 5, 'muscle.act']), b''])\n"
        "link.receive(0.0)\n"
    )
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "GANGLION_METRICS": str(tmp_path)}, capture_output=True
        )
        assert (0, b"") == (done.returncode, done.stderr)
    from prometheus_client.multiprocess import MultiProcessCollector

    found = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in MultiProcessCollector(None, path=str(tmp_path)).collect()
        for sample in family.samples
    }

    assert 2.0 == found["ganglion_messages_total", ("call", "muscle.act"), ("role", "controller")]
    assert 2.0 == found["ganglion_call_seconds_count", ("call", "muscle.act")]
