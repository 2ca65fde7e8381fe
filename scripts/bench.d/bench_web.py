"""The page: how soon it is there over a large store, and what ten open pages cost the run that they show."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench_run import document
from measure import Options, Row, compare, placed

GANGLION = str(Path(sys.executable).with_name("ganglion"))
RUNS, EPISODES, EPISODES_LONGEST = 500, 1_000_000, 100_000
PAGES = 10
PAINT_S = 1.0  # the longest time until the list of runs stands on the screen, and until a curve is answered
WATCHED_GATE = 0.95  # of the steps of a run that nobody looks at
ROUNDS_MAX = 5
STEPS, DIGEST_EPISODES, PLACED_EPISODES = 100, 10, 60
WINDOW_S, SETTLE_S, WAIT_S = 5.0, 6.0, 300.0
TURNS_LEAST, TURNS_MAX, WATCHED_S = 2, 7, 200.0  # so many turns, as far as they are had in that time
LACKS = "needs chromium and playwright"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync", "--no-first-run"]


def rows(options: Options) -> list[Row]:
    """Measure both: what programs are answered, and what is seen in a Chromium where there is one."""
    with placed(False), tempfile.TemporaryDirectory(prefix="ganglion-bench-") as place, contextlib.ExitStack() as stack:
        folder = Path(place)
        browser = _chromium(stack)
        found = [*_paint(folder / "large", browser, min(options.rounds, ROUNDS_MAX))]
        if browser is None:
            return [*found, Row("page, first paint, and a run with pages open", None, None, note=LACKS)]
        return [*found, *_watched(folder, browser)]


def _chromium(stack: contextlib.ExitStack) -> Any:
    """Return a browser without a window; None where there is none."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    if path is None:
        return None
    driver = stack.enter_context(sync_playwright())
    browser = driver.chromium.launch(executable_path=path, args=FLAGS)
    stack.callback(browser.close)
    return browser


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


def _paint(results: Path, browser: Any, rounds: int) -> Iterator[Row]:
    fill(results)
    size = f"page, {RUNS} runs, {EPISODES:.0e} episodes"
    with _served(results) as (port, token, _):
        asked = {
            "list of runs": "/api/runs?limit=500",
            "curve of a run": "/api/runs/bench-7/curves?points=500",
            "curve of the longest run, first": f"/api/runs/bench-{RUNS}/curves?points=500",
            "curve of the longest run, again": f"/api/runs/bench-{RUNS}/curves?points=500",
        }
        _seconds(port, token, "/")
        for name, path in asked.items():
            yield _within(f"{size}, {name}", _seconds(port, token, path))
        if browser is not None:
            paints = [_paint_s(browser, port, token) for _ in range(rounds)]
            yield _within(f"{size}, first paint in Chromium", statistics.median(painted for painted, _ in paints))
            yield _within("page, the same, the runs are listed", statistics.median(told for _, told in paints))


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
_LIVE = document().format(mode="train", steps=STEPS, episodes="EPISODES")


def _watched(folder: Path, browser: Any) -> Iterator[Row]:
    """Compare a run with itself, while nobody looks and while ten pages show it; equal short ones have equal digests.

    One run goes on while the server and the pages come and go, in turns: what is measured is the pace of its steps. The
    pages are tabs of one Chromium on the same processors, which draws without a graphics card. The gate is for ten tabs
    of a window, of which one is seen: the others are told that they are hidden, as a browser tells them. Ten pages that
    are seen at once, for which no screen has room, are for information. The opening of pages is not measured.
    """
    context = browser.new_context(viewport={"width": 1360, "height": 900})
    context.add_init_script(_HIDDEN)
    tabs = [context.new_page() for _ in range(PAGES)]
    digests = []
    for name, pages in (("seen", tabs), ("unseen", [])):
        with _shown(folder / name, pages), _running(folder / name, DIGEST_EPISODES) as run:
            for page in pages:
                page.evaluate(_SEEN)
            run.ended()
        digests.append(_digest(folder / name))
        print(f"pages open: {len(pages)}, digest {digests[-1]}", file=sys.stderr)
    if len(set(digests)) != 1:
        raise RuntimeError(f"expected a run with pages open to have the results of one without, found {digests}")
    rates: dict[int, list[float]] = {0: [], 1: [], PAGES: []}
    spent = Counter[str]()
    until_s = time.monotonic() + WATCHED_S
    with _running(folder / "turns", 10**6) as run:
        run.placed()
        while len(rates[0]) < (TURNS_MAX if time.monotonic() < until_s else TURNS_LEAST):
            rates[0].append(run.pace())
            with _shown(folder / "turns", tabs) as server:
                for seen in (1, PAGES):
                    for tab in tabs[:seen]:
                        tab.evaluate(_SEEN)
                    time.sleep(SETTLE_S)
                    before = _spent_s(server), _spent_s(os.getpid(), "chrom")
                    rates[seen].append(run.pace())
                    spent[f"{seen} server"] += _spent_s(server) - before[0]
                    spent[f"{seen} Chromium"] += _spent_s(os.getpid(), "chrom") - before[1]
            told = ", ".join(f"{rates[seen][-1]:.0f} with {seen} seen" for seen in rates)
            print(f"steps per second: {told}", file=sys.stderr)
    for seen, gate in ((1, WATCHED_GATE), (PAGES, None)):
        parts = [100 * spent[f"{seen} {name}"] / (WINDOW_S * len(rates[0])) for name in ("server", "Chromium")]
        note = "digests are equal; server {:.0f} %, Chromium {:.0f} % of a processor".format(*parts)
        yield compare(f"run, {PAGES} pages open, {seen} seen, x none", rates[seen], rates[0], gate, note)


