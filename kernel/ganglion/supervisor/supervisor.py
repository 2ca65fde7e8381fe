"""The supervisor: one broker, any number of runs, every process watched from start to end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgpack

from ganglion import registry
from ganglion.errors import DeadlineExceeded, GanglionError, LaunchError, PeerLost, StoreError, UsageError
from ganglion.limits import DEADLINES_S, LEAVE_ASK_S, LEAVE_KILL_S, LEAVE_TERMINATE_S
from ganglion.run.plan import Loss, Plan, loss_of
from ganglion.run.plan import Process as Place
from ganglion.sdk.launcher import CREDENTIALS, Launched, Launcher, LaunchSpec
from ganglion.supervisor import event
from ganglion.supervisor.connection import REMOTE, Access, Connection, connection_path, endpoint_folder, write_private
from ganglion.supervisor.folder import RunFolder, seal, write_process_table
from ganglion.supervisor.hub import Bus, Handler, Hub
from ganglion.supervisor.launch.local import CHECK, Local
from ganglion.supervisor.launch.process import Process, look_on, within
from ganglion.supervisor.launch.system import User, check_users, dump_nothing
from ganglion.supervisor.life import Event, State
from ganglion.supervisor.nodes import Lending, Relays
from ganglion.supervisor.pace import Pace
from ganglion.supervisor.placement import AUTO, Placer
from ganglion.supervisor.recovery import Restarter, watch
from ganglion.supervisor.resume import Checkpointer, RecoveryPlan, begin, forget, prepare
from ganglion.supervisor.runs import (
    FINISHED,
    STORED,
    Member,
    Outcome,
    Run,
    check_launcher,
    check_plan,
    definition,
    start,
    wait_gone,
)
from ganglion.transport.curve import new_pair
from ganglion.wire import messages
from ganglion.wire.name import KERNEL, Role, topic

_ENDED_KEPT = 32  # ended runs that operators can still query
_OURS = (event.RUN_STARTED, event.RUN_ENDED, event.PEER_JOINED, event.PEER_LOST)
"""Events that governors publish to observers; the supervisor shows its own, with more detail."""
_ANY_PORT = "tcp://127.0.0.1:0"
_STOP_NOW_S = 1.0  # time for the governor to cut open episodes; escalation needs the rest of the five seconds
_STAGES: tuple[tuple[Role, ...], ...] = (  # the order of leaving; the store leaves after every role that writes
    (Role.ENVIRONMENT, Role.MUSCLE, Role.CONTROLLER),
    (Role.BRAIN,),
    (Role.TABLE,),
    (Role.GOVERNOR,),
    (Role.STORE,),
)


@dataclass(frozen=True, slots=True)
class Settings:
    """Hold the settings of a supervisor.

    `store` is a URI, or None to store nothing. `run` is the id of the only run, None for a daemon. `tcp` requests a
    loopback endpoint beside the socket file, at any free port or at `bind`, which may also be a further socket file.
    `remote` is an encrypted endpoint for other machines. `allow` are the packages that import paths may name. `logs` is
    the folder for the broker's output. `cpus` sets the placement of workers: measured, free, or processors.
    """

    results: Path
    store: str | None
    run: str | None = None
    tcp: bool = False
    logs: Path | None = None
    allow: tuple[str, ...] = ()
    argv: tuple[str, ...] = ()
    handlers: dict[str, Handler] = field(default_factory=dict)
    cpus: str = AUTO
    bind: str = _ANY_PORT
    remote: str | None = None

    def further(self) -> list[str]:
        """Return the endpoints on this machine beside the supervisor's own."""
        if self.bind.startswith("ipc:"):
            return [_ANY_PORT, self.bind] if self.tcp else [self.bind]
        return [self.bind] if self.tcp else []


