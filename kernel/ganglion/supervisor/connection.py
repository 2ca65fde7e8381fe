"""Connection files with their tokens and keys, and the operator client that joins a kernel with a connection file."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import socket
import stat
import tempfile
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ganglion.errors import CallFailed, DeadlineExceeded, LaunchError, PeerLost, RemoteProtocolError, UsageError
from ganglion.limits import DEADLINE_OTHER_S, HANDSHAKE_S
from ganglion.supervisor.event import RUN_ENDED, TOPIC, WARNING
from ganglion.synced import write_synced
from ganglion.transport.blocking import connect_blocking
from ganglion.transport.curve import ClientKeys, KeyPair, new_pair
from ganglion.transport.endpoint import Endpoint, parse_endpoint
from ganglion.wire.codec import Content, codec_of
from ganglion.wire.conversation import Answer, Conversation, Notice, read_welcome
from ganglion.wire.envelope import Head, encode_head
from ganglion.wire.messages import (
    CALL_BY_NAME,
    PROTOCOL_VERSION,
    Admit,
    Gap,
    Hello,
    Message,
    RunEvent,
    RunRequest,
    Subscribe,
)
from ganglion.wire.name import KERNEL, Role, topic
from ganglion.wire.verb import Verb

if TYPE_CHECKING:
    from ganglion.supervisor.runs import Member

CONNECTION = "connection.json"
"""The name of a connection file."""

REMOTE = "remote.json"
"""The name of the connection file for other machines; it lies beside CONNECTION."""

_SOCKET = "bus"
_PATH_BYTES_MAX = 100  # of a socket path; systems allow 104 to 108
_FILE_BYTES_MAX = 64 * 1024

RIGHTS = ("operator", "observer", "attach")
"""The rights that a connection file grants. Each has its own token and, for other machines, its own key pair."""


class Connection(Message):
    """Hold what a client needs to join a kernel: the endpoints, and one token for each of the three rights.

    `operator_token` lets a client command runs, `observer_token` read them, `attach_token` take a place that a run
    waits for. In a file for other machines, `curve` holds the kernel's `server_key` and the `public_key` and
    `secret_key` of each right.
    """

    version: int
    pid: int
    endpoint: str
    tcp: str | None
    operator_token: str = field(repr=False)
    observer_token: str = field(repr=False)
    attach_token: str = field(repr=False)
    run: str | None = None
    results: str = ""
    store: str | None = None
    curve: Any = field(default=None, repr=False)

    def keys(self, right: str) -> ClientKeys | None:
        """Return the keys of a right, None in a file for this machine; UsageError if keys are missing or wrong."""
        if self.curve is None:
            return None
        pair = self.curve.get(right) if isinstance(self.curve, Mapping) else None
        if not isinstance(pair, Mapping):
            raise UsageError(f"connection file: expected curve.{right} with public_key and secret_key, found none")
        named = (self.curve.get("server_key"), pair.get("public_key"), pair.get("secret_key"))
        return ClientKeys(*named)  # type: ignore[arg-type]  # ClientKeys checks the types

    def write(self, path: Path) -> None:
        """Write the file with access for its owner only; an existing file is replaced, not overwritten."""
        write_private(path, json.dumps(asdict(self), indent=2).encode())


def endpoint_folder(name: str) -> tuple[Path, str]:
    """Make a folder that only its owner can enter, in the runtime folder if possible; return it and an ipc endpoint."""
    runtime = _runtime_folder()
    if runtime is not None:
        folder = runtime / name
        try:
            runtime.mkdir(mode=0o700, exist_ok=True)
            folder.mkdir(mode=0o700)
            return folder, _endpoint(folder)
        except (OSError, LaunchError):
            pass  # full, read-only, path too long, or the name is taken: fall back to a temporary folder
    folder = Path(tempfile.mkdtemp(prefix="ganglion-"))
    return folder, _endpoint(folder)


def _endpoint(folder: Path) -> str:
    path = folder / _SOCKET
    if len(str(path).encode()) > _PATH_BYTES_MAX:
        raise LaunchError(f"expected a path of at most {_PATH_BYTES_MAX} bytes for the socket, found {path}")
    return f"ipc://{path}"


def _runtime_folder() -> Path | None:
    """Return Ganglion's folder below the user's runtime folder; None if this user owns no runtime folder."""
    text = os.environ.get("XDG_RUNTIME_DIR", "")
    if not text.startswith("/"):
        return None
    try:
        status = os.stat(text)  # noqa: PTH116 - the path is checked, not used as an object
    except OSError:
        return None
    ours = status.st_uid == os.getuid() and stat.S_ISDIR(status.st_mode)
    return Path(text) / "ganglion" if ours else None


def connection_path(folder: Path, results: Path, run: str | None) -> Path:
    """Return the path of the connection file: beside the socket in the runtime folder, else in the results folder."""
    runtime = _runtime_folder()
    if runtime is not None and folder.parent == runtime:
        return folder / CONNECTION
    return results / run / CONNECTION if run else results / ".kernel" / CONNECTION


def write_private(path: Path, data: bytes) -> None:
    """Write a file that only its owner can read, atomically; a symbolic link at `path` is replaced, not followed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_synced(path, data, 0o600)


