from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from system.command import ganglion

from ganglion_conformance.bench import Order
from ganglion_conformance.drivers import ProgramDriver
from ganglion_conformance.kit import judge

DOCUMENTS = Path(__file__).parents[1] / "documents"
BIN = Path(sys.executable).parent


def _ganglion(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"  # the document starts `python3`, and means ours
    return ganglion(folder, *arguments, more={"PATH": path})


@pytest.mark.parametrize("content", [pytest.param("msgpack", marks=pytest.mark.long), "json"])
def test_client_of_sockets_plays_an_environment(tmp_path: Path, content: str) -> None:
    """A client written from PROTOCOL.md alone joins a broker and plays the environment for 100 steps."""
    source = (DOCUMENTS / "raw_environment.py").read_text()
    if content == "json":
        source = source.replace("import os", "import json\nimport os")
        source = source.replace('"language": "socket"', '"language": "socket", "content": "json"')
        source = source.replace("msgpack.packb(body)", "json.dumps(body).encode()")
        source = source.replace("msgpack.unpackb(frames[2])", "json.loads(frames[2])")
        assert 5 == source.count("json")
    (tmp_path / "raw_environment.py").write_text(source)
    (tmp_path / "raw.yml").write_text((DOCUMENTS / "raw.yml").read_text())

    ran = _ganglion(tmp_path, "run", "raw.yml")
    assert 0 == ran.returncode, ran.stdout + ran.stderr

    asked = _ganglion(tmp_path, "results", "steps", "last", "--json", "--columns", "step,sensors,rewards")
    rows = json.loads(asked.stdout)
    assert list(range(1, 101)) == [row["step"] for row in rows]
    assert [{"counter.steps": step} for step in range(1, 101)] == [row["sensors"] for row in rows]
    assert 100 == sum(row["rewards"]["counter.one"] for row in rows)


def test_client_of_sockets_keeps_every_clause() -> None:
    """The same client is asked by the kit, and says itself that it has no CURVE."""
    driver = ProgramDriver([sys.executable, str(DOCUMENTS / "raw_environment.py")])
    report = judge(driver, Order(steps=1500))
    skipped = {verdict.case.name for verdict in report.verdicts if verdict.state == "skip"}

    assert report.conforms, "\n".join(report.lines())
    assert {"secure.right-key", "secure.wrong-key", "state.goes-on"} == {n for n in skipped if "bodies." not in n}
