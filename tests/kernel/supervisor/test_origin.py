from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from ganglion.errors import UsageError
from ganglion.run.plan import AgentPlan, EnvironmentPlan, PhasePlan, Plan, PluginPlan
from ganglion.supervisor.folder import ORIGIN, origin_bytes, read_origin


def plan() -> Plan:
    """Return a plan with odd values."""
    own = PluginPlan("own", {"rate": float("inf"), "small": 5e-324, "names": {"0": [None, True, "ü"]}})
    agent = AgentPlan("ada", own, own, own, ["hut.*"], [], load={"phase": 0})
    phase = PhasePlan(0, "first", [EnvironmentPlan("hut", own)], [agent], own, [own], [])
    return Plan("farm", "farms", str(2**80), [phase], document="uid: farm\n")


def test_a_damaged_plan_is_named(tmp_path: Path) -> None:
    """Another byte, another file, none at all: the file is named, and no plan is returned."""
    data = origin_bytes(plan(), [])
    (tmp_path / ORIGIN).write_bytes(data[:-1] + b"\x00")
    with pytest.raises(UsageError, match=r"plan\.msgpack: the file is damaged"):
        read_origin(tmp_path, hashlib.sha256(data).hexdigest())
    with pytest.raises(UsageError, match=r"expected the plan of the run"):
        read_origin(tmp_path / "none", "")
