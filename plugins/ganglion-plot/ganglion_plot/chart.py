"""Chart: curves as lines of text, for a terminal of any kind; pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ganglion_plot.curve import Array, Curve

MARKS = "*ox+#@%&$="
HEIGHT = 16
_LEAST_WIDTH = 20
_BAND = "."
_TENTH = 10


def chart(title: str, x: str, curves: Sequence[Curve], width: int) -> Iterator[str]:
    """Yield a drawing of curves of `width` columns in all, and a line about each.

    Of one curve the band is drawn, too; of several only the means, the later ones above the earlier.
    """
    banded = len(curves) == 1
    low, high = _extent([c.mean for c in curves] + ([curves[0].low, curves[0].high] if banded else []))
    left, right = _extent([c.x for c in curves])
    texts = [f"{value:.4g}" for value in (high, (low + high) / 2, low)]
    margin = max(map(len, texts))
    columns = max(_LEAST_WIDTH, width - margin - 2)
    places = np.linspace(left, right, columns)
    cells = [[" "] * columns for _ in range(HEIGHT)]
    if banded and curves[0].banded:
        lows, highs = (_heights(curves[0].x, part, places, low, high) for part in (curves[0].low, curves[0].high))
        for column, (bottom, top) in enumerate(zip(lows, highs, strict=True)):
            if bottom >= 0 and top >= 0:
                for row in range(bottom, top + 1):
                    cells[HEIGHT - 1 - row][column] = _BAND
    for number, curve in enumerate(curves):
        before = -1
        for column, row in enumerate(_heights(curve.x, curve.mean, places, low, high)):
            if row >= 0:
                way = range(min(row, before + 1), max(row, before - 1) + 1) if before >= 0 else (row,)
                for height in way:
                    cells[HEIGHT - 1 - height][column] = MARKS[number % len(MARKS)]
            before = row
    labels = {0: texts[0], HEIGHT // 2: texts[1], HEIGHT - 1: texts[2]}
    yield title
    for number, line in enumerate(cells):
        yield f"{labels.get(number, ''):>{margin}} |{''.join(line)}".rstrip()
    yield f"{'':>{margin}} +{'-' * columns}"
    first, last = f"{left:.6g}", f"{x} {right:.6g}"
    yield f"{'':>{margin}}  {first}{last:>{columns - len(first)}}"
    for number, curve in enumerate(curves):
        yield f"{MARKS[number % len(MARKS)]} {curve.label}: {told(curve)}"


def told(curve: Curve) -> str:
    """Return how a curve began and ended, in words: the means of its first and last tenth."""
    tenth = max(1, len(curve.mean) // _TENTH)
    text = f"{curve.mean[:tenth].mean():.4g} → {curve.mean[-tenth:].mean():.4g}"
    return f"{text} [{curve.low[-1]:.4g}, {curve.high[-1]:.4g}]" if np.isfinite(curve.low[-1]) else text


def _extent(parts: Sequence[Array]) -> tuple[float, float]:
    values = np.concatenate(parts)
    values = values[np.isfinite(values)]
    low, high = float(values.min()), float(values.max())
    return (low, high) if low < high else (low - 0.5, high + 0.5)


def _heights(x: Array, values: Array, places: Array, low: float, high: float) -> list[int]:
    """Return the row of each column, from the bottom, -1 where there is nothing: means where points are closer."""
    step = places[1] - places[0]
    there = np.isfinite(values)
    if not there.any():
        return [-1] * len(places)
    cells = np.clip(np.rint((x[there] - places[0]) / step), 0, len(places) - 1).astype(np.int64)
    sums = np.bincount(cells, values[there], len(places))
    counts = np.bincount(cells, minlength=len(places))
    filled = np.flatnonzero(counts)
    found = np.interp(np.arange(len(places)), filled, sums[filled] / counts[filled], left=np.nan, right=np.nan)
    rows = np.rint((found - low) / (high - low) * (HEIGHT - 1))
    return [-1 if np.isnan(row) else int(min(max(row, 0), HEIGHT - 1)) for row in rows]
