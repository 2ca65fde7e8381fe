"""The page: how soon it is there over a large store, and what ten open pages cost the run that they show."""

from __future__ import annotations

import contextlib
import http.client
import json
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench_run import meter
from measure import Options, Row, compare, interleave, placed

GANGLION = str(Path(sys.executable).with_name("ganglion"))
RUNS, EPISODES, EPISODES_LONGEST = 500, 1_000_000, 100_000
PAGES = 10
PAINT_S = 1.0  # the longest time until the list of runs stands on the screen, and until a curve is answered
WATCHED_GATE = 0.95  # of the steps of a run that nobody looks at
ROUNDS_MAX = 5
WATCHED_EPISODES = 60
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync", "--no-first-run"]


def rows(options: Options) -> list[Row]:
    """Measure both."""
    with placed(False), tempfile.TemporaryDirectory(prefix="ganglion-bench-") as place:
        folder = Path(place)
        return [*_paint(folder / "large", options), *_watched(folder, options)]


# -- a large store -----------------------------------------------------------------------------------------------------
_FILL = """
PRAGMA synchronous = OFF;
BEGIN;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n, size WHERE i < runs)
INSERT INTO stored_runs (number, run, uid, experiment, seed, status, started, ended)
SELECT i, 'bench-' || i, 'bench', 'bench', '42', 'finished',
    strftime('%Y-%m-%dT%H:%M:%S+00:00', 1700000000 + 600 * i, 'unixepoch'),
    strftime('%Y-%m-%dT%H:%M:%S+00:00', 1700000300 + 600 * i, 'unixepoch') FROM n;
INSERT INTO stored_phases (run, phase, mode, name, status)
SELECT number, 0, 'train', 'train', 'finished' FROM stored_runs;
INSERT INTO stored_members (number, run, phase, kind, name, environment, position)
SELECT number, number, 0, 'agent', 'ada', 'world', 0 FROM stored_runs;
WITH RECURSIVE e(r, i) AS (
    SELECT number, 0 FROM stored_runs UNION ALL
    SELECT r, i + 1 FROM e, size WHERE i + 1 < CASE r WHEN runs THEN longest ELSE each END)
INSERT INTO stored_episodes (run, phase, mode, worker, environment, episode, steps, terminated, truncated, reason,
    round, inner, digest, predecessor)
SELECT r, 0, 'train', i % 4, '', i / 4, 200, 0, 1, 'max_steps', i / 4, 0, zeroblob(32), zeroblob(32) FROM e;
INSERT INTO stored_segments (number, member, episode) SELECT number, run, number FROM stored_episodes;
INSERT INTO stored_returns (segment, body, steps, "return", objective)
SELECT number, 0, 200, 100.0 - 30000.0 / (300 + episode) + number * 7919 % 1000 / 100.0, 0.5 FROM stored_episodes;
COMMIT;
"""


def fill(results: Path) -> None:
    """Make a store of many runs and episodes, by its own tables: the newest run has most of them."""
    from ganglion_store.database import connect_writing

    results.mkdir(parents=True)
    _, connection = connect_writing(f"sqlite:///{results / 'ganglion.db'}")
    each = (EPISODES - EPISODES_LONGEST) // (RUNS - 1)
    size = (RUNS, EPISODES_LONGEST, each)
    connection.execute("CREATE TEMP TABLE size AS SELECT ? AS runs, ? AS longest, ? AS each", size)
    connection.executescript(_FILL)
    connection.close()


def _paint(results: Path, options: Options) -> list[Row]:
    fill(results)
    with _served(results) as (port, token):
        asked = {
            "list of runs": "/api/runs?limit=500",
            "curve of a run": "/api/runs/bench-7/curves?points=500",
            "curve of the longest run, first": f"/api/runs/bench-{RUNS}/curves?points=500",
            "curve of the longest run, again": f"/api/runs/bench-{RUNS}/curves?points=500",
        }
        _seconds(port, token, "/")
        found = [
            _within(f"page, {RUNS} runs, {EPISODES:.0e} episodes, {name}", _seconds(port, token, path))
            for name, path in asked.items()
        ]
        chromium = shutil.which("chromium") or shutil.which("chromium-browser")
        name = f"page, {RUNS} runs, {EPISODES:.0e} episodes, first paint in Chromium"
        try:
            from playwright.sync_api import sync_playwright
        except ImportError:
            chromium = None
        if chromium is None:
            return [*found, Row(name, None, 1.0, note="needs chromium and playwright")]
        with sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=chromium, args=FLAGS)
            paints = [_paint_s(browser, port, token) for _ in range(min(options.rounds, ROUNDS_MAX))]
            browser.close()
        found.append(_within(name, statistics.median(painted for painted, _ in paints)))
        return [*found, _within("page, the same, the runs are listed", statistics.median(told for _, told in paints))]


