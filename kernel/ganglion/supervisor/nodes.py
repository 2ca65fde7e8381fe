"""Nodes: a relay on each other machine, and the transfer of models to nodes without the results folder."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ganglion.errors import LaunchError, RemoteProtocolError, StoreError
from ganglion.limits import DEADLINES_S, MODEL_BYTES, MODEL_PIECE_BYTES
from ganglion.run.plan import sources_of
from ganglion.sdk.launcher import LaunchSpec
from ganglion.sdk.naming import file_name
from ganglion.supervisor.connection import sha256
from ganglion.supervisor.folder import BRAINS, file_digest, open_regular
from ganglion.supervisor.launch.process import Process, end
from ganglion.synced import sync
from ganglion.transport.curve import ClientKeys, new_pair
from ganglion.wire.messages import Admit, Done, ModelAsked, ModelKept, ModelPiece
from ganglion.wire.name import KERNEL, Role

if TYPE_CHECKING:
    from ganglion.run.plan import Plan
    from ganglion.run.plan import Process as Place
    from ganglion.supervisor.runs import Run
    from ganglion.supervisor.supervisor import Supervisor


class _Relay(Process):
    """Run one relay; `answer` is the first line that it prints, with its endpoint or its error."""

    def __init__(self, name: str, supervisor: Supervisor, ended: Any) -> None:
        logs = supervisor.settings.logs
        super().__init__(name, None if logs is None else logs / f"{name.replace('/', '-')}.out", ended)
        self.answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._line = b""

    def printed(self, data: bytes) -> None:
        """Take in output of the relay."""
        super().printed(data)
        if not self.answer.done():
            self._line += data
            for line in self._line.split(b"\n")[:-1]:
                if line.startswith((b'{"endpoints"', b'{"error"')) and not self.answer.done():
                    self.answer.set_result(json.loads(line))


class Relays:
    """Start a relay on a node before the first process there, and a new one after a loss.

    Each relay joins the kernel with its own key, and the processes of its node join through it. The loss of a relay is
    the loss of all these processes.
    """

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._starting: dict[str, asyncio.Task[str]] = {}  # node -> endpoint of its relay
        self._count = 0
        self.living: dict[str, Process] = {}  # by node
        self.admissions: dict[str, Admit] = {}  # of the living relays, by node

    async def endpoint(self, node: str) -> str:
        """Return the endpoint of a node's relay; LaunchError if the relay cannot be started."""
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
        """Stop all relays; their processes must have ended."""
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
                how = f"it {process.end_text}" if process.ended.is_set() else "it says nothing"
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
        """End the processes of a node whose relay is lost, because their connection is lost with it."""
        self._forget(node, process)
        self._supervisor.spawn(self._supervisor.withdraw([process.name]))  # revoke the relay's key
        for run in self._supervisor.runs.values():
            for member in run.members.values():
                if member.process.node == node:
                    member.process.kill(process.why or f"its relay on {process.host or 'this machine'} was lost")


_FILES = "model*.npz"


