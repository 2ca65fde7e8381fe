"""Messages: the table of calls, which role may ask which for what; the fields of requests and replies, by callee.

The annotations of messages are objects, not text (no `from __future__ import annotations`): the codec builds its checks
from them when a class is first used. New fields go last and have a default; receivers skip unknown fields.

Participants in Python send values of sensors, actuators and rewards as *blocks*: a list with one `bytes` for each
maximal run of neighbouring ids of equal dtype, an array [bodies, columns], little-endian, in C order. Other programs
may send *rows*: a list with one entry per body (one body is a batch of one), each entry a list in declared order, in
which a scalar is a number, and an array its little-endian bytes in C order, or a nested list of numbers. The type of
the first element tells the two apart. In rows receivers accept an int where a float is declared, and an integral float
where an int is declared.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple, dataclass_transform

from ganglion.wire.name import Role
from ganglion.wire.verb import Verb


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Message:
    """Make each subclass a message: a dataclass, frozen for type checkers.

    A message is not frozen at run time, which would take three times as long. A message has no slots, so that a missing
    field has its default from the class: a codec sets received fields only.
    """

    def __init_subclass__(cls) -> None:
        dataclass(cls)


class Call(NamedTuple):
    """One row of the table of calls."""

    name: str
    callers: tuple[Role, ...]
    callee: Role | None  # None: the kernel
    request: type[Any]
    reply: type[Any]


class Tell(NamedTuple):
    """One row of the table of one-way messages."""

    name: str
    verb: Verb
    senders: str
    receivers: str
    body: type[Any]


PROTOCOL_VERSION = 1


class Hello(Message):
    """Ask to join under a name; the first message of every peer."""

    version: int
    role: str
    name: str
    token: str = ""
    language: str = ""
    content: str = "msgpack"
    incarnation: int = 0
    features: list[str] | None = None  # "beats_in_call": answers BEAT while it works on a CALL


class Welcome(Message):
    """Tell a peer that it has joined, its name, and the rules of the connection."""

    version: int
    name: str
    incarnation: int
    beat_after_s: float
    beat_answer_s: float
    limits: dict[str, int]
    run: str = ""
    worker: int | None = None
    next: str = ""  # one sentence for the peer's user


class Failure(Message):
    """Give the reason why a CALL failed, or why a connection ends: the body of every ERROR."""

    kind: str
    message: str
    where: str | None = None
    traceback: str | None = None
    retry_after_ms: int | None = None
    data: dict[str, Any] | None = None


class Lost(Message):
    """Tell watchers of a peer, and callers that wait for its answer, that the peer is lost."""

    peer: str
    incarnation: int
    reason: str
    returns: bool = False  # a successor will come: send open calls again
    idle: bool = False  # the receiver awaits no answer of it


class Bye(Message):
    """Leave in order; answered with an empty BYE."""

    reason: str = ""


class Nothing(Message):
    """Carry nothing: a request without fields."""


class Done(Message):
    """Acknowledge a request that needs no answer."""


class Info(Message):
    """Describe the kernel."""

    version: str
    protocol: int
    pid: int
    peers: int
    uptime_s: float


class Peers(Message):
    """List all joined peers: maps with name, role, run, incarnation, language, heard_ms, waiting_for, queued_bytes.

    `sent` maps peers to the number of messages that passed to them; `stayed` is how many of these stayed on the peer's
    node, None for a peer without a relay.
    """

    peers: list[dict[str, Any]]


class Watch(Message):
    """Ask for `kernel.joined` when these peers join, at once for joined ones, and for LOST."""

    peers: list[str]


class Joined(Message):
    """Tell a watcher that a peer has joined."""

    peer: str
    incarnation: int
    role: str
    content: str = "msgpack"
    language: str = ""


class Subscribe(Message):
    """Ask for a topic of a run; messages that the reader is too slow for are counted and announced."""

    topic: str


class Admit(Message):
    """Announce a name that may join, with its token's SHA-256 and its place; only the supervisor may."""

    name: str
    role: str
    run: str
    token_sha256: bytes
    incarnation: int = 1
    uid: str | None = None  # agent or environment
    worker: int | None = None
    attach: str | None = None  # a name by which an external program asks for this place
    content: str = "msgpack"
    evaluation: bool = False  # of a worker that evaluates
    curve_key: str | None = None  # the public key that a connection from another machine must have
    returns: bool = False  # a successor will come after a loss


class Overdue(Message):
    """Tell the supervisor that a peer has not answered a call within its deadline."""

    peer: str
    call: str
    waited_s: float


class ModelAsked(Message):
    """Ask for the models of a folder, or a piece of one, from a machine that does not see the folder."""

    folder: str  # on the supervisor's machine
    name: str = ""  # of the model of the wanted piece
    offset: int = 0


class ModelPiece(Message):
    """Answer with the files of a folder, or with a piece of one."""

    files: list[list[Any]]  # lists [name, SHA-256, bytes]
    data: bytes = b""  # from the offset on


class ModelKept(Message):
    """Keep a piece of a brain's own model; the last one completes the file. A piece may come again."""

    folder: str  # as of `brain.setup` or `brain.store`
    name: str
    sha256: str
    size_bytes: int
    offset: int
    data: bytes


