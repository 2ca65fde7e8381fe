from __future__ import annotations

from ganglion_conformance.case import Case, Report, Verdict


def _case(name: str, must: bool = True) -> Case:
    return Case(name, "Errors", "It is so.", lambda bench: None, ("environment",), must)


def test_report_says_what_is_wrong_and_how_to_ask_again() -> None:
    """Each failure has its clause, its section and the command that asks it again; a should does not fail the peer."""
    verdicts = [
        Verdict(_case("join.one"), "ok"),
        Verdict(_case("join.two"), "fail", "expected 1, found 2"),
        Verdict(_case("join.three", must=False), "fail", "expected 3"),
        Verdict(_case("step.four"), "skip", "no float"),
    ]
    report = Report("a · c", verdicts, "ganglion env test --only {case} -- ./a", (10.4, 99.6, 7))

    assert [
        "a · c",
        "join 1/3",
        "FAIL join.two: expected 1, found 2",
        "     must be: It is so.",
        "     PROTOCOL.md, Errors · again: ganglion env test --only join.two -- ./a",
        "WARN join.three: expected 3",
        "     should be: It is so.",
        "     PROTOCOL.md, Errors · again: ganglion env test --only join.three -- ./a",
        "skip step.four: no float",
        "speed: median 10 us, p99 100 us over 7 round trips",
        "does not conform: 1 of 2 musts failed",
    ] == report.lines()
    assert (1, False) == (report.exit_status, report.conforms)
    assert ["ok", "fail", "fail", "skip"] == [row["state"] for row in report.to_map()["cases"]]


def test_should_alone_is_no_failure() -> None:
    """A peer that keeps every must conforms, whatever it should do besides."""
    report = Report("a", [Verdict(_case("join.one"), "ok"), Verdict(_case("join.two", must=False), "fail", "no")])

    assert 0 == report.exit_status
    assert "conforms: 1 must" == report.lines()[-1]
