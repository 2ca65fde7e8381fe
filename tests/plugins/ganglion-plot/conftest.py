"""Runs as their writers tell them, and the command line that draws them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from commandline import ganglion as ganglion

from ganglion.cli.stores import default_uri, store_class

pack = msgpack.packb


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., None]:
    """Return what writes a run: `returns` by worker, a decision per episode; its folder has a document."""

    def run(name: str, returns: dict[int, list[float]], seed: str = "1", text: str = "a: 1", **more: Any) -> None:
        folder, agent = tmp_path / name, more.get("agent", "ada")
        folder.mkdir()
        if text:
            (folder / "resolved.yml").write_text(f"uid: {name.rpartition('-')[0]}\nseed: {seed}\n{text}\n")
        head = {"uid": name.rpartition("-")[0], "experiment": "e", "seed": seed, "started": "2030-01-01T00:00:00Z"}
        records: list[Any] = [["run", head], ["phase", 0, "first", "train", "finished", None]]
        kinds = (("sensor", "grid.a", [2]), ("actuator", "grid.x", []), ("reward", "grid.r", []))
        for place in (("grid", None), (None, agent)):
            for kind, full, shape in kinds:
                records.append(["declare", 0, *place, kind, [[full, "Box", None, "<f8", shape]]])
        for worker, values in returns.items():
            for episode, value in enumerate(values):
                array = np.array([1.0 + episode, 5.0]).tobytes()
                row = [1, 1, 1, None, pack([array]), pack([0.5]), pack([value]), True, False]
                act = [0, 0, 0, pack([array]), pack([0.5]), None, pack([value]), 2 * value, True, False]
                noted = pack({"brain.loss": 10.0 * episode})
                records.append(["steps", 0, "train", worker, "grid", episode, [row]])
                records.append(["actions", 0, "train", worker, agent, episode, [[*act, noted]]])
                records.append(["episode", 0, "train", worker, None, episode, 1, True, False, "environment", episode])
        with store_class(default_uri(tmp_path)).writer(default_uri(tmp_path), name) as writer:
            writer.apply("governor", [*records, ["end", "finished", "done", "2030-01-01T00:01:00Z"]])

    return run
