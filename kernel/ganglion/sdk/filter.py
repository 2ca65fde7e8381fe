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

__all__ = ["Filter"]

Array = NDArray[Any]
Sensors = list[SensorInformation]
Actuators = list[ActuatorInformation]


class Filter(Part):
    """Change what passes between an agent and the bus; the defaults change nothing.

    One object lives in each muscle's process and one in the brain's. Filters stack: the pre hooks run in document
    order, the post hooks in reverse, each on the result of the one before. Histories are per worker and body and
    begin anew in each episode.

    Attributes:
        muscle: The muscle, in its process; None in the brain's.
        brain: The brain, in its process; None in the muscles'.
    """

    muscle: Muscle | None = None
    brain: Brain | None = None

    def setup(self) -> None:
        """Prepare; `muscle` or `brain` is set."""

    def declare(self, sensors: Sensors, actuators: Actuators) -> tuple[Sensors, Actuators]:
        """Return the declarations as the next filter, and at last the agent, sees them."""
        return sensors, actuators

    def muscle_pre_process(self, sensors: Sensors, actuators: Actuators) -> tuple[Sensors, Actuators]:
        """Return the readings and the available actuators as the muscle is to see them; before each decision."""
        return sensors, actuators

    def muscle_post_process(self, setpoints: Actuators, data: Any) -> tuple[Actuators, Any]:
        """Return the setpoints as they are to be applied, and the data for the brain; after each decision."""
        return setpoints, data

    def brain_pre_process(self, muscle_id: str, data: Any) -> Any:
        """Return the data of a muscle as the brain is to see it; before `thinking`."""
        return data

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
        """Take what `publish` returned; muscle's half, before the next decision."""
