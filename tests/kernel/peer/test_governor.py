from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ganglion.errors import AuthorError, RemoteProtocolError
from ganglion.peer.governor import GovernorHost
from ganglion.peer.observer import ObserverHost
from ganglion.run.plan import AgentPlan, EnvironmentPlan, PhasePlan, Plan, PluginPlan
from ganglion.sdk import Box, Observer
from ganglion.sdk.condition import TerminationCondition
from ganglion.wire.codec import codec_of
from ganglion.wire.conversation import Notice
from ganglion.wire.envelope import Head
from ganglion.wire.messages import (
    ControllerReady,
    Done,
    Failure,
    FlowSignal,
    Gap,
    GovernorStart,
    Joined,
    RecordAck,
    RunEvent,
    RunRequest,
    Watch,
)
from ganglion.wire.verb import Verb

OWN = PluginPlan("own")
STORE = "r/store"


def plan() -> Plan:
    """Return a plan of one phase."""
    agent = AgentPlan("one", OWN, OWN, OWN, ["w.*"], ["w.*"])
    return Plan("doc", "exp", "7", [PhasePlan(0, "first", [EnvironmentPlan("w", OWN)], [agent], OWN, [], [OWN])])


class Stage:
    """Stand a governor's host on a fake link whose kernel and store answer by a script."""

    def __init__(self, hosted: Any, loader: Any, tmp_path: Path) -> None:
        self.hosted = hosted(GovernorHost(loader(condition=TerminationCondition), str(tmp_path)))
        self.link = self.hosted.link
        self.link.answers |= {
            "kernel.need": lambda peer, it: Done(),
            "kernel.watch": lambda peer, it: Done(),
            "kernel.ended": lambda peer, it: Done(),
        }

    def start(self, store: str | None = STORE, resume: Any = None) -> Any:
        request = GovernorStart("r", plan().to_map(), store, None, resume)
        return self.hosted.ask("governor.start", request, "supervisor")

    def settle(self) -> None:
        """Take all that has come."""
        participant = self.hosted.participant
        while self.link.inbox or participant._inbox:
            incoming = participant._next(0.0)
            if incoming is not None:
                participant._take(incoming)
        self.hosted.host.tick()

    def ended(self) -> Any:
        return self.link.asked("kernel.ended")[0][1]


@pytest.fixture
def stage(hosted: Any, loader: Any, tmp_path: Path) -> Stage:
    """Return a governor's host."""
    return Stage(hosted, loader, tmp_path)


def test_what_is_no_cut_is_refused(stage: Stage) -> None:
    """A start with something else as `resume` begins nothing."""
    with pytest.raises(RemoteProtocolError, match="expected a checkpoint as `resume`"):
        stage.start(resume={"phase": "first"})


def test_a_governor_has_one_run(stage: Stage) -> None:
    """A second start is refused."""
    stage.start()
    with pytest.raises(RemoteProtocolError, match="has a run already"):
        stage.start()


def test_a_lost_process_fails_the_run(stage: Stage) -> None:
    """LOST of somebody who is needed ends the run by his name and the reason."""
    stage.start(None)
    stage.settle()
    stage.link.tell("", "kernel.joined", Joined("r/brain/one", 1, "brain"))
    stage.link.lose("r/brain/one", "killed by signal 9")
    stage.settle()

    assert ("failed", "r/brain/one") == (stage.ended().status, stage.ended().peer)
    assert "killed by signal 9" in stage.ended().failure.message


def test_another_broker_is_asked_to_watch_again(stage: Stage) -> None:
    """On each new connection everybody whom the phase needs is watched."""
    stage.start()
    stage.settle()
    before = stage.link.calls("kernel.watch")
    stage.hosted.host.reconnected()

    assert len(before) + 1 == len(stage.link.calls("kernel.watch"))
    names = codec_of(Watch).decode(stage.link.calls("kernel.watch")[-1].body).peers
    assert {STORE, "r/brain/one"} <= set(names)


def test_the_end_is_said_again_to_whoever_supervises_next(stage: Stage) -> None:
    """That its word was answered is on the governor's journal, and who has answered may be gone: it says it anew."""
    stage.start(None)
    stage.hosted.ask("governor.stop", RunRequest("r", False, "Ctrl-C"), "supervisor")
    stage.settle()
    assert 1 == len(stage.link.asked("kernel.ended"))
    stage.hosted.host.reconnected()

    first, second = [message for _, message in stage.link.asked("kernel.ended")]
    assert ("interrupted", first) == (second.status, second)


