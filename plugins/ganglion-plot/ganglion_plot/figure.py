"""Figure: curves as a picture for a paper, by matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import BinaryIO

import matplotlib as mpl
from cycler import cycler
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patheffects import Normal

from ganglion_plot.curve import Curve

# Colours that people see apart who do not see all of them, and that differ in grey. Source: Okabe and Ito (2008),
# without yellow, which is too pale on paper.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#56B4E9", "#E69F00")
_LINES = ("-", "--", "-.", ":")  # apart also where there is one ink only: the line changes with each curve
_WIDTH_IN, _HEIGHT_IN, _ROW_IN = 5.5, 3.4, 0.18  # the text width of a paper in one column; a row of the legend
_INSIDE = 6  # so many curves have their legend in the picture, more have it below
_ALPHA = 0.18

STYLE = {
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.labelsize": 9,
    "axes.prop_cycle": cycler(color=_COLOURS),
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 9,
    "font.size": 9,
    "grid.color": "0.9",
    "grid.linewidth": 0.6,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "savefig.dpi": 300,
    "svg.hashsalt": "ganglion",  # equal curves are equal files
    "text.parse_math": False,  # a name with dollars is a name
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
}


def draw(stream: BinaryIO, form: str, title: str, x: str, y: str, curves: Sequence[Curve]) -> None:
    """Write curves as a picture of the form `png`, `svg` or `pdf`; equal curves give equal bytes."""
    # Letters are outlines, in PDF as in SVG: nothing to embed that a publisher could miss, and what would cut the fonts
    # evaluates text. An effect of the letters' own, `Normal`, is how matplotlib is asked for that.
    outlines = {"path.effects": [Normal()]} if form == "pdf" else {}
    with mpl.rc_context({**mpl.rcParamsDefault, "backend": "agg", **STYLE, **outlines}):
        below = len(curves) > _INSIDE
        rows = -(-len(curves) // 2) if below else 0
        figure = Figure(figsize=(_WIDTH_IN, _HEIGHT_IN + rows * _ROW_IN), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots()
        lines = []
        for number, curve in enumerate(curves):
            style = _LINES[number % len(_LINES)]
            marker = "o" if len(curve.x) == 1 else None
            (line,) = axes.plot(curve.x, curve.mean, style, marker=marker, markersize=4)
            if curve.banded:
                axes.fill_between(curve.x, curve.low, curve.high, color=line.get_color(), alpha=_ALPHA, linewidth=0)
            lines.append(line)
        axes.set(xlabel=x, ylabel=y, title=title)
        axes.margins(x=0.01)
        names = [curve.label if not curve.label.startswith("_") else f"\u200b{curve.label}" for curve in curves]
        if below:
            figure.legend(lines, names, loc="outside lower center", ncols=2)
        elif len(curves) > 1 or curves[0].banded:
            axes.legend(lines, names, loc="best")
        metadata = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[form]
        figure.savefig(stream, format=form, metadata=metadata)
