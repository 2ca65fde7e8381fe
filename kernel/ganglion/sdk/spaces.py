"""Spaces: the possible values of a sensor, an actuator or a reward; read from maps of the bus and from text."""

from __future__ import annotations

import ast
import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from inspect import signature
from itertools import accumulate, pairwise
from keyword import iskeyword
from operator import attrgetter
from types import MappingProxyType
from typing import Any, ClassVar, NoReturn

import numpy as np
from numpy.random import Generator, SeedSequence
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ganglion.errors import SpaceError
from ganglion.limits import ARRAY_RANK, INTEGER_MAX, SPACE_DEPTH, SPACE_ELEMENTS, SPACE_TEXT_BYTES

Array = NDArray[Any]


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
        ValueError: The form is neither a number nor a text of one.
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
    """Return a bound, or a nested list of bounds, as text that reads back bit for bit."""
    if isinstance(number, list):
        return f"[{', '.join(to_text(part) for part in number)}]"
    if isinstance(number, float) and math.isinf(number):
        return "inf" if number > 0 else "-inf"
    return repr(number)


class Space(ABC):
    """Describe a set of values: frozen, comparable, hashable.

    Equal spaces are interchangeable but share no generator. A constructor raises `SpaceError` for arguments of another
    kind, shape or range, and a method for a value that the space does not contain; the message names expected and
    found.
    """

    __slots__ = ("_rng",)

    kind: ClassVar[str]
    composite: ClassVar[bool] = False  # whether a value has no shape of its own, and arrays hold its vector
    scalar: bool  # whether a value is a single Python number
    shape: tuple[int, ...]  # of a value in an array; (size,) of a composite space
    size: int  # the number of columns of `to_vector`
    dtype: np.dtype[Any]  # of `to_vector`
    _rng: Generator | None
    # A value of exactly this type between these bounds is contained: one comparison, without a call. Other values need
    # `contains`, as do all values with None.
    _exact: type | None = None
    _low: Any = None
    _high: Any = None

    def __setattr__(self, name: str, *_: object) -> None:
        raise AttributeError(f"a {type(self).__name__} is frozen: {name} cannot be changed; make a new one")

    __delattr__ = __setattr__

    def _freeze(self, **attributes: Any) -> None:
        """Set the attributes of a new space; numpy arrays become read-only."""
        object.__setattr__(self, "_rng", None)
        for name, value in attributes.items():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
            object.__setattr__(self, name, value)

    # -- values ------------------------------------------------------------------------------------------------------

    @abstractmethod
    def contains(self, value: Any) -> bool:
        """Return whether `value` belongs to the space; bounds are inclusive.

        Python numbers, lists and arrays are accepted if they fit without loss. NaN, a wrong shape and a fraction for an
        integer do not fit. Never raises.
        """

    def __contains__(self, value: Any) -> bool:
        return self.contains(value)

    @abstractmethod
    def canonical(self, value: Any) -> Any:
        """Return a contained `value` in canonical form: a Python number, or an array of `dtype`."""

    @abstractmethod
    def default(self) -> Any:
        """Return the contained value nearest to zero, in canonical form."""

    @abstractmethod
    def clip(self, value: Any) -> Any:
        """Return the contained value nearest to `value`; for integers it is rounded half to even first.

        SpaceError: the value has another structure or shape, or is NaN.
        """

    @abstractmethod
    def to_vector(self, value: Any) -> Array:
        """Return a contained `value` as (size,) array of `dtype`, in C order."""

    @abstractmethod
    def from_vector(self, vector: Any) -> Any:
        """Return the value of a vector: the inverse of `to_vector`."""

    @abstractmethod
    def column_bounds(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the least and the greatest value of each column of `to_vector`; infinite without a bound."""

    def reshape_to_space(self, vector: Any) -> Any:
        """Return the value of a vector, as `from_vector`."""
        return self.from_vector(vector)

    # -- chance ------------------------------------------------------------------------------------------------------

    def seed(self, seed: int | SeedSequence | Generator) -> None:
        """Set the space's own stream, used by `sample` without a generator."""
        object.__setattr__(self, "_rng", np.random.default_rng(seed))

    def sample(self, rng: Generator | None = None) -> Any:
        """Return a random contained value in canonical form.

        Uniform between bounds; with one bound exponential (scale 1) from it; without bounds standard normal. None takes
        the space's own stream; without a seed it starts from numpy's global generator, which is seeded in a run.
        """
        return self._sample(rng if rng is not None else self._own_stream())

    def _own_stream(self) -> Generator:
        if self._rng is None:
            self.seed(int(np.random.randint(0, 2**63, dtype=np.int64)))  # noqa: NPY002 - documented above
        assert self._rng is not None
        return self._rng

    @abstractmethod
    def _sample(self, rng: Generator) -> Any: ...

    # -- identity ----------------------------------------------------------------------------------------------------

    @abstractmethod
    def _key(self) -> tuple[Any, ...]:
        """Return a hashable key that equal spaces share."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy by construction, so that copies share no generator."""
        return (Space.from_wire, (self.to_wire(),))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return type(self) is type(other) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash((self.kind, self._key()))

    # -- text and wire -----------------------------------------------------------------------------------------------

    @abstractmethod
    def to_string(self) -> str:
        """Return the space as text that `from_string` reads back exactly."""

    @staticmethod
    def from_string(text: str) -> Space:
        """Return the space that `text` describes, as `parse_space`."""
        return parse_space(text)

    @abstractmethod
    def to_wire(self) -> dict[str, Any]:
        """Return the space as a map for the bus.

        Numbers that not every language reads exactly are text: infinities (`inf`, `-inf`) and integers beyond 53 bits
        (decimal digits).
        """

    @staticmethod
    def from_wire(form: Mapping[str, Any]) -> Space:
        """Return the space of a map from the bus, as `space_from_wire`."""
        return space_from_wire(form)

    def __repr__(self) -> str:
        return self.to_string()

    def _refuse(self, value: Any, why: str = "") -> SpaceError:
        return SpaceError(f"expected a value of {_short(self)}, found {_short(value)}{': ' + why if why else ''}")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."


# -- kinds ----------------------------------------------------------------------------------------------------------


class _Numbers(Space):
    """Hold the arrays of one shape and dtype between inclusive bounds; if `scalar`, single Python numbers instead."""

    __slots__ = ("_exact", "_high", "_highs", "_low", "_lows", "_native", "_plain", "dtype", "scalar", "shape", "size")

    _lows: Array
    _highs: Array
    # Bounds as Python numbers if all elements share them: one comparison instead of a broadcast one, and for
    # scalars no numpy at all. None if the elements differ.
    _low: Any
    _high: Any
    # The Python type of a scalar value. With an open side a narrower float is not exact: a value that overflows is
    # between the bounds and not contained.
    _native: type
    _exact: type | None
    _plain: bool

    def _bound(self, lows: Array, highs: Array, scalar: bool, **attributes: Any) -> None:
        """Set the bounds, which have the shape and dtype of the values, and attributes derived from them."""
        dtype = lows.dtype
        native = float if dtype.kind == "f" else int
        wide, closed = dtype.itemsize == 8, bool(np.isfinite(lows).all() and np.isfinite(highs).all())
        self._freeze(
            shape=lows.shape,
            dtype=dtype,
            size=lows.size,
            scalar=scalar,
            _lows=lows,
            _highs=highs,
            _low=_common(lows),
            _high=_common(highs),
            _native=native,
            _exact=native if scalar and (wide or closed) else None,
            _plain=scalar and native is float and wide and closed,
            **attributes,
        )

    def contains(self, value: Any) -> bool:
        if type(value) is self._exact and self._low <= value <= self._high:
            return True
        if self.scalar:  # may be contained after rounding
            return self._scalar(value) is not None
        if type(value) is np.ndarray and value.dtype == self.dtype:
            return value.shape == self.shape and self._within(value)
        return self._array(value) is not None

    def canonical(self, value: Any) -> Any:
        """Return a Python number for shape (), else a read-only array of `dtype` of its own."""
        if self.scalar:
            if type(value) is self._exact and self._low <= value <= self._high and self.dtype.itemsize == 8:
                return value
            found = self._scalar(value)
            if found is None:
                raise self._refuse(value)
            return found
        return self._own(np.array(self._contained(value)))

    def default(self) -> Any:
        return self._own(np.clip(np.zeros(self.shape, self.dtype), self._lows, self._highs))

    def clip(self, value: Any) -> Any:
        number = integer_or_none(value) if self.scalar and self._native is int else None
        if number is not None:
            return min(max(number, self._low), self._high)
        array = _numbers(value)
        if array is None or array.shape != self.shape:
            raise self._refuse(value, "the shape must fit")
        if array.dtype.kind == "f" and bool(np.isnan(array).any()):
            raise self._refuse(value, "NaN has no nearest value")
        if self.dtype.kind == "f":
            with np.errstate(over="ignore"):  # a value that overflows to infinity is clipped to the bound
                return self._own(np.clip(array.astype(self.dtype), self._lows, self._highs))
        return self._own(_clip_to_integers(array, self._lows, self._highs, self.dtype))

    def to_vector(self, value: Any) -> Array:
        if self.scalar:
            return np.array([self.canonical(value)], dtype=self.dtype)
        return np.array(self._contained(value), dtype=self.dtype).reshape(-1)

    def from_vector(self, vector: Any) -> Any:
        array = _numbers(vector)
        if array is None or array.shape != (self.size,):
            raise self._refuse(vector, f"the vector has shape ({self.size},)")
        return self.canonical(array.reshape(self.shape))

    def column_bounds(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return self._lows.ravel().astype(np.float64), self._highs.ravel().astype(np.float64)

    def _scalar(self, value: Any) -> Any:
        """Return `value` as a contained Python number, or None."""
        if type(value) is np.ndarray and value.shape == ():
            value = value.item() if value.dtype.kind in "biuf" else None
        if not isinstance(value, int | float | np.integer | np.floating | np.bool_):
            return None
        number = integer_or_none(value) if self._native is int else self._float_or_none(value)
        return number if number is not None and self._low <= number <= self._high else None

    def _float_or_none(self, value: Any) -> float | None:
        """Return a number as the nearest float of `dtype`; None if it overflows or is an integer that none equals."""
        try:
            number = float(value)
        except OverflowError:
            return None
        if self.dtype.itemsize < 8:
            with np.errstate(over="ignore"):
                rounded = float(self.dtype.type(number))
            if math.isinf(rounded) and not math.isinf(number):
                return None
            number = rounded
        if isinstance(value, int | np.integer) and int(value) != number:
            return None
        return number

    def _array(self, value: Any) -> Array | None:
        """Return `value` as a contained array of `dtype`, or None."""
        array = _numbers(value)
        if array is None or array.shape != self.shape:
            return None
        fitting = _cast(array, self.dtype)
        return fitting if fitting is not None and self._within(fitting) else None

    def _contained(self, value: Any) -> Array:
        array = self._array(value)
        if array is None:
            raise self._refuse(value)
        return array

    def _within(self, array: Array) -> bool:
        low = self._lows if self._low is None else self._low
        high = self._highs if self._high is None else self._high
        return bool((array >= low).all() and (array <= high).all())

    def _own(self, array: Array) -> Any:
        """Return a new array in canonical form."""
        if self.scalar:
            return array.item()
        array = np.asarray(array, dtype=self.dtype, order="C")
        array.flags.writeable = False
        return array

    def _sample(self, rng: Generator) -> Any:
        drawn = rng.integers(self._lows, self._highs, size=self.shape, dtype=self.dtype, endpoint=True)
        return self._own(np.asarray(drawn, dtype=self.dtype))

    def _key(self) -> tuple[Any, ...]:
        return (self.shape, self.dtype.str, self._lows.tobytes(), self._highs.tobytes())


class Box(_Numbers):
    """Hold the arrays of one shape and dtype between inclusive bounds; of shape () single Python numbers.

    Args:
        low: Lower bound, a number for all elements or an array of `shape`; -inf is none.
        high: Upper bound, likewise; inf is none. For an integer dtype infinity is the dtype's own bound.
        shape: None takes it from the bounds.
        dtype: A floating or integer dtype. A float that is not exactly one of a narrower float dtype is rounded to it
            before it is compared; that does not count as loss, overflow does.
    """

    __slots__ = ()

    kind = "box"
    low = property(attrgetter("_lows"), doc="The lower bounds, an array of the shape and dtype of the values.")
    high = property(attrgetter("_highs"), doc="The upper bounds, likewise.")

    def __init__(
        self, low: ArrayLike, high: ArrayLike, shape: Sequence[int] | int | None = None, dtype: DTypeLike = np.float64
    ) -> None:
        kind = np.dtype(dtype).newbyteorder("=")
        if kind.kind not in "iuf" or kind.itemsize > 8:
            raise SpaceError(f"the dtype of a Box is a float or integer of at most 64 bits, found {kind}")
        size_of = _shape(low, high, shape)
        lows, highs = (_bound(it, side, size_of, kind) for it, side in ((low, "low of a Box"), (high, "high of a Box")))
        if not bool(np.all(lows <= highs)):
            raise SpaceError(f"each low of a Box is at most its high, found low={low!r}, high={high!r}")
        if kind.kind == "f" and bool(np.any((lows == math.inf) | (highs == -math.inf))):
            raise SpaceError(f"a Box has finite values, found low={low!r}, high={high!r}")
        self._bound(lows, highs, scalar=size_of == ())

    # -- scaling -----------------------------------------------------------------------------------------------------

    def scale(self, value: ArrayLike) -> Any:
        """Return the contained value for `value` of [-1, 1]: -1 is low, 1 is high.

        For an integer dtype the result is rounded half to even. SpaceError also if a side is infinite.
        """
        low, high = self._finite()
        unit = np.asarray(value, dtype=np.float64)
        if unit.shape != self.shape or not bool(np.all((unit >= -1.0) & (unit <= 1.0))):
            raise SpaceError(f"expected values in [-1, 1] of shape {self.shape}, found {value!r}")
        share = (unit + 1.0) / 2.0
        return self.clip(low * (1.0 - share) + high * share)  # this form cannot overflow, and is exact at both ends

    def unscale(self, value: ArrayLike) -> Any:
        """Return the place of a contained value between -1 (low) and 1 (high); 0 if low equals high."""
        low, high = self._finite()
        found = np.asarray(self.canonical(value), dtype=np.float64)
        width = high / 2.0 - low / 2.0
        share = (found / 2.0 - low / 2.0) / np.where(width > 0.0, width, 1.0)
        unit = np.where(width > 0.0, np.clip(2.0 * share - 1.0, -1.0, 1.0), 0.0)
        return unit.item() if self.scalar else unit

    def _finite(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        low, high = self.low.astype(np.float64), self.high.astype(np.float64)
        if not (bool(np.isfinite(low).all()) and bool(np.isfinite(high).all())):
            raise SpaceError(f"only a Box with finite bounds can be scaled, found {self!r:.200}")
        return low, high

    # -- chance ------------------------------------------------------------------------------------------------------

    def sample(self, rng: Generator | None = None) -> Any:
        if rng is None:
            rng = self._own_stream()
        if not self._plain:
            return self._sample(rng)
        share = rng.random()  # the usual case without arrays: four times as fast, with the same value
        between: float = self._low * (1.0 - share) + self._high * share
        return min(max(between, self._low), self._high)

    def _sample(self, rng: Generator) -> Any:
        if self.dtype.kind != "f":
            return super()._sample(rng)
        low, high = self.low.astype(np.float64), self.high.astype(np.float64)
        below, above = np.isfinite(low), np.isfinite(high)
        uniform = rng.random(self.shape)
        if bool(below.all() and above.all()):
            return self.clip(low * (1.0 - uniform) + high * uniform)
        tail, normal = rng.exponential(size=self.shape), rng.normal(size=self.shape)
        with np.errstate(invalid="ignore", over="ignore"):  # branches that are not taken may compute inf - inf
            inside = low * (1.0 - uniform) + high * uniform
            drawn = np.where(below, np.where(above, inside, low + tail), np.where(above, high - tail, normal))
        return self.clip(drawn)  # rounding may exceed a bound by one unit in the last place

    # -- text and wire -----------------------------------------------------------------------------------------------

    def to_string(self) -> str:
        low, high = to_text(self.low.tolist()), to_text(self.high.tolist())
        return f"Box(low={low}, high={high}, shape={self.shape}, dtype={self.dtype.name})"

    def to_wire(self) -> dict[str, Any]:
        """Return the map; a bound that all elements share is one number, else a flat list in C order."""
        return {
            "type": self.kind,
            "shape": list(self.shape),
            "dtype": self.dtype.newbyteorder("<").str,
            "low": _bound_form(self._lows, self._low),
            "high": _bound_form(self._highs, self._high),
        }


def _shape(low: ArrayLike, high: ArrayLike, shape: Sequence[int] | int | None) -> tuple[int, ...]:
    if shape is None:
        found = np.broadcast_shapes(np.shape(low), np.shape(high))
    else:
        found = (int(shape),) if isinstance(shape, int | np.integer) else tuple(int(n) for n in shape)
    if any(n < 0 for n in found) or len(found) > ARRAY_RANK or math.prod(found) > SPACE_ELEMENTS:
        most = f"{ARRAY_RANK} axes of integers >= 0 (array_rank) and {SPACE_ELEMENTS} elements (space_elements)"
        raise SpaceError(f"shape: expected at most {most}, found {found}")
    return found


def _bound(bound: ArrayLike, side: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    array = _numbers(bound)
    if array is None:
        raise SpaceError(f"{side}: expected numbers, found {bound!r}")
    if array.dtype.kind == "f" and bool(np.isnan(array).any()):
        raise SpaceError(f"{side}: NaN is no bound")
    if array.size == 0 == math.prod(shape):
        array = array.reshape(shape)  # without elements a list does not tell the shape
    if array.shape not in ((), shape):
        raise SpaceError(f"{side}: expected one number or the shape {shape}, found shape {array.shape}")
    if dtype.kind != "f":
        array = _integer_bound(array, side, dtype)
    with np.errstate(over="ignore"):  # a bound beyond a narrower float is no bound: infinity
        # Adding zero turns a negative zero into zero: as bounds they are the same, and so they become equal bits.
        return np.array(np.broadcast_to(array, shape).astype(dtype) + dtype.type(0), dtype=dtype, order="C")


def _integer_bound(array: Array, side: str, dtype: np.dtype[Any]) -> Array:
    limits = np.iinfo(dtype)
    ends = {-math.inf: int(limits.min), math.inf: int(limits.max)}
    found = [ends.get(v, v) for v in array.ravel().tolist()]
    if any(v != int(v) for v in found):
        raise SpaceError(f"{side}: expected integers of {dtype}, found {array.tolist()!r}")
    if any(not limits.min <= v <= limits.max for v in found):
        raise SpaceError(f"{side}: {array.tolist()!r} does not fit into {dtype}")
    return np.array([int(v) for v in found], dtype=dtype).reshape(array.shape)


def _common(bounds: Array) -> Any:
    """Return the bound that all elements share as a Python number, or None."""
    if bounds.size == 0:
        return None
    first = bounds.flat[0]
    return first.item() if bool((bounds == first).all()) else None


def _bound_form(bounds: Array, common: Any) -> Any:
    return to_form(common) if common is not None else [to_form(number) for number in bounds.ravel().tolist()]


def _numbers(value: Any) -> Array | None:
    """Return `value` as an array of booleans, integers or floats, or None if that is impossible."""
    if isinstance(value, str | bytes):
        return None
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, OverflowError):  # ragged lists, foreign objects that refuse
        return None
    return array if array.dtype.kind in "biuf" else None


def _cast(array: Array, dtype: np.dtype[Any]) -> Array | None:
    """Return `array` in `dtype` if that loses nothing but digits of a float, else None."""
    if array.dtype == dtype or array.size == 0:
        return array.astype(dtype, copy=False)
    if dtype.kind != "f":
        if array.dtype.kind == "f" and not bool((array == np.floor(array)).all() and np.isfinite(array).all()):
            return None
        limits = np.iinfo(dtype)
        inside = limits.min <= int(array.min()) and int(array.max()) <= limits.max
        return array.astype(dtype) if inside else None
    with np.errstate(over="ignore"):
        cast = array.astype(dtype)
    if array.dtype.kind == "f":
        return cast if bool((np.isinf(cast) == np.isinf(array)).all()) else None
    exact = 2 ** (np.finfo(dtype).nmant + 1)
    if -exact <= int(array.min()) and int(array.max()) <= exact:
        return cast
    # Beyond, only some integers are floats; Python compares the two kinds without rounding either.
    return cast if array.ravel().tolist() == cast.ravel().tolist() else None


def _clip_to_integers(array: Array, low: Array, high: Array, dtype: np.dtype[Any]) -> Array:
    if array.dtype.kind == "f":
        array = np.rint(array)
    # Element by element in Python integers: float64 cannot tell the last 64-bit integers apart.
    pairs = zip(array.ravel().tolist(), low.ravel().tolist(), high.ravel().tolist(), strict=True)
    found = [lo if v <= lo else hi if v >= hi else int(v) for v, lo, hi in pairs]
    return np.array(found, dtype=dtype).reshape(low.shape)


INT64 = np.dtype(np.int64)
INT64_MAX = 2**63 - 1


class Discrete(_Numbers):
    """Hold the integers `start`, ..., `start + n - 1`, n >= 1, within 64 bits; its values are Python integers."""

    __slots__ = ("n", "start")

    kind = "discrete"
    n: int
    start: int

    def __init__(self, n: int, start: int = 0) -> None:
        count, first = integer_or_none(n), integer_or_none(start)
        if count is None or first is None or count < 1:
            raise SpaceError(f"Discrete takes an integer n >= 1 and an integer start, found n={n!r}, start={start!r}")
        if not (first >= -INT64_MAX - 1 and first + count - 1 <= INT64_MAX):
            raise SpaceError(f"Discrete holds 64-bit integers, found n={n!r}, start={start!r}")
        lows, highs = np.array(first, np.int64), np.array(first + count - 1, np.int64)
        self._bound(lows, highs, scalar=True, n=count, start=first)

    def _sample(self, rng: Generator) -> int:
        return int(rng.integers(self._low, self._high, endpoint=True))  # the same draw, three times as fast

    def to_string(self) -> str:
        return f"Discrete({self.n})" if self.start == 0 else f"Discrete({self.n}, start={self.start})"

    def to_wire(self) -> dict[str, Any]:
        return {"type": self.kind, "n": to_form(self.n), "start": to_form(self.start)}


class MultiDiscrete(_Numbers):
    """Hold the int64 arrays with element i of `start[i]`, ..., `start[i] + nvec[i] - 1`.

    `nvec` has the shape of the values and integers >= 1; `start` is one for all, or of that shape.
    """

    __slots__ = ("nvec", "start")

    kind = "multi_discrete"
    nvec: NDArray[np.int64]
    start: NDArray[np.int64]

    def __init__(self, nvec: ArrayLike, start: ArrayLike = 0) -> None:
        given = [_numbers(it) for it in (nvec, start)]
        if any(it is None or (it.size and it.dtype.kind not in "iu") for it in given):
            raise SpaceError(f"MultiDiscrete is made of integers, found nvec={nvec!r}, start={start!r}")
        shape = _shape(nvec, 0, None)
        counts = _bound(nvec, "nvec of MultiDiscrete", shape, INT64)
        firsts = _bound(start, "start of MultiDiscrete", shape, INT64)
        if not shape or bool((counts < 1).any()):
            raise SpaceError(f"nvec of MultiDiscrete has at least one axis, of integers >= 1, found {nvec!r}")
        if bool((firsts > INT64_MAX - (counts - 1)).any()):
            raise SpaceError(f"MultiDiscrete holds 64-bit integers, found nvec={nvec!r}, start={start!r}")
        self._bound(firsts, firsts + (counts - 1), scalar=False, nvec=counts, start=firsts)

    def to_string(self) -> str:
        start = f", start={to_text(self.start.tolist())}" if bool(self.start.any()) else ""
        # Without elements the nesting alone does not tell the shape.
        shape = f", shape={self.shape}" if self.size == 0 and self.shape != (0,) else ""
        return f"MultiDiscrete({to_text(self.nvec.tolist())}{start}{shape})"

    def to_wire(self) -> dict[str, Any]:
        return {
            "type": self.kind,
            "shape": list(self.shape),
            "nvec": [to_form(n) for n in self.nvec.ravel().tolist()],
            "start": [to_form(n) for n in self.start.ravel().tolist()],
        }


class MultiBinary(_Numbers):
    """Hold the int8 arrays of zeros and ones of a shape, or of n elements; `MultiBinary(3)` is `MultiBinary((3,))`."""

    __slots__ = ()

    kind = "multi_binary"

    def __init__(self, n: int | Sequence[int]) -> None:
        shape = _shape(0, 1, n)
        self._bound(np.zeros(shape, np.int8), np.ones(shape, np.int8), scalar=False)

    def to_string(self) -> str:
        return f"MultiBinary({self.shape})"

    def to_wire(self) -> dict[str, Any]:
        return {"type": self.kind, "shape": list(self.shape)}


class Mask(MultiBinary):
    """Hold the mask of a Discrete actuator of the sensor's environment: 1 for each value that is allowed now, else 0.

    At least one value is allowed; all are if no decision follows. Values are int8 arrays of shape (n,), with n of the
    actuator's space; element i is for the value `start + i`. Booleans and integers are accepted, floats are not. `of`
    is the id of the actuator, as the environment declares it.
    """

    __slots__ = ("of",)

    kind = "mask"
    of: str

    def __init__(self, n: int, of: str) -> None:
        uid: Any = of  # of anybody
        if not isinstance(uid, str) or integer_or_none(n) is None or n < 1:
            raise SpaceError(f"Mask takes an integer n >= 1 and the id of an actuator, found n={n!r}, of={of!r:.60}")
        super().__init__(int(n))
        object.__setattr__(self, "of", of)

    def _array(self, value: Any) -> Array | None:
        given = _numbers(value)
        return None if given is None or given.dtype.kind == "f" else super()._array(given)

    def from_vector(self, vector: Any) -> Any:
        array = _numbers(vector)  # columns may be floats beside others, as in a Tuple
        cast = None if array is None else _cast(array, self.dtype)
        return super().from_vector(vector if cast is None else cast)

    def _within(self, array: Array) -> bool:
        return super()._within(array) and bool(array.any())

    def default(self) -> Any:
        return self._own(np.ones(self.shape, self.dtype))

    def clip(self, value: Any) -> Any:
        """Return the nearest mask; SpaceError: the value allows nothing."""
        return self.canonical(super().clip(value))

    def _sample(self, rng: Generator) -> Any:
        drawn = rng.integers(0, 2, self.size, self.dtype)
        drawn[rng.integers(self.size)] = 1
        return self._own(drawn)

    def _key(self) -> tuple[Any, ...]:
        return (self.size, self.of)

    def to_string(self) -> str:
        return f"Mask({self.size}, of={json.dumps(self.of, ensure_ascii=False)})"

    def to_wire(self) -> dict[str, Any]:
        return {"type": self.kind, "n": self.size, "of": self.of}


class Ragged(Space):
    """Hold arrays whose first axis varies in length, from 0 to that of a Box.

    The vector of a value is its length, then the array, then the default values of the box up to its shape. The box is
    of the greatest shape, with the bounds of each element; its dtype must hold all lengths.
    """

    __slots__ = ("box", "dtype", "scalar", "shape", "size")

    kind = "ragged"
    composite = True
    box: Box

    def __init__(self, box: Space) -> None:
        if not isinstance(box, Box) or not box.shape:
            raise SpaceError(f"a Ragged is made of a Box with at least one axis, found {_short(box)}")
        most = np.iinfo(box.dtype).max if box.dtype.kind != "f" else 2 ** (np.finfo(box.dtype).nmant + 1)
        if box.shape[0] > most:
            raise SpaceError(f"a Ragged of {box.dtype} has at most {most} on its first axis, found {box.shape[0]}")
        size = 1 + box.size
        self._freeze(box=box, size=size, shape=(size,), dtype=box.dtype, scalar=False)

    def _vector(self, value: Any) -> Array | None:
        """Return the vector of a value; None if not contained."""
        array, box = _numbers(value), self.box
        if array is not None and array.size == 0 and array.shape[:1] == (0,):
            array = array.reshape(0, *box.shape[1:])
        if array is None or not array.ndim or array.shape[1:] != box.shape[1:] or len(array) > box.shape[0]:
            return None
        fitting, whole = _cast(array, box.dtype), np.array(box.default())
        if fitting is None:
            return None
        whole[: len(array)] = fitting
        if not box.contains(whole):
            return None
        return np.concatenate([np.array([len(array)], self.dtype), whole.reshape(-1)])

    def contains(self, value: Any) -> bool:
        return self._vector(value) is not None

    def canonical(self, value: Any) -> Any:
        vector = self.to_vector(value)
        cut = vector[1:].reshape(self.box.shape)[: int(vector[0])].copy()
        cut.flags.writeable = False
        return cut

    def default(self) -> Any:
        return self.canonical(np.zeros((0, *self.box.shape[1:])))

    def clip(self, value: Any) -> Any:
        array, box = _numbers(value), self.box
        if array is None or not array.ndim or array.shape[1:] != box.shape[1:]:
            raise self._refuse(value, "the shape must fit behind the first axis")
        count = min(len(array), box.shape[0])
        whole = np.array(box.default(), array.dtype if array.dtype.kind == "f" else box.dtype)
        whole[:count] = array[:count]
        return self.canonical(box.clip(whole)[:count])

    def to_vector(self, value: Any) -> Array:
        vector = self._vector(value)
        if vector is None:
            raise self._refuse(value)
        return vector

    def from_vector(self, vector: Any) -> Any:
        array = _numbers(vector)
        count = None if array is None or array.shape != (self.size,) else integer_or_none(array[0])
        if array is None or count is None or not 0 <= count <= self.box.shape[0]:
            raise self._refuse(vector, f"the vector has shape ({self.size},), and a length first")
        return self.canonical(array[1:].reshape(self.box.shape)[:count])

    def column_bounds(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        low, high = self.box.column_bounds()
        return np.append(0.0, low), np.append(float(self.box.shape[0]), high)

    def padded(self, vectors: Any) -> tuple[Array, NDArray[np.int64]]:
        """Return vectors (k, size) as arrays (k, *shape of the box), and their lengths (k,)."""
        given = np.asarray(vectors)
        return given[:, 1:].reshape(-1, *self.box.shape), given[:, 0].astype(np.int64)

    def vectors(self, padded: Any, lengths: Any) -> Array:
        """Return vectors (k, size) of the dtype, the inverse of `padded`; elements beyond a length are replaced."""
        given = np.asarray(padded)
        found = np.empty((len(given), self.size), self.dtype)
        found[:, 0], found[:, 1:] = lengths, given.reshape(len(given), -1)
        behind = np.arange(self.box.shape[0]) >= np.asarray(lengths)[:, None]
        found[:, 1:].reshape(given.shape)[behind] = np.broadcast_to(self.box.default(), given.shape)[behind]
        return found

    def _sample(self, rng: Generator) -> Any:
        return self.canonical(self.box.sample(rng)[: rng.integers(self.box.shape[0], endpoint=True)])

    def _key(self) -> tuple[Any, ...]:
        return (self.box,)

    def to_string(self) -> str:
        return f"Ragged({self.box.to_string()})"

    def to_wire(self) -> dict[str, Any]:
        return {"type": self.kind, "box": self.box.to_wire()}


class _Composite(Space):
    """Lay the vectors of several spaces side by side."""

    __slots__ = ("_offsets", "_parts", "dtype", "scalar", "shape", "size")

    composite = True

    _parts: tuple[Space, ...]
    _offsets: tuple[int, ...]

    def _join(self, parts: tuple[Space, ...], **attributes: Any) -> None:
        for part in parts:
            if not isinstance(part, Space):
                raise SpaceError(f"a {type(self).__name__} is made of spaces, found {part!r}")
        offsets = tuple(accumulate((part.size for part in parts), initial=0))
        if offsets[-1] > SPACE_ELEMENTS:
            raise SpaceError(f"a {type(self).__name__} has at most {SPACE_ELEMENTS} columns, found {offsets[-1]}")
        dtype = np.result_type(*(part.dtype for part in parts)) if parts else np.dtype(np.float64)
        size = offsets[-1]
        self._freeze(_parts=parts, _offsets=offsets, size=size, shape=(size,), scalar=False, dtype=dtype, **attributes)

    def __len__(self) -> int:
        return len(self._parts)

    @abstractmethod
    def _split(self, value: Any) -> tuple[Any, ...] | None:
        """Return the parts of `value` in the order of the spaces, or None if its structure differs."""

    @abstractmethod
    def _assemble(self, values: list[Any]) -> Any:
        """Return the value with these parts."""

    def _pairs(self, value: Any) -> Iterator[tuple[Space, Any]]:
        parts = self._split(value)
        if parts is None:
            raise self._refuse(value, "the structure must fit")
        return zip(self._parts, parts, strict=True)

    def contains(self, value: Any) -> bool:
        parts = self._split(value)
        return parts is not None and all(space.contains(part) for space, part in zip(self._parts, parts, strict=True))

    def canonical(self, value: Any) -> Any:
        return self._assemble([space.canonical(part) for space, part in self._pairs(value)])

    def default(self) -> Any:
        return self._assemble([space.default() for space in self._parts])

    def clip(self, value: Any) -> Any:
        return self._assemble([space.clip(part) for space, part in self._pairs(value)])

    def to_vector(self, value: Any) -> Array:
        """Return the vectors of the parts, one after the other.

        Raises:
            SpaceError: Not contained; or a 64-bit integer that a float column beside it would round.
        """
        vector: NDArray[Any] = np.empty(self.size, dtype=self.dtype)
        for (space, part), (begin, end) in zip(self._pairs(value), pairwise(self._offsets), strict=True):
            columns = space.to_vector(part)
            vector[begin:end] = columns
            if columns.dtype.kind in "iu" and self.dtype.kind == "f" and columns.dtype.itemsize == 8:
                exact = columns.size == 0 or max(abs(int(columns.min())), abs(int(columns.max()))) <= 2**53
                if not exact and vector[begin:end].tolist() != columns.tolist():
                    raise self._refuse(value, "beyond 53 bits an integer has no place in a float vector")
        return vector

    def from_vector(self, vector: Any) -> Any:
        array = np.asarray(vector)
        if array.shape != (self.size,):
            raise self._refuse(vector, f"the vector has shape ({self.size},)")
        spans = zip(self._parts, pairwise(self._offsets), strict=True)
        return self._assemble([space.from_vector(array[begin:end]) for space, (begin, end) in spans])

    def column_bounds(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        ends = [part.column_bounds() for part in self._parts] or [(np.zeros(0), np.zeros(0))]
        return np.concatenate([low for low, _ in ends]), np.concatenate([high for _, high in ends])

    def _sample(self, rng: Generator) -> Any:
        return self._assemble([space.sample(rng) for space in self._parts])


class Tuple(_Composite):
    """Hold the tuples (or lists) with element i in `spaces[i]`."""

    __slots__ = ("spaces",)

    kind = "tuple"
    spaces: tuple[Space, ...]

    def __init__(self, spaces: Iterable[Space]) -> None:
        parts = tuple(spaces)
        self._join(parts, spaces=parts)

    def __getitem__(self, index: int) -> Space:
        return self.spaces[index]

    def __iter__(self) -> Iterator[Space]:
        return iter(self.spaces)

    def _split(self, value: Any) -> tuple[Any, ...] | None:
        if not isinstance(value, tuple | list) or len(value) != len(self._parts):
            return None
        return tuple(value)

    def _assemble(self, values: list[Any]) -> tuple[Any, ...]:
        return tuple(values)

    def _key(self) -> tuple[Any, ...]:
        return self.spaces

    def to_string(self) -> str:
        return f"Tuple({', '.join(space.to_string() for space in self.spaces)})"

    def to_wire(self) -> dict[str, Any]:
        return {"type": self.kind, "spaces": [space.to_wire() for space in self.spaces]}


class Dict(_Composite):
    """Hold the maps with the keys of `spaces`, which are text, each value in the space of its key, in sorted order."""

    __slots__ = ("spaces",)

    kind = "dict"
    spaces: Mapping[str, Space]

    def __init__(self, spaces: Mapping[str, Space] | Iterable[tuple[str, Space]] = (), **named: Space) -> None:
        given: dict[Any, Space] = {**dict(spaces), **named}
        if not all(isinstance(name, str) for name in given):
            raise SpaceError(f"the keys of a Dict are texts, found {list(given)!r}")
        ordered = {name: given[name] for name in sorted(given)}
        self._join(tuple(ordered.values()), spaces=MappingProxyType(ordered))

    def __getitem__(self, name: str) -> Space:
        return self.spaces[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.spaces)

    def keys(self) -> Iterable[str]:
        """Return the keys, sorted."""
        return self.spaces.keys()

    def _split(self, value: Any) -> tuple[Any, ...] | None:
        if not isinstance(value, Mapping) or value.keys() != self.spaces.keys():
            return None
        return tuple(value[name] for name in self.spaces)

    def _assemble(self, values: list[Any]) -> dict[str, Any]:
        return dict(zip(self.spaces, values, strict=True))

    def _key(self) -> tuple[Any, ...]:
        return tuple(self.spaces.items())

    def to_string(self) -> str:
        bare = {name: name.isascii() and name.isidentifier() and not iskeyword(name) for name in self.spaces}
        parts = [f"{name if bare[name] else json.dumps(name)}={it.to_string()}" for name, it in self.spaces.items()]
        return f"Dict({', '.join(parts)})"

    def to_wire(self) -> dict[str, Any]:
        return {"type": self.kind, "spaces": {name: space.to_wire() for name, space in self.spaces.items()}}


# -- maps of the bus ------------------------------------------------------------------------------------------------


def space_from_wire(form: Mapping[str, Any]) -> Space:
    """Return the space of a map: the inverse of `Space.to_wire`; SpaceError has the path of a fault.

    Unknown keys are skipped. Sizes are checked before memory is taken.
    """
    return _read(form, "space", SPACE_DEPTH)


def _read(form: Any, path: str, depth: int) -> Space:
    if not isinstance(form, Mapping):
        raise SpaceError(f"{path}: expected a map with the key type, found {type(form).__name__}")
    if depth == 0:
        raise SpaceError(f"{path}: spaces are nested deeper than {SPACE_DEPTH} (space_depth)")
    if form.get("type") not in _KINDS:
        raise SpaceError(f"{path}.type: expected one of {', '.join(_KINDS)}, found {form.get('type')!r}")
    try:
        return _made(form, path, depth)
    except KeyError as error:
        raise SpaceError(f"{path}: the key {error} is missing") from error
    except (ValueError, OverflowError, SpaceError) as error:
        if str(error).startswith((f"{path}.", f"{path}:")):  # of an inner space, with its path
            raise
        raise SpaceError(f"{path}: {error}") from error


def _made(form: Mapping[str, Any], path: str, depth: int) -> Space:
    match form["type"]:
        case "box":
            return _box(form)
        case "discrete":
            return Discrete(_integer(form["n"], "n"), _integer(form.get("start", 0), "start"))
        case "multi_discrete":
            return _multi_discrete(form)
        case "multi_binary":
            return MultiBinary(_form_shape(form))
        case "mask":
            return Mask(_integer(form["n"], "n"), form["of"])
        case "ragged":
            return Ragged(_read(form["box"], f"{path}.box", depth - 1))
    spaces = form["spaces"]
    if form["type"] == "tuple":
        if not isinstance(spaces, list | tuple):
            raise ValueError(f"spaces: expected a list, found {type(spaces).__name__}")
        return Tuple([_read(part, f"{path}.spaces[{i}]", depth - 1) for i, part in enumerate(spaces)])
    if not isinstance(spaces, Mapping) or not all(isinstance(name, str) for name in spaces):
        raise ValueError(f"spaces: expected a map with text keys, found {type(spaces).__name__}")
    return Dict({name: _read(part, f"{path}.spaces.{name}", depth - 1) for name, part in spaces.items()})


def _form_shape(form: Mapping[str, Any]) -> tuple[int, ...]:
    shape = form["shape"]
    if not isinstance(shape, list | tuple) or not all(type(n) is int for n in shape):
        raise ValueError(f"shape: expected a list of integers, found {shape!r:.100}")
    return _shape(0, 0, shape)


def _integer(form: Any, name: str, dtype: np.dtype[Any] | None = None) -> int:
    """Return an integer; infinity is the bound of the dtype, if one is given."""
    number = from_form(form)
    if dtype is not None and math.isinf(number):
        return int(np.iinfo(dtype).min if number < 0 else np.iinfo(dtype).max)
    if not math.isfinite(number) or number != int(number):
        raise ValueError(f"{name}: expected an integer, found {form!r:.100}")
    return int(number)


def _form_array(
    form: Any, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], ends: np.dtype[Any] | None = None
) -> Any:
    """Return one number for all elements, or a flat list of numbers, as an array; `ends` is as of `_integer`."""
    flat = form if isinstance(form, list | tuple) else [form]
    if flat is form and len(flat) != math.prod(shape):
        raise ValueError(f"{name}: expected one number or {math.prod(shape)}, found {len(flat)}")
    try:
        numbers = [float(from_form(it)) if dtype.kind == "f" else _integer(it, name, ends) for it in flat]
        return np.array(numbers, dtype).reshape(shape if flat is form else ())
    except OverflowError as error:
        raise ValueError(f"{name}: expected integers that fit into {dtype}") from error


def _box(form: Mapping[str, Any]) -> Space:
    shape = _form_shape(form)
    if form["dtype"] not in _DTYPES:
        raise ValueError(f"dtype: expected one of {', '.join(_DTYPES)}, found {form['dtype']!r:.100}")
    dtype = np.dtype(form["dtype"]).newbyteorder("=")
    wide = np.dtype(np.float64) if dtype.kind == "f" else dtype
    low, high = (_form_array(form[name], name, shape, wide, dtype) for name in ("low", "high"))
    return Box(low, high, shape, dtype)


def _multi_discrete(form: Mapping[str, Any]) -> Space:
    nvec = form["nvec"]
    shape = _form_shape(form) if "shape" in form else (len(nvec),) if isinstance(nvec, list | tuple) else ()
    start = _form_array(form.get("start", 0), "start", shape, INT64)
    return MultiDiscrete(_form_array(nvec, "nvec", shape, INT64), start)


_DTYPES = ("<f8", "<f4", "<f2", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u4", "<u8")
_KINDS = ("box", "discrete", "multi_discrete", "multi_binary", "mask", "ragged", "tuple", "dict")


# -- text -----------------------------------------------------------------------------------------------------------

_TYPES = {np.dtype(code).name: np.dtype(code).newbyteorder("=") for code in _DTYPES}
_QUOTED_NAME = re.compile(r'("(?:[^"\\\x00-\x1f]|\\.)*")\s*=')  # of a Dict: the only text in the grammar


def parse_space(text: str) -> Space:
    """Return the space of a text; nothing in the text is evaluated.

    >>> space = parse_space("Dict(gear=Discrete(3), place=Box(-1, 1, (2,)))")
    >>> space.contains({"gear": 2, "place": [0.5, 1]}), space.to_vector({"gear": 2, "place": [0.5, 1]})
    (True, array([2. , 0.5, 1. ]))
    >>> parse_space("MultiDiscrete([2, 3])") == MultiDiscrete([2, 3]), parse_space("MultiBinary(2)").default()
    (True, array([0, 0], dtype=int8))

    Raises:
        SpaceError: The text describes no space; the message names what was expected and the column, from 1.
    """
    if len(text) > SPACE_TEXT_BYTES:
        raise SpaceError(f"expected at most {SPACE_TEXT_BYTES} characters (space_text_bytes), found {len(text)}")
    return _Reading(text).space()


class _Reading:
    """Read a space from Python's syntax tree of a text; quoted names of a Dict are replaced by words first."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.names: dict[str, str] = {}

    def space(self) -> Space:
        """Return the space of the whole text."""
        try:
            tree = ast.parse(_QUOTED_NAME.sub(self.word_of, self.text.lstrip()), mode="eval")
        except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
            column = self.column((getattr(error, "offset", None) or 1) - 1)
            said = getattr(error, "msg", None) or type(error).__name__
            raise SpaceError(f"space, column {column}: expected a space, found {self.text[:40]!r}: {said}") from error
        return self.space_of(tree.body, SPACE_DEPTH)

    def word_of(self, match: re.Match[str]) -> str:
        """Replace a quoted name by a word, usually of equal length, so that columns stay."""
        word = f"_{len(self.names)}_"
        try:
            self.names[word] = str(json.loads(match[1]))
        except ValueError as error:
            raise SpaceError(f"space, column {match.start() + 1}: no JSON string: {match[1]:.40}") from error
        return f"{word:{len(match[0]) - 1}}="

    def column(self, offset: int) -> int:
        """Return a column of the text, from 1."""
        return len(self.text) - len(self.text.lstrip()) + offset + 1

    def fail(self, node: ast.expr, expected: str) -> NoReturn:
        """Refuse what is at a node."""
        column = self.column(node.col_offset)
        found = self.text[column - 1 :][:20]
        raise SpaceError(f"space, column {column}: expected {expected}, found {found!r}")

    def space_of(self, node: ast.expr, depth: int) -> Space:
        """Return the space of a call."""
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id not in _MAKERS:
            self.fail(node, f"one of {', '.join(_MAKERS)}")
        if depth == 0:
            self.fail(node, f"spaces nested at most {SPACE_DEPTH} deep (space_depth)")
        plain = [self.value(it, depth, ARRAY_RANK) for it in node.args]
        named: dict[str, Any] = {}
        for it in node.keywords:
            name = self.names.get(it.arg or "", it.arg)
            if name is None or name in named:
                self.fail(it.value, "each argument once, by its name")
            named[name] = self.value(it.value, depth, ARRAY_RANK)
        make = _MAKERS[node.func.id]
        try:
            signature(make).bind(*plain, **named)
            return make(*plain, **named)
        except (SpaceError, TypeError, ValueError, OverflowError) as error:
            raise SpaceError(f"space, column {self.column(node.col_offset)}: {node.func.id}: {error}") from error

    def value(self, node: ast.expr, depth: int, rank: int) -> Any:
        """Return a number, a dtype, an id in quotes, a list or a space."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            number = self.value(node.operand, depth, rank)
            if type(number) not in (int, float):
                self.fail(node, "a number")
            return -number if isinstance(node.op, ast.USub) else number
        if isinstance(node, ast.Constant) and type(node.value) in (int, float, str):
            return node.value
        numpy = isinstance(node, ast.Attribute) and getattr(node.value, "id", "") in ("np", "numpy")
        word = getattr(node, "attr" if numpy else "id", "")  # others write `np.float32`
        if word == "inf":
            return math.inf
        if word in _TYPES:
            return _TYPES[word]
        if isinstance(node, ast.List | ast.Tuple):
            if rank == 0:
                self.fail(node, f"lists nested at most {ARRAY_RANK} deep (array_rank)")
            return [self.value(it, depth, rank - 1) for it in node.elts]
        return self.space_of(node, depth - 1)


def _multi_discrete_of(nvec: Any, start: Any = 0, shape: Any = None) -> Space:
    return MultiDiscrete(nvec if shape is None else np.reshape(np.array(nvec, dtype=np.int64), shape), start)


_MAKERS: dict[str, Callable[..., Space]] = {
    "Box": Box,
    "Discrete": Discrete,
    "MultiDiscrete": _multi_discrete_of,
    "MultiBinary": MultiBinary,
    "Mask": Mask,
    "Ragged": Ragged,
    "Tuple": lambda *spaces: Tuple(spaces),
    "Dict": lambda **spaces: Dict(spaces),
}
