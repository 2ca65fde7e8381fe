"""Names of the events of a run that observers receive."""

from __future__ import annotations

TOPIC = "events"  # of each run: @<run>/events
WAITS = "waits"  # of each run: participants report what they wait for and how far a worker is

# sent by the supervisor
RUN_STARTED = "run.started"
RUN_ENDED = "run.ended"
PEER_JOINED = "peer.joined"
PEER_LOST = "peer.lost"
PEER_RESTARTED = "peer.restarted"
WAITING = "waiting"
EXCUSED = "excused"  # a participant's count of the authors' errors that it has tolerated; counted only

TABLE_STATE = "table.state"  # sent by a table once a second: its content, and which side waits; shown by `ps`
STEPS_TAKEN = "steps.taken"  # sent by a controller, at first often, then once a second: the progress of its phase
PHASE_PLACED = "phase.placed"  # sent by the supervisor: the placement of a phase's workers that it measured as best

# sent by the governor
PHASE_STARTED = "phase.started"
PHASE_ENDED = "phase.ended"
PHASE_PAUSED = "phase.paused"  # `workers` are paused; `moving` is True if other workers are not
PHASE_RESUMED = "phase.resumed"
EPISODE_ENDED = "episode.ended"
EPISODES_ENDED = "episodes.ended"  # once a second instead of single events, when there are many
EVALUATION_ENDED = "evaluation.ended"
SIGNAL = "signal"
WARNING = "warning"  # one sentence: something requested is missing, and the run goes on
