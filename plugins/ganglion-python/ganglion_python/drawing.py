"""Drawing in notebooks: a run and the first rows of a query as HTML that stands by itself, without scripts."""

from __future__ import annotations

import html
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ganglion.cli.extension import Pace, span

if TYPE_CHECKING:
    from ganglion_python.runs import Run

_COLOURS = {
    "finished": "#2e7d32",
    "failed": "#c62828",
    "lost": "#c62828",
    "interrupted": "#b26a00",
    "paused": "#b26a00",
}
_WIDTH, _HEIGHT = 240, 36
_ROWS = 10
_CELL = "padding:0 .8em 0 0;text-align:left;vertical-align:middle"


def run_html(run: Run, name: str, elapsed_s: float) -> str:
    """Return a run as HTML: status, elapsed time, its phases with their bars, and how returns went."""
    colour = _COLOURS.get(run.status, "#1565c0")
    head = (
        f'<b>{html.escape(name)}</b> <span style="color:{colour}">{html.escape(run.status)}</span> · {span(elapsed_s)}'
    )
    why = f'<div style="color:#777">{html.escape(run.reason)}</div>' if run.reason else ""
    rows = "".join(_phase_html(pace) for pace in run.paces.values())
    story = "".join(f"<div>{html.escape(line)}</div>" for line in run.story)
    table = f'<table style="border:0;border-collapse:collapse">{rows}</table>' if rows else ""
    return f'<div style="font-family:sans-serif;line-height:1.6">{head}{why}{table}<tt>{story}</tt></div>'


def _phase_html(pace: Pace) -> str:
    now_s = time.monotonic() if pace.ended_s is None else pace.ended_s
    row = pace.row(now_s)
    share = 1.0 if row["limit"] is None and pace.ended_s is not None else min(1.0, pace.part / (row["limit"] or 1e9))
    count = f"{row['episodes']}{'' if row['limit'] is None else '/' + str(row['limit'])} episodes"
    words = [count, f"{row['steps']} steps", span(now_s - pace.began_s)]
    if pace.ended_s is None and row["steps_per_s"] is not None:
        words.append(f"{row['steps_per_s']:.4g} steps/s")
    if row["left_s"] is not None:
        words.append(f"ETA {span(row['left_s'])}")
    bar = (
        f'<div style="width:8em;height:.6em;background:#8883;border-radius:.3em">'
        f'<div style="width:{100 * share:.0f}%;height:.6em;background:#1565c0;border-radius:.3em"></div></div>'
    )
    cells = [html.escape(row["name"]), bar, html.escape(" · ".join(words))]
    curves = "".join(_curve_html(agent, values) for agent, values in row["returns"].items())
    line = "".join(f'<td style="{_CELL}">{cell}</td>' for cell in cells)
    return f'<tr>{line}</tr><tr><td></td><td colspan="2" style="{_CELL}">{curves}</td></tr>'


def _curve_html(agent: str, values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    wide, tall = (high - low) or 1.0, max(1, len(values) - 1)
    points = " ".join(
        f"{_WIDTH * n / tall:.1f},{(_HEIGHT - 4) * (high - value) / wide + 2:.1f}" for n, value in enumerate(values)
    )
    return (
        f'<div><svg width="{_WIDTH}" height="{_HEIGHT}" style="vertical-align:middle"><polyline points="{points}" '
        f'fill="none" stroke="#1565c0" stroke-width="1.5"/></svg> {html.escape(agent)} '
        f"{values[0]:.4g} → {values[-1]:.4g}</div>"
    )


def table_html(title: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the first rows of a table as HTML."""
    if not rows:
        return f"<i>{html.escape(title)}: no rows</i>"

    def line(cells: Iterator[object], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(str(cell))[:200]}</{tag}>" for cell in cells) + "</tr>"

    body = "".join(line(iter(row.values()), "td") for row in rows[:_ROWS])
    more = "<tr><td>...</td></tr>" if len(rows) > _ROWS else ""
    return f"<table><caption>{html.escape(title)}</caption>{line(iter(rows[0]), 'th')}{body}{more}</table>"
