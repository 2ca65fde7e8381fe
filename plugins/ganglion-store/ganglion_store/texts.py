"""What SQLite is told, by the names of `statements`, which prints it: no run has to import SQLAlchemy for that.

SQLAlchemy and all statements take half a second, once in each run.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

globals().update(json.loads(Path(__file__).with_name("texts.json").read_bytes()))

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