def read_connection(path: Path) -> Connection:
    """Return the content of a connection file; raise UsageError if it is invalid or other users could access it."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise UsageError(f"{path}: expected a connection file: {error.strerror}") from error
    with os.fdopen(fd, "rb") as file:
        status = os.fstat(file.fileno())
        if status.st_uid != os.getuid() or status.st_mode & 0o077:
            raise UsageError(f"{path}: expected a file of yours with mode 0600; it may be read by others")
        data = file.read(_FILE_BYTES_MAX)
    try:
        found = codec_of(Connection).from_map(json.loads(data))
    except (ValueError, RecursionError, RemoteProtocolError) as error:
        raise UsageError(f"{path}: expected a connection file in JSON: {error}") from error
    if found.pid not in _PIDS:
        raise UsageError(f"{path}: expected a connection file: its pid is not that of a process")
    return found


_PIDS = range(1, 1 << 31)  # kill(2) takes other numbers for process groups


def places(results: Path) -> list[Path]:
    """Return the folders that are searched for connection files."""
    runtime = _runtime_folder()
    return ([runtime] if runtime is not None else []) + [results]


def find_connections(results: Path) -> Sequence[tuple[Path, Connection]]:
    """Return the connection files of this user's living kernels, newest first; invalid files are skipped."""
    found: list[tuple[float, Path, Connection]] = []
    for place in places(results):
        for path in place.glob(f"*/{CONNECTION}"):  # also matches `.kernel`
            try:
                connection = read_connection(path)
                os.kill(connection.pid, 0)
                found.append((path.stat().st_mtime, path, connection))
            except (UsageError, OSError, TypeError):
                continue
    found.sort(key=lambda entry: entry[0], reverse=True)
    return [(path, connection) for _, path, connection in found]


_EVERYWHERE = ("*", "0.0.0.0", "::")  # noqa: S104 - compared, not bound
_MANY = (("operator/*", Role.OPERATOR, "operator"), ("observer/*", Role.OBSERVER, "observer"))


