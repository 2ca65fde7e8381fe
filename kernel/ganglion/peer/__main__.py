"""A participant as a program of its own: `python -m ganglion.peer` with the variables of its place."""

from __future__ import annotations

import os
import sys

from ganglion.peer.main import main

if __name__ == "__main__":
    sys.exit(main(os.environ))
