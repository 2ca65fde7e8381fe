"""Filter: what is between an agent and the bus."""

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
    """Give a filter what passes of several bodies at once; axis 0 is the body."""

    # Id -> `[bodies, *shape]` of the dtype of its space, of a Tuple or Dict its vector; read-only.
    values: Mapping[str, Array]
    rows: Array  # the number of each body below `count`, (bodies,) int64: where a filter keeps what it remembers of it
    count: int  # how many numbers there are


class Filter(Part):
    """Change what passes between an agent and the bus; the defaults change nothing.

    Each muscle's process has an object and the brain's has one. The pre hooks run in document order, the post hooks in
    reverse, each on the result of the one before. Histories are per worker and body and begin anew in each episode.

    Called in this order: constructor, `setup`, `declare`; in a muscle's process `reset` before each episode, then per
    decision `receive` if there is anything new, `muscle_pre_process`, `muscle_post_process`; in the brain's per row
    `brain_pre_process`, `brain_objective`, and after `thinking` `brain_post_process`, `publish`. The readings after a
    decision are filtered for the brain's row before it thinks, and again, from the state before, if something is
    published upon that row: for that all attributes of the object are copied, so keep them small. A brain can go on
    from a checkpoint only if filters with a state in its process have `save_state` and `load_state`.
    """

    # Whether the muscle's half has array forms, `pre_process_batch`, `post_process_batch`, `reset_batch`. If those of
    # all filters of an agent have, each is one object for all bodies of a group and is asked once for all that decide;
    # else each body has objects of its own, and array forms get one body at a time.
    batched: ClassVar[bool] = False
    # Sensors and actuators as `declare` was given them; set by the bus behind it.
    given: tuple[Sensors, Actuators] = ([], [])
    shown: tuple[Sensors, Actuators] = ([], [])  # sensors and actuators as `declare` returned them; likewise
    muscle: Muscle | None = None  # the muscle, in its process; None in the brain's
    brain: Brain | None = None  # the brain, in its process; None in the muscles'

    def setup(self) -> None:
        """Prepare; `muscle` or `brain` is set."""

    def declare(self, sensors: Sensors, actuators: Actuators) -> tuple[Sensors, Actuators]:
        """Return the declarations as the next filter, and at last the agent, sees them.

        Sensors have no values here; the value of an actuator is its no-op, None stands for the value nearest to zero.
        """
        return sensors, actuators

    def muscle_pre_process(self, sensors: Sensors, actuators: Actuators) -> tuple[Sensors, Actuators]:
        """Return the readings and the available actuators as the muscle is to see them; before each decision.

        All sensors that were declared, in any order. Actuators of another space than the declared one, as those that
        are only handed on, are replaced by empty ones of the declared space.
        """
        if not self.batched:
            return sensors, actuators
        found = self.pre_process_batch(_alone(sensors))
        return [_with(SensorInformation, it, found) for it in self.shown[0]], actuators

    def muscle_post_process(self, setpoints: Actuators, data: Any) -> tuple[Actuators, Any]:
        """Return the setpoints as they are to be applied, and the data for the brain; after each decision."""
        if not self.batched:
            return setpoints, data
        found, (data,) = self.post_process_batch(_alone(setpoints), [data])
        return [_with(ActuatorInformation, it, found) for it in self.given[1]], data

    def pre_process_batch(self, batch: FilterBatch) -> Mapping[str, Array]:
        """Return the readings of these bodies as muscles are to see them, by id, `[bodies, *shape]`."""
        return batch.values

    def post_process_batch(self, batch: FilterBatch, data: list[Any]) -> tuple[Mapping[str, Array], list[Any]]:
        """Return the setpoints of these bodies as they are to be applied, and the data of each for the brain."""
        return batch.values, data

    def reset_batch(self, rows: Array) -> None:
        """Begin the next episode of the bodies with these numbers."""

    def brain_pre_process(self, muscle_id: str, data: Any) -> Any:
        """Return the data of a muscle as the brain is to see it; before `thinking`, its row is in the memory."""
        return data

    def brain_objective(self, muscle_id: str, objective: float | None) -> float | None:
        """Return the objective of the row as the brain is to see it; called after `brain_pre_process`."""
        return objective

    def brain_post_process(self, update: Any) -> Any:
        """Return the update as the muscles are to get it; after `thinking`."""
        return update

    def reset(self) -> None:
        """Begin the next episode; called before each, in the muscle's process."""
        if self.batched:
            self.reset_batch(np.zeros(1, np.int64))

    def publish(self) -> Mapping[str, Array] | None:
        """Return arrays for the muscles' halves, None for nothing new; brain's half, after `thinking`.

        They are stored with the model too, under the tag `filter-<i>`.
        """
        return None

    def receive(self, arrays: Mapping[str, Array]) -> None:
        """Take what `publish` returned; muscle's half, before the next decision.

        Also what was stored with a model, in both halves: after `setup` and `declare`.
        """


def _alone(informations: Sensors | Actuators) -> FilterBatch:
    """Return what passes of one body as a batch."""
    values = {it.uid: it.space.to_vector(it.value).reshape(1, *it.space.shape) for it in informations}
    return FilterBatch(values, np.zeros(1, np.int64), 1)


def _with(kind: Any, like: Any, found: Mapping[str, Array]) -> Any:
    """Return an information as it was declared, with the value of the one body."""
    value = like.space.from_vector(np.asarray(found[like.uid])[0].reshape(-1))
    return kind(value, like.space, like.uid, like.value_ids)
