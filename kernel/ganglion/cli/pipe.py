"""`ganglion pipe`: join a program that speaks in lines to a kernel, and stay until it is told to leave."""

from __future__ import annotations

import os

import click

from ganglion.errors import UsageError


@click.command("pipe", context_settings={"ignore_unknown_options": True})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
def command(command: tuple[str, ...]) -> int:
    """Join the program COMMAND, which reads and writes one JSON object per line, to a kernel.

    The place is in the variables that `ganglion kernel env` prints; PROTOCOL.md, "The pipe", describes the lines.
    """
    for name in ("GANGLION_ENDPOINT", "GANGLION_NAME", "GANGLION_TOKEN", "GANGLION_ROLE"):
        if not os.environ.get(name):
            raise UsageError(f"expected the variable {name}, found nothing; see ganglion kernel env --help")
    from ganglion.peer.main import main

    return main({**os.environ, "GANGLION_PLUGIN": "lines"}, command)
