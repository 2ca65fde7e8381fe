"""Runs: the state of one run, its participants and its end; the start of a participant."""

from __future__ import annotations

import asyncio
import json
import math
import os
import secrets
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgpack

from ganglion import registry
from ganglion.errors import LaunchError, UsageError
from ganglion.limits import ATTACH_WAIT_REPORT_S, LOG_LINE_BYTES, PLAN_BYTES, WAIT_REPORT_S, processes_per_run
from ganglion.run.agents import replaying
from ganglion.run.plan import Loss, Plan, loss_of, ours, processes_of, recovers, span_s, unrepeatable, widest
from ganglion.run.plan import Process as Place
from ganglion.sdk.launcher import CREDENTIALS, Launcher, LaunchSpec
from ganglion.supervisor import event
from ganglion.supervisor.connection import write_private
from ganglion.supervisor.folder import ProcessTable, RunFolder, boot_id, incarnation_of, log_name, read_manifest
from ganglion.supervisor.launch.process import Process
from ganglion.supervisor.launch.system import PRIVATE, SINGLE_THREAD, User, users_of
from ganglion.supervisor.life import REFUSED, Child, Event, Restarts, State, end_text
from ganglion.supervisor.output import printable
from ganglion.supervisor.pace import Pace
from ganglion.transport.curve import ClientKeys, KeyPair
from ganglion.wire.messages import PROTOCOL_VERSION, Ended, Failure, Incident, Lost, RunEvent
from ganglion.wire.name import Role, peer_name

if TYPE_CHECKING:
    from ganglion.supervisor.resume import Checkpointer, RecoveryPlan
    from ganglion.supervisor.supervisor import Supervisor

_DUMP_S = 0.2  # time to print the stacks


