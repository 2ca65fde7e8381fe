"""Relays: one broker on each node of a launcher, so that what its processes say to each other stays there."""

from __future__ import annotations

import asyncio
import json
import secrets
import signal
from typing import TYPE_CHECKING, Any

from ganglion.errors import LaunchError
from ganglion.limits import DEADLINES_S
from ganglion.sdk.launcher import LaunchSpec
from ganglion.supervisor.connection import sha256
from ganglion.supervisor.launch.process import Process, end
from ganglion.transport.curve import ClientKeys, new_pair
from ganglion.wire.messages import Admit
from ganglion.wire.name import KERNEL, Role

if TYPE_CHECKING:
    from ganglion.supervisor.supervisor import Supervisor


class _Relay(Process):
    """Be one relay; `answer` is the first line that it prints, which says where it listens."""

    def __init__(self, name: str, supervisor: Supervisor, ended: Any) -> None:
        logs = supervisor.settings.logs
        super().__init__(name, None if logs is None else logs / f"{name.replace('/', '-')}.out", ended)
        self.answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._line = b""

    def printed(self, data: bytes) -> None:
        """Take what it has printed."""
        super().printed(data)
        if not self.answer.done():
            self._line += data
            for line in self._line.split(b"\n")[:-1]:
                if line.startswith((b'{"endpoints"', b'{"error"')) and not self.answer.done():
                    self.answer.set_result(json.loads(line))


class Relays:
    """Start a relay on a node when the first process there is started, another one when it was lost.

    Each joins the kernel by a key of its own, and by that key the processes of its node. One that is lost is the loss
    of all of them.
    """

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._starting: dict[str, asyncio.Task[str]] = {}  # node -> where its relay listens, once it does
        self._count = 0
        self.living: dict[str, Process] = {}  # by node
        self.admissions: dict[str, Admit] = {}  # of those that live, by node

    async def endpoint(self, node: str) -> str:
        """Return where the relay of a node listens there; LaunchError says why there is none."""
        if node not in self._starting:
            self._starting[node] = asyncio.ensure_future(self._start(node))
        starting = self._starting[node]
        try:
            return await asyncio.shield(starting)
        except BaseException:
            if starting.done() and self._starting.get(node) is starting:
                del self._starting[node]
            raise

    async def close(self) -> None:
        """End all relays; no process of theirs lives any more."""
        for process in self.living.values():
            process.signal(signal.SIGTERM)
        await asyncio.gather(*map(end, list(self.living.values())))

    async def _start(self, node: str) -> str:
        supervisor, keys, token = self._supervisor, new_pair(), secrets.token_urlsafe(32)
        self._count += 1
        name = f"relay/{self._count}"
        remote = supervisor.remote
        assert remote is not None, "a launcher with an address has an encrypted endpoint"
        admit = self.admissions[node] = Admit(name, Role.RELAY.value, "", sha256(token), curve_key=keys.public)
        variables = {
            **ClientKeys(remote.curve["server_key"], keys.public, keys.secret).variables(),
            "GANGLION_ENDPOINT": remote.endpoint,
            "GANGLION_NAME": name,
            "GANGLION_TOKEN": token,
        }
        process = self.living[node] = _Relay(name, supervisor, lambda process: self._ended(node, process))
        try:
            await supervisor.bus.ask(KERNEL, "kernel.admit", admit)
            spec = LaunchSpec(name, variables, module="ganglion.transport.relay", role=Role.RELAY.value, place=node)
            await process.start(supervisor.launcher, spec)
            waits: list[asyncio.Future[Any]] = [process.answer, asyncio.ensure_future(process.ended.wait())]
            await asyncio.wait(waits, timeout=DEADLINES_S["join"], return_when=asyncio.FIRST_COMPLETED)
            waits[1].cancel()
            found = process.answer.result() if process.answer.done() else {}
            if "endpoints" not in found:
                process.signal(signal.SIGKILL)
                how = process.end_text if process.ended.is_set() else "it says nothing"
                where = f"on {process.host}" if process.host else "here"
                raise LaunchError(f"the relay {where} does not come up: {found.get('error', how)}")
        except BaseException:
            self._forget(node, process)
            raise
        return str(found["endpoints"][0])

    def _forget(self, node: str, process: Process) -> None:
        if self.living.get(node) is process:
            del self.living[node], self.admissions[node], self._starting[node]

    def _ended(self, node: str, process: Process) -> None:
        """End the processes of a node whose relay is lost: nobody hears them any more."""
        self._forget(node, process)
        self._supervisor.spawn(self._supervisor.withdraw([process.name]))  # its key opens nothing any more
        for run in self._supervisor.runs.values():
            for member in run.members.values():
                if member.process is not None and member.node == node:
                    member.process.kill(process.why or f"its relay on {process.host or 'this machine'} was lost")
