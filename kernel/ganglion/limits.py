"""Every bound of the system: unit in the name, reason beside it.

Bounds are applied before memory is taken. Relations between them are asserted at import, so that a change that makes
no sense is found before anything starts. They are fixed, but for two that are settings: `processes_per_run` and
`journal_begin_bytes`; the command hands these to all processes in variables.
"""

from __future__ import annotations

import os

# -- handshake and strangers ------------------------------------------------------------------------------------------
HANDSHAKE_S = 2.0  # from accept to WELCOME; libzmq allows 30 s, which lets a silent stranger hold a descriptor
CLOSING_S = 0.5  # what waits for a connection that ends is written for so long
CLOSING_UNJOINED_S = 0.2  # and for a peer that has not joined: it gets no more than the reason
LISTENER_REST_S = 0.1  # without descriptors, instead of asking again and again
UNJOINED_PEERS = 64  # connections that have not said HELLO; the oldest goes
UNJOINED_MESSAGE_BYTES = 16 * 1024  # a HELLO needs 1 KiB; 64 strangers never cost more than 1 MiB
UNJOINED_MESSAGE_FRAMES = 3  # to, head, body
WRONG_TOKEN_SPAN_S = 1.0  # a peer with wrong tokens is answered, and logged, once in so long
WRONG_TOKEN_ORIGINS = 1024  # processes or addresses of which that is known; the oldest is forgotten
GREETING_BYTES = 64  # fixed by ZMTP 3
COMMAND_BYTES = 1024  # READY, PING, PONG, ERROR need less
COMMANDS_PER_S = 64  # more is noise
METADATA_PROPERTIES = 8  # libzmq sends two
IDENTITY_BYTES = 255  # ZMTP's own bound; read, never used

# -- messages ---------------------------------------------------------------------------------------------------------
FRAME_BYTES = 32 * 1024 * 1024  # 8 million float32 parameters in one array
MESSAGE_BYTES = 32 * 1024 * 1024  # what an environment or a muscle may send in one message
MESSAGE_BYTES_LARGE = 256 * 1024 * 1024  # brains and governors: 64 million parameters
MESSAGE_FRAMES = 1024  # libzmq bounds only the frame; empty frames cost it 32 times their size
HEAD_BYTES = 256  # verb, serial, call, position, deadline
BODY_BYTES = 1024 * 1024  # larger data are blobs
KERNEL_BODY_BYTES = 256 * 1024  # of what the broker itself decodes: 1024 watched names need 140 KiB
KERNEL_BODY_CONTAINERS = 4096  # in these; of empty maps a body takes 77 times its size
BODY_DEPTH = 32  # msgpack's own bound of 1,024 levels breaks repr()
BODY_CONTAINERS = 65_536  # maps and lists: as many as fill a body in earnest; empty ones would take 90 MiB
BODY_KEYS = 32_768  # of one map: a step's world state may be one
PARCEL_BYTES = 64 * 1024  # larger parts of a set-up message travel as blobs; there are at most seven in one
PARCEL_DEPTH = 16  # and deeper ones, for they stand within others
PLAN_BYTES = 31 * 1024 * 1024  # all phases of a run with the document; it has to pass as one blob
NAME_BYTES = 128  # names on the wire
UID_BYTES = 256  # names in documents
TOKEN_BYTES = 43  # 32 random bytes in base64url
IDS_PER_ENVIRONMENT = 16_384  # sensors, actuators, rewards: with short ids they just fit a body
TOPIC_MESSAGES = 256  # of topics, in one answer: each gives a row
TOPIC_KEYS = 256  # of statistics in one answer, and of settings of one participant: each is told at each reset
TOPIC_VALUE_BYTES = 4096  # of one value as JSON: topics carry words beside the steps, arrays go by sensors
TOPIC_BINS = 1024  # of one histogram: five decades of both signs, at two digits
INTEGER_MAX = 2**53 - 1  # one meaning in every language: a double holds it
UNFINISHED_BYTES = 64 * 1024 * 1024  # of all connections together; beyond it, the message that began last waits
UNFINISHED_IDLE_S = 10.0  # a message that does not grow is an attack or a loss
ADDRESS_SPACE_BYTES = 4 * 1024**3  # of a broker that other machines reach: all that bounds libzmq's unfinished messages
WORK_PER_CALLBACK_BYTES = 256 * 1024  # then the next connection has its turn
MESSAGES_PER_CALLBACK = 1024  # the same for small messages; of those that need a decision a sixteenth

