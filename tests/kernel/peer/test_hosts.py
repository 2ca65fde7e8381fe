"""Hosts of all roles: what they answer before there is anything to do it with."""

from __future__ import annotations

from typing import Any

import pytest

from ganglion.errors import RemoteProtocolError
from ganglion.peer.agent.brain import BrainHost
from ganglion.peer.agent.muscle import MuscleHost
from ganglion.peer.environment.host import EnvironmentHost
from ganglion.peer.governor import GovernorHost
from ganglion.peer.worker.controller import ControllerHost
from ganglion.wire.messages import (
    Act,
    BrainJoin,
    BrainStore,
    ControllerShutdown,
    ControllerStart,
    Done,
    EnvironmentReset,
    EnvironmentUpdate,
    FlowSignal,
    MuscleReset,
    Nothing,
    RunRequest,
    Think,
    UpdateAsked,
    Verdict,
)


@pytest.mark.parametrize(
    ("host", "call", "message"),
    [
        (BrainHost, "brain.join", BrainJoin(0)),
        (BrainHost, "brain.think", Think(0, 0, 0, [], [], [], [], [])),
        (BrainHost, "brain.update", UpdateAsked(0)),
        (BrainHost, "brain.store", BrainStore()),
        (MuscleHost, "muscle.act", Act([[0]])),
        (MuscleHost, "muscle.reset", MuscleReset(1)),
        (EnvironmentHost, "environment.update", EnvironmentUpdate([[]])),
        (EnvironmentHost, "environment.reset", EnvironmentReset(1, 0)),
        (ControllerHost, "controller.start", ControllerStart([], False, "lockstep", Verdict("RESET"), False)),
        (GovernorHost, "governor.signal", FlowSignal("RESET", "operator")),
        (GovernorHost, "governor.stop", RunRequest("r")),
    ],
)
def test_what_begins_a_phase_comes_first(hosted: Any, loader: Any, host: Any, call: str, message: Any) -> None:
    """Without a phase there is nothing to ask anybody for."""
    made = hosted(host(loader(), *("results",) * (host is GovernorHost)))
    with pytest.raises(RemoteProtocolError, match=rf"expected {call.partition('.')[0]}\.(setup|start) first"):
        made.ask(call, message)


@pytest.mark.parametrize(
    ("host", "call", "message"),
    [
        (BrainHost, "brain.shutdown", Nothing()),
        (MuscleHost, "muscle.shutdown", Nothing()),
        (EnvironmentHost, "environment.shutdown", Nothing()),
        (ControllerHost, "controller.shutdown", ControllerShutdown(True, True)),
    ],
)
def test_there_is_nothing_to_shut_down(hosted: Any, loader: Any, host: Any, call: str, message: Any) -> None:
    """A shutdown before the begin, as a second one, does nothing."""
    assert Done() == hosted(host(loader())).ask(call, message)
