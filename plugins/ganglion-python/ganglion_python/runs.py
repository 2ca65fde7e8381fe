"""Runs in Python: carried out by a process of their own, or by a kernel; told of by a thread; drawn in notebooks."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import IO, Any, Self

from ganglion.cli.extension import (
    COMMAND,
    DEADLINE_OTHER_S,
    PAUSE_ANSWER_S,
    CallFailed,
    Connection,
    DeadlineExceeded,
    GanglionError,
    Operator,
    Pace,
    PeerLost,
    RunEvent,
    RunRequest,
    RunSignal,
    UsageError,
    find_run,
)
from ganglion_python.results import Results

EVENTS_MAX = 100_000
"""The newest events of a run that are kept."""

_STARTED, _ENDED = "run.started", "run.ended"
_OPEN = ("queued", "starting", "running", "paused")
_DRAWN_S = 0.5  # between two drawings in a notebook
_TELL_S = 60.0  # how long a run may take to say its id: its document is checked before


# The command line, in a process that interrupts itself, as Ctrl-C does, when the other end of a pipe is closed.
_CHILD = f"""
import os, signal, sys, threading
def watch(descriptor):
    while os.read(descriptor, 1):
        pass
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=watch, args=(int(sys.argv.pop(1)),), daemon=True).start()
{COMMAND}
"""


class RunFailed(GanglionError):
    """Report a run that was to be checked and did not finish; `run` is it."""

    def __init__(self, run: Run) -> None:
        super().__init__("\n".join([f"run {run.id} {run.status}: {run.reason}", *(f"  {it}" for it in run.story)]))
        self.run = run


class Run:
    """A run: what it tells, how it ends, and a hand on it.

    `status` is starting, running, paused, finished, failed or interrupted; `reason` and `exit_status` (0, 1 or 130) are
    None until it has ended. `story` is what went wrong, first things first. In a notebook it draws itself, and what it
    drew last stays when the notebook is saved. Methods may be called from any thread, also where a loop runs.
    """

    def __init__(self, settings: Any, results: Callable[[str], Results]) -> None:
        self._settings, self._results_of = settings, results
        self._changed = threading.Condition()
        self._id = ""
        self._over = False
        self._wrong: GanglionError | None = None
        self._events: deque[dict[str, Any]] = deque(maxlen=EVENTS_MAX)
        self._told = 0  # events so far, those too that are kept no more
        self._began_s, self._ended_s = time.monotonic(), 0.0
        self.paces: dict[int, Pace] = {}
        self.status = "starting"
        self.reason: str | None = None
        self.exit_status: int | None = None
        self.story: list[str] = []

    def __repr__(self) -> str:
        why = f": {self.reason}" if self.reason else ""
        return f"<run {self._id or '?'} {self.status}{why}>"

    def _repr_html_(self) -> str:
        from ganglion_python.drawing import run_html

        with self._changed:
            return run_html(self, self._id or "run", (self._ended_s or time.monotonic()) - self._began_s)

    @property
    def id(self) -> str:
        """Return the run's id; waits until it is known. UsageError: it was refused before it had one."""
        with self._changed:
            self._changed.wait_for(lambda: self._id or self._over, _TELL_S)
            if not self._id:
                raise self._wrong or UsageError("the run has not told its id")
            return self._id

    @property
    def results(self) -> Results:
        """Return what is stored of it, also while it runs."""
        return self._results_of(self.id)

    # -- waiting ------------------------------------------------------------------------------------------------------
    def wait(self, timeout_s: float | None = None, check: bool = False) -> Run:
        """Wait until the run has ended, or so long, and return it.

        Ctrl-C (of a notebook: the interruption of the cell) is one Ctrl-C of `ganglion run`: the run ends after its
        episodes, twice: at once, and this call returns then.

        Raises:
            RunFailed: With `check`, it has not finished.
            DocumentError: Its document is faulty; nothing was started.
        """
        until_s = None if timeout_s is None else time.monotonic() + timeout_s
        with _Shown(self) as shown:
            while not self._over:
                left_s = _DRAWN_S if until_s is None else min(_DRAWN_S, until_s - time.monotonic())
                if left_s <= 0:
                    break
                try:
                    with self._changed:
                        self._changed.wait_for(lambda: self._over, left_s)
                    shown.draw()
                except KeyboardInterrupt:
                    self.interrupt()
        if self._wrong is not None:
            raise self._wrong
        if check and self._over and self.exit_status != 0:
            raise RunFailed(self)
        return self

    def ended(self, timeout_s: float = 0.0) -> bool:
        """Say whether it has ended, after waiting for that so long; draws nothing and raises nothing."""
        with self._changed:
            return self._changed.wait_for(lambda: self._over, timeout_s)

    def events(self) -> Iterator[dict[str, Any]]:
        """Yield what the run tells, from its first event on until it has ended; waits for what comes.

        Each is a map with `event`, `time_s`, `run` and its fields, as `ganglion run --json` prints them. Of very long
        runs the newest EVENTS_MAX are there; `missed` in an event says how many were before it.
        """
        place = 0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._over or self._told > place)  # noqa: B023 - asked at once
                oldest = self._told - len(self._events)
                found = list(self._events)[max(0, place - oldest) :]
                missed, place, over = max(0, oldest - place), self._told, self._over
            for number, event in enumerate(found):
                yield {**event, "missed": missed} if missed and not number else event
            if over and not found:
                if self._wrong is not None:
                    raise self._wrong
                return

    # -- a hand on it -------------------------------------------------------------------------------------------------
    def pause(self) -> str:
        """Pause all workers at their next step; return when they are paused, with where each one is."""
        return self._signal("PAUSE")

    def unpause(self, steps: int | None = None) -> str:
        """Let the workers go on, with `steps` so many steps; return the answer."""
        return self._signal("CONTINUE", steps=steps)

    def signal(self, name: str, phase: str | None = None, worker: int | None = None, reason: str = "") -> str:
        """Send a flow signal, such as STOP_PHASE; return the governor's answer. CallFailed if it is refused."""
        return self._signal(name.upper().replace("-", "_"), phase=phase, worker=worker, reason=reason)

    def stop(self, now: bool = False, reason: str = "") -> str:
        """Interrupt it after its episodes, or `now`; return the answer. `wait` says when it has ended."""
        return self._ask("kernel.stop", RunRequest(self.id, now, reason))

    def interrupt(self) -> None:
        """Do what Ctrl-C does."""
        with contextlib.suppress(GanglionError):
            self.stop(self.status == "interrupting")
            self.status = "interrupting"

    def _signal(self, name: str, **more: Any) -> str:
        return self._ask("kernel.signal", RunSignal(self.id, name, **more))

    def _ask(self, call: str, request: Any) -> str:
        with self._operator() as operator:
            answer = operator.ask(call, request, PAUSE_ANSWER_S + DEADLINE_OTHER_S)
        if not answer.accepted:
            raise UsageError(str(answer.text))
        return str(answer.text)

    def _operator(self) -> Operator:
        return find_run(self._settings.results, self._settings.kernel, self.id)

    # -- told by the thread -------------------------------------------------------------------------------------------
    def _tell(self, event: dict[str, Any]) -> None:
        """Take in an event."""
        with self._changed:
            what, phase = event["event"], event.get("phase")
            self._id = self._id or str(event.get("run", ""))
            self._events.append(event)
            self._told += 1
            if what == "phase.started" and phase is not None:
                self.paces[phase] = Pace.of(event, time.monotonic())
            elif phase in self.paces:
                self.paces[phase].take(what, event, time.monotonic())
            if what in (_STARTED, "phase.started", "phase.resumed") and self.status != "interrupting":
                self.status = "running"
            elif what == "phase.paused" and not event.get("moving"):
                self.status = "paused"
            if what == _ENDED:
                self.status, self.reason = str(event["status"]), str(event["reason"])
                self.exit_status = event.get("exit_status")
                self.story = list(event.get("story", ()))
            self._changed.notify_all()

    def _end(self, wrong: GanglionError | None = None) -> None:
        with self._changed:
            self._over, self._wrong, self._ended_s = True, wrong, time.monotonic()
            self._changed.notify_all()


