"""PPO: a policy and values by perceptrons, improved by clipped steps from rollouts."""
