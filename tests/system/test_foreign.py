"""Programs of other languages on the bus: built, asked clause by clause, run for real, compared bit by bit."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgpack
import pytest
import zmq
from system.command import GANGLION, ganglion
from system.languages import names, program_of

from ganglion.supervisor.connection import find_connections, read_connection
from ganglion.supervisor.toolchain import Program

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="programs are started and watched as on Linux"
)

FOREIGN = Path(__file__).parents[2] / "plugins" / "foreign"
WAIT_S = 60.0  # nothing here takes so long unless it is broken
HELLO, WELCOME, CALL, REPLY, ERROR, BEAT, BYE = 1, 2, 3, 4, 5, 8, 10
DOCUMENT = """\
uid: swing
seed: 7
version: "0.1"
schedule:
  - act:
      environments:
        - environment: {uid: world, FORM}
      agents:
        - name: scout
          muscle: {name: random}
          objective: {name: aggregate_rewards}
          sensors: ["world.*"]
          actuators: ["world.*"]
      simulation:
        name: vanilla
        conditions: [{name: environment}]
      phase_config: {mode: test, worker: WORKERS, episodes: EPISODES}
run_config:
  condition: {name: vanilla}
recovery: {deadlines_s: {join: 20, update: 5}}
"""


@pytest.fixture(params=names())
def program(request: pytest.FixtureRequest) -> Program:
    """Return the pendulum of each language whose tools are here."""
    return program_of(request.param, request.config)


def _form(program: Program) -> str:
    """Return a program as the form of an environment in a document."""
    variables = f", variables: {json.dumps(program.variables)}" if program.variables else ""
    return f"command: {json.dumps(program.argv)}{variables}"


# == clause by clause: the test is the kernel =========================================================================
class Kernel:
    """Be the bus for one program, over a real socket."""

    def __init__(self, program: Program) -> None:
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.ROUTER)
        self.socket.linger = 0
        self.socket.rcvtimeo = int(1000 * WAIT_S)
        port = self.socket.bind_to_random_port("tcp://127.0.0.1")
        place = {"GANGLION_ENDPOINT": f"tcp://127.0.0.1:{port}", "GANGLION_NAME": "r/environment/world/0"}
        variables = {**os.environ, **program.variables, **place, "GANGLION_TOKEN": "secret"}
        self.process = subprocess.Popen(program.argv, env=variables, stderr=subprocess.PIPE, text=True)
        self.identity, _, self.hello_head, self.hello = self.socket.recv_multipart()
        self.serial = 0

    def say(self, source: str, head: list[Any], body: Mapping[str, Any] | None) -> None:
        """Send a message."""
        packed = b"" if body is None else msgpack.packb(body)
        self.socket.send_multipart([self.identity, source.encode(), msgpack.packb(head), packed])

    def hear(self) -> tuple[str, list[Any], dict[str, Any]]:
        """Return destination, head and body of the next message."""
        _, to, head, *rest = self.socket.recv_multipart()
        return to.decode(), msgpack.unpackb(head), msgpack.unpackb(rest[0]) if rest and rest[0] else {}

    def ask(self, call: str, body: Mapping[str, Any] | None = None, serial: int | None = None) -> Any:
        """Send a CALL; return the body of its REPLY, or its ERROR as text."""
        self.serial = self.serial + 1 if serial is None else serial
        self.say("r/controller/0", [CALL, self.serial, call, None, 5000], body)
        to, head, answer = self.hear()
        assert ("r/controller/0", self.serial) == (to, head[1])
        return answer if head[0] == REPLY else f"{ERROR == head[0]} {answer['kind']}: {answer['message']}"

    def end(self) -> tuple[int, str]:
        """Return exit status and last words of the program."""
        _, words = self.process.communicate(timeout=WAIT_S)
        return self.process.returncode, words

    def close(self) -> None:
        """Leave nothing behind."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        self.context.destroy()