class Lending:
    """Answer `kernel.model` and `kernel.keep`; the answers are not kept, because both calls are safe to repeat."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor

    async def give(self, caller: str, asked: ModelAsked) -> ModelPiece:
        """Return the models in a folder, or a piece of one; RemoteProtocolError if it is no model of the run."""
        run, _ = self._place_of(caller)
        if not is_lent(run.plan, asked.folder):
            raise RemoteProtocolError(
                "kernel.model: expected <run>/brains/<phase>/<agent>, or a folder that the document names as base or "
                f"models, found {asked.folder!r:.300}"
            )
        return await asyncio.to_thread(piece_of, asked)

    async def take(self, caller: str, kept: ModelKept) -> Done:
        """Write a piece of a brain's model; RemoteProtocolError if the folder is not the brain's own, StoreError."""
        run, place = self._place_of(caller)
        own = self._supervisor.settings.results.resolve() / run.id / BRAINS
        document = Path(run.plan.folder or ".")
        agents = [a for phase in run.plan.phases for a in phase.agents if a.name == place.uid and a.models]
        second = [(document / str(agent.models)).absolute() for agent in agents]
        folder = Path(kept.folder)
        base, phase, name = folder.parent.parent, folder.parent.name, folder.name
        there = base == own or (base.parent in second and base.name.partition("+")[0] == run.id)
        if place.role is not Role.BRAIN or ".." in folder.parts or not (there and phase.isdigit()):
            raise RemoteProtocolError(f"kernel.keep: expected a folder of your models, found {kept.folder!r:.300}")
        if name != file_name(place.uid or "") or not _is_model(kept.name):
            raise RemoteProtocolError(f"kernel.keep: expected a model of {place.label}, found {kept.name!r:.100}")
        await asyncio.to_thread(write_piece, folder, kept)
        return Done()

    def _place_of(self, caller: str) -> tuple[Run, Place]:
        run = self._supervisor.runs.get(caller.partition("/")[0])
        member = None if run is None else run.members.get(caller)
        if run is None or member is None or self._supervisor.launcher.shares_files:
            raise RemoteProtocolError("expected a participant of a run that does not see the folder of results")
        return run, member.place


def is_lent(plan: Plan, folder: str) -> bool:
    """Return True for a folder of a run's own models, or below one in which the plan looks up models."""
    path, agents = Path(folder), [(phase, agent) for phase in plan.phases for agent in phase.agents]
    wishes = [agent.load for _, agent in agents]
    wishes += [source.policy.load for phase, agent in agents for source in sources_of(phase.seats, agent.name)]
    named = [agent.models for _, agent in agents] + [wish.get("base") for wish in wishes if isinstance(wish, dict)]
    places = [(Path(plan.folder or ".") / one).absolute() for one in named if one and "://" not in one]
    below = [path.relative_to(place) for place in places if path.is_relative_to(place)]
    if any(".." not in rest.parts for rest in below):
        return True
    own = path.parts[-3:-1]  # the store also returns results of other folders
    return path.is_absolute() and ".." not in path.parts and own[:1] == (BRAINS,) and own[-1].isdigit()


def _is_model(name: str) -> bool:
    return Path(name).name == name and Path(name).match(_FILES)


def piece_of(asked: ModelAsked) -> ModelPiece:
    """Return the models in a folder, or a piece of one; RemoteProtocolError for an invalid name, StoreError."""
    folder = Path(asked.folder)
    try:
        if not asked.name:
            files = sorted(folder.glob(_FILES))
            return ModelPiece([[path.name, file_digest(path), path.stat().st_size] for path in files])
        if not _is_model(asked.name):
            raise RemoteProtocolError(f"kernel.model: expected the name of a model, found {asked.name!r:.100}")
        with open_regular(folder / asked.name) as file:
            file.seek(asked.offset)
            return ModelPiece([], file.read(MODEL_PIECE_BYTES))
    except (OSError, ValueError) as error:
        raise StoreError(f"model {folder / asked.name}: cannot be read: {error}") from error


def write_piece(folder: Path, kept: ModelKept) -> None:
    """Write a piece into a temporary file; the last piece moves the file to its place if its digest is correct."""
    path, part = folder / kept.name, folder / f".{kept.name}.part"
    size = kept.offset + len(kept.data)
    if not 0 <= kept.offset < size <= kept.size_bytes <= 2 * MODEL_BYTES:
        raise RemoteProtocolError(f"kernel.keep: expected a piece of {kept.size_bytes} bytes, found one up to {size}")
    try:
        if path.is_file() and not part.exists() and file_digest(path) == kept.sha256:
            return  # a repeated call: the file is complete
        folder.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | (0 if kept.offset else os.O_TRUNC)
        descriptor = os.open(part, flags, 0o666)
        try:
            os.pwrite(descriptor, kept.data, kept.offset)
        finally:
            os.close(descriptor)
        if size < kept.size_bytes:
            return
        found = file_digest(part)
        if found != kept.sha256:
            part.unlink()
            raise StoreError(f"model {path}: expected SHA-256 {kept.sha256}, found {found}")
        sync(part)
        part.rename(path)
        sync(folder)
    except OSError as error:
        raise StoreError(f"model {path}: cannot be written: {error}") from error
