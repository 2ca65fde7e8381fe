"""Settings files, on a real kernel and real runs: what they say holds in all processes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from system.command import Command, ganglion

from ganglion.supervisor.connection import read_connection
from ganglion.transport.link import connect_blocking
from ganglion.wire.codec import codec_of
from ganglion.wire.envelope import Head, decode_head, encode_head
from ganglion.wire.messages import PROTOCOL_VERSION, Hello, Welcome
from ganglion.wire.verb import Verb

DOCUMENT = """
uid: small
seed: 1
version: "0.1"
run_config: {condition: max_episodes}
schedule:
  - one:
      environments: [environment: {uid: hill, name: "hill:Hill"}]
      agents: [{name: ada, muscle: dummy, sensors: [hill.s], actuators: []}]
      phase_config: {mode: test, worker: WORKERS, episodes: 1}
"""
HILL = """
from ganglion import limits
from ganglion.sdk import Box, Environment, EnvironmentBaseline, EnvironmentState, SensorInformation

class Hill(Environment):  # tells a limit of its own process
    def start_environment(self):
        return EnvironmentBaseline(self.read(), [])
    def update(self, actuators):
        return EnvironmentState(self.read(), [], terminated=True)
    def read(self):
        return [SensorInformation(float(limits.WATCHES), Box(0.0, 9999.0, ()), "s")]
"""


def test_limits_of_a_file_hold_in_every_process(tmp_path: Path) -> None:
    """Command, supervisor and participants have the limits of the working folder's file."""
    (tmp_path / "hill.py").write_text(HILL)
    (tmp_path / ".ganglion.yml").write_text("results: out\nlimits: {processes_per_run: 10, watches: 500}\n")
    (tmp_path / "small.yml").write_text(DOCUMENT.replace("WORKERS", "2"))
    (tmp_path / "large.yml").write_text(DOCUMENT.replace("WORKERS", "3"))
    refused, done = ganglion(tmp_path, "run", "large.yml"), ganglion(tmp_path, "run", "small.yml")
    rows = ganglion(tmp_path, "results", "steps", "last", "--json", "--columns", "sensors")

    assert 2 == refused.returncode
    assert "a run may have 10 (limit processes_per_run)" in refused.stderr
    assert 0 == done.returncode, done.stderr
    assert [{"hill.s": 500.0}] * 2 == [row["sensors"] for row in json.loads(rows.stdout)]
    assert (tmp_path / "out" / "small-1").is_dir()


def test_a_broker_tells_its_limits(tmp_path: Path) -> None:
    """Who joins is told in WELCOME what holds here."""
    (tmp_path / ".ganglion.yml").write_text("results: out\nlimits: {message_frames: 500}\n")
    kernel = Command(tmp_path, "kernel", output=None)
    assert kernel.out.line().startswith("endpoint ")
    place = kernel.out.line().removeprefix("connection file ").strip()
    connection = read_connection(tmp_path / place)
    link = connect_blocking(connection.endpoint)
    hello = Hello(PROTOCOL_VERSION, "observer", "observer/1", connection.observer_token, "test")
    link.send([b"", encode_head(Head(Verb.HELLO, 1)), codec_of(Hello).encode(hello)])
    frames = link.receive(10.0)
    link.close()
    kernel.process.terminate()
    kernel.output()

    assert 130 == kernel.process.returncode
    assert frames is not None
    assert Verb.WELCOME is decode_head(frames[1]).verb, frames[2]
    assert 500 == codec_of(Welcome).decode(frames[2]).limits["message_frames"]


@pytest.mark.parametrize(("readers", "mask"), [("owner", 0o077), ("group", 0o027)])
def test_results_are_private_unless_a_setting_says_otherwise(tmp_path: Path, readers: str, mask: int) -> None:
    """No file of a run (database, models, logs, manifest) is for anybody but the readers that the setting names."""
    if readers != "owner":
        (tmp_path / ".ganglion.yml").write_text(f"readers: {readers}\n")
    (tmp_path / "hill.py").write_text(HILL)
    (tmp_path / "small.yml").write_text(DOCUMENT.replace("WORKERS", "1"))
    done = ganglion(tmp_path, "run", "small.yml")
    found = [path for path in (tmp_path / "results").rglob("*") if not path.is_symlink()]

    assert 0 == done.returncode, done.stderr
    assert {"ganglion.db", "manifest.json", "logs"} <= {path.name for path in found}
    assert [] == [path for path in found if path.stat().st_mode & mask]
    database = tmp_path / "results" / "ganglion.db"
    assert (readers == "group") == bool(database.stat().st_mode & 0o040)
