from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from ganglion.errors import ContractBroken
from ganglion.sdk import Brain, CheckpointableBrain, Memory, Muscle
from ganglion.testing import check_brain, check_equivalence, check_muscle, check_objective
from ganglion.testing.checks import Sum


class Right(Muscle):
    """Act by a gain that a brain may change."""

    gain = 0.1

    def update(self, update: Any) -> None:
        self.gain = float(update["gain"])

    def propose_actions(self, sensors: list[Any], actuators_available: list[Any]) -> Any:
        for it in actuators_available:
            it.value = float(np.clip(self.gain * sensors[0].value + self.rng.normal(0.0, 0.1), -1.0, 1.0))
        return actuators_available


class Counts(Right):
    made = 0

    def setup(self) -> None:
        Counts.made += 1
        self.gain = 0.1 * Counts.made


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
        pass


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


class ForgetsItsLesson(Pretrains):
    taught = 0.0

    def pretrain(self, sessions: Any) -> None:
        self.taught = 0.3

    def thinking(self, muscle_id: str, data_from_muscle: Any) -> Any:
        super().thinking(muscle_id, data_from_muscle)
        return {"gain": self.gain + self.taught}


def _far(self: Any, sensors: Any, actuators: Any) -> Any:
    actuators[0].value = 7.0
    return actuators


def _busy(self: Any, *_: Any) -> None:
    raise OSError("the device is busy")


def _last(memory: Memory) -> Any:
    return memory.tail(1).rewards.flat[0]


def test_those_that_keep_the_contract_pass() -> None:
    """Nothing is said of right ones."""
    check_muscle(Right)
    check_muscle(Right, brain=Learns)
    check_brain(Learns, muscle=Right)
    check_brain(Learns)
    check_brain(DrawsFromSpaces)
    check_brain(Pretrains)
    check_objective(Sum)


@pytest.mark.parametrize(
    ("base", "methods", "clause"),
    [
        (
            Right,
            {"propose_actions": lambda self, sensors, actuators: actuators},
            "gives every actuator a value.*world.push has no value",
        ),
        (Right, {"propose_actions": _far}, "gives every actuator a value of its space"),
        (Counts, {}, "the same seed and readings give the same setpoints"),
        (Right, {"teardown": _busy}, "`teardown` ends it: .*the device is busy"),
        (
            Right,
            {"propose_actions": lambda self, *given: (Right.propose_actions(self, *given), {"saw": object()})},
            r"what it adds to a decision for the brain can travel: propose_actions\[1\].saw",
        ),
    ],
)
def test_each_breach_of_a_muscle_is_named(base: type[Muscle], methods: dict[str, Any], clause: str) -> None:
    """A muscle that breaks one clause is told that clause, by its own name."""
    with pytest.raises(ContractBroken, match=f"(?s)Broken.*{clause}"):
        check_muscle(type("Broken", (base,), methods))


@pytest.mark.parametrize(
    ("base", "methods", "clause"),
    [
        (
            Learns,
            {"restore_checkpoint_state": lambda self, state: self.load_arrays(state)},
            "all that `restore_checkpoint_state` needs to go on",
        ),
        (Learns, {"thinking": lambda self, *_: {"gain": object()}}, r"update.gain: an? .*object cannot travel"),
        (
            Learns,
            {"load_arrays": lambda self, arrays: None},
            "after `load`, `arrays` are those that were saved: found another gain",
        ),
        (Learns, {"arrays": lambda self: {"gain": np.array([object()])}}, "`store` saves the model as named arrays"),
        (Wanders, {}, "the same seed and rows give the same updates"),
        (Learns, {"CHECKPOINT_FORMAT": 7}, "`CHECKPOINT_FORMAT` is a text"),
        (
            Learns,
            {"pretrain": lambda self, sessions: sessions[0].objectives.fill(0.0)},
            "`pretrain` takes recorded episodes, and leaves them as they are: .*read-only",
        ),
        (
            Learns,
            {"pretrain": lambda self, sessions: [{True: 1}[it.has_final] for it in sessions] and None},
            "`pretrain` takes recorded episodes, .*False",
        ),
        (DividesByNothing, {}, r"`arrays` are finite after `pretrain`: found NaN or infinity in \['gain'\]"),
        (LearnsAnything, {}, "the same seed and recorded episodes give the same updates"),
        (ForgetsItsLesson, {}, "a checkpoint keeps what was learned in `pretrain`, bit for bit: found another"),
        (
            Learns,
            {"pretrain": lambda self, sessions: {"gain": object()}},
            r"`pretrain` takes recorded episodes, .*update\.gain: an? .*object cannot travel",
        ),
        (
            Learns,
            {"evaluate": lambda self, evaluation: {"words": "many"}},
            r"`evaluate` returns finite numbers by name, or None: metrics\.words: .*'many'",
        ),
    ],
)
def test_each_breach_of_a_brain_is_named(base: type[Brain], methods: dict[str, Any], clause: str) -> None:
    """A brain that breaks one clause is told that clause, by its own name."""
    with pytest.raises(ContractBroken, match=f"(?s)Broken.*{clause}"):
        check_brain(type("Broken", (base,), methods), muscle=Right)