@dataclass(eq=False, slots=True)
class Member:
    """Perform the actions that the life cycle of one participant requires.

    `ask` asks the member to leave. `ended` is called once when its process has ended or could not be started. A member
    started from outside (`place.attached`) starts no process; it lives as long as its connection. `log` is the file of
    the process's output.
    """

    place: Place
    run: str
    incarnation: int
    ask: Callable[[Member], None]
    ended: Callable[[Member], None]
    log: Path | None = None
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    joined: bool = False
    here: asyncio.Event = field(default_factory=asyncio.Event)  # set once the member has joined
    lost_reason: str = ""  # why the connection ended, as the broker reported
    off: asyncio.Event = field(default_factory=asyncio.Event)  # set when the broker has reported that end
    idle: bool = False  # no answer of the member was awaited at that time
    asked: bool = False  # to leave
    dismissed: bool = False  # the end of the member is wanted
    returns: bool = False  # after a loss a successor is started, and callers wait for it
    journal: Path | None = None
    far: bool = False  # the journal lies on the node of the process, unreadable to the supervisor
    hears: bool = False  # the process must resume from that journal, as the successor of another
    keys: KeyPair | None = None  # of a member on another machine
    lost_s: float | None = None  # when the predecessor was lost; None after the member has joined
    lost_way: str = ""  # how the predecessor was lost
    due_s: float | None = None  # when a successor must have joined
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    since_s: float = field(default_factory=lambda: asyncio.get_running_loop().time())
    report_s: float | None = None  # when the wait for the member is reported next
    child: Child = field(init=False)
    process: Process = field(init=False)
    name: str = field(init=False)  # on the wire
    label: str = field(init=False)  # for a person

    def __post_init__(self) -> None:
        self.name, self.label, self.child = self.place.name, self.place.label, Child(self.place.name)
        self.process = Process(self.label, self.log, self._exited)

    @property
    def stays(self) -> bool:
        """Return True if the member can serve another phase: not gone, not leaving, and connection not lost."""
        if self.gone.is_set() or (self.lost_reason and not self.returns):
            return False
        return self.place.attached or self.child.state in (State.PLANNED, State.STARTING, State.RUNNING)

    # -- connection --------------------------------------------------------------------------------------------------
    def came(self) -> None:
        """Record that the member has joined."""
        self.joined, self.lost_reason = True, ""
        self.off.clear()
        self.here.set()

    def cut_off(self, lost: Lost) -> None:
        """Record the end of the member's connection, as reported by the broker."""
        self.joined, self.lost_reason, self.idle = False, lost.reason, lost.idle
        self.off.set()

    # -- life cycle ---------------------------------------------------------------------------------------------------
    def leave(self, patience_s: float | None = None) -> None:
        """Ask a joined member to leave, else end the process by signal; deadlines escalate to SIGTERM and SIGKILL."""
        self.dismissed = True
        if self.place.attached:
            if self.joined:
                self.ask(self)
            self.gone.set()
            return
        if self.process.launched is not None:
            self.process.launched.look()  # detect an end that precedes the request to leave
        if self.child.gone:
            return
        if self.joined or self.child.state is not State.RUNNING:
            self.receive(Event.LEAVE, patience_s=patience_s)
        else:
            self.receive(Event.END)

    def end(self, event: Event = Event.END) -> None:
        """Send SIGTERM at once, or SIGKILL with the event KILL."""
        self.dismissed = True
        if not self.place.attached:
            self.receive(event)

    def kill_hung(self, why: str) -> None:
        """Have a hung process print the stacks of its threads (SIGABRT), then kill it, recording the reason `why`."""
        self.process.kill(why, signal.SIGABRT)
        asyncio.get_running_loop().call_later(_DUMP_S, self.process.kill, why)

    def receive(self, event: Event, code: int | None = None, patience_s: float | None = None, why: str = "") -> None:
        """Take in an event of the process, or a request, and perform the resulting action."""
        self._enter(self.child.receive(event, asyncio.get_running_loop().time(), code, patience_s, why))

    def _exited(self, process: Process) -> None:
        self.receive(Event.EXITED, code=process.code, why=process.why)

    def _enter(self, state: State | None) -> None:
        if state is State.LEAVING:
            self.asked = True
            self.ask(self)
        elif state is State.GONE:
            self.gone.set()
            self.ended(self)
        elif state in (State.TERMINATED, State.KILLED):
            self.process.signal(signal.SIGTERM if state is State.TERMINATED else signal.SIGKILL)
        if self.child.deadline_s is not None:
            loop = asyncio.get_running_loop()
            loop.call_at(self.child.deadline_s + 0.001, lambda: self._enter(self.child.tick(loop.time())))

    # -- texts --------------------------------------------------------------------------------------------------------
    @property
    def last_words(self) -> list[str]:
        """Return the last lines that the process printed."""
        return list(self.process.output.lines)

    @property
    def end_text(self) -> str:
        """Return how the member ended: `was killed by SIGKILL`, `ended with exit status 3`."""
        if self.place.attached or (not self.child.gone and self.lost_reason):
            return f"is gone: {self.lost_reason}"
        if not self.child.started and self.child.code is None:
            return f"could not be started: {self.child.why}"
        return end_text(self.child.code, self.child.why)


def definition(place: Place) -> tuple[object, ...]:
    """Return the properties in which two places must be equal for one process to serve both."""
    program = place.program
    if program is None:
        return (place.run_as,)  # each phase sets up the class anew
    command, variables = tuple(program.command or ()), tuple(program.variables.items())
    return (place.run_as, place.attached, command, program.cwd, program.speaks, variables)


async def wait_gone(members: Sequence[Member], span_s: float) -> None:
    """Wait until all members are gone, for at most `span_s` seconds."""
    waits = [asyncio.ensure_future(member.gone.wait()) for member in members if not member.gone.is_set()]
    if waits:
        _, late = await asyncio.wait(waits, timeout=max(0.0, span_s))
        for wait in late:
            wait.cancel()


STORED = (Role.STORE, Role.GOVERNOR)  # the governor looks up models of other runs in the store


async def start(supervisor: Supervisor, run: Run, member: Member) -> None:
    """Start the process of a member; on failure the member holds the reason."""
    if run.over.is_set():
        return  # the run ended while this member was being admitted
    member.receive(Event.START)
    begun_s = time.monotonic()
    try:
        await member.process.start(supervisor.launcher_of(member.place), spec_of(supervisor, run, member))
    except (LaunchError, OSError) as error:
        member.receive(Event.FAILED, why=str(error))
        return
    if member.due_s is not None:
        member.due_s += time.monotonic() - begun_s
    member.receive(Event.STARTED)


