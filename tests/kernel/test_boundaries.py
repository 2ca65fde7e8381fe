from __future__ import annotations

import ast
import functools
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KERNEL = ROOT / "kernel" / "ganglion"
EXECUTING = {"cloudpickle", "dill", "joblib", "jsonpickle", "marshal", "pickle", "shelve"}
SUSPECT = re.compile(
    "|".join(
        [*EXECUTING, r"\b(eval|exec|system|popen)\(", "shell=", r"_load\b", r"\.load", "import_module", "__import__"]
    )
)
"""What a module has to hold that executes what it reads: parsing all others would take its time."""

Check = Callable[[ast.AST], Iterator[str]]


@functools.lru_cache(maxsize=1)
def _nodes(tree: ast.AST) -> tuple[ast.AST, ...]:
    """Return all nodes of a module, which each check looks at twice."""
    return tuple(ast.walk(tree))


def _imports(tree: ast.AST) -> Iterator[str]:
    """Yield the dotted name of everything a module imports, late and by name included."""
    for node in _nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and _callee(node).split(".")[-1] in {"import_module", "__import__"}:
            if node.args and isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str):
                yield node.args[0].value


def _callee(node: ast.Call) -> str:
    """Return what a call calls, as dotted text."""
    names: list[str] = []
    found = node.func
    while isinstance(found, ast.Attribute):
        names.append(found.attr)
        found = found.value
    if isinstance(found, ast.Name):  # nearly all are, and unparsing takes its time
        return ".".join([found.id, *reversed(names)])
    return ast.unparse(node.func)


def _keywords(node: ast.Call) -> dict[str, str]:
    """Return as text the keyword arguments of a call that decide whether it executes what it reads."""
    deciding = ("shell", "allow_pickle", "weights_only")
    return {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords if keyword.arg in deciding}


def _reaches_past_sdk(tree: ast.AST, own: str, allowed: Sequence[str] = ()) -> Iterator[str]:
    """Yield the imports of ours that are neither the contract, nor `own`, nor `allowed`."""
    for name in _imports(tree):
        ours = re.match(r"ganglion(_\w+)?(\.|$)", name)
        if ours and not any(re.match(rf"{re.escape(it)}(\.|$)", name) for it in ("ganglion.sdk", own, *allowed)):
            yield name


AUTHOR = functools.partial(_reaches_past_sdk, own="ganglion_a")
# What is promised to commands of plugins.
COMMANDS = ("ganglion.cli.extension", "ganglion.cli.settings", "ganglion.cli.stores", "ganglion.cli.table")


# These stand on the inside of the kernel: the first judges what the kernel says on the wire and prints the kernel's
# tables, the second does its part in the hosts of governor and brain, behind one hook (`peer/agent/replay.py`).
INNER = ("ganglion-conformance", "ganglion-replay")


def _has_command(distribution: Path) -> bool:
    """Return whether a distribution of ours offers a command, or a part of `import ganglion`."""
    text = (distribution / "pyproject.toml").read_text()
    return '"ganglion.commands"' in text or '"ganglion.python"' in text


def _lent(distribution: Path) -> list[str]:
    """Return the packages of ours that a distribution depends on: it may import names of these, not their modules."""
    project = tomllib.loads((distribution / "pyproject.toml").read_text())["project"]
    needs = [re.match(r"ganglion-[\w-]+", need) for need in project["dependencies"]]
    return [need[0].replace("-", "_") for need in needs if need]


def _is_lent(finding: str, lent: Iterable[str]) -> bool:
    """Return whether a finding is the import of a name of a lent package."""
    name = finding.rpartition(": ")[2]
    return name.count(".") == 1 and name.partition(".")[0] in lent


