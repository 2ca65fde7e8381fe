"""Spans: each call of a process as a span of OpenTelemetry, at the caller and at the callee."""

from __future__ import annotations

import hashlib
import os
import threading
from typing import Any

from ganglion_observers.calls import Connect, Passed, noting, role_of
from ganglion_observers.scalars import tool

EXPORT_S = 1.0
"""So often spans are exported."""

FLUSH_S = 0.5
"""So long a process that ends waits for spans to leave; there may be no collector."""


def opentelemetry(connect: Connect, name: str) -> Connect:
    """Return a way to connect by which calls are spans; where they go the variables `OTEL_*` say.

    The ids of a span are made from what its message says of itself: the trace from the run and the position (phase,
    worker, episode, step), the span from caller and serial. So a call carries them on every wire, caller and callee
    make the same ones, and what is done again after a loss has the ids that it had.
    """
    return noting(connect, name, Spans(name, exporter()))


def exporter() -> Any:
    """Return what `OTEL_TRACES_EXPORTER` names: `console`, or `otlp` over HTTP."""
    if os.environ.get("OTEL_TRACES_EXPORTER") == "console":
        return tool("opentelemetry.sdk.trace.export", "opentelemetry").ConsoleSpanExporter()
    return tool("opentelemetry.exporter.otlp.proto.http.trace_exporter", "opentelemetry").OTLPSpanExporter()


def trace_id(run: str, call: Passed) -> int:
    """Return the trace that a call belongs to: that of its step, or of the run where it is about none."""
    place = None if call.position is None else (*call.position[:3], call.position[4])
    return int.from_bytes(hashlib.blake2b(f"{run} {place}".encode(), digest_size=16).digest(), "big")


def span_id(call: Passed, side: str) -> int:
    """Return the span of a call, at the caller (`client`) or at the callee (`server`)."""
    text = f"{side} {call.caller} {call.serial} {call.call}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") or 1


class Spans:
    """Make a span of each call, and hand it to an exporter by batches, in a thread of its own."""

    def __init__(self, name: str, to: Any) -> None:
        self._trace = tool("opentelemetry.trace", "opentelemetry")
        sdk = tool("opentelemetry.sdk.trace", "opentelemetry")
        export = tool("opentelemetry.sdk.trace.export", "opentelemetry")
        resources = tool("opentelemetry.sdk.resources", "opentelemetry")
        ids = tool("opentelemetry.sdk.trace.id_generator", "opentelemetry").IdGenerator
        outer = self

        class Ids(ids):  # type: ignore[misc, valid-type]
            def generate_span_id(self) -> int:
                return outer.next_span

            def generate_trace_id(self) -> int:
                return outer.next_trace

        self.next_span = self.next_trace = 1
        self._run = name.partition("/")[0]
        about = {"service.name": f"ganglion {role_of(name)}", "service.instance.id": name, "ganglion.run": self._run}
        self._provider = sdk.TracerProvider(
            resource=resources.Resource.create(about), id_generator=Ids(), shutdown_on_exit=False
        )
        self._provider.add_span_processor(export.BatchSpanProcessor(to, schedule_delay_millis=int(1000 * EXPORT_S)))
        self._tracer = self._provider.get_tracer("ganglion")
        self._open: dict[tuple[str, str, int], Any] = {}

    def asked(self, call: Passed) -> None:
        """Begin a span of the caller, below what it is just doing."""
        under = call.under
        self._begin(call, "client", None if under is None else (trace_id(self._run, under), span_id(under, "server")))

    def answered(self, call: Passed, failed: bool) -> None:
        """End it."""
        self._end(call, "client", failed)

    def began(self, call: Passed) -> None:
        """Begin a span of the callee, below that of the caller."""
        self._begin(call, "server", (trace_id(self._run, call), span_id(call, "client")))

    def ended(self, call: Passed, failed: bool) -> None:
        """End it."""
        self._end(call, "server", failed)

    def close(self) -> None:
        """Export what is left, for a moment: the process ends, or has lost the broker and goes on with another one."""
        flushing = threading.Thread(target=self._provider.force_flush, daemon=True)  # which may try again and again
        flushing.start()
        flushing.join(FLUSH_S)

    def _begin(self, call: Passed, side: str, under: tuple[int, int] | None) -> None:
        trace = self._trace
        self.next_trace, self.next_span = trace_id(self._run, call), span_id(call, side)
        context = None
        if under is not None and under[0] == self.next_trace:
            flags = trace.TraceFlags(trace.TraceFlags.SAMPLED)
            above = trace.SpanContext(*under, is_remote=side == "server", trace_flags=flags)
            context = trace.set_span_in_context(trace.NonRecordingSpan(above))
        about: dict[str, Any] = {"ganglion.caller": call.caller, "ganglion.callee": call.callee}
        if call.position is not None:
            names = ("phase", "worker", "episode", "attempt", "step", "leg")
            about |= {f"ganglion.{name}": value for name, value in zip(names, call.position, strict=False)}
        kind = trace.SpanKind.CLIENT if side == "client" else trace.SpanKind.SERVER
        self._open[side, call.caller, call.serial] = self._tracer.start_span(
            call.call, context=context, kind=kind, attributes=about, start_time=call.begun_ns
        )

    def _end(self, call: Passed, side: str, failed: bool) -> None:
        span = self._open.pop((side, call.caller, call.serial), None)
        if span is not None:
            if failed:
                span.set_status(self._trace.StatusCode.ERROR)
            span.end()