def spec_of(supervisor: Supervisor, run: Run, member: Member) -> LaunchSpec:
    """Return the launch specification of a member; its files are created, and owned by its user."""
    place, program = member.place, member.place.program
    user = run.folder.give(place)
    variables = variables_of(supervisor, run, member)
    more: dict[str, Any] = {"role": place.role.value, "worker": place.worker, "user": place.run_as, "mask": run.mask}
    if member.keys is not None:
        more["near"] = {"GANGLION_ENDPOINT": _endpoint_here(supervisor, member), "GANGLION_SERVER_KEY": ""}
    if program is None:
        return LaunchSpec(log_name(place), variables, node=_on_node(supervisor, run, member), **more)
    argv = argv_of(supervisor, run, member, variables, user)
    cwd = str(Path(run.plan.folder or ".", program.cwd or ""))
    return LaunchSpec(member.label, {**variables, **program.variables}, argv, cwd=cwd, **more)


def _on_node(supervisor: Supervisor, run: Run, member: Member) -> dict[str, str]:
    """Return the files of a process in its node's folder, by variable name; empty if it shares the run's folder."""
    if supervisor.launcher_of(member.place).shares_files:
        return {}
    journal = {"GANGLION_JOURNAL": f"{run.id}/journals/{log_name(member.place)}.journal"} if member.far else {}
    return {"GANGLION_NODE": run.id, **journal}


def _endpoint_here(supervisor: Supervisor, member: Member) -> str:
    """Return the endpoint on this machine; a process that cannot open the socket file gets the TCP endpoint."""
    place = member.place
    outside = place.program is not None or place.run_as is not None or not supervisor.launcher_of(place).shares_files
    return supervisor.connection.tcp or supervisor.connection.endpoint if outside else supervisor.connection.endpoint


def variables_of(supervisor: Supervisor, run: Run, member: Member) -> dict[str, str]:
    """Return the environment variables of a process; a foreign program gets only those of the connection."""
    foreign = member.place.program is not None
    endpoint, keys = _endpoint_here(supervisor, member), dict[str, str]()
    if member.keys is not None and supervisor.remote is not None:
        endpoint, server = supervisor.remote.endpoint, supervisor.remote.curve["server_key"]
        keys = ClientKeys(server, member.keys.public, member.keys.secret).variables()
    variables = {
        **keys,
        "GANGLION_ENDPOINT": endpoint,
        "GANGLION_NAME": member.name,
        "GANGLION_TOKEN": member.token,
        "GANGLION_ROLE": member.place.role.value,
        "GANGLION_INCARNATION": str(member.incarnation),
        "GANGLION_RUN": run.id,
    }
    if foreign:
        return variables
    if member.place.role in STORED:  # no other process needs the location of the rows and models of all runs
        started = str(read_manifest(run.folder.path)[0].get("started", ""))
        results = str(supervisor.settings.results.resolve())
        variables |= {"GANGLION_RESULTS": results, "GANGLION_STARTED": started}
        known = {**os.environ, "GANGLION_STORE": run.store or "", "GANGLION_KERNEL": ""}
        variables |= {name: known[name] for name in CREDENTIALS if known.get(name)}
    if member.journal is not None:
        variables["GANGLION_JOURNAL"] = str(member.journal)
    if run.rewound and run.journaled:  # some object has state beyond its attributes, and is not saved by them
        variables["GANGLION_GONE_BACK"] = "1"
    if member.place.role is Role.STORE:
        variables |= run.withdrawal
        variables |= {} if run.kept is None else {"GANGLION_KEEP": str(run.kept)}
        span = span_s("record", widest(phase.deadlines_s for phase in run.plan.phases))
        variables["GANGLION_RECORD_S"] = "" if span is None else str(span)
    near = supervisor.launcher_of(member.place).shares_files
    if member.hears:
        variables["GANGLION_HEARS"] = "1"
    if member.keys is not None or not near:
        variables |= SINGLE_THREAD  # as in the warm parent
    return variables | {
        "GANGLION_FOLDER": run.plan.folder,
        "GANGLION_ALLOW": ",".join([*run.plan.allow, *supervisor.settings.allow]),
        "GANGLION_LOG": str((run.folder.logs / f"{log_name(member.place)}.jsonl").resolve()) if near else "-",
    }