class Withdraw(Message):
    """Withdraw names: their peers are disconnected, none may join, and watches and subscriptions of them end."""

    names: list[str]


class Gap(Message):
    """Tell the reader of a topic how many messages it missed."""

    topic: str
    missed: int


class Near(Message):
    """Tell the kernel, from a relay, which messages of a peer stayed on the node."""

    sent: dict[str, int]  # peers there -> how many messages the peer has sent to them
    waiting_for: list[str]
    awaited_by: list[str]
    left: str = ""  # why its connection ended, if so


class Submit(Message):
    """Ask the kernel to run a document; a document from another machine names plugins only, no modules and programs."""

    document: str  # its text
    source: str = "<submitted>"
    folder: str = ""  # to which its paths are relative, for an operator on the kernel's machine
    seed: int | None = None
    name: str | None = None
    overrides: list[str] | None = None  # `path=value` settings


class Submitted(Message):
    """Give the id of the new run."""

    run: str


class RunRequest(Message):
    """Name a run: its id, a document's uid, an unambiguous beginning, or `last`; empty for all."""

    run: str = ""
    now: bool = False
    reason: str = ""


class Runs(Message):
    """List runs or processes of the kernel as maps."""

    rows: list[dict[str, Any]]


class RunSignal(Message):
    """Ask for a flow signal as the operator: signal, scope and reason."""

    run: str
    signal: str
    phase: str | None = None
    worker: int | None = None
    reason: str = ""
    steps: int | None = None  # the boundaries after which a CONTINUE becomes a PAUSE
    topics: list[list[Any]] | None = None  # [uid, topic, key, value], set at the next boundary; with CONTINUE alone


class Signalled(Message):
    """Answer an operator's signal; PAUSE, and CONTINUE for some steps, once all addressed workers are paused."""

    accepted: bool
    text: str  # the boundary at which it takes effect, a line for each paused worker, or the reason of a refusal


class Need(Message):
    """Ask the supervisor for the processes of a phase; processes that the phase does not need are ended."""

    run: str
    phase: int


class Ended(Message):
    """Tell the supervisor how a run ended."""

    run: str
    status: str  # finished, failed, interrupted
    reason: str
    exit_status: int
    failure: Failure | None = None
    peer: str | None = None  # the peer that failed
    heads: dict[str, Any] | None = None  # protect the run's rows, from the store


class GovernorStart(Message):
    """Begin a run by its plan."""

    run: str
    plan: dict[str, Any]
    store: str | None = None  # the peer of the store
    parcels: dict[str, Any] | None = None  # field -> number of the blob that holds it
    resume: dict[str, Any] | None = None  # a checkpoint {phase, models: [[phase, agent, folder], ...], ...} to begin at


class Incident(Message):
    """Tell the governor of an incident of a process, for the table of incidents; no result depends on it."""

    time: str  # of the wall clock, UTC
    name: str  # the name of the peer, without the run
    incarnation: int
    kind: str  # lost, restarted, rewound, poison, restarts
    position: str | None = None  # the last received call, and its place in the run
    detail: str | None = None
    failure: Failure | None = None  # it does not come back: the run ends with this


class EpisodeEnded(Message):
    """Report the end of an episode and ask for the verdict."""

    worker: int
    episode: int
    steps: int
    terminated: bool
    truncated: bool
    reason: str
    agents: dict[str, Any]  # agent -> {decisions, sum, mean, values?}
    causes: list[dict[str, Any]]  # maps {signal, issuer, reason}
    ended: list[str]  # environments that ended by themselves
    next: list[str]  # agents that act in the first step of the next episode
    ticks: int | None = None
    round: int = 0  # steps of this worker in this phase
    evaluation: bool = False  # by a worker that evaluates
    lost: bool = False  # given up after the loss of a participant: does not count as an episode
    closed: list[dict[str, Any]] | None = None  # with bodies, at the end of a worker's part: as Boundary.ended
    used: list[list[Any]] | None = None  # likewise: [agent, environment, the greatest number of a spawned body]


class WorkerFailed(Message):
    """Report that a worker has failed; its open episode was closed with the reason `failed`."""

    worker: int
    episode: int
    step: int
    failure: Failure
    peer: str | None = None  # the peer that failed; null: the controller itself
    evaluation: bool = False


class Rebuild(Message):
    """Report the loss of a peer, and ask for an answer when its successor has joined."""

    worker: int
    peer: str
    unreachable: bool = False  # a new broker does not know the peer, which may come back


class Rebuilt(Message):
    """Answer that a successor has joined, or that none will."""

    joined: bool


class Stands(Message):
    """Report that a worker is paused at a boundary, where there is no common boundary."""

    worker: int
    episode: int
    steps: int
    evaluation: bool = False
    heeded: int | None = None  # the last signal that the worker acted on; a later one may end the pause


