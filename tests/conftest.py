"""Settings of all tests: how Hypothesis searches, and how skipped tests are shown."""

from __future__ import annotations

import os
from collections import defaultdict

import hypothesis
import pytest

# The default is the same search in every run, so that a red test is red again; scripts/test --all and --long explore.
hypothesis.settings.register_profile("default", deadline=None, derandomize=True)
hypothesis.settings.register_profile("explore", deadline=None, max_examples=1000, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


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
