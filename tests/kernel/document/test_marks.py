from __future__ import annotations

import math
import tracemalloc
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ganglion.document import marks
from ganglion.document.marks import Node, Source, compose, core_scalar, node_of

SOURCE = Source("a.yml")


def read(text: str) -> tuple[Any, list[str]]:
    """Return the plain value of a text and the first lines of its faults, without the file's name."""
    root, faults = compose(Source.of("a.yml", text), text)
    return (None if root is None else root.plain()), [
        str(f).splitlines()[0].removeprefix("a.yml:") for f in faults
    ]


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
    found = core_scalar(text)

    assert (type(value), value) == (type(found), found)


def test_not_a_number() -> None:
    """`.nan` is a number that is not one."""
    assert math.isnan(core_scalar(".nan"))  # type: ignore[arg-type]


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
        (
            "a: &x {k: 1, l: 2}\nb: {m: 0, <<: *x, l: 3}",
            {"a": {"k": 1, "l": 2}, "b": {"m": 0, "k": 1, "l": 3}},
        ),
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
        (
            "a: !!python/object/apply:os.system [ls]",
            "1:4: the tag !!python/object/apply:os.system is refused",
        ),
        ("a: !mine x", "1:4: the tag !mine is refused"),
        ("a: !!set {x: ~}", "1:4: the tag !!set is refused"),
        ("a: !!int x", "1:4: expected what the tag !!int says, found the text 'x'"),
        ("1: a", "1:1: expected text as a key, found the number 1; write it in quotes"),
        ("[a]: b", "1:1: expected text as a key, found a list; write it in quotes"),
        ("a: {<<: 3}", "1:5: expected a map or a list of maps after <<, found the number 3"),
        ("a: *x", "1:4: the alias *x has no anchor &x before it"),
        ("a: &x [*x]", "1:8: the alias *x stands inside its own anchor"),
        ("a: 1\n---\nb: 1", "2:1: expected one document in a file, found a second one"),
        ("a: [1\nb: 2", "2:2: not YAML: while parsing a flow sequence"),
        ("a: b: c", "1:5: not YAML: mapping values are not allowed in this context"),
        ("a:\n\t- b", "2:1: not YAML: while scanning for the next token"),
        ("a: \x07", r"1:4: the character '\x07' may not stand in a document"),
        ("a: " + "9" * 5000, "1:4: expected a number of at most 4000 digits, found 5000"),
    ],
)
def test_refuses(text: str, fault: str) -> None:
    """What would build objects, comes twice, or is no YAML is a fault at its place, and the only one."""
    found = read(text)[1]

    assert [fault] == [line[: len(fault)] for line in found]


@pytest.mark.parametrize("loader", [yaml.SafeLoader, getattr(yaml, "CSafeLoader", yaml.SafeLoader)])
def test_both_parsers_give_the_same_places(loader: type, monkeypatch: pytest.MonkeyPatch) -> None:
    """With and without libyaml every key and value has the same line and column."""
    monkeypatch.setattr(marks, "_LOADER", loader)
    text = "ä: é\nlist:\n  - {k: 'v'}\n  - [1, two]\n"

    root, _ = compose(Source.of("a.yml", text), text)

    assert root is not None
    listed = root.map["list"]
    places = [root.map["ä"], root.keys["list"], listed.items[0].map["k"], listed.items[1].items[1]]
    assert [(0, 3, 1), (1, 0, 4), (2, 8, 3), (3, 8, 3)] == [(n.line, n.column, n.width) for n in places]


def test_block_map_is_as_wide_as_its_first_key() -> None:
    """The carets of a fault about a whole map stand below its first key."""
    root, _ = compose(Source.of("a.yml", "first: 1\nb: 2"), "first: 1\nb: 2")

    assert root is not None
    assert "a.yml:1:1: wrong\nfirst: 1\n^^^^^" == str(root.fault("wrong"))


NINE = "x,x,x,x,x,x,x,x,x"
BOMBS = {
    "laughs": f"a0: &a0 [{NINE}]\n"
    + "".join(f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 30)),
    "aliases": "a: &a x\nb: [" + "*a, " * 2000 + "]",
    "merges": "m: &m {"
    + ",".join(f"k{i}: 1" for i in range(2000))
    + "}\n"
    + "".join(f"y{i}: {{<<: [{','.join(['*m'] * 20)}]}}\n" for i in range(50)),
    "depth": "[" * 1_000_000,
    "block depth": "- " * 1_000_000,
    "maps": "{a: " * 100_000,
    "keys": "? " * 100_000,
    "scalar": "a: " + "x" * 1_000_000,
    "deep aliases": "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}]\n" for i in range(1, 100)),
}


@pytest.mark.parametrize("name", BOMBS)
def test_bomb_is_refused_unexpanded(name: str) -> None:
    """Bombs of nesting, aliases, merge keys and size end in one fault, before memory is taken."""
    tracemalloc.start()
    value, faults = read(BOMBS[name])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert (None, 1) == (value, len(faults))
    assert "(limit document_" in faults[0] or "(limit scalar_bytes)" in faults[0]
    assert peak < 32 * 2**20


def test_as_many_nodes_as_allowed() -> None:
    """A document of just as many values as are allowed is read, one more is refused."""
    assert [] == read("[" + "x," * (marks.DOCUMENT_NODES - 1) + "]")[1]
    assert 1 == len(read("[" + "x," * marks.DOCUMENT_NODES + "]")[1])


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(PLAIN)
def test_plain_values_survive(value: object) -> None:
    """A tree made of plain values gives them back, as new objects."""
    assert value == node_of(value, SOURCE).plain()


@given(st.text(max_size=60))
def test_any_text_gives_a_tree_or_a_fault(text: str) -> None:
    """Whatever is read, the answer is a tree, or a fault, or nothing for an empty text; never an exception."""
    root, faults = compose(Source.of("a.yml", text), text)

    assert root is None or isinstance(root, Node)
    assert all(str(fault) for fault in faults)


@given(
    st.dictionaries(
        st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1), PLAIN, min_size=1
    )
)
def test_quoted_text_survives(value: dict[str, object]) -> None:
    """What a YAML writer puts into quotes is read as it was."""
    text = yaml.safe_dump(
        {key: repr(part) for key, part in value.items()}, default_style='"', allow_unicode=False
    )

    assert {key: repr(part) for key, part in value.items()} == read(text)[0]
