"""Every bound of the system: unit in the name, reason beside it.

Bounds are applied before memory is taken. Relations between bounds are asserted at import. All are fixed except two
settings, `processes_per_run` and `journal_begin_bytes`, which the command passes to all processes in variables.
"""

from __future__ import annotations

import os

# -- handshake and strangers -----------------------------------------------------------------------------------------
HANDSHAKE_S = 2.0  # from accept to WELCOME; libzmq allows 30 s, which lets a silent stranger hold a descriptor
CLOSING_S = 0.5  # the longest time to write out the queue of an ending connection
CLOSING_UNJOINED_S = 0.2  # likewise for a peer that has not joined, which gets the reason only
LISTENER_REST_S = 0.1  # the pause after running out of descriptors
UNJOINED_PEERS = 64  # connections that have not said HELLO; the oldest goes
UNJOINED_MESSAGE_BYTES = 16 * 1024  # a HELLO needs 1 KiB; 64 strangers never cost more than 1 MiB
UNJOINED_MESSAGE_FRAMES = 3  # to, head, body
WRONG_TOKEN_SPAN_S = 1.0  # between two answers to, and log lines of, a peer with wrong tokens
WRONG_TOKEN_ORIGINS = 1024  # processes or addresses remembered for that; the oldest is forgotten
GREETING_BYTES = 64  # fixed by ZMTP 3
COMMAND_BYTES = 1024  # READY, PING, PONG, ERROR need less
COMMANDS_PER_S = 64  # no honest peer sends more
METADATA_PROPERTIES = 8  # libzmq sends two
IDENTITY_BYTES = 255  # ZMTP's own bound; read, never used

# -- messages --------------------------------------------------------------------------------------------------------
FRAME_BYTES = 32 * 1024 * 1024  # 8 million float32 parameters in one array
MESSAGE_BYTES = 32 * 1024 * 1024  # what an environment or a muscle may send in one message
MESSAGE_BYTES_LARGE = 256 * 1024 * 1024  # brains and governors: 64 million parameters
MESSAGE_FRAMES = 1024  # libzmq bounds only the frame; empty frames cost it 32 times their size
HEAD_BYTES = 256  # verb, serial, call, position, deadline
BODY_BYTES = 1024 * 1024  # larger data are blobs
KERNEL_BODY_BYTES = 256 * 1024  # of bodies that the broker decodes: 1024 watched names need 140 KiB
KERNEL_BODY_CONTAINERS = 4096  # in these: a body of empty maps takes 77 times its size in memory
BODY_DEPTH = 32  # msgpack's own bound of 1,024 levels breaks repr()
BODY_CONTAINERS = 65_536  # maps and lists: as many as a real body has; empty ones would take 90 MiB
BODY_KEYS = 32_768  # of one map, such as a step's world state
PARCEL_BYTES = 64 * 1024  # larger parts of a set-up message travel as blobs; there are at most seven in one
PARCEL_DEPTH = 16  # deeper parts likewise, since they are nested in others
PLAN_BYTES = 31 * 1024 * 1024  # all phases of a run with the document, as one blob
NAME_BYTES = 128  # names on the wire
UID_BYTES = 256  # names in documents
TOKEN_BYTES = 43  # 32 random bytes in base64url
IDS_PER_ENVIRONMENT = 16_384  # sensors, actuators, rewards: with short ids they just fit a body
TOPIC_MESSAGES = 256  # of topics, in one answer: each is a row
TOPIC_KEYS = 256  # of statistics in one answer, and of settings of one participant, all sent at each reset
TOPIC_VALUE_BYTES = 4096  # of one value as JSON: large arrays belong in sensors
TOPIC_BINS = 1024  # of one histogram: five decades of both signs, at two digits
INTEGER_MAX = 2**53 - 1  # exact as a double in every language
UNFINISHED_BYTES = 64 * 1024 * 1024  # of all connections together; beyond it the newest message waits
UNFINISHED_IDLE_S = 10.0  # a message that stops growing is an attack or a loss
ADDRESS_SPACE_BYTES = 4 * 1024**3  # of a broker that other machines reach: bounds libzmq's unfinished messages
WORK_PER_CALLBACK_BYTES = 256 * 1024  # read from one connection at a time
MESSAGES_PER_CALLBACK = 1024  # likewise, of small messages; of messages that need a decision a sixteenth

