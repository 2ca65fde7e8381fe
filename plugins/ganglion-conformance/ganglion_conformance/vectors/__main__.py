"""Write the vectors anew: `python -m ganglion_conformance.vectors --write`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ganglion_conformance.vectors.make import MAKERS, text, write


def main(arguments: Sequence[str]) -> int:
    """Print all vectors, or write their files with `--write`; return the exit status."""
    if list(arguments) == ["--write"]:
        write()
    elif arguments:
        sys.stderr.write("usage: python -m ganglion_conformance.vectors [--write]\n")
        return 2
    else:
        for name in MAKERS:
            sys.stdout.write(text(name))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
