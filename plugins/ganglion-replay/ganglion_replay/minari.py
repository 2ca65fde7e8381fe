"""Minari: datasets as Minari lays them out, with HDF5 or with a folder of Parquet for each episode."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ganglion.errors import SpaceError
from ganglion.sdk.session import Session
from ganglion.sdk.spaces import Box, Discrete, MultiBinary, MultiDiscrete, Space
from ganglion_replay.files import (
    EPISODE_BYTES_MAX,
    Columns,
    Dataset,
    Form,
    Layout,
    RecordingInvalid,
    Writer,
    about_of,
    assembled,
    form_of,
    head_of,
    key_of,
    library,
    parse_space,
    read_json,
    split,
    text_of,
)

__all__ = ["LAYOUTS"]

Array = NDArray[Any]
Path_ = tuple[str, ...]  # of a column within a space of several

_VERSION = "0.5.3"  # of the layout, which later versions of Minari read
_FILE = "main_data.hdf5"
_META = "metadata.json"
_IMAGE = 32  # rows and columns from which Minari takes an array of bytes for an image
_FILTERS = frozenset({1, 2, 3, 4, 5, 6, 32000})  # those that HDF5 and h5py bring; others are programs found by path
_KEY = ("phase", "worker", "episode", "mode", "phase_name", "seed")
_COMPRESSED_BYTES = 64 * 1024  # smaller arrays gain nothing


# -- spaces -----------------------------------------------------------------------------------------------------------
def space_to_json(space: Space) -> dict[str, Any]:
    """Return a space as Minari writes it; one of several parts is the box of its vectors."""
    if isinstance(space, Discrete):
        return {"type": "Discrete", "dtype": "int64", "start": int(space.start), "n": int(space.n)}
    if isinstance(space, MultiDiscrete):
        nvec, start = space.nvec.tolist(), space.start.tolist()
        return {"type": "MultiDiscrete", "dtype": "int64", "nvec": nvec, "start": start}
    if isinstance(space, MultiBinary):
        return {"type": "MultiBinary", "n": list(space.shape)}
    box = space if isinstance(space, Box) else Box(-np.inf, np.inf, (space.size,), space.dtype)
    low, high = (np.broadcast_to(side, box.shape).tolist() for side in (box.low, box.high))
    return {"type": "Box", "dtype": str(box.dtype), "shape": list(box.shape), "low": low, "high": high}


def _tree(pairs: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Return columns as one space of Minari: that of the only one, or a map of several."""
    spaces = {_member(uid): space_to_json(parse_space(text)) for uid, text in pairs}
    return next(iter(spaces.values())) if len(spaces) == 1 else {"type": "Dict", "subspaces": spaces}


def _member(uid: str) -> str:
    """Return the name of a column in a file: an id without the separator of paths."""
    return uid.replace("%", "%25").replace("/", "%2F")


def _paths(pairs: Sequence[Sequence[str]]) -> list[Path_]:
    """Return where the columns of our own files are."""
    return [()] if len(pairs) == 1 else [(_member(uid),) for uid, _ in pairs]


def _leaves(tree: Any, where: str, path: Path_ = ()) -> Iterator[tuple[Path_, dict[str, Any]]]:
    """Yield the spaces within a space of Minari, with their paths."""
    kind = tree.get("type") if isinstance(tree, dict) else None
    if kind == "Dict" and isinstance(tree.get("subspaces"), dict):
        for name, part in sorted(tree["subspaces"].items()):
            yield from _leaves(part, where, (*path, name))
    elif kind == "Tuple" and isinstance(tree.get("subspaces"), list):
        for number, part in enumerate(tree["subspaces"]):
            yield from _leaves(part, where, (*path, str(number)))
    elif kind in ("Box", "Discrete", "MultiDiscrete", "MultiBinary"):
        yield path, tree
    else:
        known = "Box, Discrete, MultiDiscrete, MultiBinary, Dict or Tuple"
        raise RecordingInvalid(f"{where}: {'.'.join(path) or 'it'}: expected {known}, found {kind!r:.40}")