@pytest.fixture
def kernel(program: Program) -> Iterator[Kernel]:
    """Return a kernel to which a program has said HELLO."""
    kernel = Kernel(program)
    yield kernel
    kernel.close()


@pytest.fixture
def joined(kernel: Kernel) -> Kernel:
    """Return a kernel that a program has joined."""
    kernel.say("", [WELCOME, 1], {"version": 1, "name": "r/environment/world/0"})
    return kernel


def _bits(*values: float) -> str:
    return " ".join(struct.pack(">d", value).hex() for value in values)


def test_hello_says_who_it_is(kernel: Kernel) -> None:
    """A program says version, role, name and token, with text as text."""
    hello = msgpack.unpackb(kernel.hello)

    assert [HELLO, 1] == msgpack.unpackb(kernel.hello_head)
    assert {"version": 1, "role": "environment", "name": "r/environment/world/0", "token": "secret"} == {
        key: hello[key] for key in ("version", "role", "name", "token")
    }


def test_refusal_is_told(kernel: Kernel) -> None:
    """A program that is refused ends with status 1 and says the kernel's reason."""
    kernel.say("", [ERROR, 1], {"kind": "token", "message": "token: it admits nobody"})

    status, words = kernel.end()
    assert 1 == status
    assert "token: it admits nobody" in words


def test_bits_are_those_of_the_reference(joined: Kernel) -> None:
    """200 steps of seed 0, and the beginning of a seed of 52 bits, are equal to the last bit."""
    declared = joined.ask("environment.start", {"seed": 0, "uid": "world"})
    first = _bits(*declared["readings"][0])
    rewards = []
    states = {}
    for i in range(200):
        answer = joined.ask("environment.update", {"setpoints": [[((7 * i) % 11) * 0.5 - 2.5]]})
        rewards.append(answer["rewards"][0][0])
        states[i + 1] = _bits(*answer["readings"][0], rewards[-1])
        assert (i + 1, i == 199, False) == (
            answer["ticks"],
            answer["truncated"],
            answer.get("terminated", False),
        )
    second = joined.ask("environment.reset", {"episode": 1, "seed": 3936898253221180})

    assert ["cos", "sin", "speed"] == [sensor["id"] for sensor in declared["sensors"]]
    assert "bfd2f3c265315f45 bfee90932a3878b6 3fe05bd66ce0b7ac" == first
    assert "bfd47d686939d7d0 bfee50d146ffc71c bfe02a318c633c78 c0055bcde2632505" == states[1]
    assert "bfd713e2922cbdaf 3fedd8e1f4f58629 3fec1f921534d54f c006653419bd905c" == states[200]
    total = 0.0
    for reward in rewards:  # not sum(): newer Pythons add more exactly than one after the other
        total += reward
    assert "c08a8b750b1cb799" == _bits(total)
    assert "bfba95c67b0c3d36 bfefd3b5199145ef 3fdf94852dbf290c" == _bits(*second["readings"][0])


def test_what_cannot_be_done_is_an_error_and_no_more(joined: Kernel) -> None:
    """A wrong call is answered with ERROR, and the next right one as if nothing had been."""
    update = "environment.update"
    early = joined.ask(update, {"setpoints": [[0.0]]})
    unknown = joined.ask("environment.dance", {})
    seedless = joined.ask("environment.start", {})
    begun = joined.ask("environment.start", {"seed": 5})
    wrong = [
        joined.ask(update, {"setpoints": rows}) for rows in ([[float("nan")]], [[]], [["1"]], [[0, 0]], [])
    ]
    kept = joined.ask(update, {"setpoints": [[]], "actuators": []})
    again = joined.ask("environment.start", {"seed": 5})
    right = joined.ask(update, {"setpoints": [[0]]})

    assert [True] * 8 == [str(text).startswith("True ") for text in (early, unknown, seedless, *wrong)]
    assert unknown.startswith("True unknown_call: ")
    assert begun == again
    assert kept == right  # no setpoint is none, an integer is a number, and no refusal was a step


