"""PPO of Stable-Baselines3 on a task, without any bus: `reference_sb3.py TASK STEPS`, says how many steps it made."""

from __future__ import annotations

import sys

import torch
from stable_baselines3 import PPO


def main() -> None:
    """Train with the parameters that our PPO has by default."""
    torch.set_num_threads(1)
    model = PPO(
        "MlpPolicy",
        sys.argv[1],
        learning_rate=3e-4,
        n_steps=2048,
        batch_size=64,
        n_epochs=10,
        gamma=0.99,
        gae_lambda=0.95,
        clip_range=0.2,
        ent_coef=0.0,
        vf_coef=0.5,
        max_grad_norm=0.5,
        policy_kwargs={"net_arch": [64, 64], "activation_fn": torch.nn.Tanh},
        device="cpu",
        seed=1,
    )
    model.learn(int(sys.argv[2]))
    print(model.num_timesteps)


if __name__ == "__main__":
    main()
