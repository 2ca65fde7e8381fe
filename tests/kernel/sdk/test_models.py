from __future__ import annotations

import hashlib
import struct
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from ganglion.errors import AuthorError, LimitExceeded, StoreError
from ganglion.limits import MODEL_BYTES, MODEL_MEMBERS
from ganglion.sdk.models import Models, digest_of, load_arrays, load_meta, save_arrays
from ganglion.sdk.naming import file_name

DTYPES = st.one_of(
    npst.boolean_dtypes(),
    npst.integer_dtypes(endianness="="),
    npst.unsigned_integer_dtypes(endianness="="),
    npst.floating_dtypes(endianness="=", sizes=(16, 32, 64)),
    npst.complex_number_dtypes(endianness="=", sizes=(64, 128)),
    npst.byte_string_dtypes(min_len=1),
)
ARRAYS = npst.arrays(DTYPES, npst.array_shapes(min_dims=0, min_side=0, max_side=3))
NAMES = st.text(max_size=12)
VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False),
        st.text(max_size=5),
        st.binary(max_size=5),
        ARRAYS.filter(lambda array: array.dtype.kind != "S"),
    ),
    lambda parts: st.one_of(st.lists(parts, max_size=3), st.dictionaries(NAMES, parts, max_size=3)),
    max_leaves=6,
)


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(map(_same, a.values(), b.values()))
    return type(a) is type(b) and bool(a == b)


@given(st.dictionaries(NAMES, ARRAYS, max_size=4))
def test_arrays_read_back(tmp_path_factory: pytest.TempPathFactory, arrays: dict[str, Any]) -> None:
    """Names, order, dtypes, shapes and bits survive, whatever the names contain; the digest is that of the file."""
    path = tmp_path_factory.mktemp("models") / "model.npz"
    digest = save_arrays(path, arrays)

    assert _same(arrays, load_arrays(path, digest))
    assert digest == digest_of(path) == hashlib.sha256(path.read_bytes()).hexdigest()
    assert [path] == list(path.parent.iterdir())


@pytest.mark.parametrize(
    ("arrays", "meta", "match"),
    [
        ({"a": object()}, None, "a: expected an array of numbers, booleans or bytes, found object"),
        ({"a": ["text"]}, None, "dtype <U4"),
        ({"a": np.array([None])}, None, "a: expected an array of .*found dtype object"),
        ({"a": [[1, 2], [3]]}, None, "a: expected an array of numbers, booleans or bytes, found list"),
        ({"\ud800": np.zeros(1)}, None, "expected text that can be written as UTF-8, found '.*ud800'"),
        ({"a": np.zeros(1, dtype=[("x", "f8")])}, None, "dtype"),
        ({"a": np.zeros((1,) * 17)}, None, "array_rank"),
        ({1: np.zeros(1)}, None, "names of arrays"),
        ({}, {"x": object()}, "JSON"),
        ({}, {"x": float("nan")}, "JSON"),
        ({}, {"x": "y" * 70_000}, "at most"),
        ({"x" * 70_000: np.zeros(1)}, None, "too long"),
    ],
)
def test_what_is_no_array_is_refused(tmp_path: Path, arrays: Any, meta: Any, match: str) -> None:
    """Objects, texts and structures are refused with the array's name; nothing is written."""
    with pytest.raises(AuthorError, match=match):
        save_arrays(tmp_path / "m.npz", arrays, meta)

    assert [] == list(tmp_path.iterdir())


def test_too_many_arrays_are_refused(tmp_path: Path) -> None:
    """The bound is named."""
    with pytest.raises(LimitExceeded, match="model_members"):
        save_arrays(tmp_path / "m.npz", {str(i): np.zeros(0) for i in range(MODEL_MEMBERS + 1)})


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """The path stands in the error."""
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"file/m\.npz"):
        save_arrays(tmp_path / "file" / "m.npz", {})


def test_linked_folder_is_refused(tmp_path: Path) -> None:
    """A link in the place of an agent's folder leads nobody elsewhere."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "models").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="models"):
        Models(tmp_path / "models").save({"a": np.zeros(1)})

    assert [] == list((tmp_path / "elsewhere").iterdir())


# -- hostile files ----------------------------------------------------------------------------------------------------


def test_every_damaged_byte_of_data_is_found(tmp_path: Path) -> None:
    """A flipped bit and a cut file are refused by name, with or without a digest from elsewhere."""
    path = tmp_path / "m.npz"
    digest = save_arrays(path, {"a": np.arange(100.0)})
    good = path.read_bytes()
    for place in range(200, 900, 50):
        path.write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
        with pytest.raises(StoreError, match=r"m\.npz"):
            load_arrays(path)
    path.write_bytes(good[: len(good) // 2])
    with pytest.raises(StoreError, match=r"m\.npz"):
        load_arrays(path)
    path.write_bytes(good + b"x")
    with pytest.raises(StoreError, match="SHA-256"):
        load_arrays(path, digest)


# -- names ------------------------------------------------------------------------------------------------------------


@given(st.text(), st.text())
def test_names_cannot_meet_or_leave(a: str, b: str) -> None:
    """Two names share no file, and none contains a separator, a dot of its own, or more than 117 characters."""
    first, second = file_name(a), file_name(b)

    assert (a == b) is (first == second)
    assert len(first) <= 117
    assert not set(first[:100]) - set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-%")


def test_half_a_character_is_no_name(tmp_path: Path) -> None:
    """What UTF-8 cannot hold is refused as an author's error, as a tag, too."""
    with pytest.raises(AuthorError, match="expected text that can be written as UTF-8"):
        Models(tmp_path).save({}, "\ud800")