class Boundary(Message):
    """Report that a worker is at the common boundary after a round, or, without one, that episodes ended.

    `ended` are the episodes of a phase with bodies that ended in this round, in canonical order: maps {environment,
    body, episode, steps, terminated, truncated, reason, agents}, where `body` is `<agent>/<b>` with `episode_end: each`
    and else null, and `agents` is as of EpisodeEnded. `telling` are agents whose brains first receive ended bodies,
    together with those of other workers: the answer names the workers, and the worker reports again.
    """

    worker: int
    round: int
    steps: int
    ending: bool  # whether its episode ends here
    next: list[str]  # the agents that act in its next step
    causes: list[dict[str, Any]]
    episode: int = 0
    ended: list[dict[str, Any]] | None = None
    telling: list[str] | None = None


class Go(Message):
    """Answer a boundary: continue (`signal` CONTINUE), or end the episode for this signal."""

    signal: str = "CONTINUE"
    issuer: str = ""
    reason: str = ""
    round: int = 0
    participants: dict[str, list[int]] | None = None  # agent -> workers whose rows its brain awaits in the next round


class Verdict(Message):
    """Answer an episode's end: RESET begins `episode` with these seeds, a greater signal ends the worker's part."""

    signal: str
    reason: str = ""
    episode: int = 0
    seeds: dict[str, Any] | None = None  # environment -> {seed: int of 53 bits, stream: 32 bytes}
    round: int = 0
    participants: dict[str, list[int]] | None = None


class _InPhase(Message):
    """Begin a participant's part in a phase."""

    run: str
    phase: int
    phase_name: str
    mode: str


class _InWorker(_InPhase):
    """Begin a participant's part in a phase, in one worker."""

    worker: int


class ControllerSetup(_InWorker):
    """Begin a phase in a worker: start its environments.

    `environments` are maps {uid, peer, content, plugin, params, reward, transformer, seed, stream, episode_seed,
    episode_stream}; `controller` and each of `conditions` are {plugin, params, name}. In a phase with bodies these have
    {period, offset, budget_steps, budget_episodes, max_steps, episode_end} too, and `bodies` are maps {agent,
    environment, b, period, offset, between, learn, scale, shift, low, high, role, team, group} in the order of agents,
    environments and b. `free` makes environments independent: a map {lead, listens} of how many ticks one may be ahead
    of the slowest unfinished one, and whether the governor receives episodes. `dynamic` are such maps of the bodies
    that environments may spawn, one for each agent and environment: `most` is how many may exist at a time, `used` the
    greatest number of a body in this run.
    """

    controller: dict[str, Any]
    conditions: list[dict[str, Any]]
    environments: list[dict[str, Any]]
    stream: bytes
    deadlines_s: dict[str, Any]
    governor: str
    store: str | None = None
    evaluation: bool = False  # whether this worker evaluates the training of others
    parcels: dict[str, Any] | None = None  # field -> number of the blob that holds it
    mends: bool = False  # whether a lost environment is started again, and its episode replayed
    bodies: list[dict[str, Any]] | None = None
    end: str | None = None  # `all`, `any`, or the uid of the environment whose spent budget ends the phase
    free: dict[str, Any] | None = None
    dynamic: list[dict[str, Any]] | None = None


class ControllerReady(Message):
    """Answer with what the environments declare: uid -> the fields of EnvironmentDeclared without readings."""

    declarations: dict[str, Any]


class ControllerStart(Message):
    """Set up the muscles and begin the first episode.

    `agents` are maps {name, peer, content, brain, muscle, objective, filters, sensors, actuators, rewards, stream,
    objective_stream, models, policy}; ids are full.
    """

    agents: list[dict[str, Any]]
    common: bool  # whether there is a common boundary after each round
    sync: str
    verdict: Verdict
    settle: bool  # whether a condition reads objectives: rewards are settled in their own step
    static_models: dict[str, Any] | None = None
    patient: bool = False  # whether a verdict may wait for an evaluation, whose steps have deadlines of their own
    parcels: dict[str, Any] | None = None  # field -> number of the blob that holds it


class ControllerEvaluate(Message):
    """Run the episodes of the next evaluation by the newest policies, beginning with the verdict's."""

    verdict: Verdict


class ControllerShutdown(Message):
    """End a worker's part of a phase: muscles first; environments and the last records in a second call."""

    muscles: bool = False
    environments: bool = False


class EnvironmentStart(_InWorker):
    """Begin a phase: make the environment and open its first episode.

    `stream` and `episode_stream` are the seeds for receivers that know numpy's bit generators (32 bytes). `bodies` are
    lists [agent, a, b, role, team, group] in the order of agents and b, the rows of all fields of values; a body's own
    reward follows. `each` means that every body has episodes of its own: a map {max_steps, budget_steps,
    budget_episodes} of integers or null. For an object made again within the phase the map has {episodes, made} too,
    lists with a number for each body: its next episode, and its steps so far; `budget_episodes` is such a list then.
    `dynamic` are the rows after those of `bodies`, free until the environment spawns a body: lists [agent, a, role,
    team, group].
    """

    uid: str
    params: dict[str, Any]
    seed: int  # the object's own, of 53 bits
    episode_seed: int  # of the first episode
    stream: bytes = b""
    episode_stream: bytes = b""
    plugin: dict[str, Any] | None = None  # null for a foreign program
    reward: dict[str, Any] | None = None
    transformer: dict[str, Any] | None = None
    parcels: dict[str, Any] | None = None  # field -> number of the blob that holds it
    bodies: list[list[Any]] | None = None
    each: dict[str, Any] | None = None
    index: int | None = None  # the place of the environment in the phase
    topics: list[list[Any]] | None = None  # messages of topics: lists [topic, key, value, sender]
    dynamic: list[list[Any]] | None = None
    used: dict[str, int] | None = None  # agent -> the greatest number of its bodies here in this run


