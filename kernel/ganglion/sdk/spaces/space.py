"""Space: what values a sensor, an actuator or a reward can have, and what counts as a number without loss."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator, SeedSequence
from numpy.typing import NDArray

from ganglion.errors import SpaceError
from ganglion.limits import INTEGER_MAX


def integer_or_none(value: Any) -> int | None:
    """Return the integer that `value` is without loss, or None.

    Python and numpy integers and booleans, floats with an integer value, and arrays of shape () of these.
    """
    if isinstance(value, int):
        return int(value)
    if isinstance(value, np.ndarray):
        if value.shape != () or value.dtype.kind not in "biuf":
            return None
        value = value.item()
    elif isinstance(value, np.integer | np.bool_):
        return int(value)
    if isinstance(value, float | np.floating | int) and math.isfinite(value) and value == int(value):
        return int(value)
    return None


def to_form(number: float) -> float | str:
    """Return a number for the wire: itself, or text where a double would not hold it."""
    if isinstance(number, int):
        return number if -INTEGER_MAX <= number <= INTEGER_MAX else str(number)
    return to_text(number) if math.isinf(number) else number


def from_form(form: Any) -> int | float:
    """Return the number of a wire form.

    Raises:
        ValueError: It is neither a number nor one of the texts that stand for one.
    """
    if isinstance(form, bool) or not isinstance(form, int | float | str):
        raise ValueError(f"expected a number, found {form!r}")
    if not isinstance(form, str):
        return form
    if form in ("inf", "-inf"):
        return float(form)
    digits = form.removeprefix("-")
    if digits.isascii() and digits.isdigit() and len(digits) <= 20:  # 20 digits hold every 64-bit integer
        return int(form)
    raise ValueError(f"expected a number, 'inf', '-inf' or an integer as text, found {form!r}")


def to_text(number: Any) -> str:
    """Return a bound, or a nested list of bounds, as text that reads back bit by bit."""
    if isinstance(number, list):
        return f"[{', '.join(to_text(part) for part in number)}]"
    if isinstance(number, float) and math.isinf(number):
        return "inf" if number > 0 else "-inf"
    return repr(number)


Vector = NDArray[Any]


class Space(ABC):
    """Describe a set of values: frozen, comparable, hashable.

    Equal spaces are interchangeable but share no generator. `scalar` tells whether a value is a single Python number;
    `size` is the number of columns of `to_vector`, `dtype` its dtype. A method that takes a value of the space raises
    `SpaceError` for a value that the space does not contain.
    """

    __slots__ = ("_rng",)

    kind: ClassVar[str]
    scalar: bool
    size: int
    dtype: np.dtype[Any]
    _rng: Generator | None
    # A value of this very type that lies between these bounds is contained: one comparison, without a call. With None
    # `contains` says so; it may still contain what these do not accept.
    _exact: type | None = None
    _low: Any = None
    _high: Any = None

    def __setattr__(self, name: str, *_: object) -> None:
        raise AttributeError(f"a {type(self).__name__} is frozen: {name} cannot be changed; make a new one")

    __delattr__ = __setattr__

    def _freeze(self, **attributes: Any) -> None:
        """Set the attributes of a space that is being made; numpy arrays become read-only."""
        object.__setattr__(self, "_rng", None)
        for name, value in attributes.items():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
            object.__setattr__(self, name, value)

    # -- values -------------------------------------------------------------------------------------------------------

    @abstractmethod
    def contains(self, value: Any) -> bool:
        """Tell whether `value` belongs to the space; bounds are inclusive.

        Python numbers, lists and arrays are accepted where they fit without loss. NaN, a wrong shape and a fraction
        for an integer do not. Never raises.
        """

    def __contains__(self, value: Any) -> bool:
        return self.contains(value)

    @abstractmethod
    def canonical(self, value: Any) -> Any:
        """Return a contained `value` in the form in which it travels: a Python number, or an array of `dtype`."""

    @abstractmethod
    def default(self) -> Any:
        """Return the contained value nearest to zero, in canonical form."""

    @abstractmethod
    def clip(self, value: Any) -> Any:
        """Return the contained value nearest to `value`; for integers it is rounded half to even first.

        Raises:
            SpaceError: The value has another structure or shape, or is NaN.
        """

    @abstractmethod
    def to_vector(self, value: Any) -> Vector:
        """Return a contained `value` as (size,) array of `dtype`, in C order."""

    @abstractmethod
    def from_vector(self, vector: Any) -> Any:
        """Return the value whose vector this is: the inverse of `to_vector`.

        Raises:
            SpaceError: The vector has another length, or its value is not contained.
        """

    def reshape_to_space(self, vector: Any) -> Any:
        """Return the value whose vector this is, as `from_vector`."""
        return self.from_vector(vector)

    # -- chance -------------------------------------------------------------------------------------------------------

    def seed(self, seed: int | SeedSequence | Generator) -> None:
        """Give the space its own stream, used by `sample` without a generator."""
        object.__setattr__(self, "_rng", np.random.default_rng(seed))

    def sample(self, rng: Generator | None = None) -> Any:
        """Return a random contained value in canonical form.

        Uniform between bounds; with one bound exponential (scale 1) from it; without bounds standard normal.

        Args:
            rng: Where the randomness comes from; None takes the space's own stream. A space that was not seeded starts
                one from numpy's global generator, which a process of a run has seeded from its object's stream.
        """
        return self._sample(rng if rng is not None else self._own_stream())

    def _own_stream(self) -> Generator:
        if self._rng is None:
            self.seed(int(np.random.randint(0, 2**63, dtype=np.int64)))  # noqa: NPY002 - documented above
        assert self._rng is not None
        return self._rng

    @abstractmethod
    def _sample(self, rng: Generator) -> Any: ...

    # -- identity -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def _key(self) -> tuple[Any, ...]:
        """Return what makes two spaces equal, hashable."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy by making anew, so that copies share no generator."""
        return (Space.from_wire, (self.to_wire(),))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return type(self) is type(other) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash((self.kind, self._key()))

    # -- text and wire ------------------------------------------------------------------------------------------------

    @abstractmethod
    def to_string(self) -> str:
        """Return the space as text that `from_string` reads back exactly."""

    @staticmethod
    def from_string(text: str) -> Space:
        """Return the space that `text` describes; it is parsed, never evaluated.

        Raises:
            SpaceError: The text describes no space; the message names the column.
        """
        from ganglion.sdk.spaces.text import parse_space  # the parser knows all kinds of space

        return parse_space(text)

    @abstractmethod
    def to_wire(self) -> dict[str, Any]:
        """Return the space as a map for the bus.

        Numbers that not every language reads exactly travel as text: infinities (`inf`, `-inf`) and integers beyond
        53 bits (decimal digits).
        """

    @staticmethod
    def from_wire(form: Mapping[str, Any]) -> Space:
        """Return the space of a map from the bus, as `space_from_wire`."""
        from ganglion.sdk.spaces.text import space_from_wire  # the reader knows all kinds of space

        return space_from_wire(form)

    def __repr__(self) -> str:
        return self.to_string()

    def _refuse(self, value: Any, why: str = "") -> SpaceError:
        return SpaceError(f"expected a value of {_short(self)}, found {_short(value)}{': ' + why if why else ''}")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."
