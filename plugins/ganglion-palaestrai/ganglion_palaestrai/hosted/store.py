"""Store: what palaestrAI's store would hold of an evaluation, in memory, for brains that look for it there."""

from __future__ import annotations

import os
from typing import Any

import sqlalchemy
from palaestrai.core import RuntimeConfig
from palaestrai.store import database_model as tables
from palaestrai.store import session
from palaestrai.types import Mode
from sqlalchemy.orm import Session, sessionmaker
from sqlalchemy.pool import StaticPool

from ganglion.sdk import Evaluation

__all__ = ["shown"]

_URI = "sqlite://"


def shown(agent: str, evaluation: Evaluation) -> dict[str, Any]:
    """Let every session of palaestrAI in this process find the episodes of an evaluation, and those of no other one.

    Each decision is a row with the mean objective of its episode, and without readings and setpoints.

    Returns:
        What a brain looks for: the arguments of its `evaluate_rollouts`.
    """
    made = session._session_makers.get(os.getpid())
    if made is None or str(made[0].url) != _URI:
        engine = sqlalchemy.create_engine(_URI, poolclass=StaticPool)
        tables.Base.metadata.create_all(engine)
        with Session(engine) as rows:
            run = tables.ExperimentRun(uid="ganglion", experiment=tables.Experiment(name="ganglion"))
            instance = tables.ExperimentRunInstance(uid="ganglion", experiment_run=run)
            phase = tables.ExperimentRunPhase(
                uid="ganglion", number=0, mode="evaluate", experiment_run_instance=instance
            )
            rows.add(tables.Agent(uid=agent, name=agent, experiment_run_phase=phase))
            rows.commit()
        RuntimeConfig().load({"store_uri": _URI})
        session._session_makers[os.getpid()] = made = (engine, sessionmaker(bind=engine))
    with Session(made[0]) as rows:
        rows.execute(sqlalchemy.delete(tables.MuscleAction))
        rows.execute(
            sqlalchemy.insert(tables.MuscleAction),
            [
                {
                    "agent_id": 1,
                    "episode": evaluation.number,
                    "rollout_worker_uid": f"{agent}-{episode.worker}",
                    "objective": episode.objective_mean,
                    "actuator_setpoints": [],
                    "simtimes": {},
                    "mode": Mode.EVALUATE,
                    "decision_index": index,
                    "done": index == episode.steps - 1,
                }
                for episode in evaluation.episodes
                for index in range(episode.steps)
            ],
        )
        rows.commit()
    return {
        "experiment_run_uid": "ganglion",
        "experiment_run_instance_uid": "ganglion",
        "experiment_run_phase": 0,
        "agent_name": agent,
        "episode": evaluation.number,
    }
