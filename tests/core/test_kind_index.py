"""The index of kinds: terms of values, the lists that a filter reads, and what callers may select."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.errors import InvalidInput
from shoal.core.kind_index import (
    MAX_LISTS,
    Filter,
    IndexType,
    Range,
    indexed_value,
    moment_of,
    names_of,
    number_code,
    selected_names,
    selection_of,
    time_code,
)
from shoal.core.places import Place, disk

numbers = (
    st.integers(-(10**400), 10**400) | st.floats(allow_nan=False, allow_infinity=False) | st.integers(-1_000, 1_000)
)
moments = st.integers(-(10**13), 10**14)


@given(numbers, numbers)
def test_number_code_keeps_the_order(one: float, other: float) -> None:
    assert 0 <= number_code(one) < 1 << 24
    if one <= other:
        assert number_code(one) <= number_code(other)


@given(moments, moments)
def test_time_code_keeps_the_order(one: int, other: int) -> None:
    assert 0 <= time_code(one) < 1 << 24
    if one <= other:
        assert time_code(one) <= time_code(other)


def test_number_codes_of_small_integers_differ() -> None:
    codes = [number_code(value) for value in range(-100_000, 100_000)]
    assert codes == sorted(set(codes))


@given(numbers, numbers, numbers)
def test_range_reads_the_list_of_every_number_in_it(low: float, high: float, value: float) -> None:
    for given_range in (Range(low, high), Range(low, None), Range(None, high)):
        names = selected_names("k", [Filter("n", "number", given_range)], [])
        assert len(set(names)) == len(names) <= MAX_LISTS
        here = set(names_of("k", {"n": "number"}, [], {"n": value}))
        # A post must be in at most one of the merged lists, or the merge would read it twice.
        assert len(here & set(names)) == 1 if given_range.has(value) else len(here & set(names)) <= 1


def test_range_of_small_numbers_reads_few_others() -> None:
    names = set(selected_names("k", [Filter("n", "number", Range(10, 30))], []))
    found = [value for value in range(2_000) if names & set(names_of("k", {"n": "number"}, [], {"n": value}))]
    assert found == list(range(10, 31))


@given(moments, moments, moments)
def test_range_reads_the_list_of_every_time_in_it(low: int, high: int, value: int) -> None:
    names = set(selected_names("k", [Filter("t", "time", Range(low, high))], []))
    text = datetime.fromtimestamp(max(min(value, 10**13), -(10**12)) / 1_000, UTC).isoformat()
    raw = indexed_value("time", text)
    if Range(low, high).has(raw):
        assert len(names & set(names_of("k", {"t": "time"}, [], {"t": text}))) == 1


@given(st.floats(-90, 90), st.floats(-180, 180))
def test_circle_reads_a_list_of_its_center(latitude: float, longitude: float) -> None:
    names = set(selected_names("k", [Filter("p", "geo", disk(latitude, longitude, 5))], []))
    assert names & set(names_of("k", {"p": "geo"}, [], {"p": {"latitude": latitude, "longitude": longitude}}))


@pytest.mark.parametrize(
    ("type_", "raw", "value"),
    [
        ("string", "a", "a"),
        ("string", 1, None),
        ("number", 1, 1),
        ("number", True, None),
        ("number", "1", None),
        ("boolean", True, True),
        ("boolean", 1, None),
        ("time", "1970-01-02", 86_400_000),
        ("time", "1970-01-01T01:00:00+01:00", 0),
        ("time", "1970-01-01T00:00:01Z", 1_000),
        ("time", "soon", None),
        ("time", 5, None),
        ("geo", {"latitude": 1, "longitude": 2.5}, Place(1.0, 2.5)),
        ("geo", {"latitude": 91, "longitude": 2.5}, None),
        ("geo", {"latitude": True, "longitude": 2.5}, None),
        ("geo", [1, 2], None),
        ("geo", None, None),
    ],
)
def test_value_of_another_type_has_no_list(type_: IndexType, raw: Any, value: Any) -> None:
    assert indexed_value(type_, raw) == value
    assert bool(list(names_of("k", {"x": type_}, [], {"x": raw}))) is (value is not None)


@pytest.mark.parametrize(
    ("type_", "text", "selection"),
    [
        ("string", "a..b", ("a..b",)),
        ("string", ["a", "b"], ("a", "b")),
        ("number", "5", (5.0,)),
        ("number", "5..", Range(5.0, None)),
        ("number", "..5.5", Range(None, 5.5)),
        ("number", (1, None), Range(1, None)),
        ("number", ["1", "2"], (1.0, 2.0)),
        ("number", "9007199254740993", (2**53 + 1,)),
        ("number", 10**400, (10**400,)),
        ("boolean", "true", (True,)),
        ("boolean", False, (False,)),
        ("time", "1970-01-02..1970-01-03", Range(86_400_000, 172_800_000)),
        ("time", datetime(1970, 1, 2, tzinfo=UTC), (86_400_000,)),
        ("geo", "1,2,3", disk(1, 2, 3)),
        ("geo", "1,2", disk(1, 2)),
        ("geo", disk(1, 2, 3), disk(1, 2, 3)),
    ],
)
def test_selection_is_parsed_by_type(type_: IndexType, text: Any, selection: Any) -> None:
    assert selection_of("x", type_, text) == selection


@pytest.mark.parametrize(
    ("type_", "given_value", "message"),
    [
        ("number", "many", "x must be a number (got 'many')"),
        ("number", "nan", "x must be a number"),
        ("number", "1..x", "x must be a number"),
        ("number", "1_000", "x must be a number"),
        ("number", math.inf, "x must be a number"),
        ("number", (1, 2, 3), "x must be a range with two ends"),
        ("number", True, "x must be a number"),
        ("string", 5, "x must be a text"),
        ("boolean", "yes", "x must be true or false"),
        ("time", "soon", "x must be a date or time"),
        ("geo", "1", "x must be latitude,longitude,radius_km"),
        ("geo", "91,0", "x: place: latitude is -90 to 90"),
        ("geo", "0,0,1000", "x: radius_km: must be 0.1 to 500 kilometers"),
        ("geo", "a,b", "x must be latitude,longitude,radius_km"),
        ("string", [], "x takes 1 to 10 values (got 0)"),
        ("string", ["a"] * 11, "x takes 1 to 10 values (got 11)"),
    ],
)
def test_selection_that_is_invalid_is_refused(type_: IndexType, given_value: Any, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        selection_of("x", type_, given_value)
    assert str(caught.value).startswith(f"filter: {message}")


def test_pair_reads_lists_of_combinations_up_to_the_maximum() -> None:
    pairs = [("a", "n")]
    one, several = Filter("a", "string", ("x",)), Filter("a", "string", tuple("abcdefghij"))
    values = Filter("n", "number", (1, 2, 3))
    assert len(selected_names("k", [one, values], pairs)) == 3
    assert len(selected_names("k", [values, several], pairs)) == 30
    assert len(selected_names("k", [Filter("n", "number", Range(0, 10**6)), one], pairs)) <= MAX_LISTS
    for filters, message in (
        ([several, Filter("n", "number", (1, 2, 3, 4, 5))], r"at most 40 combinations of values \(got 50\)"),
        ([several, Filter("n", "number", Range(1, 2))], "with a range of n, a takes a single value"),
        ([one, Filter("b", "string", ("x",))], r"a and b are no declared pair of the kind k \(pairs: a and n\)"),
    ):
        with pytest.raises(InvalidInput, match=message):
            selected_names("k", filters, pairs)
    with pytest.raises(InvalidInput, match="with b, n takes values, not a range"):
        selected_names("k", [Filter("n", "number", Range(1, 2)), Filter("b", "string", ("x",))], [("n", "b")])


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("1970-01-01t00:00:01z", 1_000),
        ("1970-01-01T02:00:01+02:00", 1_000),
        ("1970-01-01T00:00:01.0629", 1_062),
        ("2016-12-31T23:59:60Z", 1_483_228_799_999),
        ("19700101", None),
        ("1970-W01-4", None),
        ("1970-01-01T00", None),
        ("1970-02-30", None),
        ("", None),
    ],
)
def test_time_is_a_date_or_time_of_rfc_3339(text: str, moment: int | None) -> None:
    assert moment_of(text) == moment


def test_filter_compares_the_data_of_a_post() -> None:
    assert not Filter("n", "number", selection_of("n", "number", "9007199254740993")).admits(2**53)
    assert Filter("n", "number", (20,)).admits(20.0)
    assert not Filter("n", "number", (20,)).admits(20.00001)
    assert not Filter("n", "number", (1,)).admits(True)
    assert Filter("n", "number", Range(None, 5)).admits(-math.pi)
    assert not Filter("n", "number", Range(6, None)).admits(5)
    assert Filter("p", "geo", disk(0, 0, 100)).admits({"latitude": 0.5, "longitude": 0.5})
    assert not Filter("p", "geo", disk(0, 0, 10)).admits({"latitude": 0.5, "longitude": 0.5})
