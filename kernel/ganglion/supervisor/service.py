"""Calls of operators: list runs and processes, send signals, stop; a daemon also accepts documents."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ganglion import registry
from ganglion.document import load_document
from ganglion.errors import DocumentError, GanglionError, UsageError
from ganglion.run.plan import Loss, loss_of
from ganglion.supervisor.folder import reserve
from ganglion.supervisor.hub import Handler
from ganglion.supervisor.runs import Member, Run
from ganglion.wire.messages import Done, FlowSignal, Nothing, RunRequest, Runs, RunSignal, Signalled, Submit, Submitted
from ganglion.wire.name import KERNEL, Role

if TYPE_CHECKING:
    from collections.abc import Callable

    from ganglion.supervisor.launch.process import Process
    from ganglion.supervisor.supervisor import Supervisor


_CALLS = ("submit", "runs", "processes", "signal", "stop", "leave")


class Service:
    """Answer operators about the runs of a supervisor; set `supervisor` before the first call."""

    supervisor: Supervisor

    def handlers(self) -> dict[str, Handler]:
        """Return the handlers by the name of the call."""
        return {f"kernel.{name}": getattr(self, name) for name in _CALLS}

    def find(self, text: str) -> Run:
        """Return a run by its id, its uid (the newest), an unambiguous prefix, or `last`."""
        runs = self.supervisor.runs
        newest = list(reversed(runs.values()))
        exact = [run for run in newest if run.id == text] or (newest if text == "last" else [])
        exact = exact or [run for run in newest if run.plan.uid == text]
        found = [run for run in newest if run.id.startswith(text) or run.plan.uid.startswith(text)]
        if exact or len(found) == 1:
            return (exact or found)[0]
        known = ", ".join(runs) or "none"
        what = "is ambiguous" if found else "is unknown"
        raise UsageError(f"run {text[:80]!r} {what}; runs of this kernel: {known}")

    async def submit(self, caller: str, request: Submit) -> Submitted:
        """Refuse a document, because this kernel accepts none."""
        raise UsageError("this kernel carries out the documents of one `ganglion run`; start `ganglion kernel`")

    async def runs(self, caller: str, request: RunRequest) -> Runs:
        """List runs, oldest first."""
        chosen = [self.find(request.run)] if request.run else list(self.supervisor.runs.values())
        return Runs([_run_row(run) for run in chosen])

    async def processes(self, caller: str, request: RunRequest) -> Runs:
        """List the processes of live runs, or of one run."""
        supervisor = self.supervisor
        chosen = [self.find(request.run)] if request.run else [r for r in supervisor.runs.values() if r.outcome is None]
        peers = await supervisor.bus.ask(KERNEL, "kernel.peers", Nothing())
        known = {row["name"]: row for row in peers.peers}
        rows = [
            _process_row(run, m, known.get(m.name), supervisor.placer.of(run, m))
            for run in chosen
            for m in run.members.values()
        ]
        broker = supervisor.broker
        if broker is not None:
            cpu_s, memory = broker.usage()
            row = {"run": "", "name": "broker", "role": "broker", "pid": broker.pid, "host": "", "state": "running"}
            rows.insert(0, {**row, "cpu_s": round(cpu_s, 2), "memory_bytes": memory})
        for node, relay in supervisor.relays.living.items():
            names = {m.name for run in chosen for m in run.members.values() if m.process.node == node}
            rows.insert(1, _relay_row(relay, names, rows))
        return Runs(rows)

    async def signal(self, caller: str, request: RunSignal) -> Signalled:
        """Pass a flow signal to the run's governor; return its answer."""
        run = self.find(request.run)
        if run.outcome is not None or not run.begun:
            return Signalled(False, f"run {run.id} is {run.state}")
        phase = None if request.phase is None else _phase_index(run, request.phase)
        data: dict[str, Any] = {} if request.phase is None else {"phase": request.phase}
        data |= {} if request.topics is None else {"topics": request.topics}
        reason, taken_in = request.reason, run.phase
        wish = FlowSignal(
            request.signal, "operator", reason, phase, request.worker, steps=request.steps, data=data or None
        )
        answer: Signalled = await self.supervisor.bus.ask(run.governor.name, "governor.signal", wish)
        if answer.accepted:
            run.signalled(taken_in, wish.signal if request.topics is None else "SET")
            await self.supervisor.note(run, must=False)
        return answer

    async def stop(self, caller: str, request: RunRequest) -> Signalled:
        """Interrupt a run."""
        run = self.find(request.run)
        if run.outcome is not None:
            return Signalled(False, f"run {run.id} is {run.status} already")
        self.supervisor.interrupt(run, request.now, request.reason or "operator")
        return Signalled(True, f"run {run.id}: {'stopping now' if request.now else 'finishing the episode'}")

    async def leave(self, caller: str, request: RunRequest) -> Done:
        """End the kernel by interrupting all its runs."""
        for run in self.supervisor.runs.values():
            if run.outcome is None:
                self.supervisor.interrupt(run, request.now, request.reason or "operator")
        return Done()


