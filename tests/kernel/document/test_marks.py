from __future__ import annotations

import math
import tracemalloc
from typing import Any

import pytest

from ganglion.document.fault import Fault
from ganglion.document.marks import Source, compose, pointed
from ganglion.limits import DOCUMENT_BYTES, DOCUMENT_FAULTS


def read(text: str) -> tuple[Any, list[str]]:
    """Return the plain value of a text and the first lines of its faults, without the file's name."""
    root, faults = compose(Source("a.yml", text), text)
    return (None if root is None else root.plain()), [str(f).splitlines()[0].removeprefix("a.yml:") for f in faults]


SCALARS = [
    ("1e-4", 1e-4),
    ("12", 12),
    ("-007", -7),
    ("0o17", 15),
    ("0x1F", 31),
    ("1.", 1.0),
    (".5", 0.5),
    ("+.inf", math.inf),
    ("-.INF", -math.inf),
    ("true", True),
    ("False", False),
    ("~", None),
    ("null", None),
    ("", None),
    ("yes", "yes"),
    ("on", "on"),
    ("12:30", "12:30"),
    ("0b11", "0b11"),
    ("1_000", "1_000"),
    ("2026-01-01", "2026-01-01"),
    ("tRue", "tRue"),
    ("1e", "1e"),
    ("0.1.0", "0.1.0"),
    ("-", "-"),
    (".", "."),
    ("=", "="),
]


@pytest.mark.parametrize(("text", "value"), SCALARS)
def test_core_schema(text: str, value: object) -> None:
    """Plain scalars mean what the core schema of YAML 1.2 says."""
    found = read(f"[{text}]" if text else "- ")[0][0]

    assert (type(value), value) == (type(found), found)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: '5'", {"a": "5"}),
        ('a: "yes"', {"a": "yes"}),
        ("a: !!str 5", {"a": "5"}),
        ("a: !!int '7'", {"a": 7}),
        ("a: !!float 3", {"a": 3.0}),
        ("%YAML 1.2\n---\na: 1\n...\n", {"a": 1}),
        ("a: &x [1]\nb: *x", {"a": [1], "b": [1]}),
        ("a: &n name\n*n : 3", {"a": "name", "name": 3}),
        ("a: &x {k: 1, l: 2}\nb: {m: 0, <<: *x, l: 3}", {"a": {"k": 1, "l": 2}, "b": {"m": 0, "k": 1, "l": 3}}),
        (
            "a: &x {k: 1}\nb: &y {k: 2, l: 3}\nc: {<<: [*x, *y]}",
            {"a": {"k": 1}, "b": {"k": 2, "l": 3}, "c": {"k": 1, "l": 3}},
        ),
        ("'<<': 3", {"<<": 3}),
        ("a: |\n  two\n  lines\n", {"a": "two\nlines\n"}),
    ],
)
def test_reads(text: str, value: object) -> None:
    """Quotes, core tags, directives, anchors, aliases as values and keys, and merge keys work."""
    assert (value, []) == read(text)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a: 1\nb: 2\na: 3", "3:1: duplicate key `a`, first given in line 1"),
        ("a: &x {k: 1}\nb: {<<: *x, <<: *x}", "2:13: duplicate key `<<`, first given in line 2"),
        ("a: !!python/object/apply:os.system [ls]", "1:4: the tag !!python/object/apply:os.system is refused"),
        ("a: !mine x", "1:4: the tag !mine is refused"),
        ("a: !!set {x: ~}", "1:4: the tag !!set is refused"),
        ("a: !!int x", "1:4: expected a value of the tag !!int, found the text 'x'"),
        ("1: a", "1:1: expected text as a key, found the number 1; write it in quotes"),
        ("[a]: b", "1:1: expected text as a key, found a list; write it in quotes"),
        ("a: {<<: 3}", "1:5: expected a map or a list of maps after <<, found the number 3"),
        ("a: *x", "1:4: the alias *x has no anchor &x before it"),
        ("a: &x [*x]", "1:8: the alias *x is inside its own anchor"),
        ("a: 1\n---\nb: 1", "2:1: expected one document in a file, found a second one"),
        ("a: [1\nb: 2", "2:2: not YAML: while parsing a flow sequence that begins at 1:4, "),
        ("a: b: c", "1:5: not YAML: mapping values are not allowed in this context"),
        ("a:\n\t- b", "2:1: not YAML: a tab; lines are indented by spaces alone"),
        ("a\nb: 1", "1:1: not YAML: expected `key: value`, found no colon"),
        ('a: "b\nc: d\ne: "f"', "1:4: not YAML: the quote that is opened here is closed in line 3 only, and behind"),
        ("a: 'b\nc: 'd'\ne: f", "1:4: not YAML: the quote that is opened here is closed in line 2 only, and behind"),
        ('a: b\nc: "d\ne: f', "2:4: not YAML: the quote that is opened here is not closed"),
        ('a: "b\n c"\nd: [1', "3:6: not YAML: while parsing a flow sequence"),
        ("a: \x07", r"1:4: the character '\x07' is not allowed in a document"),
        ("a: " + "9" * 5000, "1:4: expected a number of at most 4000 digits, found 5000"),
    ],
)
def test_refuses(text: str, fault: str) -> None:
    """What would build objects, comes twice, or is no YAML is a fault at its place, and the only one."""
    found = read(text)[1]

    assert [fault] == [line[: len(fault)] for line in found]


