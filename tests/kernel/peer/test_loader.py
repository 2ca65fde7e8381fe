from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ganglion.errors import PluginInvalid
from ganglion.peer.loader import Loader

SOURCE = """
from ganglion.sdk import Muscle

class Walker(Muscle):
    def __init__(self, speed, uid=""):
        self.made = (speed, uid, self.worker)

    def propose_actions(self, sensors, actuators_available):
        return actuators_available
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Return a document's folder with a module beside it."""
    (tmp_path / "loader_walking.py").write_text(SOURCE)
    yield tmp_path
    sys.modules.pop("loader_walking", None)


def test_variables_of_a_process_describe_its_loader() -> None:
    """Folder and allowed packages come from the environment; nothing is allowed by default."""
    assert Loader("/docs", ("one", "two")) == Loader.of({"GANGLION_FOLDER": "/docs", "GANGLION_ALLOW": "one,two"})
    assert Loader("", ()) == Loader.of({})


def test_an_object_gets_parameters_offers_and_attributes(folder: Path) -> None:
    """Parameters of the document by keyword, `uid` where it is named, attributes before the constructor runs."""
    plugin = {"name": "loader_walking:Walker", "params": {"speed": 3}}
    made = Loader(str(folder), ()).make("muscle", plugin, {"uid": "a/2", "worker": 2})

    assert ((3, "a/2", 2), {"speed": 3}, 2) == (made.made, made.params, made.worker)


def test_parameters_may_be_given_apart(folder: Path) -> None:
    """Those of the worker win over those of the document."""
    plugin = {"name": "loader_walking:Walker", "params": {"speed": 3}}
    made = Loader(str(folder), ()).make("muscle", plugin, {}, {"speed": 9})

    assert (9, {"speed": 9}) == (made.made[0], made.params)


def test_a_wrong_parameter_is_refused_by_name(folder: Path) -> None:
    """The constructor is not called with what it does not take."""
    with pytest.raises(PluginInvalid, match="parameter 'weight' is not taken"):
        Loader(str(folder), ()).make("muscle", {"name": "loader_walking:Walker", "params": {"weight": 1}}, {})


def test_an_unknown_name_is_refused(folder: Path) -> None:
    """What nobody offers cannot be loaded."""
    with pytest.raises(PluginInvalid, match="no_such_muscle"):
        Loader(str(folder), ()).load("muscle", "no_such_muscle")


@pytest.mark.parametrize(
    ("name", "text"), [("loader_walking:Walker", "class Walker"), ("dummy", "class DummyMuscle of ganglion-toys ")]
)
def test_blame_names_class_and_distribution(folder: Path, name: str, text: str) -> None:
    """Who reads of a failure learns whose it is, with the version where a distribution ships it."""
    pytest.importorskip("ganglion_toys")

    assert Loader(str(folder), ()).blame("muscle", name).startswith(text)