class EnvironmentDeclared(Message):
    """Declare sensors, actuators, rewards, and give the first readings.

    Each declaration is text, `id: space`, or a map {id, space, value?, unit?, value_ids?}; an actuator's value is its
    no-op.
    """

    sensors: list[Any]
    actuators: list[Any]
    readings: list[Any]
    rewards: list[Any] | None = None  # null: declared by the first update
    ticks: int | None = 0
    timestamp: str | None = None
    static_model: dict[str, Any] | None = None
    blocks: bool = False  # whether setpoints may come as blocks
    bodies: int | None = None  # the number of bodies; a program that leaves it out has one
    topics: list[list[Any]] | None = None  # messages of topics: lists [topic, key, value, addressee or how]


class EnvironmentUpdate(Message):
    """Apply the setpoints of this step and advance by one step.

    `setpoints` are those of the given `actuators`. A program always receives all of them, with no-ops where no agent
    sets one.
    """

    setpoints: list[Any]
    actuators: list[int] | None = None  # indices into the declared order; null means all
    rows: bytes | None = None  # the bodies that take part, as row numbers of two bytes, ascending; null means all
    topics: list[list[Any]] | None = None  # as of EnvironmentStart


class EnvironmentUpdated(Message):
    """Answer with all declared readings, the rewards of this step, and the flags after it.

    With bodies, `readings` and `rewards` have those of the update, and `flags` has one byte for each (`TERMINATED`,
    `TRUNCATED`); `terminated` and `truncated` are the environment's own then. A retired body has its flag; with
    episodes of its own it is not in `first_rows`. `spawned` are lists [row, b] of bodies that take part from the next
    step on, with `spawned_readings`: the row is a free one of the agent, maybe that of a body that ended in this step,
    and b is greater than any before. `group_rewards` maps groups of bodies to a number: the reward of the group's name
    for each body of the group in this step; for a body that ended earlier in the episode it is `late` in `muscle.act`.
    `policies` has a list [policy, version] for each body if there is `applied`: the policy that chose the setpoints,
    null and -1 if unknown.
    """

    readings: list[Any]
    rewards: list[Any]
    terminated: bool = False
    truncated: bool = False
    ticks: int | None = None
    timestamp: str | None = None
    reward_ids: list[dict[str, Any]] | None = None  # declarations, in the first update if not made before
    world_state: Any = None
    state: dict[str, Any] | None = None  # of generators before a reset, from which a successor's replay begins
    excused: list[dict[str, Any]] | None = None  # as of Acted, of reward and transformer
    flags: bytes | None = None
    first_rows: bytes | None = None  # the bodies that began an episode of their own within this step
    first_readings: list[Any] | None = None
    topics: list[list[Any]] | None = None  # as of EnvironmentDeclared
    spawned: list[list[int]] | None = None
    spawned_readings: list[Any] | None = None
    wants: bytes | None = None  # of each body of the update, whether it decides next: 1, 0, or 2 (by its clock)
    group_rewards: dict[str, Any] | None = None
    applied: list[Any] | None = None  # what was applied in place of the setpoints of the update
    policies: list[list[Any]] | None = None


class EnvironmentReset(Message):
    """Begin the next episode in place."""

    episode: int
    seed: int
    stream: bytes = b""
    state: dict[str, Any] | None = None  # restored first, in the successor of a lost process
    each: dict[str, Any] | None = None  # as of EnvironmentStart; bodies with a budget left begin an episode
    topics: list[list[Any]] | None = None  # as of EnvironmentStart: all settings that hold


class MuscleSetup(_InWorker):
    """Begin a phase: make the muscle, its objective and filters; join the brain.

    `sensors`, `actuators` and `rewards` are declarations with full ids, before filters; `rewards` null: they come with
    the first `muscle.act` that brings rewards. `bodies` are lists [environment, b, learn, stream] in the order of
    environments and b: the rows of all fields of values; the declarations are those of one body. Where bodies of
    different environments have unequal ones they are several groups: `groups` is a map from environments to the numbers
    of their groups, a declaration has the number of its own as `group`, and `sensors`, `actuators` and `rewards` have
    those of each. `dynamic` are the rows behind those of `bodies`, for bodies that may be spawned.

    An agent whose bodies decide by models of several sources has a muscle for each source. A muscle that does not
    follow the current model receives no updates; it has the model in `models`, or by `muscle.swap` one of the brain
    `pool`.
    """

    agent: str
    plugin: dict[str, Any]
    objective: dict[str, Any]
    sensors: list[dict[str, Any]]
    actuators: list[dict[str, Any]]
    rewards: list[dict[str, Any]] | None
    stream: bytes
    objective_stream: bytes
    brain: str | None = None  # its name on the wire; null if none is called (test mode, no brain)
    filters: list[dict[str, Any]] | None = None  # maps {name, params, on_error, stream}
    models: str | None = None  # the directory of the model to act by in test mode
    static_models: dict[str, Any] | None = None
    deadlines_s: dict[str, Any] | None = None  # of the calls to the brain
    policy: str | None = None  # the brain whose newest update is the policy, in an evaluation
    parcels: dict[str, Any] | None = None  # field -> number of the blob that holds it
    bodies: list[list[Any]] | None = None
    episodes: list[int] | None = None  # the next ones of the bodies, where the muscle is made anew within the phase
    source: int = 0  # the number of its source of models
    follows: bool = True  # whether it follows the current model
    pool: str | None = None
    groups: dict[str, int] | None = None
    topics: list[list[Any]] | None = None  # as of EnvironmentStart
    dynamic: list[list[Any]] | None = None  # lists [environment, learn]


