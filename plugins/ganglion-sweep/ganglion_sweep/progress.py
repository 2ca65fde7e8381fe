"""What is seen of an experiment: a bar, a line per run, JSON lines with `--json`, and at the end the table of means."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import math
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, stdev
from typing import TYPE_CHECKING, Any, TextIO

from ganglion.cli.extension import Outcome, RunEvent, Settings, __version__, plain_line, printable, write
from ganglion_sweep.folder import cell
from ganglion_sweep.point import Point

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

    from ganglion.sdk.store import StoreReader


# Two-sided 95 % points of Student's t for 1 to 30 degrees of freedom; beyond them the normal distribution is near
# enough (2.042 against 1.960, and closing).
_T95 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip


@dataclass(frozen=True)
class Mean:
    """Hold the mean of a number over runs; `half` is half of its 95 % interval, None with fewer than two runs."""

    mean: float
    half: float | None
    runs: int

    def __str__(self) -> str:
        """Return the mean, with its interval where there is one."""
        return f"{self.mean:.6g}" + ("" if self.half is None else f" ± {self.half:.3g}")


def mean_of(values: Sequence[float]) -> Mean:
    """Return the mean of at least one number, with its interval by Student's t."""
    count = len(values)
    if count < 2:
        return Mean(fmean(values), None, count)
    t = _T95[count - 2] if count - 2 < len(_T95) else NormalDist().inv_cdf(0.975)
    return Mean(fmean(values), t * stdev(values) / math.sqrt(count), count)


def returns_of(reader: StoreReader, run: str) -> dict[str, float]:
    """Return the mean return of each agent over the episodes of a run's last phase, evaluations left out."""
    phases = list(reader.rows("phases", [run], "mode != 'evaluate'", ["phase"])) or list(
        reader.rows("phases", [run], None, ["phase"])
    )
    if not phases:
        return {}
    last = max(row["phase"] for row in phases)
    values: dict[str, list[float]] = {}
    for mode in ("mode != 'evaluate'", "mode = 'evaluate'"):  # a phase of mode evaluate has no others
        where = f"phase = {last} and {mode}"
        for row in reader.rows("returns", [run], where, ["agent", "return"]):
            if row["return"] is not None and math.isfinite(row["return"]):
                values.setdefault(row["agent"], []).append(row["return"])
        if values:
            break
    return {agent: fmean(numbers) for agent, numbers in values.items()}


def means_of(returns: Sequence[Mapping[str, float]]) -> dict[str, Mean]:
    """Return the mean over runs of each agent's return, agents in the order in which they first come."""
    agents = dict.fromkeys(agent for run in returns for agent in run)
    return {agent: mean_of([run[agent] for run in returns if agent in run]) for agent in agents}


def table_rows(points: Sequence[Point], runs: Mapping[int, str], reader: StoreReader) -> list[dict[str, Any]]:
    """Return a row per row of the design: its factors, how many runs are done, and the means of each agent.

    `runs` maps numbers of points that are done to their runs.
    """
    rows: dict[int, dict[str, Any]] = {}
    returns: dict[int, list[dict[str, float]]] = {}
    for point in points:
        rows.setdefault(point.row, {"row": point.row, "factors": point.factors, "done": 0, "runs": 0})
        rows[point.row]["runs"] += 1
        if point.number in runs:
            rows[point.row]["done"] += 1
            returns.setdefault(point.row, []).append(returns_of(reader, runs[point.number]))
    for number, row in rows.items():
        row["returns"] = means_of(returns.get(number, []))
    return list(rows.values())


