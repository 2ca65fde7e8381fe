"""A stand-in for the programs and participants that a launcher starts, and a launcher that starts it."""

from __future__ import annotations

import asyncio
import inspect
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ganglion import registry
from ganglion.document import load_document
from ganglion.run.plan import Plan
from ganglion.supervisor.folder import reserve
from ganglion.supervisor.runs import Member, Outcome, Run
from ganglion.supervisor.supervisor import Settings, Supervisor
from ganglion.wire.messages import RunEvent


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine function on a loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


STANDIN = """
import os, sys, time

def main(variables):
    print("variables", sorted(variables), flush=True)
    while variables.get("WHAT") == "stay":
        time.sleep(600)
    return int(variables.get("STATUS", "0"))

if __name__ == "__main__":
    sys.exit(main(os.environ))
"""


@pytest.fixture
def standin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file of a small program whose module `standin` the warm parent can import."""
    path = tmp_path / "modules" / "standin.py"
    path.parent.mkdir()
    path.write_text(STANDIN)
    monkeypatch.setenv("PYTHONPATH", str(path.parent))
    return path


FARM = """
uid: farm
seed: 5
version: "0.1"
run_config: {condition: vanilla}
recovery: {on_loss: LOSS, checkpoint_s: CHECKPOINT}
schedule:
  - first: {PHASE}
  - second: {PHASE}
"""
FARM_PHASE = """
      environments: [environment: {uid: hut, name: counting}],
      agents: [{name: ada, muscle: MUSCLE, brain: dummy, sensors: ["hut.*"], actuators: ["hut.*"]}],
      phase_config: {mode: train, worker: 1, episodes: EPISODES}"""


class Farm:
    """Carry out a run of real participants that stores nothing; `deeds` are done when an event comes the nth time."""

    def __init__(
        self,
        tmp_path: Path,
        checkpoint_s: float = 60.0,
        on_loss: str = "recover",
        muscle: str = "dummy",
        episodes: int = 2,
    ) -> None:
        text = FARM.replace("PHASE", FARM_PHASE.replace("MUSCLE", muscle).replace("EPISODES", str(episodes)))
        text = text.replace("CHECKPOINT", str(checkpoint_s)).replace("LOSS", on_loss)
        (tmp_path / "farm.yml").write_text(text)
        self.plan: Plan = load_document(str(tmp_path / "farm.yml"), plugins=registry)[0]
        self.results = tmp_path / "results"
        self.folder = reserve(self.results, "farm")
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.deeds: dict[tuple[str, int], Callable[[Run], Any]] = {}
        self.told: list[Any] = []

    async def _carry_out(self, recovery: Any) -> Outcome:
        self.supervisor = Supervisor(Settings(self.results, None, run=self.folder.run), self._report)
        await self.supervisor.open()
        try:
            return await self.supervisor.execute(self.plan, self.folder, None, recovery)
        finally:
            assert [] == await self.supervisor.close()

    def carry_out(self, recovery: Any = None) -> Outcome:
        """Carry it out from beginning to end, or go on."""
        return asyncio.run(self._carry_out(recovery))

    def _report(self, run: str, news: RunEvent) -> None:
        self.events.append((news.event, news.fields))
        deed = self.deeds.pop((news.event, self.count(news.event)), None)
        if deed is not None:
            done = deed(self.supervisor.runs[run])
            self.told.append(asyncio.ensure_future(done) if asyncio.iscoroutine(done) else done)

    def count(self, name: str) -> int:
        """Return how often an event has come."""
        return len(self.fields(name))

    def fields(self, name: str) -> list[dict[str, Any]]:
        """Return the fields of the events of a name."""
        return [fields for event, fields in self.events if event == name]

    def losses(self) -> list[tuple[str, int, str]]:
        """Return the losses and returns that the supervisor told: label, incarnation, kind."""
        events = [fields for name, fields in self.events if name in ("peer.lost", "peer.restarted")]
        return [(f["label"], f["incarnation"], f["kind"]) for f in events if "label" in f]


def member(run: Run, part: str) -> Member:
    """Return the present member whose name holds `part`."""
    return next(found for name, found in run.members.items() if part in name)


@pytest.fixture
def kill() -> Callable[..., Callable[[Run], None]]:
    """Return what makes a deed that sends a signal to the process whose name holds a word."""

    def make(part: str, how: signal.Signals = signal.SIGKILL) -> Callable[[Run], None]:
        return lambda run: member(run, part).process.signal(how)

    return make


@pytest.fixture
def make_farm(tmp_path: Path) -> Callable[..., Farm]:
    """Return what makes a run of two phases with two episodes each: `make_farm(checkpoint_s=60.0)`."""
    return lambda **more: Farm(tmp_path, **more)