class MuscleReady(Message):
    """Answer that the muscle is set up."""

    blocks: bool = False  # whether readings and rewards may come as blocks
    bodies: int | None = None  # the number of bodies, rows of `dynamic` included; a program that leaves it out has one
    topics: list[list[Any]] | None = None  # as of EnvironmentDeclared


class Act(Message):
    """Give readings and the outcome of the previous decision; ask for the next decision, or only settle.

    `round` and `workers` name the workers whose rows the brain awaits before it thinks; with several sources of models
    these are muscles, numbered through all workers (worker * sources + source). `passing` marks a round in which the
    agent is awaited and does not act: nothing is completed or decided, and the brain awaits no row.

    With bodies, `rows` names the bodies of the values, as row numbers of two bytes, and `flags` has one byte for each:
    `TERMINATED` and `TRUNCATED` end its episode, `DECIDE` asks for its next decision, `FIRST` begins its episode with
    these readings; without `FIRST` the readings complete its open decision. A body that ended and began again has two
    entries, the end first. Entries are in the order of environments and b. `decide`, `terminated`, `truncated` and
    `closing` have no meaning then. With several groups the entries and blocks of one group follow those of another,
    each with the entries of its group alone; so do the answer and `brain.think`. `applied` has the setpoints applied in
    the previous step, null if they are those that were set: with periods of decisions a repeat, the no-op or zero.
    `spawned` are lists [row, b, episode] of bodies that decide for the first time: the earlier body of the row ended by
    this message or an earlier one. `late` are lists [row, b, episode, decision, reward, credit] of rewards after the
    end of bodies, sent once their episode is over or their row is reused: for the brain, beside the last decision of
    each, which does not change. `forced` has what an environment applied in place of the completed decisions, which
    count as these.
    """

    readings: list[Any]
    rewards: list[Any] | None = None  # in the order of MuscleSetup.rewards; null if already settled
    decide: bool = True
    terminated: bool = False
    truncated: bool = False
    closing: bool = False  # whether it is the last message of an episode
    round: int = 0
    workers: list[int] | None = None
    ticks: int | None = None
    reason: str = ""
    reward_ids: list[dict[str, Any]] | None = None  # declarations, with the first rewards if not made at setup
    passing: bool = False
    rows: bytes | None = None
    flags: bytes | None = None
    topics: list[list[Any]] | None = None  # as of EnvironmentStart
    applied: list[Any] | None = None
    spawned: list[list[int]] | None = None
    late: list[list[Any]] | None = None
    decided: bytes | None = None  # the ticks in which the open decisions were made, as integers of eight bytes
    forced: list[Any] | None = None


BY_CLOCK = 2
"""The byte of `wants` of a body that decides by its clock."""

TERMINATED, TRUNCATED, DECIDE, FIRST = 1, 2, 4, 8
"""The bits of the flags of a body."""


class Acted(Message):
    """Answer with the setpoints, and the objective of the completed decision.

    With bodies, `setpoints` and `proposed` have the entries that decide, `objective` those that complete a decision, in
    their order.
    """

    setpoints: list[Any] | None = None
    proposed: list[Any] | None = None  # the muscle's own setpoints, where filters changed them
    objective: list[Any] | None = None
    signal: dict[str, Any] | None = None  # of a brain: {signal, reason}
    statistics: dict[str, Any] | None = None  # of the new decision
    excused: list[dict[str, Any]] | None = None  # exceptions that the document tolerates: maps {issuer, hook, reason}
    learned: dict[str, Any] | None = None  # statistics of the brain, for the completed decision
    version: int | None = None  # with bodies: the number of the update that they decide by, if a brain sends updates
    topics: list[list[Any]] | None = None  # as of EnvironmentDeclared


class Swap(Message):
    """Change the model: to a drawn one, or to the current one, and follow that."""

    draw: bool
    learns: bool = True  # whether the brain receives the following decisions


class Swapped(Message):
    """Name the new model."""

    version: int  # the number of its update in this phase


