"""SAC: a squashed Gaussian policy that keeps its entropy, learned from a replay with two critics."""
