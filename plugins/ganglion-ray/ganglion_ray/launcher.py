"""The launcher: asks Ray for a keeper of each process, and hears from it."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import secrets
import signal
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ganglion.sdk import Launched, Launcher, LaunchError, LaunchSpec, LaunchWatch

_ASK_S = 5.0  # for the head of a cluster to answer
_START_S = 60.0  # for Ray to start a keeper
_AT_ONCE_LEAST = 4  # keepers that are being started; where the cluster has more processors, as many as these
_FORGET_S = 60.0  # after the last process of a run its nodes forget it
_GONE_S = 5.0  # for keepers to end at the end
_STORE_BYTES = 80_000_000  # of shared memory: a run puts nothing there
_ROLES = ("environment", "muscle", "brain", "controller", "table")
_PLACES = ("worker", "pack", "spread")
_CHECKED = ("cpu", "gpu")
_KINDS = {str: "text", bool: "true or false"}


@dataclasses.dataclass(frozen=True, slots=True)
class Wants:
    """Say what a process of a role needs, and where it is to be.

    `place` is `worker` (beside the others of its worker; workers are spread over the nodes), `pack` (where there is
    room, on few nodes) or `spread` (on many).
    """

    cpu: float = 0.0
    gpu: float = 0.0
    resources: Mapping[str, float] = dataclasses.field(default_factory=dict)
    place: str = "worker"

    @property
    def amounts(self) -> dict[str, float]:
        """Return all amounts by the names that Ray has for them."""
        amounts = {"CPU": self.cpu, "GPU": self.gpu, **self.resources}
        return {name: amount for name, amount in amounts.items() if amount}


def wants_of(roles: object) -> dict[str, Wants]:
    """Return what is said of each role; ValueError says what is wrong with it, and where."""
    if not isinstance(roles, Mapping):
        raise ValueError(f"roles: expected a map, found {roles!r:.80}")
    found = dict.fromkeys(_ROLES, Wants())
    for role, given in roles.items():
        if role not in _ROLES:
            raise ValueError(f"roles: expected one of {', '.join(_ROLES)}, found {role!r:.80}")
        if not isinstance(given, Mapping):
            raise ValueError(f"roles.{role}: expected a map, found {given!r:.80}")
        known = {field.name for field in dataclasses.fields(Wants)}
        for key in given:
            if key not in known:
                raise ValueError(f"roles.{role}: expected cpu, gpu, resources or place, found {key!r:.80}")
        if given.get("place", "worker") not in _PLACES:
            raise ValueError(f"roles.{role}.place: expected one of {', '.join(_PLACES)}, found {given['place']!r:.80}")
        named = given.get("resources", {})
        if not isinstance(named, Mapping):
            raise ValueError(f"roles.{role}.resources: expected a map, found {named!r:.80}")
        amounts = {key: given[key] for key in _CHECKED if key in given} | {
            f"resources.{k}": v for k, v in named.items()
        }
        for key, amount in amounts.items():
            if isinstance(amount, bool) or not isinstance(amount, int | float) or not 0 <= amount < 1e6:
                raise ValueError(f"roles.{role}.{key}: expected a number >= 0, found {amount!r:.80}")
        found[role] = Wants(**given)
    return found


class _Kept(Launched):
    """Be one process on a node of the cluster."""

    def __init__(self, name: str, keeper: Any, node: str) -> None:
        self.name, self.keeper, self.node = name, keeper, node  # where its relay is, too
        self.used, self.run = (0.0, 0), ""
        self.over = self.ending = False

    def signal(self, signum: int) -> None:
        """Have the keeper send a signal; it is not awaited."""
        self.ending = self.ending or signum in (signal.SIGTERM, signal.SIGKILL)
        if not self.over:
            self.keeper.signal.remote(int(signum))

    def usage(self) -> tuple[float, int]:
        """Return what the keeper has told last."""
        return self.used


class RayLauncher(Launcher):
    """Let Ray place processes: one small actor for each starts it, hands on its output and tells how it ended.

    All nodes have the same versions of Python, Ray, Ganglion and the plugins that documents name. Another node is
    refused by its name. A node that is lost is the loss of its processes: each is started anew on another node.

    Usually all nodes see the folder of results under the same path (a shared file system): journals are there, and
    what is lost with a node goes on from its journal. With `shared: false` models travel over the bus, and journals are
    in a folder of each node: a process that is lost goes on from its journal on the same node, and what is lost with a
    node makes the phase begin again, once.

    Args:
        address: Of the cluster, as `ray.init` takes it. `auto` is that of the variable RAY_ADDRESS or the one that
            runs on this machine; `local` begins a cluster of this machine alone, and ends it.
        roles: What processes need and where they are to be, by role: `{environment: {cpu: 1, gpu: 0, resources:
            {name: 1}, place: worker}}`. By default nothing is reserved. `place` is `worker` (all of a worker on one
            node, workers spread over the nodes; the default), `pack` or `spread`.
        near: Whether processes on the supervisor's own machine join over its sockets.
        relay: Whether all others join the relay of their node, which is started there with the first of them: what
            processes of a node say to each other stays there. Without, each has an encrypted connection of its own.
        shared: Whether all nodes see the folder of results.

    Raises:
        ValueError: `roles` says what it may not.
    """

    def __init__(
        self,
        address: str = "auto",
        roles: Mapping[str, Any] | None = None,
        near: bool = True,
        shared: bool = True,
        relay: bool = True,
    ) -> None:
        truths = [(name, value, bool) for name, value in (("near", near), ("shared", shared), ("relay", relay))]
        for name, value, kind in (("address", address, str), *truths):
            if not isinstance(value, kind) or value == "":
                raise ValueError(f"{name}: expected {_KINDS[kind]}, found {value!r:.80}")
        self._cluster, self._wants, self._near, self._relays = address, wants_of(roles or {}), near, relay
        self._ray: Any = None
        self._kept: dict[_Kept, asyncio.Task[None]] = {}
        self._nodes: dict[tuple[str, int], str] = {}  # run and worker -> where its first process is
        self._choosing: dict[tuple[str, int], asyncio.Lock] = {}
        self._turns = asyncio.Semaphore(_AT_ONCE_LEAST)  # of those that Ray is asked to place
        self.shares_files, self.keeps_files = shared, not shared
        self._houses: dict[str, asyncio.Task[tuple[Any, str]]] = {}  # node -> what keeps a folder there, and that
        self._forgetting: set[asyncio.Task[None]] = set()
        self._homes: dict[tuple[str, str], str] = {}  # run and name -> node with its journal

    # -- the cluster --------------------------------------------------------------------------------------------------
    async def open(self) -> None:
        """Join the cluster; LaunchError names what is missing."""
        try:
            ray = _ray()
        except ImportError as error:
            raise LaunchError(f"launcher ray: {error}; pip install 'ganglion-ray[ray]'") from error
        self._ray = ray
        if ray.is_initialized():
            raise LaunchError("launcher ray: this process is a driver of Ray already")
        try:
            # A thread: it takes seconds, and leaves the handlers of signals to us.
            await asyncio.to_thread(self._join)
        except (ConnectionError, RuntimeError, ValueError, TimeoutError, OSError) as error:
            await asyncio.to_thread(ray.shutdown)
            self._ray = None
            where = "this machine" if self._cluster == "local" else f"the address {self._cluster}"
            cure = "start one with `ray start --head`, name another (settings, launchers.ray.address), or take `local`"
            raise LaunchError(f"launcher ray: no cluster at {where}: {_first_line(error)}; {cure}") from error
        self.address = str(ray.util.get_node_ip_address())
        nodes = await asyncio.to_thread(ray.nodes)
        processors = sum(_amounts(node).get("CPU", 0.0) for node in nodes if node["Alive"])
        self._turns = asyncio.Semaphore(max(_AT_ONCE_LEAST, int(processors)))
        for role, wants in self._wants.items():
            fault = _shortage(role, wants, nodes)
            if fault:
                await self.close()
                raise LaunchError(f"launcher ray: {fault}")

    def _join(self) -> None:
        common: dict[str, Any] = {
            "log_to_driver": False,
            "logging_level": "ERROR",
            "namespace": f"ganglion-{os.getpid()}",
        }
        if self._cluster == "local":
            self._ray.init(address="local", include_dashboard=False, object_store_memory=_STORE_BYTES, **common)
            return
        address = os.environ.get("RAY_ADDRESS", "auto") if self._cluster == "auto" else self._cluster
        host, colon, port = address.rpartition(":")
        if colon and port.isdigit() and "/" not in host:
            # Ray would ask for minutes, and tell of each attempt.
            socket.create_connection((host.strip("[]"), int(port)), timeout=_ASK_S).close()
        self._ray.init(address=address, **common)

    async def close(self) -> list[str]:
        """End what still lives, wait for it, leave the cluster; return the names of what still lived."""
        if self._ray is None:
            return []
        if ending := [hearing for kept, hearing in self._kept.items() if kept.ending]:
            await asyncio.wait(ending, timeout=_GONE_S)
        left = [f"{kept.name} on {kept.host}" for kept in self._kept]
        for kept in self._kept:
            kept.signal(signal.SIGKILL)
        if self._kept:
            await asyncio.wait(self._kept.values(), timeout=_GONE_S)
        for kept, hearing in list(self._kept.items()):
            hearing.cancel()
            self._end(kept.keeper)
        forgetting = [asyncio.ensure_future(self._forget(house)) for house in self._houses.values()]
        if forgetting:
            await asyncio.wait(forgetting, timeout=_GONE_S)
        await asyncio.to_thread(self._ray.shutdown)
        self._ray = None
        return left

    async def _house(self, node: str) -> tuple[Any, str]:
        """Return what keeps a folder on a node, and the folder."""
        from ganglion_ray.keeper import House

        strategies = self._ray.util.scheduling_strategies
        strategy = strategies.NodeAffinitySchedulingStrategy(node_id=node, soft=False)
        name = secrets.token_hex(8)
        house = self._ray.remote(House).options(num_cpus=0, scheduling_strategy=strategy, max_restarts=0).remote(name)
        return house, await house.folder.remote()

    async def _forget(self, keeping: asyncio.Task[tuple[Any, str]], run: str = "") -> None:
        """Have a node forget a run, or all; a node that is lost has nothing any more."""
        with contextlib.suppress(self._ray.exceptions.RayError):
            house, _ = await keeping
            await house.forget.remote(run)

    def _forget_if_over(self, run: str) -> None:
        """Have all nodes forget a run of which no process is left."""
        if self._ray is not None and not any(kept.run == run for kept in self._kept):
            self._homes = {key: node for key, node in self._homes.items() if key[0] != run}
            for house in self._houses.values():
                self._forgetting.add(task := asyncio.ensure_future(self._forget(house, run)))
                task.add_done_callback(self._forgetting.discard)

    def examine(self) -> list[tuple[str, str, str]]:
        """Look at the cluster; return for each node its state, what it is and has, and the cure where it is needed."""
        try:
            ray = _ray()
        except ImportError as error:
            return [("fail", str(error), "pip install 'ganglion-ray[ray]'")]
        self._ray = ray
        try:
            self._join()
        except (ConnectionError, RuntimeError, ValueError, TimeoutError, OSError) as error:
            return [("fail", f"no cluster at {self._cluster}: {_first_line(error)}", "ray start --head")]
        try:
            from ganglion_ray.keeper import Keeper, versions

            ours, rows = versions(), []
            for node in ray.nodes():
                name, node_id = f"node {node['NodeManagerHostname']} ({node['NodeManagerAddress']})", node["NodeID"]
                if not node["Alive"]:
                    rows.append(("warn", f"{name} is lost", "ray start --address=... there, or forget it"))
                    continue
                keeper = ray.remote(Keeper).options(num_cpus=0, scheduling_strategy=self._at(node_id)).remote()
                try:
                    *_, theirs = ray.get(keeper.look.remote(), timeout=_START_S)
                except Exception as error:  # noqa: BLE001 - whatever an engine says of a node is a row of the report
                    rows.append(("fail", f"{name}: {_first_line(error)}", f"pip install {_pins(ours)} there"))
                    continue
                finally:
                    ray.kill(keeper)
                differ = _difference(ours, theirs)
                has = ", ".join(f"{key} {amount:g}" for key, amount in _amounts(node).items())
                cure = f"pip install {_pins(ours)} there" if differ else ""
                rows.append(("fail" if differ else "ok", f"{name}: {differ or has}", cure))
            return rows
        finally:
            ray.shutdown()
            self._ray = None

    # -- processes ----------------------------------------------------------------------------------------------------
    async def start(self, spec: LaunchSpec, watch: LaunchWatch) -> Launched:
        """Have Ray place a keeper, and the keeper start the process; LaunchError names the node, and the cure."""
        assert self._ray is not None, "open() comes first"
        wants = self._wants.get(spec.role, Wants())
        nodes = await asyncio.to_thread(self._ray.nodes)
        fault = _shortage(spec.role, wants, nodes)
        if fault:
            raise LaunchError(f"cannot start {spec.name}: {fault}")
        # Those that have room for it, if not now.
        able = {node["NodeID"] for node in nodes if node["Alive"] and _has(node, wants)}
        home = spec.place or self._homes.get(_key(spec))  # a relay's node; where its journal is
        if home in {node["NodeID"] for node in nodes if node["Alive"]}:
            return await self._start(spec, watch, wants, self._at(str(home), home in able))
        if wants.place != "worker" or spec.worker is None:
            return await self._start(spec, watch, wants, "SPREAD" if wants.place == "spread" else "DEFAULT")
        alive = {node["NodeID"] for node in nodes if node["Alive"]}
        # The first process of a worker chooses its node, the others follow.
        worker = (_key(spec)[0], spec.worker)
        async with self._choosing.setdefault(worker, asyncio.Lock()):
            node = self._nodes.get(worker)
            if node is None or node not in alive:
                kept = await self._start(spec, watch, wants, "SPREAD")
                self._nodes[worker] = kept.node
                return kept
        return await self._start(spec, watch, wants, self._at(node, node in able))

    def _at(self, node: str, able: bool = True) -> Any:
        """Return what puts an actor on a node, or on another one if that is not `able` to have it.

        Where Ray may choose another one (`soft`) it does so now and then without need.
        """
        return self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node_id=node, soft=not able)

    async def _start(self, spec: LaunchSpec, watch: LaunchWatch, wants: Wants, strategy: Any) -> _Kept:
        # A Python for each keeper takes seconds of a processor: who waits for his turn is not late. A relay is started
        # by the start of another process, which has a turn.
        async with contextlib.nullcontext() if spec.place else self._turns:
            return await self._start_now(spec, watch, wants, strategy)

    async def _start_now(self, spec: LaunchSpec, watch: LaunchWatch, wants: Wants, strategy: Any) -> _Kept:
        from ganglion_ray.keeper import Keeper, versions

        ours, ray = versions(), self._ray
        made = ray.remote(Keeper).options(
            num_cpus=wants.cpu,
            num_gpus=wants.gpu,
            resources=dict(wants.resources),
            max_restarts=0,
            max_concurrency=8,
            scheduling_strategy=strategy,
        )
        keeper = made.remote()
        where = "a node of the cluster"
        try:
            async with asyncio.timeout(_START_S) as placed:
                node, host, address, theirs = await keeper.look.remote()
                where = f"node {host} ({address})"
                differ = _difference(ours, theirs)
                if differ:
                    raise LaunchError(f"{where}: {differ}; pip install {_pins(ours)} there")
                sees = self.shares_files and not spec.place  # a relay needs no file
                folder, inode = await asyncio.to_thread(_seen, spec) if sees else ("", 0)
                variables = dict(spec.variables)
                if spec.node:
                    if node not in self._houses:
                        self._houses[node] = asyncio.ensure_future(self._house(node))
                    variables = spec.on_node((await asyncio.shield(self._houses[node]))[1])
                    self._homes[_key(spec)] = node
                if self._near and address == self.address:
                    variables |= spec.near
                elif self._relays and not spec.place:
                    placed.reschedule(None)  # its own start has a time of its own
                    variables |= {**spec.near, "GANGLION_ENDPOINT": await self.relay(node)}
                    placed.reschedule(asyncio.get_running_loop().time() + _START_S)
                words = {**dataclasses.asdict(spec), "variables": variables}
                pid, wrong = await keeper.start.remote(words, folder, inode)
                if wrong:
                    raise LaunchError(f"{where}: {wrong}")
        except TimeoutError as error:
            self._end(keeper)
            raise LaunchError(f"cannot start {spec.name}: Ray has placed it nowhere within {_START_S:.0f} s") from error
        except LaunchError as error:
            self._end(keeper)
            raise LaunchError(f"cannot start {spec.name} on {error}") from error
        except ray.exceptions.RayError as error:
            self._end(keeper)
            cure = f"is `{_pins(ours)}` installed there?"
            raise LaunchError(f"cannot start {spec.name} on {where}: {_last_line(error)}; {cure}") from error
        kept = _Kept(spec.name, keeper, node)
        kept.host, kept.pid, kept.run = host, pid, _key(spec)[0]
        self._kept[kept] = asyncio.ensure_future(self._hear(kept, watch))
        return kept

    async def _hear(self, kept: _Kept, watch: LaunchWatch) -> None:
        """Hand on what a keeper tells, up to the end; a keeper that is gone takes its process with it."""
        why, code, ray = "", None, self._ray
        try:
            while code is None:
                printed, code, *used = await kept.keeper.news.remote()
                kept.used = (used[0], used[1])
                if printed:
                    watch.printed(printed)
        except ray.exceptions.RayError as error:
            why = await self._reason(kept, error)
        kept.over = True
        del self._kept[kept]
        self._end(kept.keeper)
        if not any(one.run == kept.run for one in self._kept):
            for places in (self._nodes, self._choosing):
                for worker in [worker for worker in places if worker[0] == kept.run]:
                    del places[worker]
        if not self.shares_files:
            asyncio.get_running_loop().call_later(_FORGET_S, self._forget_if_over, kept.run)
        watch.exited(code, why)

    def _end(self, keeper: Any) -> None:
        """End a keeper, and with it what is left of its process; without a cluster it has ended with that."""
        if self._ray is not None:
            self._ray.kill(keeper)

    async def _reason(self, kept: _Kept, error: Exception) -> str:
        """Return why a keeper is gone."""
        nodes = [] if self._ray is None else await asyncio.to_thread(self._ray.nodes)
        if any(node["NodeID"] == kept.node and node["Alive"] for node in nodes):
            return f"its keeper on {kept.host} is gone: {_last_line(error)}"
        return f"its node {kept.host} was lost"


def _key(spec: LaunchSpec) -> tuple[str, str]:
    """Return run and name of a process."""
    return spec.variables.get("GANGLION_RUN", ""), spec.name


def _amounts(node: Mapping[str, Any]) -> dict[str, float]:
    """Return what a node has, without the names that Ray gives to nodes, and memory."""
    own = {"memory", "object_store_memory"}
    return {key: amount for key, amount in sorted(node["Resources"].items()) if key not in own and ":" not in key}


def _has(node: Mapping[str, Any], wants: Wants) -> bool:
    """Say whether a node has what a process needs."""
    has = _amounts(node)
    return all(has.get(name, 0.0) >= amount for name, amount in wants.amounts.items())


def _shortage(role: str, wants: Wants, nodes: Sequence[Mapping[str, Any]]) -> str:
    """Return what is wrong where no node will ever have room for a process of a role."""
    if any(node["Alive"] and _has(node, wants) for node in nodes):
        return ""
    able = [_amounts(node) for node in nodes if node["Alive"]]
    asked = ", ".join(f"{name} {amount:g}" for name, amount in wants.amounts.items())
    there = "; ".join(", ".join(f"{name} {amount:g}" for name, amount in node.items()) for node in able)
    return f"no node has {asked} (settings, launchers.ray.roles.{role}); there are {len(able)}, with {there}"


def _ray() -> Any:
    """Return Ray, which is not to join a cluster by itself; ImportError where it is not installed."""
    os.environ["RAY_ENABLE_AUTO_CONNECT"] = "0"
    import ray

    return ray


def _seen(spec: LaunchSpec) -> tuple[str, int]:
    """Return a folder that the process needs, and its number: that of its log, for a program that of its document."""
    log = spec.variables.get("GANGLION_LOG")
    folder = Path(log).parent if log else Path(spec.cwd or ".").resolve()
    return str(folder), folder.stat().st_ino


def _difference(ours: Mapping[str, str], theirs: Mapping[str, str]) -> str:
    differ = [f"{name} {theirs.get(name)}" for name in ours if theirs.get(name) != ours[name]]
    wanted = [f"{name} {ours[name]}" for name in ours if theirs.get(name) != ours[name]]
    return f"expected {', '.join(wanted)}, found {', '.join(differ)}" if differ else ""


def _pins(versions: Mapping[str, str]) -> str:
    ray, ours = versions["ray"], versions["ganglion"]
    return f"'ganglion=={ours}' 'ganglion-ray' 'ray=={ray}'"


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def _last_line(error: Exception) -> str:
    return next(reversed(str(error).strip().splitlines()), type(error).__name__).strip()
