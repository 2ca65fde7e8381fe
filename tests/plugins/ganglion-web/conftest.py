"""A folder of results with one run, and the page of it: a real server, asked over a real socket."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from system.command import Command, ganglion

DOCUMENT = """
uid: {uid}
seed: 5
version: "0.1"
schedule:
  - train:
      environments: [{{environment: {{uid: net, name: dummy, params: {{max_iter: {length}}}}}}}]
      agents: [{{name: ada, muscle: dummy, brain: dummy, objective: dummy, sensors: [net.0], actuators: [net.0]}}]
      phase_config: {{mode: train, episodes: {episodes}}}
run_config: {{condition: vanilla}}
"""


@dataclass
class Answer:
    """What a server said."""

    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def value(self) -> Any:
        return json.loads(self.text)


class Page:
    """A server that runs, and how it is asked."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.folder = folder
        self.command = Command(folder, "serve", *words, output=None, span_s=600.0)
        self.url = self.command.out.line().strip().removeprefix("the page is at ")
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/\?token=(.+)", self.url)
        assert found, self.command.err.lines
        self.port, self.token = int(found[1]), found[2]

    def ask(
        self, path: str, method: str = "GET", body: str | None = None, bare: bool = False, **headers: str | None
    ) -> Answer:
        given: dict[str, str | None] = {} if bare else {"authorization": f"Bearer {self.token}", "x-ganglion": "1"}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60.0)
        try:
            known = {name: value for name, value in given.items() if value is not None}
            connection.request(method, path, body=body, headers=known)
            found = connection.getresponse()
            return Answer(found.status, {k.lower(): v for k, v in found.getheaders()}, found.read().decode())
        finally:
            connection.close()

    def close(self) -> None:
        self.command.process.send_signal(2)
        self.command.process.wait(60.0)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder in which the run `one-1` has ended."""
    place = tmp_path_factory.mktemp("web")
    (place / "one.yml").write_text(DOCUMENT.format(uid="one", length=4, episodes=3))
    assert ganglion(place, "run", "-q", "one.yml").returncode == 0
    return place


@pytest.fixture
def pages() -> type[Page]:
    """Return what starts a page of a folder."""
    return Page


@pytest.fixture(scope="session")
def page(folder: Path) -> Iterator[Page]:
    """Return the page of that folder."""
    found = Page(folder, "--port", "0")
    yield found
    found.close()


@pytest.fixture
def live(page: Page) -> Iterator[Command]:
    """Return a live run of short episodes in the folder of the page."""
    (page.folder / "live.yml").write_text(Path(__file__).with_name("live.yml").read_text())
    command = Command(page.folder, "run", "live.yml", span_s=170.0)
    yield command
    command.process.kill()
    command.process.wait()
