"""Take the pictures of the page: a real server, real runs, a real Chromium: `page.py FOLDER`.

It needs playwright and a Chromium of the system; who lacks them is told so, and keeps the pictures that there are.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

GANGLION = Path(sys.executable).with_name("ganglion")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync", "--no-first-run"]
WAIT_S = 240.0

EXPERIMENT = """\
uid: rates
seed: 1
version: "0.1"
run:
  schedule:
    - train:
        environments: [{environment: {uid: field, name: cartpole}}]
        agents: [{name: scout, brain: sarsa, muscle: sarsa, sensors: [field.*], actuators: [field.*]}]
        simulation: {name: vanilla, conditions: [{name: max_steps, params: {steps: 200}}]}
        phase_config: {mode: train, episodes: 40}
  run_config: {condition: vanilla}
factors:
  rate: {set: schedule.train.agents.scout.brain.params.step_size, levels: [0.001, 0.05]}
repetitions: 2
"""

LIVE = """\
uid: farm
seed: 3
version: "0.1"
schedule:
  - train:
      environments: [{environment: {uid: field, name: cartpole}}]
      agents: [{name: scout, brain: sarsa, muscle: sarsa, sensors: [field.*], actuators: [field.*]}]
      simulation: {name: vanilla, conditions: [{name: max_steps, params: {steps: 200}}]}
      phase_config:
        mode: train
        worker: 2
        episodes: 4000
        conditions: [{name: agent_objective, params: {scout: {brain_avg200: 2.0, phase_avg20: 1.5}}}]
  - test:
      phase_config: {mode: test, worker: 1, episodes: 10}
run_config: {condition: vanilla}
"""

FAULTY = LIVE.replace("max_steps", "max_step").replace("worker: 2", "worker: two").replace("mode: test", "mode: tset")


def scene(folder: Path) -> None:
    """Carry out an experiment, and the demo for two seeds."""
    (folder / "rates.yml").write_text(EXPERIMENT)
    (folder / "farm.yml").write_text(LIVE)
    for words in (["sweep", "rates.yml", "--parallel", "1"], ["run", "-q"], ["run", "-q", "--seed", "7"]):
        subprocess.run([GANGLION, *words], cwd=folder, check=True, capture_output=True)


class Tab:
    """A page of the browser, with what was wrong in it."""

    def __init__(self, browser: Any, url: str, width: int, height: int, scheme: str) -> None:
        self.errors: list[str] = []
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        self.page = context.new_page()
        self.page.on("console", lambda said: self.errors.append(said.text) if said.type == "error" else None)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.goto(url)

    def wait(self, script: str) -> None:
        """Wait until something holds in the page."""
        until_s = time.monotonic() + WAIT_S
        while not self.page.evaluate(f"!!({script})"):
            if time.monotonic() > until_s:
                sys.exit(f"scripts/pictures waited in vain for {script}")
            self.page.wait_for_timeout(200)

    def take(self, path: Path, full: bool = False) -> None:
        """Write what is seen."""
        self.page.wait_for_timeout(600)
        self.page.screenshot(path=path, full_page=full)
        if self.errors:
            sys.exit(f"scripts/pictures: the page complains: {self.errors}")
        print(path)


def pictures(browser: Any, url: str, folder: Path, out: Path) -> None:
    """Take the picture of each view."""
    runs = "document.querySelectorAll('.run').length > 4"
    drawn = "document.querySelector('.chart canvas') && document.querySelector('#episodes').dataset.count > 30"
    light = Tab(browser, url, 1360, 860, "light")
    light.wait(runs)
    base = url.partition("?")[0]
    light.page.goto(base + "#demo-1")
    light.wait(drawn)
    light.take(out / "page-run.png")
    light.page.goto(base + "#/sweep/rates")
    light.wait(drawn + " && document.querySelectorAll('#points tbody tr').length === 4")
    light.take(out / "page-sweep.png")
    light.page.goto(base + "#/new")
    light.page.fill("#write", FAULTY)
    light.wait("document.querySelectorAll('#checked .bad-line').length >= 3")
    light.take(out / "page-document.png")
    live = subprocess.Popen(
        [GANGLION, "run", "-q", "farm.yml"], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        dark = Tab(browser, url, 1360, 1500, "dark")
        dark.wait("document.querySelector('.dot.running')")
        dark.page.goto(base + "#farm-1")
        dark.wait(
            drawn
            + " && document.querySelectorAll('#topology .flows').length > 3 && document.querySelector('.distance')"
        )
        dark.take(out / "page-live.png")
        narrow = Tab(browser, url, 390, 844, "dark")
        narrow.page.goto(base + "#farm-1")
        narrow.wait(drawn)
        narrow.take(out / "page-narrow.png")
        narrow.page.click("#drawer")
        narrow.take(out / "page-runs.png")
    finally:
        live.send_signal(signal.SIGINT)
        live.wait(60)


def main(out: Path) -> None:
    """Take all pictures."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        sys.exit("scripts/pictures: the pictures of the page need playwright: scripts/setup --with browser")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        sys.exit("scripts/pictures: the pictures of the page need a Chromium (Debian: chromium)")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        scene(folder)
        command = [GANGLION, "serve", "--port", "0", "--allow-submit"]
        server = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            url = server.stdout.readline().strip().removeprefix("the page is at ")
            with sync_playwright() as driver:
                browser = driver.chromium.launch(executable_path=chromium, args=FLAGS)
                pictures(browser, url, folder, out)
                browser.close()
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(30)


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
