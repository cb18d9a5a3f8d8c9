"""Declarations of named feeds: validation, parameters, and the cost of a page."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.errors import InvalidInput, Unfit
from shoal.core.feeds.declarations import (
    MAX_BYTES,
    MAX_CANDIDATES,
    FeedDeclaration,
    Filters,
    Source,
    check_cost,
    cost_of,
    declaration_of,
    values_of,
)
from shoal.core.feeds.expressions import FUNCTIONS, TERMS

_EVERYBODY = {"from": "everybody"}
_HALF_LIFE = {"type": "number", "default": 24, "minimum": 1, "maximum": 720}


def _declared(*sources: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"sources": list(sources or (_EVERYBODY,)), **fields}


def _by(expression: str) -> dict[str, Any]:
    return {"by": "expression", "expression": expression}


def test_declaration_is_normalized_and_encodes_to_an_equal_declaration() -> None:
    found = declaration_of(
        _declared(
            {"from": "tag", "tag": "#Bread"},
            {"from": "author", "author": "@Ann"},
            filters={"tags_none": ["Ads", "ads"], "languages": ["de"]},
            order=_by("likes / $half_life"),
            parameters={"half_life": _HALF_LIFE},
            diversity={"author_most": 2},
        )
    )
    assert msgspec.to_builtins(found.sources) == (
        {"from": "tag", "tag": "bread"},
        {"from": "author", "author": "ann"},
    )
    assert found.filters.tags_none == ("ads",)
    assert declaration_of(msgspec.json.encode(found)) == found


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"sources": []}, "length >= 1"),
        ({"sources": [_EVERYBODY] * 21}, "<= 20"),
        (_declared({"from": "moon"}), "sources[0].from: Invalid value 'moon'; allowed are followees, list, tag,"),
        (_declared({"from": "tag"}), "sources[0]: Object missing required field `tag`"),
        (_declared(_EVERYBODY, {"from": "tag", "tag": "two words"}), "sources[1].tag: a tag is 1 to 100 letters"),
        (
            _declared(_EVERYBODY, {"from": "tag", "tag": "a", "color": 1}),
            "sources[1]: Object contains unknown field `color`; fields are from, most, tag",
        ),
        (_declared(filters={"media": "film"}), "filters.media: Invalid enum value 'film'; allowed are audio, image,"),
        (
            _declared(order={"by": "recipe", "recipe": {"wait": 1}}),
            "order.recipe: Object contains unknown field `wait`; fields are weights, half_life_hours,",
        ),
        (
            _declared(order=_by("$a"), parameters={"a": {**_HALF_LIFE, "title": "A"}}),
            "parameters.a: Object contains unknown field `title`; fields are type, default, minimum, maximum",
        ),
        ({"sources": [_EVERYBODY], "filter": {}}, "declaration: Object contains unknown field `filter`; fields are"),
        (_declared(parameters={"a" * 31: _HALF_LIFE}), f"parameters.{'a' * 31}: Expected `str` of length <= 30"),
        (_declared(parameters={"a:b": _HALF_LIFE}), 'parameters["a:b"]: expected 1 to 30 lower-case'),
        (_declared(filters={"fields": {"a": 1, "": 1}}), 'filters.fields[""]: Expected `str` of length >= 1'),
        (_declared({"from": "kind", "kind": "a", "where": {"": 1}}), 'sources[0].where[""]: Expected `str` of length'),
        (_declared(filters={"fields": {5: 1}}), "filters.fields.5: Expected `str`, got `int`"),
        (
            _declared(parameters={"a": {"type": "date"}}),
            "parameters.a.type: Invalid value 'date'; allowed are number, boolean, text",
        ),
        (
            _declared(parameters={"a": _HALF_LIFE, "b": {"type": "date"}}),
            "parameters.b.type: Invalid value 'date'; allowed are number, boolean, text",
        ),
        (_declared(parameters={"a": {"type": 5}}), "parameters.a.type: Expected `str`"),
        ('{"sources": [{"from": "moon - at `$.x`"}]}', "sources[0].from: Invalid value 'moon - at `$.x`'; allowed are"),
        ('{"sources": [{"from": "moon"}], "x', "sources[0].from: Invalid value 'moon'"),
        (_declared({"from": "everybody", "most": 0}), ">= 1"),
        (_declared(_EVERYBODY, {"from": "everybody", "most": 3}), "sources[1]: each source may be given once"),
        (_declared(shade="red"), "unknown field `shade`"),
        (_declared(filters={"languages": ["DE"]}), "expected codes such as en or de (got 'DE')"),
        (_declared({"from": "list", "list": "five"}), "sources[0].list: expected the id of a list (got 'five')"),
        (_declared(filters={"minimum_age_hours": 5, "maximum_age_hours": 5}), "must be above minimum_age_hours"),
        (_declared(filters={"tags_any": ["no tag"]}), "filters.tags_any[0]: a tag is"),
        (_declared(order=_by("hearts")), "order.expression: at position 1: unknown name 'hearts'"),
        (_declared(order=_by("$half_life")), "the feed declares no parameters"),
        (_declared(diversity={"author_most": 2}), "needs an order by recipe or expression"),
        (_declared(parameters={"half_life": _HALF_LIFE}), "need an order by expression"),
        (_declared(parameters={"Half": _HALF_LIFE}, order=_by("likes")), "expected 1 to 30 lower-case"),
        (_declared(parameters={"a": {**_HALF_LIFE, "default": 0}}, order=_by("likes")), "between minimum and maximum"),
        (
            _declared(parameters={"a": {"type": "text", "default": "x", "choices": ["y"]}}, order=_by("likes")),
            "one of the choices",
        ),
        (_declared(order={"by": "recipe", "recipe": {"weights": {"seen": 11}}}), "<= 10.0"),
        ("{", "declaration: "),
        ("[" * 10_000, "declaration: "),
        (" " * (MAX_BYTES + 1), f"at most {MAX_BYTES} bytes"),
        (7, "declaration: Expected `object`"),
    ],
)
def test_invalid_declaration_is_refused_with_field_and_allowed_values(document: object, message: str) -> None:
    with pytest.raises(InvalidInput) as error:
        declaration_of(document)
    assert message in str(error.value)


@pytest.mark.parametrize(
    "document",
    [
        _declared({"from": "x" * 9_000}),
        _declared(filters={"media": "x" * 9_000}),
        _declared(filters={"x" * 9_000: 1}),
        _declared(filters={"fields": {"x" * 9_000: 1}}),
        _declared(parameters={"a": {"type": "x" * 9_000}}),
        _declared({"from": "tag", "tag": " x" * 50}),
        json.dumps({"x" * 9_000: 1}),
    ],
)
def test_given_value_in_an_error_has_at_most_60_characters(document: object) -> None:
    with pytest.raises(InvalidInput) as error:
        declaration_of(document)
    assert re.search("[ x]{55}", str(error.value))
    assert not re.search("[ x]{62}", str(error.value))


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["sources", "from", "tag", "order", "by", "expression", "filters", "parameters", "type"]),
            inner | st.sampled_from(["tag", "everybody", "feed", "expression", "number"]),
            max_size=4,
        )
    ),
    max_leaves=15,
)


@given(_JSON)
def test_random_document_is_a_declaration_or_refused(document: object) -> None:
    with suppress(InvalidInput):
        assert isinstance(declaration_of(document), FeedDeclaration)


_DECLARED = declaration_of(
    _declared(
        order=_by("likes * $n + if($on, 1, 0) + if(language == $in, 1, 0) + if(author == $who, 1, 0)"),
        parameters={
            "n": {"type": "number", "default": 2, "minimum": 1, "maximum": 3},
            "on": {"type": "boolean", "default": False},
            "in": {"type": "text", "default": "de", "choices": ["de", "en"]},
            "who": {"type": "text", "default": ""},
        },
    )
)


@pytest.mark.parametrize(
    ("given_values", "changed"),
    [
        ({}, {}),
        ({"n": "3"}, {"n": 3.0}),
        ({"n": "+.25e1"}, {"n": 2.5}),
        ({"n": 1, "on": True}, {"n": 1.0, "on": True}),
        ({"on": "1", "in": "en", "who": "ann"}, {"on": True, "in": "en", "who": "ann"}),
    ],
)
def test_parameter_values_replace_defaults(given_values: dict[str, object], changed: dict[str, object]) -> None:
    assert values_of(_DECLARED, given_values) == {"n": 2.0, "on": False, "in": "de", "who": ""} | changed


@pytest.mark.parametrize(
    ("given_values", "message"),
    [
        ({"n": "4"}, "n: expected a number from 1 to 3 (got '4')"),
        ({"n": "nan"}, "n: expected a number from 1 to 3 (got 'nan')"),
        ({"n": "x"}, "n: expected a number"),
        ({"n": " 2"}, "n: expected a number"),
        ({"n": "0_2"}, "n: expected a number"),
        ({"n": "\N{ARABIC-INDIC DIGIT TWO}"}, "n: expected a number"),
        ({"n": "0" * 99 + "2"}, "n: expected a number"),
        ({"n": 10**400}, "n: expected a number"),
        ({"n": []}, "n: expected a number"),
        ({"on": "maybe"}, "on: expected true or false (got 'maybe')"),
        ({"in": "fr"}, "in: expected one of de, en (got 'fr')"),
        ({"who": "a" * 101}, "who: expected at most 100 characters"),
        ({"m": "1"}, "m: unknown parameter of this feed; allowed are n, on, in, who"),
    ],
)
def test_invalid_parameter_value_is_refused(given_values: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInput) as error:
        values_of(_DECLARED, given_values)
    assert message in str(error.value)


def test_cost_is_the_sum_of_its_parts() -> None:
    declared = declaration_of(
        _declared(
            {"from": "tag", "tag": "bread", "most": 300}, {"from": "popular"}, order=_by("likes + author_interest")
        )
    )
    cost = cost_of(declared)
    assert [part.name for part in cost.parts] == ["tag bread", "popular", "page", "likes", "author_interest"]
    assert cost.reads == sum(part.reads for part in cost.parts)
    assert cost.candidates == 500


def test_feed_in_a_feed_costs_its_sources_without_its_feeds() -> None:
    inner = declaration_of(_declared({"from": "tag", "tag": "bread", "most": 400}, {"from": "feed", "feed": "third"}))
    outer = declaration_of(_declared({"from": "feed", "feed": "inner", "most": 100}, order=_by("likes")))
    cost = cost_of(outer, {"inner": inner, "third": inner})
    assert cost.parts[0].name == "feed inner: tag bread"
    assert cost.candidates == 100


@pytest.mark.parametrize(
    ("sources", "order", "message"),
    [
        (
            [{"from": "list", "list": str(number)} for number in (1, 2, 3)],
            {"by": "newest"},
            "a page takes up to 3012 reads, and at most 2500 are allowed; sources[0] takes the most (1000)",
        ),
        (
            [{"from": "popular", "most": 1_000}, {"from": "tag", "tag": "bread", "most": 501}],
            _by("likes"),
            f"a page takes up to 1501 candidates, and at most {MAX_CANDIDATES} are allowed; sources[0] takes the most (1000)",
        ),
    ],
)
def test_expensive_feed_is_refused_with_the_part_that_costs_most(
    sources: list[dict[str, Any]], order: dict[str, Any], message: str
) -> None:
    with pytest.raises(Unfit) as error:
        check_cost(cost_of(declaration_of(_declared(*sources, order=order))))
    assert message in str(error.value)


_DOCS = Path(__file__).parents[3] / "docs"


def test_documentation_lists_all_sources_filters_and_terms_in_valid_declarations() -> None:
    text = (_DOCS / "reference" / "feeds.md").read_text()
    sources = [json.loads(found) for found in re.findall(r'`(\{"from".*?\})`', text)]
    declared = declaration_of({"sources": sources})
    assert {type(source) for source in declared.sources} == set(get_args(Source))
    parameters = [json.loads(found) for found in re.findall(r'`(\{"type".*?\})`', text)]
    values = dict(zip("abc", parameters, strict=True))
    assert len(declaration_of(_declared(order=_by("likes"), parameters=values)).parameters) == 3
    missing = [name for name in (*Filters.__struct_fields__, *TERMS) if f"`{name}`" not in text]
    assert not missing
    assert not [name for name in FUNCTIONS if f"`{name}(" not in text]
    (example,) = re.findall(
        r"```json\n(\{\n  \"sources\".*?)```", (_DOCS / "howto" / "feeds.md").read_text(), re.DOTALL
    )
    cost = cost_of(declaration_of(example))
    assert f"up to {cost.reads} reads and {cost.candidates} candidates" in (_DOCS / "howto" / "feeds.md").read_text()
