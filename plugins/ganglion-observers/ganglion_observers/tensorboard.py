"""TensorBoard: returns, lengths and evaluations of a run as event files, by TensorBoard's own writer."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ganglion_observers.scalars import Scalar, ScalarObserver, tool


class TensorboardObserver(ScalarObserver):
    """Write event files: `tensorboard --logdir results` shows each run of the folder under its id.

    The horizontal axis is the number of the episode, or of the evaluation.

    Params:
        folder: Where the files go; None, the default: `tensorboard` in the folder of the run.
        flush_s: At the latest after so many seconds what was told can be seen; 5 by default.
    """

    tool, extra = "tensorboard.summary.writer.event_file_writer", "tensorboard"

    def __init__(self, folder: str | None = None, flush_s: int = 5) -> None:
        super().__init__(folder)
        self._flush_s = int(flush_s)
        self._writer: Any = None
        self._event: Any = None
        self._summary: Any = None

    def begin(self, config: Mapping[str, str]) -> None:
        """Open an event file; there may be others of this run."""
        self._event = tool("tensorboard.compat.proto.event_pb2", self.extra).Event
        self._summary = tool("tensorboard.compat.proto.summary_pb2", self.extra).Summary
        writer = tool(self.tool, self.extra).EventFileWriter
        self._writer = writer(str(self.place("tensorboard")), flush_secs=self._flush_s)

    def write(self, scalars: list[Scalar], time_s: float) -> None:
        """Add each number, those of one episode together."""
        values = [self._summary.Value(tag=name, simple_value=value) for name, _, value in scalars]
        summary = self._summary(value=values)
        self._writer.add_event(self._event(wall_time=time_s or time.time(), step=scalars[0].step, summary=summary))

    def end(self, status: str, reason: str) -> None:
        """Write all that waits."""
        self._writer.close()
