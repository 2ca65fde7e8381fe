"""`ganglion attach`: join a plugin to a kernel as a process of its own, and stay until it is told to leave."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ganglion.cli.settings import Settings
from ganglion.errors import PeerLost, RemoteProtocolError, UsageError

if TYPE_CHECKING:
    from ganglion.supervisor.connection import Connection

__all__ = ["command"]

_AGAIN_S = 0.5  # between two tries while nobody waits for us yet
_TELL_S = 5.0  # between two lines that say so


@click.command("attach")
@click.argument("role", type=click.Choice(["environment"]))
@click.argument("name")
@click.option(
    "--as", "uid", metavar="UID", help="The environment of the document whose place to take. [NAME]"
)
@click.option("--wait", is_flag=True, help="Try again until a run waits for this environment.")
@click.option(
    "--allow", multiple=True, metavar="PACKAGE", help="A package that NAME may be an import path into."
)
@click.pass_obj
def command(
    settings: Settings, role: str, name: str, uid: str | None, wait: bool, allow: tuple[str, ...]
) -> int:
    """Join the plugin NAME to a kernel, as the environment that a document declares with `attach: true`.

    The parameters come from the document. Ends with status 0 when the run tells it to leave.
    """
    told_s = 0.0
    while True:
        reason = f"no kernel is running; looked below {settings.results} and the runtime folder"
        for connection in _connections(settings):
            try:
                return _serve(connection, role, name, uid or name, allow)
            except (RemoteProtocolError, PeerLost) as error:
                reason = str(error)
        if not wait:
            raise RemoteProtocolError(reason)
        now_s = time.monotonic()
        if now_s - told_s >= _TELL_S:
            click.echo(f"waiting for a run that awaits {uid or name!r}: {reason}", err=True)
            told_s = now_s
        time.sleep(_AGAIN_S)


def _connections(settings: Settings) -> Sequence[Connection]:
    """Return the kernels to try: the one that was named, else all that are alive, newest first."""
    from ganglion.supervisor.connection import find_connections, read_connection

    if settings.kernel is not None:
        try:
            return [read_connection(settings.kernel)]
        except UsageError:
            return []
    return [connection for _, connection in find_connections(settings.results)]


def _serve(connection: Connection, role: str, name: str, uid: str, allow: Sequence[str]) -> int:
    from ganglion.peer.main import serve

    given = [*allow, *filter(None, [os.environ.get("GANGLION_ALLOW")])]
    return serve(
        {
            "GANGLION_ENDPOINT": connection.endpoint,
            "GANGLION_NAME": uid,
            "GANGLION_TOKEN": connection.attach_token,
            "GANGLION_ROLE": role,
            "GANGLION_PLUGIN": name,
            "GANGLION_FOLDER": str(Path.cwd()),
            "GANGLION_ALLOW": ",".join(given),
        }
    )
