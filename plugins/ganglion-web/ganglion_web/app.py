"""App: the routes of the page: questions about runs, and requests to kernels."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import re
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from ganglion.cli.extension import (
    DEADLINE_OTHER_S,
    PAUSE_ANSWER_S,
    CallFailed,
    DeadlineExceeded,
    DocumentError,
    GanglionError,
    Operator,
    PeerLost,
    RunRequest,
    RunSignal,
    Submit,
    find_kernel,
    is_name,
    json_text,
    load_document,
    read_tree,
    registry,
    schema,
    write,
)
from ganglion.cli.settings import Settings
from ganglion.sdk import StoreError
from ganglion_web.commands import Commands, carry_out_in
from ganglion_web.kernels import OPEN, Kernels
from ganglion_web.look import SHARE, Look, NotThere
from ganglion_web.news import News

PAGE = Path(__file__).with_name("page")
"""The files of the page; nothing else is served."""

NICE = 10
"""How much nicer the server's threads are than the shown runs."""

SHARED_S, SHARED_MOST_S, SHARED_MAX = 0.5, 3.0, 200
"""How long, and how many, answers are kept for other pages."""

SUBMIT_S = 65.0
"""The longest time of a kernel's check of a document."""

_KINDS = ("environment", "brain", "muscle", "objective", "controller", "condition", "filter", "reward", "observer")
_RESUMABLE = ("failed", "interrupted", "lost")
_STREAM = {"cache-control": "no-store", "x-accel-buffering": "no"}
Answer = TypeVar("Answer")


class Refused(Exception):
    """A request that cannot be carried out: `status` is that of HTTP, `body` has the reason."""

    def __init__(self, status: int, text: str, **more: Any) -> None:
        super().__init__(text)
        self.status, self.body = status, {"error": text, **more}


class _Shared:
    """Make an answer in a thread; the answer serves other pages until `until_s`, the longer the more it cost."""

    def __init__(self, question: Callable[[], Any]) -> None:
        self.until_s = time.monotonic() + SHARED_S
        self.made = asyncio.ensure_future(run_in_threadpool(self._make, question))

    def _make(self, question: Callable[[], Any]) -> bytes:
        begun_s = time.monotonic()
        body = json_text(question()).encode()
        end_s = time.monotonic()
        self.until_s = end_s + min(SHARED_MOST_S, max(SHARED_S, (end_s - begun_s) / SHARE))
        return body


