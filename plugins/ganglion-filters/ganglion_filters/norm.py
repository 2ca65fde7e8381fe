"""Norm: readings and objectives with mean 0 and variance 1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ganglion.sdk import ActuatorInformation, AuthorError, Box, Filter, FilterBatch, Mask, SensorInformation
from ganglion_filters.column import Floats, box_like
from ganglion_filters.moments import Moments

__all__ = ["Norm"]

Array = NDArray[Any]
Sensors = list[SensorInformation]
Actuators = list[ActuatorInformation]
_PREFIX = "objective_"


class Norm(Filter):
    """Show each column x of the readings as clip((x - mean) / sqrt(variance + epsilon), -clip_obs, clip_obs).

    Masks stay what they are.

    Mean (at first 0) and variance (at first 1) are the agent's: the brain's half keeps them, from what this filter
    was shown by the muscles of all workers, merged after each `batch_size` rows, in training only. They are stored
    with the model; rows with an infinite value are not merged. Objectives become likewise, with `clip_reward`, in what
    the brain sees, from the agent's row `norm_objective_after` on.

    Params:
        normalise_objective: Whether objectives are; default true.
        clip_obs: Bound of readings, > 0, in standard deviations; default 10.
        clip_reward: Bound of objectives, > 0, likewise; default 10.
        epsilon: Added to a variance, > 0, in the squared unit of the reading; default 1e-8.
        batch_size: Rows that are merged at once, >= 1; default 256.
        norm_objective_after: Rows before the first whose objective is, >= 0; default 10000.
    """

    batched: ClassVar[bool] = True

    def __init__(
        self,
        normalise_objective: bool = True,
        clip_obs: float = 10,
        clip_reward: float = 10,
        epsilon: float = 1e-8,
        batch_size: int = 256,
        norm_objective_after: int = 10000,
    ) -> None:
        bounds = {"clip_obs": clip_obs, "clip_reward": clip_reward, "epsilon": epsilon}
        for name, number in bounds.items():
            if not float(number) > 0.0:
                raise ValueError(f"{name}: expected a number > 0, found {number!r}")
        if type(batch_size) is not int or batch_size < 1:
            raise ValueError(f"batch_size: expected an integer >= 1, found {batch_size!r}")
        if type(norm_objective_after) is not int or norm_objective_after < 0:
            raise ValueError(f"norm_objective_after: expected an integer >= 0, found {norm_objective_after!r}")
        self.normalise_objective = bool(normalise_objective)
        self.clip_obs, self.clip_reward, self.epsilon = float(clip_obs), float(clip_reward), float(epsilon)
        self.batch_size, self.norm_objective_after = batch_size, norm_objective_after
        self._boxes: dict[str, Box] = {}
        self._raw: Floats = np.zeros((0, 0))  # of each body
        self._rows = 0
        self._fresh = False

    def declare(self, sensors: Sensors, actuators: Actuators) -> tuple[Sensors, Actuators]:
        """Return the sensors with boxes from -clip_obs to clip_obs."""
        found = []
        for it in sensors:
            if isinstance(it.space, Mask):
                found.append(it)
                continue
            bound = np.full(it.space.size, self.clip_obs)
            box = self._boxes[it.uid] = box_like(it.space, -bound, bound)
            found.append(SensorInformation(None, box, it.uid, it.value_ids))
        self._readings = Moments(sum(box.size for box in self._boxes.values()), self.batch_size)
        self._objectives = Moments(1, self.batch_size)
        return found, actuators

    # -- the muscle's half --------------------------------------------------------------------------------------------
    def pre_process_batch(self, batch: FilterBatch) -> Mapping[str, Array]:
        """Return the normalised readings."""
        count, found = len(batch.rows), dict(batch.values)
        columns = [found[uid].reshape(count, -1).astype(np.float64) for uid in self._boxes]
        raw = np.concatenate(columns, axis=1) if columns else np.zeros((count, 0))
        if len(self._raw) != batch.count:
            self._raw = np.zeros((batch.count, raw.shape[1]))
        self._raw[batch.rows] = raw
        normal = _normal(raw, self._readings, self.epsilon, self.clip_obs)
        begin = 0
        for uid, box in self._boxes.items():
            found[uid] = normal[:, begin : begin + box.size].reshape(count, *box.shape)
            begin += box.size
        return found

    def post_process_batch(self, batch: FilterBatch, data: list[Any]) -> tuple[Mapping[str, Array], list[Any]]:
        """Send the readings as they were along with the data."""
        raw = self._raw[batch.rows]
        return batch.values, [{"data": own, "readings": row} for own, row in zip(data, raw, strict=True)]

    # -- the brain's half ---------------------------------------------------------------------------------------------
    def brain_pre_process(self, muscle_id: str, data: Any) -> Any:
        """Take the readings as they were; return the data without them."""
        readings = np.asarray(data["readings"], dtype=np.float64)
        if readings.shape != self._readings.mean.shape:
            raise AuthorError(f"norm: expected {self._readings.mean.size} columns, found {readings.size}")
        self._fresh |= self._readings.add(readings)
        return data["data"]

    def brain_objective(self, muscle_id: str, objective: float | None) -> float | None:
        """Return the normalised objective; one that is none counts as a row all the same."""
        self._rows += 1
        if objective is None:
            return None
        self._fresh |= self._objectives.add(np.array([objective]))
        if not self.normalise_objective or self._rows <= self.norm_objective_after:
            return objective
        return float(_normal(np.array([objective]), self._objectives, self.epsilon, self.clip_reward)[0])

    def publish(self) -> Mapping[str, Array] | None:
        """Return the moments if a batch was merged since the last time."""
        if not self._fresh:
            return None
        self._fresh = False
        rows = {"rows": np.array(self._rows)}
        return {**self._readings.arrays(), **self._objectives.arrays(_PREFIX), **rows}

    def receive(self, arrays: Mapping[str, Array]) -> None:
        """Take over moments."""
        self._readings.load(arrays)
        self._objectives.load(arrays, _PREFIX)
        self._rows = int(arrays["rows"])

    # -- checkpoints --------------------------------------------------------------------------------------------------
    def save_state(self) -> Mapping[str, Array]:
        """Return the moments with the rows that are not merged yet."""
        return {
            **self._readings.arrays(),
            **self._objectives.arrays(_PREFIX),
            "waiting": self._readings.waiting,
            f"{_PREFIX}waiting": self._objectives.waiting,
            "rows": np.array(self._rows),
            "fresh": np.array(self._fresh),
        }

    def load_state(self, state: Mapping[str, Array]) -> None:
        """Take over what `save_state` returned."""
        self.receive(state)
        self._readings.waiting, self._objectives.waiting = state["waiting"], state[f"{_PREFIX}waiting"]
        self._fresh = bool(state["fresh"])


def _normal(row: Floats, moments: Moments, epsilon: float, bound: float) -> Floats:
    return np.clip((row - moments.mean) / np.sqrt(moments.variance + epsilon), -bound, bound)
