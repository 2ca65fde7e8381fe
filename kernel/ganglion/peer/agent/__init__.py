"""AGENTS: the processes of muscles, brains and tables, and the messages about decisions between these processes."""
