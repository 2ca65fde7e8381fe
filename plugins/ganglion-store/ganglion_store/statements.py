"""What a writer says to SQLite; made from `schema.py` by `python -m ganglion_store.generate`, never edited.

It rests here compiled: the import of SQLAlchemy would take longer than all else that a writer does at its start.
"""

from __future__ import annotations

__all__ = [
    "COUNT_EPISODES",
    "CREATE",
    "DELETE_BRAINS",
    "DELETE_EPISODE",
    "DELETE_EVALUATION",
    "DELETE_OPEN",
    "DELETE_RUN",
    "DELETE_SEALS",
    "DELETE_SEGMENT",
    "DELETE_SIGNALS",
    "INSERT_ACTION",
    "INSERT_BRAIN",
    "INSERT_DECLARATION",
    "INSERT_EPISODE",
    "INSERT_EVALUATION",
    "INSERT_INCIDENT",
    "INSERT_LEDGER",
    "INSERT_MEMBER",
    "INSERT_RETURN",
    "INSERT_RUN",
    "INSERT_SEAL",
    "INSERT_SEGMENT",
    "INSERT_SIGNAL",
    "INSERT_STEP",
    "INSERT_STORE",
    "REVISION",
    "SELECT_ACTIONS",
    "SELECT_ALL_BRAINS",
    "SELECT_ALL_DECLARATIONS",
    "SELECT_ALL_EPISODES",
    "SELECT_ALL_EVALUATIONS",
    "SELECT_ALL_INCIDENTS",
    "SELECT_ALL_MEMBERS",
    "SELECT_ALL_PHASES",
    "SELECT_ALL_RUNS",
    "SELECT_ALL_SIGNALS",
    "SELECT_BRAIN",
    "SELECT_CHAINS",
    "SELECT_CUT",
    "SELECT_DECLARATIONS",
    "SELECT_EPISODE",
    "SELECT_EVALUATION",
    "SELECT_EVALUATIONS",
    "SELECT_HEAD",
    "SELECT_INCIDENT",
    "SELECT_LATER",
    "SELECT_LEDGER",
    "SELECT_MEMBERS",
    "SELECT_NEWEST",
    "SELECT_POINTS",
    "SELECT_RETURNS",
    "SELECT_REVISION",
    "SELECT_RUN",
    "SELECT_SEALS",
    "SELECT_SEGMENTS",
    "SELECT_SIGNAL",
    "SELECT_STEPS",
    "SELECT_TOLERATED",
    "UPDATE_CUT_PHASES",
    "UPDATE_LEDGER",
    "UPDATE_MEMBER",
    "UPDATE_PHASE_HEAD",
    "UPDATE_POINT",
    "UPDATE_REVISION",
    "UPDATE_RUN",
    "UPDATE_RUN_HEAD",
    "UPDATE_SEGMENT",
    "UPSERT_PHASE",
    "UPSERT_POINT",
]

REVISION = 3