def test_clipping_is_as_declared(joined: Kernel) -> None:
    """A torque beyond its bounds acts like the bound."""
    answers = []
    for torque in (1e300, 2, -2.0, float("-inf")):
        joined.ask("environment.start", {"seed": 5})
        answers.append(joined.ask("environment.update", {"setpoints": [[torque]]}))

    assert answers[0] == answers[1] != answers[2] == answers[3]


def test_repeat_is_answered_not_executed(joined: Kernel) -> None:
    """The same CALL again gets the same answer, also after a BEAT; the next one makes the next step."""
    joined.ask("environment.start", {"seed": 1})
    first = joined.ask("environment.update", {"setpoints": [[1.0]]})
    joined.say("", [BEAT, 1], None)
    here = joined.hear()
    repeated = joined.ask("environment.update", {"setpoints": [[1.0]]}, serial=joined.serial)
    second = joined.ask("environment.update", {"setpoints": [[1.0]]})

    assert ("", [BEAT, 1, "here"]) == here[:2]
    assert first == repeated
    assert (1, 2) == (first["ticks"], second["ticks"])


def test_leaves_in_order(joined: Kernel) -> None:
    """A shutdown ends the phase, not the program; BYE is answered and the program ends with 0, having said nothing."""
    joined.ask("environment.start", {"seed": 1})
    down = joined.ask("environment.shutdown")
    again = joined.ask("environment.start", {"seed": 1})
    joined.say("supervisor", [BYE, 1], None)

    assert {} == down
    assert "sensors" in again
    assert BYE == joined.hear()[1][0]
    assert (0, "") == joined.end()


# == real runs ========================================================================================================
def _document(folder: Path, form: str, workers: int = 1, episodes: int = 1) -> Path:
    path = folder / "swing.yml"
    text = DOCUMENT.replace("FORM", form).replace("WORKERS", str(workers)).replace("EPISODES", str(episodes))
    path.write_text(text)
    return path


def _ganglion(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return ganglion(folder, *arguments)


def _steps(folder: Path, run: str) -> list[dict[str, Any]]:
    shown = _ganglion(folder, "results", "--table", "steps", "--format", "json", run)
    assert 0 == shown.returncode, shown.stderr
    return [{key: value for key, value in row.items() if key != "run"} for row in json.loads(shown.stdout)]


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    """Return folder and steps of a run with the Python plugin `pendulum`, two workers, two episodes each."""
    folder = tmp_path_factory.mktemp("reference")
    done = _ganglion(
        folder, "-q", "run", str(_document(folder, "name: pendulum", 2, 2)), "--name", "reference"
    )
    assert 0 == done.returncode, done.stderr
    return folder, _steps(folder, "reference")


def test_program_and_plugin_give_equal_results(
    program: Program, reference: tuple[Path, list[dict[str, Any]]], tmp_path: Path
) -> None:
    """Two documents that differ in `name` and `command` only leave equal rows in every table."""
    folder, expected = reference
    name = f"by-{Path(program.argv[-1]).suffix.strip('.') or 'c'}"
    document = _document(tmp_path, _form(program), 2, 2)
    done = _ganglion(folder, "-q", "run", str(document), "--name", name)

    assert (0, "") == (done.returncode, done.stderr)
    assert 2 * 2 * 200 == len(expected)
    assert expected == _steps(folder, name)
    assert 0 == _ganglion(folder, "runs", "diff", "reference", name).returncode


def _attached(folder: Path, document: Path, program: Program, *options: str) -> tuple[int, str, int, str]:
    """Run a document that waits for `world`, and start a program by hand once it does; return how both ended.

    With `options` the run listens for other machines too, and the program gets the keys for that.
    """
    words = [GANGLION, "--results", str(folder / "results"), "--json", "run", str(document), "--name", "r"]
    words += options
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder
    ) as command:
        assert command.stdout is not None
        waits = next((line for line in command.stdout if json.loads(line)["event"] == "waiting"), None)
        assert waits is not None, command.stderr.read()  # type: ignore[union-attr]
        found = [
            connection for _, connection in find_connections(folder / "results") if connection.run == "r"
        ]
        place = {"GANGLION_ENDPOINT": found[0].tcp or "", "GANGLION_TOKEN": found[0].attach_token}
        if options:
            path = next(
                path for path, connection in find_connections(folder / "results") if connection.run == "r"
            )
            remote = read_connection(path.with_name("remote.json"))
            keys = remote.keys("attach")
            assert keys is not None
            place = {**place, **keys.variables(), "GANGLION_ENDPOINT": remote.endpoint}
        variables = {**os.environ, **program.variables, **place, "GANGLION_NAME": "world"}
        with subprocess.Popen(program.argv, env=variables, stderr=subprocess.PIPE, text=True) as attached:
            _, said = command.communicate(timeout=4 * WAIT_S)
            _, words_left = attached.communicate(timeout=WAIT_S)
    return command.returncode, said, attached.returncode, words_left


