"""Choices: the columns of discrete actuators, each a choice, and the choices that masks allow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ganglion.sdk import ActuatorInformation, Discrete, MultiBinary, MultiDiscrete, SensorInformation, mask_columns

__all__ = ["FORBIDDEN", "Choices", "Legal", "described"]

FORBIDDEN = -1e8  # replaces the output of a forbidden choice: below all others, and 0 as a probability
JOINT_MAX = 4096  # with more combinations a network with an output for each learns nothing


class Choices:
    """Hold the number of choices of each column of some actuators, and the value of the first one.

    Args:
        actuators: Discrete, MultiDiscrete or MultiBinary, in any number; each gives as many columns as its vector.

    Raises:
        ValueError: There is no actuator, or one of another kind; the message names all.
    """

    def __init__(self, actuators: Sequence[ActuatorInformation]) -> None:
        sizes: list[int] = []
        starts: list[int] = []
        for it in actuators:
            space = it.space
            if isinstance(space, Discrete):
                sizes.append(space.n)
                starts.append(space.start)
            elif isinstance(space, MultiDiscrete):
                sizes += space.nvec.ravel().tolist()
                starts += np.broadcast_to(space.start, space.nvec.shape).ravel().tolist()
            elif isinstance(space, MultiBinary):
                sizes += [2] * space.size
                starts += [0] * space.size
            else:
                raise ValueError(f"expected discrete actuators, found {described(actuators)}")
        if not sizes:
            raise ValueError(f"expected discrete actuators, found {described(actuators)}")
        self.sizes = tuple(sizes)
        self.starts: NDArray[np.int64] = np.array(starts, dtype=np.int64)
        self.total = sum(sizes)

    @property
    def joint(self) -> int:
        """The number of combinations.

        Raises:
            ValueError: There are more than 4096.
        """
        found = 1
        for size in self.sizes:
            found *= size
        if found > JOINT_MAX:
            raise ValueError(
                f"the actuators have {found} combinations; one learner of all of them takes at most {JOINT_MAX}"
            )
        return found

    def split(self, joint: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the columns of setpoints, (k, columns), of combinations, (k,); the last column varies fastest."""
        found: NDArray[np.int64] = np.stack(np.unravel_index(joint, self.sizes), axis=1)
        found += self.starts
        return found

    def check(self, setpoints: NDArray[Any]) -> None:
        """Refuse columns of setpoints, (k, columns), with a value that is no choice; ValueError names the first."""
        columns = np.asarray(setpoints, dtype=np.float64)
        first, behind = self.starts, self.starts + np.array(self.sizes)
        fits = (columns == np.floor(columns)) & (columns >= first) & (columns < behind)
        for row, column in np.argwhere(~fits).tolist():
            low, high = int(first[column]), int(behind[column]) - 1
            raise ValueError(
                f"decision {row} has the action {columns[row, column]:g} (column {column}), expected a whole number "
                f"in [{low}, {high}]"
            )

    def join(self, setpoints: NDArray[Any]) -> NDArray[np.int64]:
        """Return the combinations, (k,), of columns of setpoints, (k, columns)."""
        columns = (np.asarray(setpoints, dtype=np.int64) - self.starts).T
        found: NDArray[np.int64] = np.asarray(np.ravel_multi_index(tuple(columns), self.sizes), dtype=np.int64)
        return found


class Legal:
    """Find the masks of choices in observations; false if no sensor is the Mask of an actuator.

    Args:
        sensors: In the order of the columns of observations.
        actuators: Those of `Choices`.

    Attributes:
        columns: Actuator id -> columns of observations.
    """

    def __init__(self, sensors: Sequence[SensorInformation], actuators: Sequence[ActuatorInformation]) -> None:
        self.columns = mask_columns(sensors, actuators)
        known: list[NDArray[np.int64]] = []
        for it in actuators if self.columns else ():
            part, size = self.columns.get(it.uid), Choices([it]).total
            known.append(np.full(size, -1) if part is None else np.arange(part.start, part.stop))
        self.places = np.concatenate([np.zeros(0, np.int64), *known])
        self.free = self.places < 0  # choices without a mask

    def __bool__(self) -> bool:
        return bool(self.columns)

    def outputs(self, found: NDArray[np.float32], observations: NDArray[Any]) -> NDArray[np.float32]:
        """Return a network's outputs for choices, (k, choices), of observations (k, n), `FORBIDDEN` for some."""
        allowed = (observations[:, self.places] != 0) | self.free
        return np.where(allowed, found, np.float32(FORBIDDEN))


def described(actuators: Sequence[ActuatorInformation]) -> str:
    """Return ids and spaces for a message."""
    return ", ".join(f"{it.uid}: {it.space.to_string()}" for it in actuators) or "none"
