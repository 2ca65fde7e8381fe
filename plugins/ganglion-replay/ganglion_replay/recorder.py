"""Recorder: an observer that writes the complete episodes of a live run into files."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import click

from ganglion.cli.settings import Settings
from ganglion.cli.stores import store_class, store_uri
from ganglion.errors import DiskError, UsageError
from ganglion.sdk import Observer
from ganglion.sdk.session import Session
from ganglion.synced import sync
from ganglion_replay.files import Form, Writer, checked, import_sessions, layout_of
from ganglion_replay.stored import StoredSessions, sessions
from ganglion_replay.transcript import quoted

__all__ = ["Recorder"]

EVERY_S = 10.0  # a part of a dataset has the episodes of this time
FOLDER = "recorded"
FORMAT = "parquet"
Key = tuple[int, str, int, str, str, int]
"""Phase, mode, worker, agent, environment, body."""
Place = tuple[int, str, int, str, str]


class Recorder(Observer):
    """Write complete episodes of a live run into `recorded/<run>` of its results folder, as Parquet.

    `ganglion attach observer recorder` starts the recorder at any time: earlier episodes are written first. The
    recorder reads the store of the run, which has each episode from its end on, and writes about every ten seconds and
    at the end of the run. There is a dataset for each body, `<run>/<agent>-<environment>-<b>-v0`, as of `ganglion
    export`. Each part of a dataset is complete at any time, also if the recorder is killed, and a later recorder
    continues after the parts. Lost and open episodes are not written.

    Raises:
        UsageError: The run has no store, pyarrow is missing, or other files are in the place of a dataset.
        DiskError: A file cannot be written.
    """

    topics: ClassVar[tuple[str, ...]] = ("events",)

    def setup(self) -> None:
        """Find the store of the run, and earlier parts."""
        context = click.get_current_context(silent=True)
        settings = (context.find_object(Settings) if context is not None else None) or Settings.load()
        self._uri = store_uri(settings)
        self.target = settings.results.absolute() / FOLDER
        self._layout = layout_of(FORMAT)
        self._last: dict[Key, int] = {}  # the newest episode of each body that is in a file
        self._places: dict[str, Path] = {}  # the dataset of each form
        self._beside = f".ganglion-recorder-{self.run}-"
        for left in self.target.glob(f"{self._beside}*"):  # of a killed recorder
            shutil.rmtree(left, ignore_errors=True)
        if (self.target / Form.namespace(self.run)).exists():
            for place, dataset in import_sessions(self.target / Form.namespace(self.run), FORMAT).datasets.items():
                self._places[dataset.form.key] = place
                for session in dataset:
                    self._note(session)
        self.sessions = 0
        self._next_s = time.monotonic()

    def observe(self, topic: str, event: str, fields: Mapping[str, Any], time_s: float) -> None:
        """Write new episodes, unless that was done recently."""
        if time.monotonic() >= self._next_s:
            self.write()
            self._next_s = time.monotonic() + EVERY_S

    def teardown(self) -> None:
        """Write the rest."""
        self.write()

    def write(self) -> int:
        """Write all episodes that are in the store and in no file; return their number."""
        try:
            found = sessions(self._uri, self.run)
        except UsageError:  # the store has no rows of the run yet
            return 0
        try:
            count = self._write(found)
        except OSError as error:
            raise DiskError(self.target, error) from error
        self.sessions += count
        if count:
            click.echo(f"recorded {count} episodes of run {self.run} in {self.target}", err=True)
        return count

    def _write(self, found: StoredSessions) -> int:
        self.target.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(prefix=self._beside, dir=self.target))
        writers: dict[str, tuple[Writer, Path]] = {}
        taken: list[Session] = []
        try:
            for session in self._new(found):
                form = Form.of(session)
                if form.key not in writers:
                    name = str(len(writers))
                    (beside / name).mkdir()
                    about = {"document": found.documents.get(form.run)}
                    writers[form.key] = self._layout.writer(beside / name, name, form, about), self._place(form)
                writers[form.key][0].add(checked(session)[0])
                taken.append(session)
            for writer, place in writers.values():
                writer.close()
                self._move(writer.folder, place)
        finally:
            shutil.rmtree(beside, ignore_errors=True)
        for session in taken:
            self._note(session)
        return len(taken)

    def _new(self, found: StoredSessions) -> Iterator[Session]:
        """Yield the sessions that are in no file, without lost ones, which have no end."""
        for session in found.since(self._since()):
            if session.episode > self._last.get(_key(session), -1) and (
                session.terminated[-1] or session.truncated[-1]
            ):
                yield session

    def _since(self) -> dict[Place, int]:
        """Return for each agent and place the first episode that may be new.

        Bodies share the episodes of their environment, and spawned bodies have a few of these; bodies with episodes of
        their own have numbers of their own.
        """
        lasts: dict[Place, list[int]] = {}
        for key, last in self._last.items():
            lasts.setdefault(key[:5], []).append(last)
        found = {place: min(numbers) for place, numbers in lasts.items()}
        several = [place for place, numbers in lasts.items() if max(numbers) > found[place]]
        with store_class(self._uri).reader(self._uri) as reader:
            for place in several:
                where = f"phase = {place[0]} and mode = '{place[1]}' and environment = {quoted(place[4])}"
                if any(reader.rows("episodes", [self.run], where=where, columns=["episode"], limit=1)):
                    found[place] = max(lasts[place])
        return found

    def _note(self, session: Session) -> None:
        key = _key(session)
        self._last[key] = max(self._last.get(key, -1), session.episode)

    def _place(self, form: Form) -> Path:
        """Return the folder of a dataset; a body with other columns in another phase has another folder."""
        if form.key not in self._places:
            known, version = {*self._places.values()}, 0
            while (place := self.target / f"{form.name}-v{version}") in known:
                version += 1
            if place.exists():
                raise UsageError(f"{place}: expected a dataset of the recorder, found other files; move them away")
            self._places[form.key] = place
        return self._places[form.key]

    @staticmethod
    def _move(folder: Path, place: Path) -> None:
        """Move complete parts after the existing ones."""
        place.mkdir(parents=True, exist_ok=True)
        number = 1 + max((int(part.stem.rpartition("-")[2]) for part in place.glob(f"part-*.{FORMAT}")), default=-1)
        for part in sorted(folder.iterdir()):
            sync(part)
            part.rename(place / f"part-{number:05}.{FORMAT}")
            number += 1
        with contextlib.suppress(OSError):
            sync(place)


def _key(session: Session) -> Key:
    place = session.phase, session.mode.value, session.worker
    return (*place, session.agent, session.environment, session.body)