def table_text(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return the table as text, a map column -> cell per line."""
    agents = dict.fromkeys(agent for row in rows for agent in row["returns"])
    return [
        {"row": str(row["row"])}
        | {name: cell(value) for name, value in row["factors"].items()}
        | {"runs done": f"{row['done']}/{row['runs']}"}
        | {f"return.{agent}": str(row["returns"].get(agent, "")) for agent in agents}
        for row in rows
    ]


def shares_text(shares: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return Sobol's indices as text, a map column -> cell per line."""

    def interval(mean: float | None, half: float | None) -> str:
        return "" if mean is None else f"{mean:.3f} ± {half:.3f}"

    return [
        {
            "agent": row["agent"],
            "factors": " x ".join(row["factors"]),
            "own share": interval(row["own"], row["own_half"]),
            "total share": interval(row["total"], row["total_half"]),
        }
        for row in shares
    ]


_REDRAW_S = 0.1  # at most ten redraws a second
_SHOWN = 4  # running runs beside the bar


class Progress:
    """Show how an experiment goes."""

    def __init__(self, settings: Settings, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self._json = settings.json
        self._loud = settings.verbosity
        self._out = out or sys.stdout
        self._err = err or sys.stderr
        self._over = self._before = 0  # runs that are over, and those that were when the command began
        self._total = 0
        self._running: dict[str, str] = {}  # run -> how far it is
        self._bar: Bars | None = None
        self._drawn_s = 0.0
        dumb = os.environ.get("TERM", "") in ("", "dumb")
        if self._out.isatty() and not (self._json or settings.plain or dumb or self._loud < 0):
            self._bar = self._bars()

    def _bars(self) -> Bars:
        from rich.console import Console  # late: a pipe needs none of this
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bars

        return Bars(
            BarColumn(12),
            MofNCompleteColumn(),
            TextColumn("runs"),
            TimeElapsedColumn(),
            TextColumn("ETA {task.fields[left]}"),
            TextColumn("{task.fields[running]}", markup=False),
            console=Console(file=self._out, highlight=False),
            auto_refresh=False,  # no thread: processes are forked from here
            redirect_stdout=False,
            redirect_stderr=False,
            transient=True,
        )

    def begin(self, uid: str, seed: int, runs: int, rows: int, todo: int, folder: str) -> None:
        """Show what is about to be done."""
        self._over = self._before = runs - todo
        self._total = runs
        if self._json:
            self._event("sweep.started", experiment=uid, seed=seed, runs=runs, points=rows, todo=todo, folder=folder)
        elif self._loud >= 0:
            rest = "" if todo == runs else f", {todo} to do"
            self._say(
                f"ganglion {__version__} · experiment {printable(uid)} · seed {seed} · "
                f"{_count(runs, 'run')} of {_count(rows, 'point')}{rest} · {folder}"
            )
        if self._bar is not None and todo:
            self._bar.add_task("", total=self._total, completed=self._over, left="-", running="")
            self._bar.start()

    def started(self, point: Point, run: str) -> None:
        """Show that a run begins."""
        self._running[run] = "starting"
        if self._json:
            self._event("point.started", point=point.number, run=run, **_about(point))
        elif self._loud > 0:
            self._say(f"{run} begins  {_factors(point)}".rstrip())

    def ended(self, point: Point, run: str, state: str, outcome: Outcome) -> None:
        """Show how a run ended: one line, and what went wrong."""
        self._over += 1
        self._running.pop(run, None)
        if self._json:
            self._event(
                "point.ended",
                point=point.number,
                run=run,
                state=state,
                reason=outcome.reason,
                took_s=round(outcome.took_s, 3),
                story=outcome.report,
                **_about(point),
            )
            return
        if self._loud >= 0:
            word = state if state != "planned" else outcome.status
            line = f"{self._over}/{self._total}  {run}  {word} in {outcome.took_s:.1f} s  {_factors(point)}"
            self._say(line.rstrip())
        if state == "failed":
            first, *rest = outcome.report or [outcome.reason]
            self.note("\n".join([f"{run}: {first}", *(f"  {line}" for line in rest)]))
        self._draw()

    def event(self, run: str, news: RunEvent) -> None:
        """Show for whom a run waits, and on a terminal how far it is; with `-vv` everything that happens in runs."""
        if news.event in ("steps.taken", "episode.ended"):
            names = ("tick",) if "tick" in news.fields else ("episode", "steps")
            self._running[run] = " ".join(f"{name.removesuffix('s')} {news.fields.get(name)}" for name in names)
        if time.monotonic() - self._drawn_s >= _REDRAW_S:
            self._draw()
        if self._json or (news.event != "waiting" and self._loud < 2):
            return
        self.note(f"{run}: {plain_line(news)}")

    def note(self, text: str) -> None:
        """Show a sentence that belongs to no run."""
        self._put(self._err, text)

    def end(
        self,
        states: Mapping[str, int],
        rows: Sequence[Mapping[str, Any]],
        failed: Sequence[Mapping[str, Any]],
        shares: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """Show the table of results, the shares of factors, which runs failed; `states` counts runs by state."""
        self.close()
        if self._json:
            plain = [{**row, "returns": {a: dataclasses.asdict(m) for a, m in row["returns"].items()}} for row in rows]
            indices = {"indices": [dict(row) for row in shares]} if shares else {}
            self._event("sweep.ended", states=dict(states), rows=plain, failed=[dict(row) for row in failed], **indices)
            return
        if rows and self._loud >= 0:
            text = table_text(rows)
            write(self._out, "table", list(text[0]), text)
        if shares and self._loud >= 0:
            text = shares_text(shares)
            write(self._out, "table", list(text[0]), text)
        if self._loud >= 0:
            self._say(", ".join(f"{number} {state}" for state, number in states.items() if number) or "nothing to do")
        for row in failed:
            self._err.write(f"failed: {row['run'] or row['uid']}: {printable(str(row['reason']))}\n")
            self._err.write(f"  show it:   {row['show']}\n  repeat it: {row['repeat']}\n")
        self._err.flush()

    def close(self) -> None:
        """Give the terminal back."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _say(self, line: str) -> None:
        self._put(self._out, line)

    def _put(self, stream: TextIO, text: str) -> None:
        if self._bar is not None:  # above the bar
            self._bar.console.print(text, markup=False)
            return
        stream.write(text + "\n")
        stream.flush()

    def _draw(self) -> None:
        if self._bar is not None and self._bar.tasks:
            self._drawn_s = time.monotonic()
            running = "   ".join(f"{printable(run)} {how}" for run, how in list(self._running.items())[:_SHOWN])
            task, done, left = self._bar.tasks[0], self._over - self._before, "-"
            if done:
                span_s = (task.elapsed or 0.0) / done * (self._total - self._over)
                left = str(dt.timedelta(seconds=int(span_s)))
            self._bar.update(task.id, completed=self._over, left=left, running=running, refresh=True)

    def _event(self, name: str, **fields: Any) -> None:
        row = {"event": name, "time_s": round(time.time(), 3), **fields}
        self._out.write(json.dumps(row, ensure_ascii=False, default=str) + "\n")
        self._out.flush()


def _about(point: Point) -> dict[str, Any]:
    return {"row": point.row, "repetition": point.repetition, "seed": point.seed, "factors": point.factors}


def _factors(point: Point) -> str:
    return " ".join(f"{printable(name)}={printable(cell(value))}" for name, value in point.factors.items())


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
