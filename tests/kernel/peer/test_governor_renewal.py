from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ganglion.peer.journal.renewal import GovernorRenewal
from ganglion.peer.models import ModelStore
from ganglion.peer.results.records import Ordinals, Records
from ganglion.run.flow import Flow, episodes_of
from ganglion.run.governor import Governor
from ganglion.run.plan import PhasePlan, Plan, PluginPlan
from ganglion.run.setup import Setup
from ganglion.sdk.condition import EpisodeMeans, TerminationCondition
from ganglion.wire.messages import EpisodeEnded, FlowSignal


class Counting(TerminationCondition):
    """Be a condition that knows something."""

    def __init__(self) -> None:
        self.asked: list[int] = []


class Stood:
    """Be a governor whose episodes run, with all that belongs to it."""

    def __init__(self, peer: Any, folder: Path) -> None:
        phase = PhasePlan(0, "one", [], [], PluginPlan("own"), [], [], workers=2)
        plan = Plan("doc", "exp", "7", [phase])
        self.peer, self.condition, self.ordinals = peer, Counting(), Ordinals(2, 1)
        self.models = ModelStore(plan, "r", str(folder), None, lambda text: None)
        self.records = Records(self.peer, "r/store")
        self.governor = Governor("r", plan, "r/store", str(folder), self)  # type: ignore[arg-type]
        self.flow = self.governor._flow = Flow(
            "r",
            phase,
            [("c", self.condition, "phase")],
            Setup("r", plan, None, "", self),  # type: ignore[arg-type]
        )
        self.governor._phase = phase
        self.sent: list[Any] = []
        self.reign = GovernorRenewal(
            self.peer, self.governor, {"c": self.condition}, self.ordinals, self.records, self.models
        )

    def stand(self, numbers: dict[str, int], said: dict[str, list[FlowSignal]]) -> None:
        """Stand; keep what a predecessor had sent."""
        self.reign.stand(numbers, said, lambda *sent: self.sent.extend(sent))


def test_a_governor_goes_on_where_another_one_stood(tmp_path: Path, standing: Any) -> None:
    """What it has counted, numbered, sent and recorded is what its successor knows."""
    first = Stood(standing("r/governor"), tmp_path)
    first.flow.tally.count(1, episodes_of(EpisodeEnded(1, 0, 7, True, False, "", {"ada": {"mean": 0.5}}, [], [], [])))
    first.flow.round, first.flow._last_round = 8, {1: 8}
    first.governor._joined["r/muscle/ada/1"] = "msgpack"
    first.condition.asked.append(3)
    first.ordinals.number(1)
    first.ordinals.order()
    row = ["phase", 0, "one", "evaluate", "running", None]
    first.models.take(row)
    first.records.number = 12
    said = {"r/controller/0": [FlowSignal("PAUSE", "operator", number=1)]}
    first.stand({"r/controller/0": 1}, said)
    other = Stood(standing("r/governor", first.peer.state), tmp_path)
    other.stand({}, {})

    assert not first.peer.warnings
    assert [{"r/controller/0": 1}, said] == other.sent
    assert [[], [EpisodeMeans(0, 7, {"ada": 0.5}, False)]] == other.flow.tally._finished
    assert (8, {1: 8}, [3], 12) == (
        other.flow.round,
        other.flow._last_round,
        other.condition.asked,
        other.records.number,
    )
    assert other.governor._joined == first.governor._joined
    assert (first.ordinals.number(1), first.ordinals.order()) == (other.ordinals.number(1), other.ordinals.order())
    assert first.models.note() == other.models.note()


def test_models_that_were_stored_are_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, standing: Any) -> None:
    """Where models came in the midst of a phase the journal goes on as it is."""
    stood = Stood(standing("r/governor"), tmp_path)
    monkeypatch.setattr(stood.models, "note", lambda: [["brain", 0, "ada"]])
    stood.stand({}, {})

    assert stood.peer.state is None
    assert "models have been stored" in stood.peer.warnings[0]