def _space(tree: Mapping[str, Any], where: str) -> Space:
    """Return a space of Minari as one of ours."""
    try:
        if tree["type"] == "Discrete":
            return Discrete(tree["n"], tree.get("start", 0))
        if tree["type"] == "MultiDiscrete":
            return MultiDiscrete(tree["nvec"], tree.get("start", 0))
        if tree["type"] == "MultiBinary":
            return MultiBinary(tree["n"])
        dtype = np.dtype(tree["dtype"])
        if dtype.kind == "b":
            return Box(0, 1, tuple(tree["shape"]), np.int8)
        low, high = (np.array(tree[side], dtype) for side in ("low", "high"))
        return Box(low, high, tuple(tree["shape"]), dtype)
    except (KeyError, TypeError, ValueError, OverflowError, SpaceError) as error:
        raise RecordingInvalid(f"{where}: expected a space as Minari writes it: {error!s:.200}") from error


def _is_image(space: Mapping[str, Any]) -> bool:
    shape = space.get("shape", [])
    return space.get("dtype") == "uint8" and len(shape) in (2, 3) and min(shape[:2]) >= _IMAGE


# -- writing ----------------------------------------------------------------------------------------------------------
class _MinariWriter(Writer):
    """Write a dataset; arrays of a session are laid out by `_arrays`."""

    kind: str

    def __init__(self, folder: Path, name: str, form: Form, about: Mapping[str, Any]) -> None:
        super().__init__(folder, name, form, about)
        self.data = folder / "data"
        self.data.mkdir()

    def close(self) -> None:
        super().close()
        size = sum(path.stat().st_size for path in self.data.rglob("*") if path.is_file())
        head = {
            "total_episodes": self.sessions,
            "total_steps": self.steps,
            "data_format": self.kind,
            "jpeg_encoding": False,
            "observation_space": json.dumps(_tree(self.form.sensors)),
            "action_space": json.dumps(_tree(self.form.actuators)),
            "dataset_id": self.name,
            "minari_version": _VERSION,
            "dataset_size": round(size / 1e6, 1),
            "ganglion": head_of(self.form, self.about),
        }
        (self.data / _META).write_text(json.dumps(head))

    def attributes(self, session: Session) -> dict[str, Any]:
        """Return what stands beside the arrays of an episode."""
        form = self.form
        whose = {"run": form.run, "agent": form.agent, "environment": form.environment, "body": form.body}
        counts = {"id": self.sessions, "total_steps": len(session)}
        policies = {} if session.policy is None else {"policies": json.dumps(_words(session.policy))}
        return {**counts, **key_of(session), **whose, **policies, "closing": session.has_final}


def _infos(session: Session, rewards: Sequence[Array]) -> dict[str, Array]:
    """Return what Minari has no place for, `[T, ..]` each: what is missing is zero there, and `.known` says so."""
    found: dict[str, Array] = {"ticks": session.ticks}
    optional = {"objective": session.objectives}
    if len(rewards) != 1 or rewards[0].ndim > 1 or np.isnan(rewards[0]).any():
        optional |= {f"reward.{i}": array for i, array in enumerate(rewards)}
    for name, array in optional.items():
        missing = np.isnan(array)
        if name == "objective" and missing.all():
            continue
        found[name] = np.where(missing, array.dtype.type(0), array)
        if missing.any():
            found[f"{name}.known"] = ~missing
    if session.policy_version is not None:
        found["policy_version"] = session.policy_version
    if session.policy is not None:
        words = _words(session.policy)
        found["policy"] = np.array([words.index(str(word)) for word in session.policy], np.int64)
    return found


def _words(policy: Sequence[str]) -> list[str]:
    """Return the policies of a session, each once."""
    return list(dict.fromkeys(map(str, policy)))


def _reward(session: Session, rewards: Sequence[Array]) -> Array:
    """Return the reward of each step: the only one, else the sum of all that are known."""
    if len(rewards) == 1 and rewards[0].ndim == 1 and not np.isnan(rewards[0]).any():
        return rewards[0]
    return np.asarray(np.nansum(session.rewards, axis=1, dtype=np.float64))


