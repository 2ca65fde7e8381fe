"""MLflow: a run in a local folder of MLflow, by mlflow-skinny."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ganglion.sdk import UsageError
from ganglion_observers.scalars import Scalar, ScalarObserver, tool

_QUIET = {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true", "MLFLOW_ALLOW_FILE_STORE": "true"}
_ENDS = {"finished": "FINISHED", "interrupted": "KILLED"}


class MlflowObserver(ScalarObserver):
    """Write a run of MLflow: `mlflow ui --backend-store-uri results/mlruns` shows it.

    Params:
        experiment: The experiment of MLflow that the run belongs to; `ganglion` by default.
        folder: The folder of all runs of MLflow; None, the default: `mlruns` beside the folder of the run.
    """

    tool, extra = "mlflow", "mlflow"

    def __init__(self, experiment: str = "ganglion", folder: str | None = None) -> None:
        super().__init__(folder)
        self._experiment = experiment
        self._client: Any = None
        self._run_id = ""

    @classmethod
    def check(cls) -> None:
        """Import MLflow with all that would leave this machine switched off."""
        os.environ.update({name: os.environ.get(name, value) for name, value in _QUIET.items()})
        super().check()

    def begin(self, config: Mapping[str, str]) -> None:
        """Begin a run of MLflow, with what was told as its parameters."""
        tracking = tool("mlflow.tracking", self.extra)
        folder = self.place(str(Path("..", "mlruns"))).resolve()
        with warnings.catch_warnings():  # folders are what was asked for; MLflow would rather have a database
            warnings.simplefilter("ignore", FutureWarning)
            self._client = tracking.MlflowClient(tracking_uri=folder.as_uri())
        known = self._client.get_experiment_by_name(self._experiment)
        if known is not None and known.lifecycle_stage != "active":
            raise UsageError(f"experiment {self._experiment!r} of {folder} was deleted there: name another")
        number = self._client.create_experiment(self._experiment) if known is None else known.experiment_id
        made = self._client.create_run(number, run_name=self.run)
        self._run_id = made.info.run_id
        for key, value in config.items():
            self._client.log_param(self._run_id, key, value)

    def write(self, scalars: list[Scalar], time_s: float) -> None:
        """Log each number."""
        for name, step, value in scalars:
            self._client.log_metric(self._run_id, name, value, timestamp=int(time_s * 1000), step=step)

    def end(self, status: str, reason: str) -> None:
        """Say how it ended."""
        if reason:
            self._client.set_tag(self._run_id, "reason", reason)
        self._client.set_terminated(self._run_id, status=_ENDS.get(status, "FAILED"))
