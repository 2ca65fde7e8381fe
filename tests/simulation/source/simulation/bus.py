"""The whole bus in one thread: the real broker, hosts and plugins, under a virtual clock and a seeded schedule."""

from __future__ import annotations

import hashlib
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from ganglion import registry
from ganglion.broker.core import Broker
from ganglion.broker.link import Admission, Note
from ganglion.document import load_document
from ganglion.errors import PeerLost
from ganglion.limits import BEAT_AFTER_SILENCE_S
from ganglion.peer.main import host_of, live
from ganglion.peer.participant import Participant
from ganglion.run.plan import Plan
from ganglion.run.plan import Process as Place
from ganglion.supervisor.resume import forget_later_phases, newest_phase_checkpoint
from ganglion.transport.exchange import Exchange
from ganglion.transport.memory import MemoryBus, never_later
from ganglion.wire.envelope import Head, encode_head
from ganglion.wire.name import Role, safe
from ganglion.wire.verb import Verb
from simulation.counting import counting
from simulation.disk import Disk
from simulation.keeper import Keeper
from simulation.link import Delay, Wire
from simulation.oracle import check_host, check_names
from simulation.outcome import Outcome, read_tables, story_of
from simulation.process import Process
from simulation.relay import Node
from simulation.schedule import Schedule, Stuck
from simulation.shortcuts import shortcuts
from simulation.snare import Snare, snared
from simulation.storage import JournalStorage, SimulatedJournal

_TICK_S = BEAT_AFTER_SILENCE_S / 2  # how often the broker looks at its clocks
_SUPERVISOR_TOKEN = "s" * 43
_SUPERVISOR_SHA256 = hashlib.sha256(_SUPERVISOR_TOKEN.encode()).digest()
_EVENTS_MAX = 300_000
_VIRTUAL_S_MAX = 300.0

Act = Callable[["Simulation"], None]
"""Something that somebody does to the run from outside: a signal, a kill."""


@dataclass(frozen=True, slots=True)
class Disturbance:
    """Disturb a run: `acts` are (number of the event before which it is done, what), `delay` slows messages."""

    acts: Sequence[tuple[int, Act]] = ()
    delay: Delay | None = None


@dataclass
class _Later:
    """Do something at a time."""

    do: Callable[[], None]
    queued: bool = False
    wake_s: float = field(default=float("inf"))

    def __hash__(self) -> int:
        return id(self)

    def act(self) -> None:
        self.do()


@dataclass
class _Ticker:
    """Let the broker look at its clocks."""

    bus: MemoryBus
    schedule: Schedule
    nodes: Callable[[], Sequence[Node]]
    down: bool = False  # there is no broker
    nap_s: float = 0.0  # for how long it will be stopped, when it has asked somebody whether he is there
    asleep_s: float = 0.0  # until when it is stopped
    queued: bool = False
    wake_s: float = field(default=float("inf"))

    def __hash__(self) -> int:
        return id(self)

    def act(self) -> None:
        self.bus.now_s = self.schedule.now_s
        if self.asleep_s > self.schedule.now_s:
            self.schedule.sleep(self, self.asleep_s)
            return
        for node in self.nodes():
            node.tick()
        if not self.down:
            self.bus.exchange.tick()
            if self.nap_s and any(link.asked_s is not None for link in self.bus.exchange.broker.links.values()):
                self.asleep_s, self.nap_s = self.schedule.now_s + self.nap_s, 0.0
        self.schedule.sleep(self, max(self.asleep_s, self.schedule.now_s + _TICK_S))