NINE = "x,x,x,x,x,x,x,x,x"
MIB = 2**20
BOMBS = {
    "laughs": f"a0: &a0 [{NINE}]\n" + "".join(f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 30)),
    "aliases": "a: &a x\nb: [" + "*a, " * 2000 + "]",
    "a million aliases": "a: &a x\nb: [" + "*a," * 1_000_000 + "]",
    "merges": f"m: &m {{{','.join(f'k{i}: 1' for i in range(2000))}}}\n" + f"y: {{<<: [{','.join(['*m'] * 999)}]}}\n",
    "depth": "[" * MIB,
    "keys": "? " * MIB,
    "scalar": "a: " + "x" * (4 * MIB - 3),
    "quoted scalar": 'a: "' + "x" * (4 * MIB - 5) + '"',
    "lines": "a: x\n" + "  x\n" * (MIB - 2),
    "deep aliases": "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}]\n" for i in range(1, 100)),
    "numbers": "a: [" + "1," * 500_000 + "1]",
    "lists": "[" + "[]," * MIB + "]",
    "pairs": "[" + "a: ," * 500_000 + "]",
    "written keys": "".join(f"k{i}: {i}\n" for i in range(200_000)),
    "anchors": "[" + "".join(f"&a{i} 1," for i in range(300_000)) + "]",
    "tags": "[" + "!!str 1," * 400_000 + "]",
}


ALIKE = ("pairs", "written keys", "anchors", "tags")  # stopped where `numbers` and `lists` are


@pytest.mark.parametrize("name", [pytest.param(it, marks=[pytest.mark.long] * (it in ALIKE)) for it in BOMBS])
def test_bomb_is_refused_unexpanded(name: str) -> None:
    """Bombs of nesting, aliases, merge keys, values and size end in one fault, which names the bound."""
    text = BOMBS[name]

    value, faults = read(text)

    assert len(text) <= DOCUMENT_BYTES
    assert (None, 1) == (value, len(faults))
    bounds = ("(limit document_", "(limit scalar_bytes)", "exceeded maximum nesting depth")  # libyaml has one, too
    assert any(bound in faults[0] for bound in bounds)


@pytest.mark.parametrize("name", ["laughs", "aliases", "merges", "quoted scalar", "deep aliases"])
def test_bomb_takes_no_memory(name: str) -> None:
    """What is refused unexpanded has never been in memory."""
    tracemalloc.start()
    read(BOMBS[name])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 32 * MIB


@pytest.mark.parametrize("text", ["[" + "!x 1," * 90_000 + "]", "{" + "a: 1," * 200_000 + "}", "{" + "1: 1," * 200_000])
def test_faults_are_bounded(text: str) -> None:
    """Of a hundred thousand faults of one kind the first ones are said."""
    root, faults = compose(Source("a.yml"), text)

    assert root is None
    assert DOCUMENT_FAULTS == len(faults)


def test_message_is_bounded() -> None:
    """A name of megabytes is said by its beginning."""
    _, faults = compose(Source("a.yml"), "a: *" + "x" * MIB)

    assert ["the alias *xxx"] == [fault.message[:14] for fault in faults]
    assert len(faults[0].message) <= 1_000


def test_faults_before_a_syntax_error_are_kept() -> None:
    """What is wrong before a syntax error is said beside it, in collections that are open still, too."""
    text = "{a: 1, a: 2, b: [" + "1," * 100_000 + "\n] : : }"

    first, second = read(text)[1]

    assert "1:8: duplicate key `a`, first given in line 1" == first
    assert second.startswith("2:3: not YAML")


@pytest.mark.parametrize(
    ("message", "place", "path"),
    [
        ("parameter 'spead' is not taken; expected speed, low", (2, 27), "a.0.params.spead"),
        ("condition `x`: low: expected a number, found 'a'", (3, 4), "a.0.params.low"),
        ("environment hill (worker 1): high is at least 1, found 0", (4, 22), "a.0.params.high"),
        ("parameter 'speed' is missing and has no default", (2, 12), "a.0.name"),
        ("it raises at low tide", (2, 12), "a.0.name"),
    ],
)
def test_faults_that_name_a_parameter_are_at_its_key(message: str, place: tuple[int, int], path: str) -> None:
    """What a plugin says of one of its parameters stands at that parameter; anything else where it was."""
    text = "a:\n  - {name: bird, params: {spead: 1,\n   low: a},\n   per_worker: [{}, {high: 0}]}\n"
    text += "  - {name: cat, params: {speed: 1}}\n"
    [found] = pointed([Fault("error", "a.yml", 2, 12, "a.0.name", message)], "a.yml", text)

    assert (place, path) == ((found.line, found.column), found.path)
    assert text.split("\n")[found.line - 1] == found.text
