"""Backend: torch, imported when a brain is made, on one thread and deterministic."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["load_torch"]


def load_torch(learner: str) -> Any:
    """Return the module torch, set to one thread and to algorithms that give the same bits every time.

    One thread: the networks are small, and the split of a sum among threads decides its last bits.

    Raises:
        ModuleNotFoundError: torch is not installed; the message says how to install it.
    """
    try:
        torch = importlib.import_module("torch")
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ModuleNotFoundError(
            f"{learner} needs torch, which is not installed: pip install 'ganglion-learners[torch]'", name="torch"
        ) from error
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    return torch
