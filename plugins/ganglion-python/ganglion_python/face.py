"""What `import ganglion` gives: documents carried out and checked, kernels, and the same for programs with a loop."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ganglion.cli.extension import (
    Connection,
    DocumentError,
    GanglionError,
    Operator,
    RunRequest,
    Settings,
    Submit,
    UsageError,
    find_kernel,
    load_document,
    registry,
)
from ganglion.cli.stores import default_uri
from ganglion_python.results import Results, results
from ganglion_python.runs import AsyncRun, KernelRun, LocalRun, Run, RunFailed

__all__ = ["AsyncKernel", "AsyncRun", "Kernel", "Results", "Run", "RunFailed"]
__all__ += ["aconnect", "arun", "check", "connect", "results", "run"]

Document = str | Path | Mapping[str, Any]


def run(
    document: Document = "demo",
    wait: bool = True,
    *,
    check: bool = False,
    seed: int | None = None,
    name: str | None = None,
    results: str | Path | None = None,
    store: str | None = None,
    allow: tuple[str, ...] = (),
    **overrides: Any,
) -> Run:
    """Carry out a document by a process of its own; return the run, with `wait` when it has ended.

    A run that fails raises nothing unless `check` says so: ask `exit_status`. A second run may go on beside it. The run
    is interrupted, as by Ctrl-C, when this process ends.

    Args:
        document: A file, the name of a plugin's document, text with more than one line, or a map. Import paths of text
            and maps lead into the working folder.
        wait: Whether to return when it has ended; a notebook shows it meanwhile.
        check: Raise `RunFailed` unless it has finished.
        seed: In place of the document's own.
        name: The run's id, in place of the document's uid with a number.
        results: The results folder, where it is not the one that is set.
        store: URI of the store; `none` keeps nothing.
        allow: Packages that import paths may name.
        overrides: Values of the document by their paths, with dots or double underscores:
            `schedule__train__phase_config__episodes=3`.

    Raises:
        DocumentError: The document is faulty: all its faults in `faults`; nothing was started.
        UsageError: It cannot be carried out as asked; nothing was started.
        RunFailed: With `check`.
    """
    file, text = _source(document)
    paths = _paths(overrides)
    words = ["--json", *_places(results, store), "run", "-" if text is not None else file]
    words += [f"--set={path}={json.dumps(value)}" for path, value in paths.items()]
    words += [] if seed is None else [f"--seed={seed}"]
    words += [] if name is None else [f"--name={name}"]
    words += [f"--allow={package}" for package in allow]
    settings = Settings.load()
    settings.results = Path(results) if results is not None else settings.results
    uri = store or settings.store or default_uri(settings.results)

    def explain(said: str) -> GanglionError:
        """Return the error of a run that was not begun: of a faulty document with its faults."""
        try:
            _load(document, paths, seed, allow)
        except DocumentError as error:
            return error
        except GanglionError:
            pass
        return UsageError(said)

    made = LocalRun(settings, lambda id_: Results(uri, settings.results, (id_,)), words, text, explain)
    return made.wait(check=check) if wait else made


def check(
    document: Document = "demo", *, seed: int | None = None, allow: tuple[str, ...] = (), **overrides: Any
) -> list[str]:
    """Check a document, starting nothing; return its warnings.

    DocumentError: it is faulty, with all faults in `faults`, each with its place. Arguments are those of `run`.
    """
    _, warnings = _load(document, _paths(overrides), seed, allow)
    return [str(warning) for warning in warnings]


def connect(kernel: str | Path | None = None, *, results: str | Path | None = None) -> Kernel:
    """Return the kernel of a connection file, or the newest that is alive; PeerLost if there is none.

    Any `ganglion run` is one too, of its own runs; `ganglion kernel` takes documents.
    """
    settings = Settings.load()
    settings.results = Path(results) if results is not None else settings.results
    file = Path(kernel) if kernel is not None else settings.kernel
    return Kernel(settings, find_kernel(settings.results, file)[1])


class Kernel:
    """A living kernel: its runs, and documents for it."""

    def __init__(self, settings: Settings, connection: Connection) -> None:
        self._settings, self._connection = settings, connection
        with Operator(connection):  # PeerLost: it is gone
            pass

    def __repr__(self) -> str:
        return f"<kernel of process {self._connection.pid}: {', '.join(map(repr, self.runs()))}>"

    def runs(self) -> list[Run]:
        """Return its runs, the oldest first."""
        with Operator(self._connection) as operator:
            return [self._run(row) for row in operator.ask("kernel.runs", RunRequest("")).rows]

    def run(self, run: str = "last") -> Run:
        """Return a run by its id, a uid, a beginning of either, or `last`; CallFailed if there is none."""
        with Operator(self._connection) as operator:
            return self._run(operator.ask("kernel.runs", RunRequest(run)).rows[0])

    def processes(self, run: str = "") -> list[dict[str, Any]]:
        """Return the processes of live runs, or of one, as `ganglion ps --json` prints them."""
        with Operator(self._connection) as operator:
            return list(operator.ask("kernel.processes", RunRequest(run)).rows)

    def submit(
        self, document: Document, wait: bool = False, *, check: bool = False, seed: int | None = None,
        name: str | None = None, **overrides: Any,
    ) -> Run:  # fmt: skip
        """Hand a document to a daemon; return its run. Arguments are those of `run`.

        CallFailed: it is faulty, or this kernel takes no documents.
        """
        file, text = _source(document)
        folder = str(Path.cwd()) if text is not None else str(Path(file).absolute().parent)
        if text is None:
            try:
                text = Path(file).read_text(encoding="utf-8")
            except OSError as error:
                raise UsageError(f"{file}: cannot be read: {error.strerror}") from error
        given = [f"{path}={json.dumps(value)}" for path, value in _paths(overrides).items()]
        wish = Submit(text, Path(file).name, folder, seed, name, given)
        with Operator(self._connection) as operator:
            submitted = operator.ask("kernel.submit", wish)
        found = self.run(submitted.run)
        return found.wait(check=check) if wait else found

    def stop(self, now: bool = False) -> None:
        """End the kernel; its runs finish their episodes, or `now`."""
        with Operator(self._connection) as operator:
            operator.ask("kernel.leave", RunRequest("", now, ""))

    def _run(self, row: Mapping[str, Any]) -> Run:
        folder = Path(self._connection.results)
        uri = self._connection.store or default_uri(folder)
        return KernelRun(self._settings, lambda id_: Results(uri, folder, (id_,)), self._connection, row)


async def arun(document: Document = "demo", wait: bool = True, *, check: bool = False, **more: Any) -> AsyncRun:
    """Carry out a document as `run`, for programs with a loop of their own; a cancelled task interrupts the run."""
    made = AsyncRun(await asyncio.to_thread(run, document, False, **more))
    return await made.wait(check=check) if wait else made


async def aconnect(kernel: str | Path | None = None, *, results: str | Path | None = None) -> AsyncKernel:
    """Return a kernel as `connect`, for programs with a loop of their own."""
    return AsyncKernel(await asyncio.to_thread(connect, kernel, results=results))


class AsyncKernel:
    """A living kernel, for programs with a loop of their own."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    async def runs(self) -> list[AsyncRun]:
        """See `Kernel.runs`."""
        return [AsyncRun(one) for one in await asyncio.to_thread(self.kernel.runs)]

    async def run(self, run: str = "last") -> AsyncRun:
        """See `Kernel.run`."""
        return AsyncRun(await asyncio.to_thread(self.kernel.run, run))

    async def processes(self, run: str = "") -> list[dict[str, Any]]:
        """See `Kernel.processes`."""
        return await asyncio.to_thread(self.kernel.processes, run)

    async def submit(self, document: Document, wait: bool = False, *, check: bool = False, **more: Any) -> AsyncRun:
        """See `Kernel.submit`."""
        made = AsyncRun(await asyncio.to_thread(lambda: self.kernel.submit(document, **more)))
        return await made.wait(check=check) if wait else made

    async def stop(self, now: bool = False) -> None:
        """See `Kernel.stop`."""
        await asyncio.to_thread(self.kernel.stop, now)


def _source(document: Document) -> tuple[str, str | None]:
    """Return the name of a document, and its text where that is not in a file."""
    if isinstance(document, Mapping):
        try:
            return "document", json.dumps(document, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise UsageError(f"expected a document of plain values: {error}") from error
    if isinstance(document, str) and "\n" in document:
        return "document", document
    return str(document), None


def _paths(overrides: Mapping[str, Any]) -> dict[str, Any]:
    return {re.sub("__", ".", path): value for path, value in overrides.items()}


def _places(results: str | Path | None, store: str | None) -> list[str]:
    words = [] if results is None else ["--results", str(results)]
    return words + ([] if store is None else ["--store", store])


def _load(document: Document, paths: Mapping[str, Any], seed: int | None, allow: tuple[str, ...]) -> tuple[Any, Any]:
    from ganglion.cli.extension import document_file

    file, text = _source(document)
    given = [f"{path}={json.dumps(value)}" for path, value in paths.items()]
    source = str(Path(file).absolute()) if text is not None else document_file(file)
    return load_document(source, plugins=registry, text=text, overrides=given, seed=seed, allow=allow)
