from __future__ import annotations

import asyncio
import dataclasses
import json
import stat
from pathlib import Path

import pytest

from ganglion.errors import LaunchError, UsageError
from ganglion.limits import ATTACH_WAIT_REPORT_S, WAIT_REPORT_S
from ganglion.run.plan import AgentPlan, EnvironmentPlan, PhasePlan, Plan, PluginPlan, ProgramPlan, Recovery
from ganglion.sdk.launcher import Launched, Launcher, LaunchSpec, LaunchWatch
from ganglion.supervisor.connection import Connection
from ganglion.supervisor.folder import RunFolder
from ganglion.supervisor.launch.local import Local
from ganglion.supervisor.life import Event
from ganglion.supervisor.runs import Member, Run, argv_of, check_launcher, variables_of
from ganglion.supervisor.supervisor import Settings, Supervisor
from ganglion.wire.messages import Ended, Failure, RunEvent

DUMMY = PluginPlan("dummy")

PHASE = PhasePlan(
    0,
    "train",
    [EnvironmentPlan("grid", DUMMY), EnvironmentPlan("sim", program=ProgramPlan())],
    [AgentPlan("ada", DUMMY, DUMMY, DUMMY, ["grid.*"], ["grid.*"])],
    DUMMY,
    [],
    [],
)

FAILED = Ended("r-1", "failed", "failed: boom", 1)


def _run() -> Run:
    """Return a run whose members are planned."""
    run = Run(Plan("r", "r", "1", [PHASE]), RunFolder("r-1", Path("/nowhere")), "sqlite:///x")
    for place in run.needed():
        run.members[place.name] = Member(place, run.id, 1, lambda m: None, lambda m: None)
        run.members[place.name].since_s = 0.0
    return run


def _lose(run: Run, name: str, why: str) -> Member:
    member = run.members[f"r-1/{name}"]
    member.receive(Event.START)
    member.receive(Event.FAILED, why=why)
    run.lost.append(member)
    return member


async def test_failure_never_ends_with_zero() -> None:
    """Whatever a governor says, a failed run and a run with a defect end with 1."""
    run = _run()
    run.finish(dataclasses.replace(FAILED, exit_status=0))
    assert 1 == run.conclude().exit_status
    run.ended = Ended("r-1", "finished", "completed", 0)
    run.defects.append("a process was left")

    assert (1, ["defect: a process was left"]) == (run.conclude().exit_status, run.conclude().report)


async def test_crash_is_told_before_what_it_dragged_along() -> None:
    """The one that crashed comes first, those that followed come after, whatever the order of news."""
    run = _run()
    _lose(run, "controller/0", "")
    _lose(run, "muscle/ada/0", "out of memory")
    run.finish(dataclasses.replace(FAILED, peer="r-1/controller/0"))
    report = run.conclude().report

    assert "muscle ada (worker 0) could not be started: out of memory" == report[0]
    assert report[-1].startswith("then: controller (worker 0) ")


@pytest.mark.parametrize("more", [[], ["before"]])
async def test_a_sentence_that_holds_the_last_output_is_told_once(more: list[str]) -> None:
    """A store that says why it cannot start is told in one sentence; further output is still shown."""
    run = _run()
    store = run.members["r-1/store"]
    store.receive(Event.START)
    store.receive(Event.STARTED)
    store.process.output.lines.extend([*more, "r-1/store: x.db: no folder"])
    store.child.code = 1
    run.lost.append(store)
    run.fail("store ended with exit status 1: x.db: no folder", peer=store.name)
    report = run.conclude().report

    output = ["its last 2 lines of output:", "    before", "    r-1/store: x.db: no folder"]
    assert ["store ended with exit status 1: x.db: no folder", *(output if more else [])] == report


async def test_culprit_is_the_end_of_the_way() -> None:
    """A failure that was passed on names who began it."""
    run = _run()
    failure = Failure("author", "boom", "r-1/controller/0: r-1/environment/grid/0")
    run.finish(dataclasses.replace(FAILED, failure=failure, peer="r-1/controller/0"))

    assert run.conclude().report[0].startswith("environment grid (worker 0): author: boom")


async def test_waits_are_told_at_growing_intervals() -> None:
    """Governor and store are told at 2, 4, 8 ... seconds; how to attach is told once, sooner."""
    run = _run()
    told: dict[str, list[float]] = {}
    for step in range(200):
        for member, _ in run.waits_due(step / 10):
            told.setdefault(member.label, []).append(step / 10)

    assert {"governor", "store", "environment sim (worker 0)"} == set(told)
    assert [WAIT_REPORT_S, 2 * WAIT_REPORT_S, 4 * WAIT_REPORT_S, 8 * WAIT_REPORT_S] == told["governor"]
    assert [ATTACH_WAIT_REPORT_S] == told["environment sim (worker 0)"]
    run.members["r-1/governor"].here.set()
    assert "governor" not in [member.label for member, _ in run.waits_due(1000.0)]