class Page:
    """Answer the requests of one server.

    Args:
        settings: The places of results and store.
        allow_submit: Whether pages may submit documents to the daemon.
    """

    def __init__(self, settings: Settings, allow_submit: bool = False) -> None:
        self._settings, self._allow_submit = settings, allow_submit
        self._news = News()
        self._kernels = Kernels(settings, self._news)
        self._look = Look(settings, self._kernels)
        self._commands = Commands(settings)
        self._collector: Any = None  # of numbers for Prometheus, made at the first request
        self._shared: dict[tuple[Any, ...], _Shared] = {}
        self.closing = asyncio.Event()

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        _yield_to_runs()
        self._kernels.start()
        warm = asyncio.ensure_future(run_in_threadpool(self._look.warm_up))
        yield
        await warm
        await run_in_threadpool(self._kernels.close)
        self._commands.close()

    def app(self) -> Starlette:
        """Return the application, without its guard."""
        one = "/api/runs/{run}"
        gets: dict[str, Callable[[Request], Awaitable[Response]]] = {
            "/": self._index,
            "/api/runs": self._runs,
            one: self._told(self._look.run),
            f"{one}/document": self._told(self._look.document),
            f"{one}/processes": self._told(self._look.processes),
            f"{one}/topology": self._told(self._look.topology),
            f"{one}/curves": self._curves,
            f"{one}/logs": self._logs,
            f"{one}/results/{{table}}": self._results,
            "/api/sweeps": self._sweeps,
            "/api/sweeps/{experiment}": self._sweep,
            "/api/events": self._events,
            "/api/schema": self._schema,
            "/api/plugins": self._plugins,
            "/api/documents": self._documents,
            "/metrics": self._metrics,
        }
        routes: list[Route | Mount] = [Route(path, _refusing(answer)) for path, answer in gets.items()]
        for word in ("pause", "continue", "stop", "signal", "resume"):
            routes.append(Route(f"{one}/{word}", _refusing(partial(self._act, word)), methods=["POST"]))
        kept = "/api/documents/{name}"
        routes += [
            Route(one, _refusing(self._remove), methods=["DELETE"]),
            Route("/api/runs", _refusing(self._submit), methods=["POST"]),
            Route("/api/sweeps", _refusing(self._submit_sweep), methods=["POST"]),
            Route("/api/check", _refusing(self._check), methods=["POST"]),
            Route(kept, _refusing(self._document), methods=["GET", "PUT", "DELETE"]),
            Mount("/page", StaticFiles(directory=PAGE)),
        ]
        return Starlette(routes=routes, lifespan=self._lifespan)

    # -- questions ---------------------------------------------------------------------------------------------------
    async def _index(self, request: Request) -> Response:
        return FileResponse(PAGE / "index.html", media_type="text/html")

    async def _answer(self, run: str, question: Callable[[], Any]) -> Response:
        """Answer a question; equal questions at the same time share one answer."""
        parts = question.args if isinstance(question, partial) else ()
        more = tuple(question.keywords.items()) if isinstance(question, partial) else ()
        key = (question.func if isinstance(question, partial) else question, self._kernels.turn(run), parts, more)
        now_s = time.monotonic()
        known = self._shared.get(key)
        if known is None or (known.made.done() and now_s >= known.until_s):
            if len(self._shared) >= SHARED_MAX:
                self._shared.clear()
            known = self._shared[key] = _Shared(question)
        body = await asyncio.shield(known.made)  # a cancelled request leaves the answer to the others
        return Response(body, media_type="application/json")

    def _told(self, question: Callable[[str], Any]) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            run = request.path_params["run"]
            return await self._answer(run, partial(question, run))

        return answer

    async def _runs(self, request: Request) -> Response:
        query = request.query_params
        parts = (query.get("status"), query.get("uid"), _int(query, "limit", 500), _int(query, "offset", 0))
        return await self._answer("", partial(self._look.runs, *parts))

    async def _curves(self, request: Request) -> Response:
        run, points = request.path_params["run"], _int(request.query_params, "points", 500)
        return await self._answer(run, partial(self._look.curves, run, points))

    async def _logs(self, request: Request) -> Response:
        query, run = request.query_params, request.path_params["run"]
        asked = partial(
            self._look.logs,
            run,
            level=query.get("level"),
            process=query.get("process"),
            since=query.get("since"),
            limit=_int(query, "limit", 500),
            offset=_int(query, "offset", 0),
        )
        return await self._answer(run, asked)

    async def _sweeps(self, request: Request) -> Response:
        return await self._answer("", partial(self._look.sweeps))

    async def _sweep(self, request: Request) -> Response:
        experiment, points = request.path_params["experiment"], _int(request.query_params, "points", 200)
        return await self._answer("", partial(self._look.sweep, experiment, points))

    async def _results(self, request: Request) -> Response:
        query, run, table = request.query_params, request.path_params["run"], request.path_params["table"]
        form = query.get("format", "json")
        if form not in ("json", "jsonl", "csv"):
            raise Refused(422, f"format: expected json, jsonl or csv, found {form[:80]!r}")
        columns = [name.strip() for name in query["columns"].split(",")] if query.get("columns") else None
        asked = partial(self._look.results, run, table, query.get("where"), columns, _int(query, "limit", 1_000))
        shown, rows = await run_in_threadpool(asked)
        text = io.StringIO(newline="")
        write(text, form, shown, rows, False)
        kinds = {"json": "application/json", "jsonl": "application/x-ndjson", "csv": "text/csv"}
        return Response(text.getvalue(), media_type=kinds[form])

    async def _events(self, request: Request) -> Response:
        last = request.headers.get("last-event-id") or request.query_params.get("last")
        stream = self._news.read(last, request.query_params.get("run"))
        return StreamingResponse(self._until_closing(stream), media_type="text/event-stream", headers=_STREAM)

    async def _until_closing(self, stream: AsyncIterator[str]) -> AsyncIterator[str]:
        """Yield a stream until the server ends, without waiting for pages that continue to read."""
        closing = asyncio.ensure_future(self.closing.wait())
        try:
            while True:
                following = asyncio.ensure_future(anext(stream))
                await asyncio.wait({closing, following}, return_when=asyncio.FIRST_COMPLETED)
                if not following.done():
                    following.cancel()
                    return
                yield following.result()
        finally:
            closing.cancel()

    async def _schema(self, request: Request) -> Response:
        installed = {group: [entry.name for entry in registry.entries(group)] for group in registry.GROUPS}
        return _json(schema(installed))

    async def _plugins(self, request: Request) -> Response:
        rows = [
            {"kind": kind, "name": entry.name, "distribution": entry.distribution}
            for kind in _KINDS
            for entry in await run_in_threadpool(registry.entries, kind)
        ]
        return _json(rows)

    async def _metrics(self, request: Request) -> Response:
        if self._collector is None:
            if not any(entry.name == "metrics" for entry in registry.entries("companion")):
                raise Refused(404, "metrics: expected a plugin for them: pip install 'ganglion-observers[metrics]'")
            self._collector = await run_in_threadpool(registry.load("companion", "metrics").collector, self._settings)
        text = await run_in_threadpool(self._collector.text)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    async def _check(self, request: Request) -> Response:
        text = (await request.body()).decode(errors="replace")
        return _json(await run_in_threadpool(checked, text))

    # -- requests to kernels -----------------------------------------------------------------------------------------
    async def _act(self, word: str, request: Request) -> Response:
        run = request.path_params["run"]
        row = await run_in_threadpool(self._look.run, run)
        given = await _given(request)
        if word == "resume":
            return await run_in_threadpool(self._resume, run, row["status"])
        if row["status"] not in OPEN:
            raise Refused(409, f"run {run} is {row['status']}: it has no process that could {word}")
        wish = _wish(word, run, given)

        def ask(operator: Operator) -> Any:
            if isinstance(wish, RunRequest):
                return operator.ask("kernel.stop", wish)
            return operator.ask("kernel.signal", wish, PAUSE_ANSWER_S + DEADLINE_OTHER_S)

        answer = await run_in_threadpool(self._kernels.ask, run, ask)
        if not answer.accepted:
            raise Refused(409, answer.text)
        return _json({"accepted": True, "text": answer.text}, 202)

    def _resume(self, run: str, status: str) -> Response:
        """Start `ganglion resume` as a process of its own, which outlives the page."""
        if status not in _RESUMABLE or self._commands.goes(run):
            raise Refused(409, f"run {run} is {status}: expected one that is {', '.join(_RESUMABLE)}")
        logs = self._settings.results / run / "logs"
        logs.mkdir(exist_ok=True)
        self._commands.start(run, logs / "resume.out", "resume", run)
        return _json({"accepted": True, "text": f"run {run} is being resumed"}, 202)

    async def _remove(self, request: Request) -> Response:
        run = request.path_params["run"]
        row = await run_in_threadpool(self._look.run, run)
        if row["status"] in OPEN:
            raise Refused(409, f"run {run} is {row['status']}: stop it first")
        done = await run_in_threadpool(self._commands.carry_out, "runs", "rm", "--yes", run)
        if done.returncode:
            raise Refused(409, done.stderr.strip() or done.stdout.strip() or f"run {run} could not be removed")
        return Response(status_code=204)

    async def _submit(self, request: Request) -> Response:
        if not self._allow_submit:
            raise Refused(403, "expected `ganglion serve --allow-submit`: this page takes no documents")
        text = (await request.body()).decode(errors="replace")
        found = await run_in_threadpool(checked, text)
        if found["faults"]:
            raise Refused(422, "the document has faults", **found)

        def hand_on() -> str:
            _, connection = find_kernel(self._settings.results, self._settings.kernel, daemon=True)
            with Operator(connection) as operator:  # without a folder: plugins by name, nothing that runs a command
                asked = operator.ask("kernel.submit", Submit(text, "document.yml", ""), SUBMIT_S)
                return str(asked.run)

        try:
            return _json({"runs": [await run_in_threadpool(hand_on)]}, 202)
        except CallFailed as error:
            raise Refused(422, error.remote_message) from error

    async def _submit_sweep(self, request: Request) -> Response:
        if not self._allow_submit:
            raise Refused(403, "expected `ganglion serve --allow-submit`: this page takes no documents")
        text = (await request.body()).decode(errors="replace")
        experiment, runs = await run_in_threadpool(self._planned, text)
        folder = self._settings.results / ".web" / "sweeps"
        if self._commands.goes(f"sweep {experiment}") or (self._settings.results / "sweeps" / experiment).exists():
            raise Refused(409, f"an experiment {experiment!r} is there already; give this one another uid")
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{experiment}.yml"
        file.write_text(text, encoding="utf-8")
        words = ("sweep", str(file), "--plain")
        await run_in_threadpool(self._commands.start, f"sweep {experiment}", folder / f"{experiment}.out", *words)
        return _json({"experiment": experiment, "runs": runs}, 202)

    def _planned(self, text: str) -> tuple[str, list[str]]:
        """Return the uids of an experiment and of its runs, after checking that a page may submit the documents."""
        try:
            entries = read_tree("experiment.yml", text, local=False).root.map
        except DocumentError as error:
            raise Refused(422, "the document has faults", **_faults(error)) from error
        run, design = entries.get("run"), entries.get("design")
        if run is None or not run.map:
            raise Refused(422, "run: expected a run document in the experiment: a page names no files")
        named = design.plain() if design is not None else "full"
        if ":" in str(named.get("name") if isinstance(named, dict) else named):
            raise Refused(422, "design: expected a plugin by its short name: a page names no code")
        with tempfile.TemporaryDirectory(prefix="ganglion-") as place:
            (Path(place) / "experiment.yml").write_text(text, encoding="utf-8")
            done = carry_out_in(Path(place), "sweep", "experiment.yml", "--plan", "--json")
            if done.returncode:
                raise Refused(422, "the document has faults", faults=_lines(done.stderr), warnings=[])
            rows = json.loads(done.stdout)
            texts = [(Path(place) / row["document"]).read_text() for row in rows if row["repetition"] == 0]
        for one in texts:
            found = checked(one)
            if found["faults"]:
                raise Refused(422, "the document of a run has faults", **found)
        return str(entries["uid"].plain()), [str(row["run"]) for row in rows]

    # -- kept documents ----------------------------------------------------------------------------------------------
    async def _documents(self, request: Request) -> Response:
        folder = self._settings.results / ".web" / "documents"
        return _json(sorted(path.stem for path in folder.glob("*.yml")))

    async def _document(self, request: Request) -> Response:
        name = request.path_params["name"]
        if not is_name(name) or name.startswith("."):
            raise Refused(422, f"expected a name without `/`, found {name[:80]!r}")
        path = self._settings.results / ".web" / "documents" / f"{name}.yml"
        if request.method == "PUT":
            text = (await request.body()).decode(errors="replace")
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                with path.open("x", encoding="utf-8") as file:
                    file.write(text)
            except FileExistsError:
                raise Refused(409, f"a document {name!r} is kept already; remove it first") from None
            return _json({"name": name}, 201)
        if not path.is_file():
            raise Refused(404, f"no document {name!r} is kept")
        if request.method == "DELETE":
            path.unlink()
            return Response(status_code=204)
        return Response(path.read_text(encoding="utf-8"), media_type="application/yaml")