def _names_a_plugin(tree: ast.AST) -> Iterator[str]:
    """Yield imports and entry-point texts (`ganglion_x.module:Object`) that name a plugin's package."""
    yield from (name for name in _imports(tree) if name.startswith("ganglion_"))
    for node in _nodes(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if re.match(r"ganglion_\w+[.:]\w", node.value):
                yield node.value


def _opens_bodies(tree: ast.AST) -> Iterator[str]:
    """Yield what decodes a body, except of HELLO and its answers, and what is said to the kernel: it is for brokers."""
    for name in _imports(tree):
        if re.match(r"(msgpack|json|ganglion\.wire\.codec\.decode_map)(\.|$)", name):
            yield name
    for node in _nodes(tree):
        if isinstance(node, ast.Call) and re.match(r"codec_of\(.*\)\.decode$", _callee(node)):
            allowed = ("Hello", "Welcome", "Failure", "Near", "call.request")
            if _callee(node) not in {f"codec_of({it}).decode" for it in allowed}:
                yield _callee(node)
        elif isinstance(node, ast.Attribute) and node.attr in {"decode_map", "unpackb", "loads"}:
            yield ast.unparse(node)


def _executes_on_reading(tree: ast.AST) -> Iterator[str]:
    """Yield what runs code that it was given as data."""
    yield from (name for name in _imports(tree) if name.split(".")[0] in EXECUTING)
    for node in _nodes(tree):
        if not isinstance(node, ast.Call):
            continue
        callee, keywords = _callee(node), _keywords(node)
        last = callee.rpartition(".")[2]
        if callee in {"eval", "exec", "os.system", "os.popen"} or keywords.get("shell") == "True":
            yield callee
        elif last in {"unsafe_load", "full_load", "unsafe_load_all", "full_load_all"}:
            yield callee
        elif callee in {"yaml.load", "yaml.load_all"} and "Safe" not in ast.unparse(node):
            yield callee
        elif callee in {"np.load", "numpy.load"} and keywords.get("allow_pickle") != "False":
            yield f"{callee} without allow_pickle=False"
        elif callee == "torch.load" and keywords.get("weights_only") != "True":
            yield f"{callee} without weights_only=True"


def _found(check: Check, folder: Path, where: re.Pattern[str] = re.compile("ganglion|msgpack|json")) -> list[str]:
    """Return every finding below a folder with its file; modules without the words are not looked into."""
    return [
        f"{path.relative_to(ROOT)}: {finding}"
        for path in sorted(folder.rglob("*.py"))
        if where.search(text := path.read_text())
        for finding in check(ast.parse(text))
    ]


@pytest.mark.parametrize(
    "package",
    [path for path in sorted((ROOT / "plugins").glob("*/ganglion_*")) if path.parent.name not in INNER],
    ids=lambda path: path.name,
)
def test_plugin_sees_the_contract_only(package: Path) -> None:
    """A plugin imports ganglion.sdk and itself; with a command, what is meant for those; and what it depends on."""
    allowed = COMMANDS if _has_command(package.parent) else ()
    found = _found(functools.partial(_reaches_past_sdk, own=package.name, allowed=allowed), package)
    assert [] == [it for it in found if not _is_lent(it, _lent(package.parent))]


def test_tests_of_plugins_see_contract_and_testing_only() -> None:
    """The tests of a plugin need no more than its author has: ganglion.sdk and ganglion.testing."""
    found = []
    folders = sorted((ROOT / "tests" / "plugins").glob("ganglion-*"))
    for folder in [path for path in folders if path.name not in INNER]:
        own = folder.name.replace("-", "_")
        parts = [functools.partial(_reaches_past_sdk, own=own, allowed=["ganglion.testing"])]
        if _has_command(ROOT / "plugins" / folder.name):
            parts.append(functools.partial(_reaches_past_sdk, own=own, allowed=COMMANDS))
        lent = _lent(ROOT / "plugins" / folder.name)
        breaches = set.intersection(*(set(_found(part, folder)) for part in parts))
        found += [it for it in breaches if not _is_lent(it, lent)]

    assert [] == found


def test_kernel_knows_no_plugin() -> None:
    """The kernel neither imports a plugin's package nor names one of its objects."""
    assert [] == _found(_names_a_plugin, KERNEL, re.compile("ganglion_"))


def test_broker_opens_no_body_in_passing() -> None:
    """Brokers decode HELLO, a relay its answer, and what is said to the kernel, and never what they only pass on."""
    assert [] == _found(_opens_bodies, KERNEL / "broker")


@pytest.mark.parametrize("folder", ["kernel", "plugins", "tests"])
def test_nothing_executes_on_reading(folder: str) -> None:
    """No code reads data in a way that can execute it: no pickle and its like, no eval, no unsafe YAML, no shell."""
    assert [] == _found(_executes_on_reading, ROOT / folder, SUSPECT)


BREACHES: dict[Check, list[str]] = {
    _executes_on_reading: [
        "import pickle",
        "from joblib import load",
        "__import__('marshal')",
        "value = eval(text)",
        "yaml.load(text, Loader=yaml.Loader)",
        "yaml.unsafe_load(text)",
        "np.load(path)",
        "torch.load(path)",
        "subprocess.run(text, shell=True)",
    ],
    _names_a_plugin: [
        "from ganglion_toys.dummy import DummyMuscle",
        "importlib.import_module('ganglion_store')",
        "DEMO = 'ganglion_toys.demo:DEMO'",
    ],
    _opens_bodies: ["import msgpack", "codec.decode_map(frames[2])", "codec_of(Act).decode(frames[2])"],
    AUTHOR: ["from ganglion.errors import PeerLost", "import ganglion", "def late():\n    import ganglion_b.store"],
}
ALLOWED: dict[Check, list[str]] = {
    _executes_on_reading: ["yaml.load(text, Loader=yaml.CSafeLoader)", "np.load(path, allow_pickle=False)"],
    _names_a_plugin: ["HINT = 'pip install ganglion-store'"],
    _opens_bodies: ["codec_of(Hello).decode(frames[2])", "codec_of(Welcome).encode(welcome)"],
    AUTHOR: ["from ganglion.sdk import Muscle", "from ganglion_a.networks import Layer", "import numpy, gymnasium"],
}


@pytest.mark.parametrize("check", BREACHES)
def test_a_breach_is_found(check: Check) -> None:
    """Each of these checks finds the breaches that it is there for, and objects to nothing else."""
    assert [] == [source for source in BREACHES[check] if not list(check(ast.parse(source)))]
    assert check is not _executes_on_reading or all(map(SUSPECT.search, BREACHES[check]))
    assert [] == [source for source in ALLOWED[check] if list(check(ast.parse(source)))]


def test_what_is_lent_is_a_name_of_a_package() -> None:
    """Names of a package that a plugin depends on are lent to it; its modules, and others' packages, are not."""
    lent = ["ganglion_b"]
    assert _is_lent("a.py: ganglion_b.Thing", lent)
    assert not _is_lent("a.py: ganglion_b.room.Thing", lent)
    assert not _is_lent("a.py: ganglion_c.Thing", lent)
    assert ["ganglion_gymnasium"] == _lent(ROOT / "plugins" / "ganglion-pettingzoo")
