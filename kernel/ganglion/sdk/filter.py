"""Filter: changes values between an agent and the bus."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ganglion.sdk.information import ActuatorInformation, SensorInformation
from ganglion.sdk.part import Part

if TYPE_CHECKING:
    from ganglion.sdk.brain import Brain
    from ganglion.sdk.muscle import Muscle

Array = NDArray[Any]
Sensors = list[SensorInformation]
Actuators = list[ActuatorInformation]


@dataclass(slots=True)
class FilterBatch:
    """Give a filter the values of several bodies at once; axis 0 is the body."""

    # Id -> `[bodies, *shape]` of the dtype of its space, of a Tuple or Dict its vector; read-only.
    values: Mapping[str, Array]
    rows: Array  # the number of each body below `count`, (bodies,) int64: the row of its state in a filter
    count: int  # the number of bodies


class Filter(Part):
    """Change values between an agent and the bus; the defaults change nothing.

    Each muscle's process has an object and the brain's has one. The pre hooks run in document order, the post hooks in
    reverse, each on the result of the previous one. Histories are per worker and body and restart in each episode.

    Called in this order: constructor, `setup`, `declare`; in a muscle's process `reset` before each episode, then per
    decision `receive` if there is anything new, `muscle_pre_process`, `muscle_post_process`; in the brain's per row
    `brain_pre_process`, `brain_objective`, and after `thinking` `brain_post_process`, `publish`. The readings after a
    decision are filtered for the brain's row before it thinks, and again, from the earlier state, if the filter
    publishes
    arrays for that row: all attributes of the object are copied for that, so keep them small. A brain can continue from
    a checkpoint only if filters with a state in its process have `save_state` and `load_state`.
    """

    # Whether the muscle's half has array forms, `pre_process_batch`, `post_process_batch`, `reset_batch`. If all
    # filters of an agent have, each is one object for all bodies of a group and is called once for all deciding bodies;
    # else each body has objects of its own, and array forms get one body at a time.
    batched: ClassVar[bool] = False
    # Sensors and actuators as passed to `declare`; set by the bus after it.
    given: tuple[Sensors, Actuators] = ([], [])
    shown: tuple[Sensors, Actuators] = ([], [])  # sensors and actuators as `declare` returned them; likewise
    muscle: Muscle | None = None  # the muscle, in its process; None in the brain's
    brain: Brain | None = None  # the brain, in its process; None in the muscles'

    def setup(self) -> None:
        """Prepare; `muscle` or `brain` is set."""

    def declare(self, sensors: Sensors, actuators: Actuators) -> tuple[Sensors, Actuators]:
        """Return the declarations for the next filter or the agent.

        Sensors have no values here; the value of an actuator is its no-op, None stands for the value nearest to zero.
        """
        return sensors, actuators

    def muscle_pre_process(self, sensors: Sensors, actuators: Actuators) -> tuple[Sensors, Actuators]:
        """Return the readings and the available actuators for the muscle; called before each decision.

        Return all declared sensors, in any order. Actuators of another space than the declared one, such as unchanged
        ones, are replaced by empty ones of the declared space.
        """
        if not self.batched:
            return sensors, actuators
        found = self.pre_process_batch(_alone(sensors))
        return [_with(SensorInformation, it, found) for it in self.shown[0]], actuators

    def muscle_post_process(self, setpoints: Actuators, data: Any) -> tuple[Actuators, Any]:
        """Return the setpoints to apply, and the data for the brain; called after each decision."""
        if not self.batched:
            return setpoints, data
        found, (data,) = self.post_process_batch(_alone(setpoints), [data])
        return [_with(ActuatorInformation, it, found) for it in self.given[1]], data

    def pre_process_batch(self, batch: FilterBatch) -> Mapping[str, Array]:
        """Return the readings of these bodies for the muscle, by id, `[bodies, *shape]`."""
        return batch.values

    def post_process_batch(self, batch: FilterBatch, data: list[Any]) -> tuple[Mapping[str, Array], list[Any]]:
        """Return the setpoints of these bodies to apply, and the data of each for the brain."""
        return batch.values, data

    def reset_batch(self, rows: Array) -> None:
        """Begin the next episode of the bodies with these numbers."""

    def brain_pre_process(self, muscle_id: str, data: Any) -> Any:
        """Return a muscle's data for the brain; called before `thinking`, with the row in the memory."""
        return data

    def brain_objective(self, muscle_id: str, objective: float | None) -> float | None:
        """Return the objective of the row for the brain; called after `brain_pre_process`."""
        return objective

    def brain_post_process(self, update: Any) -> Any:
        """Return the update for the muscles; called after `thinking`."""
        return update

    def reset(self) -> None:
        """Begin the next episode; called before each, in the muscle's process."""
        if self.batched:
            self.reset_batch(np.zeros(1, np.int64))

    def publish(self) -> Mapping[str, Array] | None:
        """Return arrays for the muscles' halves, or None; called in the brain's half after `thinking`.

        The arrays are stored with the model too, under the tag `filter-<i>`.
        """
        return None

    def receive(self, arrays: Mapping[str, Array]) -> None:
        """Take arrays of `publish`; called in the muscle's half before the next decision.

        Both halves also receive arrays stored with a model, after `setup` and `declare`.
        """


def _alone(informations: Sensors | Actuators) -> FilterBatch:
    """Return values of one body as a batch."""
    values = {it.uid: it.space.to_vector(it.value).reshape(1, *it.space.shape) for it in informations}
    return FilterBatch(values, np.zeros(1, np.int64), 1)


def _with(kind: Any, like: Any, found: Mapping[str, Array]) -> Any:
    """Return an information as declared, with the value of the one body."""
    value = like.space.from_vector(np.asarray(found[like.uid])[0].reshape(-1))
    return kind(value, like.space, like.uid, like.value_ids)
