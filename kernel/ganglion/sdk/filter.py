"""Filter: what stands between an agent and the bus."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from ganglion.sdk.information import ActuatorInformation, SensorInformation
from ganglion.sdk.part import Part

if TYPE_CHECKING:
    from ganglion.sdk.brain import Brain
    from ganglion.sdk.muscle import Muscle

Array = NDArray[Any]
Sensors = list[SensorInformation]
Actuators = list[ActuatorInformation]


class Filter(Part):
    """Change what passes between an agent and the bus; the defaults change nothing.

    One object lives in each muscle's process and one in the brain's. Filters stack: the pre hooks run in document
    order, the post hooks in reverse, each on the result of the one before. Histories are per worker and body and
    begin anew in each episode.

    Called in this order: constructor, `setup`, `declare`; in a muscle's process `reset` before each episode, then per
    decision `receive` if there is anything new, `muscle_pre_process`, `muscle_post_process`; in the brain's per row
    `brain_pre_process`, `brain_objective`, and after `thinking` `brain_post_process`, `publish`. The readings after a
    decision are filtered for the brain's row before it thinks. If something is published upon that row they are
    filtered again, from the state before: for that all attributes of the object are copied, so keep them small.

    A filter whose brain's half has a state may have `save_state() -> Mapping[str, Array]` and `load_state(state)`:
    only with them a brain can go on from a checkpoint.

    Attributes:
        muscle: The muscle, in its process; None in the brain's.
        brain: The brain, in its process; None in the muscles'.
    """

    muscle: Muscle | None = None
    brain: Brain | None = None

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
        return sensors, actuators

    def muscle_post_process(self, setpoints: Actuators, data: Any) -> tuple[Actuators, Any]:
        """Return the setpoints as they are to be applied, and the data for the brain; after each decision."""
        return setpoints, data

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

    def publish(self) -> Mapping[str, Array] | None:
        """Return arrays for the muscles' halves, None for nothing new; brain's half, after `thinking`.

        They are stored with the model too, under the tag `filter-<i>`.
        """
        return None

    def receive(self, arrays: Mapping[str, Array]) -> None:
        """Take what `publish` returned; muscle's half, before the next decision.

        Also what was stored with a model, in both halves: after `setup` and `declare`.
        """
