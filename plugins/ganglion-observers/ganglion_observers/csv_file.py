"""CSV: episodes and evaluations of a run as tables of text, a line each, as soon as they end."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from ganglion.sdk import UsageError
from ganglion_observers.scalars import Scalar, ScalarObserver

EPISODES = ("time_s", "phase", "mode", "worker", "environment", "episode", "steps", "reason", "agent", "return")
"""The columns of `episodes.csv`: a line for each agent of an episode."""

EVALUATIONS = ("time_s", "phase", "number", "agent", "metric", "value")
"""The columns of `evaluations.csv`."""


class CsvObserver(ScalarObserver):
    """Write `episodes.csv` and, once there is an evaluation, `evaluations.csv` into the folder of the run.

    A file that exists stays as it is: the next one is `episodes-2.csv`.

    Params:
        folder: Where the files go; None, the default: `csv` in the folder of the run.
    """

    def __init__(self, folder: str | None = None) -> None:
        super().__init__(folder)
        self._files: dict[str, tuple[IO[str], Any]] = {}
        self._modes: dict[Any, str] = {}

    def observe(self, topic: str, event: str, fields: Mapping[str, Any], time_s: float) -> None:
        """Write the lines of an event."""
        super().observe(topic, event, fields, time_s)
        if event == "phase.started":
            self._modes[fields.get("phase")] = str(fields.get("mode", ""))
        elif event == "episode.ended":
            self._rows("episodes", EPISODES, self._episode(fields, time_s))
        elif event == "evaluation.ended":
            place = [round(time_s, 3), fields.get("phase"), fields.get("number")]
            told = dict(fields.get("metrics") or {})
            rows = ([*place, agent, name, value] for agent, of in told.items() for name, value in dict(of).items())
            self._rows("evaluations", EVALUATIONS, rows)

    def _episode(self, fields: Mapping[str, Any], time_s: float) -> Iterator[list[Any]]:
        mode = fields.get("mode") or self._modes.get(fields.get("phase"))
        names = ("worker", "environment", "episode", "steps", "reason")
        place = [round(time_s, 3), fields.get("phase"), mode, *(fields.get(name) for name in names)]
        for agent, value in dict(fields.get("returns") or {}).items() or [(None, None)]:
            yield [*place, agent, value]

    def _rows(self, name: str, columns: tuple[str, ...], rows: Iterator[list[Any]]) -> None:
        if name not in self._files:
            file = _new(self.place("csv"), name)
            self._files[name] = file, csv.writer(file, lineterminator="\n")
            self._files[name][1].writerow(columns)
        file, writer = self._files[name]
        writer.writerows(rows)
        file.flush()

    def begin(self, config: Mapping[str, str]) -> None:
        """Open nothing yet: a run without an episode has no file."""

    def write(self, scalars: list[Scalar], time_s: float) -> None:
        """Write nothing: the lines hold more than names and numbers."""

    def end(self, status: str, reason: str) -> None:
        """Close the files."""
        for file, _ in self._files.values():
            file.close()
        self._files.clear()


def _new(folder: Path, name: str) -> IO[str]:
    """Open a file that is not there yet, with the first free number."""
    for number in itertools.count(1):
        path = folder / (f"{name}.csv" if number == 1 else f"{name}-{number}.csv")
        try:
            return path.open("x", encoding="utf-8", newline="")
        except FileExistsError:
            continue
        except OSError as error:
            raise UsageError(f"{path}: expected a file that can be made: {error.strerror}") from error
    raise AssertionError("there is always another number")
