from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgpack
import pytest

from ganglion_observers.calls import NotingLink, Passed, noting

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