# -- flow ------------------------------------------------------------------------------------------------------------
DECISION_SHARE = 0.05  # of the broker's time for decisions for one peer; other messages are not counted
PEERS = 1024  # connections of one broker
ADMISSIONS = 4096  # names that a supervisor may announce
OPEN_CALLS = 64  # unanswered calls of one peer to another; 64 reach full rate, lockstep needs one
OPEN_CALLS_CONTROL = 1024  # controllers, governors and supervisors ask many at once
QUEUE_MARK_BYTES = 1024 * 1024  # waiting for one destination; beyond it calls are answered busy
STREAM_CREDIT_MESSAGES = 8  # unacknowledged messages of one stream
STREAM_CREDIT_BYTES = 1024 * 1024  # unacknowledged bytes of one stream
URGENT_MESSAGES = 256  # SIGNAL, BEAT, LOST, BYE that overtake data at one destination; more is a stuck reader
SUBSCRIPTIONS = 64  # topics of one observer
WATCHES = 1024  # peers that one peer watches
ANSWERS_PER_CALLER = 4  # remembered answers to repeats, per caller
PROCESSES_PER_RUN = 256  # so that a typing error in `worker` is no fork bomb; a setting
PROCESSES_PER_RUN_MAX = 1000  # of that setting

# -- liveness --------------------------------------------------------------------------------------------------------
BEAT_AFTER_SILENCE_S = 0.5  # after which a silent peer is asked
BEAT_ANSWER_S = 1.5  # within which it must answer
PROGRESS_S = 10.0  # after which a destination that takes nothing is lost
LATE_ANSWER_S = 10.0  # after a peer has joined: an unexpected answer may be of its predecessor

# -- waits -----------------------------------------------------------------------------------------------------------
DEADLINES_S: dict[str, float | None] = {  # by the last word of a call; None is no deadline, and the wait is shown
    "join": 30.0,
    "attach": None,
    "setup": 60.0,
    "start": 60.0,
    "reset": 60.0,
    "update": 30.0,
    "act": 30.0,
    "think": 60.0,
    "ask": 30.0,  # of a table, which may wait for its rate
    "evaluate": 120.0,
    "store": 120.0,
    "load": 120.0,
    "pretrain": 3600.0,
    "checkpoint": 120.0,
    "boundary": 60.0,
    "episode": 60.0,
    "record": 300.0,
    "leave": 2.0,
}
# Delays before attempts; the last delay of a table repeats.
RETRY_S: dict[str, float] = {
    "attach": 0.5,  # of `attach`, while no run waits for the participant
    "broker": 0.05,  # of the supervisor, for a broker or for the begin of a run
    "call": 0.05,  # of a call without room or callee
    "connect": 0.01,  # of a connect to a unix socket with a full backlog
    "duplicate": 0.25,  # of open calls, after a doubled answer: one of them may be lost
    "records": 0.25,  # of a writer's records while the store is silent; doubled each time
    "records_most": 4.0,  # the longest of these
    "store": 1.0,  # of a write that a database refused for the moment
}
RESTART_DELAYS_S = (0.0, 0.1, 0.4, 1.6, 5.0)  # before each restart of a process within RESTARTS_WITHIN_S
DEADLINE_OTHER_S = 30.0  # of calls that the table above does not name
RESTARTS_PER_NAME = 5  # of one name within RESTARTS_WITHIN_S; more losses are no accident
RESTARTS_WITHIN_S = 60.0  # long enough to tell a bad machine from a bad minute
RESTARTS_PER_RUN = 20  # of all names together; more losses have a common cause
NODE_LOSS_S = 5.0  # losses on one node of a launcher within this time are one loss, of the node or its relay
JOURNAL_BYTES = 1 << 30  # of one process's journal; computing again is faster than replaying a longer one
JOURNAL_BEGIN_BYTES = int(os.environ.get("GANGLION_JOURNAL_BEGIN_BYTES") or 8 * 1024 * 1024)  # then it is compacted
JOURNAL_BEGIN_S = 10.0  # a journal of more time likewise: slow work is slow to replay
RECONNECT_S = 30.0  # for a lost broker: as long as for a peer to join
EXIT_DIFFERS = 113  # of a process whose replay differs; for the supervisor, and no status of a program
CHECKPOINT_S = 10.0  # least time between two checkpoints of a run, the most that a loss repeats
LOSSES_AT_ONE_STEP = 3  # deaths of a process at one step, which then count as its cause
LINE_ANSWER_S = 3600.0  # of a program behind a pipe; the caller has a deadline too, unless a document sets none
PAUSE_ANSWER_S = 20.0  # then a PAUSE is answered with the workers paused so far; below the deadline of the call
WAIT_REPORT_S = 2.0  # after which a wait without progress is shown, then at 4, 8, 16, 32, 60, 120 s
TABLE_REPORT_S = 1.0  # between two reports of a table's contents, for people
TABLE_SLACK_S = 2.0  # added to a table's deadline for its caller, so that the table's reason arrives
STEPS_REPORT_S = 1.0  # between two reports of a worker's open episode, for observers
STEPS_REPORT_FIRST_S = 0.1  # likewise at the begin of a phase, while its steps are measured
STEPS_REPORT_FIRST_SPAN_S = 5.0  # the length of that begin: three pairs of windows take half of it
ATTACH_WAIT_REPORT_S = 1.0  # shown sooner, since a person must act