@pytest.mark.parametrize("meta", [[1], "text", 3])
def test_meta_is_a_map(tmp_path: Path, meta: Any) -> None:
    """Anything else is refused by its type."""
    with pytest.raises(AuthorError, match=f"meta: expected a JSON object, found {type(meta).__name__}"):
        Models(tmp_path).save({}, meta=meta)


# -- a folder ---------------------------------------------------------------------------------------------------------


@given(st.dictionaries(st.text(max_size=150), VALUES, max_size=3))
def test_values_read_back(tmp_path_factory: pytest.TempPathFactory, values: dict[str, Any]) -> None:
    """Whatever can travel can be kept under any tag, and comes back as it was."""
    models = Models(tmp_path_factory.mktemp("models"))
    for tag, value in values.items():
        models.save_value(value, tag)

    assert sorted(values) == models.tags()
    for tag, value in values.items():
        found = models.load(tag)
        assert _same(value, found), (value, found)


def test_tags_are_models_of_their_own(tmp_path: Path) -> None:
    """The empty tag is the model itself; saving again replaces; what is not there is None."""
    models = Models(tmp_path / "ada")
    assert ([], None, None) == (models.tags(), models.load(), models.meta())
    models.save({"w": np.zeros(1)})
    models.save({"w": np.ones(1)}, meta={"episode": 3})
    digest = models.save({"w": np.full(1, 2.0)}, tag="best")

    assert ["", "best"] == models.tags()
    assert (1.0, 2.0, None) == (models.load()["w"], models.load("best")["w"], models.load("other"))
    assert ({"episode": 3}, None) == (models.meta(), models.meta("best"))
    rows = {row["tag"]: row for row in models.written()}
    assert ["", "best"] == sorted(rows)
    path = Path(rows["best"]["path"])
    assert (digest, digest_of(path), path.stat().st_size) == (rows["best"]["sha256"], digest, rows["best"]["bytes"])
    assert [] == models.written()


@pytest.mark.parametrize(
    ("value", "match"), [({"a": [object()]}, r"value\.a\[0\]: a object"), ({1: 2}, "keys"), ({"f": len}, "value.f")]
)
def test_values_that_cannot_be_kept_are_named(tmp_path: Path, value: Any, match: str) -> None:
    """The path to what cannot be kept stands in the error."""
    with pytest.raises(AuthorError, match=match):
        Models(tmp_path).save_value(value, "policy")


@pytest.mark.parametrize(
    "tree", [{"array": "7"}, {"what": 1}, {"number": "x"}, {"map": [1]}, {"a": 1, "b": 2}, {"number": 3}]
)
def test_a_damaged_tree_is_named(tmp_path: Path, tree: Any) -> None:
    """A file whose description of its value is wrong is refused by name."""
    save_arrays(tmp_path / "model.npz", {}, {"tag": "", "tree": tree})
    with pytest.raises(StoreError, match=r"model\.npz"):
        Models(tmp_path).load()


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


def single(data: bytes, name: bytes = b"a.npy", **more: Any) -> bytes:
    """Return an archive of one member."""
    return zipped(part(name, data), [entry(name, data, 0, **more)])


def described(shape: str, kind: str = "<f8") -> bytes:
    """Return an archive of an array without elements that says it has this shape."""
    return single(npy(f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}", b""))


DATA = npy()
META = "{'descr': '|u1', 'fortran_order': False, 'shape': (%d,), }"
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
    "text beside": single(DATA, name=b"a.txt"),
    "no array": single(b"no array"),
    "an empty member": single(b""),
    "too few elements": single(npy(data=bytes(8))),
    "too many elements": single(npy(data=bytes(24))),
    "two names that decode to one": zipped(
        part(b"%.npy", DATA) + part(b"%25.npy", DATA),
        [entry(b"%.npy", DATA, 0), entry(b"%25.npy", DATA, len(part(b"%.npy", DATA)))],
    ),
    "a name that is no text": single(DATA, name=b"%FF.npy"),
    "a list beside the arrays": single(npy(META % 3, b"[1]"), name=b".meta.npy"),
    "half of a map beside the arrays": single(npy(META % 1, b"{"), name=b".meta.npy"),
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
