"""Archive: reads named arrays out of an `.npz` file within bounds, and executes nothing of it.

An `.npz` file is a zip archive of `.npy` members. We read both ourselves. Readers of general archives take memory as
an index or a header tells them to, and follow what two parts of a file say differently; the usual reader of headers
is a parser of Python expressions. Here everything is checked against the size of the file before memory is taken:
members are stored, not compressed, they lie side by side, and an array is as long as its member.
"""

from __future__ import annotations

import os
import re
import struct
import zlib
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ganglion.limits import ARRAY_RANK, MODEL_BYTES, MODEL_HEADER_BYTES, MODEL_MEMBERS

__all__ = ["KINDS", "Member", "array_of", "members", "read_member"]

Array = NDArray[Any]
KINDS = "biufcS"  # booleans, numbers, bytes; no objects, which reading would have to execute, and no text

# As PKWARE's APPNOTE has them: end of the index (4.3.16), one entry of it (4.3.12), the head of a member (4.3.7).
_END = struct.Struct("<4s4H2IH")
_ENTRY = struct.Struct("<4s6H3I5H2I")
_HEAD = struct.Struct("<4s5H3I2H")
_LATER = 0xFFFFFFFF  # the number stands in an extra field, with eight bytes
_LARGE = 0x0001  # that extra field
_FLAGS = 0x0808  # sizes behind the data (the index has them too), names in UTF-8; no encryption, no patches

_MAGIC = b"\x93NUMPY"
_DESCRIPTION = re.compile(
    rb"\{'descr': '(?P<type>[<>|=][a-zA-Z]\d{0,9})', 'fortran_order': (?P<fortran>True|False), "
    rb"'shape': \((?P<shape>[0-9, ]*)\),? ?\} *\n?"
)
_SHAPE = re.compile(rb"|\d{1,19},|\d{1,19}(?:, ?\d{1,19})+")


@dataclass(frozen=True, slots=True)
class Member:
    """Be one member of an archive: its name, where its bytes begin, how many they are, their CRC-32."""

    name: str
    start: int
    size: int
    crc: int


def members(file: BinaryIO) -> list[Member]:
    """Return the members of an archive, in the order of its index; ValueError says what is wrong with it.

    Nothing is taken on trust: all members lie within the file, before the index, and none over another.
    """
    size = file.seek(0, os.SEEK_END)
    index, count = _index(file, size)
    found = []
    position = 0
    for _ in range(count):
        entry, position = _entry(index, position)
        found.append(entry)
    if position != len(index):
        raise ValueError(f"its index has {len(index) - position} bytes too many")
    read = [_located(file, *entry) for entry in found]
    end = 0
    for begin, member in sorted(read, key=lambda row: row[0]):
        if begin < end:
            raise ValueError(f"entry {member.name!r:.100} lies over another one")
        end = member.start + member.size
    if end > size - _END.size - len(index):
        raise ValueError("an entry reaches into the index")
    return [member for _, member in read]


def _index(file: BinaryIO, size: int) -> tuple[bytes, int]:
    if size < _END.size:
        raise ValueError("expected an archive, found less than the end of one")
    file.seek(size - _END.size)
    signature, disk, first, here, count, length, start, comment = _END.unpack(file.read(_END.size))
    if signature != b"PK\x05\x06" or comment:
        raise ValueError("expected the end of an archive at the end of the file")
    if disk or first or here != count:
        raise ValueError("expected an archive of one file")
    if count > MODEL_MEMBERS + 1:  # the JSON object beside the arrays
        raise ValueError(f"expected at most {MODEL_MEMBERS} arrays (model_members), found {count}")
    # 4 GiB are more than we read at all: the end of an archive never needs its larger twin.
    if start + length > size - _END.size:
        raise ValueError("its index does not lie within the file")
    if start + length != size - _END.size and length + start != _before_twin(file, size):
        raise ValueError("expected the index right before the end")
    file.seek(start)
    return file.read(length), count


def _before_twin(file: BinaryIO, size: int) -> int:
    """Return where the larger twin of the end begins, which some writers put before it; -1 if there is none."""
    start = size - _END.size - 20 - 56
    if start < 0:
        return -1
    file.seek(start)
    data = file.read(76)
    return start if data[:4] == b"PK\x06\x06" and data[56:60] == b"PK\x06\x07" else -1


def _entry(index: bytes, position: int) -> tuple[tuple[bytes, int, int, int], int]:
    """Return name, offset, size and CRC of the entry at `position`, and where the next one begins."""
    if position + _ENTRY.size > len(index):
        raise ValueError("its index ends too early")
    fields = _ENTRY.unpack_from(index, position)
    signature, flags, method, crc, packed, size = (fields[i] for i in (0, 3, 4, 7, 8, 9))
    name_size, extra_size, comment_size, offset = (fields[i] for i in (10, 11, 12, 16))
    name_end = position + _ENTRY.size + name_size
    end = name_end + extra_size + comment_size
    name = index[name_end - name_size : name_end]
    if signature != b"PK\x01\x02" or end > len(index):
        raise ValueError("its index holds something else than entries")
    if method or flags & ~_FLAGS:
        text = name.decode(errors="replace")
        raise ValueError(f"entry {text!r:.100}: expected it stored, without compression or encryption")
    packed, size, offset = _wide(index[name_end : name_end + extra_size], packed, size, offset)
    if packed != size:
        raise ValueError("an entry has two sizes")
    return (name, offset, size, crc), end


