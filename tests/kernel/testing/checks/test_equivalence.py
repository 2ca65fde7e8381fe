from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ganglion.errors import ContractBroken
from ganglion.sdk import Brain, Muscle
from ganglion.testing import check_equivalence


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


class Learns(Thinks):
    """Do the same with the rows of a round."""

    batched = True

    def learn(self, batch: Any) -> Any:
        for seen, objective in zip(batch.observations, batch.objectives, strict=True):
            found = self.move(seen, objective)
        return found


def test_two_forms_of_one_policy_are_the_same() -> None:
    """Muscles and brains of either form, in any pairing, give the same tables."""
    check_equivalence(Objects, Arrays)
    check_equivalence((Objects, Thinks), (Arrays, Learns))
    check_equivalence((Objects, Learns), (Arrays, Thinks))


def test_the_smallest_difference_is_found() -> None:
    """One bit of one setpoint, or of the model, breaks the clause, which names what differs."""

    class Near(Arrays):
        noise = 1e-16

    class Other(Learns):
        def arrays(self) -> Any:
            return {"weights": np.nextafter(self.weights, 9.0)}

    with pytest.raises(ContractBroken, match=r"Objects: .*Near is the same policy.*another decision"):
        check_equivalence(Objects, Near)
    with pytest.raises(ContractBroken, match="another model"):
        check_equivalence((Objects, Thinks), (Arrays, Other))


def test_an_authors_exception_is_told() -> None:
    """A form that does not run breaks the clause by its own exception."""

    class Broken(Arrays):
        def propose_batch(self, batch: Any) -> Any:
            raise ValueError("no")

    with pytest.raises(ContractBroken, match="ValueError: no"):
        check_equivalence(Objects, Broken)
