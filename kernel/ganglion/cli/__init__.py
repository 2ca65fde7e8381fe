"""COMMANDS: the verbs of the command line; modules hold those that belong together, and decide nothing."""
