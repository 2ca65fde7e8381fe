"""A stand-in for the programs and participants that a launcher starts, and a launcher that starts it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ganglion import registry
from ganglion.document import load_document
from ganglion.run.plan import Plan
from ganglion.supervisor.folder import reserve
from ganglion.supervisor.runs import Outcome, Run
from ganglion.supervisor.supervisor import Settings, Supervisor
from ganglion.wire.messages import RunEvent

STANDIN = """
import os, signal, sys, time

def main(variables):
    print("variables", sorted(variables), flush=True)
    what = variables.get("WHAT", "leave")
    if what == "raise":
        raise RuntimeError("boom")
    if what == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if what == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("deaf", flush=True)
    if what == "family":
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                print("grandchild", os.getpid(), flush=True)
                time.sleep(600)
            os._exit(0)
        os.wait()
    if what == "facts":
        print("facts", os.getppid(), os.getsid(0) == os.getpid(), os.get_inheritable(0), flush=True)
        print("stdin", sys.stdin.read(), flush=True)
    if what == "user":
        mask = os.umask(0)
        print("user", os.getuid(), os.getgid(), os.getgroups(), oct(mask), os.environ["USER"], flush=True)
    if what in ("stay", "deaf", "family"):
        while True:
            time.sleep(600)
    return int(variables.get("STATUS", "0"))

if __name__ == "__main__":
    sys.exit(main({k: v for k, v in os.environ.items() if k in ("WHAT", "STATUS")}))
"""


@pytest.fixture
def standin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file of a small program whose module `standin` the warm parent can import."""
    path = tmp_path / "modules" / "standin.py"
    path.parent.mkdir()
    path.write_text(STANDIN)
    monkeypatch.setenv("PYTHONPATH", str(path.parent))
    return path


PEER = """
import faulthandler, os, re, signal, sys, time
from ganglion.peer.participant import Participant
from ganglion.transport.blocking import BlockingLink
from ganglion.wire.messages import Done, Ended, Failure, Joined, Need, RunEvent, Watch
from ganglion.wire.codec import codec_of

def main(variables):
    role, name = variables["GANGLION_ROLE"], variables["GANGLION_NAME"]
    run = variables["GANGLION_RUN"]
    state = {"stop": False, "lost": None, "start": None}
    link = BlockingLink.connect(variables["GANGLION_ENDPOINT"], 5.0)
    def start(request, message):
        state["start"] = message
        return Done()
    def stop(request, message):
        state["stop"] = True
        return Done()
    def gone(one):
        state["lost"] = one
    joined = set()
    def told(one):
        joined.add(codec_of(Joined).decode(one.body).peer)
    me = Participant(lambda: link, {"governor.start": start, "governor.stop": stop}, told, gone)
    print("hello from", name, flush=True)
    if "deaf" in name:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    me.join(Participant.hello(role, name, variables["GANGLION_TOKEN"], int(variables["GANGLION_INCARNATION"])))
    ended = []
    def end(status, reason, exit_status, failure=None, peer=None):
        if not ended:
            ended.append(status)
            me.call("", "kernel.ended", Ended(run, status, reason, exit_status, failure, peer), 5.0)
    def govern():
        message = state["start"]
        if message is None:
            return
        what = message.plan["experiment"]
        if state["lost"] is not None:
            lost = state["lost"]
            end("failed", f"failed: {lost.peer} is gone", 1, Failure("lost", lost.reason), lost.peer)
        elif state["stop"]:
            end("interrupted", "interrupted: operator", 130)
        elif "watched" not in state:
            state["watched"] = {f"{run}/environment/grid/0"} | {
                f"{run}/muscle/{agent['name']}/0" for agent in message.plan["phases"][0]["agents"]
            }
            me.call("", "kernel.watch", Watch(sorted(state["watched"])), 5.0)
        elif state["watched"] <= joined:
            joined.clear()
            me.tell(f"@{run}/events", "event", RunEvent("phase.started", {"phase": 0}, 1.0))
            if what == "hang":
                faulthandler.enable()
                re.match("(a+)+$", "a" * 60 + "b")  # holds the interpreter's lock for years
            if what == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            if what == "second phase":
                me.call("", "kernel.need", Need(run, 1), 5.0)
                end("finished", "completed", 0)
            if what == "finish":
                end("finished", "completed", 0)
    while "deaf" in name:
        time.sleep(600)
    me.serve(govern if role == "governor" else None, 0.05)
    me.leave()
    return 0
"""


@pytest.fixture
def peers(standin: Path) -> Path:
    """Return the file of the stand-in for participants: they join, and a governor that does what `experiment` says."""
    path = standin.with_name("standin_peer.py")
    path.write_text(PEER)
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
      agents: [{name: ada, muscle: dummy, brain: dummy, sensors: ["hut.*"], actuators: ["hut.*"]}],
      phase_config: {mode: train, worker: 1, episodes: 2}"""


class Farm:
    """Carry out a run of real participants that stores nothing; `deeds` are done when an event of that name comes."""

    def __init__(self, tmp_path: Path, checkpoint_s: float = 60.0, on_loss: str = "recover") -> None:
        text = FARM.replace("PHASE", FARM_PHASE).replace("CHECKPOINT", str(checkpoint_s)).replace("LOSS", on_loss)
        (tmp_path / "farm.yml").write_text(text)
        self.plan: Plan = load_document(str(tmp_path / "farm.yml"), plugins=registry)[0]
        self.results = tmp_path / "results"
        self.folder = reserve(self.results, "farm")
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.deeds: dict[tuple[str, int], Callable[[Run], Any]] = {}
        self.told: list[Any] = []

    async def _carry_out(self, way: Any) -> Outcome:
        self.supervisor = Supervisor(Settings(self.results, None, run=self.folder.run), self._report)
        await self.supervisor.open()
        try:
            return await self.supervisor.execute(self.plan, self.folder, None, way)
        finally:
            assert [] == await self.supervisor.close()

    def carry_out(self, way: Any = None) -> Outcome:
        """Carry it out from beginning to end, or go on."""
        return asyncio.run(self._carry_out(way))

    def _report(self, run: str, news: RunEvent) -> None:
        self.events.append((news.event, news.fields))
        deed = self.deeds.pop((news.event, self.count(news.event)), None)
        if deed is not None:
            self.told.append(deed(self.supervisor.runs[run]))

    def count(self, name: str) -> int:
        """Return how often an event has come."""
        return len(self.fields(name))

    def fields(self, name: str) -> list[dict[str, Any]]:
        """Return the fields of the events of a name."""
        return [fields for event, fields in self.events if event == name]


@pytest.fixture
def make_farm(tmp_path: Path) -> Callable[..., Farm]:
    """Return what makes a run of two phases with two episodes each: `make_farm(checkpoint_s=60.0)`."""
    return lambda **more: Farm(tmp_path, **more)
