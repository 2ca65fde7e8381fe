from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from ganglion.errors import ContractBroken
from ganglion.sdk import Brain, CheckpointableBrain, Memory, Muscle, Objective
from ganglion.testing import check_brain, check_muscle, check_objective


class Right(Muscle):
    """Act by a gain that a brain may change."""

    gain = 0.1

    def update(self, update: Any) -> None:
        self.gain = float(update["gain"])

    def propose_actions(self, sensors: list[Any], actuators_available: list[Any]) -> Any:
        for it in actuators_available:
            it.value = float(np.clip(self.gain * sensors[0].value + self.rng.normal(0.0, 0.1), -1.0, 1.0))
        return actuators_available


class Idle(Right):
    def propose_actions(self, sensors: list[Any], actuators_available: list[Any]) -> Any:
        return actuators_available


class TooFar(Right):
    def propose_actions(self, sensors: list[Any], actuators_available: list[Any]) -> Any:
        actuators_available[0].value = 7.0
        return actuators_available


class Counts(Right):
    made = 0

    def setup(self) -> None:
        Counts.made += 1
        self.gain = 0.1 * Counts.made


class Clings(Right):
    def teardown(self) -> None:
        raise OSError("the device is busy")


class TellsAnObject(Right):
    def propose_actions(self, sensors: list[Any], actuators_available: list[Any]) -> Any:
        return super().propose_actions(sensors, actuators_available), {"saw": object()}


class Learns(CheckpointableBrain):
    """Follow the objective by a gain, with an optimiser of one number."""

    CHECKPOINT_FORMAT, CHECKPOINT_SCHEMA_VERSION = "learns", 1

    def setup(self) -> None:
        self.gain, self.speed = 0.0, 0.0

    def thinking(self, muscle_id: str, data_from_muscle: Any) -> Any:
        if data_from_muscle is None and not len(self.memory):
            return {"gain": self.gain}
        self.speed = 0.9 * self.speed + 0.01 * float(np.nan_to_num(self.memory.tail(1).objective[0]))
        self.gain += self.speed + float(self.rng.normal(0.0, 0.01))
        return {"gain": self.gain}

    def arrays(self) -> Mapping[str, Any]:
        return {"gain": np.array(self.gain)}

    def load_arrays(self, arrays: Mapping[str, Any]) -> None:
        self.gain = float(arrays["gain"])

    def export_checkpoint_state(self) -> Mapping[str, Any]:
        return {"gain": np.array(self.gain), "speed": np.array(self.speed)}

    def restore_checkpoint_state(self, state: Any) -> None:
        self.gain, self.speed = float(state["gain"]), float(state["speed"])


class ForgetsItsSpeed(Learns):
    def restore_checkpoint_state(self, state: Any) -> None:
        self.gain = float(state["gain"])


class DrawsFromSpaces(Learns):
    """Use the streams of its spaces, which the bus keeps, as it keeps `rng`."""

    def thinking(self, muscle_id: str, data_from_muscle: Any) -> Any:
        self.gain += 0.01 * self.actuators[0].space.sample() * self.sensors[0].space.sample()
        return super().thinking(muscle_id, data_from_muscle)


class ForgetsWhatIsMadeAnew(Learns):
    """Lose what shows in one update alone: its model at the end is the same."""

    def thinking(self, muscle_id: str, data_from_muscle: Any) -> Any:
        last, self.speed = self.speed, float(self.memory.tail(1).decision_index.sum())
        return {"gain": last}

    def restore_checkpoint_state(self, state: Any) -> None:
        """Take nothing."""


class IsOfNoFormat(Learns):
    CHECKPOINT_FORMAT = 7  # type: ignore[assignment]


class MeasuresWords(Learns):
    def evaluate(self, evaluation: Any) -> Any:
        return {"words": "many"}


class SendsAnObject(Learns):
    def thinking(self, muscle_id: str, data_from_muscle: Any) -> Any:
        return {"gain": object()}


class DoesNotLoad(Learns):
    def load_arrays(self, arrays: Mapping[str, Any]) -> None:
        self.gain = 0.0


class SavesObjects(Learns):
    def arrays(self) -> Mapping[str, Any]:
        return {"gain": np.array([object()])}


class Wanders(Brain):
    made = 0

    def thinking(self, muscle_id: str, data_from_muscle: Any) -> Any:
        Wanders.made += 1
        return {"gain": 0.001 * Wanders.made}


class Pretrains(Learns):
    """Learn from recorded episodes, in two passes."""

    def pretrain(self, sessions: Any) -> None:
        for _ in range(2):
            for session in sessions:
                self.speed += 0.01 * float(session.transitions().objectives.mean())
                self.gain += self.speed


class Spoils(Pretrains):
    def pretrain(self, sessions: Any) -> None:
        sessions[0].objectives[:] = 0.0


