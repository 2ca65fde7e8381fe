"""One episode of one worker: act, merge, update, gather, settle, boundary, record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

from ganglion.errors import AuthorError, GanglionError
from ganglion.peer.agent.decision import heard, setpoints_of
from ganglion.peer.results.records import Records, pack
from ganglion.peer.step.layout import Field, Layout
from ganglion.peer.worker.boundary import Boundaries, Ending, WorkerRounds
from ganglion.peer.worker.recovery import Command, Replayer
from ganglion.peer.worker.world import Actor, Decision, Phase, Turn, Values, World, fields_of
from ganglion.sdk.controller import Controller, EpisodeEnded, StepResult
from ganglion.sdk.flow import Signal
from ganglion.wire.conversation import Pending
from ganglion.wire.journal import digest
from ganglion.wire.messages import Act, Acted, EnvironmentUpdate, Verdict
from ganglion.wire.messages import EpisodeEnded as EpisodeReport

_ROWS_OPEN_MAX = 200
_ROWS_OPEN_BYTES = 256 * 1024  # a quarter of the limit of a body: rows may hold images
_ROW_BYTES = 64  # numbers and flags of a row besides the values
_VALUES = {"steps": (4, 5, 6), "actions": (3, 4, 5, 6)}  # positions of fields of values in a row
_ROW, _EARNED = attrgetter("row"), attrgetter("earned")
_TERMINATED, _TRUNCATED = attrgetter("terminated"), attrgetter("truncated")


class _Rows:
    """Rows of one table, of one environment or agent, that are not sent yet.

    `head` is the begin of each record; `size` is the bytes of one row's values.
    """

    __slots__ = ("_head", "_records", "_rows", "_size_bytes", "size")

    def __init__(self, records: Records, head: list[Any], *layouts: Layout) -> None:
        self._records, self._head = records, head
        self._rows: list[list[Any]] = []
        self._size_bytes = 0
        self.size = _ROW_BYTES + sum(size for layout in layouts for size in layout.sizes)

    def add(self, row: list[Any], beside: bytes | None) -> None:
        """Add one row, with `beside` as its last value; send the rows when the limit of count or bytes is reached."""
        row.append(beside)
        self._rows.append(row)
        self._size_bytes += self.size if beside is None else self.size + len(beside)
        if len(self._rows) >= _ROWS_OPEN_MAX or self._size_bytes >= _ROWS_OPEN_BYTES:
            self.hand_on()

    def hand_on(self) -> None:
        """Send all rows so far."""
        rows = self._rows
        if not rows:
            return
        for row in rows:
            for place in _VALUES[self._head[0]]:
                field = row[place]
                if field is not None and (not field or type(field[0]) is bytes):
                    row[place] = b"".join(field)
        self._records.add([*self._head, rows, True], len(rows), self._size_bytes)
        self._rows, self._size_bytes = [], 0


class Episode(WorkerRounds):
    """Run one episode; the controller plugin steers it by `act` and `update`."""

    def __init__(self, phase: Phase, number: int, verdict: Verdict) -> None:
        super().__init__(phase, verdict)
        self.number = self._whose = number
        self._boundaries = Boundaries(phase)
        self._recorded = 0
        records, place = phase.records, [phase.setup.phase, phase.setup.mode, phase.setup.worker]
        self._rows = {
            world.uid: _Rows(records, ["steps", *place, world.uid, number], *world.checks.layouts.values())
            for world in phase.worlds
        }
        self._action_rows = {
            a.name: _Rows(records, ["actions", *place, a.name, number], a.sensors.layout, a.actuators, a.actuators)
            for a in phase.actors
        }
        self._turn = Turn(phase.controller, list(phase.by_name), phase.hooks)
        self._lost = False
        self._acting = True  # in a round whose step is not recorded yet
        self._place = (phase.setup.phase, phase.setup.worker, number, 0)
        phase.hooks.step = 0
        for actor in phase.actors:
            actor.decision, actor.decisions, actor.given = None, 0, []
        phase.look()
        for world in phase.worlds:
            shown = world.readings
            field: Any = b"".join(shown) if not shown or type(shown[0]) is bytes else shown
            entry = [number, 0, phase.tick, world.ticks, world.timestamp, None, field]
            records.add(["resets", *place, world.uid, [entry]], 1, self._rows[world.uid].size)

    async def run(self) -> None:
        """Run the controller until the episode has ended."""
        controller = self.phase.controller
        controller.bus = self
        self._show(controller)
        hooks = self.phase.hooks
        try:
            await controller.simulate()
        except EpisodeEnded:
            pass
        except AuthorError as error:
            if not hasattr(error, "__notes__"):  # the error of a condition has a note already
                hooks.blame("simulate", error)
            raise
        except GanglionError:  # errors of a peer that the controller called
            raise
        except Exception as error:
            raise hooks.blame("simulate", error) from error
        if not self._closed:
            text = "the controller's simulate() returned before its episode had ended"
            raise hooks.blame("simulate", AuthorError(text))

    # -- what a controller may do -------------------------------------------------------------------------------------
    async def act(self, agents: Sequence[str]) -> Mapping[str, Sequence[Any]]:
        """Ask these agents for their setpoints; return them by agent, in declared order."""
        phase, participant = self.phase, self.phase.participant
        if self._closed:
            raise EpisodeEnded("the episode has ended")
        self._turn.call(agents)
        passing = {} if self.participants is None else self._let_pass()
        worlds = phase.worlds
        ticks, position = worlds[0].ticks, (*self._place, self.step, 0)
        actors, waiting = list(map(phase.by_name.__getitem__, agents)), phase.topics.waiting
        asked = []
        for actor in actors:
            rewards = actor.owed(worlds)
            workers = self._alone if self.participants is None else self._workers(actor.name)
            if self._alone[0] not in workers:
                text = f"agent {actor.name} is asked in step {self.step + 1}, but turn({self.step}) did not say so"
                raise AuthorError(f"{text} when it was asked for the first time")
            reward_ids = None if actor.told_rewards else self._reward_ids(actor, rewards)
            readings, rewards = (actor.row, rewards) if actor.blocks else actor.tell(rewards)
            told = waiting.pop(actor.peer, None) if waiting else None
            message = Act(
                readings, rewards, round=self.round, workers=workers, ticks=ticks, reward_ids=reward_ids, topics=told
            )
            if actor.decision is not None and actor.decision.forced is not None:
                message = replace(message, forced=_told(actor))
            asked.append(participant.ask(actor.peer, "muscle.act", message, actor.act_s, position))
        answers = participant.gather([*asked, *passing.values()])
        if phase.programs:
            answers = heard([*actors, *map(phase.by_name.__getitem__, passing)], answers)
        if passing:
            self._wish_all(passing, answers[len(asked) :])
        setpoints: dict[str, Field] = {}
        for actor, answer in zip(actors, answers, strict=False):
            if answer.signal is not None or answer.excused or answer.topics is not None:
                self._wish(actor.name, actor.peer, answer)
            if actor.decision is not None and actor.decision.rewards is not None:
                self._completed(actor, answer, False, False)
            given = answer.setpoints
            if given is None or not actor.actuators.fits(given):
                given = setpoints_of(actor, answer)
            setpoints[actor.name] = given
            actor.decision = Decision(
                index=actor.decisions,
                tick=phase.tick,
                readings=actor.row,
                setpoints=given,
                proposed=answer.proposed,
                statistics=answer.statistics,
            )
            actor.decisions += 1
        return Values(setpoints, phase.actuator_layouts)

    async def update(self, setpoints: Mapping[str, Sequence[Any]], agents: Sequence[str]) -> StepResult:
        """Apply setpoints, gather, settle, and wait at the boundary; EpisodeEnded if the episode ends there."""
        phase, participant = self.phase, self.phase.participant
        if self._closed:
            raise EpisodeEnded("the episode has ended")
        self._turn.check([*agents, *(setpoints.rows if isinstance(setpoints, Values) else setpoints)])
        named = list(map(phase.by_name.__getitem__, agents))
        fields = fields_of(setpoints, phase.actuator_layouts)
        acted = tuple(filter(fields.__contains__, phase.by_name))
        given = list(map(fields.__getitem__, acted))
        if self.participants is not None:
            passing = self._let_pass(complete=True)
            if passing:
                self._wish_all(passing, self._hear(passing, passing.values()))
        self._turn.end()
        self.step += 1
        phase.hooks.step = self.step
        worlds, waiting, position = phase.worlds, phase.topics.waiting, (*self._place, self.step, 0)
        stepped: list[World] = []
        updates: list[EnvironmentUpdate] = []
        asked: list[Pending] = []
        replayer = None if not phase.setup.mends else Replayer(phase, stepped, updates)
        applied: list[Field] = []
        for world, merged in zip(worlds, phase.known.get(acted) or phase.given(acted), strict=True):
            if world.terminated or world.truncated:
                world.rest()
                continue
            indices, cut = merged
            whole = cut.whole
            field = cut(given) if whole is None else given[whole]
            blocks = world.blocks and (indices is None or world.noops is None)  # the usual case
            message = EnvironmentUpdate(field, indices) if blocks else merged.message(field, world)
            if waiting:
                message = replace(message, topics=waiting.pop(world.peer, None))
            stepped.append(world)
            applied.append(field if indices is None else merged.recorded(field, len(world.actuators)))
            updates.append(message)
            again = None if replayer is None else replayer.between(world, len(asked))
            asked.append(again or participant.ask(world.peer, "environment.update", message, world.update_s, position))
        declared = False
        forced = False
        for i, (world, answer) in enumerate(zip(stepped, participant.gather(asked, replayer), strict=True)):
            declared |= world.updated(answer, self.step)
            if answer.applied is not None:
                applied[i], forced = answer.applied, True
            if answer.excused:
                self._note_tolerated(answer.excused)
            if answer.topics is not None:
                phase.topics.take(world.peer, "environment.update", answer.topics)
        if replayer is not None:
            for world, pending, message in zip(stepped, asked, updates, strict=True):
                if world.history is not None:
                    world.history.steps.append(Command(message, digest(pending.answer)))
        if declared:
            phase.connect_rewards()
        phase.look()
        if forced:
            self._force(named, {world.uid: field for world, field in zip(stepped, applied, strict=True)})
        earned = list(map(_EARNED, worlds))
        for actor in named:
            actor.earn(earned)
        self._record_step(stepped, applied)
        if phase.settle:
            self._settle(named)
        now_s = asked[-1].since_s if asked else participant.clock()
        if now_s >= phase.tell_s:
            phase.tell_steps({"episode": self.number, "steps": self.step}, now_s)
        self._boundary()
        controller = phase.controller
        rows = dict(zip(phase.by_name, map(_ROW, phase.actors), strict=True))
        controller.readings = Values(rows, phase.sensor_layouts)
        controller.rewards = Values(dict(zip(agents, map(_EARNED, named), strict=True)), phase.reward_layouts)
        controller.step = self.step
        return StepResult(
            step=self.step,
            readings=controller.readings,
            rewards=controller.rewards,
            terminated=dict(zip(self._rows, map(_TERMINATED, worlds), strict=True)),
            truncated=dict(zip(self._rows, map(_TRUNCATED, worlds), strict=True)),
        )

    def signal(self, signal: Signal, reason: str = "") -> None:
        """Request a signal in the controller's name, at the next boundary."""
        self._wishes.append({"signal": Signal(signal).name, "issuer": "controller", "reason": reason})

    def _force(self, actors: Sequence[Actor], applied: Mapping[str, Field]) -> None:
        """Replace the setpoints of these agents by those that the environments applied."""
        worlds = self.phase.worlds
        given = {
            world.uid: world.checks.layouts["actuators"].rows(applied[world.uid])[0]
            for world in worlds
            if world.uid in applied
        }
        for actor in actors:
            if actor.decision is None:
                continue
            own = actor.actuators.rows(actor.decision.setpoints)[0]
            row = [
                given[worlds[e].uid][place] if worlds[e].uid in given else value
                for (e, place), value in zip(actor.targets, own, strict=True)
            ]
            actor.decision.force(actor.actuators.checked([row], "applied"))

    # -- lines of a step ----------------------------------------------------------------------------------------------
    def _let_pass(self, complete: bool = False) -> dict[str, Any]:
        """Ask the agents that take part in this round but do not act in it to pass: name -> call.

        A brain thinks only once it has received the data of every participant of a round.
        """
        if self.participants is None or self._turn.full:
            return {}
        awaited = self._awaited()
        return self._pass({name: awaited[name] for name in self._turn.passing(awaited, complete)})

    def _pass(self, awaited: Mapping[str, list[int]]) -> dict[str, Any]:
        """Ask muscles to pass in this round: name -> call."""
        found = {}
        for name, workers in awaited.items():
            message = Act([], decide=False, round=self.round, workers=workers, passing=True)
            found[name] = self._ask_actor(self.phase.by_name[name], message, 0)
        return found

    def _awaited(self) -> dict[str, list[int]]:
        """Return the agents that take part in this round of their brains, each with the workers of the round."""
        worker = self.phase.setup.worker
        return {
            actor.name: workers
            for actor in self.phase.actors
            if actor.setup["brain"] is not None and worker in (workers := self._workers(actor.name))
        }

    def _wish_all(self, agents: Iterable[str], answers: Iterable[Acted]) -> None:
        """Record the tolerated errors, topics and signals of these agents' replies."""
        for name, answer in zip(agents, answers, strict=True):
            self._wish(name, self.phase.by_name[name].peer, answer)

    def _reward_ids(self, actor: Actor, rewards: Field | None) -> list[dict[str, Any]] | None:
        if rewards is None or actor.told_rewards:
            return None
        actor.told_rewards = True
        return actor.reward_declarations

    def _ask_actor(self, actor: Actor, message: Act, leg: int) -> Any:
        phase = self.phase
        position = (phase.setup.phase, phase.setup.worker, self.number, 0, self.step, leg)
        if actor.decision is not None and actor.decision.forced is not None:
            message = replace(message, forced=_told(actor))
        span_s = phase.span_s("muscle.act", actor.peer)
        return phase.participant.ask(actor.peer, "muscle.act", message, span_s, position)

    def _hear(self, agents: Iterable[str], asked: Iterable[Any]) -> list[Acted]:
        answers = self.phase.participant.gather(list(asked))
        return heard([self.phase.by_name[name] for name in agents], answers)

    def _completed(self, actor: Actor, answer: Acted, terminated: bool, truncated: bool) -> None:
        """Record the objective that a reply gives for the previous decision, and the decision's row."""
        decision = actor.decision
        assert decision is not None
        if not decision.settled:
            self._judge(actor, decision, answer)
        statistics = {**(decision.statistics or {}), **(answer.learned or {})}
        self._action_rows[actor.name].add(
            [
                0,
                decision.index,
                decision.tick,
                decision.readings,
                decision.setpoints,
                decision.proposed,
                decision.rewards,
                decision.objective,
                terminated,
                truncated,
            ],
            pack(statistics) if statistics else None,
        )
        actor.decision = None

    def _judge(self, actor: Actor, decision: Decision, answer: Acted) -> None:
        if answer.objective is not None:
            decision.objective = answer.objective[0]
        decision.settled = True
        if decision.objective is not None:
            actor.given.append(decision.objective)

    def _settle(self, actors: list[Actor]) -> None:
        due = [a for a in actors if a.decision is not None and a.decision.rewards is not None]
        asked = []
        for actor in due:
            assert actor.decision is not None
            rewards = actor.decision.rewards
            reward_ids = self._reward_ids(actor, rewards)
            message = Act(*actor.tell(rewards), decide=False, reward_ids=reward_ids)
            asked.append(self._ask_actor(actor, message, 1))
        for actor, answer in zip(due, self._hear([a.name for a in due], asked), strict=True):
            assert actor.decision is not None
            self._note_tolerated(answer.excused)
            if not actor.decision.settled:
                self._judge(actor, actor.decision, answer)

    def _record_step(self, stepped: Sequence[World], applied: Sequence[Field]) -> None:
        for world, setpoints in zip(stepped, applied, strict=True):
            self._rows[world.uid].add(
                [
                    self.step,
                    self.phase.tick,
                    world.ticks,
                    world.timestamp,
                    world.readings,
                    setpoints,
                    world.earned,
                    world.terminated,
                    world.truncated,
                ],
                None if world.state is None else pack(world.state),
            )
        self.phase.tick += 1
        self._recorded, self._acting = self.step, False

    # -- the boundary and the end -------------------------------------------------------------------------------------
    def _boundary(self) -> None:
        wishes, self._wishes = self._wishes, []
        ending, go = self._boundaries.decide(self, wishes)
        if go is not None:
            self.round, self.participants = max(go.round, self.round), go.participants
        if ending is not None:
            self._ending = ending
            self._close(ending)
            raise EpisodeEnded(ending.reason)
        self._acting = True

    def _close(self, ending: Ending) -> None:
        """Send every agent that has decided the end of the episode, and record the last rows."""
        phase = self.phase
        due = [a for a in phase.actors if a.decisions > 0]
        asked = []
        for actor in due:
            rewards = actor.owed(phase.worlds)
            message = Act(
                *actor.tell(rewards),
                decide=False,
                terminated=ending.terminated,
                truncated=ending.truncated,
                closing=True,
                round=self.round,
                workers=[phase.setup.worker],
                ticks=phase.worlds[0].ticks,
                reason=ending.reason,
                reward_ids=self._reward_ids(actor, rewards),
            )
            asked.append(self._ask_actor(actor, message, 2))
        for actor, answer in zip(due, self._hear([a.name for a in due], asked), strict=True):
            self._wish(actor.name, actor.peer, answer)
            if actor.decision is not None and actor.decision.rewards is not None:
                self._completed(actor, answer, ending.terminated, ending.truncated)
        self._wishes = [{**wish, "late": True} for wish in self._wishes]
        self._seal(ending.terminated, ending.truncated, ending.reason)

    def cut(self, reason: str) -> None:
        """Record complete rows, and the episode as cut short, for a worker that cannot continue."""
        if not self._closed:
            self._seal(False, True, reason)
        self.phase.records.drain()

    def lose(self, reason: str) -> None:
        """Record complete rows, and the episode as lost: a peer that took part is lost."""
        self._ending, self._lost = Ending(False, True, reason, []), True
        if self.phase.common and self._acting:
            self.phase.tick += 1  # the other workers make this step
        if not self._closed:
            self._seal(False, True, reason)

    def let_pass(self) -> None:
        """Make all muscles pass in the round in which this episode was lost: brains think without their rows."""
        passing = self._pass(self._awaited())
        self._wish_all(passing, self._hear(passing, passing.values()))

    def _seal(self, terminated: bool, truncated: bool, reason: str) -> None:
        phase, setup = self.phase, self.phase.setup
        self._closed = True
        phase.topics.flush()
        self._flush()
        if self._recorded or self._lost:
            record = ["episode", setup.phase, setup.mode, setup.worker, None, self.number, self._recorded]
            phase.records.add([*record, terminated, truncated, reason, *phase.moment])
        phase.records.flush()

    def report(self) -> Verdict:
        """Report the end of the episode to the governor; return its verdict."""
        phase, ending = self.phase, self._ending
        assert ending is not None
        agents = {a.name: {"decisions": a.decisions, **a.summary} for a in phase.actors if a.decisions}
        report = EpisodeReport(
            worker=phase.setup.worker,
            episode=self.number,
            steps=self._recorded if self._lost else self.step,
            terminated=ending.terminated,
            truncated=ending.truncated,
            reason=ending.reason,
            agents=agents,
            causes=[*ending.causes, *self._wishes],
            ended=[world.uid for world in phase.worlds if world.ended],
            next=self.next_agents(0),
            ticks=phase.worlds[0].ticks,
            round=phase.tick,
            evaluation=phase.setup.evaluation,
            lost=self._lost,
        )
        return self._tell_governor(report)

    def next_agents(self, step: int) -> list[str]:
        """Return the agents that act in the step after `step`."""
        return self._turn.announced(step)

    def hand_on(self) -> None:
        """Send all rows so far, so that the store shows a paused episode."""
        self._flush()
        self.phase.records.flush()

    def _flush(self) -> None:
        for rows in (*self._rows.values(), *self._action_rows.values()):
            rows.hand_on()

    def _show(self, controller: Controller) -> None:
        controller.episode, controller.step = self.number, 0
        rows = {a.name: a.row for a in self.phase.actors}
        controller.readings = Values(rows, self.phase.sensor_layouts)
        controller.rewards = {}


def _told(actor: Actor) -> Field:
    """Return the setpoints that replaced those of the open decision, in the form that the muscle takes."""
    assert actor.decision is not None
    assert actor.decision.forced is not None
    return actor.decision.forced if actor.blocks else actor.actuators.rows(actor.decision.forced)