# -- flow -------------------------------------------------------------------------------------------------------------
DECISION_SHARE = 0.05  # of the broker's time, for what one peer has it decide; other messages are not counted
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
PROCESSES_PER_RUN = 256  # a typing error in `worker` is no fork bomb; a setting
PROCESSES_PER_RUN_MAX = 1000  # of that setting

# -- liveness ---------------------------------------------------------------------------------------------------------
BEAT_AFTER_SILENCE_S = 0.5  # a silent peer is asked
BEAT_ANSWER_S = 1.5  # and owes an answer within
PROGRESS_S = 10.0  # a destination that takes nothing for so long is lost
LATE_ANSWER_S = 10.0  # after a peer has joined, an unexpected answer may be one to its predecessor's request

# -- waits ------------------------------------------------------------------------------------------------------------
DEADLINES_S: dict[str, float | None] = {  # by the last word of a call; None waits for ever and says so
    "join": 30.0,
    "attach": None,
    "setup": 60.0,
    "start": 60.0,
    "reset": 60.0,
    "update": 30.0,
    "act": 30.0,
    "think": 60.0,
    "ask": 30.0,  # of a table, whose rate may have it wait
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
# After how long something is tried again; the last delay of a table goes on.
RETRY_S: dict[str, float] = {
    "attach": 0.5,  # a command asks again while no run waits for what it attaches
    "broker": 0.05,  # the supervisor looks for a broker, or for the begin of a run
    "call": 0.05,  # a call for which there was no room, or no callee, is said again
    "connect": 0.01,  # so many connect that a unix socket holds no more of them
    "duplicate": 0.25,  # after an answer that came twice: a longer wait may be in vain
    "records": 0.25,  # without a word of the store a writer says its records again, each time after twice as long
    "records_most": 4.0,  # and not later than this
    "store": 1.0,  # what a database refused for the moment is written again
}
RESTART_DELAYS_S = (0.0, 0.1, 0.4, 1.6, 5.0)  # before each restart of a process within RESTARTS_WITHIN_S
DEADLINE_OTHER_S = 30.0  # calls that the table above does not name
RESTARTS_PER_NAME = 5  # of a lost process within RESTARTS_WITHIN_S; more often is no accident
RESTARTS_WITHIN_S = 60.0  # long enough to tell a bad machine from a bad minute
RESTARTS_PER_RUN = 20  # of all names together; then something else is wrong
NODE_LOSS_S = 5.0  # what is lost on one node of a launcher within this time is one loss: that of the node, or its relay
JOURNAL_BYTES = 1 << 30  # of one process's journal; to replay a longer one takes longer than to compute again
JOURNAL_BEGIN_BYTES = int(os.environ.get("GANGLION_JOURNAL_BEGIN_BYTES") or 8 * 1024 * 1024)  # then it is compacted
JOURNAL_BEGIN_S = 10.0  # a journal of more time likewise: what took long takes long to replay
RECONNECT_S = 30.0  # for a broker that is lost: as long as for a peer to join
EXIT_DIFFERS = 113  # of a process whose replay differs; to the supervisor only, and none that a program may end with
CHECKPOINT_S = 10.0  # least time between two checkpoints of a run; a loss costs no more than that again
LOSSES_AT_ONE_STEP = 3  # a process that dies so often at one step dies of it
LINE_ANSWER_S = 3600.0  # of a program behind a pipe; the caller has a deadline too, unless a document sets none
PAUSE_ANSWER_S = 20.0  # then a PAUSE is answered with the workers that have paused; below the deadline of the call
WAIT_REPORT_S = 2.0  # a wait shows after so long without progress, then at 4, 8, 16, 32, 60, 120 s
TABLE_REPORT_S = 1.0  # a table says what is in it: a person who watches needs no more
TABLE_SLACK_S = 2.0  # a brain waits so much longer than the table: the table's answer says why
STEPS_REPORT_S = 1.0  # a worker says how far its open episode is: observers need no more, and it costs nothing
STEPS_REPORT_FIRST_S = 0.1  # so often in the beginning of a phase, where its steps are measured
STEPS_REPORT_FIRST_SPAN_S = 5.0  # which is so long: three pairs of windows take half of it
ATTACH_WAIT_REPORT_S = 1.0  # a person must act: reported sooner

# -- placement --------------------------------------------------------------------------------------------------------
PLACEMENT_WINDOW_S = 0.3  # workers are free for so long, then kept together: some hundred steps of the fast ones
PLACEMENT_SETTLE_S = 0.05  # after a change, before steps count: threads that sleep move when they wake up
PLACEMENT_PATIENCE_S = 3.0  # a window that is not full then belongs to slow steps, to which placement means nothing
PLACEMENT_FASTER = 1.05  # so much faster are workers that are kept together, or they are left free
PLACEMENT_VOTES = 2  # equal votes of pairs of windows that decide: one pair may fall into the beginning of learning
PLACEMENT_WATCH_S = 5.0  # workers that were slower than free for so long are measured anew; doubled each time
PLACEMENT_LOOK_S = 1.0  # new threads and children of kept processes are looked for so often

# -- leaving ----------------------------------------------------------------------------------------------------------
LEAVE_EPISODE_S = 30.0  # an interrupted run finishes its episodes, then they are cut: one may never end by itself
LEAVE_ASK_S = 2.0  # asked to leave, then
LEAVE_TERMINATE_S = 1.5  # SIGTERM to the process group, then
LEAVE_KILL_S = 0.5  # SIGKILL to the group
OUTPUT_LINES_KEPT = 20  # last words of a process that are shown when it dies
LOG_FILE_BYTES = 64 * 1024 * 1024  # a chatty process costs neither memory nor disk
LOG_FILES = 3  # of one process; the oldest goes
OUTPUT_BYTES_PER_S = 1024 * 1024  # of one process into its file; what is more is counted
LOG_LINE_BYTES = 8 * 1024  # what is cut is counted

# -- rows -------------------------------------------------------------------------------------------------------------
STORE_JOURNAL_BYTES = 8 * 1024 * 1024  # a longer journal of a store is compacted: replayed in well below a second
STORE_RESERVE_BYTES = 8 * 1024 * 1024  # kept back beside the store: a full disk takes how the run ended
OPEN_ROWS_BYTES = 8 * 1024 * 1024  # rows of open episodes held in memory by a store; beyond that they go to disk
WORLD_STATE_VALUES = 32_768  # of one step; each is at most nine bytes of a body, texts count by eighths

# -- spaces, memories, models ---------------------------------------------------------------------------------------
ARRAY_RANK = 16  # axes of an array; numpy of before 2.0 ends at 32, other languages earlier
SPACE_DEPTH = 16  # spaces within spaces; far above any that we have seen, far below the recursion limit
SPACE_ELEMENTS = 8 * 1024 * 1024  # columns of one space: a picture of 3840 x 2160 is one byte each
SPACE_TEXT_BYTES = 64 * 1024 * 1024  # both bounds of the largest Box, written out
MEMORY_ROWS = 1_000_000  # rows of a brain's memory, unless its author sets another bound
BODIES_MEMORY_ROWS = 64 * 1024  # rows of the memories of a muscle's bodies together, likewise
BODY_MEMORY_ROWS_MIN = 64  # of each
MODEL_BYTES = 2 * 1024**3  # one file; archives are stored, not compressed, so that no bomb can be one
MODEL_MEMBERS = 4096  # arrays in one file
MODEL_HEADER_BYTES = 64 * 1024  # name, dtype and shape of one array; the small JSON object beside them
MODEL_INDEX_BYTES = 64 * 1024**2  # the index of a run's models: some 200 bytes per file, 300 000 files
MODEL_PIECE_BYTES = 512 * 1024  # of a model that travels to another machine: half of what a body may hold
REPLAY_INDEX_BYTES = 64 * 1024**2  # names the files of recorded episodes and their columns: some 300 000 files
REPLAY_CHUNK_BYTES = 8 * 1024**2  # recorded episodes in one file, which a brain holds whole; one episode may be longer
REPLAY_CHUNK_SESSIONS = 4096  # likewise, where episodes are short
REPLAY_TOLERATED_ERRORS = 100  # exceptions of one pre-training that are reported one by one; of the rest the number
MODEL_NAME_CHARACTERS = 100  # of a file's name; most file systems end at 255 bytes

# -- documents --------------------------------------------------------------------------------------------------------
DOCUMENT_BYTES = 4 * 1024 * 1024  # 40 times the largest document that we have seen
DOCUMENT_BYTES_REMOTE = 1024 * 1024  # of a document that came over the network; it has to pass as one body
DOCUMENT_COLLECTIONS = 100_000  # lists and maps among the values: an empty one costs twice what a number costs
DOCUMENT_NODES = 200_000  # expanded: nested aliases are exponential
DOCUMENT_ALIASES = 1_000
DOCUMENT_DEPTH = 64
DOCUMENT_FAULTS = 200  # of each stage of reading; after so many repairs the document is read again
PHASES_PER_RUN = 1_000  # each is expanded with all that it inherits
BODIES_PER_PHASE = 4_096  # numbers of rows have two bytes; a tick has all of them in one message per agent
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