class Daemon(Service):
    """Accept documents and run them in order of arrival, at most `parallel` at a time, until `leaving` is set."""

    def __init__(self, store: str | None, parallel: int, log: Callable[[str], None]) -> None:
        self.leaving = asyncio.Event()
        self._store = store
        self._gate = asyncio.Semaphore(parallel)
        self._log = log
        self._tasks: set[asyncio.Task[None]] = set()

    async def submit(self, caller: str, request: Submit) -> Submitted:
        """Check a document, reserve its id, queue it; return the id."""
        if self.leaving.is_set():
            raise UsageError("this kernel is shutting down and takes no documents")
        bus = self.supervisor.bus
        peers = (await bus.ask(KERNEL, "kernel.peers", Nothing())).peers
        # An operator on this machine who has the token is the same user, so `submit` may do what `run` does.
        local = bool(request.folder) and any(row["name"] == caller and not row["remote"] for row in peers)
        plan, _ = await asyncio.to_thread(
            load_document,
            Path(request.folder, Path(request.source).name) if local else request.source,
            plugins=registry,
            text=request.document,
            overrides=request.overrides or (),
            seed=request.seed,
            allow=self.supervisor.settings.allow if local else (),
            local=local,
        )
        found = await self.supervisor.check(plan)
        faults = [fault for fault in found if fault["severity"] == "error"]
        if faults:
            lines = [f"{f['file']}:{f['line']}:{f['column']}: {f['path']}: {f['message']}" for f in faults]
            raise DocumentError("\n".join(lines), faults)
        for warning in found:
            self._log(f"{warning['file']}:{warning['line']}: warning: {warning['message']}")
        folder = reserve(self.supervisor.settings.results, plan.uid, request.name)
        run = self.supervisor.runs[folder.run] = Run(plan, folder, self._store)
        run.queued = True
        task = asyncio.create_task(self._carry_out(run))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return Submitted(folder.run)

    async def stop(self, caller: str, request: RunRequest) -> Signalled:
        """Interrupt a run, or remove it from the queue."""
        run = self.find(request.run)
        if not run.queued:
            return await super().stop(caller, request)
        self._take_out(run)
        self._log(f"run {run.id} was taken out of the queue")
        return Signalled(True, f"run {run.id}: taken out of the queue, nothing was started")

    def _take_out(self, run: Run) -> None:
        """Remove a queued run and its folder."""
        del self.supervisor.runs[run.id]
        run.folder.release()

    async def _carry_out(self, run: Run) -> None:
        async with self._gate:
            if self.supervisor.runs.get(run.id) is not run:
                return  # it was removed from the queue
            if self.leaving.is_set():
                self._take_out(run)
                return
            self._log(f"run {run.id} · seed {run.plan.seed} · {run.folder.path}")
            try:
                outcome = await self.supervisor.carry_out(run)
            except GanglionError as error:
                self._log(f"run {run.id} was not begun: {error}")
                run.folder.release()
                return
            self._log(f"run {run.id} {outcome.status}: {outcome.reason}")
            for line in outcome.report:
                self._log(f"  {line}")

    async def leave(self, caller: str, request: RunRequest) -> Done:
        """Let runs finish their episode, then end."""
        self.leaving.set()
        return await super().leave(caller, request)

    async def wait_idle(self) -> None:
        """Wait until no run is left."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))


def _phase_index(run: Run, text: str) -> int:
    for phase in run.plan.phases:
        if text in (phase.name, str(phase.index)):
            return phase.index
    names = ", ".join(phase.name for phase in run.plan.phases)
    raise UsageError(f"run {run.id}: expected a phase of {names}, found {text[:80]!r}")


def _run_row(run: Run) -> dict[str, Any]:
    ended = run.outcome
    return {
        "run": run.id,
        "uid": run.plan.uid,
        "seed": run.plan.seed,
        "status": run.state,
        "reason": ended and ended.reason,
        "exit_status": ended and ended.exit_status,
        "story": list(ended.report) if ended else [],
        "phase": None if run.queued else run.phase,
        "phases": len(run.plan.phases),
        "age_s": round(time.monotonic() - run.started_s, 1),
        "progress": run.pace.row(time.monotonic()) if run.pace is not None and ended is None else None,
        "folder": str(run.folder.path),
    }


def _state(run: Run, member: Member) -> str:
    if member.place.role is Role.CONTROLLER and member.place.worker in run.paused:
        return "paused"
    if member.place.attached:
        return "attached" if member.joined else "awaited"
    return member.child.state.value


def _recovery(run: Run, member: Member) -> str:
    """Return a text for the state from which the successor of a process starts."""
    returns = "journal on its node" if member.far else "journal"
    words = {Loss.RETURNS: returns, Loss.REPLAYED: "controller", Loss.EPISODE: "next episode"}
    return words.get(loss_of(run.plan.phases[run.phase], member.place), "")


def _relay_row(relay: Process, names: set[str], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the row of a relay: `stayed` and `travelled` count the messages of the processes `names`.

    `per_step` is both per step; a step is one answer of an environment of a worker.
    """
    cpu_s, memory = relay.usage()
    steps: dict[tuple[str, int, bool], int] = {}
    for row in rows:
        if row["name"] in names and row["role"] == Role.ENVIRONMENT:
            worker = row["run"], row["worker"], row["evaluation"]
            steps[worker] = max(steps.get(worker, 0), row["stayed"] or 0)
    sent = [(row["name"] in names, to in names, count) for row in rows for to, count in row.get("sent", {}).items()]
    counts = [sum(n for here, there, n in sent if (here and there, here != there)[way]) for way in (0, 1)]
    made = sum(steps.values())
    return {
        "run": "",
        "name": relay.name,
        "role": "relay",
        "pid": relay.pid,
        "host": relay.host,
        "state": "running",
        "stayed": counts[0],
        "travelled": counts[1],
        "per_step": [round(count / made, 2) for count in counts] if made else None,
        "cpu_s": round(cpu_s, 2),
        "memory_bytes": memory,
    }