class LocalRun(Run):
    """A run that a process of its own carries out: `ganglion run`; it is interrupted when this process ends."""

    def __init__(
        self,
        settings: Any,
        results: Callable[[str], Results],
        words: Sequence[str],
        document: str | None,
        explain: Callable[[str], GanglionError],
    ) -> None:
        super().__init__(settings, results)
        self._explain = explain
        ours, self._lifeline = os.pipe()
        command = [sys.executable, "-P", "-c", _CHILD, str(ours), *words]
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL if document is None else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=[ours],
                start_new_session=True,  # Ctrl-C of a terminal or a notebook comes through us, once
                text=True,
                encoding="utf-8",
            )
        except BaseException:
            os.close(self._lifeline)
            raise
        finally:
            os.close(ours)
        self._said: deque[str] = deque(maxlen=200)
        threads = [threading.Thread(target=self._read_errors, daemon=True)]
        if document is not None:
            threads.append(threading.Thread(target=self._write, args=(document,), daemon=True))
        for thread in threads:
            thread.start()
        threading.Thread(target=self._read, args=(threads,), daemon=True).start()

    def interrupt(self) -> None:
        """Do what Ctrl-C does."""
        self._process.send_signal(signal.SIGINT)

    def _write(self, document: str) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError), self._process.stdin as stream:
            stream.write(document)

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as stream:
            for line in stream:
                self._said.append(line.rstrip("\n"))

    def _read(self, others: Sequence[threading.Thread]) -> None:
        with _stream(self._process.stdout) as lines:
            for line in lines:
                with contextlib.suppress(ValueError):
                    self._tell(json.loads(line))
        for thread in others:
            thread.join()
        code = self._process.wait()
        os.close(self._lifeline)
        wrong = None
        if self.reason is None:  # it has not ended as runs do
            text = "\n".join(self._said) or f"its process ended with status {code}"
            wrong = self._explain(text.removeprefix("ganglion: "))
            self.status, self.reason, self.exit_status = "failed", text, 2 if code == 2 else 1
        self._end(wrong)


