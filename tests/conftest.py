"""Settings of all tests: how Hypothesis searches, what every process is watched for, how skipped tests are shown."""

from __future__ import annotations

import gc
import importlib.util
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

# The default is the same search in every run, so that a red test is red again; scripts/test --all and --long explore.
hypothesis.settings.register_profile("default", deadline=None, derandomize=True, max_examples=20)
hypothesis.settings.register_profile("explore", deadline=None, max_examples=1000, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# Hundreds of processes of ours are started, and images of containers often forbid Python to keep what it has compiled:
# then each of them compiles the kernel anew, and pytest every test module in each of its workers.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# What no process of a test may do: see audit/sitecustomize.py, which is installed here and in each process of ours.
_AUDIT = Path(__file__).parent / "audit"
_EVENTS = Path(tempfile.mkdtemp(prefix="ganglion-audit-")) / "events"
_SEEN: list[str] = []
os.environ["GANGLION_AUDIT"] = str(_EVENTS)
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(_AUDIT), os.environ.get("PYTHONPATH")]))
_spec = importlib.util.spec_from_file_location("ganglion_tests_audit", _AUDIT / "sitecustomize.py")
assert _spec is not None
assert _spec.loader is not None
_audit = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_audit)
_audit.install(_SEEN.append)

_LONG_FILES = ("system", "simulation")  # the folders that have them


def audit_events() -> list[str]:
    """Return what was found since the last call, here and in the processes that tests have started."""
    found, _SEEN[:] = list(_SEEN), []
    if _EVENTS.exists():
        found += _EVENTS.read_text().splitlines()
        _EVENTS.unlink()
    return found


@pytest.fixture(autouse=True)
def _no_audit_events() -> Iterator[None]:
    """Fail a test in which a process reads code, starts a program or writes a file where it should not."""
    yield
    found = audit_events()
    assert [] == found


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give long tests an hour; begin with the files that take longest, so that short ones are left for the end."""
    for item in items:
        if item.get_closest_marker("long") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(3600))
    here = Path(__file__).parent
    items.sort(key=lambda item: item.path.relative_to(here).parts[0] not in _LONG_FILES)


def pytest_collection_finish() -> None:
    """Let collections of garbage pass over what is there until the end: every test, and all that they import."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Take the folder of the events away."""
    _EVENTS.unlink(missing_ok=True)
    _EVENTS.parent.rmdir()


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Return why a test was skipped, without the word that pytest puts in front."""
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ").removeprefix("unconditional skip: ")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List the skipped tests grouped by reason: a skip is not a pass, so it is never only a number."""
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for report in terminalreporter.stats.get("skipped", []):
        groups[_reason(report)].append(report.nodeid)
    if not groups:
        return
    terminalreporter.section("skipped, by reason")
    for reason, tests in sorted(groups.items()):
        terminalreporter.line(f"{len(tests):4d}  {reason}")
        for test in tests[:5]:
            terminalreporter.line(f"        {test}")
        if len(tests) > 5:
            terminalreporter.line(f"        and {len(tests) - 5} more")
