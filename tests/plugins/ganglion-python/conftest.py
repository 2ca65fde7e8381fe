from __future__ import annotations

from commandline import write_run as write_run