def argv_of(
    supervisor: Supervisor, run: Run, member: Member, variables: Mapping[str, str], user: User | None
) -> list[str]:
    """Return a program's arguments; `{connection}` is replaced by the path of a file made for this program."""
    program = member.place.program
    argv = (program.command if program is not None else None) or []
    if program is not None and program.speaks == "lines":
        argv = [sys.executable, "-P", "-m", "ganglion.peer.lines", *argv]
    if not any("{connection}" in argument for argument in argv):
        return list(argv)
    words = {key.removeprefix("GANGLION_").lower(): value for key, value in variables.items()}
    name = f"{log_name(member.place)}.json"
    # A private file that is visible on the program's machine.
    folder = run.folder.logs if supervisor.launcher.address or supervisor.folder is None else supervisor.folder
    path = folder / name if user is None else (run.folder.own(user) / name).resolve()
    write_private(path, json.dumps({"version": PROTOCOL_VERSION, **words}, indent=2).encode())
    if user is not None:
        user.own(path)
    return [argument.replace("{connection}", str(path)) for argument in argv]


def _said(word: object) -> str:
    """Return a peer's text in printable form."""
    return printable("" if word is None else str(word))[:_HEARD_CHARACTERS]


FINISHED, FAILED, INTERRUPTED = "finished", "failed", "interrupted"
# Failures that recur after a resume; the message of a damaged store says what to do first.
_FAILS_AGAIN = frozenset({"author", "document", "plugin", "run_exists", "space", "store_damaged"})
_REPORT_MAX_S = 60.0  # a wait is reported after 2, 4, 8, 16, 32, 60, 120, 180 s ...
_LOSSES_LISTED = 20
_TOLD_MAX = 8  # consequential losses named in the report
_HEARD_SPAN_S = 0.5  # a participant reports its steps once a second, and a wait at growing intervals
_HEARD_CHARACTERS = 300
_TABLE_FIELDS = 32  # that a table may report
_REPORT_LINES_MAX = 200  # the message of a failure may be as long as a body
_SIGNALS_KEPT = 20  # signals of operators, reported as lost when a phase begins again


@dataclass(frozen=True, slots=True)
class Outcome:
    """Hold how a run ended; `report` explains a failure, line by line."""

    run: str
    status: str
    reason: str
    exit_status: int
    report: list[str] = field(default_factory=list)
    took_s: float = 0.0
    resumable: bool = True  # False: the same document and plugins would fail again in the same way


