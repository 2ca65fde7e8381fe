"""The state of generators between two episodes, as a tree that can travel and be put back."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ganglion.errors import RemoteProtocolError
from ganglion.sdk.information import Information
from ganglion.sdk.seed import derive, generator_from_words

_KIND = "PCG64"
_WORD_BYTES = 16  # of PCG64's two integers of 128 bits
_KEY_WORDS = 624  # of a Mersenne twister


class Generators:
    """Take and put back the state of an object's generators and of those of its process.

    `save` leaves out what has not been drawn from since the object was made: most objects never use most of them.
    """

    def __init__(self, own: Mapping[str, Generator]) -> None:
        self._own = dict(own)
        self._fresh = self._all()

    def save(self) -> dict[str, Any]:
        """Return name -> state of every generator that has been used."""
        now = self._all()
        return {name: state for name, state in now.items() if state != self._fresh[name]}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Put back what `save` returned; what it left out is as it was at first. RemoteProtocolError if it is none."""
        strange = [name for name in saved if name not in self._fresh]
        if strange:
            raise RemoteProtocolError(f"state: there is no generator {strange[0]!r}")
        for name, fresh in self._fresh.items():
            state = saved.get(name, fresh)
            try:
                self._put(name, state)
            except (KeyError, TypeError, ValueError) as error:
                raise RemoteProtocolError(f"state.{name}: {error}") from error

    def _all(self) -> dict[str, Any]:
        found: dict[str, Any] = {name: _pcg64(generator) for name, generator in self._own.items()}
        return {**found, "random": _python(), "numpy": _numpy()}

    def _put(self, name: str, state: Mapping[str, Any]) -> None:
        if name == "random":
            random.setstate((3, (*_key(state).tolist(), state["position"]), state["gauss"]))
        elif name == "numpy":
            words = ("MT19937", _key(state), state["position"], state["has_gauss"], state["gauss"])
            np.random.set_state(words)  # noqa: NPY002 - authors may use it
        else:
            numbers = {word: int.from_bytes(state[word], "little") for word in ("state", "inc")}
            half = {"has_uint32": state["has_half"], "uinteger": state["half"]}
            self._own[name].bit_generator.state = {"bit_generator": _KIND, "state": numbers, **half}


def streams_of(informations: Sequence[Information], words: bytes) -> dict[str, Generator]:
    """Return the streams of the spaces of informations, by kind and id; those without one get theirs, out of `words`.

    A space that a filter declares has none.
    """
    found = {}
    for it in informations:
        if it.space._rng is None:  # noqa: SLF001 - what it will draw next is part of what a process is
            it.space.seed(generator_from_words(derive(words, "space", it.uid)))
        stream = it.space._rng  # noqa: SLF001
        assert stream is not None
        found[f"{it.what} {it.uid}"] = stream
    return found


def _key(state: Mapping[str, Any]) -> NDArray[np.uint32]:
    """Return the words of a Mersenne twister; ValueError if they are not as many as it has."""
    words = np.frombuffer(state["key"], dtype="<u4")
    if len(words) != _KEY_WORDS:
        raise ValueError(f"expected a key of {_KEY_WORDS} words, found {len(words)}")
    return words


def _pcg64(generator: Generator) -> dict[str, Any]:
    state: Any = generator.bit_generator.state
    words = {name: state["state"][name].to_bytes(_WORD_BYTES, "little") for name in ("state", "inc")}
    return {**words, "has_half": int(state["has_uint32"]), "half": int(state["uinteger"])}


def _python() -> dict[str, Any]:
    _, words, gauss = random.getstate()
    key = np.array(words[:_KEY_WORDS], dtype="<u4").tobytes()
    return {"key": key, "position": words[_KEY_WORDS], "gauss": gauss}


def _numpy() -> dict[str, Any]:
    _, key, position, has_gauss, gauss = np.random.get_state()  # noqa: NPY002 - authors may have drawn from it
    words = np.asarray(key, dtype="<u4").tobytes()
    return {"key": words, "position": int(position), "has_gauss": int(has_gauss), "gauss": float(gauss)}
