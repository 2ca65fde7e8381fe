from __future__ import annotations

import hashlib
import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from ganglion.errors import AuthorError, LimitExceeded, StoreError
from ganglion.limits import MODEL_MEMBERS
from ganglion.sdk.models import Models, digest_of, file_name, load_arrays, save_arrays

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


class Boom:
    """Tell if it is ever unpickled."""

    def __reduce__(self) -> Any:
        return (pytest.fail, ("a file was executed",))


def _npy(array: Any, allow_pickle: bool = False) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, np.asarray(array), allow_pickle=allow_pickle)
    return file.getvalue()


def _header(text: str, version: bytes = b"\x01\x00") -> bytes:
    return b"\x93NUMPY" + version + len(text).to_bytes(2, "little") + text.encode()


def _zip(path: Path, members: list[tuple[str, bytes]], compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return path


OBJECTS = np.empty(1, dtype=object)
OBJECTS[0] = Boom()


@pytest.mark.parametrize(
    "members",
    [
        [("a.npy", _npy(OBJECTS, allow_pickle=True))],
        [("a.txt", b"text")],
        [("a.npy", b"no array")],
        [("a.npy", b"")],
        [("a.npy", _npy(np.zeros(3))[:-8])],
        [("a.npy", _npy(np.zeros(3)) + b"more")],
        [("a.npy", _header("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }"))],
        [("a.npy", _header("{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }"))],
        [("a.npy", _header("{'descr': '|O', 'fortran_order': False, 'shape': (), }"))],
        [("a.npy", _header("{'descr': '<U1', 'fortran_order': False, 'shape': (1,), }") + b"aaaa")],
        [("a.npy", _header("__import__('os').getcwd()"))],
        [("a.npy", _header("{'descr': '<f8', 'fortran_order': False, 'shape': (), }", b"\x03\x00"))],
        [("%.npy", _npy(np.zeros(1))), ("%25.npy", _npy(np.zeros(1)))],
        [("%FF.npy", _npy(np.zeros(1)))],
        [(".meta.npy", _npy(np.frombuffer(b"[1]", dtype=np.uint8)))],
        [(".meta.npy", _npy(np.frombuffer(b"{", dtype=np.uint8)))],
        [(".meta.npy", _npy(np.zeros(200_000, dtype=np.uint8)))],
    ],
)
def test_hostile_archives_are_refused(tmp_path: Path, members: list[tuple[str, bytes]]) -> None:
    """Objects, lying headers, colliding or broken names: refused with the file's name, nothing executed."""
    path = _zip(tmp_path / "evil.npz", members)
    with pytest.raises(StoreError, match=r"evil\.npz"):
        load_arrays(path)


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


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    """Nothing but a StoreError comes of a file that is no model."""
    path = tmp_path_factory.mktemp("models") / "m.npz"
    path.write_bytes(data)
    with pytest.raises(StoreError):
        load_arrays(path)


@given(st.data())
def test_any_change_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """A few changed bytes anywhere give arrays or a StoreError, nothing else."""
    path = tmp_path_factory.mktemp("models") / "m.npz"
    save_arrays(path, {"a": np.arange(3.0), "b c": np.zeros((2, 2), dtype=np.int8)}, {"tag": "x"})
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    try:
        arrays = load_arrays(path)
    except StoreError:
        return
    assert all(isinstance(array, np.ndarray) for array in arrays.values())


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