# -- placement -------------------------------------------------------------------------------------------------------
PLACEMENT_WINDOW_S = 0.3  # a window: workers free, then kept together; some hundred fast steps
PLACEMENT_SETTLE_S = 0.05  # after a change, before steps count: sleeping threads move when they wake up
PLACEMENT_PATIENCE_S = 3.0  # a window not full by then has slow steps, for which placement does not matter
PLACEMENT_FASTER = 1.05  # kept workers must be so much faster, else they are left free
PLACEMENT_VOTES = 2  # equal votes of pairs of windows that decide: one pair may fall into the begin of learning
PLACEMENT_WATCH_S = 5.0  # after which kept workers that are slower are measured again; doubled each time
PLACEMENT_LOOK_S = 1.0  # between two searches for new threads and children of kept processes

# -- leaving ---------------------------------------------------------------------------------------------------------
LEAVE_EPISODE_S = 30.0  # for the episodes of an interrupted run, which are then cut: one may never end by itself
LEAVE_ASK_S = 2.0  # from the request to leave to SIGTERM
LEAVE_TERMINATE_S = 1.5  # from SIGTERM to SIGKILL, for the process group
LEAVE_KILL_S = 0.5  # from SIGKILL to giving up
OUTPUT_LINES_KEPT = 20  # the last output of a process, shown when it dies
LOG_FILE_BYTES = 64 * 1024 * 1024  # bounds memory and disk of a process with much output
LOG_FILES = 3  # of one process; the oldest goes
OUTPUT_BYTES_PER_S = 1024 * 1024  # of one process into its file; dropped lines are counted
LOG_LINE_BYTES = 8 * 1024  # of one line; cut bytes are counted

# -- rows ------------------------------------------------------------------------------------------------------------
STORE_JOURNAL_BYTES = 8 * 1024 * 1024  # a longer journal of a store is compacted: replayed in well below a second
STORE_RESERVE_BYTES = 8 * 1024 * 1024  # reserved beside the store, to write the end of a run on a full disk
OPEN_ROWS_BYTES = 8 * 1024 * 1024  # rows of open episodes held in memory by a store; beyond that they go to disk
WORLD_STATE_VALUES = 32_768  # of one step; each is at most nine bytes of a body, text counts by eight bytes

