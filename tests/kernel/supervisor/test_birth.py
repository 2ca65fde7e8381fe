from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ganglion.run.plan import AgentPlan, EnvironmentPlan, PhasePlan, Plan, PluginPlan, ProgramPlan
from ganglion.supervisor.connection import Connection
from ganglion.supervisor.folder import RunFolder
from ganglion.supervisor.runs import Home, Member, Run, argv_of, variables_of

DUMMY = PluginPlan("dummy")


def plan(on_loss: str = "recover") -> Plan:
    """Return a plan with an environment and an agent of ours, and a program for each of both roles."""
    program = EnvironmentPlan("mill", command=["./mill", "--at={connection}", "x"])
    agents = [
        AgentPlan("ada", DUMMY, DUMMY, DUMMY, ["grid.*"], ["grid.*"]),
        AgentPlan("bob", None, None, DUMMY, ["grid.*"], [], program=ProgramPlan(["./act"])),
    ]
    environments = [EnvironmentPlan("grid", DUMMY), program]
    phase = PhasePlan(0, "train", environments, agents, DUMMY, [], [], on_loss=on_loss)
    return Plan("r", "r", "1", [phase], allow=["mine"])


@pytest.fixture
def born(tmp_path: Path) -> Callable[..., Any]:
    """Return a function that gives `look(home, run, members)` the members of a run by role and uid."""
    tokens = ("operator-token", "observer-token", "attach-token")
    connection = Connection(1, 1, "ipc:///socket", "tcp://127.0.0.1:5", *tokens)
    home = Home(connection, tmp_path, tmp_path / "results", ["theirs"])

    def carry_out(look: Callable[[Home, Run, dict[str, Member]], Any], what: Plan) -> Any:
        async def body() -> Any:
            (tmp_path / "r-1").mkdir()
            run = Run(what, RunFolder("r-1", tmp_path / "r-1"), "sqlite:///x.db")
            assert run.keeper is not None
            places = [run.governor, run.keeper, *run.places(0)]
            members = [run.member(place, lambda m: None, lambda m: None) for place in places]
            return look(home, run, {m.place.uid or m.place.role.value: m for m in members})

        return asyncio.run(body())

    return carry_out


def test_a_program_may_be_told_by_a_file(born: Any, tmp_path: Path) -> None:
    """`{connection}` in an argument becomes the path of a file that only we may read, with what the variables say."""

    def look(home: Home, run: Run, members: dict[str, Member]) -> tuple[list[str], dict[str, str]]:
        variables = variables_of(home, run, members["mill"])
        argv_of(home, run, members["mill"], variables, None)  # a successor has the same file
        return argv_of(home, run, members["mill"], variables, None), variables

    argv, variables = born(look, plan())

    path = Path(argv[1].removeprefix("--at="))
    assert (["./mill", "x"], tmp_path) == ([argv[0], argv[2]], path.parent)
    assert 0o600 == stat.S_IMODE(path.stat().st_mode)
    assert variables["GANGLION_TOKEN"] == json.loads(path.read_text())["token"]