def _closed(session: Session, readings: Sequence[Array]) -> list[Array]:
    """Return readings with closing ones; where they are not known the last ones are there twice."""
    return [array if session.has_final else np.concatenate([array, array[-1:]]) for array in readings]


class _Hdf5Writer(_MinariWriter):
    kind = "hdf5"

    def __init__(self, folder: Path, name: str, form: Form, about: Mapping[str, Any]) -> None:
        super().__init__(folder, name, form, about)
        self._h5py = library("h5py", "hdf5")
        self._file: Any = None

    def add(self, session: Session) -> None:
        if self._file is None:
            self._file = self._h5py.File(self.data / _FILE, "a", track_order=True)
        group = self._file.create_group(f"episode_{self.sessions}")
        group.attrs.update(self.attributes(session))
        readings, setpoints, rewards = split(session, self.form)
        for name, pairs, arrays in (
            ("observations", self.form.sensors, _closed(session, readings)),
            ("actions", self.form.actuators, setpoints),
        ):
            for path, array in zip(_paths(pairs), arrays, strict=True):
                self._put(group, "/".join((name, *path)), array)
        self._put(group, "rewards", _reward(session, rewards))
        self._put(group, "terminations", session.terminated)
        self._put(group, "truncations", session.truncated)
        for name, array in _infos(session, rewards).items():
            self._put(group, f"infos/{name}", array)
        self.sessions += 1
        self.steps += len(session)

    @staticmethod
    def _put(group: Any, name: str, array: Array) -> None:
        large = {"compression": "gzip", "compression_opts": 1, "shuffle": True, "chunks": (1, *array.shape[1:])}
        fits = array.ndim > 1 and array[:1].nbytes >= _COMPRESSED_BYTES // 16 and array.nbytes >= _COMPRESSED_BYTES
        group.create_dataset(name, data=array, **(large if fits else {}))

    def suspend(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class _ParquetWriter(_MinariWriter):
    kind = "parquet"

    def __init__(self, folder: Path, name: str, form: Form, about: Mapping[str, Any]) -> None:
        super().__init__(folder, name, form, about)
        self._arrow = library("pyarrow", "parquet")
        self._parquet = library("pyarrow.parquet", "parquet")

    def add(self, session: Session) -> None:
        pa, rows = self._arrow, len(session) + 1
        readings, setpoints, rewards = split(session, self.form)
        infos = {name: self._column(_longer(array, rows)) for name, array in _infos(session, rewards).items()}
        columns = {
            "observations": self._struct(self.form.sensors, _closed(session, readings), rows),
            "actions": self._struct(self.form.actuators, setpoints, rows),
            "rewards": pa.array(_longer(_reward(session, rewards), rows)),
            "terminations": pa.array(_longer(session.terminated, rows)),
            "truncations": pa.array(_longer(session.truncated, rows)),
            "infos": pa.StructArray.from_arrays(list(infos.values()), names=list(infos)),
        }
        folder = self.data / str(self.sessions)
        folder.mkdir()
        # One group of rows: Minari takes each for an episode.
        self._parquet.write_table(pa.table(columns), folder / "part-0.parquet", row_group_size=max(rows, 1))
        (folder / _META).write_text(json.dumps(self.attributes(session)))
        self.sessions += 1
        self.steps += len(session)

    def _struct(self, pairs: Sequence[Sequence[str]], arrays: Sequence[Array], rows: int) -> Any:
        if not pairs:
            return self._arrow.nulls(rows)
        # Minari takes values of shape () of a Box for lists of one.
        flat = [
            array.reshape(len(array), 1) if array.ndim == 1 and not isinstance(parse_space(text), Discrete) else array
            for (_, text), array in zip(pairs, arrays, strict=True)
        ]
        parts = [self._column(_longer(array, rows)) for array in flat]
        if len(parts) == 1:
            return parts[0]
        return self._arrow.StructArray.from_arrays(parts, names=[_member(uid) for uid, _ in pairs])

    def _column(self, array: Array) -> Any:
        pa = self._arrow
        if array.ndim == 1:
            return pa.array(array)
        width = int(np.prod(array.shape[1:]))
        values = pa.array(np.ascontiguousarray(array).reshape(-1))
        return pa.FixedSizeListArray.from_arrays(values, width)

    def suspend(self) -> None:
        """Do nothing: each episode is a file of its own."""


def _longer(array: Array, rows: int) -> Array:
    """Return an array with zeros behind it, up to so many rows."""
    return np.concatenate([array, np.zeros((rows - len(array), *array.shape[1:]), array.dtype)])


# -- reading ----------------------------------------------------------------------------------------------------------
class _MinariDataset(Dataset):
    """Read a dataset, of ours or not; how arrays are found is what formats differ in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data" if (folder / "data").is_dir() else folder
        path = self.data / _META
        self._where = str(path)
        meta = read_json(path)
        counts = [meta.get(name) for name in ("total_episodes", "total_steps")]
        if any(type(count) is not int or count < 0 for count in counts):
            raise RecordingInvalid(f"{path}: expected total_episodes and total_steps as numbers >= 0, found {counts}")
        self.count, self.steps = counts
        head = meta.get("ganglion")
        self._own = head is not None
        if head is not None:
            self.form, self.about = form_of(head, self._where), about_of(head)
            self._readings, self._setpoints = _paths(self.form.sensors), _paths(self.form.actuators)
            return
        self.about = {}
        trees = [self._tree(meta, name) for name in ("observation_space", "action_space")]
        self._readings, self._setpoints = ([path for path, _ in tree] for tree in trees)
        if meta.get("jpeg_encoding", True) and any(_is_image(tree) for leaves in trees for _, tree in leaves):
            text = "expected arrays as they were (`jpeg_encoding` false), found images as JPEG, which is lossy"
            raise RecordingInvalid(f"{path}: {text}")
        kinds = zip(("observation", "action"), trees, strict=True)
        self._foreign: list[list[tuple[str, Space]]] = [
            [(_uid(kind, leaf), _space(tree, self._where)) for leaf, tree in leaves] for kind, leaves in kinds
        ]
        self._name = str(meta.get("dataset_id") or folder.name).replace("/", "-")
        episodes = self._episodes(1)  # whose file is open as long as it is there
        self._foreign_form(next(episodes, None))

    def _tree(self, meta: Mapping[str, Any], name: str) -> list[tuple[Path_, dict[str, Any]]]:
        text = meta.get(name)
        where = f"{self._where}: {name}"
        if not isinstance(text, str):
            what = "expected a space; one that only the environment knows is not looked up, since that would execute it"
            raise RecordingInvalid(f"{where}: {what}")
        try:
            tree = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise RecordingInvalid(f"{where}: cannot be read as JSON: {error!s:.200}") from error
        return list(_leaves(tree, where))

    def _foreign_form(self, first: tuple[str, Mapping[str, Any], Callable[[str, Path_], Array]] | None) -> None:
        """Make the form of a dataset of others; a dtype within the kind of its space is that of the first episode."""
        columns: list[list[list[str]]] = []
        for name, leaves in zip(("observations", "actions"), self._foreign, strict=True):
            pairs = []
            for (uid, space), path in zip(leaves, self._paths_of(name), strict=True):
                dtype = space.dtype if first is None else first[2](name, path).dtype
                same = dtype != space.dtype and dtype.kind in "iuf" and _kind(dtype) == _kind(space.dtype)
                kept = Box(-np.inf, np.inf, space.shape, dtype) if same else space
                pairs.append([f"environment.{uid}", text_of(kept)])
            columns.append(pairs)
        dtype = np.dtype(np.float64) if first is None else first[2]("rewards", ()).dtype
        reward = Box(-np.inf, np.inf, (), dtype if dtype.kind in "iuf" else np.float64)
        rewards = [["environment.reward", text_of(reward)]]
        self.form = Form(self._name, "agent", "environment", 0, columns[0], columns[1], rewards)

    def _paths_of(self, name: str) -> list[Path_]:
        return self._readings if name == "observations" else self._setpoints

    def _episodes(
        self, most: int | None = None
    ) -> Iterator[tuple[str, Mapping[str, Any], Callable[[str, Path_], Array]]]:
        """Yield place and attributes of each episode, and what reads an array of it."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[Session]:
        steps = 0
        for number, (at, attributes, array) in enumerate(self._episodes()):
            session = self._session(number, at, attributes, array)
            steps += len(session)
            yield session
        if steps != self.steps:
            raise RecordingInvalid(f"{self._where}: expected {self.steps} steps in all episodes, found {steps}")

    def _session(
        self, number: int, at: str, attributes: Mapping[str, Any], array: Callable[[str, Path_], Array]
    ) -> Session:
        final = True
        if self._own:
            whose = {name: attributes.get(name) for name in ("run", "agent", "environment", "body")}
            expected = {name: getattr(self.form, name) for name in whose}
            if whose != expected:
                raise RecordingInvalid(f"{at}: expected an episode of {expected}, found {whose}")
            final = bool(attributes.get("closing", True))
            key: dict[str, Any] = {name: attributes.get(name) for name in _KEY}
        else:
            seed = attributes.get("seed")
            key = {"phase": 0, "worker": 0, "episode": number, "mode": "train"}
            key["seed"] = seed if type(seed) is int and seed >= 0 else None
        total = attributes.get("total_steps")
        terminated, truncated = array("terminations", ()), array("truncations", ())
        if total is not None and total != len(terminated):
            raise RecordingInvalid(f"{at}: expected {total!r:.40} steps, found {len(terminated)}")
        readings = [array("observations", path) for path in self._readings]
        return assembled(
            self.form,
            Columns(
                at,
                key,
                readings if final else [one[:-1] for one in readings],
                [array("actions", path) for path in self._setpoints],
                self._rewards(at, array),
                terminated,
                truncated,
                self._info(array, "ticks"),
                self._info(array, "objective", at),
                self._info(array, "policy_version"),
                self._policy(at, attributes, self._info(array, "policy")),
                final,
            ),
        )

    @staticmethod
    def _policy(at: str, attributes: Mapping[str, Any], numbers: Array | None) -> list[str] | None:
        """Return by which model each action was chosen: the words behind numbers."""
        if numbers is None:
            return None
        try:
            words = json.loads(attributes["policies"])
            return [str(words[number]) if number >= 0 else words[len(words)] for number in numbers.tolist()]
        except (KeyError, TypeError, ValueError, IndexError) as error:
            text = "expected the words behind the numbers `policy`"
            raise RecordingInvalid(f"{at}: policies: {text}: {error!s:.100}") from error

    def _rewards(self, at: str, array: Callable[[str, Path_], Array]) -> list[Array]:
        kept = [self._info(array, f"reward.{i}", at) for i in range(len(self.form.rewards))] if self._own else [None]
        total = array("rewards", ())
        if total.dtype.kind == "f" and np.isnan(total).any():
            tick = int(np.argmax(np.isnan(total)))
            raise RecordingInvalid(f"{at}, tick {tick}: expected a number as reward, found nan")
        found = [one for one in kept if one is not None]
        return found or [total][: len(self.form.rewards)]

    def _info(self, array: Callable[[str, Path_], Array], name: str, missing: str | None = None) -> Array | None:
        """Return what Minari has no place for; with the place of an episode NaN where it was missing."""
        if not self._own:
            return None
        try:
            found = array("infos", (name,))
        except _Absent:
            return None
        if missing is None:
            return found
        if np.isnan(found).any():
            raise RecordingInvalid(f"{missing}, tick {int(np.argwhere(np.isnan(found))[0, 0])}: {name} is nan")
        try:
            known = array("infos", (f"{name}.known",))
        except _Absent:
            return found
        if known.dtype != np.dtype(bool) or known.shape != found.shape or found.dtype.kind != "f":
            raise RecordingInvalid(f"{missing}: {name}.known: expected a truth value for each number of {name}")
        return np.where(known, found, found.dtype.type(np.nan))


class _Absent(RecordingInvalid):
    """Report an array that is not there."""


def _kind(dtype: np.dtype[Any]) -> str:
    return "i" if dtype.kind == "u" else dtype.kind


def _uid(kind: str, path: Path_) -> str:
    return ".".join(path) or kind


class _Hdf5Dataset(_MinariDataset):
    def __init__(self, folder: Path) -> None:
        self._h5py = library("h5py", "hdf5")
        super().__init__(folder)

    def _episodes(
        self, most: int | None = None
    ) -> Iterator[tuple[str, Mapping[str, Any], Callable[[str, Path_], Array]]]:
        path = self.data / _FILE
        with self._told(path):
            file = self._h5py.File(path, "r")
        with file:
            for number in range(self.count if most is None else min(most, self.count)):
                at = f"{path}: episode_{number}"
                with self._told(path, f"episode_{number}"):
                    group = self._member(file, f"episode_{number}", at)
                    attributes = {name: _plain(value) for name, value in group.attrs.items()}
                yield at, attributes, self._reader(path, number, group)

    def _reader(self, path: Path, number: int, group: Any) -> Callable[[str, Path_], Array]:
        at = f"{path}: episode_{number}"

        def array(name: str, parts: Path_) -> Array:
            with self._told(path, f"episode_{number}"):
                found = self._member(group, name, at)
                for part in parts:
                    if f"_index_{part}" in found and part not in found:
                        part = f"_index_{part}"  # of a tuple
                    found = self._member(found, part, f"{at}/{name}")
                return self._read(found, f"{at}/{'/'.join((name, *parts))}")

        return array

    def _member(self, group: Any, name: str, at: str) -> Any:
        """Return what is in a group itself; a link may lead into another file."""
        if not isinstance(group, self._h5py.Group) or name not in group:
            raise _Absent(f"{at}: expected `{name}`, found none")
        if not isinstance(group.get(name, getlink=True), self._h5py.HardLink):
            raise RecordingInvalid(f"{at}: expected `{name}` in the file itself, found a link")
        return group[name]

    def _read(self, found: Any, at: str) -> Array:
        if not isinstance(found, self._h5py.Dataset):
            raise RecordingInvalid(f"{at}: expected an array, found a group")
        if found.dtype.kind not in "biuf":
            what = "objects, text or bytes, which are no numbers: objects would have to be executed to be read"
            raise RecordingInvalid(f"{at}: expected an array of numbers, found {found.dtype}: {what}")
        if found.is_virtual or found.external:
            raise RecordingInvalid(f"{at}: expected an array in the file itself, found one in another file")
        plist = found.id.get_create_plist()
        strange = [plist.get_filter(i)[0] for i in range(plist.get_nfilters())]
        if set(strange) - _FILTERS:
            raise RecordingInvalid(f"{at}: expected a filter that HDF5 brings, found {strange}, which is a program")
        if found.size * found.dtype.itemsize > EPISODE_BYTES_MAX or found.shape is None:
            raise RecordingInvalid(f"{at}: expected at most {EPISODE_BYTES_MAX} bytes, found the shape {found.shape}")
        if not found.shape:
            raise RecordingInvalid(f"{at}: expected a row for each step, found a single number")
        return np.asarray(found[()])

    @contextmanager
    def _told(self, path: Path, place: str = "") -> Iterator[None]:
        """Turn what HDF5 says into a sentence with the file."""
        try:
            yield
        except (OSError, KeyError, RuntimeError, ValueError, TypeError, MemoryError) as error:
            where = f"{path}: {place}" if place else str(path)
            raise RecordingInvalid(f"{where}: cannot be read as HDF5: {error!s:.200}") from error


def _plain(value: Any) -> Any:
    """Return an attribute as a plain value."""
    if isinstance(value, np.generic | np.ndarray) and value.ndim == 0:
        return value.item()
    return value


class _ParquetDataset(_MinariDataset):
    def __init__(self, folder: Path) -> None:
        self._arrow = library("pyarrow", "parquet")
        self._parquet = library("pyarrow.parquet", "parquet")
        super().__init__(folder)

    def _episodes(
        self, most: int | None = None
    ) -> Iterator[tuple[str, Mapping[str, Any], Callable[[str, Path_], Array]]]:
        pa = self._arrow
        for number in range(self.count if most is None else min(most, self.count)):
            folder = self.data / str(number)
            files = sorted(folder.glob("*.parquet"))
            if len(files) != 1:
                raise RecordingInvalid(f"{folder}: expected one Parquet file, found {len(files)}")
            attributes = read_json(folder / _META)
            if not isinstance(attributes, dict):
                raise RecordingInvalid(f"{folder / _META}: expected a map")
            try:
                with self._parquet.ParquetFile(files[0], pre_buffer=False) as file:
                    size = sum(file.metadata.row_group(i).total_byte_size for i in range(file.metadata.num_row_groups))
                    if size > EPISODE_BYTES_MAX:
                        raise RecordingInvalid(f"{files[0]}: expected at most {EPISODE_BYTES_MAX} bytes, found {size}")
                    table = file.read(use_threads=False).combine_chunks()  # threads keep memory, each its own
            except (pa.ArrowException, OSError, ValueError, KeyError) as error:
                raise RecordingInvalid(f"{files[0]}: cannot be read as Parquet: {error!s:.200}") from error
            yield str(files[0]), attributes, self._reader(str(files[0]), table)

    def _reader(self, at: str, table: Any) -> Callable[[str, Path_], Array]:
        rows = table.num_rows - 1

        def array(name: str, parts: Path_) -> Array:
            if name not in table.column_names:
                raise _Absent(f"{at}: expected the column `{name}`, found {', '.join(table.column_names)}")
            found = table[name]
            found = found.chunk(0) if found.num_chunks == 1 else found.combine_chunks()
            for part in parts:
                if not self._arrow.types.is_struct(found.type) or found.type.get_field_index(part) < 0:
                    raise _Absent(f"{at}: {name}: expected `{part}`, found {found.type}")
                found = found.field(part)
            if name != "observations" and len(found) and rows >= 0:
                found = found.slice(0, rows)  # the last row is padding
            return self._shaped(at, name, parts, values_of(self._arrow, found, f"{at}: {'.'.join((name, *parts))}"))

        return array

    def _shaped(self, at: str, name: str, parts: Path_, found: Array) -> Array:
        """Return an array in the shape of its space; files have one axis."""
        if name not in ("observations", "actions"):
            return found
        column = self._paths_of(name).index(parts)
        if hasattr(self, "form"):
            pairs = self.form.sensors if name == "observations" else self.form.actuators
            space = parse_space(pairs[column][1])
        else:
            space = self._foreign[name == "actions"][column][1]
        shape = space.shape
        if found.ndim > 1 and found.shape[1] == int(np.prod(shape)):
            return found.reshape(len(found), *shape)
        return found


def values_of(arrow: Any, array: Any, at: str) -> Array:
    """Return an Arrow array of numbers, or of lists of so many numbers each, as numpy's.

    Raises:
        RecordingInvalid: Something is null, ragged, or no number.
    """
    kind, types = array.type, arrow.types
    if array.null_count:
        raise RecordingInvalid(f"{at}: expected a value in each row, found {array.null_count} without")
    if types.is_fixed_size_list(kind):
        flat = values_of(arrow, array.flatten(), at)
        return flat.reshape(len(array), kind.list_size)
    if types.is_list(kind) or types.is_large_list(kind):
        text = "expected so many numbers in each row, found lists of any length, which are ragged"
        raise RecordingInvalid(f"{at}: {text}")
    if not (types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind)):
        raise RecordingInvalid(f"{at}: expected numbers, found {kind}, which is none: nothing is executed to read it")
    return np.asarray(array.to_numpy(zero_copy_only=False))


# -- which is which ---------------------------------------------------------------------------------------------------
def _is_of(kind: str) -> Callable[[Path], bool]:
    def is_one(folder: Path) -> bool:
        for place in (folder / "data", folder):
            path = place / _META
            if folder.is_dir() and path.is_file():
                meta = read_json(path)
                # Before version 0.5 there was one format.
                return isinstance(meta, dict) and meta.get("data_format", "hdf5") == kind and "total_steps" in meta
        return False

    return is_one


LAYOUTS = {
    "minari-hdf5": Layout(_Hdf5Writer, _is_of("hdf5"), _Hdf5Dataset),
    "minari-parquet": Layout(_ParquetWriter, _is_of("parquet"), _ParquetDataset),
}
