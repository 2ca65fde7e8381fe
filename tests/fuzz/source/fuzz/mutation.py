"""Mutation: inputs made of others by small changes, all drawn from one generator."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

_BYTES = (0x00, 0x01, 0x0A, 0x22, 0x7F, 0x80, 0x90, 0xC0, 0xC1, 0xDD, 0xDF, 0xFE, 0xFF)
_NUMBERS = (0, 1, 2**7, 2**8 - 1, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**53, 2**62, 2**63, 2**64 - 1)
_DIGITS = (b"0", b"-1", b"4294967296", b"18446744073709551616", b"1e308", b"1e999", b"9" * 400, b"inf", b"nan")


def mutations(rng: random.Random, seeds: Sequence[bytes], words: Sequence[bytes], bytes_max: int) -> Iterator[bytes]:
    """Yield inputs without end: one of the seeds, or of those made before, after one to eight changes."""
    pool = list(seeds) or [b""]
    while True:
        data = bytearray(rng.choice(pool))
        for _ in range(rng.choice((1, 1, 2, 3, 4, 8))):
            _change(rng, data, pool, words, bytes_max)
        made = bytes(data[:bytes_max])
        if rng.random() < 0.1:
            pool.append(made[:4096])
            if len(pool) > len(seeds) + 200:
                pool.pop(rng.randrange(len(seeds), len(pool)))
        yield made


def _change(rng: random.Random, data: bytearray, pool: Sequence[bytes], words: Sequence[bytes], bytes_max: int) -> None:
    start = rng.randint(0, len(data))
    stop = min(len(data), start + rng.choice((0, 1, 1, 2, 4, 16, 64, 1024)))
    kind = rng.randrange(10)
    if kind == 0 and data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif kind == 1:
        data[start:stop] = bytes((rng.choice(_BYTES),)) * max(1, stop - start)
    elif kind == 2:
        del data[start:stop]
    elif kind == 3:
        data[start:start] = data[start:stop]
    elif kind == 4:
        data[start:stop] = rng.randbytes(rng.choice((1, 2, 8, 64)))
    elif kind == 5:
        number = rng.choice(_NUMBERS)
        width = rng.choice((1, 2, 4, 8))
        data[start : start + width] = (number % 256**width).to_bytes(width, rng.choice(("big", "little")))
    elif kind == 6:
        data[start:stop] = rng.choice(words or _DIGITS)
    elif kind == 7:
        data[start:stop] = rng.choice(_DIGITS)
    elif kind == 8:
        other = rng.choice(pool)
        begin = rng.randint(0, len(other))
        data[start:stop] = other[begin : begin + rng.choice((1, 8, 64, 1024))]
    elif rng.random() < 0.2:  # the shape of most bombs: something small, very often
        piece = bytes(data[start:stop]) or rng.choice(words or _DIGITS)
        data[start:start] = piece * (rng.choice((100, 1000, bytes_max)) // len(piece) + 1)
        del data[bytes_max:]
