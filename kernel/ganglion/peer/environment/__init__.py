"""ENVIRONMENTS: the process of one environment, its bodies, its declarations and replies."""
