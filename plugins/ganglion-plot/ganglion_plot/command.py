"""`ganglion plot`: curves of results, as a picture or as text."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ganglion.cli.extension import UsageError, json_text, nearest, open_reader
from ganglion.cli.settings import Settings
from ganglion.cli.table import opened, visible

if TYPE_CHECKING:
    from ganglion_plot.curve import Curve, Series
    from ganglion_plot.source import Alike

FORMS = ("png", "svg", "pdf")
CURVES_MAX = 40
"""The most curves in one picture: more cannot be told apart."""

MISSING = "expected matplotlib for a picture, found none: pip install 'ganglion-plot[matplotlib]'; --text needs none"

_WORDS = {"ci95": "mean, 95 % interval", "std": "mean, standard deviation", "minmax": "mean, least and greatest"}


@click.command("plot")
@click.argument("words", nargs=-1, metavar="[RUN...|SWEEP]")
@click.option(
    "--what",
    default="return",
    metavar="return|objective|length|ID|STATISTIC",
    help="a value per episode; of a sensor, setpoint, reward or statistic the mean of the episode [return]",
)
@click.option(
    "--by",
    type=click.Choice(["agent", "worker", "phase", "run"]),
    default="agent",
    help="curves of their own for each [agent]",
)
@click.option("--x", type=click.Choice(["episode", "step"]), default="episode", help="horizontal axis [episode]")
@click.option("--smooth", type=click.IntRange(min=1), default=1, metavar="N", help="mean of the last N episodes [1]")
@click.option("--band", type=click.Choice(["ci95", "std", "minmax"]), default="ci95", help="around each mean [ci95]")
@click.option("--mode", type=click.Choice(["train", "test", "evaluate"]), help="of these episodes [train, else test]")
@click.option("--phase", "phases", multiple=True, metavar="PHASE", help="of this phase only, by name or number")
@click.option("--agent", "agents", multiple=True, metavar="NAME", help="of this agent only")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE.png|svg|pdf", help="a new file for the picture")
@click.option("--text", is_flag=True, help="draw in the terminal, as without --out")
@click.pass_obj
def plot(settings: Settings, /, words: tuple[str, ...], out: Path | None, text: bool, **wanted: Any) -> None:
    """Draw curves of runs: returns, objectives, lengths of episodes, readings, statistics.

    RUN is a run's id, a document's uid (its newest run), a beginning of either, or `last`, which is taken without any;
    SWEEP is the uid of an experiment: all its runs. Runs that differ only in the seed are one mean with a band, over
    seeds, workers, environments and bodies. Without --out the curves are drawn as text; --json gives their numbers.
    """
    if out is not None:
        _check_out(out, text or settings.json)
    curves, about = _curves(settings, words or ("last",), wanted)
    if settings.json:
        click.echo(json_text({**about, "curves": [_plain(curve) for curve in curves]}))
    elif out is None:
        _draw_text(curves, about)
    else:
        _draw_file(out, curves, about)


def _check_out(out: Path, otherwise: bool) -> None:
    """Refuse what cannot be before anything is read."""
    form = out.suffix.removeprefix(".").lower()
    if otherwise:
        raise UsageError("--out: expected neither --text nor --json beside it")
    if form not in FORMS:
        hint = nearest(form, FORMS) if form else ""
        raise UsageError(f"--out {out}: expected a file that ends with .png, .svg or .pdf{hint}")
    if out.exists():
        raise UsageError(f"{out}: expected a new file, found one, and nothing is overwritten")
    try:
        import matplotlib as mpl  # noqa: F401 - is it there?
    except ImportError as error:
        raise UsageError(f"--out {out}: {MISSING}") from error


def _curves(settings: Settings, words: Sequence[str], wanted: dict[str, Any]) -> tuple[list[Curve], dict[str, Any]]:
    from ganglion_plot.source import Choice, alike, runs_meant, series_of

    x, smooth, band = wanted.pop("x"), wanted.pop("smooth"), wanted.pop("band")
    choice = Choice(**wanted)
    with open_reader(settings) as reader:
        runs = runs_meant(reader, words)
        groups = alike(reader, runs, settings.results, choice.by == "run", lambda line: click.echo(line, err=True))
        found, empty = series_of(reader, groups, choice)
    if not found:
        raise UsageError(f"{', '.join(runs)}: expected an episode with {choice.what}, found none: nothing to draw")
    for run in empty:
        click.echo(f"run {run} has no {choice.what} to draw, and is left out", err=True)
    about = {"what": choice.what, "by": choice.by, "x": x, "smooth": smooth, "band": band, "runs": runs}
    return _combined(found, groups, x, smooth, band), about


def _combined(found: list[Series], groups: Sequence[Alike], x: str, smooth: int, band: str) -> list[Curve]:
    from ganglion_plot.curve import Curve, combined, distinct, grouped

    parts = grouped(found)
    if len(parts) > CURVES_MAX:
        raise UsageError(
            f"expected at most {CURVES_MAX} curves, which can be told apart, found {len(parts)}: choose by --agent or "
            "--phase, or with another --by"
        )
    labels = [
        [
            groups[number].label if run is None else run,
            agent or "",
            phase or "",
            "" if worker is None else f"worker {worker}",
        ]
        for number, run, agent, phase, worker in parts
    ]
    curves = []
    for label, (key, series) in zip(distinct(labels), parts.items(), strict=True):
        _, _, agent, phase, worker = key
        own = list(dict.fromkeys(one.run for one in series))
        place = {"runs": own, "agent": agent, "phase": phase, "worker": worker, "series": len(series)}
        curves.append(Curve(visible(label), place, *combined(series, x, smooth, band)))
    return curves


def _plain(curve: Curve) -> dict[str, Any]:
    arrays = {name: getattr(curve, name).tolist() for name in ("x", "mean", "low", "high", "count")}
    return {"label": curve.label, **curve.about, **arrays}


def _title(about: dict[str, Any]) -> str:
    runs = about["runs"]
    return visible(runs[0] if len(runs) == 1 else f"{len(runs)} runs, {runs[0]} to {runs[-1]}")


def _ylabel(curves: Sequence[Curve], about: dict[str, Any]) -> str:
    words = [visible(about["what"])]
    if about["smooth"] > 1:
        words.append(f"of {about['smooth']} episodes")
    if any(curve.banded for curve in curves):
        words.append(f"({_WORDS[about['band']]})")
    return " ".join(words)


def _draw_text(curves: Sequence[Curve], about: dict[str, Any]) -> None:
    from ganglion_plot.chart import chart

    width = shutil.get_terminal_size().columns
    for line in chart(f"{_title(about)}: {_ylabel(curves, about)}", about["x"], curves, width):
        click.echo(line)


def _draw_file(out: Path, curves: Sequence[Curve], about: dict[str, Any]) -> None:
    from ganglion_plot.figure import draw  # matplotlib takes most of a second

    form = out.suffix.removeprefix(".").lower()
    with opened(out) as stream:
        draw(stream.buffer, form, _title(about), about["x"], _ylabel(curves, about), curves)
    click.echo(str(out), err=not sys.stdout.isatty())
