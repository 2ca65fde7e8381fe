"""Routed steps of the reference pendulum in several languages, against those of the Python plugin, over one broker."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import msgpack
from bus import PEERS, RUN, broker, join, token
from measure import HERE, Options, Row, compare, interleave, placed

from ganglion.transport.blocking import BlockingLink
from ganglion.wire.name import Role, peer_name
from ganglion.wire.verb import Verb
from ganglion_conformance.recipes import Program, build, lacking, read_recipes

STEPS = 2_000  # of one round; ten rounds, the first one included, are 20,000 steps
EPISODE = 200
PLUGIN = "plugin"
LANGUAGES = ("c", "javascript", "python")
CACHE = HERE.parents[1] / ".pytest_cache" / "d" / "foreign"  # what the tests have built is not built again
CALL, REPLY, ERROR, BEAT = int(Verb.CALL), int(Verb.REPLY), int(Verb.ERROR), int(Verb.BEAT)
POSITION = (0, 0, 0, 0, 1, 0)
PATIENCE_S = 20.0
pack = msgpack.Packer(autoreset=True).pack


def rows(options: Options) -> list[Row]:
    """Measure all languages whose tools are here in turns; the others are told."""
    recipes = read_recipes()
    programs: dict[str, Program] = {PLUGIN: Program([sys.executable, "-m", "ganglion.peer"])}
    skipped = []
    for name in LANGUAGES:
        made = lacking(recipes[name]) or build(recipes[name], CACHE)
        if isinstance(made, Program):
            programs[name] = made
        else:
            skipped.append(Row(f"languages, {recipes[name].language}", None, None, note=made))
    with placed(False), ExitStack() as stack:
        places = {name: peer_name(RUN, Role.ENVIRONMENT, name, 0) for name in programs}
        more = {name: (place, Role.ENVIRONMENT, name) for name, place in places.items()}
        endpoint = stack.enter_context(broker("tcp://127.0.0.1:0", more))
        for name, program in programs.items():
            stack.enter_context(_started(endpoint, name, places[name], program))
        meters = {name: _meter(endpoint, name, place) for name, place in places.items()}
        rates = interleave(meters, options.rounds)
    note = f"{STEPS} steps a round"
    titles = {name: f"languages, {recipes[name].language}, x Python plugin" for name in programs if name != PLUGIN}
    return [*(compare(t, rates[n], rates[PLUGIN], None, note) for n, t in titles.items()), *skipped]


@contextmanager
def _started(endpoint: str, name: str, place: str, program: Program) -> Iterator[None]:
    """Run one program as an environment; it is killed at the end."""
    variables = {"GANGLION_ENDPOINT": endpoint, "GANGLION_NAME": place, "GANGLION_TOKEN": token(name)}
    more = {"GANGLION_ROLE": "environment", "GANGLION_RUN": RUN, **program.variables}
    with tempfile.TemporaryFile() as words:
        child = subprocess.Popen(
            program.argv, env={**os.environ, **variables, **more}, stdout=words, stderr=subprocess.STDOUT
        )
        try:
            yield
            if child.poll() is not None:
                words.seek(0)
                raise RuntimeError(f"{name} ended with {child.returncode}: {words.read()[-2000:]!r}")
        finally:
            child.kill()
            child.wait()


def _meter(endpoint: str, name: str, place: str) -> Any:
    return lambda: _round(endpoint, name, place)


def _round(endpoint: str, name: str, place: str) -> float:
    """Join for one round, start the environment, step; return steps per second."""
    link = BlockingLink.connect(endpoint)
    try:
        join(link, "controller", PEERS["controller"][0], "controller")
        caller = _Caller(link, place.encode())
        caller.begin({"name": "pendulum", "params": {}} if name == PLUGIN else None)
        update, reset = pack({"setpoints": [[0.5]]}), pack({"episode": 1, "seed": 7, "stream": bytes(32)})
        begin_s = time.perf_counter()
        for step in range(1, STEPS + 1):
            caller.ask("environment.update", update)
            if step % EPISODE == 0:
                caller.ask("environment.reset", reset)
        return STEPS / (time.perf_counter() - begin_s)
    finally:
        link.close()


class _Caller:
    """Ask one environment, one call after the other."""

    def __init__(self, link: BlockingLink, place: bytes) -> None:
        self._link, self._place, self._serial = link, place, 0

    def begin(self, plugin: Mapping[str, Any] | None) -> None:
        """Start the environment, as soon as it has joined."""
        seeds = {"seed": 7, "episode_seed": 7, "stream": bytes(32), "episode_stream": bytes(32)}
        phase = {"run": RUN, "phase": 0, "phase_name": "p", "mode": "test", "worker": 0, "uid": "e", "params": {}}
        body = pack({**phase, **seeds, **({} if plugin is None else {"plugin": plugin})})
        until_s = time.perf_counter() + PATIENCE_S
        while (wrong := self._try("environment.start", body)) is not None:
            if wrong.get("kind") not in ("unreachable", "busy") or time.perf_counter() > until_s:
                raise RuntimeError(f"{self._place.decode()}: environment.start: {wrong}")
            time.sleep(0.05)

    def ask(self, call: str, body: bytes) -> None:
        """Ask, and wait for the answer; RuntimeError if it is an error."""
        wrong = self._try(call, body)
        if wrong is not None:
            raise RuntimeError(f"{self._place.decode()}: {call}: {wrong}")

    def _try(self, call: str, body: bytes) -> Mapping[str, Any] | None:
        """Return the error that answers a call, None for a reply."""
        self._serial += 1
        self._link.send((self._place, pack([CALL, self._serial, call, POSITION]), body))
        while True:
            frames = self._link.receive(PATIENCE_S)
            if frames is None:
                raise RuntimeError(f"{self._place.decode()}: {call}: no answer within {PATIENCE_S:g} s")
            head: Sequence[Any] = msgpack.unpackb(frames[1])
            if head[0] == BEAT:
                self._link.send((b"", pack([BEAT, head[1], "here"]), b""))
            elif head[1] == self._serial and head[0] in (REPLY, ERROR):
                return None if head[0] == REPLY else msgpack.unpackb(frames[2])