def _wide(extra: bytes, packed: int, size: int, offset: int) -> tuple[int, int, int]:
    """Return sizes and offset of an entry, those from the extra field that did not fit into four bytes."""
    numbers = [size, packed, offset]
    later = [place for place, number in enumerate(numbers) if number == _LATER]
    position = 0
    while later and position + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, position)
        if kind == _LARGE and length >= 8 * len(later) and position + 4 + length <= len(extra):
            for place, number in zip(
                later, struct.unpack_from(f"<{len(later)}Q", extra, position + 4), strict=True
            ):
                numbers[place] = number
            later = []
        position += 4 + length
    if later:
        raise ValueError("an entry does not say how large it is")
    return numbers[1], numbers[0], numbers[2]


def _located(file: BinaryIO, name: bytes, offset: int, size: int, crc: int) -> tuple[int, Member]:
    """Return where the head of a member begins, and the member; index and head have to agree."""
    file.seek(min(offset, MODEL_BYTES * 2))
    head = file.read(_HEAD.size)
    text = name.decode(errors="replace")
    if len(head) < _HEAD.size or head[:4] != b"PK\x03\x04":
        raise ValueError(f"entry {text!r:.100} is not where the index says")
    fields = _HEAD.unpack(head)
    if file.read(fields[9]) != name or fields[3]:
        raise ValueError(f"entry {text!r:.100} is another one than the index says")
    start = offset + _HEAD.size + fields[9] + fields[10]
    return offset, Member(text, start, size, crc)


def read_member(file: BinaryIO, member: Member) -> bytearray:
    """Return the bytes of a member; ValueError if they are not all there, or not those that were written."""
    data = bytearray(member.size)
    file.seek(member.start)
    if _read_into(file, data) != member.size:
        raise ValueError(f"entry {member.name!r:.100}: the file ends within it")
    if zlib.crc32(data) != member.crc:
        raise ValueError(f"entry {member.name!r:.100}: its checksum is another one")
    return data


def _read_into(file: BinaryIO, data: bytearray) -> int:
    done = 0
    view = memoryview(data)
    while done < len(data):
        count = file.readinto(view[done:])  # type: ignore[attr-defined]  # every binary file has it
        if not count:
            break
        done += count
    return done


def array_of(name: str, data: bytearray) -> Array:
    """Return the array that a member holds, over its bytes; ValueError says what is wrong with it.

    Dtype, shape and the number of bytes that they need are checked before an array is made.
    """
    dtype, fortran, shape, offset = _description(name, data)
    count = 1
    for length in shape:
        count *= length
    if count * dtype.itemsize != len(data) - offset or max(shape, default=0) > MODEL_BYTES:
        raise ValueError(f"entry {name!r:.100}: {len(data) - offset} bytes do not fill {shape} of {dtype}")
    if count == 0 or dtype.itemsize == 0:
        return np.zeros(shape, dtype=dtype)
    flat = np.frombuffer(data, dtype=dtype, offset=offset)
    return flat.reshape(shape, order="F" if fortran else "C")


def _description(name: str, data: bytearray) -> tuple[np.dtype[Any], bool, tuple[int, ...], int]:
    """Return dtype, whether in Fortran order, shape, and where the elements begin."""
    if data[:6] != _MAGIC or len(data) < 12:
        raise ValueError(f"entry {name!r:.100}: expected an array")
    version = (data[6], data[7])
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"entry {name!r:.100}: version {version} of the format is not read")
    start = 10 if version == (1, 0) else 12
    length = int.from_bytes(data[8:start], "little")
    if length > MODEL_HEADER_BYTES or start + length > len(data):
        raise ValueError(f"entry {name!r:.100}: expected a description of at most {MODEL_HEADER_BYTES} bytes")
    found = _DESCRIPTION.fullmatch(data, start, start + length)
    if found is None or not _SHAPE.fullmatch(found["shape"].strip()):
        raise ValueError(f"entry {name!r:.100}: its description is not one of an array of numbers")
    shape = tuple(int(part) for part in found["shape"].split(b",") if part.strip())
    return _dtype(name, found["type"].decode(), shape), found["fortran"] == b"True", shape, start + length


def _dtype(name: str, text: str, shape: tuple[int, ...]) -> np.dtype[Any]:
    try:
        dtype = np.dtype(text)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"entry {name!r:.100}: there is no dtype {text!r}") from error
    if dtype.kind not in KINDS or dtype.hasobject or len(shape) > ARRAY_RANK:
        raise ValueError(f"entry {name!r:.100}: dtype {dtype} or shape {shape} is not read")
    return dtype
