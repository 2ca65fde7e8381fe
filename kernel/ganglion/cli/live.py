"""Living kernels for commands: which one is meant, found by its connection file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ganglion.cli.settings import Settings

if TYPE_CHECKING:
    from ganglion.supervisor.connection import Connection

__all__ = ["connection_of"]


def connection_of(settings: Settings, daemon: bool = False) -> Connection:
    """Return the connection of `--kernel FILE`, else of the newest living kernel (only daemons, if asked for).

    PeerLost lists the places that were looked at when there is none.
    """
    from ganglion.supervisor.operator import find_kernel

    return find_kernel(settings.results, settings.kernel, daemon)[1]
