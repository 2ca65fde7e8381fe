"""`ganglion serve`: the page of a results folder."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import click

from ganglion.cli.extension import COMMAND, RunEvent, UsageError
from ganglion.cli.settings import Settings

if TYPE_CHECKING:
    from types import FrameType

PORT = 8642
"""The default port of the page."""

END_S = 2
"""The longest wait for open answers at the end."""

BESIDE_END_S = 5.0
"""The longest wait for a page beside a command to end."""

_HERE = ("127.0.0.1", "localhost", "[::1]")


@click.command("serve")
@click.option("--port", type=click.IntRange(0, 65_535), default=PORT, metavar="N", help=f"0: any that is free [{PORT}]")
@click.option("--host", default="127.0.0.1", metavar="ADDRESS", help="where to listen [127.0.0.1]")
@click.option("--name", "names", multiple=True, metavar="HOST", help="another name by which browsers ask for the page")
@click.option("--allow-submit", is_flag=True, help="documents may be handed to the daemon from the page")
@click.option("--attached", is_flag=True, hidden=True, help="end with standard input")
@click.pass_obj
def serve(settings: Settings, port: int, host: str, names: tuple[str, ...], allow_submit: bool, attached: bool) -> int:
    """Show the runs of the results folder in a browser: live, and later.

    The printed address opens the page. The address holds a secret; requests without the secret are refused.
    """
    if host not in _HERE:
        click.echo(
            f"warning: the page listens on {host}, without encryption: who reads the traffic can command your runs",
            err=True,
        )
    if attached:
        threading.Thread(target=_end_with_input, daemon=True).start()
    with _bound(host, port) as listening:
        port = listening.getsockname()[1]
        known = [f"{name}:{port}" for name in dict.fromkeys((host, *_HERE, *names))]
        asyncio.run(_serve(settings, listening, port, known, allow_submit))
    return 0


@contextlib.contextmanager
def beside(settings: Settings, wanted: bool) -> Iterator[Callable[[str, RunEvent], None]]:
    """Show the page of the results during a block; print its address on standard error."""
    place = ["--results", str(settings.results), *([] if settings.store is None else ["--store", settings.store])]
    words = [sys.executable, "-P", "-c", COMMAND, *place, "serve", "--port", "0", "--attached"]
    page = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=sys.stderr.fileno(), start_new_session=True)
    try:
        yield lambda run, news: None  # the page asks the kernel itself
    finally:
        assert page.stdin is not None
        page.stdin.close()  # the page ends with its standard input, also if this process is killed
        try:
            page.wait(BESIDE_END_S)
        except subprocess.TimeoutExpired:
            page.kill()
            page.wait()


def _end_with_input() -> None:
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host.strip("[]"), port))
    except OSError as error:
        listening.close()
        raise UsageError(f"--port: {host}:{port} is not free: {error.strerror}; --port 0 takes any") from error
    return listening


async def _serve(settings: Settings, listening: socket.socket, port: int, hosts: list[str], allow_submit: bool) -> None:
    import uvicorn

    from ganglion_web.app import Page
    from ganglion_web.guard import Guard, token_of

    settings.results.mkdir(parents=True, exist_ok=True)
    token = token_of(settings.results)
    page = Page(settings, allow_submit)
    loop = asyncio.get_running_loop()

    class Server(uvicorn.Server):
        """Announce the begin, and end the streams at once when the server is to end."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            click.echo(f"the page is at http://{hosts[0]}/?token={token}")

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            super().handle_exit(sig, frame)
            loop.call_soon_threadsafe(page.closing.set)

    config = uvicorn.Config(
        Guard(page.app(), token, hosts, port),
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=END_S,
        lifespan="on",
    )
    await Server(config).serve(sockets=[listening])
