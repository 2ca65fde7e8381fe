"""A learner that has only seen recordings acts as well as who was recorded: from store, each format, or a table."""

from __future__ import annotations

from pathlib import Path

import pytest
from system.command import ganglion
from system.results import table

pytestmark = [pytest.mark.slow, pytest.mark.long]

TEACHER = """
from ganglion.sdk import Muscle


class Balance(Muscle):
    def propose_actions(self, sensors, actuators):
        position, speed, angle, turning = sensors[0].value.tolist()
        actuators[0].value = int(angle + 0.5 * turning + 0.05 * position + 0.1 * speed > 0)
        return actuators
"""
DOCUMENT = """
uid: {uid}
seed: 1
version: "0.1"
run_config: {{condition: vanilla}}
schedule:
  - one:
      environments: [{{environment: {{uid: field, name: gymnasium, params: {{id: CartPole-v1}}}}}}]
      agents:
        - name: scout
          brain: {brain}
          muscle: {muscle}
          objective: aggregate_rewards
          sensors: [field.observation]
          actuators: [field.action]
          replay: {replay}
      tables: {tables}
      simulation: {{name: vanilla, conditions: [{{name: max_steps, params: {{steps: {steps}}}}}]}}
      phase_config: {{mode: {mode}, episodes: {episodes}}}
"""
LIVE = """
  - live:
      simulation: {name: vanilla, conditions: []}
      phase_config: {mode: test, episodes: 10}
"""
SOURCES = ["store", "table", "minari", "minari-parquet", "parquet", "arrow"]
TABLE = "[{uid: demos, name: pool, params: {capacity: {steps: 5000}, source: {experiment_run: teach}}, serve: [scout]}]"


@pytest.mark.parametrize("form", SOURCES)
def test_a_learner_learns_from_recordings_alone(tmp_path: Path, form: str) -> None:
    """PPO, which clones what was done, reaches 80 % of the teacher's return after one step of its own."""
    pytest.importorskip("torch", reason="torch is not installed: scripts/setup --with torch")
    (tmp_path / "teacher.py").write_text(TEACHER)
    seen = {
        "tables": "[]",
        "brain": "none",
        "muscle": "'teacher:Balance'",
        "replay": "[]",
        "steps": 500,
        "mode": "test",
    }
    (tmp_path / "teach.yml").write_text(DOCUMENT.format(uid="teach", episodes=12, **seen))
    assert 0 == ganglion(tmp_path, "run", "-q", "teach.yml", span_s=900.0).returncode
    replay = "[{table: demos}]" if form == "table" else "[{experiment_run: teach}]"
    if form not in ("store", "table"):
        assert 0 == ganglion(tmp_path, "export", "teach", "--to", "tapes", "--format", form, span_s=900.0).returncode
        replay = "[{path: tapes}]"
    tables = TABLE if form == "table" else "[]"
    own = {"tables": tables, "brain": "ppo", "muscle": "ppo", "replay": replay, "steps": 1, "mode": "train"}
    (tmp_path / "learn.yml").write_text(DOCUMENT.format(uid="learn", episodes=1, **own) + LIVE)
    done = ganglion(tmp_path, "run", "-q", "learn.yml", span_s=900.0)
    assert 0 == done.returncode, done.stderr

    taught = [row["return"] for row in table(tmp_path, "returns", "teach")]
    live = [row["return"] for row in table(tmp_path, "returns", "learn", "phase = 1")]
    assert 400 <= sum(taught) / len(taught)
    assert 0.8 * sum(taught) / len(taught) <= sum(live) / len(live)