INSERT_STORE = "INSERT INTO ganglion_store (revision) VALUES (?)"
INSERT_RUN = (
    "INSERT INTO stored_runs (run, uid, experiment, seed, status, reason, started, document, plan_digest) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
INSERT_DECLARATION = (
    "INSERT INTO stored_declarations (run, phase, environment, agent, kind, position, id, space, unit, dtype, "
    "shape) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
INSERT_MEMBER = "INSERT INTO stored_members (run, phase, kind, name, environment, position) VALUES (?, ?, ?, ?, ?, ?)"
INSERT_EPISODE = (
    "INSERT INTO stored_episodes (run, phase, mode, worker, environment, episode, steps, terminated, "
    'truncated, reason, round, "inner", digest, predecessor) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '
    "?)"
)
INSERT_SEGMENT = "INSERT INTO stored_segments (member, episode) VALUES (?, ?)"
INSERT_STEP = (
    "INSERT INTO stored_steps (segment, step, tick, simtime_ticks, simtime_timestamp, sensors, setpoints, "
    "rewards, terminated, truncated, world_state) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
INSERT_ACTION = (
    "INSERT INTO stored_actions (segment, body, step, tick, sensors, setpoints, proposed, rewards, objective, "
    "terminated, truncated, statistics) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
INSERT_RETURN = "INSERT INTO stored_returns (segment, body, steps, return, objective) VALUES (?, ?, ?, ?, ?)"
INSERT_SIGNAL = (
    "INSERT INTO stored_signals (run, phase, worker, episode, step, signal, issuer, reason, data, round, "
    '"inner", ordinal) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)'
)
INSERT_BRAIN = (
    "INSERT INTO stored_brains (run, phase, agent, tag, episode, updates, created, bytes, sha256, path) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
INSERT_EVALUATION = (
    "INSERT INTO stored_evaluations (run, phase, agent, number, episode, metrics, brain, completed) VALUES "
    "(?, ?, ?, ?, ?, ?, ?, ?)"
)
INSERT_INCIDENT = (
    "INSERT INTO stored_incidents (run, time, name, incarnation, kind, position, detail) VALUES (?, ?, ?, ?, ?, ?, ?)"
)
INSERT_LEDGER = "INSERT INTO stored_ledger (run, commits) VALUES (?, ?)"
INSERT_SEAL = "INSERT INTO stored_seals (run, name, position, digests) VALUES (?, ?, ?, ?)"
UPSERT_PHASE = (
    "INSERT INTO stored_phases (run, phase, mode, name, status, reason) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT "
    "(run, phase, mode) DO UPDATE SET name = excluded.name, status = excluded.status, reason = "
    "excluded.reason"
)
UPSERT_POINT = (
    'INSERT INTO stored_points (experiment, point, "row", repetition, seed, factors, digest, state, run, '
    'reason) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (experiment, point) DO UPDATE SET "row" = '
    'excluded."row", repetition = excluded.repetition, seed = excluded.seed, factors = excluded.factors, '
    "digest = excluded.digest, state = excluded.state, run = excluded.run, reason = excluded.reason WHERE "
    "stored_points.state != 'done'"
)
UPDATE_POINT = (
    "UPDATE stored_points SET state=?, run=?, reason=? WHERE stored_points.experiment = ? AND stored_points.point = ?"
)
SELECT_POINTS = (
    'SELECT stored_points.point, stored_points."row", stored_points.repetition, stored_points.seed, '
    "stored_points.factors, stored_points.digest, stored_points.state, stored_points.run, "
    "stored_points.reason FROM stored_points WHERE stored_points.experiment = ? ORDER BY stored_points.point"
)
UPDATE_REVISION = "UPDATE ganglion_store SET revision=?"
UPDATE_RUN = "UPDATE stored_runs SET status=?, reason=?, ended=? WHERE stored_runs.number = ?"
UPDATE_RUN_HEAD = "UPDATE stored_runs SET head=? WHERE stored_runs.number = ?"
UPDATE_PHASE_HEAD = (
    "UPDATE stored_phases SET head=? WHERE stored_phases.run = ? AND stored_phases.phase = ? AND stored_phases.mode = ?"
)
UPDATE_CUT_PHASES = (
    "UPDATE stored_phases SET status=?, reason=? WHERE stored_phases.run = ? AND stored_phases.phase >= ? AND "
    "(stored_phases.status = ? OR stored_phases.status = ?)"
)
UPDATE_LEDGER = "UPDATE stored_ledger SET commits=? WHERE stored_ledger.run = ? AND stored_ledger.commits = ?"
UPDATE_MEMBER = "UPDATE stored_members SET environment=?, position=? WHERE stored_members.number = ?"
UPDATE_SEGMENT = "UPDATE stored_segments SET episode=? WHERE stored_segments.number = ?"
DELETE_SEGMENT = "DELETE FROM stored_segments WHERE stored_segments.number = ?"
DELETE_OPEN = (
    "DELETE FROM stored_segments WHERE stored_segments.episode IS NULL AND stored_segments.member IN (SELECT "
    "stored_members.number FROM stored_members WHERE stored_members.run = ?)"
)
DELETE_EPISODE = "DELETE FROM stored_episodes WHERE stored_episodes.number = ?"
DELETE_SIGNALS = "DELETE FROM stored_signals WHERE stored_signals.run = ? AND stored_signals.phase >= ?"
DELETE_BRAINS = "DELETE FROM stored_brains WHERE stored_brains.run = ? AND stored_brains.phase >= ?"
DELETE_EVALUATION = (
    "DELETE FROM stored_evaluations WHERE stored_evaluations.run = ? AND stored_evaluations.phase = ? AND "
    "stored_evaluations.agent = ? AND stored_evaluations.number = ?"
)
DELETE_SEALS = "DELETE FROM stored_seals WHERE stored_seals.run = ?"
DELETE_RUN = "DELETE FROM stored_runs WHERE stored_runs.run = ?"
SELECT_REVISION = "SELECT ganglion_store.revision FROM ganglion_store"
SELECT_RUN = "SELECT stored_runs.number FROM stored_runs WHERE stored_runs.run = ?"
SELECT_MEMBERS = (
    "SELECT stored_members.number, stored_members.phase, stored_members.kind, stored_members.name, "
    "stored_members.environment, stored_members.position FROM stored_members WHERE stored_members.run = ? "
    "ORDER BY stored_members.number"
)
SELECT_DECLARATIONS = (
    "SELECT stored_declarations.phase, stored_declarations.environment, stored_declarations.agent, "
    "stored_declarations.kind, stored_declarations.id, stored_declarations.dtype, stored_declarations.shape "
    "FROM stored_declarations WHERE stored_declarations.run = ? ORDER BY stored_declarations.number"
)
SELECT_CHAINS = (
    "SELECT stored_episodes.phase, stored_episodes.mode, stored_episodes.worker, stored_episodes.environment, "
    "stored_episodes.episode, stored_episodes.digest FROM stored_episodes WHERE stored_episodes.run = ? ORDER "
    "BY stored_episodes.number"
)
SELECT_EPISODE = (
    "SELECT stored_episodes.digest, stored_episodes.predecessor, stored_episodes.number, "
    "stored_episodes.steps, stored_episodes.terminated, stored_episodes.truncated, stored_episodes.reason, "
    'stored_episodes.round, stored_episodes."inner" FROM stored_episodes WHERE stored_episodes.run = ? AND '
    "stored_episodes.phase = ? AND stored_episodes.mode = ? AND stored_episodes.worker = ? AND "
    "stored_episodes.environment = ? AND stored_episodes.episode = ?"
)
SELECT_CUT = (
    "SELECT stored_episodes.number, stored_episodes.phase, stored_episodes.mode, stored_episodes.worker, "
    "stored_episodes.environment, stored_episodes.reason, stored_episodes.digest, stored_episodes.predecessor "
    "FROM stored_episodes WHERE stored_episodes.run = ? AND stored_episodes.phase >= ? AND "
    "(stored_episodes.reason = ? OR stored_episodes.reason = ? OR stored_episodes.reason LIKE ? OR "
    "stored_episodes.reason LIKE ?) ORDER BY stored_episodes.number DESC"
)
SELECT_LATER = (
    "SELECT stored_episodes.number, stored_episodes.phase, stored_episodes.mode, stored_episodes.worker, "
    "stored_episodes.environment, stored_episodes.episode, stored_episodes.digest, "
    "stored_episodes.predecessor FROM stored_episodes WHERE stored_episodes.run = ? AND stored_episodes.phase "
    ">= ? ORDER BY stored_episodes.number DESC"
)
SELECT_NEWEST = (
    "SELECT max(stored_episodes.episode) AS max_1 FROM stored_episodes WHERE stored_episodes.run = ? AND "
    "stored_episodes.phase = ? AND stored_episodes.mode = ? AND stored_episodes.worker = ? AND "
    "stored_episodes.environment = ?"
)
SELECT_LEDGER = "SELECT stored_ledger.commits FROM stored_ledger WHERE stored_ledger.run = ?"
SELECT_HEAD = "SELECT stored_runs.head FROM stored_runs WHERE stored_runs.number = ?"
SELECT_SIGNAL = (
    "SELECT stored_signals.phase, stored_signals.worker, stored_signals.episode, stored_signals.step, "
    "stored_signals.signal, stored_signals.issuer, stored_signals.reason, stored_signals.data, "
    'stored_signals.round, stored_signals."inner" FROM stored_signals WHERE stored_signals.run = ? AND '
    "stored_signals.ordinal = ?"
)
SELECT_TOLERATED = (
    "SELECT stored_signals.number FROM stored_signals WHERE stored_signals.run = ? AND stored_signals.ordinal "
    "= ? AND stored_signals.phase IS ? AND stored_signals.worker IS ? AND stored_signals.episode IS ? AND "
    "stored_signals.data IS ?"
)
SELECT_EVALUATION = (
    "SELECT stored_evaluations.episode, stored_evaluations.metrics, stored_evaluations.brain FROM "
    "stored_evaluations WHERE stored_evaluations.run = ? AND stored_evaluations.phase = ? AND "
    "stored_evaluations.agent = ? AND stored_evaluations.number = ?"
)
SELECT_EVALUATIONS = (
    "SELECT stored_evaluations.phase, stored_evaluations.agent, stored_evaluations.number FROM "
    "stored_evaluations WHERE stored_evaluations.run = ? AND stored_evaluations.phase >= ? ORDER BY "
    "stored_evaluations.phase, stored_evaluations.agent, stored_evaluations.number"
)
SELECT_BRAIN = (
    "SELECT stored_brains.number FROM stored_brains WHERE stored_brains.run = ? AND stored_brains.phase IS ? "
    "AND stored_brains.agent IS ? AND stored_brains.tag IS ? AND stored_brains.episode IS ? AND "
    "stored_brains.updates IS ? AND stored_brains.sha256 IS ? AND stored_brains.path IS ?"
)
SELECT_INCIDENT = (
    "SELECT stored_incidents.number FROM stored_incidents WHERE stored_incidents.run = ? AND "
    "stored_incidents.time = ? AND stored_incidents.name = ? AND stored_incidents.incarnation = ? AND "
    "stored_incidents.kind = ?"
)
SELECT_ALL_RUNS = (
    "SELECT stored_runs.run, stored_runs.uid, stored_runs.experiment, stored_runs.seed, stored_runs.status, "
    "stored_runs.reason, stored_runs.started, stored_runs.ended, stored_runs.document, "
    "stored_runs.plan_digest FROM stored_runs WHERE stored_runs.number = ?"
)
SELECT_ALL_PHASES = (
    "SELECT stored_phases.phase, stored_phases.mode, stored_phases.name, stored_phases.status, "
    "stored_phases.reason, stored_phases.head FROM stored_phases WHERE stored_phases.run = ? ORDER BY "
    "stored_phases.phase, stored_phases.mode"
)
SELECT_ALL_DECLARATIONS = (
    "SELECT stored_declarations.phase, stored_declarations.environment, stored_declarations.agent, "
    "stored_declarations.kind, stored_declarations.position, stored_declarations.id, "
    "stored_declarations.space, stored_declarations.unit, stored_declarations.dtype, "
    "stored_declarations.shape FROM stored_declarations WHERE stored_declarations.run = ? ORDER BY "
    "stored_declarations.number"
)
SELECT_ALL_MEMBERS = (
    "SELECT stored_members.phase, stored_members.kind, stored_members.name, stored_members.environment, "
    "stored_members.position FROM stored_members WHERE stored_members.run = ? ORDER BY stored_members.number"
)
SELECT_ALL_SIGNALS = (
    "SELECT stored_signals.phase, stored_signals.worker, stored_signals.episode, stored_signals.step, "
    "stored_signals.signal, stored_signals.issuer, stored_signals.reason, stored_signals.data, "
    'stored_signals.round, stored_signals."inner", stored_signals.ordinal FROM stored_signals WHERE '
    "stored_signals.run = ? ORDER BY stored_signals.number"
)
SELECT_ALL_BRAINS = (
    "SELECT stored_brains.phase, stored_brains.agent, stored_brains.tag, stored_brains.episode, "
    "stored_brains.updates, stored_brains.created, stored_brains.bytes, stored_brains.sha256, "
    "stored_brains.path FROM stored_brains WHERE stored_brains.run = ? ORDER BY stored_brains.number"
)
SELECT_ALL_EVALUATIONS = (
    "SELECT stored_evaluations.phase, stored_evaluations.agent, stored_evaluations.number, "
    "stored_evaluations.episode, stored_evaluations.metrics, stored_evaluations.brain, "
    "stored_evaluations.completed FROM stored_evaluations WHERE stored_evaluations.run = ? ORDER BY "
    "stored_evaluations.number_of_row"
)
SELECT_ALL_INCIDENTS = (
    "SELECT stored_incidents.time, stored_incidents.name, stored_incidents.incarnation, "
    "stored_incidents.kind, stored_incidents.position, stored_incidents.detail FROM stored_incidents WHERE "
    "stored_incidents.run = ? ORDER BY stored_incidents.number"
)
SELECT_ALL_EPISODES = (
    "SELECT stored_episodes.number, stored_episodes.phase, stored_episodes.mode, stored_episodes.worker, "
    "stored_episodes.environment, stored_episodes.episode, stored_episodes.steps, stored_episodes.terminated, "
    'stored_episodes.truncated, stored_episodes.reason, stored_episodes.round, stored_episodes."inner", '
    "stored_episodes.digest, stored_episodes.predecessor FROM stored_episodes WHERE stored_episodes.run = ? "
    "ORDER BY stored_episodes.number"
)
SELECT_SEGMENTS = (
    "SELECT stored_segments.number, stored_members.kind, stored_members.name FROM stored_segments JOIN "
    "stored_members ON stored_segments.member = stored_members.number WHERE stored_segments.episode = ? ORDER "
    "BY stored_segments.number"
)
SELECT_STEPS = (
    "SELECT stored_steps.step, stored_steps.tick, stored_steps.simtime_ticks, stored_steps.simtime_timestamp, "
    "stored_steps.sensors, stored_steps.setpoints, stored_steps.rewards, stored_steps.terminated, "
    "stored_steps.truncated, stored_steps.world_state FROM stored_steps WHERE stored_steps.segment = ? ORDER "
    "BY stored_steps.step"
)
SELECT_ACTIONS = (
    "SELECT stored_actions.body, stored_actions.step, stored_actions.tick, stored_actions.sensors, "
    "stored_actions.setpoints, stored_actions.proposed, stored_actions.rewards, stored_actions.objective, "
    "stored_actions.terminated, stored_actions.truncated, stored_actions.statistics FROM stored_actions WHERE "
    "stored_actions.segment = ? ORDER BY stored_actions.step, stored_actions.body"
)
SELECT_RETURNS = (
    "SELECT stored_returns.body, stored_returns.steps, stored_returns.return, stored_returns.objective FROM "
    "stored_returns WHERE stored_returns.segment = ? ORDER BY stored_returns.body"
)
SELECT_SEALS = (
    "SELECT stored_seals.position, stored_seals.digests FROM stored_seals WHERE stored_seals.run = ? AND "
    "stored_seals.name = ? ORDER BY stored_seals.position"
)
COUNT_EPISODES = "SELECT count(*) AS count_1 FROM stored_episodes WHERE stored_episodes.run = ?"

CREATE = (
    "CREATE TABLE ganglion_store ( revision INTEGER NOT NULL, PRIMARY KEY (revision) )",
    (
        'CREATE TABLE stored_points ( experiment TEXT NOT NULL, point INTEGER NOT NULL, "row" INTEGER NOT NULL, '
        "repetition INTEGER NOT NULL, seed TEXT NOT NULL, factors TEXT NOT NULL, digest TEXT NOT NULL, state TEXT "
        "NOT NULL, run TEXT, reason TEXT, PRIMARY KEY (experiment, point) ) WITHOUT ROWID"
    ),
    (
        "CREATE TABLE stored_runs ( number INTEGER NOT NULL, run TEXT NOT NULL, uid TEXT NOT NULL, experiment "
        "TEXT NOT NULL, seed TEXT NOT NULL, status TEXT NOT NULL, reason TEXT, started TEXT, ended TEXT, document "
        "TEXT, plan_digest TEXT, head BLOB, PRIMARY KEY (number), UNIQUE (run) )"
    ),
    (
        "CREATE TABLE stored_brains ( number INTEGER NOT NULL, run INTEGER NOT NULL, phase INTEGER NOT NULL, "
        "agent TEXT NOT NULL, tag TEXT NOT NULL, episode INTEGER, updates INTEGER, created TEXT, bytes BIGINT, "
        "sha256 TEXT, path TEXT, PRIMARY KEY (number), FOREIGN KEY(run) REFERENCES stored_runs (number) ON DELETE "
        "CASCADE )"
    ),
    (
        "CREATE TABLE stored_declarations ( number INTEGER NOT NULL, run INTEGER NOT NULL, phase INTEGER NOT "
        "NULL, environment TEXT NOT NULL, agent TEXT NOT NULL, kind TEXT NOT NULL, position INTEGER NOT NULL, id "
        "TEXT NOT NULL, space TEXT, unit TEXT, dtype TEXT, shape TEXT NOT NULL, PRIMARY KEY (number), UNIQUE "
        "(run, phase, environment, agent, kind, position), FOREIGN KEY(run) REFERENCES stored_runs (number) ON "
        "DELETE CASCADE )"
    ),
    (
        "CREATE TABLE stored_episodes ( number INTEGER NOT NULL, run INTEGER NOT NULL, phase INTEGER NOT NULL, "
        "mode TEXT NOT NULL, worker INTEGER NOT NULL, environment TEXT NOT NULL, episode INTEGER NOT NULL, steps "
        "INTEGER NOT NULL, terminated BOOLEAN NOT NULL, truncated BOOLEAN NOT NULL, reason TEXT NOT NULL, round "
        'INTEGER NOT NULL, "inner" INTEGER NOT NULL, digest BLOB NOT NULL, predecessor BLOB NOT NULL, PRIMARY KEY '
        "(number), UNIQUE (run, phase, mode, worker, environment, episode), FOREIGN KEY(run) REFERENCES "
        "stored_runs (number) ON DELETE CASCADE )"
    ),
    (
        "CREATE TABLE stored_evaluations ( number_of_row INTEGER NOT NULL, run INTEGER NOT NULL, phase INTEGER "
        "NOT NULL, agent TEXT NOT NULL, number INTEGER NOT NULL, episode INTEGER, metrics TEXT NOT NULL, brain "
        "TEXT, completed TEXT, PRIMARY KEY (number_of_row), UNIQUE (run, phase, agent, number), FOREIGN KEY(run) "
        "REFERENCES stored_runs (number) ON DELETE CASCADE )"
    ),
    (
        "CREATE TABLE stored_incidents ( number INTEGER NOT NULL, run INTEGER NOT NULL, time TEXT NOT NULL, name "
        "TEXT NOT NULL, incarnation INTEGER, kind TEXT NOT NULL, position TEXT, detail TEXT, PRIMARY KEY "
        "(number), FOREIGN KEY(run) REFERENCES stored_runs (number) ON DELETE CASCADE )"
    ),
    (
        "CREATE TABLE stored_ledger ( run INTEGER NOT NULL, commits INTEGER NOT NULL, PRIMARY KEY (run), FOREIGN "
        "KEY(run) REFERENCES stored_runs (number) ON DELETE CASCADE ) WITHOUT ROWID"
    ),
    (
        "CREATE TABLE stored_members ( number INTEGER NOT NULL, run INTEGER NOT NULL, phase INTEGER NOT NULL, "
        "kind TEXT NOT NULL, name TEXT NOT NULL, environment TEXT, position INTEGER NOT NULL, PRIMARY KEY "
        "(number), UNIQUE (run, phase, kind, name), FOREIGN KEY(run) REFERENCES stored_runs (number) ON DELETE "
        "CASCADE )"
    ),
    (
        "CREATE TABLE stored_phases ( run INTEGER NOT NULL, phase INTEGER NOT NULL, mode TEXT NOT NULL, name TEXT "
        "NOT NULL, status TEXT NOT NULL, reason TEXT, head BLOB, PRIMARY KEY (run, phase, mode), FOREIGN KEY(run) "
        "REFERENCES stored_runs (number) ON DELETE CASCADE ) WITHOUT ROWID"
    ),
    (
        "CREATE TABLE stored_seals ( run INTEGER NOT NULL, name TEXT NOT NULL, position INTEGER NOT NULL, digests "
        "BLOB NOT NULL, PRIMARY KEY (run, name, position), FOREIGN KEY(run) REFERENCES stored_runs (number) ON "
        "DELETE CASCADE ) WITHOUT ROWID"
    ),
    (
        "CREATE TABLE stored_signals ( number INTEGER NOT NULL, run INTEGER NOT NULL, phase INTEGER, worker "
        "INTEGER, episode INTEGER, step INTEGER, signal TEXT NOT NULL, issuer TEXT NOT NULL, reason TEXT, data "
        'TEXT, round INTEGER NOT NULL, "inner" INTEGER NOT NULL, ordinal INTEGER, PRIMARY KEY (number), FOREIGN '
        "KEY(run) REFERENCES stored_runs (number) ON DELETE CASCADE )"
    ),
    (
        "CREATE TABLE stored_segments ( number INTEGER NOT NULL, member INTEGER NOT NULL, episode INTEGER, "
        "PRIMARY KEY (number), FOREIGN KEY(member) REFERENCES stored_members (number) ON DELETE CASCADE, FOREIGN "
        "KEY(episode) REFERENCES stored_episodes (number) ON DELETE CASCADE )"
    ),
    (
        "CREATE TABLE stored_actions ( segment INTEGER NOT NULL, body INTEGER NOT NULL, step INTEGER NOT NULL, "
        "tick BIGINT, sensors BLOB NOT NULL, setpoints BLOB NOT NULL, proposed BLOB, rewards BLOB NOT NULL, "
        "objective FLOAT, terminated BOOLEAN NOT NULL, truncated BOOLEAN NOT NULL, statistics BLOB, PRIMARY KEY "
        "(segment, step, body), FOREIGN KEY(segment) REFERENCES stored_segments (number) ON DELETE CASCADE ) "
        "WITHOUT ROWID"
    ),
    (
        "CREATE TABLE stored_returns ( segment INTEGER NOT NULL, body INTEGER NOT NULL, steps INTEGER NOT NULL, "
        "return FLOAT, objective FLOAT, PRIMARY KEY (segment, body), FOREIGN KEY(segment) REFERENCES "
        "stored_segments (number) ON DELETE CASCADE ) WITHOUT ROWID"
    ),
    (
        "CREATE TABLE stored_steps ( segment INTEGER NOT NULL, step INTEGER NOT NULL, tick BIGINT, simtime_ticks "
        "BIGINT, simtime_timestamp TEXT, sensors BLOB NOT NULL, setpoints BLOB NOT NULL, rewards BLOB NOT NULL, "
        "terminated BOOLEAN NOT NULL, truncated BOOLEAN NOT NULL, world_state BLOB, PRIMARY KEY (segment, step), "
        "FOREIGN KEY(segment) REFERENCES stored_segments (number) ON DELETE CASCADE ) WITHOUT ROWID"
    ),
    "CREATE INDEX ix_stored_brains_run ON stored_brains (run)",
    "CREATE INDEX ix_stored_evaluations_run ON stored_evaluations (run)",
    "CREATE INDEX ix_stored_incidents_run ON stored_incidents (run)",
    "CREATE INDEX ix_stored_signals_run ON stored_signals (run, ordinal)",
    "CREATE INDEX ix_stored_segments_episode ON stored_segments (episode)",
    "CREATE INDEX ix_stored_segments_member ON stored_segments (member)",
    (
        "CREATE VIEW runs AS SELECT stored_runs.run AS run, stored_runs.uid AS uid, stored_runs.experiment AS "
        "experiment, stored_runs.seed AS seed, stored_runs.status AS status, stored_runs.reason AS reason, "
        "stored_runs.started AS started, stored_runs.ended AS ended FROM stored_runs"
    ),
    (
        "CREATE VIEW phases AS SELECT stored_runs.run AS run, stored_phases.phase AS phase, stored_phases.name AS "
        "name, stored_phases.mode AS mode, stored_phases.status AS status, stored_phases.reason AS reason FROM "
        "stored_phases JOIN stored_runs ON stored_phases.run = stored_runs.number"
    ),
    (
        "CREATE VIEW episodes AS SELECT stored_runs.run AS run, stored_episodes.phase AS phase, "
        "stored_episodes.mode AS mode, stored_episodes.worker AS worker, nullif(stored_episodes.environment, '') "
        "AS environment, stored_episodes.episode AS episode, stored_episodes.steps AS steps, "
        "stored_episodes.terminated AS terminated, stored_episodes.truncated AS truncated, stored_episodes.reason "
        "AS reason FROM stored_episodes JOIN stored_runs ON stored_episodes.run = stored_runs.number"
    ),
    (
        "CREATE VIEW steps AS SELECT stored_runs.run AS run, stored_episodes.phase AS phase, stored_episodes.mode "
        "AS mode, stored_episodes.worker AS worker, stored_members.name AS environment, stored_episodes.episode "
        "AS episode, stored_steps.step AS step, stored_steps.tick AS tick, stored_steps.simtime_ticks AS "
        "simtime_ticks, stored_steps.simtime_timestamp AS simtime_timestamp, stored_steps.sensors AS sensors, "
        "stored_steps.setpoints AS setpoints, stored_steps.rewards AS rewards, stored_steps.terminated AS "
        "terminated, stored_steps.truncated AS truncated, stored_steps.world_state AS world_state FROM "
        "stored_steps JOIN stored_segments ON stored_steps.segment = stored_segments.number JOIN stored_episodes "
        "ON stored_segments.episode = stored_episodes.number JOIN stored_members ON stored_segments.member = "
        "stored_members.number JOIN stored_runs ON stored_episodes.run = stored_runs.number"
    ),
    (
        "CREATE VIEW actions AS SELECT stored_runs.run AS run, stored_episodes.phase AS phase, "
        "stored_episodes.mode AS mode, stored_episodes.worker AS worker, stored_members.name AS agent, "
        "stored_members.environment AS environment, stored_actions.body AS body, stored_episodes.episode AS "
        "episode, stored_actions.step AS step, stored_actions.tick AS tick, stored_actions.sensors AS sensors, "
        "stored_actions.setpoints AS setpoints, coalesce(stored_actions.proposed, stored_actions.setpoints) AS "
        "proposed, stored_actions.rewards AS rewards, stored_actions.objective AS objective, "
        "stored_actions.terminated AS terminated, stored_actions.truncated AS truncated, "
        "stored_actions.statistics AS statistics FROM stored_actions JOIN stored_segments ON "
        "stored_actions.segment = stored_segments.number JOIN stored_episodes ON stored_segments.episode = "
        "stored_episodes.number JOIN stored_members ON stored_segments.member = stored_members.number JOIN "
        "stored_runs ON stored_episodes.run = stored_runs.number"
    ),
    (
        "CREATE VIEW signals AS SELECT stored_runs.run AS run, stored_signals.phase AS phase, "
        "stored_signals.worker AS worker, stored_signals.episode AS episode, stored_signals.step AS step, "
        "stored_signals.signal AS signal, stored_signals.issuer AS issuer, stored_signals.reason AS reason, "
        "stored_signals.data AS data FROM stored_signals JOIN stored_runs ON stored_signals.run = "
        "stored_runs.number"
    ),
    (
        "CREATE VIEW brains AS SELECT stored_runs.run AS run, stored_brains.phase AS phase, stored_brains.agent "
        "AS agent, stored_brains.tag AS tag, stored_brains.episode AS episode, stored_brains.updates AS updates, "
        "stored_brains.created AS created, stored_brains.bytes AS bytes, stored_brains.sha256 AS sha256, "
        "stored_brains.path AS path FROM stored_brains JOIN stored_runs ON stored_brains.run = stored_runs.number"
    ),
    (
        "CREATE VIEW evaluations AS SELECT stored_runs.run AS run, stored_evaluations.phase AS phase, "
        "stored_evaluations.agent AS agent, stored_evaluations.number AS number, stored_evaluations.episode AS "
        "episode, stored_evaluations.metrics AS metrics, stored_evaluations.brain AS brain, "
        "stored_evaluations.completed AS completed FROM stored_evaluations JOIN stored_runs ON "
        "stored_evaluations.run = stored_runs.number"
    ),
    (
        "CREATE VIEW declarations AS SELECT stored_runs.run AS run, stored_declarations.phase AS phase, "
        "nullif(stored_declarations.environment, '') AS environment, nullif(stored_declarations.agent, '') AS "
        "agent, stored_declarations.kind AS kind, stored_declarations.position AS position, "
        "stored_declarations.id AS id, stored_declarations.space AS space, stored_declarations.unit AS unit, "
        "stored_declarations.dtype AS dtype, stored_declarations.shape AS shape FROM stored_declarations JOIN "
        "stored_runs ON stored_declarations.run = stored_runs.number"
    ),
    (
        "CREATE VIEW incidents AS SELECT stored_runs.run AS run, stored_incidents.time AS time, "
        "stored_incidents.name AS name, stored_incidents.incarnation AS incarnation, stored_incidents.kind AS "
        "kind, stored_incidents.position AS position, stored_incidents.detail AS detail FROM stored_incidents "
        "JOIN stored_runs ON stored_incidents.run = stored_runs.number"
    ),
    (
        "CREATE VIEW returns AS SELECT stored_runs.run AS run, stored_episodes.phase AS phase, "
        "stored_episodes.mode AS mode, stored_episodes.worker AS worker, stored_members.name AS agent, "
        "stored_members.environment AS environment, stored_returns.body AS body, stored_episodes.episode AS "
        "episode, stored_returns.steps AS steps, stored_returns.return AS return, stored_returns.objective AS "
        "objective FROM stored_returns JOIN stored_segments ON stored_returns.segment = stored_segments.number "
        "JOIN stored_episodes ON stored_segments.episode = stored_episodes.number JOIN stored_members ON "
        "stored_segments.member = stored_members.number JOIN stored_runs ON stored_episodes.run = "
        "stored_runs.number"
    ),
    (
        "CREATE VIEW points AS SELECT stored_points.run AS run, stored_points.experiment AS experiment, "
        'stored_points.point AS point, stored_points."row" AS "row", stored_points.repetition AS repetition, '
        "stored_points.seed AS seed, stored_points.state AS state, stored_points.reason AS reason, "
        "stored_points.factors AS factors, stored_points.digest AS digest FROM stored_points LEFT OUTER JOIN "
        "stored_runs ON stored_points.run = stored_runs.run"
    ),
)