class DividesByNothing(Pretrains):
    def pretrain(self, sessions: Any) -> None:
        self.gain = float("nan")

    def thinking(self, muscle_id: str, data_from_muscle: Any) -> Any:
        return {"gain": 0.0}


class LearnsAnything(Pretrains):
    made = 0

    def pretrain(self, sessions: Any) -> None:
        LearnsAnything.made += 1
        self.gain = 0.01 * LearnsAnything.made


class WantsAnEnd(Pretrains):
    def pretrain(self, sessions: Any) -> None:
        for session in sessions:
            assert session.has_final, "an episode has closing readings"


class ForgetsItsLesson(Pretrains):
    taught = 0.0

    def pretrain(self, sessions: Any) -> None:
        self.taught = 0.3

    def thinking(self, muscle_id: str, data_from_muscle: Any) -> Any:
        super().thinking(muscle_id, data_from_muscle)
        return {"gain": self.gain + self.taught}


class SendsItsLesson(Pretrains):
    def pretrain(self, sessions: Any) -> Any:
        return {"gain": object()}


class Judges(Objective):
    def internal_reward(self, memory: Memory, **kwargs: Any) -> float | None:
        return float(np.nansum(memory.tail(1).rewards.flat[0]))


class SaysNan(Objective):
    def internal_reward(self, memory: Memory, **kwargs: Any) -> float | None:
        return float(np.sum(memory.tail(1).rewards.flat[0]))


class SaysMuch(Objective):
    def internal_reward(self, memory: Memory, **kwargs: Any) -> Any:
        return memory.tail(1).rewards.flat[0]


def test_those_that_keep_the_contract_pass() -> None:
    """Nothing is said of right ones."""
    check_muscle(Right)
    check_muscle(Right, brain=Learns)
    check_brain(Learns, muscle=Right)
    check_brain(Learns)
    check_brain(DrawsFromSpaces)
    check_brain(Pretrains)
    check_objective(Judges)


@pytest.mark.parametrize(
    ("cls", "clause"),
    [
        (Idle, "gives every actuator a value.*world.push has no value"),
        (TooFar, "gives every actuator a value of its space"),
        (Counts, "the same seed and readings give the same setpoints"),
        (Clings, "`teardown` ends it: .*the device is busy"),
        (TellsAnObject, r"what it adds to a decision for the brain can travel: propose_actions\[1\].saw"),
    ],
)
def test_each_breach_of_a_muscle_is_named(cls: type[Muscle], clause: str) -> None:
    """A muscle that breaks one clause is told that clause, by its own name."""
    with pytest.raises(ContractBroken, match=f"(?s){cls.__name__}.*{clause}"):
        check_muscle(cls)


@pytest.mark.parametrize(
    ("cls", "clause"),
    [
        (ForgetsItsSpeed, "all that `restore_checkpoint_state` needs to go on"),
        (SendsAnObject, r"update.gain: an? .*object cannot travel"),
        (DoesNotLoad, "after `load`, `arrays` are those that were saved: found another gain"),
        (SavesObjects, "`store` saves the model as named arrays"),
        (Wanders, "the same seed and rows give the same updates"),
        (IsOfNoFormat, "`CHECKPOINT_FORMAT` is a text"),
        (Spoils, "`pretrain` takes recorded episodes, and leaves them as they are: .*read-only"),
        (WantsAnEnd, "`pretrain` takes recorded episodes, .*an episode has closing readings"),
        (DividesByNothing, r"`arrays` are finite after `pretrain`: found NaN or infinity in \['gain'\]"),
        (LearnsAnything, "the same seed and recorded episodes give the same updates"),
        (ForgetsItsLesson, "a checkpoint keeps what was learned in `pretrain`, bit by bit: found another"),
        (SendsItsLesson, r"`pretrain` takes recorded episodes, .*update\.gain: an? .*object cannot travel"),
        (MeasuresWords, r"`evaluate` returns finite numbers by name, or None: metrics\.words: .*'many'"),
    ],
)
def test_each_breach_of_a_brain_is_named(cls: type[Brain], clause: str) -> None:
    """A brain that breaks one clause is told that clause, by its own name."""
    with pytest.raises(ContractBroken, match=f"(?s){cls.__name__}.*{clause}"):
        check_brain(cls, muscle=Right)


def test_updates_are_compared_where_they_change_nothing_else() -> None:
    """What a brain has lost is found in its next update, also where its muscle does not act by it."""
    with pytest.raises(ContractBroken, match="needs to go on, bit by bit: found another answer number 10"):
        check_brain(ForgetsWhatIsMadeAnew)


@pytest.mark.parametrize("cls", [SaysNan, SaysMuch])
def test_each_breach_of_an_objective_is_named(cls: type[Objective]) -> None:
    """An objective that returns anything but one number or None is told so; a row without rewards shows NaN."""
    with pytest.raises(ContractBroken, match=f"(?s){cls.__name__}.*one number or None"):
        check_objective(cls)
