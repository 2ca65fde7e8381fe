"""Ganglion as its users have it: the command, started, read and ended by tests; and what it leaves behind."""
