"""The page in a real browser, driven as a person drives it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from system.command import Command, ganglion

from ganglion.sdk import Signal

playwright = pytest.importorskip("playwright.sync_api", reason="the extra `browser` of ganglion-web is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
WAIT_MS = 60_000
TWO_HEARTBEATS_S = 4.0  # one: a peer that is silent for 0.5 s is asked, and has 1.5 s to answer

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on this machine (Debian: chromium)"),
]


FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]


@pytest.fixture(scope="module")
def launch() -> Iterator[Any]:
    """Return what starts a browser without a window that knows nobody, with more flags."""
    with playwright.sync_playwright() as driver:
        yield lambda *more: driver.chromium.launch(
            executable_path=CHROMIUM, args=[*FLAGS, "--disable-sync", "--no-first-run", *more]
        )


@pytest.fixture(scope="module")
def browser(launch: Any) -> Iterator[Any]:
    """Return a browser."""
    found = launch()
    yield found
    found.close()


class Tab:
    """A tab, with what was wrong in it."""

    def __init__(self, browser: Any, url: str, **how: Any) -> None:
        self.context = browser.new_context(**how)
        self.page = self.context.new_page()
        self.errors: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda said: self.errors.append(said.text) if said.type == "error" else None)
        self.page.set_default_timeout(WAIT_MS)
        self.page.goto(url)

    def wait(self, script: str) -> None:
        until_s = time.monotonic() + WAIT_MS / 1000
        while not self.page.evaluate(f"!!({script})"):
            assert time.monotonic() < until_s, f"expected within {WAIT_MS // 1000} s: {script}"
            self.page.wait_for_timeout(100)


@pytest.fixture
def tab(browser: Any, page: Any) -> Iterator[Tab]:
    """Return the page, opened from the printed address."""
    found = Tab(browser, page.url)
    yield found
    found.context.close()


def test_page_opens_from_the_printed_address_alone(browser: Any, page: Any, tab: Tab) -> None:
    """With the address a run is shown and the secret is gone from it; without it nothing is."""
    tab.wait("document.querySelectorAll('.run').length > 0")
    bare = Tab(browser, f"http://127.0.0.1:{page.port}/")

    assert f"http://127.0.0.1:{page.port}/" == tab.page.url
    assert "expected the token" in bare.page.content()
    bare.context.close()


def test_live_run_grows_stands_and_goes_on(page: Any, tab: Tab, live: Command) -> None:
    """The curve grows while the run runs; pause holds its steps, continue moves them, stop leaves it interrupted."""
    run = live.until("phase.started") and live.events[0]["run"]
    tab.page.goto(f"http://127.0.0.1:{page.port}/#{run}")
    count = "+document.querySelector('#episodes').dataset.count"
    tab.wait(f"document.querySelector('#episodes') && {count} > 2")
    before = tab.page.evaluate(count)
    tab.wait(f"{count} > {before}")
    offered = tab.page.evaluate("[...document.querySelectorAll('#signal-name option')].map(o => o.value)")
    assert [one.name for one in Signal if one.effect.ends_episode] == offered
    tab.page.click("#pause")
    tab.wait("document.querySelector('#status').textContent === 'paused'")
    rates = "[...document.querySelectorAll('#processes tbody tr')].map(r => +r.children[6].textContent || 0)"
    tab.wait(f"Math.max(...{rates}) < 5")
    step = "+(/step (\\d+)/.exec(document.querySelector('.toast')?.textContent || '') || [])[1]"
    tab.wait("!document.querySelector('.toast')")  # what the pause said
    tab.page.click("#step")
    tab.wait(f"{step} > 0")
    first = tab.page.evaluate(step)
    tab.page.keyboard.press("s")
    tab.wait(f"{step} > 0 && {step} !== {first}")
    tab.page.click("#continue")
    tab.wait(f"document.querySelector('#status').textContent === 'running' && Math.max(...{rates}) > 5")
    tab.page.click("#stop")
    tab.wait("document.querySelector('#status').textContent === 'interrupted'")

    assert 130 == live.end()[0]
    assert [] == tab.errors


def test_no_request_leaves_this_machine(launch: Any, page: Any, live: Command, tmp_path: Path) -> None:
    """Chromium's own log of its network has requests to the server alone: of pages, and of the worker they share."""
    run = live.until("phase.started") and live.events[0]["run"]
    log = tmp_path / "net.json"
    browser = launch(f"--log-net-log={log}", "--net-log-capture-mode=Everything")
    tab = Tab(browser, page.url)
    tab.page.goto(f"http://127.0.0.1:{page.port}/#{run}")
    tab.wait("document.querySelector('#processes') && document.querySelector('.chart canvas')")
    tab.page.click("#pause")
    tab.wait("document.querySelector('#status').textContent === 'paused'")
    browser.close()
    told = json.loads(log.read_text())
    kind, here = told["constants"]["logEventTypes"]["URL_REQUEST_START_JOB"], f"http://127.0.0.1:{page.port}"
    all_asked = [e["params"] for e in told["events"] if e["type"] == kind and "url" in e.get("params", {})]
    # What Chromium asks for by itself, as its updates, belongs to no page; what it asks because of ours does.
    asked = [p["url"] for p in all_asked if "127.0.0.1" in f"{p['network_isolation_key']} {p['initiator']} {p['url']}"]
    assert {here} == {re.sub(r"(?<=[^/:])/.*", "", url) for url in asked}
    paths = {url.partition(str(page.port))[2] for url in asked}
    assert {"/api/events", "/page/stream.js", "/page/page.js", f"/api/runs/{run}/pause"} <= paths


