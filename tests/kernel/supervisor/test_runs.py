from __future__ import annotations

import asyncio
import dataclasses
import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ganglion.errors import UsageError
from ganglion.limits import ATTACH_WAIT_REPORT_S, WAIT_REPORT_S
from ganglion.run.plan import AgentPlan, EnvironmentPlan, PhasePlan, Plan, PluginPlan, ProgramPlan
from ganglion.supervisor.connection import Connection
from ganglion.supervisor.folder import RunFolder
from ganglion.supervisor.runs import Home, Member, Run, argv_of, check_store, variables_of
from ganglion.wire.messages import Ended, Failure, RunEvent

DUMMY = PluginPlan("dummy")

PHASE = PhasePlan(
    0,
    "train",
    [EnvironmentPlan("grid", DUMMY), EnvironmentPlan("sim", attach=True)],
    [AgentPlan("ada", DUMMY, DUMMY, DUMMY, ["grid.*"], ["grid.*"])],
    DUMMY,
    [],
    [],
)

FAILED = Ended("r-1", "failed", "failed: boom", 1)


def _on_loop(body: Callable[[Run], Any]) -> Any:
    """Run `body` with a run whose members are planned."""

    async def made() -> Any:
        run = Run(Plan("r", "r", "1", [PHASE]), RunFolder("r-1", Path("/nowhere")), "sqlite:///x")
        assert run.keeper is not None
        for place in [run.governor, run.keeper, *run.places(0)]:
            run.members[place.name] = Member(place, run.id, 1, lambda m: None, lambda m: None)
            run.members[place.name].since_s = 0.0
        return body(run)

    return asyncio.run(made())


def _lose(run: Run, name: str, why: str) -> Member:
    member = run.members[f"r-1/{name}"]
    member.start()
    member.failed(why)
    run.lost.append(member)
    return member


def test_failure_never_ends_with_zero() -> None:
    """Whatever a governor says, a failed run and a run with a defect end with 1."""

    def body(run: Run) -> None:
        run.finish(dataclasses.replace(FAILED, exit_status=0))
        assert 1 == run.conclude().exit_status
        run.ended = Ended("r-1", "finished", "completed", 0)
        run.defects.append("a process was left")

        assert (1, ["defect: a process was left"]) == (run.conclude().exit_status, run.conclude().story)

    _on_loop(body)


def test_crash_is_told_before_what_it_dragged_along() -> None:
    """The one that crashed comes first, those that followed come after, whatever the order of news."""

    def body(run: Run) -> None:
        follower = _lose(run, "controller/0", "")
        follower.child.why = ""
        _lose(run, "muscle/ada/0", "out of memory")
        run.finish(dataclasses.replace(FAILED, peer="r-1/controller/0"))
        story = run.conclude().story

        assert "muscle ada (worker 0) could not be started: out of memory" == story[0]
        assert story[-1].startswith("then: controller (worker 0) ")

    _on_loop(body)


def test_culprit_is_the_end_of_the_way() -> None:
    """A failure that was passed on names who began it."""

    def body(run: Run) -> None:
        failure = Failure("author", "boom", "r-1/controller/0: r-1/environment/grid/0")
        run.finish(dataclasses.replace(FAILED, failure=failure, peer="r-1/controller/0"))

        assert run.conclude().story[0].startswith("environment grid (worker 0): author: boom")

    _on_loop(body)


def test_waits_are_told_at_growing_intervals() -> None:
    """Governor and store are told at 2, 4, 8 ... seconds; how to attach is told once, sooner."""

    def body(run: Run) -> None:
        told: dict[str, list[float]] = {}
        for step in range(200):
            for member, _ in run.waits_due(step / 10):
                told.setdefault(member.label, []).append(step / 10)

        assert {"governor", "store", "environment sim (worker 0)"} == set(told)
        assert [WAIT_REPORT_S, 2 * WAIT_REPORT_S, 4 * WAIT_REPORT_S, 8 * WAIT_REPORT_S] == told["governor"]
        assert [ATTACH_WAIT_REPORT_S] == told["environment sim (worker 0)"]
        run.members["r-1/governor"].here.set()
        assert "governor" not in [member.label for member, _ in run.waits_due(1000.0)]

    _on_loop(body)


