"""Expressions that score posts: a small typed language, evaluated on columns.

    5 * exp(-age_hours / $half_life) + log(1 + likes) + if(follows_author, 2, 0) - if(has(tags, "ads"), 10, 0)

Names are terms, facts about a post; names with a `$` are parameters of the request. Operators, from the loosest: `or`, `and`,
`not`, comparisons, `+ -`, `* /`, and the sign. `parse` checks types, so evaluation cannot fail:

- Every number is between -1e12 and 1e12. The result of an operation beyond these bounds is the bound.
- Division by zero is 0, and so is the logarithm of a number that is not above 0.

The score is the sum of the top-level summands, rounded to 32 bits each. Their values explain it, and add up to it exactly.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from shoal.core.errors import InvalidInput

MAX_LENGTH = 1_000
MAX_NODES = 200
MAX_DEPTH = 20
MAX_SUMMANDS = 20
MAX_TEXT = 100
MAX_NUMBER = 1e12

Type = Literal["number", "boolean", "text", "tags"]
Value: TypeAlias = float | bool | str
Column: TypeAlias = npt.NDArray[Any]
Columns: TypeAlias = Mapping[str, Column | Sequence[Sequence[str]]]
"""The values of each term, one per post: numbers, booleans and texts as arrays, tags as sequences."""

TERMS: Mapping[str, Type] = {
    "age_hours": "number",
    "likes": "number",
    "shares": "number",
    "comments": "number",
    "recent": "number",
    "media_count": "number",
    "described": "number",
    "words": "number",
    "tag_count": "number",
    "author_followers": "number",
    "author_posts": "number",
    "author_interest": "number",
    "tag_interest": "number",
    "seen": "number",
    "follows_author": "boolean",
    "own": "boolean",
    "reply": "boolean",
    "sensitive": "boolean",
    "author": "text",
    "language": "text",
    "tags": "tags",
}
"""The terms and their types. docs/reference/feeds.md says what they mean."""
REACTION = "reaction_"
"""Beginning of the terms that count declared reactions, such as `reaction_cooked`."""
COUNTED = frozenset(("likes", "shares", "comments"))
ABOUT_AUTHORS = frozenset(("author_followers", "author_posts"))
PERSONAL = frozenset(("author_interest", "tag_interest"))
"""Terms whose values come from what the reader has liked. They are 0 without a reader."""
SEEN = frozenset(("seen",))


class Node(NamedTuple):
    """A checked part of an expression."""

    kind: str
    """`constant`, `term`, `parameter`, or the name of an operator or function."""
    type: Type
    value: Any = None
    """The value of a constant, or the name of a term or parameter."""
    args: tuple[Node, ...] = ()
    first: int = 0
    last: int = 0
    """The part's place in the text, from `first` to `last`, without `last`."""