class MuscleReset(Message):
    """Begin the next episode in place; `prepare` asks for the newest policy before it."""

    episode: int
    prepare: bool = False
    topics: list[list[Any]] | None = None  # as of EnvironmentStart: all settings that hold


class BrainSetup(_InPhase):
    """Begin a phase: make the brain and load its model; `models` is the folder to store in, `load` to load from."""

    agent: str
    plugin: dict[str, Any]
    sensors: list[dict[str, Any]]
    actuators: list[dict[str, Any]]
    rewards: list[dict[str, Any]] | None
    muscles: list[str]
    workers: int
    stream: bytes
    models: str
    sync: str = "lockstep"
    load: str | None = None
    static_models: dict[str, Any] | None = None
    parcels: dict[str, Any] | None = None  # field -> number of the blob that holds it
    checkpoint_s: float | None = None  # least time between two checkpoints; None takes none
    filters: list[dict[str, Any]] | None = None  # as of MuscleSetup
    bodies: list[list[Any]] | None = None  # as of MuscleSetup, without streams: [environment, b, learn]
    sources: list[list[int]] | None = None  # the bodies of each muscle of a worker, where these are several
    pools: list[list[int]] | None = None  # of snapshots: [number kept, learned transitions between two]
    opponents: dict[str, list[Any]] | None = None  # muscle -> [number of its pool, share of the current model, stream]
    groups: dict[str, int] | None = None  # as of MuscleSetup
    dynamic: list[list[Any]] | None = None  # as of MuscleSetup
    tables: list[dict[str, Any]] | None = None  # {uid, peer, plugin, feeds, serves, shared, span_s} of each table


class BrainPretrain(Message):
    """Learn from recorded episodes before any agent acts.

    Episodes that do not fit the brain's declarations are left out if the index says so, else refused.
    """

    folder: str
    sha256: str  # of the index in it


class BrainPretrained(Message):
    """Answer with the number of episodes that the brain learned from, each counted as often as repeated."""

    sessions: int
    decisions: int
    excused: list[dict[str, Any]] | None = None  # as of Acted


class BrainJoin(Message):
    """Join a brain as the muscle of a worker; the answer has the newest update, or the initial one."""

    worker: int
    source: int = 0
    follows: bool = True


class BrainLeave(Message):
    """Leave a brain at the end of a phase."""

    worker: int
    source: int = 0


class Think(Message):
    """Give one completed decision.

    `before` are earlier decisions of the same episode that the muscle kept, oldest first, as six lists: numbers, blocks
    of all readings, of all applied, of all rewards, objectives, data. The outcome of one are the readings of the next.

    With bodies one message has k completed decisions, in the order of environments and b: `rows` are their row numbers
    of two bytes, `flags` a byte for each (`TERMINATED`, `TRUNCATED`), `decisions` and `episodes` their numbers as
    integers of eight bytes; all fields of values have k rows, `objective` has k entries, and `data` is null or a list
    of k. `decision` and `episode` are those of the first one then. With several groups `data` is a list with that of
    each group. `late` is as of `muscle.act`, with the objective's value of each credit appended; a message may have no
    decisions beside it.
    """

    worker: int
    episode: int
    decision: int
    readings: list[Any]  # of the decision, before filters
    applied: list[Any]  # the setpoints after filters
    rewards: list[Any]
    objective: list[Any]
    next_readings: list[Any]  # the outcome
    terminated: bool = False
    truncated: bool = False
    proposed: list[Any] | None = None  # the muscle's own setpoints
    data: Any = None  # what the muscle added
    round: int = 0
    workers: list[int] | None = None
    reward_ids: list[dict[str, Any]] | None = None  # declarations, with the first row of each phase
    observations: list[Any] | None = None  # the readings after filters; null without filters
    next_observations: list[Any] | None = None
    before: list[list[Any]] | None = None
    rows: bytes | None = None
    flags: bytes | None = None
    decisions: bytes | None = None
    episodes: bytes | None = None
    source: int = 0
    follows: bool = True
    numbers: bytes | None = None  # if bodies may be spawned, the b of each, as integers of eight bytes
    late: list[list[Any]] | None = None
    ticks: bytes | None = None  # of the decisions, as `decided` of `muscle.act`


class UpdateAsked(Message):
    """Ask for the newest update, without a row: the first decision of an episode."""

    worker: int
    round: int = 0
    workers: list[int] | None = None
    source: int = 0
    follows: bool = True


class PolicyAsked(Message):
    """Ask for the newest update as a policy, in an evaluation or as an opponent; with `draw` for a drawn one."""

    draw: bool = False


class Thought(Message):
    """Answer with the newest update that this muscle lacks, and a signal of the brain."""

    update: Any = None
    fresh: bool = False  # whether `update` is one: null may be an update too
    signal: dict[str, Any] | None = None
    filters: dict[str, Any] | None = None  # the newest arrays of filters by their number; null if this muscle has them
    excused: list[dict[str, Any]] | None = None  # as of Acted
    statistics: dict[str, Any] | None = None  # of the brain, by names that begin with `brain.`
    together: int = 1  # the number of decisions in the next `brain.think`; no earlier one gives an update
    version: int | None = None  # the number of the update in its phase