class Simulation:
    """Carry out one plan.

    Args:
        plan: What to carry out.
        seed: Of the schedule; the same seed gives the same order of all that happens.
        folder: Where results go: the store `ganglion.db`, which many runs share, and models.
        disturbance: What happens to the run from outside.
        stored: Whether results are written; without them a run is faster.
        nodes: How many nodes there are, each with a relay: a worker lives on one of them, a brain on the first.
    """

    def __init__(
        self,
        plan: Plan,
        seed: int,
        folder: Path,
        disturbance: Disturbance | None = None,
        stored: bool = True,
        tables: Callable[[str, str], Any] = read_tables,
        nodes: int = 0,
    ) -> None:
        self.plan, self.folder = plan, folder
        self.disturbance = disturbance or Disturbance()
        self.schedule = Schedule(seed, _EVENTS_MAX, _VIRTUAL_S_MAX)
        self.bus = MemoryBus(_SUPERVISOR_TOKEN)
        self.bus.exchange.clock = self.schedule.clock
        self.processes: list[Process] = []
        self.killed: list[str] = []
        self.counts: Counter[str] = Counter()
        self.mines: dict[str, list[int]] = {}  # name -> when its next bearers are killed
        self.slow_s: dict[str, float] = {}  # name -> how long its messages are on their way, at most
        self.disk = Disk()
        self.peek: Callable[[str, str], Any] | None = None  # gives rows that are never to change
        self.seen: set[tuple[Any, ...]] = set()  # rows that somebody could read in the midst of the run
        self.snares: list[Snare] = []  # what strikes at the next message of its kind
        self.innocent = True  # whether nothing has befallen anybody that would make him slow
        self.fine = False  # whether rows travel one by one
        self.tight = False  # whether bounds are so near that small runs meet them
        self.check_every = 0  # events between two looks at the books of all cores; 0: only at the end
        self.run = _free_name(folder, plan.uid)
        self.uri = f"sqlite:///{folder / 'ganglion.db'}" if stored else None
        self.keeper = Keeper(self, self.run, plan, self.uri)
        self._tables = tables
        self._acts = sorted(self.disturbance.acts, key=lambda act: act[0])
        self._ticker = _Ticker(self.bus, self.schedule, lambda: self.nodes)
        self.nodes = [self._node(number) for number in range(nodes)]
        self._admit_relays()
        self._journals: dict[str, bytearray] = {}
        self._supervisor: Process | None = None
        self._crashed: Process | None = None
        self._brokers = 0  # that took the place of another
        self._notes: list[tuple[int, Note]] = []  # of relays, too
        # Phase, journals, and which rows somebody could have read by then: what came later may come otherwise.
        self._checkpoint: tuple[int, dict[str, bytes], set[tuple[Any, ...]]] | None = None
        self.journals: list[tuple[JournalStorage, SimulatedJournal, Role]] = []

    def carry_out(self) -> Outcome:
        """Run to the end; Stuck says who waits for what when there is none."""
        begun_s = time.perf_counter()
        (self.folder / self.run).mkdir(exist_ok=True)
        self._supervisor = self._process("supervisor", self._supervise)
        self.schedule.sleep(self._ticker, _TICK_S)
        try:
            with shortcuts(self.tight, self.fine), counting(self.counts):
                self.schedule.run(self._over)
        except Stuck as stuck:
            stuck.add_note("\n".join(self._waits()))
            raise
        finally:
            alive = [p.name for p in self.processes if p.lives and not p.zombie]
            for process in self.processes:
                process.kill()
        self.bus.exchange.broker.check()
        took_s = time.perf_counter() - begun_s
        assert self.keeper.ended is not None
        self._count_the_end()
        return Outcome(
            self.run,
            self.schedule.seed,
            self.keeper.ended,
            {} if self.uri is None else self._tables(self.uri, self.run),
            self.keeper.events,
            self.keeper.answers,
            self.keeper.defects + [f"{name} lives on" for name in alive],
            sum(wire.delivered for process in self.processes for wire in process.wires),
            self.schedule.events,
            self.schedule.now_s,
            took_s,
            story_of(self.keeper.events),
        )

    # -- for the keeper -----------------------------------------------------------------------------------------------
    def start(self, place: Place, incarnation: int, token: str) -> Process:
        number = place.worker if place.role is not Role.BRAIN else 0
        node = number % len(self.nodes) if self.nodes and number is not None else None
        variables = {
            "GANGLION_NAME": place.name,
            "GANGLION_TOKEN": token,
            "GANGLION_ROLE": place.role.value,
            "GANGLION_INCARNATION": str(incarnation),
            "GANGLION_RUN": self.run,
            "GANGLION_RESULTS": str(self.folder),
            "GANGLION_FOLDER": self.plan.folder,
            "GANGLION_ALLOW": ",".join(self.plan.allow),
        }
        if place.role in (Role.STORE, Role.GOVERNOR) and self.uri is not None:
            variables["GANGLION_STORE"] = self.uri
        if place.role is Role.STORE:
            variables |= self.keeper.withdrawal
        data = self._journal_of(place.name)

        def program(process: Process) -> int:
            storage = JournalStorage(process, data)
            journal = SimulatedJournal(storage, process) if self.keeper.recovers else None
            if journal is not None:
                self.journals.append((storage, journal, place.role))
            host = process.host = self._host(place.role, variables, process)
            connect = partial(self._connect, process, None if node is None else self.nodes[node])
            return live(host, connect, variables, self.schedule.clock, False, journal, process.sleep)

        return self._process(place.name, program, incarnation)

    def _host(self, role: Role, variables: dict[str, str], process: Process) -> Any:
        host = host_of(role, variables)
        if role is Role.STORE:
            self.disk.spin(host._writer, process)
        return host

    def bid_leave(self, participant: Participant, name: str) -> None:
        participant._send([name.encode(), encode_head(Head(Verb.BYE, 1)), b""])

    def wake_supervisor(self) -> None:
        """Let the supervisor look at what it was told to do."""
        if self._supervisor is not None:
            self.schedule.ready(self._supervisor)

    def journal_bytes(self, name: str) -> int:
        """Return how long the journal of a name is."""
        return len(self._journals.get(name, b""))

    def forget_journal(self, name: str) -> None:
        """Let the next process of a name begin afresh: the one before has left in order."""
        self._journals.pop(name, None)

    def forget_journals(self) -> None:
        """Let all begin afresh."""
        self._journals.clear()

    def count(self, what: str) -> None:
        """Count that something has happened."""
        self.counts[what] += 1

    # -- for disturbances ---------------------------------------------------------------------------------------------
    @property
    def victims(self) -> list[Process]:
        """Return the participants that live."""
        return [p for p in self.processes if p.lives and not p.zombie and p.name != "supervisor"]

    def kill(self, name: str) -> bool:
        """Kill the living process of this name; False if there is none."""
        found = [process for process in self.processes if process.name == name and process.lives]
        for process in found:
            process.kill()
        self.killed += [process.name for process in found]
        return bool(found)

    def later(self, span_s: float, do: Callable[[], None]) -> None:
        """Do something after some seconds."""
        self.schedule.sleep(_Later(do), self.schedule.now_s + span_s)

    def crash_broker(self, span_s: float) -> None:
        """Kill the broker; the supervisor starts a new one, which knows what it is told before it listens."""
        if self._ticker.down or "supervisor" not in self.bus.exchange.broker.joined:
            return
        self._end_broker()
        self.later(span_s, self._start_broker)

    def stop_broker(self, span_s: float) -> None:
        """Stop the broker for some seconds: it hears, sends and sees nothing until then."""
        self._ticker.nap_s = span_s

    def _end_broker(self) -> None:
        self._ticker.down = True
        self._ticker.asleep_s = self._ticker.nap_s = 0.0
        for member in self.keeper.members.values():
            member.process.excused |= member.asked  # while there is no broker nobody hears that it is to leave
        for process in self.processes:
            for wire in process.wires:
                if not isinstance(wire.bus, Node):
                    wire.orphan()
        for node in self.nodes:
            node.lose_broker()

    @property
    def brokerless(self) -> bool:
        """Say whether there is no broker."""
        return self._ticker.down

    def lose_relay(self, number: int) -> None:
        """Lose the relay of a node, and with it all its processes; another one takes its place."""
        node = self.nodes[number]
        node.end()
        self.nodes[number] = self._node(number)
        self.count("relay lost")
        for process in self.victims:
            if any(wire.bus is node for wire in process.wires):
                self.kill(process.name)

    def _node(self, number: int) -> Node:
        return Node(self, number, lambda note: self._notes.append((0, note)))

    def _admit_relays(self) -> None:
        for node in self.nodes:
            digest = hashlib.sha256(node.key.encode()).digest()
            admission = Admission(f"relay/{node.number}", Role.RELAY, "", digest, curve_key=node.key)
            self.bus.exchange.broker.admit(admission)

    def keep_checkpoint(self) -> None:
        """Keep the journals as they are now, as a checkpoint does."""
        if self.keeper.begun:
            self._look_at_rows()
            journals = {name: bytes(data) for name, data in self._journals.items()}
            self._checkpoint = (self.keeper.phase, journals, set(self.seen))

    def lose_all(self, kept: str) -> None:
        """Kill everybody at once, the supervisor too; then the run goes on.

        `kept` is what is there: the `journals`, those of the last `checkpoint`, or that of the begin of the `phase`.
        """
        if not self.keeper.begun or self.keeper.ended is not None or self._ticker.down:
            return
        for process in self.processes:
            process.kill()
        self._end_broker()
        begin: Mapping[str, Any] | None = None
        phase, withdrawal = self.keeper.phase, dict[str, str]()
        if kept == "checkpoint" and self._checkpoint is not None:
            phase, journals, self.seen = self._checkpoint[0], self._checkpoint[1], set(self._checkpoint[2])
            self._journals = {name: bytearray(data) for name, data in journals.items()}
            withdrawal |= {"GANGLION_WITHDRAW": str(phase), "GANGLION_WITHDRAW_BEHIND": str(phase)}
            forget_later_phases(self.folder / self.run, phase)
        elif kept == "phase":
            self.forget_journals()
            begin, _ = newest_phase_checkpoint(self.folder / self.run, self.run)
            # Its signals stay in the store, unlike there: they are to come out alike as well.
            phase = int(begin["phase"])
        else:
            kept = "journals"
        self.count(f"resume with {kept}")
        self.keeper = Keeper(self, self.run, self.plan, self.uri, self.keeper, begin)
        self.keeper.phase, self.keeper.withdrawal = phase, withdrawal
        self._start_broker()
        self._supervisor = self._process("supervisor", self._supervise)

    def _start_broker(self) -> None:
        now_s = self.schedule.now_s
        broker = Broker(_SUPERVISOR_SHA256, "memory", 0, now_s)
        bus = self.bus
        self._brokers += 1
        number = self._brokers
        note = lambda one: self._notes.append((number, one))  # noqa: E731 - of this broker
        bus.exchange = Exchange(broker, note, self.schedule.clock, never_later)
        first, _ = broker.connect(now_s)
        for admit in self.keeper.table.values():
            broker._admit(first, admit, now_s)
        broker.disconnect(first, "it has told", now_s)
        self._admit_relays()
        self._ticker.down = False

    @property
    def notes(self) -> list[tuple[int, Note]]:
        """Return what all brokers had to say, each with the number of the broker."""
        return [*((0, note) for note in self.bus.notes), *self._notes]

    @property
    def accused(self) -> set[str]:
        """Return who was called silent by a broker although nothing had befallen it."""
        silent = {
            str(note.fields["name"])
            for _, note in self.notes
            if note.event == "peer.lost" and str(note.fields.get("reason")).startswith("silent")
        }
        return silent - {process.name for process in self.processes if process.mute or process.zombie}

    # -- inside -------------------------------------------------------------------------------------------------------
    def _journal_of(self, name: str) -> bytearray:
        """Return the journal of a name; beside a zombie, which still writes on it, a copy."""
        data = self._journals.get(name, bytearray())
        if any(process.name == name and process.lives for process in self.processes):
            data = bytearray(data)
        self._journals[name] = data
        return data

    def _process(self, name: str, program: Callable[[Process], int], incarnation: int = 1) -> Process:
        process = Process(name, self.schedule, lambda: program(process), incarnation, self._ended)
        if self.mines.get(name):
            process.mine = self.mines[name].pop(0)
        self.processes.append(process)
        self.schedule.ready(process)
        return process

    def _ended(self, process: Process) -> None:
        """Let the supervisor notice that a process has ended, as the system tells it."""
        if process.crash is not None:
            self._crashed = process
        if self._supervisor is not None and self._supervisor.waiting:
            self.wake_supervisor()

    def _connect(self, process: Process, node: Node | None = None) -> Wire:
        if self._ticker.down if node is None else node.lost:
            raise PeerLost("broker", "nobody listens")
        delay = self.disturbance.delay or self._delay
        wire = Wire(node or self.bus, self.schedule, process, delay, lambda: self._ticker.asleep_s, self._delivered)
        process.wires.append(wire)
        return wire

    def _delivered(self, source: Process, frames: Sequence[bytes]) -> None:
        if self.snares:
            snared(self, source, frames)

    def _delay(self, random: Random, name: str) -> float:
        slow_s = self.slow_s.get(name)
        return 0.0 if slow_s is None else random.uniform(0.0, slow_s)

    def _supervise(self, process: Process) -> int:
        keeper = self.keeper
        journal = SimulatedJournal(JournalStorage(process, bytearray()), process)
        participant = Participant(
            partial(self._connect, process),
            keeper.handlers(),
            keeper.told,
            keeper.gone,
            self.schedule.clock,
            False,
            journal,
            process.sleep,
        )
        return keeper.live(participant, _SUPERVISOR_TOKEN)

    def _over(self) -> bool:
        """Do what is due from outside; say whether the run is over."""
        self.bus.now_s = self.schedule.now_s
        while self._acts and self._acts[0][0] <= self.schedule.events:
            self._look_at_rows()
            self._acts.pop(0)[1](self)
        if self.check_every and self.schedule.events % self.check_every == 0:
            self._check()
        if self._crashed is not None:
            process, self._crashed = self._crashed, None
            assert process.crash is not None
            process.crash.add_note(f"in {process.name}, schedule seed {self.schedule.seed}")
            raise process.crash
        return self._supervisor is not None and not self._supervisor.lives

    def _look_at_rows(self) -> None:
        """Take note of what somebody could read now."""
        if self.uri is not None and self.peek is not None:
            self.seen.update(self.peek(self.uri, self.run))

    def _check(self) -> None:
        """Let all cores look at their books."""
        if not self._ticker.down:
            for bus in (self.bus, *self.nodes):
                bus.exchange.broker.check()
            check_names(self)
        for process in self.processes:
            if process.lives and process.participant is not None:
                process.participant._conversation.check()
                check_host(process.host)

    def _count_the_end(self) -> None:
        """Count what is seen of processes when all is over."""
        for storage, journal, role in self.journals:
            self.counts["torn"] += storage.torn
            if journal.played:
                self.counts[f"replay of a {role.value}"] += 1
                self.counts["killed while it hears its journal"] += journal.playing
        for process in self.processes:
            self.counts["reconnect"] += len(process.wires) > 1
        for broker, note in self.notes:
            if note.event == "peer.refused" and note.fields.get("kind") == "incarnation":
                self.counts["zombie refused"] += 1
                self.counts["zombie refused by a new broker"] += broker > 0
        self.counts["new broker"] += self._brokers
        self.counts["transaction disturbed"] += self.disk.hits

    def _waits(self) -> list[str]:
        broker = self.bus.exchange.broker
        lines = [f"schedule seed {self.schedule.seed}"]
        for name, link in broker.joined.items():
            lines += [f"{name} waits for {to.decode()}" for to, route in link.routes.items() if route.open]
        return [*lines, *story_of(self.keeper.events[-12:])]


