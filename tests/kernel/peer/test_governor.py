from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ganglion.errors import RemoteProtocolError
from ganglion.peer.governor import GovernorHost
from ganglion.run.plan import AgentPlan, EnvironmentPlan, PhasePlan, Plan, PluginPlan
from ganglion.wire.messages import Done, FlowSignal, GovernorStart, RunRequest

OWN = PluginPlan("own")
STORE = "r/store"


def plan() -> Plan:
    """Return a plan of one phase."""
    agent = AgentPlan("one", OWN, OWN, OWN, ["w.*"], ["w.*"])
    return Plan("doc", "exp", "7", [PhasePlan(0, "first", [EnvironmentPlan("w", OWN)], [agent], OWN, [], [OWN])])


class Stage:
    """Stand a governor's host on a fake link whose kernel and store answer by a script."""

    def __init__(self, hosted: Any, loader: Any, tmp_path: Path) -> None:
        self.hosted = hosted(GovernorHost(loader(), str(tmp_path)))
        self.link = self.hosted.link
        self.link.answers |= {
            "kernel.need": lambda peer, it: Done(),
            "kernel.watch": lambda peer, it: Done(),
            "kernel.ended": lambda peer, it: Done(),
        }

    def start(self, store: str | None = STORE, resume: Any = None) -> Any:
        request = GovernorStart("r", plan().to_map(), store, None, resume)
        return self.hosted.ask("governor.start", request, "supervisor")


@pytest.fixture
def stage(hosted: Any, loader: Any, tmp_path: Path) -> Stage:
    """Return a governor's host."""
    return Stage(hosted, loader, tmp_path)


def test_what_is_no_cut_is_refused(stage: Stage) -> None:
    """A start with something else as `resume` begins nothing."""
    with pytest.raises(RemoteProtocolError, match="expected a cut as `resume`"):
        stage.start(resume={"phase": "first"})


def test_a_governor_has_one_run(stage: Stage) -> None:
    """A second start is refused."""
    stage.start()
    with pytest.raises(RemoteProtocolError, match="has a run already"):
        stage.start()


@pytest.mark.parametrize(
    ("call", "message"), [("governor.signal", FlowSignal("RESET", "operator")), ("governor.stop", RunRequest("r"))]
)
def test_start_comes_first(stage: Stage, call: str, message: Any) -> None:
    """Without a run there is nothing to steer."""
    with pytest.raises(RemoteProtocolError, match=r"expected governor\.start first"):
        stage.hosted.ask(call, message, "supervisor")
