from __future__ import annotations

from ganglion.sdk import Mode
from ganglion_palaestrai.protocol import (
    EnvironmentUpdateResponse,
    EnvironmentView,
    GovernorView,
    MuscleUpdateRequest,
    ObjectiveMemory,
)


def test_a_tail_of_objectives() -> None:
    """The tail has the last objectives, oldest first, fewer where there are no more, none for zero."""
    memory = ObjectiveMemory([1.0, 2.0, 3.0])

    assert [[3.0], [2.0, 3.0], [1.0, 2.0, 3.0], []] == [memory.tail(n).objective.tolist() for n in (1, 2, 9, 0)]
    assert (3, 2, 0) == (len(memory), len(memory.tail(2)), len(ObjectiveMemory([]).tail(5)))


def test_messages_have_their_old_attributes() -> None:
    """Messages answer to the names that conditions ask for."""
    assert EnvironmentUpdateResponse("e", True, True, False).is_terminal
    assert "e" == EnvironmentView("e", False).name
    assert "ada/1" == MuscleUpdateRequest("ada/1", False, Mode.TRAIN).sender


def test_a_governor_says_what_the_document_says() -> None:
    """The view of a phase has its limit, its workers and their counts."""
    governor = GovernorView.of(4, {0: 1, 1: 3})

    assert {"0": 1, "1": 3} == governor.current_episode_counts
    assert (4, 2) == (governor.experiment_run.get_episodes(0), governor.experiment_run.get_worker(0))
