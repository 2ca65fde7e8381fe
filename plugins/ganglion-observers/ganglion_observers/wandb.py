"""Weights & Biases: a run as an offline run, which `wandb sync` may upload; nothing is sent from here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ganglion_observers.scalars import Scalar, ScalarObserver, tool

_QUIET = {"WANDB_ERROR_REPORTING": "false", "WANDB_SILENT": "true", "DO_NOT_TRACK": "1"}


class WandbObserver(ScalarObserver):
    """Write an offline run of Weights & Biases; its numbers are drawn over `episode`.

    Params:
        project: The project, for `wandb sync`; `ganglion` by default.
        folder: Where the folder `wandb` is made; None, the default: the folder of the run.
    """

    tool, extra = "wandb", "wandb"

    def __init__(self, project: str = "ganglion", folder: str | None = None) -> None:
        super().__init__(folder)
        self._project = project
        self._run: Any = None

    @classmethod
    def check(cls) -> None:
        """Import wandb with all that would leave this machine switched off."""
        os.environ.update({name: os.environ.get(name, value) for name, value in _QUIET.items()})
        super().check()

    def begin(self, config: Mapping[str, str]) -> None:
        """Begin an offline run."""
        wandb = tool(self.tool, self.extra)
        quiet = wandb.Settings(console="off", disable_git=True, disable_code=True, silent=True)
        self._run = wandb.init(
            mode="offline",
            project=self._project,
            name=self.run,
            config=dict(config),
            dir=str(self.place("")),
            settings=quiet,
        )
        self._run.define_metric("episode")
        self._run.define_metric("*", step_metric="episode")

    def write(self, scalars: list[Scalar], time_s: float) -> None:
        """Log the numbers of one event together."""
        self._run.log({"episode": scalars[0].step, **{one.name: one.value for one in scalars}})

    def end(self, status: str, reason: str) -> None:
        """Say how it ended, and finish."""
        self._run.summary.update({"status": status, "reason": reason})
        self._run.finish(exit_code=0 if status == "finished" else 1)