def test_killed_process_turns_red(page: Any, tab: Tab, live: Command) -> None:
    """It is so within two heartbeats of the moment at which its kernel knew, until another one is in its place."""
    run = live.until("phase.started") and live.events[0]["run"]
    tab.page.goto(f"http://127.0.0.1:{page.port}/#{run}")
    row = "[...document.querySelectorAll('#processes tbody tr')].find(r => r.dataset.name.includes('/environment/'))"
    tab.wait(f"(() => {{ const r = {row}; return r && r.children[3].textContent !== ''; }})()")
    pid = int(tab.page.evaluate(f"{row}.children[3].textContent"))
    tab.wait("document.querySelector('#log').textContent.includes('episode.ended')")  # it is listened to
    tab.page.evaluate(f"""() => new MutationObserver(() => {{
        if ({row}?.className === 'gone') window.red_ms ??= Date.now(); }}).observe(document.body,
        {{subtree: true, childList: true, attributes: true}})""")
    os.kill(pid, signal.SIGKILL)
    lost_s = live.until("peer.lost")["time_s"]
    tab.wait("window.red_ms")
    assert 0 <= tab.page.evaluate("window.red_ms") / 1000 - lost_s <= TWO_HEARTBEATS_S
    tab.wait(f"{row}.className === 'ok' && {row}.children[10].textContent === '1'")  # another one is in its place


def test_stream_survives_a_restart_of_the_server(browser: Any, pages: Any, folder: Path, live: Command) -> None:
    """A page that is open goes on with a server that was started again at the same port."""
    run = live.until("phase.started") and live.events[0]["run"]
    first = pages(folder, "--port", "0")
    tab = Tab(browser, first.url)
    tab.page.goto(f"http://127.0.0.1:{first.port}/#{run}")
    count = "+document.querySelector('#episodes').dataset.count"
    tab.wait(f"document.querySelector('#episodes') && {count} > 0")
    first.close()
    tab.wait("document.querySelector('.offline')")
    second = pages(folder, "--port", str(first.port))
    before = tab.page.evaluate(count)
    tab.wait(f"!document.querySelector('.offline') && {count} > {before}")
    tab.context.close()
    second.close()


def test_eight_live_pages_of_one_browser_are_answered(page: Any, tab: Tab, live: Command) -> None:
    """A browser has six connections to a server: its pages share the one of the news, so that all eight go on."""
    run = live.until("phase.started") and live.events[0]["run"]
    count = "+document.querySelector('#episodes').dataset.count"
    for other in (tab.page, *(tab.context.new_page() for _ in range(7))):
        tab.page = other
        tab.page.set_default_timeout(WAIT_MS)
        tab.page.goto(f"http://127.0.0.1:{page.port}/#{run}", wait_until="commit")
    seen: list[int] = []
    for other in tab.context.pages:
        tab.page = other
        tab.wait(f"document.querySelector('#document') && document.querySelector('#episodes') && {count} > 0")
        seen.append(other.evaluate(count))
    for other, before in zip(tab.context.pages, seen, strict=True):
        tab.page = other
        tab.wait(f"{count} > {before}")
    tab.page.click("#pause")
    for other in tab.context.pages:
        tab.page = other
        tab.wait("document.querySelector('#status').textContent === 'paused'")

    assert 8 == len(tab.context.pages)
    assert [] == tab.errors