def _within(name: str, seconds: float) -> Row:
    """Return the row of something that is to be there in time: so often it could be had in that time."""
    return Row(name, PAINT_S / seconds, 1.0, 1 / seconds, 1 / PAINT_S)


def _paint_s(browser: Any, port: int, token: str) -> tuple[float, float]:
    """Open the page as a new visitor; return the seconds until something, and until the runs are seen."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{port}/?token={token}")
    page.wait_for_selector(".run", timeout=60_000)
    listed = page.evaluate("performance.now()")
    painted = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    context.close()
    return painted / 1000, listed / 1000


# -- pages that look on ------------------------------------------------------------------------------------------------
def _watched(folder: Path, options: Options) -> list[Row]:
    """Compare a run with itself while ten pages show it; its results have to be equal, too."""
    meters = {name: meter(folder / name, "train", True, episodes=WATCHED_EPISODES) for name in ("alone", "watched")}
    results = folder / "watched" / "results-train-True"
    alone, watched = meters["alone"], meters["watched"]
    read = [0]

    def looked_at() -> float:
        with _served(results) as (port, token), _pages(port, token, read):
            return watched()

    rates = interleave({"alone": alone, "watched": looked_at}, min(options.rounds, ROUNDS_MAX))
    digests = {_digest(folder / name / "results-train-True") for name in meters}
    if len(digests) != 1:
        raise RuntimeError(f"expected a run with pages open to have the results of one without, found {digests}")
    note = f"digests are equal; {read[0]} answers were read"
    return [compare(f"run, {PAGES} pages open, x none", rates["watched"], rates["alone"], WATCHED_GATE, note)]


def _digest(results: Path) -> str:
    argv = [GANGLION, "--results", str(results), "verify", "last", "--digest"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    return done.stdout.split()[-1]


@contextlib.contextmanager
def _pages(port: int, token: str, read: list[int]) -> Iterator[None]:
    """Hold pages open: each reads the stream and asks what a page asks of the run that goes on, as often as it does."""
    over = threading.Event()

    def stream() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30.0)
        connection.request("GET", "/api/events", headers={"authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        with contextlib.suppress(OSError, http.client.HTTPException):
            while not over.is_set() and answer.readline():
                read[0] += 1
        connection.close()

    def page() -> None:
        turn, live = 0, ""
        while not over.wait(1.0):
            with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
                if not live or turn % 5 == 0:
                    runs = json.loads(_ask(port, token, "/api/runs?limit=500"))["runs"]
                    live = next((row["run"] for row in runs if row["status"] == "running"), "")
                for path in ("", "/curves?points=500", *(["/logs?level=info&limit=300"] if turn % 2 else [])):
                    if live:
                        _ask(port, token, f"/api/runs/{live}{path}")
                        read[0] += 1
            turn += 1

    threads = [threading.Thread(target=work, daemon=True) for work in (stream, page) for _ in range(PAGES)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads[PAGES:]:
            thread.join(30.0)


def _ask(port: int, token: str, path: str) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60.0)
    try:
        connection.request("GET", path, headers={"authorization": f"Bearer {token}"})
        return connection.getresponse().read()
    finally:
        connection.close()


def _seconds(port: int, token: str, path: str) -> float:
    begun = time.perf_counter()
    _ask(port, token, path)
    return time.perf_counter() - begun


@contextlib.contextmanager
def _served(results: Path) -> Iterator[tuple[int, str]]:
    """Run the page of a folder of results; gives its port and its token."""
    argv = [GANGLION, "--results", str(results), "serve", "--port", "0"]
    server = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        port, _, token = address.partition("127.0.0.1:")[2].partition("/?token=")
        yield int(port), token
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(30)
