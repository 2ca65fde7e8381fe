"""The options by which programs on other machines are let in: where to listen, and with which protection."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ganglion.errors import LaunchError, UsageError

if TYPE_CHECKING:
    from ganglion.supervisor.supervisor import Supervisor

__all__ = ["checked", "opened", "options", "places"]

Command = TypeVar("Command", bound=Callable[..., Any])


def options(command: Command) -> Command:
    """Give a command `--bind` and `--no-curve`, as its arguments `bind` and `no_curve`."""
    bind = click.option(
        "--bind",
        metavar="ENDPOINT",
        envvar="GANGLION_BIND",
        help="listen for programs on other machines too, encrypted: tcp://0.0.0.0:5555",
    )
    no_curve = click.option(
        "--no-curve", is_flag=True, help="without encryption; for ipc:// and loopback addresses alone"
    )
    return bind(no_curve(command))


def checked(bind: str | None, no_curve: bool) -> dict[str, str]:
    """Return what a supervisor is told about `--bind`; UsageError if that would be open to other machines.

    The result has `remote`, where connections are encrypted, or `bind`, where the system keeps others away, or
    nothing: there is an endpoint for this machine in any case.
    """
    if bind is None:
        if no_curve:
            raise UsageError("--no-curve: expected --bind with a loopback address beside it, found none")
        return {}
    from ganglion.transport.endpoint import parse_endpoint

    try:
        endpoint = parse_endpoint(bind)
    except LaunchError as error:
        raise UsageError(f"--bind: {error}") from error
    if no_curve and not endpoint.local:
        raise UsageError(
            f"--bind {bind} --no-curve: expected ipc:// or a loopback address; others are always encrypted"
        )
    return {"bind": bind} if no_curve or endpoint.path else {"remote": bind}


async def opened(supervisor: Supervisor) -> None:
    """Open a supervisor; UsageError if it cannot be, for nothing was started then."""
    try:
        await supervisor.open()
    except LaunchError as error:
        raise UsageError(str(error)) from error


def places(supervisor: Supervisor) -> list[str]:
    """Return in words where a supervisor that is open can be reached, and the files that say so."""
    connection = supervisor.connection
    assert connection is not None
    lines = [
        f"endpoint {connection.endpoint}" + (f" and {connection.tcp}" if connection.tcp else ""),
        f"connection file {supervisor.connection_file}",
    ]
    if supervisor.remote_file is not None:
        lines.append(f"connection file for other machines {supervisor.remote_file}")
    return lines
