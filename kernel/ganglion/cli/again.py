"""Begin the command again: limits are constants of all modules, and have to be there before these are imported."""

from __future__ import annotations

import os
import sys
from typing import NoReturn


def begin_again() -> NoReturn:
    """Let this process run its own command line from the start, with the variables as they are now."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - as the user has given it
