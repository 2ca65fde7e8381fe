"""The tables of the papers, printed from the code: `python -m ganglion_conformance.papers --write FILE...`.

A document holds sections between `<!-- table: NAME -->` and `<!-- end of NAME -->`; what stands between is replaced.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import io
import json
import re
import sys
import tokenize
import typing
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import ModuleType, NoneType, UnionType
from typing import Any

import msgpack

from ganglion import errors, limits, registry
from ganglion.broker.link import TRANSITIONS, State
from ganglion.broker.rights import RIGHTS
from ganglion.sdk import spaces
from ganglion.sdk.store import StoreWriter
from ganglion.transport.zmtp import GREETING
from ganglion.wire import messages
from ganglion.wire.envelope import decode_head
from ganglion.wire.name import Role
from ganglion.wire.verb import Verb
from ganglion_conformance.kit import cases_of
from ganglion_conformance.recipes import markdown as _table
from ganglion_conformance.recipes import read_recipes, recipe_table
from ganglion_conformance.talk import conversation_text
from ganglion_conformance.vectors.make import refused

_VERBS = {
    Verb.HELLO: "asks to join; the first message of a connection",
    Verb.WELCOME: "the answer to HELLO: joined, under this name, with these bounds",
    Verb.CALL: "asks one peer for something; is answered exactly once",
    Verb.REPLY: "the answer to a CALL, with its serial",
    Verb.ERROR: "the failure of a CALL, with its serial; with serial 0, or instead of WELCOME: this connection ends",
    Verb.TELL: "says something to a peer or a topic; has no answer",
    Verb.SIGNAL: "flow control; has no answer",
    Verb.BEAT: "asks whether the other side is there; with the third element `here` it is the answer",
    Verb.LOST: "a peer that you watch, or whose answer you await, is gone",
    Verb.BYE: "leaves in order, or bids to leave",
}
_ROLES = {
    Role.SUPERVISOR: "starts and ends the processes, announces which peers may join; one per kernel",
    Role.OPERATOR: "a command line or another program that commands runs; any number",
    Role.GOVERNOR: "leads one run through phases and episodes",
    Role.CONTROLLER: "leads one worker: asks muscles, updates environments, sends rows to the store",
    Role.ENVIRONMENT: "a world; one per environment and worker",
    Role.MUSCLE: "acts for an agent in one worker",
    Role.BRAIN: "learns for an agent, over all workers",
    Role.TABLE: "keeps decisions for the brains of one run, which feed and ask it",
    Role.STORE: "keeps the rows of one run",
    Role.OBSERVER: "reads topics and watches peers, and commands nothing",
    Role.RELAY: "joins the processes of another machine, each under its own name",
}
ERRORS = {
    "version": "HELLO names a version of the protocol that the kernel does not speak",
    "token": "the token admits no peer",
    "role": "the token is for another role",
    "name": "the token is not for this name, or the name is taken",
    "incarnation": "a newer process has this name already",
    "busy": "too many open calls, too much waits for the destination, or it is absent; again after `retry_after_ms`",
    "unreachable": "no peer of this name has joined",
    "forbidden": "your role may not say this to that peer",
    "unknown_call": "the callee does not know this call",
    "internal": "the callee itself has a defect; the traceback is its own",
    "protocol": "a message broke the protocol; the text says which frame or field, what was expected and what found",
    "failed": "none of these; the text says what",
}
"""Kinds of errors that are no class of `errors.py`: the broker, or a participant's outermost loop, says them."""
_RELATIONS = {
    "_anyone": "any",
    "_same_run": "of the same run",
    "_same_worker": "of the same worker",
    "_same_agent": "of the same agent",
}
_SECTIONS = ("handshake and strangers", "messages", "flow", "liveness", "spaces, memories, models")
_NOT_ON_THE_WIRE = ("MEMORY_ROWS", "MODEL_", "PROCESSES_PER_RUN", "ADMISSIONS", "WORK_PER_CALLBACK",
    "MESSAGES_PER_CALLBACK", "LISTENER_REST", "CONNECT_AGAIN")  # fmt: skip


