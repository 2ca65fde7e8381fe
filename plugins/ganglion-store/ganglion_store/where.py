"""The language of `--where`: columns and literals compared; parsed here, never pasted into SQL.

```text
condition  = and-term { "or" and-term }
and-term   = not-term { "and" not-term }
not-term   = "not" not-term | "(" condition ")" | comparison
comparison = operand ( ("=" | "!=" | "<" | "<=" | ">" | ">=") operand
                     | ["not"] "in" "(" literal { "," literal } ")"
                     | ["not"] "like" text
                     | "is" ["not"] "null"
                     | nothing, if the operand is a boolean column )
operand    = column | literal
literal    = number | 'text' | "text" | true | false
```
A comparison with null is unknown, as in SQL, and unknown is not true. `like` knows `%` (any text) and `_` (one
character) and makes no difference between a and A.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from sqlalchemy import BigInteger, Boolean, ColumnElement, Float, Integer, LargeBinary, Text, and_, literal, not_, or_

from ganglion.sdk.naming import nearest
from ganglion.sdk.store import UsageError


def nearest_of(name: str, names: Iterable[str]) -> str:
    """Return `; did you mean ...?` if one of the names is like this one, else the list of names."""
    known = list(names)
    return nearest(name, known) or (f"; there are: {', '.join(known)}" if known else "")


_DEPTH_MAX = 64  # parentheses and `not`; SQLite itself stops at a depth of 1000
_TOKENS_MAX = 1500  # a chain of `and` is as deep as it is long
_TOKEN = re.compile(
    r"""\s*(?:
    (?P<number>[+-]?+(?:\d++\.?+\d*+|\.\d++)(?:[eE][+-]?\d++)?+)(?![\w.])
  | (?P<text>'(?:[^']|'')*'|"(?:[^"]|"")*")
  | (?P<word>[^\W\d][\w]*)
  | (?P<sign><=|>=|!=|=|<|>|\(|\)|,)
  | (?P<end>$)
    )""",
    re.VERBOSE,
)
_NO_ESCAPE = "\x1b"  # PostgreSQL would take a backslash for one
_WORDS = frozenset({"and", "or", "not", "in", "like", "is", "null", "true", "false"})
_COMPARE: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    at: int

    def __str__(self) -> str:
        return "the end" if self.kind == "end" else f"`{self.text}`"


@dataclass(frozen=True, slots=True)
class _Operand:
    element: ColumnElement[Any]
    kind: str  # number, text, boolean
    column: bool
    words: str


def condition(text: str, columns: Mapping[str, ColumnElement[Any]]) -> ColumnElement[bool]:
    """Return a condition over the columns of a table, its literals as parameters; UsageError says what is wrong."""
    return _Parser(text, columns).whole()


class _Parser:
    def __init__(self, text: str, columns: Mapping[str, ColumnElement[Any]]) -> None:
        self._text = text
        self._columns = columns
        self._tokens = self._tokenize()
        self._next = 0
        self._depth = 0

    # -- tokens -------------------------------------------------------------------------------------------------------

    def _tokenize(self) -> list[_Token]:
        tokens, at = [], 0
        while True:
            found = _TOKEN.match(self._text, at)
            if found is None:
                at += len(self._text[at:]) - len(self._text[at:].lstrip())
                self._fail("a column, a literal or an operator", _Token("", self._text[at : at + 10], at))
            kind = str(found.lastgroup)
            word = found[kind]
            if kind == "word" and word.lower() in _WORDS:
                kind, word = "keyword", word.lower()
            tokens.append(_Token(kind, word, found.start(found.lastgroup or 0)))
            if len(tokens) > _TOKENS_MAX:
                raise UsageError(f"where: expected at most {_TOKENS_MAX} words and signs, found more")
            if kind == "end":
                return tokens
            at = found.end()

    def _fail(self, expected: str, found: _Token) -> NoReturn:
        raise UsageError(f"where, character {found.at + 1}: expected {expected}, found {found}: {self._text}")

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self._tokens[self._next]
        self._next += token.kind != "end"
        return token

    def _skip(self, text: str) -> bool:
        """Take the next token if it is this keyword or sign."""
        token = self._peek()
        hit = token.kind in ("keyword", "sign") and token.text == text
        self._next += hit
        return hit

    def _need(self, text: str) -> None:
        if not self._skip(text):
            self._fail(f"`{text}`", self._peek())

    # -- grammar ------------------------------------------------------------------------------------------------------

    def whole(self) -> ColumnElement[bool]:
        found = self._either()
        if self._peek().kind != "end":
            self._fail("`and`, `or` or the end", self._peek())
        return found

    def _either(self) -> ColumnElement[bool]:
        return self._chain("or", lambda: self._chain("and", self._negated, and_), or_)

    def _chain(
        self, word: str, part: Callable[[], ColumnElement[bool]], join: Callable[..., ColumnElement[bool]]
    ) -> ColumnElement[bool]:
        parts = [part()]
        while self._skip(word):
            parts.append(part())
        return join(*parts) if len(parts) > 1 else parts[0]

    def _negated(self) -> ColumnElement[bool]:
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            self._fail(f"at most {_DEPTH_MAX} nested parentheses", self._peek())
        try:
            if self._skip("not"):
                return not_(self._negated())
            if self._skip("("):
                found = self._either()
                self._need(")")
                return found.self_group()
            return self._comparison()
        finally:
            self._depth -= 1

    def _comparison(self) -> ColumnElement[bool]:
        start = self._peek()
        left = self._operand(any_column=True)
        if self._skip("is"):
            negated = self._skip("not")
            self._need("null")
            return left.element.is_not(None) if negated else left.element.is_(None)
        self._comparable(left, start)
        negated = self._skip("not")
        if self._skip("in"):
            return self._contained(left, negated)
        if self._skip("like"):
            return self._like(left, start, negated)
        if negated:
            self._fail("`in` or `like` after `not`", self._peek())
        sign = self._peek()
        if sign.kind == "sign" and sign.text in _COMPARE:
            self._take()
            place = self._peek()
            right = self._operand()
            self._alike(left, right, place)
            compared: ColumnElement[bool] = _COMPARE[sign.text](left.element, right.element)
            return compared
        if left.column and left.kind == "boolean":
            return left.element
        return self._fail("a comparison such as `=`, `in`, `like` or `is null`", sign)

    def _contained(self, left: _Operand, negated: bool) -> ColumnElement[bool]:
        self._need("(")
        found = []
        while True:
            place = self._peek()
            if place.kind == "word":
                self._fail("a literal (text stands in quotes)", place)
            right = self._operand()
            self._alike(left, right, place)
            found.append(right.element)
            if not self._skip(","):
                break
        self._need(")")
        return left.element.not_in(found) if negated else left.element.in_(found)

    def _like(self, left: _Operand, start: _Token, negated: bool) -> ColumnElement[bool]:
        place = self._peek()
        right = self._operand()
        if left.kind != "text":
            self._fail("text before `like`", start)
        if right.kind != "text" or right.column:
            self._fail("text in quotes after `like`", place)
        like = left.element.not_ilike if negated else left.element.ilike
        return like(right.element, escape=_NO_ESCAPE)

    def _operand(self, any_column: bool = False) -> _Operand:
        token = self._take()
        if token.kind == "number":
            return _Operand(self._number(token), "number", False, token.text)
        if token.kind == "text":
            quote = token.text[0]
            value = token.text[1:-1].replace(quote * 2, quote)
            return _Operand(literal(value, Text), "text", False, token.text)
        if token.kind == "keyword" and token.text in ("true", "false"):
            return _Operand(literal(token.text == "true", Boolean), "boolean", False, token.text)
        if token.kind != "word":
            self._fail("a column or a literal", token)
        column = self._columns.get(token.text)
        if column is None:
            raise UsageError(
                f"where, character {token.at + 1}: there is no column `{token.text}`"
                f"{nearest_of(token.text, self._columns)}; text stands in quotes: '{token.text}'"
            )
        operand = _Operand(column, _kind(column), True, token.text)
        if not any_column:
            self._comparable(operand, token)
        return operand

    def _number(self, token: _Token) -> ColumnElement[Any]:
        if re.fullmatch(r"[+-]?\d+", token.text) is None:
            return literal(float(token.text), Float)
        value = int(token.text)
        if not -(2**63) <= value < 2**63:
            self._fail("an integer of at most 64 bits", token)
        return literal(value, BigInteger)

    def _comparable(self, operand: _Operand, token: _Token) -> None:
        if operand.kind == "values":
            self._fail(f"a column with one value; {operand.words} holds many and knows only `is null`", token)

    def _alike(self, left: _Operand, right: _Operand, place: _Token) -> None:
        if left.kind != right.kind:
            self._fail(f"a {left.kind} to compare with {left.words}", place)


def _kind(column: ColumnElement[Any]) -> str:
    kinds = ((LargeBinary, "values"), (Boolean, "boolean"), (Text, "text"), (Integer, "number"), (Float, "number"))
    return next(kind for known, kind in kinds if isinstance(column.type, known))