def checked(text: str) -> dict[str, Any]:
    """Return faults and warnings of a document from the network, which names plugins but no code and no commands."""
    try:
        _, warnings = load_document("document.yml", plugins=registry, text=text, local=False)
    except DocumentError as error:
        return _faults(error)
    return {"faults": [], "warnings": [_fault(warning) for warning in warnings]}


def _faults(error: DocumentError) -> dict[str, Any]:
    found = [(getattr(fault, "severity", "error"), _fault(fault)) for fault in error.faults]
    return {
        "faults": [fault for severity, fault in found if severity == "error"],
        "warnings": [fault for severity, fault in found if severity != "error"],
    }


def _lines(text: str) -> list[dict[str, Any]]:
    """Return the faults in the output of a command: `file:line:column: path: message`, or a sentence."""
    found = []
    for line in text.splitlines():
        match = re.match(r"experiment\.yml:(\d+):(\d+): (.*)", line)
        if match:
            place = {"line": int(match[1]), "column": int(match[2]), "path": None}
            found.append({**place, "message": match[3], "text": line})
    sentence = text.strip()
    return found or [{"line": None, "column": None, "path": None, "message": sentence, "text": sentence}]


def _yield_to_runs() -> None:
    """Give runs priority: on Linux each thread of the server is nicer than theirs."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)


def _fault(fault: Any) -> dict[str, Any]:
    found = {key: getattr(fault, key, None) for key in ("line", "column", "path", "message")}
    return found | {"text": str(fault)}


def _wish(word: str, run: str, given: Mapping[str, Any]) -> RunSignal | RunRequest:
    """Return the request to a kernel for a word of the page."""
    reason = str(given.get("reason") or "page")
    if word == "stop":
        return RunRequest(run, bool(given.get("now")), reason)
    scope: dict[str, Any] = {"reason": reason}
    for key, kind in (("phase", str), ("worker", int), ("steps", int)):
        value = given.get(key)
        if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
            raise Refused(422, f"{key}: expected {kind.__name__}, found {value!r:.80}")
        if value is not None:
            scope[key] = value
    if word == "pause":
        scope.pop("steps", None)
    name = {"pause": "PAUSE", "continue": "CONTINUE"}.get(word) or str(given.get("signal") or "")
    if not name:
        raise Refused(422, "signal: expected the name of a flow signal, found none")
    return RunSignal(run, name.upper().replace("-", "_"), **scope)


async def _given(request: Request) -> Mapping[str, Any]:
    body = await request.body()
    try:
        found = json.loads(body) if body else {}
    except ValueError as error:
        raise Refused(422, f"expected JSON: {error}") from error
    if not isinstance(found, dict):
        raise Refused(422, f"expected an object, found {type(found).__name__}")
    return found


def _int(query: Mapping[str, str], key: str, default: int) -> int:
    text = query.get(key)
    if text is None:
        return default
    if not text.isdecimal() or len(text) > 9:
        raise Refused(422, f"{key}: expected a whole number, found {text[:80]!r}")
    return int(text)


def _json(value: Any, status: int = 200) -> Response:
    return Response(json_text(value), status, media_type="application/json")


def _refusing(answer: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """Turn an error into a status of HTTP and one sentence."""

    async def carried_out(request: Request) -> Response:
        try:
            return await answer(request)
        except Refused as error:
            return JSONResponse(error.body, error.status)
        except NotThere as error:
            return JSONResponse({"error": str(error)}, 404)
        except (PeerLost, DeadlineExceeded, CallFailed) as error:
            return JSONResponse({"error": str(error)}, 409)
        except StoreError as error:
            return JSONResponse({"error": str(error)}, 503)
        except GanglionError as error:
            return JSONResponse({"error": str(error)}, 422)

    return carried_out
