"""COMMANDS: the verbs of the command line; each module holds related commands and decides nothing."""