@pytest.mark.parametrize(
    "program",
    [
        pytest.param("python", marks=pytest.mark.long),
        pytest.param("c", marks=pytest.mark.long),
        pytest.param("javascript", marks=pytest.mark.long),
    ],
    indirect=True,
)
def test_ten_thousand_steps_attached(program: Program, tmp_path: Path) -> None:
    """An unmodified client that was started by hand steps 10,000 times over the native front, and leaves with 0."""
    ended = _attached(tmp_path, _document(tmp_path, "attach: true", 1, 50), program)

    assert (0, "", 0, "") == ended
    rows = _steps(tmp_path, "r")
    assert 10_000 == len(rows)
    assert 50 == sum(bool(row["truncated"]) for row in rows)


@pytest.mark.parametrize(
    "program",
    [
        pytest.param("python", marks=pytest.mark.long),
        pytest.param("c", marks=pytest.mark.slow),
        pytest.param("javascript", marks=pytest.mark.long),
    ],
    indirect=True,
)
def test_attached_by_curve(program: Program, tmp_path: Path) -> None:
    """A client attaches with keys to an encrypted endpoint, as from another machine, and steps as it does here."""
    document = _document(tmp_path, "attach: true", 1, 1)
    ended, said, *left = _attached(tmp_path, document, program, "--bind", "tcp://127.0.0.1:0")

    assert (0, [0, ""]) == (ended, left), said
    assert 200 == len(_steps(tmp_path, "r"))


DEALER = """\
import msgpack, os, zmq
dealer = zmq.Context().socket(zmq.DEALER)
dealer.linger = 500
dealer.connect(os.environ["GANGLION_ENDPOINT"])
def send(to, head, body): dealer.send_multipart([to, msgpack.packb(head), msgpack.packb(body)])
who = {"name": os.environ["GANGLION_NAME"], "token": os.environ["GANGLION_TOKEN"]}
send(b"", [1, 1], {"version": 1, "role": "environment", **who})
box = {"type": "box", "shape": [], "dtype": "<f8", "low": 0, "high": 9}
one = [{"id": "x", "space": box}]
verb, step = 0, 0
while verb != 10:
    source, head, *_ = dealer.recv_multipart()
    verb, serial, call = [*msgpack.unpackb(head), None][:3]
    step = step + 1 if call == "environment.update" else 0
    rows = {"readings": [[step]], "rewards": [[step]] if step else [], "terminated": step == 5, "ticks": step}
    if call == "environment.start": rows = {**rows, "sensors": one, "actuators": one, "rewards": one}
    if verb == 3: send(source, [4, serial], rows if call != "environment.shutdown" else {})
    if verb == 8: send(b"", [8, serial, "here"], {})
    if verb == 10: send(b"", [10, serial], {})
dealer.close()
"""


