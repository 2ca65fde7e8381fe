from __future__ import annotations

import os
from pathlib import Path

import pytest

from ganglion import limits
from ganglion.cli.settings import KEYS, Settings, options
from ganglion.errors import DocumentError, UsageError


def test_built_in_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without options and variables results lie in `results`."""
    for name in ("RESULTS", "STORE", "KERNEL"):
        monkeypatch.delenv(f"GANGLION_{name}", raising=False)

    settings = Settings()

    assert (Path("results"), None, None, 0, False, False) == (
        settings.results,
        settings.store,
        settings.kernel,
        settings.verbosity,
        settings.json,
        settings.plain,
    )


def test_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables take the place of built-in values."""
    monkeypatch.setenv("GANGLION_RESULTS", "/r")
    monkeypatch.setenv("GANGLION_STORE", "sqlite:////s.db")
    monkeypatch.setenv("GANGLION_KERNEL", "/k.json")

    settings = Settings()

    assert (Path("/r"), "sqlite:////s.db", Path("/k.json")) == (
        settings.results,
        settings.store,
        settings.kernel,
    )


def test_options_are_new_ones_each_time() -> None:
    """Two commands share no option object."""
    first, second = options(hidden=True), options(hidden=True)

    assert [one.name for one in first] == [one.name for one in second]
    assert not any(one is other for one in first for other in second)


# -- files, variables -------------------------------------------------------------------------------------------------
@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working folder, empty, in which settings are loaded without anything of this machine."""
    for name in [name for name in os.environ if name.startswith("GANGLION_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    (tmp_path / "home" / "ganglion").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(place: Path, user: str = "", project: str = "") -> None:
    """Write the file of the user and that of the working folder."""
    (place / "home" / "ganglion" / "config.yml").write_text(user)
    (place / ".ganglion.yml").write_text(project)


def test_without_anything_all_is_built_in(place: Path) -> None:
    """No file, no variable: what the options say without being given."""
    settings = Settings.load()

    assert (Path("results"), None, None, None, None, (), (), "allow", "owner", {}, {}) == (
        *(getattr(settings, key) for key in KEYS), settings.limits, settings.origins,
    )  # fmt: skip
    assert {"built in"} == {settings.origin(key) for key in KEYS}


def test_the_later_one_wins_key_by_key(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """User, working folder, variables: each changes what it names; each setting knows its place."""
    write(
        place,
        user="results: ~/all\nstore: sqlite:///a.db\nallow: [one, two]\nlimits: {peers: 300, watches: 20}\n",
        project="# ours\nstore: sqlite:///b.db\nallow: [three]\nlimits:\n  peers: 400\n",
    )
    monkeypatch.setenv("GANGLION_COMMANDS", "deny")
    monkeypatch.setenv("GANGLION_LIMITS_HANDSHAKE_S", "3.5")
    monkeypatch.setenv("GANGLION_STORE", "sqlite:///c.db")
    settings = Settings.load()

    assert (Path("~/all").expanduser(), "sqlite:///c.db", ("three",), "deny") == (
        settings.results, settings.store, settings.allow, settings.commands,
    )  # fmt: skip
    assert {"peers": 400, "watches": 20, "handshake_s": 3.5} == settings.limits
    user = place / "home" / "ganglion" / "config.yml"
    assert {
        "results": f"{user}:1",
        "store": "variable GANGLION_STORE",
        "allow": ".ganglion.yml:3",
        "commands": "variable GANGLION_COMMANDS",
        "limits.peers": ".ganglion.yml:5",
        "limits.watches": f"{user}:4",
        "limits.handshake_s": "variable GANGLION_LIMITS_HANDSHAKE_S",
    } == settings.origins


def test_a_faulty_file_is_told_with_all_its_faults(place: Path) -> None:
    """Misspelt settings and limits are answered with the nearest, at their lines; nothing is taken."""
    write(
        place,
        project="reslts: x\ncommands: no\nlimits: {pears: 3, peers: 1.5, handshake_s: 0, body_depth: 3}\n",
    )
    with pytest.raises(DocumentError) as caught:
        Settings.load()

    assert [
        (1, "unknown key; did you mean `results`?"),
        (2, "expected one of allow, deny, found the text 'no'"),
        (3, "unknown limit; did you mean `peers`?"),
        (3, "expected an integer >= 1, found the number 1.5"),
        (3, "expected a number > 0, found the number 0"),
        (3, "unknown limit; did you mean `body_bytes`?"),
    ] == [(fault.line, fault.message) for fault in caught.value.faults]


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "---\n", "~\n"])
def test_a_file_may_say_nothing(place: Path, text: str) -> None:
    """A file with comments only changes nothing."""
    write(place, project=text)

    assert {} == Settings.load().origins


def test_a_file_of_another_kind_is_refused(place: Path) -> None:
    """Settings are a map."""
    write(place, project="[results]\n")
    with pytest.raises(DocumentError, match="expected a map of settings, found a list"):
        Settings.load()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("COMMANDS", "never", "variable GANGLION_COMMANDS: expected one of allow, deny, found 'never'"),
        ("LIMITS_PEERS", "many", "variable GANGLION_LIMITS_PEERS: expected an integer >= 1, found 'many'"),
        (
            "LIMITS_PEARS",
            "3",
            "variable GANGLION_LIMITS_PEARS: unknown limit; did you mean `peers`?, found '3'",
        ),
    ],
)
def test_a_faulty_variable_is_named(
    place: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str
) -> None:
    """What a variable says is checked like a file."""
    monkeypatch.setenv(f"GANGLION_{name}", value)
    with pytest.raises(UsageError) as caught:
        Settings.load()

    assert said == str(caught.value)


def test_limits_that_do_not_fit_are_refused(place: Path) -> None:
    """A limit is compared with the others as they will be, and is named with its place."""
    write(place, project="limits: {peers: 100}\n")
    with pytest.raises(UsageError) as caught:
        Settings.load()
    write(place, user="limits: {processes_per_run: 50}\n", project="limits: {peers: 100}\n")

    assert "limits: expected processes_per_run < peers, found peers 100 (.ganglion.yml:1)" == str(
        caught.value
    )
    assert {"processes_per_run": 50, "peers": 100} == Settings.load().limits


def test_what_others_take_from_variables_is_handed_on(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other processes hear of packages, programs and limits; who has other limits than these is told so, once."""
    for name in ("ALLOW", "BLOCK", "COMMANDS", "LIMITS"):
        monkeypatch.setenv(f"GANGLION_{name}", "")
    write(
        place,
        project="allow: [one, two]\nblock: [sarsa]\ncommands: deny\nlimits: {watches: 20, peers: 300}\n",
    )
    settings = Settings.load()

    assert settings.hand_on()
    found = {name: os.environ[f"GANGLION_{name}"] for name in ("ALLOW", "BLOCK", "COMMANDS", "LIMITS")}
    assert {
        "ALLOW": "one,two",
        "BLOCK": "sarsa",
        "COMMANDS": "deny",
        "LIMITS": "peers=300,watches=20",
    } == found
    assert not Settings.load().hand_on()
    write(place)
    assert Settings.load().hand_on()
    assert "GANGLION_LIMITS" not in os.environ


def test_every_limit_of_an_operator_has_a_built_in_value() -> None:
    """What is not for operators is no setting."""
    known = limits.defaults()

    assert known == limits.changeable()
    assert not {"memory_rows", "token_bytes", "deadlines_s", "exit_differs"} & set(known)
    assert [] == limits.broken(vars(limits))
