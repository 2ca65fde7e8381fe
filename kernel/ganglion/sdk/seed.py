"""Seeds: every stream of random numbers by its path, from the one seed of the run."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence

import numpy as np
from numpy.random import PCG64, Generator, SeedSequence
from numpy.random.bit_generator import ISpawnableSeedSequence
from numpy.typing import NDArray

Component = str | int

# PCG64 needs four 64-bit words; a process gets these, and nothing else of the run's seed.
WORDS = 4
WORDS_BYTES = 8 * WORDS


def key(path: Sequence[Component]) -> tuple[int, ...]:
    """Return the spawn key of a path: four 32-bit words per component.

    A component contributes the first four big-endian words of SHA-256 over `s:` and its text or `i:` and its decimal
    digits, in UTF-8. Names make the paths, not positions: one more agent changes no other stream.
    """
    found: list[int] = []
    for component in path:
        if isinstance(component, bool) or not isinstance(component, str | int):
            raise TypeError(f"a path consists of texts and integers, found {component!r}")
        text = f"s:{component}" if isinstance(component, str) else f"i:{component}"
        found += struct.unpack(">4I", hashlib.sha256(text.encode()).digest()[:16])
    return tuple(found)


def stream(seed: int, path: Sequence[Component]) -> SeedSequence:
    """Return the seed sequence of the stream at `path` of a run with `seed` (an integer >= 0 of any size)."""
    return SeedSequence(entropy=seed, spawn_key=key(path))


def words(seed: int, path: Sequence[Component]) -> bytes:
    """Return the 32 bytes (four little-endian 64-bit words) of the stream at `path`.

    The words suffice to make the stream's generator and to derive sub-streams, but do not reveal the run's seed.
    """
    return stream(seed, path).generate_state(WORDS, np.uint64).astype("<u8").tobytes()


def generator_from_words(words: bytes) -> Generator:
    """Return the generator of a stream: equal, bit for bit, to `numpy.random.default_rng(stream(seed, path))`."""
    # numpy types the argument more narrowly than it checks: any ISeedSequence is accepted.
    return Generator(PCG64(_Words(words)))  # type: ignore[arg-type]


def integer_from_words(words: bytes) -> int:
    """Return the stream as one integer in [0, 2**63)."""
    return int.from_bytes(_checked(words)[:8], "little") >> 1


def derive(words: bytes, *path: Component) -> bytes:
    """Return the words of a stream below that of `words`, for a process that must not know the run's seed."""
    entropy = int.from_bytes(_checked(words), "little")
    sequence = SeedSequence(entropy=entropy, spawn_key=key(path))
    return sequence.generate_state(WORDS, np.uint64).astype("<u8").tobytes()


def _checked(words: bytes) -> bytes:
    if len(words) != WORDS_BYTES:
        raise ValueError(f"the words of a stream are {WORDS_BYTES} bytes, found {len(words)}")
    return words


class _Words(ISpawnableSeedSequence):
    """Give numpy a state from words that were computed elsewhere."""

    def __init__(self, words: bytes) -> None:
        self._words: NDArray[np.uint64] = np.frombuffer(_checked(words), dtype="<u8").astype(np.uint64)
        self._children = SeedSequence(entropy=int.from_bytes(words, "little"))

    def generate_state(self, n_words: int, dtype: type = np.uint32) -> NDArray[np.uint64]:  # type: ignore[override]
        """Return the words; other requests than PCG64's are refused."""
        if n_words != WORDS or np.dtype(dtype) != np.uint64:
            raise ValueError(f"only {WORDS} words of uint64 are known, asked for {n_words} of {np.dtype(dtype)}")
        return self._words

    def spawn(self, n_children: int) -> list[SeedSequence]:  # type: ignore[override]
        """Return sequences for `Generator.spawn`, derived from the words."""
        return self._children.spawn(n_children)
