"""DQN: values of discrete actions by a perceptron, learned from a replay with double targets."""
