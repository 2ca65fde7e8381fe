from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from ganglion import registry
from ganglion.cli.session import Session
from ganglion.cli.settings import Settings
from ganglion.document import load_document
from ganglion.run.plan import Plan
from ganglion.supervisor.runs import Outcome

DOCUMENT = Path(__file__).parents[2] / "documents" / "dummy.yml"


def plan(*overrides: str) -> Plan:
    """Return the plan of the dummy document."""
    return load_document(DOCUMENT, plugins=registry, overrides=overrides)[0]


def test_runs_side_by_side(tmp_path: Path) -> None:
    """Two runs share a broker; each is told by its id before it begins; afterwards nothing is left."""
    begun: list[str] = []
    events: list[str] = []

    async def main() -> tuple[Session, list[Outcome]]:
        settings = Settings(results=tmp_path, store="none")
        session = Session(settings, ".two", tmp_path / "logs", report=lambda run, news: events.append(run))
        async with session:
            assert session.alive
            assert [] == [f for f in await session.check(plan()) if f.severity == "error"]
            found = await asyncio.gather(*(session.execute(plan(f"seed={n}"), begun.append) for n in (1, 2)))
        return session, found

    session, outcomes = asyncio.run(main())
    assert ["finished", "finished"] == [outcome.status for outcome in outcomes]
    assert {"dummy-1", "dummy-2"} == set(begun) == set(events)
    assert ([], False, 0) == (session.found, session.alive, session.interrupts)
    assert not (tmp_path / ".two").exists()


def test_ctrl_c_interrupts_what_runs(tmp_path: Path) -> None:
    """The first Ctrl-C ends the runs after their episodes, and says so."""
    said: list[str] = []

    async def main() -> Outcome:
        session = Session(
            Settings(results=tmp_path, store="none"),
            ".one",
            tmp_path / "logs",
            report=lambda run, news: (
                os.kill(os.getpid(), signal.SIGINT) if news.event == "episode.ended" and not said else None
            ),
            note=said.append,
        )
        async with session:
            return await session.execute(plan("schedule.train.phase_config.episodes=100000"))

    outcome = asyncio.run(main())
    assert ("interrupted", 130) == (outcome.status, outcome.exit_status)
    assert said[0].startswith("finishing the episode")


def test_a_run_that_is_not_begun_leaves_no_folder(tmp_path: Path) -> None:
    """Who refuses a run when it is told its id leaves nothing of it."""

    def refuse(run: str) -> None:
        raise RuntimeError(run)

    async def main() -> None:
        async with Session(Settings(results=tmp_path, store="none"), ".one", tmp_path / "logs") as session:
            await session.execute(plan(), refuse)

    with pytest.raises(RuntimeError, match="dummy-1"):
        asyncio.run(main())
    assert not (tmp_path / "dummy-1").exists()