def _stream(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe


class KernelRun(Run):
    """A run that a kernel carries out, with what it tells from now on."""

    def __init__(
        self, settings: Any, results: Callable[[str], Results], connection: Connection, row: Mapping[str, Any]
    ) -> None:
        super().__init__(settings, results)
        self._connection = connection
        self._id = str(row["run"])
        self._began_s = time.monotonic() - float(row.get("age_s") or 0.0)
        self._take(row)
        if self.status not in _OPEN:
            self._end()
        else:
            threading.Thread(target=self._follow, daemon=True).start()

    def _operator(self) -> Operator:
        return Operator(self._connection)

    def _take(self, row: Mapping[str, Any]) -> None:
        self.status, self.reason, self.exit_status = str(row["status"]), row["reason"], row["exit_status"]
        self.story = list(row["story"])

    def _follow(self) -> None:
        """Hand on what the kernel tells, and how the run ended."""
        wrong: GanglionError | None = None
        try:
            with self._operator() as operator, self._operator() as other:

                def show(news: RunEvent) -> None:
                    self._tell({"event": news.event, "time_s": news.time_s, "run": self._id, **news.fields})

                def over() -> bool:
                    [row] = other.ask("kernel.runs", RunRequest(self._id)).rows
                    if row["status"] not in _OPEN:
                        self._take(row)
                        return True
                    return False

                operator.follow(self._id, show, over)
        except (PeerLost, CallFailed, DeadlineExceeded, OSError) as error:
            if self.status in _OPEN:
                self.status, self.reason, self.exit_status = "lost", str(error), 1
                wrong = error if isinstance(error, GanglionError) else PeerLost("kernel", str(error))
        self._end(wrong)


class _Shown:
    """Draw a run in a notebook while it is waited for; elsewhere nothing."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._handle: Any = None

    def __enter__(self) -> Self:
        display = sys.modules.get("IPython.display")  # imported already where there is a notebook
        shell = sys.modules["IPython"].get_ipython() if display is not None and "IPython" in sys.modules else None
        if display is not None and shell is not None and type(shell).__name__ == "ZMQInteractiveShell":
            self._handle = display.display(display.HTML(self._run._repr_html_()), display_id=True)
            self._html = display.HTML
        return self

    def draw(self) -> None:
        """Draw how far it is."""
        if self._handle is not None:
            self._handle.update(self._html(self._run._repr_html_()))

    def __exit__(self, *error: object) -> None:
        self.draw()


class AsyncRun:
    """A run for programs with a loop of their own: what waits in `Run` is awaited here; nothing blocks the loop."""

    def __init__(self, run: Run) -> None:
        self.run = run

    def __repr__(self) -> str:
        return repr(self.run)

    def _repr_html_(self) -> str:
        return self.run._repr_html_()

    def __getattr__(self, name: str) -> Any:
        if name in ("id", "status", "reason", "exit_status", "story", "results", "paces"):
            return getattr(self.run, name)
        raise AttributeError(name)

    async def wait(self, timeout_s: float | None = None, check: bool = False) -> AsyncRun:
        """Wait as `Run.wait`; a task that is cancelled meanwhile interrupts the run."""
        until_s = None if timeout_s is None else time.monotonic() + timeout_s
        try:
            while not await asyncio.to_thread(self.run.ended, _DRAWN_S):
                if until_s is not None and time.monotonic() >= until_s:
                    break
        except asyncio.CancelledError:
            await asyncio.to_thread(self.run.interrupt)
            raise
        await asyncio.to_thread(self.run.wait, 0.0, check)
        return self

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        """Yield what the run tells, as `Run.events`."""
        events = self.run.events()
        while (event := await asyncio.to_thread(next, events, None)) is not None:
            yield event

    async def pause(self) -> str:
        """See `Run.pause`."""
        return await asyncio.to_thread(self.run.pause)

    async def unpause(self, steps: int | None = None) -> str:
        """See `Run.unpause`."""
        return await asyncio.to_thread(self.run.unpause, steps)

    async def signal(self, name: str, phase: str | None = None, worker: int | None = None, reason: str = "") -> str:
        """See `Run.signal`."""
        return await asyncio.to_thread(self.run.signal, name, phase, worker, reason)

    async def stop(self, now: bool = False, reason: str = "") -> str:
        """See `Run.stop`."""
        return await asyncio.to_thread(self.run.stop, now, reason)
