"""Algorithms of Stable-Baselines3 as brains of Ganglion."""
