"""Guard: admission of requests by a token, the names of this server and a header, before any route."""

from __future__ import annotations

import hmac
import os
import secrets
import stat
from collections.abc import Collection
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from urllib.parse import parse_qs, quote

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ganglion.cli.extension import UsageError, write_private

COOKIE = "ganglion"
"""The name of the cookie with the token of the printed URL, before the port."""

HEADER = "x-ganglion"
"""The header that a changing request must have: forms and other sites' scripts cannot send it."""

QUERY_BYTES_MAX = 4_096
BODY_BYTES_MAX = 1024 * 1024

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_ALWAYS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


def token_of(results: Path) -> str:
    """Return the token of a results folder, made if missing, so that open pages survive a restart of the server.

    Raises:
        UsageError: Other users have access to the file.
    """
    path = results / ".web" / "token"
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        token = secrets.token_urlsafe(32)
        write_private(path, token.encode())
        return token
    except OSError as error:
        raise UsageError(f"{path}: expected a file with the token of the page: {error.strerror}") from error
    with os.fdopen(fd, "rb") as file:
        status = os.fstat(file.fileno())
        text = file.read(200).decode(errors="replace").strip()
    if status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o077 or len(text) < 40:
        raise UsageError(
            f"{path}: expected a token in a file of yours with mode 0600; remove it, and a new one is made"
        )
    return text


class Guard:
    """Admit requests that have the token and come from a page of this server; refuse others in one sentence.

    Args:
        app: The guarded application.
        token: The secret.
        hosts: The valid values of the header Host, as `127.0.0.1:8642`.
        port: Of the server: a part of the cookie's name, since cookies ignore ports.
    """

    def __init__(self, app: ASGIApp, token: str, hosts: Collection[str], port: int) -> None:
        self._app, self._token, self._hosts = app, token.encode(), frozenset(hosts)
        self._cookie = f"{COOKIE}-{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def sealed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _ALWAYS.items():
                    headers[name] = value
            await send(message)

        refused = self._judge(scope)
        if refused is not None:
            await refused(scope, receive, sealed)
        else:
            await self._app(scope, _bounded(receive), sealed)

    def _judge(self, scope: Scope) -> Response | None:
        """Return the answer to a refused request; None for an admitted one."""
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        if host not in self._hosts:
            return _refuse(421, f"expected Host to be one of {', '.join(sorted(self._hosts))}, found {host[:80]!r}")
        if origin is not None and origin.removeprefix("http://") != host:
            return _refuse(403, f"expected a request of this page, found one of {origin[:80]!r}")
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and scope["path"].startswith("/api"):
            return _refuse(403, "expected a request of this page, found one of another site")
        if len(scope["query_string"]) > QUERY_BYTES_MAX:
            return _refuse(414, f"expected a query of at most {QUERY_BYTES_MAX} bytes")
        if scope["method"] == "GET" and scope["path"] == "/":
            given = parse_qs(scope["query_string"].decode(errors="replace")).get("token")
            if given and self._is_token(given[0]):
                return self._welcome()
        if not self._is_known(headers):
            return _refuse(401, "expected the token: open the address that `ganglion serve` printed")
        if scope["method"] not in ("GET", "HEAD"):
            if headers.get(HEADER) is None:
                return _refuse(403, f"expected the header {HEADER}, which no form can send")
            length = headers.get("content-length", "0")
            if not length.isdecimal() or int(length) > BODY_BYTES_MAX:
                return _refuse(413, f"expected a body of at most {BODY_BYTES_MAX} bytes")
        return None

    def _welcome(self) -> Response:
        """Turn the token of the address into a cookie, and redirect to the address without the token."""
        found = RedirectResponse("/", status_code=303)
        value = quote(self._token.decode(), safe="")
        found.set_cookie(self._cookie, value, path="/", httponly=True, samesite="strict", max_age=30 * 86_400)
        return found

    def _is_known(self, headers: Headers) -> bool:
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and self._is_token(given.strip()):
            return True
        try:
            cookies = SimpleCookie(headers.get("cookie", ""))
        except CookieError:
            return False
        return self._cookie in cookies and self._is_token(cookies[self._cookie].value)

    def _is_token(self, text: str) -> bool:
        return hmac.compare_digest(text.encode(errors="replace"), self._token)


def _refuse(status: int, text: str) -> Response:
    return JSONResponse({"error": text}, status)


def _bounded(receive: Receive) -> Receive:
    """Return a receiver that passes a body on up to the bound, and ends a longer one there."""
    taken = 0

    async def bounded() -> Message:
        nonlocal taken
        message = await receive()
        if message["type"] == "http.request":
            taken += len(message.get("body", b""))
            if taken > BODY_BYTES_MAX:
                return {"type": "http.disconnect"}
        return message

    return bounded
