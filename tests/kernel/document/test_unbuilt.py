from __future__ import annotations

import pytest

from ganglion.document.check import UNBUILT, unbuilt
from ganglion.document.marks import Source, compose
from ganglion.document.model import (
    Agent,
    Document,
    Entry,
    Environment,
    Load,
    Phase,
    PhaseConfig,
    Plugin,
    Recovery,
    Replay,
    Simulation,
)
from ganglion.document.spelling import normalise

MODELS = {
    "document": Document, "phase": Phase, "phase_config": PhaseConfig, "entry": Entry, "environment": Environment,
    "agent": Agent, "plugin": Plugin, "simulation": Simulation, "recovery": Recovery, "load": Load, "replay": Replay,
    "conditions": Plugin,
}  # fmt: skip
PHASE = "schedule: [one: {%s}]"

REFUSED = [
    (PHASE % "bodies: {num: 2}", "bodies"),
    (PHASE % "environments: [{environment: {uid: e}, clock: {period: 2}}]", "a clock of an environment"),
    (PHASE % "simulation: aeb", "the controller `aeb`"),
    (PHASE % "agents: [{replay: [{}, {path: a.h5}]}]", "pre-training out of files"),
    (PHASE % "agents: [{replay: [{format: auto}]}]", "pre-training out of files"),
    (PHASE % "agents: [{replay: [{table: recent}]}]", "pre-training out of tables"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "words"), REFUSED)
def test_is_refused(text: str, words: str) -> None:
    """What is not carried out yet is a fault that says so, never ignored."""
    root, _ = compose(Source("a.yml", text), text)
    assert root is not None

    assert [f"not built yet: {words}"] == [fault.message for fault in unbuilt(normalise(root)[0])]


def test_every_row_names_a_key_that_there_is() -> None:
    """No row of the table is about a key that documents do not have."""
    assert [] == [(place, key) for place, key, _, _ in UNBUILT if key not in MODELS[place].model_fields]