def test_a_controller_that_joins_again_hears_the_signals_of_its_phase(stage: Stage) -> None:
    """A signal may be lost with the connection: it is said again under its number, by which a controller knows it."""
    controller, space = "r/controller/0", Box(0.0, 1.0, ()).to_wire()
    declared: dict[str, Any] = {"sensors": [{"id": "s", "space": space}], "rewards": None}
    declared["actuators"] = [{"id": "a", "space": space, "value": 0.0}]
    stage.link.answers |= {
        "brain.setup": lambda peer, it: Done(),
        "controller.setup": lambda peer, it: ControllerReady({"w": declared}),
        "controller.start": lambda peer, it: Done(),
    }
    stage.start(None)
    stage.settle()
    for name in ("r/brain/one", controller, "r/environment/w/0", "r/muscle/one/0"):
        stage.link.tell("", "kernel.joined", Joined(name, 1, "one"))
        stage.settle()
    stage.hosted.ask("governor.signal", FlowSignal("STOP_PHASE", "operator", "enough"), "supervisor")
    for name in ("r/brain/one", controller):
        stage.link.tell("", "kernel.joined", Joined(name, 2, "one"))
        stage.settle()
    signals = [one for one in stage.link.sent if one.head.verb is Verb.SIGNAL]

    assert [controller] * 2 == [one.peer for one in signals]
    assert signals[0].body == signals[1].body


def test_a_failing_kernel_call_fails_the_run(stage: Stage) -> None:
    """What the supervisor cannot do ends the run."""
    stage.link.answers["kernel.need"] = lambda peer, it: Failure("launch", "no such program")
    stage.start(None)
    stage.settle()

    assert ("launch", "no such program") == (stage.ended().failure.kind, stage.ended().failure.message)


def test_a_failing_store_fails_the_run(stage: Stage) -> None:
    """What the store cannot write ends the run by the store's name, and the governor lives on to say it."""
    stage.start()
    stage.settle()
    stage.link.tell(STORE, "record.ack", RecordAck(1, Failure("store", "disk full")))
    stage.settle()
    stage.hosted.ask("governor.signal", FlowSignal("RESET", "operator"), "supervisor")
    stage.settle()
    stage.settle()

    assert ("failed", "store", "disk full", STORE) == (
        stage.ended().status,
        stage.ended().failure.kind,
        stage.ended().failure.message,
        stage.ended().peer,
    )


# -- observer ---------------------------------------------------------------------------------------------------------
class Notebook(Observer):
    """Write down what is told."""

    topics = ("events", "waits")
    notes: list[Any]

    def setup(self) -> None:
        """Begin."""
        self.notes = ["setup"]

    def observe(self, topic: str, event: str, fields: Mapping[str, Any], time_s: float) -> None:
        """Note a message; one that says so is a reason to raise."""
        if fields.get("bad"):
            raise RuntimeError("cannot read that")
        self.notes.append((topic, event, dict(fields), time_s))

    def missed(self, topic: str, first: int, last: int) -> None:
        """Note a gap."""
        self.notes.append((topic, first, last))

    def teardown(self) -> None:
        """End."""
        self.notes.append("teardown")


class Waits(Notebook):
    """Listen to waits alone."""

    topics = ("waits",)


@pytest.fixture
def kit(loader: Any, hosted: Any) -> Any:
    """Return what makes a host on a fake bus, with its observer."""

    def made(kind: type[Notebook] = Notebook) -> tuple[Any, Notebook]:
        stood = hosted(ObserverHost(loader(observer__notebook=kind), "notebook", "r"))
        return stood, stood.host._observer

    return made


def tell(hosted: Any, call: str, message: Any) -> None:
    """Let the bus tell something."""
    head = Head(Verb.TELL, 0, call)
    hosted.host.told(Notice("r/governor", head, codec_of(type(message)).encode(message), ()))


def test_a_gap_is_told_by_its_numbers(kit: Any) -> None:
    """After two messages a gap of three is 3 to 5."""
    hosted, observer = kit()
    hosted.host.joined()
    for _ in range(2):
        tell(hosted, "event", RunEvent("e", {}))

    tell(hosted, "kernel.gap", Gap("@r/events", 3))

    assert ("events", 3, 5) == observer.notes[-1]


def test_it_leaves_when_the_run_has_ended(kit: Any) -> None:
    """The end of the run is its end, also for who does not listen to events."""
    hosted, observer = kit(Waits)
    hosted.host.joined()

    tell(hosted, "event", RunEvent("run.ended", {}))
    hosted.host.close()

    assert "the run has ended" == hosted.participant.leaving.reason
    assert ["setup", "teardown"] == observer.notes


def test_an_observer_that_raises_is_blamed(kit: Any) -> None:
    """What `observe` raises names the observer and the hook."""
    hosted, _ = kit()
    hosted.host.joined()

    with pytest.raises(AuthorError, match="RuntimeError: cannot read that") as caught:
        tell(hosted, "event", RunEvent("e", {"bad": True}))

    assert "observer of r" in caught.value.__notes__[0]
    assert "hook observe" in caught.value.__notes__[0]
