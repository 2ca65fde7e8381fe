from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import pytest

from ganglion import sdk

PLUGINS = Path(__file__).parents[3] / "plugins"
MODULES = [importlib.import_module(name) for name in sorted(set(sdk._HOME.values()))]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def _examples() -> list[doctest.DocTest]:
    return [it for module in MODULES for it in doctest.DocTestFinder().find(module) if it.examples]


@pytest.mark.parametrize("example", _examples(), ids=lambda it: it.name)
def test_examples_say_what_comes_out(example: doctest.DocTest) -> None:
    """Each example in a docstring of the contract runs, and prints what it says."""
    said: list[str] = []
    failed, _ = doctest.DocTestRunner(optionflags=FLAGS).run(example, out=said.append)

    assert failed == 0, "".join(said)


def test_each_name_has_an_example() -> None:
    """Each public name is in such an example, or in a plugin that ships, which is held to its contract by tests."""
    texts = [line.source + line.want for it in _examples() for line in it.examples]
    texts += [path.read_text() for path in PLUGINS.glob("*/ganglion_*/**/*.py")]
    seen = set(re.findall(r"\w+", "\n".join(texts)))
    protocols = {"ControllerBus", "LaunchWatch", "ModelReader"}  # examples are classes that have their methods

    assert [] == sorted(set(sdk.__all__) - seen - protocols)
