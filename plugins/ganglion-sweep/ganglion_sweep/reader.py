"""An experiment document from file to experiment, in our own form or in that of arsenAI."""

from __future__ import annotations

from collections.abc import Sequence

from ganglion.cli.extension import DocumentError, read_tree, report
from ganglion_sweep.experiment import Experiment, read_own


def read_experiment(source: str, overrides: Sequence[str] = ()) -> Experiment:
    """Return the experiment of a document; `-` is standard input. Settings `PATH=VALUE` are put in before all checks.

    Raises:
        DocumentError: with every fault and its place.
    """
    tree = read_tree(source)
    if "definitions" in tree.root.map and "run" not in tree.root.map:
        from ganglion_sweep.arsenai import read_old

        return read_old(tree, overrides)
    if "schedule" in tree.root.map and "run" not in tree.root.map:
        fault = tree.root.keys["schedule"].fault("this is one run, no experiment: `ganglion run` carries it out")
        raise DocumentError(report([fault]), [fault])
    return read_own(tree, overrides)