class Summand(NamedTuple):
    text: str
    """The summand as written, with a minus sign if it is subtracted."""
    node: Node
    sign: float


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed expression: its summands in order, and the terms that it reads."""

    summands: tuple[Summand, ...]
    terms: frozenset[str] = field(default_factory=frozenset)

    @property
    def reactions(self) -> frozenset[str]:
        """The names of the declared reactions that it counts."""
        return frozenset(term.removeprefix(REACTION) for term in self.terms if term.startswith(REACTION))


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|\$(?P<parameter>[A-Za-z_][A-Za-z0-9_]*)|(?P<text>\"[^\"\n]*\"|'[^'\n]*')|(?P<sign><=|>=|==|!=|[-+*/<>(),]))",
    re.ASCII,
)
_SPACE = re.compile(r"\s*", re.ASCII)
_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
_WORDS = ("and", "or", "not", "true", "false")
_NUMBERS: Mapping[str, tuple[int, int]] = {
    "min": (2, 10),
    "max": (2, 10),
    "log": (1, 1),
    "exp": (1, 1),
    "abs": (1, 1),
    "clamp": (3, 3),
}
"""Functions from numbers to a number, with the least and the most arguments."""
FUNCTIONS = (*_NUMBERS, "if", "has")


def parse(text: str, parameters: Mapping[str, Type], *, field: str = "expression") -> Expression:
    """Parse an expression whose result is a number. Raises `InvalidInput` with the position and the allowed tokens."""
    return _Parser(text, parameters, field).expression()


class _Parser:
    def __init__(self, text: str, parameters: Mapping[str, Type], name: str) -> None:
        self._text, self._parameters, self._name = text, parameters, name
        if len(text) > MAX_LENGTH:
            raise InvalidInput(f"{name}: at most {MAX_LENGTH} characters (got {len(text)})", field=name)
        self._tokens = self._split()
        self._next = 0
        self._nodes = 0
        self._depth = 0
        self._terms: set[str] = set()

    def expression(self) -> Expression:
        node = self._or()
        token = self._tokens[self._next]
        if token.kind != "end":
            raise self._wrong("an operator or the end", token)
        self._check(node, "number")
        summands = [self._summand(sign, part) for sign, part in _summands(node)]
        if len(summands) > MAX_SUMMANDS:
            raise InvalidInput(f"{self._name}: at most {MAX_SUMMANDS} summands (got {len(summands)})", field=self._name)
        return Expression(tuple(summands), frozenset(self._terms))

    def _summand(self, sign: float, node: Node) -> Summand:
        written = " ".join(self._text[node.first : node.last].split())
        return Summand(f"-{written}" if sign < 0 else written, node, sign)

    def _split(self) -> list[_Token]:
        tokens, at = [], 0
        while (at := self._skip(at)) < len(self._text):
            match = _TOKEN.match(self._text, at)
            if match is None or match.lastgroup is None:
                raise self._error(at, f"{self._text[at]!r} is not allowed")
            kind = match.lastgroup
            tokens.append(_Token(kind, match.group(kind), at))
            at = match.end()
        return [*tokens, _Token("end", "", len(self._text))]

    def _skip(self, at: int) -> int:
        match = _SPACE.match(self._text, at)
        return match.end() if match else at

    def _error(self, at: int, why: str) -> InvalidInput:
        return InvalidInput(f"{self._name}: at position {at + 1}: {why}", field=self._name)

    def _wrong(self, expected: str, token: _Token) -> InvalidInput:
        return self._error(
            token.at, f"expected {expected} (got {token.text[:40]!r})" if token.text else f"expected {expected}"
        )

    def _take(self) -> _Token:
        token = self._tokens[self._next]
        self._next += token.kind != "end"
        return token

    def _accept(self, *texts: str) -> _Token | None:
        token = self._tokens[self._next]
        if token.kind in ("sign", "name") and token.text in texts:
            return self._take()
        return None

    def _expect(self, text: str) -> _Token:
        found = self._accept(text)
        if found is None:
            raise self._wrong(f"{text!r}", self._tokens[self._next])
        return found

    def _end(self) -> int:
        """Return the position after the last token that was taken."""
        token = self._tokens[self._next - 1]
        return token.at + len(token.text) + (token.kind == "parameter")

    def _node(self, kind: str, type_: Type, first: int, *args: Node, value: object = None) -> Node:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise self._error(first, f"an expression has at most {MAX_NODES} operations and values")
        return Node(kind, type_, value, args, first, self._end())

    def _check(self, node: Node, *types: Type) -> Node:
        if node.type not in types:
            raise self._error(node.first, f"expected a {' or '.join(types)} (got {_with_article(node.type)})")
        return node

    def _or(self) -> Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._error(self._tokens[self._next].at, f"at most {MAX_DEPTH} levels of parentheses")
        found = self._joined("or", lambda: self._joined("and", self._not))
        self._depth -= 1
        return found

    def _joined(self, word: str, operand: Callable[[], Node]) -> Node:
        left = operand()
        while self._accept(word):
            right = operand()
            self._check(left, "boolean")
            left = self._node(word, "boolean", left.first, left, self._check(right, "boolean"))
        return left

    def _not(self) -> Node:
        signs = []
        while token := self._accept("not"):
            signs.append(token)
        node = self._comparison()
        for token in reversed(signs):
            node = self._node("not", "boolean", token.at, self._check(node, "boolean"))
        return node

    def _comparison(self) -> Node:
        left = self._sum()
        token = self._accept(*_COMPARISONS)
        if token is None:
            return left
        right = self._sum()
        if token.text in ("==", "!="):
            self._check(left, "number", "boolean", "text")
            self._check(right, left.type)
        else:
            self._check(left, "number")
            self._check(right, "number")
        return self._node(token.text, "boolean", left.first, left, right)

    def _sum(self) -> Node:
        return self._arithmetic(("+", "-"), lambda: self._arithmetic(("*", "/"), self._signed))

    def _arithmetic(self, signs: tuple[str, ...], operand: Callable[[], Node]) -> Node:
        left = operand()
        while token := self._accept(*signs):
            right = operand()
            self._check(left, "number")
            left = self._node(token.text, "number", left.first, left, self._check(right, "number"))
        return left

    def _signed(self) -> Node:
        signs = []
        while token := self._accept("-"):
            signs.append(token)
        node = self._value()
        for token in reversed(signs):
            node = self._node("negative", "number", token.at, self._check(node, "number"))
        return node

    def _value(self) -> Node:
        token = self._take()
        if token.kind == "number":
            return self._constant("number", min(float(token.text), MAX_NUMBER), token)
        if token.kind == "text":
            if len(token.text) - 2 > MAX_TEXT:
                raise self._error(token.at, f"a text has at most {MAX_TEXT} characters (got {len(token.text) - 2})")
            return self._constant("text", token.text[1:-1], token)
        if token.kind == "parameter":
            if token.text not in self._parameters:
                allowed = ", ".join(f"${name}" for name in self._parameters)
                why = f"allowed are {allowed}" if allowed else "the feed declares no parameters"
                raise self._error(token.at, f"unknown parameter ${token.text[:40]}; {why}")
            return self._node("parameter", self._parameters[token.text], token.at, value=token.text)
        if token.text == "(":
            node = self._or()
            self._expect(")")
            return node._replace(first=token.at, last=self._end())
        if token.kind == "name" and token.text not in ("and", "or", "not"):
            return self._named(token)
        raise self._wrong("a number, term, parameter, function or '('", token)

    def _constant(self, type_: Type, value: Value, token: _Token) -> Node:
        return self._node("constant", type_, token.at, value=value)

    def _named(self, token: _Token) -> Node:
        if token.text in ("true", "false"):
            return self._constant("boolean", token.text == "true", token)
        if token.text in FUNCTIONS:
            return self._call(token)
        if token.text not in TERMS and not token.text.startswith(REACTION):
            raise self._error(
                token.at,
                f"unknown name {token.text[:40]!r}; terms are {', '.join(TERMS)} and {REACTION}... with the name of a"
                f" declared reaction; functions are {', '.join(FUNCTIONS)}",
            )
        self._terms.add(token.text)
        return self._node("term", TERMS.get(token.text, "number"), token.at, value=token.text)

    def _call(self, token: _Token) -> Node:
        self._expect("(")
        args = [self._or()]
        while self._accept(","):
            args.append(self._or())
        self._expect(")")
        name = token.text
        least, most = _NUMBERS.get(name, (3, 3) if name == "if" else (2, 2))
        if not least <= len(args) <= most:
            allowed = f"{least}" if least == most else f"{least} to {most}"
            raise self._error(token.at, f"{name} takes {allowed} arguments (got {len(args)})")
        if name == "if":
            self._check(args[0], "boolean")
            self._check(args[1], "number", "boolean", "text")
            self._check(args[2], args[1].type)
            return self._node(name, args[1].type, token.at, *args)
        if name == "has":
            self._check(args[0], "tags")
            if args[1].kind not in ("constant", "parameter"):
                raise self._error(args[1].first, "has compares with a text in quotes or a parameter")
            return self._node(name, "boolean", token.at, args[0], self._check(args[1], "text"))
        return self._node(name, "number", token.at, *[self._check(arg, "number") for arg in args])


def _with_article(type_: Type) -> str:
    return type_ if type_ == "tags" else f"a {type_}"


def _summands(node: Node) -> list[tuple[float, Node]]:
    """Return the top-level summands of an expression with their signs, in the order of the text."""
    found: list[tuple[float, Node]] = []
    pending = [(1.0, node)]
    while pending:
        sign, part = pending.pop()
        if part.kind in ("+", "-"):
            left, right = part.args
            pending.append((-sign if part.kind == "-" else sign, right))
            pending.append((sign, left))
        else:
            found.append((sign, part))
    return found


def _bounded(values: Any) -> Any:
    return np.nan_to_num(np.clip(values, -MAX_NUMBER, MAX_NUMBER), nan=0.0)


def _divided(left: Any, right: Any) -> Any:
    zero = np.equal(right, 0.0)
    return np.where(zero, 0.0, np.divide(left, np.where(zero, 1.0, right)))


def _log(values: Any) -> Any:
    positive = np.greater(values, 0.0)
    return np.where(positive, np.log(np.where(positive, values, 1.0)), 0.0)


def _folded(operation: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def fold(first: Any, *rest: Any) -> Any:
        for each in rest:
            first = operation(first, each)
        return first

    return fold


_OPERATIONS: Mapping[str, Callable[..., Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": _divided,
    "negative": np.negative,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
    "and": np.logical_and,
    "or": np.logical_or,
    "not": np.logical_not,
    "if": np.where,
    "min": _folded(np.minimum),
    "max": _folded(np.maximum),
    "abs": np.abs,
    "exp": np.exp,
    "log": _log,
    "clamp": lambda value, low, high: np.minimum(np.maximum(value, low), high),
}


def contributions(
    expression: Expression, columns: Columns, parameters: Mapping[str, Value], n: int
) -> npt.NDArray[np.float64]:
    """Return the value of each summand for each of `n` posts, as a matrix of shape (posts, summands), rounded to 32 bits."""
    matrix = np.empty((n, len(expression.summands)))
    with np.errstate(all="ignore"):
        for at, (_, node, sign) in enumerate(expression.summands):
            matrix[:, at] = sign * np.asarray(_evaluated(node, columns, parameters), np.float64)
    return matrix.astype(np.float32).astype(np.float64)


def scores(contributed: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the sums of the rows, added from the first column to the last."""
    total = np.zeros(len(contributed))
    for at in range(contributed.shape[1]):
        total += contributed[:, at]
    return total


def _evaluated(node: Node, columns: Columns, parameters: Mapping[str, Value]) -> Any:
    if node.kind == "constant":
        return node.value
    if node.kind == "parameter":
        return parameters[node.value]
    if node.kind == "term":
        return _bounded(columns[node.value]) if node.type == "number" else columns[node.value]
    if node.kind == "has":
        tag = str(_evaluated(node.args[1], columns, parameters)).removeprefix("#").casefold()
        return np.array([tag in tags for tags in columns[node.args[0].value]], np.bool_)
    found = _OPERATIONS[node.kind](*[_evaluated(arg, columns, parameters) for arg in node.args])
    return _bounded(found) if node.type == "number" else found