_numbers = itertools.count(1)


def _free_name(folder: Path, uid: str) -> str:
    """Return a name for a run that no other has in this process."""
    return f"{safe(uid)[:30]}-{next(_numbers)}"


def read(text: str) -> Plan:
    """Return the plan of a run document, checked as `ganglion run` checks it."""
    plan, _ = load_document("document.yml", plugins=registry, text=text)
    faults = registry.deep_check(plan.to_map())
    assert not faults, faults
    return plan


def simulate(
    document: str, seed: int, folder: Path, disturbance: Disturbance | None = None, stored: bool = True
) -> Outcome:
    """Carry out a run document on the bus in memory; see `Simulation`."""
    return Simulation(read(document), seed, folder, disturbance, stored).carry_out()


def kill_one(victim: str, simulation: Simulation) -> None:
    """Kill any process but the supervisor whose name has the word in it, by the schedule's own dice."""
    names = sorted(process.name for process in simulation.processes[1:] if process.lives and victim in process.name)
    if names:
        simulation.kill(simulation.schedule.random.choice(names))


def orders(given: Iterable[tuple[float, str, int | None]], length: int, later: int = 500) -> list[tuple[int, Act]]:
    """Return what sends these signals in a run of so many events.

    Args:
        given: When (as a share of the run), which signal, for which worker.
        length: Of the undisturbed run.
        later: Events that a PAUSE lasts, at least: a CONTINUE ends each, and one more comes behind all.
    """
    acts: list[tuple[int, Act]] = []
    for share, signal, worker in given:
        at = int(share * length)
        acts.append((at, partial(_send, signal, worker)))
        if signal == "PAUSE":
            acts.append((at + later, partial(_send, "CONTINUE", None)))
    acts.append((length + 10 * later, partial(_send, "CONTINUE", None)))
    return acts


def _send(signal: str, worker: int | None, simulation: Simulation) -> None:
    simulation.keeper.signal(signal, worker)