def test_twenty_lines_attach(tmp_path: Path) -> None:
    """Twenty lines with pyzmq are an environment: an integer is taken for a float, and skipped keys do no harm."""
    path = tmp_path / "dealer.py"
    path.write_text(DEALER)
    program = Program([sys.executable, str(path)])
    ended = _attached(tmp_path, _document(tmp_path, "attach: true", 1, 2), program)

    assert 20 == len(DEALER.splitlines())
    assert (0, "", 0, "") == ended
    rows = _steps(tmp_path, "r")
    assert [1, 2, 3, 4, 5] * 2 == [row["step"] for row in rows]
    assert [False, False, False, False, True] * 2 == [bool(row["terminated"]) for row in rows]


# == what is said when a program fails ================================================================================
BREAK = {
    "import sys; sys.exit('no port')": ("ended with exit status 1", "no port"),
    "raise SystemExit(0)": ("ended with exit status 0", "its output: nothing"),
    "import os; os.kill(os.getpid(), 9)": ("was killed by SIGKILL", "its output: nothing"),
}


@pytest.mark.parametrize("code", BREAK)
def test_program_that_ends_is_named(code: str, tmp_path: Path) -> None:
    """A program that ends before it has joined fails the run by its name, with its status and last words."""
    done = _ganglion(
        tmp_path, "-q", "run", str(_document(tmp_path, _form(Program([sys.executable, "-c", code]))))
    )

    status, words = BREAK[code]
    assert 1 == done.returncode
    assert done.stderr.startswith(f"failed: environment world (worker 0) {status}\n")
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_program_that_is_missing_is_named(tmp_path: Path) -> None:
    """A program that is not there fails the run with the reason of the system."""
    done = _ganglion(tmp_path, "-q", "run", str(_document(tmp_path, "command: [./nowhere]", 2)))

    assert 1 == done.returncode
    assert done.stderr.startswith("failed: environment world (worker ")
    assert "cannot start ./nowhere: No such file or directory" in done.stderr
    assert "Traceback" not in done.stderr


def test_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    """A program whose working folder is not there fails the run, without the words of our own machinery."""
    done = _ganglion(tmp_path, "-q", "run", str(_document(tmp_path, "command: [./a], cwd: b")))

    assert 1 == done.returncode
    words = f"could not be started: cannot start ./a: there is no folder {tmp_path / 'b'}\n"
    assert f"failed: environment world (worker 0) {words}" == done.stderr


ANSWERS = {
    '"readings": [[step]]': {
        '"readings": [[99 * step]]': "readings.x: expected a value of Box",
        '"readings": [["a"]]': "readings.x: expected a value of Box",
        '"readings": [[]]': "readings: expected one row of 1 values, found 0 values",
        '"readings": 7': "readings: expected a list, found 7",
    },
    "if verb == 3: send(source, [4, serial], rows": {
        'if verb == 3: send(source, [5, serial], {"kind": "author", "message": "too hot"}': "author: too hot",
    },
}


@pytest.mark.parametrize(("old", "new"), [(old, new) for old, row in ANSWERS.items() for new in row])
def test_wrong_answer_is_blamed_on_the_program(old: str, new: str, tmp_path: Path) -> None:
    """An answer that does not fit its declaration fails the run in the program's name, not in its reader's."""
    assert old in DEALER
    path = tmp_path / "dealer.py"
    path.write_text(DEALER.replace(old, new))
    form = _form(Program([sys.executable, str(path)]))
    done = _ganglion(tmp_path, "-q", "run", str(_document(tmp_path, form)))

    assert 1 == done.returncode
    assert done.stderr.startswith("failed: environment world (worker 0): ")
    assert ANSWERS[old][new] in done.stderr.splitlines()[0]
    assert "Traceback" not in done.stderr
