"""COMMANDS: one module per command, without logic of its own."""