class Supervisor:
    """Start a broker, carry out runs, publish their events, stop everything; call `open` first and `close` last."""

    def __init__(
        self,
        settings: Settings,
        report: Callable[[str, messages.RunEvent], None],
        local: Local | None = None,
        launcher: Launcher | None = None,
    ) -> None:
        self.settings = settings
        self.runs: dict[str, Run] = {}
        self.connection: Connection  # set by `open`
        self.connection_file: Path | None = None
        self.remote_file: Path | None = None
        self.remote: Connection | None = None  # as used by processes on other machines
        self.access = Access(settings.remote is not None)
        self.bus: Bus  # set by `open`
        self.broker_gone: asyncio.Future[str]  # set by `open`; holds the reason if no other broker is started
        self._report = report
        self.local = local or Local()
        self.local.logs = settings.logs
        self.launcher = launcher or self.local
        self._hub: Hub | None = None
        self.folder: Path | None = None  # private; set by `open`
        self._checking: tuple[Plan, asyncio.Future[list[dict[str, Any]]]] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._looking: asyncio.Task[None] | None = None
        self.restarter = Restarter(self)
        self.placer = Placer(self, settings.cpus)
        self.relays = Relays(self)
        self.launcher.relay = self.relays.endpoint
        self.local.on_warm_lost = self.restarter.warm_lost

    # -- opening and closing ------------------------------------------------------------------------------------------
    async def open(self, first: Plan | None = None) -> Connection:
        """Start the broker and join it; after a LaunchError nothing is left behind.

        The plugins of the plan `first` are checked concurrently.
        """
        name = self.settings.run or f"kernel-{os.getpid()}"
        dump_nothing()  # a core file would hold tokens and keys
        ours: dict[str, Handler] = {"kernel.need": self._need, "kernel.ended": self._ended}
        lending = Lending(self)
        ours |= {"kernel.overdue": self.restarter.overdue, "kernel.model": lending.give, "kernel.keep": lending.take}
        self.bus = Bus({**self.settings.handlers, **ours}, self)
        self.broker_gone = asyncio.get_running_loop().create_future()
        log = None if self.settings.logs is None else self.settings.logs / "broker.out"
        try:
            await self.local.open()
            if self.launcher is not self.local:
                await self.launcher.open()
            remote = [self.settings.remote] if self.settings.remote else []
            if self.launcher.address and not remote:
                remote, self.access = [f"tcp://{self.launcher.address}:0"], Access(remote=True)
            self._hub = Hub(self.local, self.access, self.restarter, self.bus, log)
            self.folder, endpoint = endpoint_folder(name)
            if first is not None:
                self._checking = first, asyncio.ensure_future(self._check(first))
            self._write_connection(await self._hub.open([endpoint, *self.settings.further()], remote))
        except BaseException:
            await self.close()
            raise
        self._looking = asyncio.create_task(look_on(lambda now_s: watch(self, now_s)))
        return self.connection

    def _write_connection(self, answer: dict[str, list[str]]) -> None:
        assert self.folder is not None
        bound = answer["endpoints"]
        tcp = next((e for e in bound if e.startswith("tcp://")), None)
        run, where = self.settings.run, (str(self.settings.results.resolve()), self.settings.store)
        place = Connection(messages.PROTOCOL_VERSION, os.getpid(), bound[0], tcp, "", "", "", run, *where)
        self.connection = self.access.local(place)
        self.connection_file = connection_path(self.folder, self.settings.results, run)
        self.connection.write(self.connection_file)
        for endpoint in answer.get("remote", []):
            self.remote = self.access.remote(place, endpoint)
            if self.settings.remote:
                self.remote_file = self.connection_file.with_name(REMOTE)
                self.remote.write(self.remote_file)

    async def close(self) -> list[str]:
        """Stop all remaining processes in order, verify that none is left; return those that should have ended."""
        if self._looking is not None:
            self._looking.cancel()
        if self._checking is not None:  # the result is no longer needed
            self._checking[1].cancel()
            await asyncio.wait([self._checking[1]])
        for run in self.runs.values():
            if run.outcome is None:
                run.interrupted("the kernel ends")
        if self._hub is not None:
            await self._hub.close()
        await self.relays.close()
        found = [] if self.launcher is self.local else await self.launcher.close()
        found += await self.local.close()
        for file in filter(None, (self.connection_file, self.remote_file)):
            file.unlink(missing_ok=True)
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
        return found

    # -- one run ------------------------------------------------------------------------------------------------------
    async def check(self, plan: Plan) -> list[dict[str, Any]]:
        """Return the faults of a plan that only its plugins can detect; they are loaded in a child process."""
        if self._checking is not None and self._checking[0] is plan:
            _, checking = self._checking
            self._checking = None
            return await checking
        return await self._check(plan)

    async def _check(self, plan: Plan) -> list[dict[str, Any]]:
        assert self.folder is not None, "open() comes first"
        self.local.prepare(registry.shared_imports(plan))
        users = await self._check_users(plan)
        user = users[0] if users else None  # the supervisor never runs the code of other users; one user checks for all
        # One folder per check, because checks of several runs may overlap.
        folder = Path(tempfile.mkdtemp(prefix="ganglion-check-", dir=None if users else self.folder))
        asked, found = folder / "plan", folder / "faults"
        process = Process("check", None, lambda process: None)
        try:
            tree = {**await asyncio.to_thread(plan.to_map), "allow": [*plan.allow, *self.settings.allow]}
            tree |= {} if users else {"store": self.settings.store}  # other users may not read it
            if not (users or any(run.outcome is None for run in self.runs.values())):
                tree |= {"results": str(self.settings.results.resolve())}
            # A large plan takes seconds; the thread leaves the loop free to answer the broker.
            await asyncio.to_thread(lambda: write_private(asked, msgpack.packb(tree)))
            if user is not None:
                user.own(asked)
                user.own_folder(folder)
            ways = {} if users else {n: v for n, v in os.environ.items() if n in CREDENTIALS and n[:2] == "PG"}
            variables = {**ways, "GANGLION_CHECK": str(asked), "GANGLION_FAULTS": str(found)}
            spec = LaunchSpec("ganglion-check", variables, module=CHECK, user=user.name if user is not None else None)
            await process.start(self.local, spec)
            try:
                await within(process.ended, DEADLINES_S["setup"])
            finally:
                process.signal(signal.SIGKILL)
                await process.ended.wait()
            faults: list[dict[str, Any]] = msgpack.unpackb(await asyncio.to_thread(found.read_bytes))
        except (OSError, ValueError) as error:
            how = f"ended with {process.code} without naming a fault{process.output.quoted()}"
            how = how if process.ended.is_set() else f"did not begin: {error}"
            raise LaunchError(f"the check of the plugins {how}") from error
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return faults

    async def _check_users(self, plan: Plan) -> list[User]:
        """Return the users of a plan; UsageError if its processes cannot run as these users."""
        check_launcher(plan, self.launcher)
        return await asyncio.to_thread(check_users, plan, self.settings.results)

    async def execute(
        self, plan: Plan, folder: RunFolder, store: str | None, recovery: RecoveryPlan | None = None
    ) -> Outcome:
        """Carry out a run to its end, or resume it by `recovery`; on return all its processes are gone."""
        run = self.runs[folder.run] = Run(plan, folder, store)  # from here on it can be interrupted
        return await self.carry_out(run, recovery)

    async def carry_out(self, run: Run, recovery: RecoveryPlan | None = None) -> Outcome:
        """Carry out a registered run to its end."""
        plan, folder, store = run.plan, run.folder, run.store
        run.queued, run.started_s = False, time.monotonic()
        run.checkpointer = Checkpointer(self, run)
        try:
            await asyncio.to_thread(check_plan, folder.run, plan)
            users = await self._check_users(plan)
            if run.mask is not None:
                os.umask(run.mask)  # permanently: a user of one run of this kernel may not read the next
            if recovery is None:
                await asyncio.to_thread(folder.fill, plan, self.settings.argv, store, self.settings.allow)
            else:
                await prepare(run, recovery)
            if users:
                await asyncio.to_thread(folder.open_ways)
        except BaseException:
            del self.runs[folder.run]
            raise
        try:
            await self._carry_out(run)
            # Write the end to the table before a journal holds it; a hanging disk delays no process.
            noting = asyncio.ensure_future(self.note(run, must=False))
            await asyncio.wait([noting], timeout=LEAVE_KILL_S)
        finally:
            self.placer.end(run)
            await self._stop(run)
        outcome = run.conclude()
        try:
            heads = None if run.ended is None else run.ended.heads
            await asyncio.to_thread(seal, folder.path, outcome.status, outcome.reason, heads)
        except StoreError as error:  # the files could not be verified
            story, exit_status = [*outcome.report, str(error)], outcome.exit_status or 1
            outcome = run.outcome = replace(outcome, exit_status=exit_status, report=story)
        if outcome.status == FINISHED:
            async with run.noting:
                await asyncio.to_thread(forget, folder.path)
        self.tell(run, event.RUN_ENDED, {"status": outcome.status, "reason": outcome.reason})
        await self.withdraw([topic(run.id, name) for name in (event.TOPIC, event.WAITS)])
        ended = [other.id for other in self.runs.values() if other.outcome is not None]
        for former in ended[:-_ENDED_KEPT]:  # bounds a daemon's memory; `ganglion runs` lists older runs from the store
            del self.runs[former]
        return outcome

    async def _carry_out(self, run: Run) -> None:
        """Begin a run and wait until it is over; an error at the beginning fails the run."""
        beginning = asyncio.create_task(self._begin(run))
        try:
            await run.over.wait()
        finally:
            beginning.cancel()
            await asyncio.wait([beginning])

    async def _begin(self, run: Run) -> None:
        topics = [messages.Subscribe(topic(run.id, name)) for name in (event.TOPIC, event.WAITS)]
        try:
            await self.bus.ask_all("kernel.subscribe", topics)
            run.beginning = asyncio.ensure_future(begin(self, run))
            try:
                await asyncio.wait([run.beginning])
            finally:
                run.beginning.cancel()
            if not run.beginning.cancelled():  # else a rewind begins it again
                run.beginning.result()
            await run.checkpointer.watch()
        except Exception as error:  # noqa: BLE001 - the outermost frame of the task: the error ends the run
            run.fail(str(error) if isinstance(error, GanglionError) else f"{type(error).__name__}: {error}")

    async def wait_joined(self, run: Run, names: Sequence[str], span_s: float) -> None:
        """Wait until the members of these names, or their successors, have joined; DeadlineExceeded after `span_s`."""
        late: list[Member] = []
        try:
            async with asyncio.timeout(span_s):
                while late := [run.members[name] for name in names if not run.members[name].here.is_set()]:
                    await run.arrival.wait()
        except TimeoutError as error:
            labels = ", ".join(member.label for member in late)
            raise DeadlineExceeded(f"{labels} did not join within {span_s:.0f} s") from error

    async def ensure(self, run: Run, places: Sequence[Place]) -> None:
        """Start the processes of `places`, let the others leave; return when all started members are admitted."""
        needed = {place.name for place in (*places, run.governor, run.store_place) if place is not None}
        phase = run.plan.phases[run.phase]
        fresh, changed = [], []
        for place in places:
            former = run.members.get(place.name)
            if former in run.lost:
                continue  # the run fails naming this member; a successor would hide it
            if former is not None:
                awaited = former.lost_s is not None and former.gone.is_set()  # its successor is about to be started
                stays = former.stays and definition(former.place) == definition(place)
                if awaited or stays:
                    former.place = place
                    if stays and former.returns != (loss_of(phase, place) is Loss.RETURNS):
                        former.returns = not former.returns
                        changed.append(former)
                    continue
                former.leave()
                await former.gone.wait()  # two processes of one name never coexist
                run.former.append(former)
            if run.over.is_set():
                raise UsageError(f"run {run.id} is over: no process is started for it any more")
            run.members[place.name] = member = self.member(run, place)
            fresh.append(member)
        leaving = [m for name, m in run.members.items() if name not in needed]
        await self.bus.ask_all("kernel.admit", [self.access.admission(m) for m in changed])
        await self.bring_up(run, fresh)
        for member in leaving:
            member.leave()

    def member(self, run: Run, place: Place) -> Member:
        """Return a new member for a place, with the next incarnation of its name."""
        member = run.member(place, lambda member: self.bus.bid_leave(member.name), self.restarter.ended)
        if self.launcher.address and not place.attached and place.role not in STORED:
            member.keys = new_pair()
        if not (self.launcher.shares_files or place.attached or place.role in STORED):
            member.far, member.journal = member.journal is not None, None  # the journal lies on the node of the process
        return member

    async def bring_up(self, run: Run, members: Sequence[Member]) -> None:
        """Write the process table, admit members, and start their processes."""
        await self.note(run)
        await self.bus.ask_all("kernel.admit", [self.access.admission(m) for m in members])
        await self.bus.ask(KERNEL, "kernel.watch", messages.Watch([member.name for member in members]))
        starts = asyncio.gather(*(start(self, run, member) for member in members if not member.place.attached))
        await asyncio.shield(starts)  # a cancelled start would leave an unknown process
        self.spawn(self.note(run, must=False))

    async def note(self, run: Run, must: bool = True) -> None:
        """Write the process table of a run; on failure LaunchError, or without `must` a warning."""
        async with run.noting:
            if run.outcome is not None:
                return
            try:
                await asyncio.to_thread(write_process_table, run.folder.path, run.process_table())
            except OSError as error:
                text = f"run {run.id}: the process table cannot be written: {error}"
                if must:
                    raise LaunchError(text) from error
                self.tell(run, event.WARNING, {"text": text})

    def launcher_of(self, place: Place) -> Launcher:
        """Return the launcher of a place; the local one for governor and store, which write into the run's folder."""
        return self.local if place.role in STORED else self.launcher

    @contextlib.contextmanager
    def quiesced(self, processes: Sequence[Process]) -> Iterator[bool]:
        """Stop processes for a short time, each by its launcher; yield True if all are stopped."""
        groups: dict[Launcher, list[Launched]] = {}
        for process in processes:
            if process.launched is not None:
                groups.setdefault(process.launcher, []).append(process.launched)
        with contextlib.ExitStack() as stack:
            quiet = [stack.enter_context(launcher.quiesced(group)) for launcher, group in groups.items()]
            yield all(quiet)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine in a task that is not awaited."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- ending a run -------------------------------------------------------------------------------------------------
    def interrupt(self, run: Run, now: bool = False, reason: str = "operator") -> None:
        """Request the end of a run: after the episode; with `now` or the second request at once; the third kills."""
        run.interrupts = max(run.interrupts + 1, 2 if now else 1)
        run.reason = reason
        if run.interrupts >= 3:
            run.kill = True
            run.interrupted(f"{reason}, killed")
            for member in run.members.values():
                member.end(Event.KILL)
        elif run.over.is_set():
            for member in run.members.values() if run.interrupts == 2 else []:
                member.end()
        elif not run.begun:
            run.interrupted(reason)
        else:
            self.spawn(self.ask_stop(run))

    async def ask_stop(self, run: Run) -> None:
        """Write a checkpoint, then have the governor end a run: after the episodes, or at once."""
        await run.checkpointer.stop()
        await self.note(run, must=False)
        now = run.interrupts >= 2 or run.compared
        if run.cut:
            return  # a second interrupt overtook the first one
        run.cut = now
        if now:
            loop = asyncio.get_running_loop()
            loop.call_later(_STOP_NOW_S, run.interrupted, f"{run.reason}, the governor was too slow")
        ask, governor = self.bus.ask, run.governor.name
        try:
            await ask(governor, "governor.stop", messages.RunRequest(run.id, now, run.reason), LEAVE_ASK_S)
            if now and not await within(run.over, _STOP_NOW_S / 2):
                reason = f"{run.reason}; {await self._silent(run)} did not answer"
                await ask(governor, "governor.stop", messages.RunRequest(run.id, True, reason), LEAVE_ASK_S)
        except GanglionError as error:
            run.interrupted(f"{run.reason}; the governor did not take it: {error}")

    async def _silent(self, run: Run) -> str:
        """Return the labels of the members that others wait for and that wait for no one themselves."""
        peers = (await self.bus.ask(KERNEL, "kernel.peers", messages.Nothing(), LEAVE_ASK_S)).peers
        waits = {row["name"]: row["waiting_for"] for row in peers if row["run"] == run.id}
        awaited = {name for names in waits.values() for name in names}
        found = [m.label for name, m in run.members.items() if name in awaited and not waits.get(name)]
        return ", ".join(found) or "a process"

    async def _stop(self, run: Run) -> None:
        """Stop all processes of a run, stage by stage, within one common time limit."""
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        slot_s = LEAVE_ASK_S / len(_STAGES)
        for number, roles in enumerate(_STAGES):
            stage = [m for m in run.members.values() if m.place.role in roles]
            left_s = max(slot_s, begun_s + LEAVE_ASK_S - loop.time())
            for member in stage:
                if run.kill:
                    member.end(Event.KILL)
                else:
                    member.leave(patience_s=left_s)
            await wait_gone(stage, begun_s + slot_s * (number + 1) - loop.time())
        processes = [*run.former, *run.members.values()]
        await wait_gone(processes, LEAVE_ASK_S + LEAVE_TERMINATE_S + 2 * LEAVE_KILL_S)
        await self.withdraw(list(run.members))
        self.bus.forget(run.id)

    async def withdraw(self, names: list[str]) -> None:
        """Have the broker remove names or topics of a run that is over; a lost broker is ignored."""
        with contextlib.suppress(GanglionError):
            await self.bus.ask(KERNEL, "kernel.withdraw", messages.Withdraw(names), LEAVE_KILL_S)

    # -- events -------------------------------------------------------------------------------------------------------
    def peer_joined(self, joined: messages.Joined) -> None:
        """Record that a member has joined."""
        member, run = self._member(joined.peer)
        if member is None or run is None:
            return
        known = member.here.is_set()  # it has joined again, the same broker or a new one
        member.came()
        run.arrival.set()
        run.arrival.clear()
        if not known:
            self.tell(run, event.PEER_JOINED, {"name": member.name, "label": member.label})
        self.restarter.joined(run, member)

    def peer_lost(self, lost: messages.Lost) -> None:
        """Record that the connection of a member has ended."""
        member, run = self._member(lost.peer)
        if member is None or run is None or lost.incarnation != member.incarnation:
            return
        member.cut_off(lost)
        if not run.over.is_set() and not member.place.attached:
            asyncio.get_running_loop().call_later(LEAVE_KILL_S, self.end_cut_off, run, member)
        if member.place.attached and not run.over.is_set() and not member.gone.is_set():
            self.restarter.left(run, member)

    def end_cut_off(self, run: Run, member: Member) -> None:
        """Kill a process that lost its connection and still runs: it hangs, or does not handle the loss."""
        if not run.over.is_set() and member.child.state is State.RUNNING and not member.joined:
            member.kill_hung(f"its connection was lost: {member.lost_reason}")

    def told(self, peer: str, news: messages.RunEvent) -> None:
        """Publish an event of a run's participant; the supervisor's own events are published already."""
        run = self.runs.get(peer.partition("/")[0])
        if run is None:
            return  # the supervisor's own event
        if news.event == event.STEPS_TAKEN:
            self.placer.told(run, peer, news)
        shown = run.heard(peer, news, time.monotonic())
        if shown is not None and shown.event == event.PHASE_STARTED:
            run.begun = True  # the event may arrive before the governor's reply
        if shown is not None and shown.event not in _OURS:
            self._show(run, shown)
            if peer != run.governor.name:  # observers subscribe to the governor and the supervisor only
                self.bus.tell(topic(run.id, event.TOPIC), shown)

    def _show(self, run: Run, news: messages.RunEvent) -> None:
        """Show an event that observers see."""
        if news.event == event.PHASE_STARTED:
            run.pace = Pace.of(news.fields, time.monotonic())
        elif run.pace is not None:
            run.pace.take(news.event, news.fields, time.monotonic())
        self._report(run.id, news)

    def bus_closed(self, reason: str) -> bool:
        """Make sure that a broker whose connection is lost ends; return True if another one is started."""
        return self._hub is not None and self._hub.bus_closed()

    def _member(self, name: str) -> tuple[Member | None, Run | None]:
        run = self.runs.get(name.partition("/")[0])
        return (run.members.get(name), run) if run is not None else (None, None)

    def tell(self, run: Run, name: str, fields: dict[str, Any]) -> None:
        """Publish an event of a run, to the owner of this supervisor and to observers."""
        news = messages.RunEvent(name, {"run": run.id, **fields}, time.time())
        self._show(run, news)
        if name not in run.told:
            self.bus.tell(topic(run.id, event.TOPIC), news)

    def tell_wait(self, run: Run, member: Member, length_s: float) -> None:
        """Report that a run waits for a member."""
        uid, due_s = member.place.uid, member.due_s
        if member.place.attached:
            text = (
                f"waiting {length_s:.0f} s for peer {uid} to attach: no process has joined under that name; start it "
                f"with GANGLION_NAME={uid} and endpoint and attach_token of {self.connection_file}"
            )
        else:
            left_s, what = (DEADLINES_S["join"] or 0.0) - length_s, "join"
            if due_s is not None:
                left_s, what = due_s - asyncio.get_running_loop().time(), "come back"
            wait, state = f"waiting {length_s:.1f} s for {member.label} to {what}", member.child.state.value
            text = f"{wait}: {state}; gives up in {max(0.0, left_s):.1f} s"
        self.tell(run, event.WAITING, {"name": member.name, "waited_s": round(length_s, 1), "text": text})

    # -- calls of governors -------------------------------------------------------------------------------------------
    async def _need(self, caller: str, need: messages.Need) -> messages.Done:
        run = self._run_of(caller, need.run)
        if not 0 <= need.phase < len(run.plan.phases):
            raise LaunchError(f"expected a phase 0 to {len(run.plan.phases) - 1}, found {need.phase}")
        async with run.changing:
            run.phase = need.phase
            await self.ensure(run, run.places(need.phase))
        return messages.Done()

    async def _ended(self, caller: str, ended: messages.Ended) -> messages.Done:
        run = self._run_of(caller, ended.run)
        run.finish(ended)
        await self.note(run, must=False)  # after the reply, no governor with this journal repeats the call
        return messages.Done()

    def _run_of(self, caller: str, name: str) -> Run:
        run = self.runs.get(name)
        if run is None or run.governor.name != caller:
            raise PeerLost(caller, f"the governor has no run {name!r}")
        return run

    # -- for the watchdog ---------------------------------------------------------------------------------------------
    @property
    def broker(self) -> Process | None:
        """Return the broker's process."""
        return None if self._hub is None else self._hub.process

    def disturbed_since(self, moment_s: float) -> bool:
        """Return True if there was a time without a broker since `moment_s` in the loop's time."""
        return self._hub is None or not self._hub.there_since(moment_s)
