"""Examples: documents that train a learner on a known task, and then test it."""

from __future__ import annotations

from pathlib import Path

__all__ = ["DQN_CARTPOLE", "PPO_CARTPOLE", "PPO_RACE", "SAC_PENDULUM"]

_FOLDER = Path(__file__).parent
DQN_CARTPOLE = _FOLDER / "dqn" / "cartpole.yml"
PPO_CARTPOLE = _FOLDER / "ppo" / "cartpole.yml"
PPO_RACE = _FOLDER / "ppo" / "race.yml"
SAC_PENDULUM = _FOLDER / "sac" / "pendulum.yml"