_HIDDEN = "window.unseen = true; Object.defineProperty(document, 'hidden', {get: () => window.unseen});"
_SEEN = "window.unseen = false; window.dispatchEvent(new Event('visibilitychange'));"


class _Run:
    """A run that goes on, and the moments at which it had taken so many steps."""

    def __init__(self, results: Path, episodes: int) -> None:
        results.mkdir(exist_ok=True)
        file = results.with_suffix(".yml")
        file.write_text(_LIVE.replace("EPISODES", str(episodes)))
        argv = [GANGLION, "--results", str(results), "--json", "run", str(file)]
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self._steps = [(0.0, 0)]
        self._placed = threading.Event()
        self._over = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event = json.loads(line)
            if event.get("event") in ("episode.ended", "episodes.ended"):
                self._steps.append((event["time_s"], self._steps[-1][1] + event["steps"]))
            if event.get("event") == "phase.placed" or len(self._steps) > PLACED_EPISODES:
                self._placed.set()
        self._over.set()

    def placed(self) -> None:
        """Wait until its processes are where they stay."""
        assert self._placed.wait(WAIT_S), "expected the run to begin"

    def ended(self) -> None:
        """Wait for its end."""
        assert self.process.wait(WAIT_S) == 0

    def pace(self) -> float:
        """Return the steps per second of the next seconds."""
        begun_s = time.time()
        time.sleep(WINDOW_S)
        within = [one for one in list(self._steps) if one[0] >= begun_s]
        assert len(within) > 2, f"expected the run to go on, found {len(within)} episodes in {WINDOW_S} s"
        (first_s, first), (last_s, last) = within[0], within[-1]
        return (last - first) / (last_s - first_s)


@contextlib.contextmanager
def _running(results: Path, episodes: int) -> Iterator[_Run]:
    run = _Run(results, episodes)
    try:
        yield run
    finally:
        run.process.send_signal(signal.SIGINT)
        run.process.wait(WAIT_S)


@contextlib.contextmanager
def _shown(results: Path, tabs: Sequence[Any]) -> Iterator[int]:
    """Serve a folder of results and open its page in all tabs; gives the server's process."""
    if not tabs:
        yield 0
        return
    with _served(results) as (port, token, process):
        for tab in tabs:
            tab.goto(f"http://127.0.0.1:{port}/?token={token}", wait_until="commit", timeout=1000 * WAIT_S)
        for tab in tabs:
            tab.wait_for_selector("main > section", timeout=1000 * WAIT_S)
        time.sleep(SETTLE_S)
        yield process
        for tab in tabs:
            tab.goto("about:blank")
    time.sleep(SETTLE_S)


def _spent_s(root: int, name: str = "") -> float:
    """Return the processor time so far of a process and all below it, or of those whose command has a name in it."""
    below: dict[int, list[int]] = {}
    times: dict[int, float] = {}
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            values = (place / "stat").read_text().rpartition(")")[2].split()
            below.setdefault(int(values[1]), []).append(int(place.name))
            if name in (place / "cmdline").read_text():
                times[int(place.name)] = (int(values[11]) + int(values[12])) / os.sysconf("SC_CLK_TCK")
    found, todo = 0.0, [root]
    while todo:
        found += times.get(todo[-1], 0.0)
        todo += below.get(todo.pop(), [])
    return found


def _digest(results: Path) -> str:
    argv = [GANGLION, "--results", str(results), "verify", "last", "--digest"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    return done.stdout.split()[-1]


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
def _served(results: Path) -> Iterator[tuple[int, str, int]]:
    """Run the page of a folder of results; gives its port, its token and the process."""
    argv = [GANGLION, "--results", str(results), "serve", "--port", "0"]
    server = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        port, _, token = address.partition("127.0.0.1:")[2].partition("/?token=")
        yield int(port), token, server.pid
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(30)
