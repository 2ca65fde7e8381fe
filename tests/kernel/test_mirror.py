from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]


def _holds_code(path: Path) -> bool:
    """Return whether a module holds more than its docstring, imports and plain names such as `__all__`."""
    tree = ast.parse(path.read_text())
    plain = (ast.Expr, ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign)
    return any(not isinstance(node, plain) for node in tree.body)


def _modules() -> dict[Path, Path]:
    """Map each module of kernel and plugins to the place of its test module, both relative to the root."""
    places = {}
    sources = {ROOT / "kernel" / "ganglion": ROOT / "tests" / "kernel"}
    for package in sorted((ROOT / "plugins").glob("*/ganglion_*")):
        sources[package] = ROOT / "tests" / "plugins" / package.parent.name
    for source, tests in sources.items():
        for path in sorted(source.rglob("*.py")):
            if path.name == "__init__.py" and not _holds_code(path):
                continue
            name = f"test_{path.stem.strip('_')}.py"
            places[path.relative_to(ROOT)] = (tests / path.relative_to(source).parent / name).relative_to(
                ROOT
            )
    return places


def _holds_tests(path: Path) -> bool:
    """Return whether a file holds a test function, a test class, or a name that pytest collects as one."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name.lower().startswith("test"):
            return True
        if isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id.startswith("Test") for target in node.targets
        ):
            return True  # a state machine of Hypothesis: TestBroker = BrokerMachine.TestCase
    return False


def test_every_module_has_its_test_module() -> None:
    """Each module of the kernel and of each plugin has a test module at the same path below tests/."""
    lacking = [f"{module} lacks {test}" for module, test in _modules().items() if not (ROOT / test).is_file()]

    assert [] == lacking


def test_every_test_module_holds_a_test() -> None:
    """No test module is there for its name only."""
    there = [test for test in _modules().values() if (ROOT / test).is_file()]

    assert [] == [str(test) for test in there if not _holds_tests(ROOT / test)]