class Run:
    """Hold the state of one run."""

    def __init__(self, plan: Plan, folder: RunFolder, store: str | None) -> None:
        self.id = folder.run
        self.plan = plan
        self.folder = folder
        self.store = store
        self.governor = Place(peer_name(self.id, Role.GOVERNOR), Role.GOVERNOR)
        self.store_place = None if store is None else Place(peer_name(self.id, Role.STORE), Role.STORE)
        self.members: dict[str, Member] = {}
        self.former: list[Member] = []  # members with a successor
        self.broker_losses: list[tuple[str, list[str]]] = []  # losses that ended the run: how, last output
        self.lost: list[Member] = []  # members without a successor
        self.ended: Ended | None = None
        self.over = asyncio.Event()
        self.arrival = asyncio.Event()  # pulsed when a member has joined
        self.begun = False  # whether the governor has been started
        self.interrupts = 0
        self.cut = False  # whether the governor was asked to end at once
        self.reason = ""  # of the interruption
        self.kill = False
        self.queued = False  # waiting for its turn; no process is started
        self.status = "running"
        self.paused: set[int] = set()  # workers
        self.outcome: Outcome | None = None
        self.started_s = time.monotonic()
        self.defects: list[str] = []
        self.told: set[str] = set()  # events that the governor publishes itself
        self._heard_s: dict[tuple[str, str], float] = {}  # last time of each event of each participant
        self.tables: dict[str, dict[str, int | float | str | None]] = {}  # state that each table reported
        self.excused: dict[str, int] = {}  # participant -> tolerated errors of authors
        self.phase = 0
        self.pace: Pace | None = None  # of the present phase, once it has begun
        self.restarts = Restarts()
        self.recent_losses: deque[str] = deque(maxlen=_LOSSES_LISTED)  # as text, for a report
        self.incidents: deque[Incident] = deque()  # not reported to the governor yet
        self.incarnations: dict[str, int] = {}  # name -> newest incarnation
        self.journaled = recovers(plan)
        self.noting = asyncio.Lock()
        self.changing = asyncio.Lock()  # held while the members change
        self.recovery: RecoveryPlan | None = None  # how it resumes, if it was begun before
        self.beginning: asyncio.Future[None] | None = None
        self.rewound = False
        self.withdrawal: dict[str, str] = {}  # variables that tell the store which rows to withdraw
        self.signals: list[tuple[int, str]] = []  # of operators: phase, signal
        self.unheard = ""  # text that names the signals lost when a phase began again
        self.again: int | None = None  # the phase that has begun again while its sealed rows are kept
        self.kept = unrepeatable(plan)  # the first phase whose repeated episodes are not compared
        self.checkpointer: Checkpointer  # set when the run is carried out

    @property
    def state(self) -> str:
        """Return the state: `queued`, `starting`, then the status."""
        if self.begun or self.outcome is not None:
            return self.status
        return "queued" if self.queued else "starting"

    def places(self, phase: int) -> list[Place]:
        """Return the processes that a phase needs besides governor and store."""
        return processes_of(self.id, self.plan.phases[phase])

    @property
    def mask(self) -> int | None:
        """Return the umask for new files of this run, None where all processes run as the supervisor's user."""
        return PRIVATE if users_of(self.plan) else None

    def keeps(self, phase: int) -> bool:
        """Return True if sealed episodes of a phase are kept and not compared with repeated ones."""
        return self.kept is not None and phase >= self.kept

    @property
    def compared(self) -> bool:
        """Return True if repeated episodes are compared with sealed ones; they must end as before."""
        return self.again is not None and self.again == self.phase

    def signalled(self, phase: int, signal: str) -> None:
        """Record an operator's signal, as long as the phase that received it may begin again."""
        known = [one for one in self.signals if one[0] >= self.phase - 1]
        self.signals = [*known, (phase, signal)][-_SIGNALS_KEPT:]

    def needed(self) -> list[Place]:
        """Return all processes that the present phase needs: the governor, the store, then the others."""
        return [self.governor, *([self.store_place] if self.store_place else []), *self.places(self.phase)]

    def member(self, place: Place, ask: Callable[[Member], None], ended: Callable[[Member], None]) -> Member:
        """Return a new member for a place, with the next incarnation of its name."""
        number = self.incarnations[place.name] = self.incarnations.get(place.name, 0) + 1
        log, loss = self.folder.logs / f"{log_name(place)}.out", loss_of(self.plan.phases[self.phase], place)
        member = Member(place, self.id, number, ask, ended, log)
        member.returns = loss is Loss.RETURNS
        if self.journaled and ours(place):
            member.journal = self.folder.journal(place).resolve()
            if place.run_as is None:
                member.journal.parent.mkdir(mode=0o700, exist_ok=True)
            if loss is Loss.EPISODE:
                member.journal.unlink(missing_ok=True)  # a successor does not repeat its predecessor
        return member

    def process_table(self) -> ProcessTable:
        """Return the process table, with all incarnations that were assigned, and how the run has ended."""
        pids = {name: m.process.pid for name, m in self.members.items() if not m.process.host}
        found = {name: incarnation_of(number, pids.get(name)) for name, number in self.incarnations.items()}
        begun = self.begun or (self.recovery is not None and self.recovery.begin is None and not self.rewound)
        stopped = self.recovery is not None and self.recovery.stopped and not self.begun  # interrupted before
        stopping = stopped or self.interrupts > 0
        us, signals = incarnation_of(0, os.getpid()), [[*one] for one in self.signals]
        ended = None if self.ended is None else replace(self.ended, failure=None)  # the failure may not fit into JSON
        return ProcessTable(boot_id(), us, self.phase, begun, stopping, found, signals, ended)

    def finish(self, ended: Ended) -> None:
        """Record the end of the run; only the first call counts."""
        if self.ended is None:
            self.ended = ended
        self.over.set()

    def fail(self, reason: str, failure: Failure | None = None, peer: str | None = None) -> None:
        """End the run as failed, without the governor."""
        self.finish(Ended(self.id, FAILED, f"failed: {reason}", 1, failure, peer))

    def interrupted(self, reason: str) -> None:
        """End the run as interrupted, without the governor."""
        self.finish(Ended(self.id, INTERRUPTED, f"interrupted: {reason}", 130))

    # -- events -------------------------------------------------------------------------------------------------------
    def heard(self, peer: str, news: RunEvent, now_s: float) -> RunEvent | None:
        """Return the shown part of an event: all of the governor; of others waits, warnings, steps, limited in rate."""
        if peer == self.governor.name:
            self.told.add(news.event)
            if news.event in (event.PHASE_STARTED, event.PHASE_PAUSED, event.PHASE_RESUMED):
                workers = news.fields.get("workers") if news.event == event.PHASE_PAUSED else None
                self.paused = {w for w in workers if type(w) is int} if isinstance(workers, list) else set()
                self.status = "paused" if self.paused and not news.fields.get("moving") else "running"
            return news
        member, given = self.members.get(peer), news.fields
        if news.event == event.EXCUSED:
            count = given.get("count")
            self.excused[peer] = max(self.excused.get(peer, 0), count if isinstance(count, int) else 0)
            return None
        if news.event == event.TABLE_STATE:
            plain = {k: v for k, v in given.items() if v is None or type(v) in (int, float, str)}
            self.tables[peer] = dict(list(plain.items())[:_TABLE_FIELDS])
            return None
        if news.event not in (event.WAITING, event.WARNING, event.STEPS_TAKEN, event.EPISODE_ENDED):
            return None
        if news.event != event.EPISODE_ENDED:
            if now_s - self._heard_s.get((peer, news.event), -math.inf) < _HEARD_SPAN_S:
                return None
            self._heard_s[peer, news.event] = now_s
        if news.event in (event.WAITING, event.WARNING):
            return RunEvent(news.event, {"text": _said(given.get("text")), "name": peer}, news.time_s, news.topic)
        names = ("episode", "steps") if news.event == event.STEPS_TAKEN else ("episode", "episodes", "steps")
        ended = given.get("episodes") if news.event == event.STEPS_TAKEN and "tick" in given else None  # with bodies
        if ended is not None:
            names = ("tick", "steps")
        counts = {name: given.get(name) for name in names}
        if member is None or member.place.role is not Role.CONTROLLER or {*map(type, counts.values())} != {int}:
            return None  # not the report of a controller
        fields = {"phase": self.phase, "worker": member.place.worker, **counts}
        if news.event == event.EPISODE_ENDED:  # with bodies: the newest of a timeline, and how many it stands for
            sums = given.get("returns")
            fields["returns"] = {
                str(k): v for k, v in (sums.items() if isinstance(sums, dict) else ()) if type(v) in (int, float)
            }
            fields |= {name: _said(given.get(name)) for name in ("environment", "reason")}
        else:
            if isinstance(ended, dict):
                uids = [environment.uid for environment in self.plan.phases[self.phase].environments]
                fields["episodes"] = {uid: ended[uid] for uid in uids if type(ended.get(uid)) is int}
            if member.place.evaluation:
                fields["mode"] = "evaluate"
        return RunEvent(news.event, fields, news.time_s, news.topic)

    # -- waits --------------------------------------------------------------------------------------------------------
    def waits_due(self, now_s: float) -> list[tuple[Member, float]]:
        """Return the members whose wait is to be reported now, with its length in seconds."""
        due: list[tuple[Member, float]] = []
        states, roles = (State.PLANNED, State.STARTING, State.RUNNING), (Role.GOVERNOR, Role.STORE)
        coming = [m for m in self.members.values() if not m.here.is_set() and m.child.state in states]
        for member in coming:
            if not (member.place.attached or member.due_s is not None or member.place.role in roles):
                continue  # the governor reports this wait
            first_s = ATTACH_WAIT_REPORT_S if member.place.attached else WAIT_REPORT_S
            length_s = now_s - member.since_s
            if length_s >= first_s and (member.report_s is None or now_s >= member.report_s):
                due.append((member, length_s))
                # The instructions to attach are reported once; the governor reports how long the wait takes.
                member.report_s = math.inf if member.place.attached else now_s + min(length_s, _REPORT_MAX_S)
        return due

    # -- the report of the end ----------------------------------------------------------------------------------------
    def conclude(self) -> Outcome:
        """Return the outcome of the run, once all its processes are gone."""
        ended = self.ended or Ended(self.id, FAILED, "failed: ended without a reason", 1)
        processes = [*self.former, *self.members.values()]
        overdue = [m for m in processes if m.child.state is State.KILLED]
        self.defects += [f"{m.label} (process {m.process.pid}) cannot be ended" for m in overdue]
        if ended.status == FAILED:
            report = self._failure_report(ended)
        else:
            asked = [m for m in processes if m.asked and m.child.gone and not self.kill]
            clumsy = [m for m in asked if m.child.lost or m.child.code not in (0, None)]
            report = [f"note: {m.label}, asked to leave, {m.end_text}" for m in clumsy]
        report += ["defect: " + text for text in self.defects]
        wrong = ended.status == FAILED or bool(self.defects)
        self.status, exit_status = ended.status, ended.exit_status or int(wrong)
        reason, took_s = printable(ended.reason.replace("\n", " ")), time.monotonic() - self.started_s
        refused = any(m.child.code == REFUSED and not m.here.is_set() for m in self.lost)
        resumable = not refused and (ended.failure is None or ended.failure.kind not in _FAILS_AGAIN)
        self.outcome = Outcome(self.id, self.status, reason, exit_status, _plain(report), took_s, resumable)
        return self.outcome

    def _named(self, ended: Ended) -> Member | None:
        """Return the member that the failure names: `where` leads from caller to callee; the last is at fault."""
        where = ended.failure.where if ended.failure is not None else None
        for name in [*reversed((where or "").split(": ")), ended.peer]:
            if name in self.members:
                return self.members[name]
        return None

    def _failure_report(self, ended: Ended) -> list[str]:
        """Return the lines of a failure: the first loss or the governor's reason, the last output, further losses.

        The first loss is a member killed by a signal, else the member that the governor names.
        """
        crashed = [m for m in self.lost if m.child.why or (m.child.code or 0) < 0]
        first = next(iter(crashed), None) or self._named(ended) or next(iter(self.lost), None)
        lines = [line for how, words in self.broker_losses for line in (f"broker {how}", *_quoted(words))]
        if first is not None and not lines:
            lines = self._about(first, ended)
        elif ended.failure is not None:
            lines += _told(ended.failure)
        lines = lines or [ended.reason]
        lines += [self.unheard] if self.unheard else []
        others = [f"{m.label} {m.end_text}" for m in self.lost if m is not first]
        if others:
            more = f" and {len(others) - _TOLD_MAX} more" if len(others) > _TOLD_MAX else ""
            lines.append("then: " + "; ".join(others[:_TOLD_MAX]) + more)
        return lines

    def _about(self, member: Member, ended: Ended) -> list[str]:
        failure = ended.failure if member is self._named(ended) else None
        lines = [f"{member.label} {member.end_text}"] if member in self.lost or failure is None else []
        if failure is not None:
            sentence, *traceback = _told(failure)
            lines.append(f"{member.label}: {sentence}")
            if traceback and traceback[-1].removeprefix(_INDENT) not in member.last_words:  # else it has printed it
                lines += traceback
        elif ended.reason and (reason := ended.reason.removeprefix("failed: ")) not in ("failed", *lines):
            lines = [reason] if reason.startswith(lines[0]) else [*lines, ended.reason]
        if not member.child.started:
            return lines
        lines += [f"it ran on node {member.process.host}"] if member.process.host else []
        before = [one for one in reversed(self.former) if one.name == member.name]
        # Its last output, or that of its newest predecessor with any output, unless the sentence holds all of it.
        words = next((one.last_words for one in (member, *before) if one.last_words), [])
        told = len(words) == 1 and lines[0].endswith(words[0].removeprefix(f"{member.name}: "))
        return lines if told else lines + _quoted(words)