async def test_participants_tell_waits_and_warnings_only() -> None:
    """How a run goes is told by its governor; of others waits and warnings are heard, in one plain line a second."""
    run = _run()
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


async def test_with_bodies_the_tick_and_the_ended_episodes_are_told() -> None:
    """Episodes are those of the phase's environments; who tells neither an episode nor a tick has told nothing."""
    run, name = _run(), "r-1/controller/0"
    told = {"phase": 7, "tick": 9, "steps": 5, "episodes": {"grid": 3, "forged": 4}, "taken": 5}
    heard = run.heard(name, RunEvent("steps.taken", told), 0.0)

    assert heard is not None
    assert {"phase": 0, "worker": 0, "tick": 9, "steps": 5, "episodes": {"grid": 3}} == heard.fields
    assert run.heard(name, RunEvent("steps.taken", {**told, "tick": "9"}), 10.0) is None
    assert run.heard(name, RunEvent("steps.taken", {"steps": 5, "episodes": {"grid": 3}}), 20.0) is None


async def test_excuses_are_counted_and_not_shown() -> None:
    """Each participant says how many exceptions it has excused; the newest number counts, nonsense is none."""
    run = _run()
    for count in (1, 3, "many", 2):
        assert run.heard("r-1/muscle/ada/0", RunEvent("excused", {"count": count}), 0.0) is None
    assert {"r-1/muscle/ada/0": 3} == run.excused


def test_a_program_may_be_told_by_a_file(tmp_path: Path) -> None:
    """`{connection}` in an argument becomes the path of a file that only we may read, with what the variables say."""
    mill = EnvironmentPlan("mill", program=ProgramPlan(["./mill", "--at={connection}", "x"]))
    plan = Plan("r", "r", "1", [dataclasses.replace(PHASE, environments=[mill])])
    connection = Connection(1, 1, "ipc:///socket", "tcp://127.0.0.1:5", "o", "w", "a")
    supervisor = Supervisor(Settings(tmp_path / "results", None), lambda run, news: None)
    supervisor.connection, supervisor.folder = connection, tmp_path

    async def body() -> tuple[dict[str, str], list[str], list[str]]:
        run = Run(plan, RunFolder("r-1", tmp_path), None)
        place = next(place for place in run.places(0) if place.uid == "mill")
        member = run.member(place, lambda m: None, lambda m: None)
        variables = variables_of(supervisor, run, member)
        first, second = (
            argv_of(supervisor, run, member, variables, None) for _ in range(2)
        )  # a successor has the same
        return variables, first, second

    variables, argv, again = asyncio.run(body())
    path = Path(argv[1].removeprefix("--at="))
    assert (["./mill", "x"], tmp_path, argv) == ([argv[0], argv[2]], path.parent, again)
    assert 0o600 == stat.S_IMODE(path.stat().st_mode)
    assert variables["GANGLION_TOKEN"] == json.loads(path.read_text())["token"]


class Elsewhere(Launcher):
    """Start processes where the folder of a run is not seen, and where no users of this machine are."""

    async def start(self, spec: LaunchSpec, watch: LaunchWatch) -> Launched:
        raise LaunchError("this is not to be asked")

    async def close(self) -> list[str]:
        return []


@pytest.mark.parametrize(
    ("on_loss", "run_as", "refused"),
    [
        ("recover", None, "keep no journals"),
        ("restart", None, "on_loss: fail"),
        ("fail", None, ""),
        ("fail", "nobody", "run_as"),
    ],
)
def test_what_a_launcher_cannot_keep_is_refused(on_loss: str, run_as: str | None, refused: str) -> None:
    """Recovery without files of the run, and other users, are refused by name where a launcher has neither."""
    agents = [dataclasses.replace(PHASE.agents[0], recovery=Recovery(on_loss=on_loss, run_as=run_as))]
    phase = dataclasses.replace(PHASE, agents=agents, on_loss=on_loss)
    plan = Plan("r", "r", "1", [phase])

    if run_as is None:
        check_launcher(plan, Local())
    if not refused:
        check_launcher(plan, Elsewhere())
        return
    with pytest.raises(UsageError, match=f"launcher Elsewhere: .*{refused}"):
        check_launcher(plan, Elsewhere())