def test_without_a_store_nothing_is_learned_from_recordings() -> None:
    """A run that keeps no rows is refused where its own were to be read, before anything is started."""
    ada = AgentPlan("ada", DUMMY, DUMMY, DUMMY, [], [], replay=[{}], replay_at=["run.yml:3:4: replay.0"])
    plan = Plan("r", "r", "1", [dataclasses.replace(PHASE, agents=[ada], mode="train")])

    check_store(plan, "sqlite:///somewhere.db")
    with pytest.raises(UsageError, match=r"run.yml:3:4: replay.0: recorded episodes .* \(--store none\)"):
        check_store(plan, None)


def test_participants_tell_waits_and_warnings_only() -> None:
    """How a run goes is told by its governor; of others waits and warnings are heard, in one plain line a second."""

    def body(run: Run) -> None:
        ended = RunEvent("phase.ended", {"phase": 0})
        assert ended is run.heard(run.governor.name, ended, 0.0)
        assert {"phase.ended"} == run.told
        for name in ("phase.ended", "run.ended", "signal", ""):
            assert run.heard("r-1/muscle/ada/0", RunEvent(name, {"text": "forged"}), 0.0) is None
        news = RunEvent("waiting", {"text": "a\nb\x1b" + "x" * 1000, "other": 1}, 7.0, "waits")
        heard = run.heard("r-1/muscle/ada/0", news, 10.0)
        assert heard is not None
        assert {"text": ("a\\x0ab\\x1b" + "x" * 1000)[:300], "name": "r-1/muscle/ada/0"} == heard.fields
        assert run.heard("r-1/muscle/ada/0", news, 10.4) is None
        steps = RunEvent("steps.taken", {"episode": 1, "steps": 2}, 7.0, "waits")
        assert run.heard("r-1/muscle/ada/0", steps, 20.0) is None
        assert run.heard("r-1/brain/ada", news, 10.9) is not None
        assert run.heard("r-1/muscle/ada/0", news, 11.1) is not None
        warning = run.heard("r-1/muscle/ada/0", RunEvent("warning", {"text": "long\n"}, 7.0, "waits"), 11.2)
        assert warning is not None
        assert ("warning", {"text": "long\\x0a", "name": "r-1/muscle/ada/0"}) == (warning.event, warning.fields)
        assert {"phase.ended"} == run.told

    _on_loop(body)


def test_excuses_are_counted_and_not_shown() -> None:
    """Each participant says how many exceptions it has excused; the newest number counts, nonsense is none."""

    def body(run: Run) -> None:
        for count in (1, 3, "many", 2):
            assert run.heard("r-1/muscle/ada/0", RunEvent("excused", {"count": count}), 0.0) is None
        assert {"r-1/muscle/ada/0": 3} == run.excused

    _on_loop(body)


PLUGIN = PluginPlan("dummy")


def birth_plan(on_loss: str = "recover") -> Plan:
    """Return a birth_plan with an environment and an agent of ours, and a program for each of both roles."""
    program = EnvironmentPlan("mill", command=["./mill", "--at={connection}", "x"])
    agents = [
        AgentPlan("ada", PLUGIN, PLUGIN, PLUGIN, ["grid.*"], ["grid.*"]),
        AgentPlan("bob", None, None, PLUGIN, ["grid.*"], [], program=ProgramPlan(["./act"])),
    ]
    environments = [EnvironmentPlan("grid", PLUGIN), program]
    phase = PhasePlan(0, "train", environments, agents, PLUGIN, [], [], on_loss=on_loss)
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

    argv, variables = born(look, birth_plan())

    path = Path(argv[1].removeprefix("--at="))
    assert (["./mill", "x"], tmp_path) == ([argv[0], argv[2]], path.parent)
    assert 0o600 == stat.S_IMODE(path.stat().st_mode)
    assert variables["GANGLION_TOKEN"] == json.loads(path.read_text())["token"]
