"""Conversion of request parameters to typed values: accepted spellings, validation and error messages."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Meta, UnsetType

from shoal.core.errors import InvalidInput, NotFound
from shoal.core.ids import MAX_ID
from shoal.http.errors import Malformed
from shoal.http.params import CursorId, Id, Limit, Upload, convert
from tests.api.harness import json_params, params_of
from tests.linear_time import assert_linear

Short = Annotated[str, Meta(max_length=10)]


class Privacy(StrEnum):
    """An enumeration."""

    PUBLIC = "public"
    PRIVATE = "private"


class Row(msgspec.Struct, frozen=True):
    """A row of a profile."""

    name: Short = ""
    value: Short = ""


class Poll(msgspec.Struct, frozen=True):
    """A nested struct."""

    options: Annotated[tuple[Short, ...], Meta(max_length=4)] = ()
    kind: Literal["one", "many"] = "one"


class Everything(msgspec.Struct, frozen=True, kw_only=True):
    """A struct with a field of each kind."""

    text: Short = "default"
    maybe: Short | None = None
    change: Short | UnsetType = UNSET
    flag: bool = False
    shown: bool = True
    asked: bool | None = None
    count: Annotated[int, Meta(ge=0, le=100)] = 7
    ratio: Annotated[float, Meta(ge=-1, le=1)] = 0.5
    privacy: Privacy = Privacy.PUBLIC
    id: Id | None = None
    ids: Annotated[tuple[Id, ...], Meta(max_length=4)] = ()
    names: Annotated[list[Short], Meta(max_length=4)] = msgspec.field(default_factory=list)
    rows: Annotated[tuple[Row, ...], Meta(max_length=4)] = ()
    poll: Poll | None = None
    file: Upload | None = None
    cursor: CursorId = CursorId(0)
    limit: Limit = Limit(0)


class Needy(msgspec.Struct):
    """A struct with a required field."""

    client_id: Short


def field(name: str, value: object) -> Any:
    """Return the field's value after converting this input."""
    return getattr(convert({name: value}, Everything), name)


@pytest.mark.parametrize("said", [True, 1, 2, -1, 0.5, "1", "t", "true", "True", "TRUE", "on", "yes", " ", "no"])
def test_boolean_parameter_accepts_true_spellings(said: object) -> None:
    assert field("flag", said) is True


@pytest.mark.parametrize("said", [False, 0, 0.0, "0", "f", "F", "false", "False", "FALSE", "off", "OFF", "", None])
def test_boolean_parameter_accepts_false_spellings(said: object) -> None:
    assert field("flag", said) is False


@pytest.mark.parametrize(
    ("name", "said", "meant"),
    [
        # An empty text means that the parameter is absent, not false.
        ("shown", "", True),
        ("shown", "0", False),
        ("asked", "", None),
        ("asked", "off", False),
        ("count", "42", 42),
        ("count", "", 7),
        ("ratio", "-0.5", -0.5),
        ("ratio", 1, 1.0),
        ("ratio", "", 0.5),
        ("text", 42, "42"),
        ("text", "null", "null"),
        ("maybe", "null", "null"),
        ("privacy", "private", Privacy.PRIVATE),
        ("privacy", "", Privacy.PUBLIC),
        ("id", "12", 12),
        ("id", 12, 12),
        ("id", "-12", -12),
        ("id", "", None),
        ("ids", ["1", 2], (1, 2)),
        ("ids", "1", (1,)),
        ("ids", 1, (1,)),
        ("ids", {"1": "8", "0": "9"}, (9, 8)),
        ("ids", [""], ()),
        ("ids", "", ()),
        ("names", "home", ["home"]),
        ("names", ["a", None, 5], ["a", "5"]),
        ("rows", {"0": {"name": "a"}, "10": {"name": "c"}, "2": {"name": "b"}}, (Row("a"), Row("b"), Row("c"))),
        ("rows", [{"name": 1, "value": None}], (Row("1"),)),
        ("rows", {"name": "a", "value": "b"}, (Row("a", "b"),)),
        ("poll", {"options": ["a", "b"], "kind": ""}, Poll(("a", "b"))),
        ("poll", "", None),
        ("cursor", "nonsense", 0),
        ("cursor", "-5", 0),
        ("cursor", "9" * 30, MAX_ID),
        ("limit", "0", 0),
        ("limit", "many", 0),
        ("limit", ["1"], 0),
        ("limit", True, 0),
    ],
)
def test_parameter_conversion_of_form_text_or_json_value_returns_declared_type(
    name: str, said: object, meant: object
) -> None:
    assert field(name, said) == meant


