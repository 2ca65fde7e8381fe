from __future__ import annotations

import struct
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import pytest

from ganglion.errors import LimitExceeded, StoreError
from ganglion.limits import MODEL_BYTES, MODEL_MEMBERS
from ganglion.sdk.models import load_arrays, load_meta

HEADER = "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }"


PICKLE = b"cos\n_exit\n(I77\ntR."  # who unpickles this has ended


def npy(header: str = HEADER, data: bytes = bytes(16), version: int = 1) -> bytes:
    """Return a member with this description and these elements."""
    length = len(header).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + length + header.encode() + data


def part(name: bytes, data: bytes, flags: int = 0, method: int = 0) -> bytes:
    """Return a member as it stands in an archive."""
    sizes = (zlib.crc32(data), len(data), len(data))
    return struct.pack("<4s5H3I2H", b"PK\3\4", 20, flags, method, 0, 0, *sizes, len(name), 0) + name + data


def entry(name: bytes, data: bytes, offset: int, size: int | None = None, method: int = 0) -> bytes:
    """Return the entry of an index for a member at `offset`."""
    length = len(data) if size is None else size
    sizes = (zlib.crc32(data), length, length, len(name))
    return struct.pack("<4s6H3I5H2I", b"PK\1\2", 20, 20, 0, method, 0, 0, *sizes, 0, 0, 0, 0, 0, offset) + name


def zipped(parts: bytes, entries: list[bytes], count: int | None = None, start: int | None = None) -> bytes:
    """Return an archive."""
    index = b"".join(entries)
    number = len(entries) if count is None else count
    place = len(parts) if start is None else start
    return parts + index + struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, number, number, len(index), place, 0)


def single(data: bytes, **more: Any) -> bytes:
    """Return an archive of one member `a.npy`."""
    return zipped(part(b"a.npy", data), [entry(b"a.npy", data, 0, **more)])


def described(shape: str, kind: str = "<f8") -> bytes:
    """Return an archive of an array without elements that says it has this shape."""
    return single(npy(f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}", b""))


DATA = npy()
BIG = npy(data=bytes(100_000))
HOSTILE = {
    "a pickle": PICKLE,
    "a pickle as a member": single(PICKLE),
    "an object array": single(npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", PICKLE)),
    "an array of records": single(npy("{'descr': [('a', '|O')], 'fortran_order': False, 'shape': (1,), }", bytes(8))),
    "an expression": single(npy("{'descr': '<f8', 'fortran_order': False, 'shape': (9**9**9,), }")),
    "a call": single(npy("{'descr': __import__('os').getcwd(), 'fortran_order': False, 'shape': (2,), }")),
    "brackets": single(npy("(" * 50_000)),
    "text": single(npy("{'descr': '<U2', 'fortran_order': False, 'shape': (2,), }")),
    "dates": single(npy("{'descr': '<M8', 'fortran_order': False, 'shape': (2,), }")),
    "no dtype": single(npy("{'descr': '<f3', 'fortran_order': False, 'shape': (2,), }")),
    "a dtype without end": single(npy("{'descr': '|S999999999', 'fortran_order': False, 'shape': (2,), }")),
    "2**62 elements": described("(4611686018427387904,)"),
    "a shape whose product overflows": described("(4611686018427387904, 4)"),
    "a product that overflows to the right size": single(
        npy("{'descr': '<f8', 'fortran_order': False, 'shape': (2305843009213693954,), }")
    ),
    "2**62 times nothing": described("(4611686018427387904, 0)"),
    "a negative shape": described("(-1,)"),
    "seventeen axes": described("(" + "0, " * 17 + ")"),
    "a description of 4 GiB": single(b"\x93NUMPY\2\0\xff\xff\xff\xff" + HEADER.encode()),
    "a description of the next version": single(npy(version=3)),
    "a compressed bomb": single(zlib.compress(bytes(4 * 10**7))[2:-4], method=8),
    "an entry of 2 GiB": single(DATA, size=2**31 - 1),
    "an entry of 4 GiB": single(DATA, size=0xFFFFFFFF),
    "one member under many names": zipped(part(b"a.npy", BIG), [entry(b"a.npy", BIG, 0)] * 4000),
    "a member within another": zipped(
        part(b"a.npy", npy(data=part(b"b.npy", DATA))),
        [entry(b"a.npy", npy(data=part(b"b.npy", DATA)), 0), entry(b"b.npy", DATA, len(part(b"a.npy", npy(data=b""))))],
    ),
    "a member over the index": zipped(
        part(b"a.npy", DATA), [entry(b"a.npy", DATA, 0, size=len(DATA) + 20), entry(b"b.npy", DATA, 0)]
    ),
    "two names for one": zipped(part(b"a.npy", DATA), [entry(b"b.npy", DATA, 0)]),
    "a hundred thousand entries": zipped(b"", [entry(b"a.npy", b"", 0)] * 60_000),
    "more entries than counted": zipped(part(b"a.npy", DATA), [entry(b"a.npy", DATA, 0)] * 2, count=1),
    "an index elsewhere": zipped(part(b"a.npy", DATA), [entry(b"a.npy", DATA, 0)], start=0),
    "a member that is not there": zipped(b"", [entry(b"a.npy", DATA, 3 * 10**9)]),
    "a wrong checksum": single(DATA).replace(HEADER.encode(), HEADER.replace("2", "1").encode()),
    "nothing": b"",
    "an end alone": zipped(b"", [])[:-1],
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused(tmp_path: Path, name: str) -> None:
    """What is no model is refused with the file's name; nothing is executed, no memory taken that it asks for."""
    path = tmp_path / "evil.npz"
    path.write_bytes(HOSTILE[name])
    tracemalloc.start()
    try:
        with pytest.raises(StoreError, match=r"evil\.npz"):
            load_arrays(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 16 * len(HOSTILE[name]) + 2_000_000


def test_large_files_are_not_read(tmp_path: Path) -> None:
    """A file beyond the bound is refused before a byte of it is read."""
    path = tmp_path / "large.npz"
    with path.open("wb") as file:
        file.truncate(MODEL_BYTES + MODEL_MEMBERS * 64 * 1024 + 1)  # a hole: no disk is filled
    for read in (load_arrays, load_meta):
        with pytest.raises(LimitExceeded, match="model_bytes"):
            read(path)