class BrainEvaluate(Message):
    """Give the result of an evaluation.

    `episodes` are maps {worker, episode, steps, objective_mean, objective_sum, terminated, truncated}, by worker and
    episode.
    """

    number: int
    episodes: list[dict[str, Any]]


class BrainEvaluated(Message):
    """Answer with the brain's own metrics, finite numbers, and the model that it stored for this evaluation."""

    metrics: dict[str, Any]
    checkpoint_id: str | None = None
    checkpoint_hash: str | None = None
    excused: list[dict[str, Any]] | None = None  # as of Acted


class BrainStore(Message):
    """Store the model."""

    reason: str = "phase end"
    source: str | None = None  # of a brain that does not learn: the folder of the model to store in `models`
    models: str | None = None
    second: str | None = None  # the folder of a second copy


class BrainStored(Message):
    """List the files that were written."""

    files: list[dict[str, Any]]  # maps {tag, path, sha256, bytes, updates}
    excused: list[dict[str, Any]] | None = None  # as of Acted, of those in no answer to a muscle


class TableSetup(_InPhase):
    """Begin a phase: make a table, which is empty."""

    uid: str
    plugin: dict[str, Any]
    feed: list[str]
    serve: list[str]
    writers: list[str]  # the peers that insert
    stream: bytes
    waits: bool = False  # whether a request that cannot be answered yet waits, up to `span_s`, instead of being refused
    shared: bool = False  # whether rows written in a round are visible from the next one on
    span_s: float | None = None


class TableAsk(Message):
    """Ask a table for something."""

    agent: str
    what: str  # `insert`, or a word that its class knows
    given: dict[str, Any]
    at: list[int] | None = None  # the time in the phase, as lists that are compared; null is that of the previous call


class TableAnswer(Message):
    """Answer a request to a table."""

    found: Any = None


class FlowSignal(Message):
    """Carry flow control."""

    signal: str
    issuer: str
    reason: str = ""
    phase: int | None = None
    worker: int | None = None
    episode: int | None = None
    steps: int | None = None  # the boundaries after which a CONTINUE becomes a PAUSE
    data: dict[str, Any] | None = None
    number: int = 0  # counts the governor's signals to one controller from 1: one that comes again is ignored


class RecordBatch(Message):
    """Carry rows for the store, in order."""

    number: int  # counts the batches of one writer from 1
    records: list[Any]  # lists [kind, field, ...]; the kinds and their fields are in `kernel/PROTOCOL.md`
    parcels: dict[str, Any] | None = None  # field -> number of the blob that holds it


class RecordAck(Message):
    """Acknowledge a writer's batches up to a number: they are durable, or part of an open episode."""

    number: int
    error: Failure | None = None
    waiting: str | None = None  # why the store acknowledges nothing now, although it is alive
    heads: dict[str, Any] | None = None  # protect the rows of a run, once its end is durable


class RunEvent(Message):
    """Carry an event of a run for observers: its name, time and fields."""

    event: str
    fields: dict[str, Any]
    time_s: float = 0.0
    topic: str = ""  # the end of the topic's name; empty is `events`


_ANYBODY = tuple(Role)
_READERS = (Role.SUPERVISOR, Role.OPERATOR, Role.OBSERVER)