def _code(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def type_text(annotation: Any) -> str:
    """Return a field's type in the words of the protocol's document: `list of int`, `text or nil`."""
    words = {int: "int", float: "float", str: "text", bytes: "bytes", bool: "bool", Any: "any"}
    if annotation in words:
        return words[annotation]
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is list:
        return f"list of {type_text(arguments[0])}"
    if origin is dict:
        return f"map of {type_text(arguments[1])}"
    if origin in (typing.Union, UnionType):
        return " or ".join("nil" if a is NoneType else type_text(a) for a in arguments)
    return f"map {annotation.__name__}"


def _remarks(module: ModuleType) -> dict[str, str]:
    """Return the comments behind the assignments of a module, those of a class's fields as `Class.field`."""
    source = inspect.getsource(module)
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = {t.start[0]: t.string.removeprefix("#").strip() for t in tokens if t.type == tokenize.COMMENT}
    found: dict[str, str] = {}

    def look(body: Sequence[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef):
                look(node.body, f"{node.name}.")
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
                said = [comments[n] for n in lines if n in comments]
                if isinstance(target, ast.Name) and said:
                    found[prefix + target.id] = " ".join(said)

    look(ast.parse(source).body, "")
    return found


# == tables ===========================================================================================================
def _verbs() -> str:
    return _table(("number", "verb", "meaning"), ((v.value, f"`{v.name}`", _VERBS[v]) for v in Verb))


def _roles() -> str:
    return _table(("role", "is"), ((f"`{role}`", _ROLES[role]) for role in Role))


def _states() -> str:
    rows = []
    for verb in Verb:
        cells = [TRANSITIONS[state].get(verb) for state in State]
        rows.append((f"`{verb.name}`", *("" if cell is None else cell.value for cell in cells)))
    return _table(("said by a peer that is ...", *(state.value for state in State)), rows)


def _rights() -> str:
    rows = [
        (f"`{source}`", f"`{target}`", _RELATIONS[relation.__name__], _code(v.name for v in sorted(verbs)))
        for (source, target), (verbs, relation) in RIGHTS.items()
    ]
    return _table(("source", "target", "which", "verbs"), rows)


def _calls() -> str:
    rows = []
    for call in messages.CALLS:
        callers = "everybody" if len(call.callers) == len(Role) else _code(call.callers)
        callee = "the kernel" if call.callee is None else f"`{call.callee}`"
        request, reply = _link(call.request), _link(call.reply)
        span_s = limits.DEADLINES_S.get(call.name.rpartition(".")[2], limits.DEADLINE_OTHER_S)
        rows.append((f"`{call.name}`", callers, callee, request, reply, f"{span_s:g}" if span_s else "none"))
    return _table(("call", "from", "to", "request", "reply", "deadline, s"), rows)


def _tells() -> str:
    rows = [
        (f"`{tell.verb.name}`", f"`{tell.name}`" if tell.name else "", tell.senders, tell.receivers, _link(tell.body))
        for tell in messages.TELLS
    ]
    return _table(("verb", "call", "from", "to", "body"), rows)


def _link(kind: type[Any]) -> str:
    return f"[{kind.__name__}](#{kind.__name__.lower()})"


def _messages() -> str:
    kinds = [kind for call in messages.CALLS for kind in (call.request, call.reply)]
    kinds = [*(tell.body for tell in messages.TELLS), *kinds]
    remarks = {name: _remarks(sys.modules[name]) for name in {kind.__module__ for kind in kinds}}
    return "\n".join(_message(kind, remarks[kind.__module__]) for kind in dict.fromkeys(kinds))


def _message(kind: type[Any], remarks: dict[str, str]) -> str:
    text = f"#### {kind.__name__}\n\n{inspect.getdoc(kind)}\n"
    rows = []
    for field in dataclasses.fields(kind):
        default = "required" if field.default is dataclasses.MISSING else _value(field.default)
        said = remarks.get(f"{kind.__name__}.{field.name}", "")
        rows.append((f"`{field.name}`", type_text(field.type), default, said))
    return text + ("\n" + _table(("field", "type", "default", ""), rows) if rows else "")


def _value(value: Any) -> str:
    if value is None:
        return "nil"
    if isinstance(value, bool):
        return str(value).lower()
    return "empty" if value in ("", b"") else f"`{value}`"


def _errors() -> str:
    kinds = [it for it in vars(errors).values() if isinstance(it, type) and issubclass(it, errors.GanglionError)]
    firsts = {kind.kind: (inspect.getdoc(kind) or "").splitlines()[0] for kind in kinds if "kind" in vars(kind)}
    # `Report that a peer is gone.` as `a peer is gone`
    rows = {kind: re.sub(r"^Report (that )?", "", line.removesuffix(".")) for kind, line in firsts.items()} | ERRORS
    return _table(("kind", "means"), ((f"`{kind}`", text) for kind, text in sorted(rows.items())))


def _deadlines() -> str:
    rows = [(f"`{word}`", "none" if s is None else f"{s:g}") for word, s in limits.DEADLINES_S.items()]
    return _table(("last word of the call", "seconds"), [*rows, ("any other", f"{limits.DEADLINE_OTHER_S:g}")])


def _limits() -> str:
    remarks = _remarks(limits)
    section, rows = "", []
    for line in inspect.getsource(limits).splitlines():
        header = re.match(r"# -- (.*?) -+$", line)
        section = header[1] if header else section
        name = re.match(r"([A-Z][A-Z_]+)\b.*=", line)
        if name and section in _SECTIONS and not name[1].startswith(_NOT_ON_THE_WIRE):
            rows.append((f"`{name[1].lower()}`", f"{getattr(limits, name[1]):,}", remarks.get(name[1], "")))
    return _table(("bound", "value", "why"), rows)


def _spaces() -> str:
    examples = [
        spaces.Box(0.0, 1.0, ()),
        spaces.Box(-1.0, float("inf"), (2, 3), "float32"),
        spaces.Box([0, 1], [5, 9], (2,), "int64"),
        spaces.Discrete(4),
        spaces.MultiDiscrete([3, 5]),
        spaces.MultiBinary(3),
        spaces.Mask(4, of="move"),
        spaces.Ragged(spaces.Box(0.0, 1.0, (5, 2), "float32")),
        spaces.Tuple([spaces.Discrete(2), spaces.Box(0.0, 1.0, (2,))]),
        spaces.Dict({"a": spaces.Discrete(2), "b": spaces.MultiBinary(2)}),
    ]
    rows = []
    for space in examples:
        vector = f"{space.size} elements of `{space.dtype.newbyteorder('<').str}`"
        row = (f"`{space.to_string()}`", f"`{json.dumps(space.to_wire())}`")
        rows.append((*row, "a number" if space.scalar else vector))
    return _table(("space", "as a map", "its values in a row"), rows)


def _records() -> str:
    block = re.search(r"```text\n.*?```", inspect.getdoc(StoreWriter.apply) or "", re.DOTALL)
    assert block is not None, "StoreWriter.apply lists no records"
    return block[0] + "\n"


def _greeting() -> str:
    cuts = [
        (0, 10, "signature"),
        (10, 11, "major version"),
        (11, 12, "minor version; 0 and 1 are understood"),
        (12, 32, "mechanism: `NULL`, filled up with zeros"),
        (32, 33, "as-server"),
        (33, 64, "filler"),
    ]
    rows = [(f"{a} to {b - 1}" if b - a > 1 else a, f"`{GREETING[a:b].hex()}`", what) for a, b, what in cuts]
    return _table(("bytes", "hex", "is"), rows)


def _msgpack() -> str:
    examples: list[tuple[str, str, list[Any]]] = [
        ("nil, false, true", "`c0`, `c2`, `c3`", [None, False, True]),
        ("integer 0 to 127; -32 to -1", "the byte itself", [7, -1]),
        (
            "other integers, big-endian",
            "`cc` `cd` `ce` `cf` (1, 2, 4, 8 bytes, from 0), `d0` `d1` `d2` `d3` (signed)",
            [200, -200, 70_000],
        ),
        ("double, big-endian", "`cb` (8 bytes); `ca` is one of 4 bytes, to be read", [0.5]),
        ("text in UTF-8: length, bytes", "`a0` to `bf` (up to 31), `d9` `da` `db` (length in 1, 2, 4 bytes)", ["id"]),
        ("bytes: length, bytes", "`c4` `c5` `c6` (length in 1, 2, 4 bytes)", [b"\x01\x02"]),
        ("array: number, elements", "`90` to `9f` (up to 15), `dc` `dd` (2, 4 bytes)", [[1, 2]]),
        ("map: number, key and value in turn", "`80` to `8f` (up to 15), `de` `df` (2, 4 bytes)", [{"n": 11}]),
    ]
    rows = [
        (what, first, ", ".join(f"{_shown(one)}: `{msgpack.packb(one).hex()}`" for one in all_))
        for what, first, all_ in examples
    ]
    return _table(("type", "first byte", "examples"), rows)


def _shown(value: Any) -> str:
    return f"bytes {value.hex(' ')}" if isinstance(value, bytes) else f"`{json.dumps(value)}`"


def _refusals() -> str:
    rows = [
        (row["name"], f"`{decode_head(bytes.fromhex(row['frames'][1])).call}`", f"`{row['frames'][2]}`")
        for row in refused()
        if row["by"] == "environment"
    ]
    return _table(("what is asked", "call", "body"), rows)


def _clauses() -> str:
    rows = [
        (f"`{one.name}`", ", ".join(one.roles), "must" if one.must else "should", one.text, one.heading)
        for role in ("environment", "muscle")
        for one in cases_of(role)
        if role == "environment" or "environment" not in one.roles
    ]
    return _table(("case", "of", "", "clause", "section"), rows)


def _groups() -> str:
    rows = []
    for key, group in registry.GROUPS.items():
        base = f"`{group.base.replace(':', '.')}`" if group.base else ""
        rows.append((f"`{key}`", f"`{group.entry_points}`", base))
    return _table(("kind", "group of entry points", "base class"), rows)


TABLES: dict[str, Callable[[], str]] = {
    "roles": _roles,
    "greeting": _greeting,
    "verbs": _verbs,
    "spaces": _spaces,
    "states": _states,
    "rights": _rights,
    "calls": _calls,
    "tells": _tells,
    "messages": _messages,
    "errors": _errors,
    "deadlines": _deadlines,
    "limits": _limits,
    "records": _records,
    "conversation": lambda: f"```text\n{conversation_text()}```\n",
    "groups": _groups,
    "msgpack": _msgpack,
    "refusals": _refusals,
    "clauses": _clauses,
    "foreign": lambda: recipe_table(read_recipes()),
}


def render(document: str) -> str:
    """Return a document with its marked sections filled anew; KeyError names a section that there is not."""

    def fill(found: re.Match[str]) -> str:
        return f"{found[1]}\n{TABLES[found[2]]().rstrip()}\n{found[3]}"

    return re.sub(r"(<!-- table: (\w+) -->)\n.*?(<!-- end of \2 -->)", fill, document, flags=re.DOTALL)


def main(arguments: Sequence[str]) -> int:
    """Print documents with their sections filled, or write them in place with `--write`; returns the exit status."""
    files = [argument for argument in arguments if argument != "--write"]
    if not files:
        sys.stderr.write("usage: python -m ganglion_conformance.papers [--write] FILE...\n")
        return 2
    for path in map(Path, files):
        old = path.read_text()
        new = render(old)
        if "--write" not in arguments:
            sys.stdout.write(new)
        elif new != old:
            path.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
