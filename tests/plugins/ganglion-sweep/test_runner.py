from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from ganglion.cli.extension import DocumentError, Launcher, Session, Settings, store_class, store_uri
from ganglion_sweep.experiment import Experiment
from ganglion_sweep.folder import Folder
from ganglion_sweep.point import points_of
from ganglion_sweep.progress import Progress
from ganglion_sweep.runner import Runner, cores

Read = Callable[..., Experiment]


def test_cores() -> None:
    """At least one run goes at a time."""
    assert cores() >= 1


def test_points_are_carried_out_and_noted(read: Read, grid: str, tmp_path: Path) -> None:
    """Real runs: each point ends as done, with its run; one that fails stops no other; nothing is left behind."""
    settings = Settings(results=tmp_path, verbosity=-1)
    text = grid.replace("muscle: dummy", "muscle: {name: 'brittle:Brittle'}").replace(
        "phase_config.worker, levels: [1, 2]", "agents.ada.muscle.params.breaks, levels: [false, true]"
    )
    (tmp_path / "brittle.py").write_text(
        "from ganglion.sdk import Muscle\n"
        "class Brittle(Muscle):\n"
        "    def __init__(self, breaks):\n"
        "        super().__init__()\n"
        "        self.breaks = breaks\n"
        "    def propose_actions(self, sensors, actuators):\n"
        "        if self.breaks:\n"
        "            raise RuntimeError('it broke')\n"
        "        for actuator in actuators:\n"
        "            actuator(actuator.space.sample())\n"
        "        return actuators\n"
    )
    points = points_of(read(text))[1:3]
    runner = Runner(settings, Folder(tmp_path, "grid"), Progress(settings), parallel=2, stop_on_failure=False)
    uri = store_uri(settings)
    with store_class(uri).point_book(uri, "grid") as book:
        book.plan([point.record() for point in points])

        async def main() -> Session:
            async with runner.session(points, Launcher()) as session:
                assert not [f for f in await runner.check(session, points) if f.severity == "error"]
                await runner.carry_out(session, book, points)
            return session

        session = asyncio.run(main())
        found = [(row["point"], row["state"], row["run"]) for row in book.points()]
    assert [(1, "failed", "grid-1-1"), (2, "done", "grid-2-1")] == found
    assert [] == session.found
    assert not runner.interrupted


def test_what_only_plugins_know_is_a_fault_of_the_experiment(read: Read, grid: str, tmp_path: Path) -> None:
    """A parameter that a constructor does not take is told at its place in the experiment document, once."""
    settings = Settings(results=tmp_path, verbosity=-1)
    points = points_of(read(grid.replace("params.max_iter", "params.max_inter") + "repetitions: 2\n"))
    runner = Runner(settings, Folder(tmp_path, "grid"), Progress(settings), parallel=1, stop_on_failure=False)

    async def main() -> None:
        async with runner.session(points, Launcher()) as session:
            await runner.check(session, points)

    with pytest.raises(DocumentError, match="max_inter") as error:
        asyncio.run(main())
    assert [str(tmp_path / "e.yml")] == [fault.file for fault in error.value.faults]