class Access:
    """Hold the tokens of a kernel and, for access from other machines, key pairs for the kernel and for each right."""

    def __init__(self, remote: bool = False) -> None:
        self.supervisor_token = secrets.token_urlsafe(32)
        self.tokens = {right: secrets.token_urlsafe(32) for right in RIGHTS}
        self.server: KeyPair | None = new_pair() if remote else None
        self.keys: dict[str, KeyPair] = {right: new_pair() for right in RIGHTS} if remote else {}

    def order(
        self, endpoints: Sequence[str], remote: Sequence[str], listening: Sequence[int], admissions: Sequence[Admit]
    ) -> bytes:
        """Return the broker's settings: `endpoints` with their inherited descriptors, and the initial admissions."""
        codec = codec_of(Admit)
        order: dict[str, object] = {
            "endpoints": list(endpoints),
            "supervisor_token_sha256": sha256(self.supervisor_token).hex(),
            "listening": list(listening),
            "admissions": [json.loads(codec.encode(admit, Content.JSON)) for admit in admissions],
        }
        if self.server is not None:
            order |= {"remote": list(remote), "secret_key": self.server.secret}
        return json.dumps(order).encode()

    def admissions(self) -> list[Admit]:
        """Return the admissions of operators and observers, and one that makes the attach token known to the broker."""
        many = [
            Admit(name, role.value, "", sha256(self.tokens[right]), curve_key=self._public(right))
            for name, role, right in _MANY
        ]
        return [*many, Admit("attach", Role.ENVIRONMENT.value, "", sha256(self.tokens["attach"]))]

    def admission(self, member: Member) -> Admit:
        """Return the admission of a member of a run; an attached member may join from another machine."""
        place, attached = member.place, member.place.attached
        return Admit(
            member.name,
            place.role.value,
            member.run,
            sha256(self.tokens["attach"] if attached else member.token),
            member.incarnation,
            place.uid,
            place.worker,
            place.uid if attached else None,
            evaluation=place.evaluation,
            curve_key=self._public("attach") if attached else None if member.keys is None else member.keys.public,
            returns=member.returns,
        )

    def local(self, connection: Connection) -> Connection:
        """Return a connection for this machine, with the tokens filled in."""
        named = {f"{right}_token": token for right, token in self.tokens.items()}
        return replace(connection, **named)  # type: ignore[arg-type]

    def remote(self, connection: Connection, bound: str) -> Connection:
        """Return a connection for other machines, with the kernel's address and key and a key pair for each right."""
        assert self.server is not None
        pairs = {right: {"public_key": p.public, "secret_key": p.secret} for right, p in self.keys.items()}
        curve = {"server_key": self.server.public, **pairs}
        return replace(self.local(connection), endpoint=advertised(bound), tcp=None, curve=curve)

    def _public(self, right: str) -> str | None:
        return self.keys[right].public if self.keys else None


def advertised(bound: str) -> str:
    """Return an endpoint as other machines address it; a wildcard address becomes the host name of this machine."""
    endpoint = parse_endpoint(bound)
    if endpoint.host not in _EVERYWHERE:
        return bound
    return str(Endpoint(host=socket.gethostname(), port=endpoint.port))


def sha256(token: str) -> bytes:
    """Return the digest by which the broker knows a token."""
    return hashlib.sha256(token.encode()).digest()


ASKED_S = 1.0
"""How often a client that follows a run asks whether the run is over."""

KEPT = 10_000
"""The most events that are queued during a call to the kernel."""