_INDENT = "    "


def _plain(report: Sequence[str]) -> list[str]:
    """Return a report as lines that cannot control a terminal; further lines of a peer's text are indented."""
    texts = [line for text in report for line in text.replace("\n", f"\n{_INDENT}").split("\n")]
    lines = [printable(line)[:LOG_LINE_BYTES] for line in texts[:_REPORT_LINES_MAX]]
    more = len(texts) - len(lines)
    return [*lines, f"... and {more} more lines"] if more else lines


def _told(failure: Failure) -> list[str]:
    """Return a failure as one sentence, followed by the lines of its traceback."""
    sentence = f"{failure.kind}: {failure.message}" + (f" ({failure.where})" if failure.where else "")
    return [sentence, *(_INDENT + line for line in (failure.traceback or "").splitlines())]


def _quoted(words: Sequence[str]) -> list[str]:
    if not words:
        return ["its output: none"]
    return [
        f"its last {len(words)} lines of output:" if len(words) > 1 else "its output:",
        *(_INDENT + w for w in words),
    ]


def check_launcher(plan: Plan, launcher: Launcher) -> None:
    """Raise UsageError, before any process is started, if the launcher lacks what a plan needs."""
    head = f"launcher {type(launcher).__name__}: its processes do not see the folder of the run"
    if users_of(plan) and not launcher.changes_users:
        name = type(launcher).__name__
        raise UsageError(f"launcher {name}: it starts no processes as another user: run_as cannot be kept")
    if launcher.shares_files:
        return
    if recovers(plan) and not launcher.keeps_files:
        raise UsageError(
            f"{head}, and keep no journals to recover from: expected `recovery: {{on_loss: fail}}` everywhere"
        )
    for phase in plan.phases:
        reading = [f"agent {agent.name}: it learns from recorded episodes (replay)" for agent in replaying(phase)]
        playing = [e.uid for e in phase.environments if e.plugin and registry.plays(e.plugin.name)]
        begun = [t.uid for t in phase.pools if t.plugin and t.plugin.params.get("source") is not None]
        reading += [f"environment {uid}: it plays recorded episodes" for uid in playing]
        reading += [f"table {uid}: it begins with recorded episodes" for uid in begun]
        programs = [(f"environment {e.uid}", e.program) for e in phase.environments]
        programs += [(f"agent {agent.name}", agent.program) for agent in phase.agents]
        reading += [
            f"{what}: its command has a {{connection}}; the same is in its variables GANGLION_*"
            for what, program in programs
            if program is not None and any("{connection}" in word for word in program.command or ())
        ]
        if reading:
            raise UsageError(f"{head}: phase {phase.name}: {reading[0]}, which is a file there")


def check_plan(run: str, plan: Plan) -> None:
    """Raise LaunchError if the plan or one of its phases is too large."""
    size = len(msgpack.packb(plan.to_map()))
    if size > PLAN_BYTES:
        raise LaunchError(f"expected at most {PLAN_BYTES} bytes in the plan of all phases (plan_bytes), found {size}")
    for phase in plan.phases:
        count = len(processes_of(run, phase)) + 2
        if count > processes_per_run():
            raise LaunchError(
                f"phase {phase.name!r}: expected at most {processes_per_run()} processes (processes_per_run), "
                f"found {count} with {phase.workers} workers"
            )
