"""A hostile muscle, and secrets: what it says is shown and not obeyed, what it may not say reaches nobody."""

from __future__ import annotations

import contextlib
import json
import re
import stat
import sys
from pathlib import Path

import pytest
from system.command import Command, ganglion

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="command lines are read in /proc")

PASSWORD = "planted-password-3f9a"

DOCUMENT = """\
uid: hostile
seed: 5
version: "0.1"
schedule:
  - learn:
      environments:
        - environment: {uid: field, name: dummy}
      agents:
        - name: eve
          muscle: {name: hostile.Muscle}
          brain: {name: dummy}
          objective: {name: dummy}
          sensors: [field.*]
          actuators: [field.*]
      simulation: {name: vanilla, conditions: [{name: max_steps, params: {steps: 50}}, {name: max_episodes}]}
      phase_config: {mode: train, worker: 1, episodes: 1}
run_config:
  condition: {name: vanilla}
"""

EVIL = "\\x1b[2J\\x1b]0;owned\\x07\\x9b31m\\r\\x00\\u202e\\x7f"
HOSTILE = f"""
import gc, sys
import ganglion.sdk as sdk
from ganglion.peer.participant import Participant
from ganglion.wire.messages import BrainStore, FlowSignal, Nothing, RunEvent, RunRequest
from ganglion.wire.verb import Verb

EVIL = "{EVIL}"
RUN = "hostile-1"


class Muscle(sdk.Muscle):
    count = 0

    def propose_actions(self, sensors, actuators):
        self.count += 1
        for actuator in actuators:
            actuator.value = actuator.space.sample(self.rng)
        me = next(one for one in gc.get_objects() if isinstance(one, Participant))
        if self.count == 2:
            print("out", EVIL, "\\nfinished in 0.0 s")
            print("x" * 100_000)
            for number in range(300):
                news = RunEvent("waiting", {{"text": f"flood {{number}} {{EVIL}}"}}, 0.0, "waits")
                me.tell(f"@{{RUN}}/waits", "event", news)
            for name in ("phase.ended", "warning", "run.ended"):
                news = RunEvent(name, {{"phase": 0, "text": "forged" + EVIL}}, 0.0, "waits")
                me.tell(f"@{{RUN}}/waits", "event", news)
        if self.count == 3:  # nine in all: the tenth would end the connection
            me.tell(f"@{{RUN}}/events", "event", RunEvent("run.ended", {{"forged": EVIL}}))
            me.ask(f"{{RUN}}/brain/eve", "brain.shutdown", Nothing(), None)
            me.ask(f"{{RUN}}/brain/eve", "brain.store", BrainStore("forged"), None)
            me.ask(f"{{RUN}}/governor", "governor.stop", RunRequest(RUN, True), None)
            me.ask(f"{{RUN}}/environment/field/0", "environment.shutdown", Nothing(), None)
            me.ask("", "kernel.stop", RunRequest(RUN, True), None)
            me.tell(f"{{RUN}}/governor", "", FlowSignal("STOP_RUN", "operator", EVIL), Verb.SIGNAL)
            me.tell(f"{{RUN}}/controller/0", "", FlowSignal("RESET", "operator", EVIL), Verb.SIGNAL)
        if self.count == 8:
            raise RuntimeError("broken" + EVIL + "\\nfinished in 0.0 s, 7 steps")
        return actuators, self.count
"""

OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""What a terminal would obey; new lines and tabs are ours."""


@pytest.mark.parametrize("form", ["--plain", pytest.param("--json", marks=pytest.mark.long)])
def test_hostile_muscle_is_shown_and_not_obeyed(tmp_path: Path, form: str) -> None:
    """Of what a hostile muscle says nothing reaches a terminal, a log or another peer as it would have it."""
    (tmp_path / "run.yml").write_text(DOCUMENT)
    (tmp_path / "hostile.py").write_text(HOSTILE)
    done = ganglion(tmp_path, "run", "run.yml", form)
    results = tmp_path / "results" / "hostile-1"
    written = {str(path): path.read_text() for path in results.rglob("*") if path.suffix in (".log", ".jsonl", ".json")}

    assert 1 == done.returncode, done.stdout + done.stderr
    assert "broken" in done.stdout + done.stderr  # its exception is what ended the run, not what it forged
    for name, text in {"stdout": done.stdout, "stderr": done.stderr, **written}.items():
        assert OBEYED.search(text) is None, (name, OBEYED.search(text))
        assert not [line for line in text.splitlines() if line.startswith("finished")], name
        longest = max(map(len, text.splitlines()), default=0)
        assert longest <= 30_000, name  # twenty last lines are kept, and cut
    said = [line for line in (done.stdout + done.stderr).splitlines() if "forged" in line]
    assert all("hostile-1/muscle/eve/0" in line for line in said), said  # shown as what it says, and once
    assert len(said) <= 2
    assert not [line for line in said if '"phase.ended"' in line or '"run.ended"' in line]
    assert (done.stdout + done.stderr).count("flood") <= 3
    if form == "--json":
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        assert ["failed"] == [row["status"] for row in rows if row["event"] == "run.ended"]


def test_secrets_are_kept(tmp_path: Path) -> None:
    """Tokens and passwords are in files of their owner alone: in no output, file, command line, or variable."""
    (tmp_path / "run.yml").write_text(DOCUMENT.replace("hostile.Muscle", "dummy").replace("steps: 50", "steps: 10000"))
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    uri = f"postgresql://someone:{PASSWORD}@nowhere.invalid/ganglion"
    variables = {"XDG_RUNTIME_DIR": str(runtime)}
    said = ""
    for command in (["run", "run.yml"], ["results", "steps"]):
        done = ganglion(tmp_path, *command, more={**variables, "GANGLION_STORE": uri})
        said += done.stdout + done.stderr
        assert PASSWORD not in said, command
    running = Command(tmp_path, "run", "run.yml", more=variables)
    try:
        running.until("phase.started")
        connection = next(runtime.rglob("connection.json"))
        tokens = [value for key, value in json.loads(connection.read_text()).items() if key.endswith("_token")]
        assert 3 == len(set(tokens))
        for path in (connection.parent, *connection.parent.iterdir()):
            assert not path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO), path
        lines = []
        for path in (path for what in ("cmdline", "environ") for path in Path("/proc").glob(f"[0-9]*/{what}")):
            with contextlib.suppress(OSError):  # it has ended, or is not ours
                lines.append(path.read_bytes().decode(errors="replace"))
        ours = [line for line in lines if str(tmp_path) in line]
    finally:
        running.process.terminate()
        running.output()
    text = said + "".join([*running.out.lines, *running.err.lines, *lines])
    text += "".join(p.read_text(errors="replace") for p in (tmp_path / "results").rglob("*") if p.is_file())

    assert 130 == running.process.returncode
    assert len(ours) > 5  # supervisor, broker, and those who take part
    assert not [line for line in ours if "GANGLION_TOKEN=" in line]
    assert not [token for token in (*tokens, PASSWORD) if token in text]
    assert not connection.exists()
