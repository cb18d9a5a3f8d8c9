"""Expressions that score posts: parsing, types, and evaluation on columns compared with a scalar reference."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from shoal.core.errors import InvalidInput
from shoal.core.feeds.expressions import (
    MAX_DEPTH,
    MAX_LENGTH,
    MAX_NODES,
    MAX_NUMBER,
    TERMS,
    Columns,
    Node,
    Type,
    Value,
    contributions,
    parse,
    scores,
)

_PARAMETERS: Mapping[str, Type] = {"half_life": "number", "photos": "boolean", "topic": "text"}
_VALUES: Mapping[str, Value] = {"half_life": 24.0, "photos": True, "topic": "Bread"}


def _columns(rows: list[dict[str, Any]]) -> Columns:
    found: dict[str, Any] = {}
    for name, type_ in TERMS.items():
        values = [row[name] for row in rows]
        if type_ == "tags":
            found[name] = values
        else:
            dtype = {"number": np.float64, "boolean": np.bool_, "text": np.str_}[type_]
            found[name] = np.array(values, dtype)
    return found


def _row(**values: Any) -> dict[str, Any]:
    usual: dict[Type, Any] = {"number": 0.0, "boolean": False, "text": "", "tags": ()}
    return {name: usual[type_] for name, type_ in TERMS.items()} | values


def _score(text: str, **values: Any) -> float:
    parsed = parse(text, _PARAMETERS)
    return float(scores(contributions(parsed, _columns([_row(**values)]), _VALUES, 1))[0])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3", 7.0),
        ("(1 + 2) * 3", 9.0),
        ("10 - 4 - 3", 3.0),
        ("10 - (4 - 3)", 9.0),
        ("-likes", -5.0),
        ("--likes", 5.0),
        ("likes / 0", 0.0),
        ("log(0) + log(-1) + log(exp(2))", 2.0),
        ("exp(likes * 1000)", 1e12),
        ("clamp(likes, 1, 3)", 3.0),
        ("min(likes, 2, 9) + max(likes, 2, 9)", 11.0),
        ("abs(-2.5)", 2.5),
        ("if(likes >= 5 and not own, 1, 2)", 1.0),
        ("if(own or likes == 4, 1, 2)", 2.0),
        ('if(has(tags, "Bread"), 3, 0)', 3.0),
        ("if(has(tags, '#cake'), 3, 0)", 0.0),
        ("if(has(tags, $topic), 3, 0)", 3.0),
        ('if(language == "de", 1, 0) + if(language != "de", 2, 0)', 1.0),
        ('if(if(own, "a", "b") == "b", 1, 0)', 1.0),
        ("if($photos, 1, 0) * $half_life", 24.0),
        ("if(true != false, 1, 0)", 1.0),
    ],
)
def test_expression_evaluates_to_value(text: str, expected: float) -> None:
    assert _score(text, likes=5.0, tags=("bread",), language="de") == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "at position 1: expected a number, term"),
        ("likes +", "at position 8: expected a number, term"),
        ("likes likes", "at position 7: expected an operator or the end (got 'likes')"),
        ("likes & 1", "at position 7: '&' is not allowed"),
        ("hearts", "unknown name 'hearts'; terms are age_hours, likes"),
        ("$depth", "unknown parameter $depth; allowed are $half_life, $photos, $topic"),
        ("likes + own", "at position 9: expected a number (got a boolean)"),
        ("own", "at position 1: expected a number (got a boolean)"),
        ("tags + 1", "at position 1: expected a number (got tags)"),
        ("likes and own", "at position 1: expected a boolean (got a number)"),
        ("if(likes, 1, 2)", "at position 4: expected a boolean (got a number)"),
        ("if(own, 1, false)", "at position 12: expected a number (got a boolean)"),
        ("if(own, 1)", "if takes 3 arguments (got 2)"),
        ("min(1)", "min takes 2 to 10 arguments (got 1)"),
        ("if(has(tags, language), 1, 0)", "at position 14: has compares with a text in quotes or a parameter"),
        ("if(tags == tags, 1, 0)", "at position 4: expected a number or boolean or text (got tags)"),
        ("if(language == 1, 1, 0)", "at position 16: expected a text (got a number)"),
        ("1 < 2 < 3", "at position 7: expected an operator or the end (got '<')"),
        ("(" * (MAX_DEPTH + 1) + "1" + ")" * (MAX_DEPTH + 1), f"at most {MAX_DEPTH} levels of parentheses"),
        ("-" * (MAX_NODES + 1) + "1", f"at most {MAX_NODES} operations and values"),
        ("1" * (MAX_LENGTH + 1), f"at most {MAX_LENGTH} characters (got {MAX_LENGTH + 1})"),
        ("+".join("1" * 21), "at most 20 summands (got 21)"),
        ('"' + "a" * 101 + '"', "a text has at most 100 characters (got 101)"),
    ],
)
def test_invalid_expression_is_refused_with_position_and_allowed_values(text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match="expression: ") as error:
        parse(text, _PARAMETERS)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("likes", ["likes"]),
        ("2 * (likes + 1)", ["2 * (likes + 1)"]),
        ("likes - shares + 3", ["likes", "-shares", "3"]),
        ("likes - (shares - $half_life)", ["likes", "-shares", "$half_life"]),
        ("(likes + 1) * 2 - if(own, 'a', 'b') == 'a'", None),
        ("exp( -age_hours /  $half_life )", ["exp( -age_hours / $half_life )"]),
        ("likes - ($half_life)", ["likes", "-($half_life)"]),
        ("if(own, 1, 2) + if(language == 'de', 1, 0)", ["if(own, 1, 2)", "if(language == 'de', 1, 0)"]),
    ],
)
def test_expression_is_split_into_top_level_summands(text: str, expected: list[str] | None) -> None:
    if expected is None:
        with pytest.raises(InvalidInput):
            parse(text, _PARAMETERS)
    else:
        assert [summand.text for summand in parse(text, _PARAMETERS).summands] == expected


def test_expression_states_its_terms() -> None:
    assert parse("likes + if(has(tags, 'a'), $half_life, 0)", _PARAMETERS).terms == {"likes", "tags"}


@given(st.text(alphabet=st.characters(), max_size=60) | st.text(alphabet="()+-*/<>=!,.$'\" 1e", max_size=60))
def test_random_text_raises_parse_errors_only(text: str) -> None:
    with suppress(InvalidInput):
        parse(text, _PARAMETERS)


_WORDS = st.sampled_from(
    [
        *TERMS,
        "$half_life",
        "$topic",
        "min(",
        "if(",
        "has(",
        "(",
        ")",
        ",",
        "+",
        "-",
        "*",
        "/",
        "<",
        "==",
        "and",
        "not",
        "1",
        "'a'",
    ]
)


@given(st.lists(_WORDS, max_size=30))
def test_random_words_parse_or_raise_parse_errors(words: list[str]) -> None:
    text = " ".join(words)
    try:
        parsed = parse(text, _PARAMETERS)
    except InvalidInput:
        return
    assert np.isfinite(contributions(parsed, _columns([_row()]), _VALUES, 1)).all()


_NUMBER_LEAVES = st.sampled_from(["likes", "age_hours", "described", "$half_life"]) | st.sampled_from(
    ["0", "1", "2.5", "1e12", "1e-9", "700", "1e300"]
)
_TEXT = st.sampled_from(["language", "author", "$topic", "'de'", "''"])


def _numbers(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    booleans = (
        st.tuples(inner, st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), inner).map(
            lambda t: f"({t[0]} {t[1]} {t[2]})"
        )
        | st.sampled_from(["own", "reply", "$photos", "true", "has(tags, 'bread')", "has(tags, $topic)"])
        | st.tuples(_TEXT, st.sampled_from(["==", "!="]), _TEXT).map(lambda t: f"({t[0]} {t[1]} {t[2]})")
    )
    combined = st.tuples(booleans, st.sampled_from(["and", "or"]), booleans).map(lambda t: f"({t[0]} {t[1]} {t[2]})")
    either = booleans | combined | combined.map(lambda text: f"not {text}")
    return (
        st.tuples(inner, st.sampled_from("+-*/"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})")
        | st.tuples(st.sampled_from(["log", "exp", "abs"]), inner).map(lambda t: f"{t[0]}({t[1]})")
        | inner.map(lambda text: f"-{text}")
        | st.tuples(st.sampled_from(["min", "max"]), inner, inner).map(lambda t: f"{t[0]}({t[1]}, {t[2]})")
        | st.tuples(inner, inner, inner).map(lambda t: f"clamp({t[0]}, {t[1]}, {t[2]})")
        | st.tuples(either, inner, inner).map(lambda t: f"if({t[0]}, {t[1]}, {t[2]})")
    )


_EXPRESSIONS = st.lists(st.recursive(_NUMBER_LEAVES, _numbers, max_leaves=12), min_size=1, max_size=5).map(" + ".join)
_ANY_NUMBER = st.floats(allow_nan=True, allow_infinity=True)
_ROWS = st.lists(
    st.builds(
        _row,
        likes=st.sampled_from([0.0, 1.0, 5.0]) | _ANY_NUMBER,
        age_hours=_ANY_NUMBER,
        described=st.floats(0, 1),
        own=st.booleans(),
        reply=st.booleans(),
        language=st.sampled_from(["", "de", "en"]),
        author=st.sampled_from(["ann", "de"]),
        tags=st.lists(st.sampled_from(["bread", "cake"]), max_size=2).map(tuple),
    ),
    max_size=5,
)


@given(_EXPRESSIONS, _ROWS)
def test_column_evaluation_matches_scalar_reference(text: str, rows: list[dict[str, Any]]) -> None:
    try:
        parsed = parse(text, _PARAMETERS)
    except InvalidInput:
        # The text is valid, but may be too long.
        assume(False)
        raise
    found = contributions(parsed, _columns(rows), _VALUES, len(rows))
    for row, values in zip(rows, found.tolist(), strict=True):
        expected = [float(np.float32(summand.sign * _reference(summand.node, row))) for summand in parsed.summands]
        assert values == expected
        total = 0.0
        for value in values:
            total += value
        assert float(scores(np.array([values]))[0]) == total


def _reference(node: Node, row: Mapping[str, Any]) -> Any:
    """Evaluate one post by plain Python arithmetic, following the definition in the module's docstring."""
    if node.kind == "constant":
        return node.value
    if node.kind == "parameter":
        return _VALUES[node.value]
    if node.kind == "term":
        return _bounded(row[node.value]) if node.type == "number" else row[node.value]
    if node.kind == "has":
        return str(_reference(node.args[1], row)).lower() in row["tags"]
    args = [_reference(arg, row) for arg in node.args]
    found = _OPERATIONS[node.kind](*args)
    return _bounded(found) if node.type == "number" else found


_OPERATIONS: Mapping[str, Callable[..., Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda left, right: left / right if right else 0.0,
    "negative": operator.neg,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "and": lambda left, right: left and right,
    "or": lambda left, right: left or right,
    "not": operator.not_,
    "if": lambda condition, yes, no: yes if condition else no,
    "min": min,
    "max": max,
    "abs": abs,
    "clamp": lambda value, low, high: min(max(value, low), high),
    # The last digit of logarithms and powers differs between libraries, so the reference uses the same one.
    "log": lambda value: float(np.log(np.array([value]))[0]) if value > 0 else 0.0,
    "exp": lambda value: math.inf if value > 700 else float(np.exp(np.array([value]))[0]),
}


def _bounded(value: float) -> float:
    return 0.0 if math.isnan(value) else max(-MAX_NUMBER, min(MAX_NUMBER, value))
