"""From what was said to typed values: lenient in the spelling, strict in the meaning, clear in the refusal."""

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
from tests.nasty import assert_linear

Short = Annotated[str, Meta(max_length=10)]


class Privacy(StrEnum):
    """Some words."""

    PUBLIC = "public"
    PRIVATE = "private"


class Row(msgspec.Struct, frozen=True):
    """A row of a profile."""

    name: Short = ""
    value: Short = ""


class Poll(msgspec.Struct, frozen=True):
    """A struct inside."""

    options: Annotated[tuple[Short, ...], Meta(max_length=4)] = ()
    kind: Literal["one", "many"] = "one"


class Everything(msgspec.Struct, frozen=True, kw_only=True):
    """A field of each kind."""

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
    """A field without a default."""

    client_id: Short


def field(name: str, value: object) -> Any:
    """Return the field's value after converting this input."""
    return getattr(convert({name: value}, Everything), name)


@pytest.mark.parametrize("said", [True, 1, 2, -1, 0.5, "1", "t", "true", "True", "TRUE", "on", "yes", " ", "no"])
def test_true_has_many_spellings(said: object) -> None:
    assert field("flag", said) is True


@pytest.mark.parametrize("said", [False, 0, 0.0, "0", "f", "F", "false", "False", "FALSE", "off", "OFF", "", None])
def test_false_has_many_spellings(said: object) -> None:
    assert field("flag", said) is False


@pytest.mark.parametrize(
    ("name", "said", "meant"),
    [
        # Empty is not given, and not false.
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
def test_a_value_may_be_written_in_the_ways_that_clients_write_it(name: str, said: object, meant: object) -> None:
    assert field(name, said) == meant


def test_null_and_absent_are_the_default_and_an_empty_text_clears() -> None:
    assert convert({}, Everything) == convert(dict.fromkeys(Everything.__struct_fields__), Everything) == Everything()
    assert (field("text", ""), field("maybe", ""), field("change", "")) == ("", "", "")


def test_parameters_that_nobody_asked_for_are_ignored() -> None:
    assert convert({"oauth_info": {"a": [1]}, "text": "x"}, Everything).text == "x"


def test_a_file_stays_as_it_is() -> None:
    file = Upload("cat.jpg", b"\xff")
    assert field("file", file) is file


@pytest.mark.parametrize(
    "said", ["abc", "1e3", "1_000", "１２", " 5", "9" * 30, str(2**63), 10**30, True, 1.5, [], {}, "-"]
)
def test_an_id_that_names_nothing_is_not_found(said: object) -> None:
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
def test_a_refusal_names_the_field_and_says_what_is_allowed(name: str, said: object, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        field(name, said)


@pytest.mark.parametrize("value", ["secret - at `$.id`", "secret - at `$[["])
def test_refusal_of_value_that_looks_like_path_names_field(value: str) -> None:
    with pytest.raises(InvalidInput, match=r"^privacy must be one of public, private$"):
        field("privacy", value)


@pytest.mark.parametrize("unit", ["nested brackets", "paths of msgspec"])
@pytest.mark.parametrize("start", ["", " - at `$"])
def test_refusal_of_long_value_takes_linear_time(start: str, unit: str) -> None:
    assert_linear(lambda text: field("privacy", start + text), unit, 20_000)


def test_a_refusal_carries_the_field_for_the_details() -> None:
    with pytest.raises(InvalidInput) as refused:
        field("count", "many")
    assert refused.value.field == "count"


def test_a_parameter_that_is_required_and_missing_makes_the_request_malformed() -> None:
    with pytest.raises(Malformed, match="client_id is missing"):
        convert({}, Needy)


def test_what_real_clients_send_is_understood() -> None:
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
def test_no_value_does_more_than_be_refused(said: dict[str, object]) -> None:
    try:
        convert(said, Everything)
    except (InvalidInput, NotFound):
        return
