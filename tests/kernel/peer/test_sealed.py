from __future__ import annotations

from typing import Any

from ganglion.peer.sealed import Sealed


def episode(phase: int, worker: int, number: int, environment: str | None = None) -> list[Any]:
    """Return the end of an episode."""
    return ["episode", phase, "train", worker, environment, number, 3, True, False, "environment", 1]


def evaluation(phase: int, agent: str, number: int) -> list[Any]:
    """Return an evaluation."""
    return ["evaluation", phase, agent, number, 3, {}, None, "now"]


def test_the_last_of_each_is_known() -> None:
    """Workers, environments and agents are told apart; what is no end of an episode says nothing."""
    sealed = Sealed()
    records = [episode(0, 0, 0), episode(0, 0, 1), episode(0, 1, 0, "grid"), evaluation(0, "ada", 1)]
    for record in [*records, ["steps", 0, "train", 0, "grid", 5, []], ["episode", 0], ["evaluation"], []]:
        sealed.hear(record)

    assert {(0, "train", 0, ""): 1, (0, "train", 1, "grid"): 0} == sealed.episodes
    assert {(0, "ada"): 1} == sealed.evaluations


def test_a_successor_knows_the_same_of_newer_phases() -> None:
    """The state has plain values, and nothing of the phases that are over."""
    sealed = Sealed()
    for phase in range(3):
        sealed.hear(episode(phase, 0, phase, "grid"))
        sealed.hear(evaluation(phase, "ada", phase))
    again = Sealed(sealed.state(1))

    assert {(1, "train", 0, "grid"): 1, (2, "train", 0, "grid"): 2} == again.episodes
    assert {(1, "ada"): 1, (2, "ada"): 2} == again.evaluations