def test_parameter_null_or_absent_takes_default_and_empty_text_stays_empty() -> None:
    assert convert({}, Everything) == convert(dict.fromkeys(Everything.__struct_fields__), Everything) == Everything()
    assert (field("text", ""), field("maybe", ""), field("change", "")) == ("", "", "")


def test_unknown_parameters_are_ignored() -> None:
    assert convert({"oauth_info": {"a": [1]}, "text": "x"}, Everything).text == "x"


def test_request_file_parameter_is_passed_to_handler_unchanged() -> None:
    file = Upload("cat.jpg", b"\xff")
    assert field("file", file) is file


@pytest.mark.parametrize(
    "said", ["abc", "1e3", "1_000", "１２", " 5", "9" * 30, str(2**63), 10**30, True, 1.5, [], {}, "-"]
)
def test_id_parameter_with_invalid_value_raises_not_found(said: object) -> None:
    with pytest.raises(NotFound):
        field("id", said)


@pytest.mark.parametrize(
    ("name", "said", "words"),
    [
        ("text", "x" * 11, "text must have at most 10 characters"),
        ("text", ["a"], "text must be a text"),
        ("text", True, "text must be a text"),
        ("text", "a\0b", r"text must not contain the character U\+0000"),
        ("flag", ["true", "false"], "flag must be true or false"),
        ("flag", {"a": "true"}, "flag must be true or false"),
        ("count", "101", "count must be at most 100"),
        ("count", -1, "count must be at least 0"),
        ("count", 10**30, "count must be at most 100"),
        ("count", "many", "count must be a whole number"),
        ("ratio", "nan", "ratio must be a number"),
        ("ratio", "inf", "ratio must be a number"),
        ("ratio", "1.5", "ratio must be at most 1"),
        ("privacy", "secret", "privacy must be one of public, private"),
        ("poll", {"kind": "three"}, "poll.kind must be one of many, one"),
        ("poll", "yes", "poll must be an object"),
        ("ids", ["1"] * 5, "ids must have at most 4 items"),
        ("rows", [{"name": "ok"}, {"name": "x" * 11}], r"rows\[1\].name must have at most 10 characters"),
        ("file", "not a file", "file must be a file"),
        ("text", Upload("a"), "text must be a text"),
    ],
)
def test_invalid_parameter_error_names_field_and_allowed_values(name: str, said: object, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        field(name, said)


@pytest.mark.parametrize("value", ["secret - at `$.id`", "secret - at `$[["])
def test_invalid_parameter_error_for_value_that_looks_like_path_names_field(value: str) -> None:
    with pytest.raises(InvalidInput, match=r"^privacy must be one of public, private$"):
        field("privacy", value)


@pytest.mark.parametrize("unit", ["nested brackets", "paths of msgspec"])
@pytest.mark.parametrize("start", ["", " - at `$"])
def test_invalid_parameter_error_for_long_value_takes_linear_time(start: str, unit: str) -> None:
    assert_linear(lambda text: field("privacy", start + text), unit, 20_000)


def test_invalid_parameter_error_carries_field_name() -> None:
    with pytest.raises(InvalidInput) as refused:
        field("count", "many")
    assert refused.value.field == "count"


def test_required_parameter_missing_raises_malformed() -> None:
    with pytest.raises(Malformed, match="client_id is missing"):
        convert({}, Needy)


def test_parameter_conversion_accepts_form_and_json_bodies_of_mastodon_clients() -> None:
    mastodon_py = params_of(b"text=hi&flag=1&ids[]=9&ids[]=10", "application/x-www-form-urlencoded")
    assert convert(mastodon_py, Everything) == Everything(text="hi", flag=True, ids=(Id(9), Id(10)))
    poll = json_params({"text": "q", "flag": "0", "poll": {"options": ["a", "b"], "kind": "many"}})
    assert convert(poll, Everything) == Everything(text="q", poll=Poll(("a", "b"), "many"))
    fields = params_of(b"rows[0][name]=a&rows[0][value]=b&rows[1][name]=c", "application/x-www-form-urlencoded")
    assert convert(fields, Everything).rows == (Row("a", "b"), Row("c"))


_SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
_VALUES = st.recursive(
    _SCALARS, lambda some: st.lists(some, max_size=3) | st.dictionaries(st.text(max_size=3), some, max_size=3)
)


@given(st.dictionaries(st.sampled_from(Everything.__struct_fields__), _VALUES, max_size=4))
def test_parameter_conversion_of_random_values_raises_only_input_errors(said: dict[str, object]) -> None:
    try:
        convert(said, Everything)
    except (InvalidInput, NotFound):
        return