def test_page_that_nobody_sees_stands_still(page: Any, tab: Tab, live: Command) -> None:
    """It draws nothing of what goes on, and all of it as soon as it is seen again."""
    run = live.until("phase.started") and live.events[0]["run"]
    hide = "Object.defineProperty(document, 'hidden', {get: () => %s, configurable: true}); "
    say = "dispatchEvent(new Event('visibilitychange'))"
    count = "+document.querySelector('#episodes').dataset.count"
    tab.page.goto(f"http://127.0.0.1:{page.port}/#{run}")
    tab.wait(f"document.querySelector('#episodes') && {count} > 0")
    tab.page.evaluate(hide % "true" + say)
    tab.page.wait_for_timeout(1000)  # for what was on its way
    drawn = tab.page.evaluate(count)
    assert live.until("episode.ended")["episode"] < live.until("episode.ended")["episode"]
    still = tab.page.evaluate(count)
    tab.page.evaluate(hide % "false" + say)
    tab.wait(f"{count} > {drawn}")

    assert drawn == still


MARKUP = "<img src=x onerror=alert(1)>"
NAMED = """
uid: mark  # <>
experiment_uid: "E<>"
seed: 5
version: "0.1"
schedule:
  - "P<>":
      environments: [{environment: {uid: "W<>", name: dummy, params: {max_iter: 4}}}]
      agents: [{name: "A<>", muscle: dummy, brain: dummy, objective: dummy, sensors: ["W<>.*"], actuators: ["W<>.*"]}]
      phase_config: {mode: train, episodes: 3}
run_config: {condition: vanilla}
"""


def test_names_are_shown_and_not_obeyed(page: Any, tab: Tab) -> None:
    """Markup in every name of a document that may hold it, in its comments and in a log is text."""
    text = NAMED.replace("<>", MARKUP)
    (page.folder / "mark.yml").write_text(text)
    done = ganglion(page.folder, "run", "-q", "--name", "mark-1", "mark.yml")
    assert done.returncode == 0, done.stderr
    tab.page.goto(f"http://127.0.0.1:{page.port}/#mark-1")
    tab.wait("document.body.textContent.split('onerror').length > 6 && document.querySelector('.chart canvas')")

    assert 0 == tab.page.locator("img").count()
    assert [] == tab.errors


def test_document_is_checked_while_it_is_written(page: Any, tab: Tab) -> None:
    """Faults are marked at their lines; what is right says so; markup in what is written is text."""
    good = (page.folder / "one.yml").read_text()
    tab.page.goto(f"http://127.0.0.1:{page.port}/#/new")
    tab.page.fill("#write", good.replace("schedule", f"schedul  # {MARKUP}\nx"))
    tab.wait("document.querySelectorAll('#checked .bad-line').length > 0")
    assert tab.page.evaluate("document.querySelector('#submit').disabled")
    tab.page.fill("#write", good)
    tab.wait("document.querySelector('#verdict').textContent === 'no faults'")

    assert 0 == tab.page.locator("img").count()
    assert [] == tab.errors


def test_keyboard_narrow_and_dark(browser: Any, page: Any) -> None:
    """Keys choose runs and reach the filter; on a narrow dark screen nothing is wider than the screen."""
    tab = Tab(browser, page.url, viewport={"width": 390, "height": 800}, color_scheme="dark")
    tab.wait("document.querySelector('#document')")
    tab.page.keyboard.press("/")
    assert "filter" == tab.page.evaluate("document.activeElement.id")
    tab.page.keyboard.press("Tab")
    tab.page.evaluate("document.activeElement.blur()")
    tab.page.keyboard.press("j")
    tab.wait("document.querySelector('.run.chosen')")

    assert tab.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert "rgb(16, 22, 29)" == tab.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert [] == tab.errors
    tab.context.close()