def _process_row(run: Run, member: Member, peer: dict[str, Any] | None, placement: str) -> dict[str, Any]:
    process = None if member.child.gone else member.process
    cpu_s, memory = (0.0, 0) if process is None else process.usage()
    waiting = list(peer["waiting_for"]) if peer else []
    now_s = time.monotonic()
    leads = member.place.role is Role.GOVERNOR  # its row shows elapsed and remaining time
    left_s = run.pace.left_s(now_s) if leads and run.pace is not None else None
    if leads:  # it waits for programs to attach, without an open call to them
        waiting += [m.name for m in run.members.values() if m.place.attached and not m.joined]
    return {
        "run": run.id,
        "name": member.name,
        "role": member.place.role.value,
        "uid": member.place.uid,
        "worker": member.place.worker,
        "evaluation": member.place.evaluation,
        "pid": process and process.pid,
        "host": process.host if process is not None else "",
        "state": _state(run, member),
        "joined": member.joined,
        "heard_ms": peer["heard_ms"] if peer else None,
        "waiting_for": waiting,
        "table": run.tables.get(member.name),
        "sent": peer["sent"] if peer else {},
        "stayed": (stayed := peer["stayed"] if peer else None),
        "travelled": None if peer is None or stayed is None else sum(peer["sent"].values()) - stayed,
        "queued_bytes": peer["queued_bytes"] if peer else 0,
        "restarts": member.incarnation - 1,
        "recovery": _recovery(run, member),
        "excused": run.excused.get(member.name, 0),
        "cpu_s": round(cpu_s, 2),
        "memory_bytes": memory,
        "placement": placement,
        "elapsed_s": round(now_s - run.started_s, 1) if leads else None,
        "left_s": None if left_s is None else round(left_s, 1),
    }