CALLS: tuple[Call, ...] = (
    Call("kernel.info", _ANYBODY, None, Nothing, Info),
    Call("kernel.peers", _READERS, None, Nothing, Peers),
    Call("kernel.watch", (*_READERS, Role.GOVERNOR, Role.CONTROLLER, Role.STORE, Role.TABLE), None, Watch, Done),
    Call("kernel.subscribe", _READERS, None, Subscribe, Done),
    Call("kernel.admit", (Role.SUPERVISOR,), None, Admit, Done),
    Call("kernel.withdraw", (Role.SUPERVISOR,), None, Withdraw, Done),
    Call("kernel.submit", (Role.OPERATOR,), None, Submit, Submitted),
    Call("kernel.runs", (Role.OPERATOR,), None, RunRequest, Runs),
    Call("kernel.processes", (Role.OPERATOR,), None, RunRequest, Runs),
    Call("kernel.signal", (Role.OPERATOR,), None, RunSignal, Signalled),
    Call("kernel.stop", (Role.OPERATOR,), None, RunRequest, Signalled),
    Call("kernel.leave", (Role.OPERATOR,), None, RunRequest, Done),
    Call("kernel.need", (Role.GOVERNOR,), None, Need, Done),
    Call("kernel.ended", (Role.GOVERNOR,), None, Ended, Done),
    Call("kernel.overdue", (Role.GOVERNOR, Role.CONTROLLER, Role.MUSCLE, Role.BRAIN), None, Overdue, Done),
    Call("kernel.model", (Role.MUSCLE, Role.BRAIN), None, ModelAsked, ModelPiece),
    Call("kernel.keep", (Role.BRAIN,), None, ModelKept, Done),
    Call("governor.start", (Role.SUPERVISOR,), Role.GOVERNOR, GovernorStart, Done),
    Call("governor.signal", (Role.SUPERVISOR,), Role.GOVERNOR, FlowSignal, Signalled),
    Call("governor.stop", (Role.SUPERVISOR,), Role.GOVERNOR, RunRequest, Done),
    Call("governor.incident", (Role.SUPERVISOR,), Role.GOVERNOR, Incident, Done),
    Call("governor.episode", (Role.CONTROLLER,), Role.GOVERNOR, EpisodeEnded, Verdict),
    Call("governor.boundary", (Role.CONTROLLER,), Role.GOVERNOR, Boundary, Go),
    Call("governor.stands", (Role.CONTROLLER,), Role.GOVERNOR, Stands, Done),
    Call("governor.rebuild", (Role.CONTROLLER,), Role.GOVERNOR, Rebuild, Rebuilt),
    Call("governor.failed", (Role.CONTROLLER,), Role.GOVERNOR, WorkerFailed, Done),
    Call("controller.setup", (Role.GOVERNOR,), Role.CONTROLLER, ControllerSetup, ControllerReady),
    Call("controller.start", (Role.GOVERNOR,), Role.CONTROLLER, ControllerStart, Done),
    Call("controller.evaluate", (Role.GOVERNOR,), Role.CONTROLLER, ControllerEvaluate, Done),
    Call("controller.shutdown", (Role.GOVERNOR,), Role.CONTROLLER, ControllerShutdown, Done),
    Call("environment.start", (Role.CONTROLLER,), Role.ENVIRONMENT, EnvironmentStart, EnvironmentDeclared),
    Call("environment.update", (Role.CONTROLLER,), Role.ENVIRONMENT, EnvironmentUpdate, EnvironmentUpdated),
    Call("environment.reset", (Role.CONTROLLER,), Role.ENVIRONMENT, EnvironmentReset, EnvironmentUpdated),
    Call("environment.shutdown", (Role.CONTROLLER,), Role.ENVIRONMENT, Nothing, Done),
    Call("muscle.setup", (Role.CONTROLLER,), Role.MUSCLE, MuscleSetup, MuscleReady),
    Call("muscle.act", (Role.CONTROLLER,), Role.MUSCLE, Act, Acted),
    Call("muscle.swap", (Role.CONTROLLER,), Role.MUSCLE, Swap, Swapped),
    Call("muscle.reset", (Role.CONTROLLER,), Role.MUSCLE, MuscleReset, Done),
    Call("muscle.shutdown", (Role.CONTROLLER,), Role.MUSCLE, Nothing, Done),
    Call("brain.setup", (Role.GOVERNOR,), Role.BRAIN, BrainSetup, Done),
    Call("brain.pretrain", (Role.GOVERNOR,), Role.BRAIN, BrainPretrain, BrainPretrained),
    Call("brain.store", (Role.GOVERNOR,), Role.BRAIN, BrainStore, BrainStored),
    Call("brain.evaluate", (Role.GOVERNOR,), Role.BRAIN, BrainEvaluate, BrainEvaluated),
    Call("brain.shutdown", (Role.GOVERNOR,), Role.BRAIN, Nothing, Done),
    Call("brain.join", (Role.MUSCLE,), Role.BRAIN, BrainJoin, Thought),
    Call("brain.think", (Role.MUSCLE,), Role.BRAIN, Think, Thought),
    Call("brain.update", (Role.MUSCLE,), Role.BRAIN, UpdateAsked, Thought),
    Call("brain.policy", (Role.MUSCLE,), Role.BRAIN, PolicyAsked, Thought),
    Call("brain.leave", (Role.MUSCLE,), Role.BRAIN, BrainLeave, Done),
    Call("table.setup", (Role.GOVERNOR,), Role.TABLE, TableSetup, Done),
    Call("table.ask", (Role.BRAIN,), Role.TABLE, TableAsk, TableAnswer),
    Call("table.shutdown", (Role.GOVERNOR,), Role.TABLE, Nothing, Done),
)

CALL_BY_NAME: dict[str, Call] = {call.name: call for call in CALLS}

TELLS: tuple[Tell, ...] = (
    Tell("", Verb.HELLO, "everybody", "kernel", Hello),
    Tell("", Verb.WELCOME, "kernel", "who said HELLO", Welcome),
    Tell("", Verb.ERROR, "everybody", "a caller, or whose connection ends", Failure),
    Tell("", Verb.BEAT, "kernel and peers", "peers and kernel", Nothing),
    Tell("", Verb.LOST, "kernel", "watchers, and callers with open calls", Lost),
    Tell("", Verb.BYE, "kernel and peers", "peers and kernel", Bye),
    Tell("", Verb.SIGNAL, "governor", "controllers of its run", FlowSignal),
    Tell("kernel.joined", Verb.TELL, "kernel", "watchers", Joined),
    Tell("kernel.gap", Verb.TELL, "kernel", "readers of a topic", Gap),
    Tell("kernel.near", Verb.TELL, "a relay, as its peer", "kernel", Near),
    Tell("record.batch", Verb.TELL, "governor, controllers", "store", RecordBatch),
    Tell("record.ack", Verb.TELL, "store", "writers", RecordAck),
    Tell("event", Verb.TELL, "governor, supervisor", "topic @<run>/events", RunEvent),
)
