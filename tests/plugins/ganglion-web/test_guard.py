"""Who may ask: each attack is refused before a route is looked up, with one sentence."""

from __future__ import annotations

import stat
from typing import Any

import pytest

ATTACKS: dict[str, tuple[int, str, dict[str, Any]]] = {
    "no token": (401, "/api/runs", {"bare": True}),
    "no token for the page": (401, "/", {"bare": True}),
    "no token for its files": (401, "/page/page.js", {"bare": True}),
    "another token": (401, "/api/runs", {"authorization": "Bearer " + "x" * 43}),
    "a token of another kind": (401, "/api/runs", {"authorization": "Basic eDp5"}),
    "a broken cookie": (401, "/api/runs", {"bare": True, "cookie": "ganglion-1=;;;=\x7f"}),
    "a token in the address of a route": (401, "/api/runs?token=x", {"bare": True}),
    "a foreign Host": (421, "/api/runs", {"host": "evil.example:80"}),
    "a Host that begins like ours": (421, "/api/runs", {"host": "127.0.0.1.evil.example"}),
    "a foreign Origin": (403, "/api/runs", {"origin": "http://evil.example"}),
    "an Origin of a file": (403, "/api/runs", {"origin": "null"}),
    "a script of another site": (403, "/api/runs", {"sec_fetch_site": "cross-site"}),
    "a form": (403, "/api/runs/one-1/stop", {"method": "POST", "body": "now=1", "x_ganglion": None}),
    "a query without end": (414, "/api/runs?uid=" + "a" * 5_000, {}),
    "a body without end": (413, "/api/check", {"method": "POST", "body": "a" * 1_100_000}),
    "a path as a run": (404, "/api/runs/..%2F..%2Fetc/document", {}),
    "a folder above": (404, "/api/runs/%2e%2e/document", {}),
    "a hidden folder": (404, "/api/runs/.web/document", {}),
    "a quote in a run": (404, "/api/runs/x'%20OR%20'1'='1/curves", {}),
    "a file beside the page": (404, "/page/..%2Fapp.py", {}),
    "a path as the name of a document": (404, "/api/documents/..%2Fx", {"method": "PUT", "body": "a: 1"}),
    "SQL in a condition": (422, "/api/runs/one-1/results/episodes?where=1%3B%20DROP%20TABLE%20stored_runs", {}),
    "a table of the store itself": (404, "/api/runs/one-1/results/stored_runs", {}),
    "a number without end": (422, "/api/runs?limit=" + "9" * 40, {}),
    "a document where none is taken": (403, "/api/runs", {"method": "POST", "body": "uid: x"}),
    "an experiment where none is taken": (403, "/api/sweeps", {"method": "POST", "body": "uid: x"}),
    "a form for an experiment": (403, "/api/sweeps", {"method": "POST", "body": "uid=x", "x_ganglion": None}),
    "a quote in an experiment": (404, "/api/sweeps/x'%20OR%20'1'='1", {}),
    "a path as an experiment": (404, "/api/sweeps/..%2Fx", {}),
    "a huge path": (404, "/api/runs/" + "a" * 30_000 + "/curves", {}),
    "points without end": (200, "/api/runs/one-1/curves?points=999999999", {}),
}


@pytest.mark.parametrize(("status", "path", "how"), ATTACKS.values(), ids=ATTACKS.keys())
def test_attack_is_refused(page: Any, status: int, path: str, how: dict[str, Any]) -> None:
    """The answer has the status and a sentence, or nothing of use; no policy is lacking."""
    found = page.ask(path, **how)

    assert status == found.status
    assert "default-src 'none'" in found.headers["content-security-policy"]
    assert "Traceback" not in found.text


def test_printed_address_becomes_a_cookie(page: Any) -> None:
    """The address leads to the page with a cookie that no script reads and no other site sends."""
    found = page.ask("/?token=" + page.token, bare=True)
    cookie = found.headers["set-cookie"]

    assert (303, "/") == (found.status, found.headers["location"])
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= {part.strip() for part in cookie.split(";")}
    assert 200 == page.ask("/", bare=True, cookie=cookie.partition(";")[0]).status


def test_token_is_ours_alone(page: Any) -> None:
    """The file that keeps the token over restarts can be read by its owner only."""
    path = page.folder / "results" / ".web" / "token"

    assert 0o600 == stat.S_IMODE(path.stat().st_mode)
    assert page.token == path.read_text()


def test_token_that_others_can_read_is_refused(page: Any, tmp_path: Any) -> None:
    """A file with another mode is no token: the command says so and ends with 2."""
    from system.command import ganglion

    path = tmp_path / "results" / ".web" / "token"
    path.parent.mkdir(parents=True)
    path.write_text("x" * 43)
    path.chmod(0o644)
    done = ganglion(tmp_path, "serve", "--port", "0")

    assert (2, True) == (done.returncode, "mode 0600" in done.stderr)


def test_port_that_is_taken_is_told(page: Any, tmp_path: Any) -> None:
    """A second page at the same port ends with 2 and names the port."""
    from system.command import ganglion

    done = ganglion(tmp_path, "serve", "--port", str(page.port))

    assert (2, True) == (done.returncode, str(page.port) in done.stderr)
