"""Sarsa: values of discrete actions, linear in a Fourier basis, learned on-policy with eligibility traces."""
