"""Names of the events of a run, as observers see them."""

from __future__ import annotations

TOPIC = "events"  # of each run: @<run>/events
WAITS = "waits"  # likewise: what a participant waits for, and how far a worker is, told by itself

# told by the supervisor
RUN_STARTED = "run.started"
RUN_ENDED = "run.ended"
PEER_JOINED = "peer.joined"
PEER_LOST = "peer.lost"
PEER_RESTARTED = "peer.restarted"
WAITING = "waiting"
EXCUSED = "excused"  # told by a participant of itself: how many errors of authors it has tolerated; counted only

TABLE_STATE = "table.state"  # told by a table, once a second: what is in it, and which side waits; shown by `ps`
STEPS_TAKEN = "steps.taken"  # told by a controller, at first often, then once a second: how far its phase is
PHASE_PLACED = "phase.placed"  # told by the supervisor: how the workers of a phase are placed, as it has measured

# told by the governor
PHASE_STARTED = "phase.started"
PHASE_ENDED = "phase.ended"
PHASE_PAUSED = "phase.paused"  # `workers` are those that are paused, `moving` says whether others are not
PHASE_RESUMED = "phase.resumed"
EPISODE_ENDED = "episode.ended"
EPISODES_ENDED = "episodes.ended"  # instead of single ones, once a second, when there are many
EVALUATION_ENDED = "evaluation.ended"
SIGNAL = "signal"
WARNING = "warning"  # a sentence: something was asked for and is not there, and the run goes on
