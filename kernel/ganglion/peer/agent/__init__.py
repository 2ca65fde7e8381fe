"""AGENTS: the processes of muscles, brains and tables, and decisions on their way between them."""