# -- spaces, memories, models ----------------------------------------------------------------------------------------
ARRAY_RANK = 16  # axes of an array; numpy of before 2.0 ends at 32, other languages earlier
SPACE_DEPTH = 16  # nested spaces; far above known ones, far below the recursion limit
SPACE_ELEMENTS = 8 * 1024 * 1024  # columns of one space: a picture of 3840 x 2160 is one byte each
SPACE_TEXT_BYTES = 64 * 1024 * 1024  # both bounds of the largest Box, written out
MEMORY_ROWS = 1_000_000  # rows of a brain's memory, unless its author sets another bound
BODIES_MEMORY_ROWS = 64 * 1024  # rows of the memories of a muscle's bodies together, likewise
BODY_MEMORY_ROWS_MIN = 64  # of each
MODEL_BYTES = 2 * 1024**3  # one file; archives are stored, not compressed, so that no bomb can be one
MODEL_MEMBERS = 4096  # arrays in one file
MODEL_HEADER_BYTES = 64 * 1024  # name, dtype and shape of one array; the small JSON object beside them
MODEL_INDEX_BYTES = 64 * 1024**2  # the index of a run's models: some 200 bytes per file, 300 000 files
MODEL_PIECE_BYTES = 512 * 1024  # of a model sent to another machine: half of a body
REPLAY_INDEX_BYTES = 64 * 1024**2  # names the files of recorded episodes and their columns: some 300 000 files
REPLAY_CHUNK_BYTES = 8 * 1024**2  # recorded episodes in one file, which a brain holds whole; one episode may be longer
REPLAY_CHUNK_SESSIONS = 4096  # likewise, where episodes are short
REPLAY_TOLERATED_ERRORS = 100  # exceptions of one pre-training that are reported one by one; the rest are counted
MODEL_NAME_CHARACTERS = 100  # of a file's name; most file systems end at 255 bytes

# -- documents -------------------------------------------------------------------------------------------------------
DOCUMENT_BYTES = 4 * 1024 * 1024  # 40 times the largest known document
DOCUMENT_BYTES_REMOTE = 1024 * 1024  # of a document from the network, as one body
DOCUMENT_COLLECTIONS = 100_000  # lists and maps among the values: an empty one costs twice what a number costs
DOCUMENT_NODES = 200_000  # expanded: nested aliases are exponential
DOCUMENT_ALIASES = 1_000
DOCUMENT_DEPTH = 64
DOCUMENT_FAULTS = 200  # of each stage of reading; after so many repairs the document is read again
PHASES_PER_RUN = 1_000  # each is expanded with all inherited entries
BODIES_PER_PHASE = 4_096  # numbers of rows have two bytes; a tick has all bodies in one message per agent
SCALAR_BYTES = 64 * 1024


def processes_per_run() -> int:
    """Return how many processes a run may have: the setting `processes_per_run`."""
    return int(os.environ.get("GANGLION_PROCESSES_PER_RUN") or PROCESSES_PER_RUN)


assert UNJOINED_MESSAGE_BYTES < BODY_BYTES < FRAME_BYTES <= MESSAGE_BYTES <= MESSAGE_BYTES_LARGE
assert UNJOINED_MESSAGE_BYTES <= KERNEL_BODY_BYTES <= BODY_BYTES
assert KERNEL_BODY_CONTAINERS <= BODY_CONTAINERS
assert WORLD_STATE_VALUES <= BODY_KEYS <= BODY_CONTAINERS
assert 8 * PARCEL_BYTES < BODY_BYTES < PLAN_BYTES < MESSAGE_BYTES - BODY_BYTES // 2
assert OPEN_CALLS <= OPEN_CALLS_CONTROL
assert BEAT_AFTER_SILENCE_S < BEAT_ANSWER_S
assert STEPS_REPORT_FIRST_S < PLACEMENT_WINDOW_S < PLACEMENT_PATIENCE_S
assert 3 * 2 * (PLACEMENT_WINDOW_S + STEPS_REPORT_FIRST_S + PLACEMENT_SETTLE_S) < STEPS_REPORT_FIRST_SPAN_S
assert STREAM_CREDIT_BYTES <= QUEUE_MARK_BYTES
assert PROCESSES_PER_RUN < PROCESSES_PER_RUN_MAX < PEERS
assert SPACE_ELEMENTS <= FRAME_BYTES
