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

TAKEN = [
    PHASE % "phase_config: {mode: test, sync: lockstep, evaluate_every: ~, evaluate_episodes: 3}",
    PHASE
    % "agents: [{filters: [norm], load: {}}, {load: false}, {load: {phase: 0, base: .}, models: kept}, {load: ~}]",
    PHASE % "agents: [{brain: {name: aeb, on_error: continue}}]",
    PHASE % "simulation: {conditions: [agent_objective]}",
    "run_config: {condition: evaluation_objective}",
    PHASE % "recovery: {on_loss: fail, deadlines_s: {act: 3}, deterministic: false, restarts: {max: 3}}",
    PHASE % "agents: [{recovery: {deadlines_s: {act: 3}}}]",
    PHASE % "agents: [{replay: [{phase: 0, repeat: 3, path: ~, table: ~}]}, {replay: ~}, {replay: []}]",
]


@pytest.mark.parametrize(("text", "words"), REFUSED)
def test_is_refused(text: str, words: str) -> None:
    """What is not carried out yet is a fault that says so, never ignored."""
    root, _ = compose(Source.of("a.yml", text), text)
    assert root is not None

    assert [f"not built yet: {words}"] == [fault.message for fault in unbuilt(normalise(root)[0])]


@pytest.mark.parametrize("text", TAKEN)
def test_is_taken(text: str) -> None:
    """What is carried out is not refused."""
    root, _ = compose(Source.of("a.yml", text), text)
    assert root is not None

    assert [] == unbuilt(normalise(root)[0])


def test_every_row_names_a_key_that_there_is() -> None:
    """No row of the table is about a key that documents do not have."""
    assert [] == [(place, key) for place, key, _, _ in UNBUILT if key not in MODELS[place].model_fields]