def test_updates_are_compared_where_they_change_nothing_else() -> None:
    """What a brain has lost is found in its next update, also where its muscle does not act by it."""
    with pytest.raises(ContractBroken, match="needs to go on, bit for bit: found another answer number 10"):
        check_brain(ForgetsWhatIsMadeAnew)


@pytest.mark.parametrize("judge", [lambda self, memory: float(_last(memory).sum()), lambda self, memory: _last(memory)])
def test_each_breach_of_an_objective_is_named(judge: Any) -> None:
    """An objective that returns anything but one number or None is told so; a row without rewards shows NaN."""
    with pytest.raises(ContractBroken, match=r"(?s)Broken.*one number or None"):
        check_objective(type("Broken", (Sum,), {"internal_reward": judge}))


class Objects(Muscle):
    """Decide by a linear policy whose weights the brain sends."""

    def setup(self) -> None:
        self.weights = np.full((4, 1), 0.1)

    def update(self, update: Any) -> None:
        self.weights = update["weights"]

    def propose_actions(self, sensors: Any, actuators_available: Any) -> Any:
        seen = np.concatenate([it.space.to_vector(it.value) for it in sensors])[np.newaxis].astype(float)
        self.add_statistics("first", float(seen[0, 0]))
        actuators_available[0].value = float(np.clip(seen @ self.weights, -1.0, 1.0)[0, 0])
        return actuators_available, {"seen": seen[0]}


class Arrays(Objects):
    """Do the same on arrays."""

    batched = True
    noise = 0.0

    def propose_batch(self, batch: Any) -> Any:
        self.add_statistics("first", batch.observations[0, 0].item())
        setpoints = np.clip(batch.observations @ self.weights + self.noise, -1.0, 1.0)
        return setpoints, [{"seen": row} for row in batch.observations]


class Thinks(Brain):
    """Move weights by the objective, row by row."""

    def setup(self) -> None:
        self.weights = np.full((4, 1), 0.1)

    def move(self, seen: Any, objective: Any) -> Any:
        self.weights = self.weights + 0.01 * objective * seen[:, np.newaxis]
        return {"weights": self.weights}

    def thinking(self, muscle_id: str, data_from_muscle: Any) -> Any:
        if data_from_muscle is None:
            return None
        return self.move(data_from_muscle["seen"], self.memory.tail(1).objective[0])

    def arrays(self) -> Any:
        return {"weights": self.weights}


class LearnsRows(Thinks):
    """Do the same with the rows of a round."""

    batched = True

    def learn(self, batch: Any) -> Any:
        for seen, objective in zip(batch.observations, batch.objectives, strict=True):
            found = self.move(seen, objective)
        return found


def test_two_forms_of_one_policy_are_the_same() -> None:
    """Muscles and brains of either form, in any pairing, give the same tables."""
    check_equivalence(Objects, Arrays)
    check_equivalence((Objects, Thinks), (Arrays, LearnsRows))
    check_equivalence((Objects, LearnsRows), (Arrays, Thinks))


def test_the_smallest_difference_is_found() -> None:
    """One bit of one setpoint, or of the model, breaks the clause, which names what differs."""
    near = type("Near", (Arrays,), {"noise": 1e-16})
    other = type("Other", (LearnsRows,), {"arrays": lambda self: {"weights": np.nextafter(self.weights, 9.0)}})
    with pytest.raises(ContractBroken, match=r"Objects: .*Near is the same policy.*another decision"):
        check_equivalence(Objects, near)
    with pytest.raises(ContractBroken, match="another model"):
        check_equivalence((Objects, Thinks), (Arrays, other))
    with pytest.raises(ContractBroken, match="the device is busy"):  # a form that does not run
        check_equivalence(Objects, type("Broken", (Arrays,), {"propose_batch": _busy}))