class Operator(contextlib.AbstractContextManager["Operator"]):
    """Call a kernel as an operator, one call at a time, and follow runs; a context manager."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._missed = 0
        self._events: deque[RunEvent] = deque()
        self._conversation = Conversation()
        self._link = connect_blocking(connection.endpoint, HANDSHAKE_S, connection.keys("operator"))
        hello = Hello(PROTOCOL_VERSION, Role.OPERATOR.value, "operator", connection.operator_token, "python")
        try:
            self._link.send([b"", encode_head(Head(Verb.HELLO, 1)), codec_of(Hello).encode(hello)])
            frames = self._link.receive(HANDSHAKE_S)
            if frames is None:
                raise DeadlineExceeded("the kernel did not answer HELLO in time")
            read_welcome(frames, hello, False)
        except BaseException:
            self._link.close()
            raise

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._link.close()

    def ask(self, call: str, request: Any, span_s: float = DEADLINE_OTHER_S) -> Any:
        """Call the kernel, again while it is busy; return its reply.

        Raises CallFailed, DeadlineExceeded or PeerLost.
        """
        row, now_s = CALL_BY_NAME[call], time.monotonic()
        body = codec_of(row.request).encode(request)
        pending, frames = self._conversation.call(KERNEL, call, body, now_s, span_s)
        self._link.send(frames)
        until_s = now_s + span_s  # other than a participant's deadline, also while the supervisor is absent
        while not (answers := self._hear(until_s)):
            if time.monotonic() >= until_s:
                answers = self._conversation.give_up([pending], time.monotonic())
                break
        if answers[0].error is not None:
            raise answers[0].error
        return codec_of(row.reply).decode(answers[0].body)

    def follow(self, run: str, show: Callable[[RunEvent], None], over: Callable[[], bool]) -> None:
        """Show the events of a run until `over` returns True; `over` is called every second and when the run has ended.

        `over` may call the kernel through this operator. Missed events are shown as a warning with their number.
        """
        self.ask("kernel.subscribe", Subscribe(topic(run, TOPIC)))
        due_s = 0.0
        while True:
            ended = False
            if time.monotonic() >= due_s:
                ended, due_s = over(), time.monotonic() + ASKED_S
            if self._missed:
                text, self._missed = f"{self._missed} events were missed: they came faster than they were read", 0
                show(RunEvent(WARNING, {"text": text}, time.time()))
            while self._events:  # includes the events that arrived during a call to the kernel
                show(event := self._events.popleft())
                due_s = 0.0 if event.event == RUN_ENDED else due_s
            if ended:
                return
            self._hear(due_s)

    def _keep(self, head: Head, body: bytes) -> None:
        """Queue an event until it is shown; if the queue is full, drop the oldest event and count it as missed."""
        if head.call == "kernel.gap":
            self._missed += codec_of(Gap).decode(body).missed
        elif head.call == "event":
            if len(self._events) == KEPT:
                self._events.popleft()
                self._missed += 1
            self._events.append(codec_of(RunEvent).decode(body))

    def _hear(self, until_s: float) -> list[Answer]:
        """Wait for a message until `until_s` at most; keep events, repeat calls that are due, return answers."""
        due_s = self._conversation.deadline_before(until_s)
        frames = self._link.receive(max(0.0, (until_s if due_s is None else due_s) - time.monotonic()))
        now_s = time.monotonic()
        incoming, said = ([], []) if frames is None else self._conversation.receive(frames, now_s)
        for message in (*said, *self._conversation.repeat(now_s)):
            self._link.send(message)
        for one in incoming:
            if type(one) is Notice:
                self._keep(one.head, one.body)
        return [one for one in incoming if type(one) is Answer]


def find_kernel(results: Path, file: Path | None, daemon: bool = False) -> tuple[Path, Connection]:
    """Return the newest living kernel (or daemon), or the kernel of `file`; raise PeerLost if there is none."""
    if file is not None:
        return file, read_connection(file)
    for path, connection in find_connections(results):
        if not (daemon and connection.run is not None):
            return path, connection
    looked = ", ".join(str(place) for place in places(results))
    if daemon:
        raise PeerLost("", f"no daemon is running; looked in {looked}; `ganglion kernel` starts one")
    raise PeerLost("", f"no run is live, and no daemon is running; looked in {looked}")


def find_run(results: Path, file: Path | None, run: str) -> Operator:
    """Return an operator joined to the kernel that knows a run; raise PeerLost if no kernel does."""
    found = [find_kernel(results, file)] if file is not None else list(find_connections(results))
    reasons: list[str] = []
    for path, connection in found:
        try:
            operator = Operator(connection)
        except (PeerLost, DeadlineExceeded, RemoteProtocolError) as error:
            reasons.append(f"{path}: {error}")
            continue
        try:
            operator.ask("kernel.runs", RunRequest(run))
            return operator
        except (CallFailed, PeerLost, DeadlineExceeded) as error:
            operator.close()
            reasons.append(f"{path}: {error.remote_message if isinstance(error, CallFailed) else error}")
    if not found:
        find_kernel(results, file)  # raises PeerLost with the folders that were searched
    raise PeerLost("", f"run {run} is not live: " + "; ".join(reasons))
