"""Kinds: accepted declarations, the data of posts, and compatible changes of schemas."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shoal.core.errors import InvalidInput, Unfit
from shoal.core.kind_schemas import check_data, checked_schema, incompatibilities, is_valid
from shoal.core.kinds import KindDraft, changed, parse_file
from shoal.core.model import Presentation
from tests.example_counts import examples

RECIPE = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "maxLength": 20, "minLength": 1},
        "minutes": {"type": "integer", "maximum": 1440, "exclusiveMinimum": 0},
        "cuisine": {"enum": ["thai", "indian"]},
        "steps": {
            "type": "array",
            "maxItems": 2,
            "uniqueItems": True,
            "items": {"type": "string", "pattern": "^[a-z]+$"},
        },
        "source": {"type": "string", "format": "uri"},
        "photo": {"type": "string"},
        "half": {"type": "number", "multipleOf": 0.5},
        "nutrition": {"$ref": "#/$defs/nutrition"},
    },
    "required": ["title"],
    "additionalProperties": False,
    "$defs": {"nutrition": {"type": "object", "properties": {"kcal": {"type": ["number", "null"]}}}},
}


def draft(schema: dict[str, Any] | None = None, **values: Any) -> KindDraft:
    return KindDraft(**{"name": "recipe", "schema": RECIPE if schema is None else schema, **values})


def without(*names: str, **properties: Any) -> dict[str, Any]:
    """Return the schema of recipes without some keywords, and with other properties."""
    kept = {name: value for name, value in RECIPE.items() if name not in names}
    return kept | {"properties": {**RECIPE["properties"], **properties}}  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"title": "Soup", "minutes": 2000}, "data.minutes: must be at most 1440 (got 2000)"),
        ({"title": "Soup", "minutes": 0}, "data.minutes: must be greater than 0 (got 0)"),
        ({"title": "Soup", "minutes": "20"}, 'data.minutes: must be an integer (got "20")'),
        ({}, "data.title: is required"),
        (None, "data: must be an object (got null)"),
        ({"title": "Soup", "color2": 1}, "data.color2: is not a property of this kind"),
        ({"title": "S" * 21}, "data.title: must have at most 20 characters (got 21)"),
        ({"title": ""}, "data.title: must have at least 1 characters (got 0)"),
        ({"title": "Soup", "cuisine": "x"}, 'data.cuisine: must be one of "thai", "indian" (got "x")'),
        ({"title": "Soup", "steps": ["a", "B"]}, 'data.steps[1]: must match ^[a-z]+$ (got "B")'),
        ({"title": "Soup", "steps": ["a", "a"]}, 'data.steps: must not have equal items (got ["a","a"])'),
        ({"title": "Soup", "steps": ["a", "b", "c"]}, "data.steps: must have at most 2 items (got 3)"),
        ({"title": "Soup", "source": "no uri"}, 'data.source: must have the format uri (got "no uri")'),
        ({"title": "Soup", "half": 0.3}, "data.half: must be a multiple of 0.5 (got 0.3)"),
        (
            {"title": "Soup", "nutrition": {"kcal": "many"}},
            'data.nutrition.kcal: must be null or a number (got "many")',
        ),
    ],
)
def test_data_that_does_not_match_is_refused_with_its_path(data: Any, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_data(checked_schema(RECIPE), data)
    assert str(caught.value) == message
    assert caught.value.field == "data"


def test_data_that_matches_is_accepted() -> None:
    check_data(checked_schema(RECIPE), {"title": "Soup", "minutes": 20, "nutrition": {"kcal": 1.5, "other": 1}})


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "array"}, 'schema.type: must be "object" (got "array")'),
        ({"type": "object", "properties": {"a": {"type": "text"}}}, "schema: "),
        ({"type": "object", "properties": {"a": {"pattern": "(?=a)"}}}, "schema: "),
        ({"type": "object", "properties": {"a": {"pattern": "(a{1000}){1000}"}}}, "schema: "),
        ({"type": "object", "properties": {"a": {"$ref": "https://example.org/a"}}}, "schema: "),
        ({"type": "object", "properties": {"a": {"$ref": "#"}}}, "schema.properties.a.$ref: must be #/$defs/NAME"),
        ({"type": "object", "$id": "https://example.org/a"}, "schema.$id: is not supported"),
        ({"type": "object", "$schema": "http://json-schema.org/draft-07/schema#"}, "schema.$schema: must be https"),
        (
            {
                "type": "object",
                "properties": {"a": {"$ref": "#/$defs/a"}},
                "$defs": {"a": {"items": {"$ref": "#/$defs/a"}}},
            },
            "schema.$defs.a.items.$ref: $defs.a must not refer to itself",
        ),
        (
            {"type": "object", "dependencies": {"a": ["b"]}},
            "schema.dependencies: is not supported; use dependentRequired and dependentSchemas",
        ),
        ({"type": "object", "description": "x" * 65_536}, "schema: at most 65536 bytes of JSON (got 65"),
        (
            {
                "type": "object",
                "allOf": [{"$ref": "#/$defs/a0"}],
                "$defs": {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(12)} | {"a12": {}},
            },
            "schema: at most 2000 subschemas",
        ),
    ],
)
def test_schema_that_is_not_supported_is_refused(schema: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        draft(schema).checked(1)
    assert str(caught.value).startswith(message)


def test_schema_with_too_many_levels_is_refused() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(40):
        schema = {"type": "object", "properties": {"a": schema}}
    with pytest.raises(InvalidInput, match="at most 32 levels"):
        draft(schema).checked(1)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"name": "Recipe"}, r"name: must have 1 to 32 of the characters a-z, 0-9 and _ \(got 'Recipe'\)"),
        ({"name": ""}, "name: "),
        ({"name": "a" * 33}, "name: "),
        ({"title": "nothing"}, "title: the schema has no property 'nothing'"),
        ({"title": "minutes"}, "title: the property 'minutes' must have the type string"),
        ({"link": "a" * 201}, "link: a path has at most 200 characters"),
    ],
)
def test_declaration_with_invalid_value_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        draft(**values).checked(1)


def test_presentation_has_title_link_and_image_of_data() -> None:
    kind = draft(title="title", link="source", image="photo").checked(1)
    data = {"title": " Soup\n", "source": "https://example.org/soup", "photo": "javascript:alert(1)"}
    assert kind.presented(data) == Presentation(title="Soup", link="https://example.org/soup")
    assert kind.presented({"title": ""}) is None
    assert kind.draft == draft(title="title", link="source", image="photo")


def test_presented_title_is_a_text_that_a_post_may_contain() -> None:
    kind = draft({"type": "object", "properties": {"title": {"type": "string"}}}, title="title").checked(1)
    for title, shown in (
        ("a\0\x08b\r\nc", "ab c"),
        ("e" + "\u0301" * 500, "e" + "\u0301" * 30),
        ("\u200b \u2060", ""),
        ("word " * 100, "word " * 40 + "…"),
    ):
        presented = kind.presented({"title": title})
        assert (presented.title if presented else "") == shown.replace(" …", "…")


@pytest.mark.parametrize(
    "link",
    [
        *("https://", "https://[", "https://example.org/a b", "https://example.org/\0", "https://example.org/\u202e"),
        *(
            "https://ann:secret@example.org/",
            "ftp://example.org/",
            "see https://example.org/",
            "https://example.org/.",
            5,
        ),
    ],
)
def test_value_that_is_no_link_is_not_presented(link: object) -> None:
    kind = draft(link="source", image="photo").checked(1)
    assert kind.presented({"source": link, "photo": link}) is None


def test_kind_is_parsed_from_toml_and_json() -> None:
    toml = b'name = "run"\ntitle = "place"\n[schema]\ntype = "object"\n[schema.properties.place]\ntype = "string"\n'
    parsed = parse_file(toml, toml=True)
    assert parsed == KindDraft(
        name="run", title="place", schema={"type": "object", "properties": {"place": {"type": "string"}}}
    )
    assert parse_file(msgspec.json.encode(parsed), toml=False) == parsed


@pytest.mark.parametrize("content", [b"name =", b"\xff", b'nme = "a"', b"name = 1", b"x" * 200_000])
def test_file_that_is_no_declaration_is_refused(content: bytes) -> None:
    with pytest.raises(InvalidInput):
        parse_file(content, toml=True)


@pytest.mark.parametrize(
    "schema",
    [
        without(servings={"type": "integer"}),
        without(cuisine={"enum": ["thai", "indian", "greek"]}),
        without(cuisine={"type": "string"}),
        without(minutes={"type": "integer", "maximum": 2000, "exclusiveMinimum": 0}),
        without(minutes={"type": "number", "maximum": 1440, "minimum": 0}),
        without(minutes={"type": ["integer", "string"]}),
        without(title={"type": "string", "description": "The name of the dish", "maxLength": 30}),
        without("required"),
        without("additionalProperties"),
        without(steps={"type": "array", "maxItems": 3}),
        without(photo={"anyOf": [{"type": "string"}, {"type": "null"}]}),
        without(half={"type": "number"}),
    ],
)
def test_compatible_change_creates_the_next_version(schema: dict[str, Any]) -> None:
    kind = draft().checked(1)
    after = changed(kind, draft(schema))
    assert (after.schema_version, after.version) == (2, 1)
    assert after.draft.schema == schema


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (RECIPE | {"required": ["title", "minutes"]}, "data.minutes: is now required"),
        (
            without(minutes={"type": "integer", "maximum": 60, "exclusiveMinimum": 0}),
            "data.minutes: maximum was changed to 60",
        ),
        (without(minutes={"type": "string"}), r"data.minutes: the type was narrowed \(from integer to string\)"),
        (without(cuisine={"enum": ["thai"]}), 'data.cuisine: "indian" is no longer allowed'),
        (without(photo={"const": "a"}), "data.photo: was limited to fixed values"),
        (without(photo={"type": "string", "pattern": "a"}), 'data.photo: pattern "a" was added'),
        (without(photo={"type": "string", "minLength": 1}), "data.photo: minLength 1 was added"),
        (without(half={"type": "number", "multipleOf": 1}), "data.half: must now be a multiple of 1"),
        (
            RECIPE | {"properties": {"title": {"type": "string"}}},
            "data.minutes: the property was removed, and additionalProperties does not allow it",
        ),
        (without(nutrition={"type": "object", "required": ["kcal"]}), "data.nutrition.kcal: is now required"),
        (
            without(nutrition={"type": "object", "properties": {"salt": {"type": "number"}}}),
            "data.nutrition.salt: was not a property before",
        ),
        (without(steps={"type": "array", "maxItems": 2, "items": {"type": "integer"}}), r"data.steps\[\]: the type"),
        (without(photo=False), "data.photo: is no longer allowed"),
        (RECIPE | {"not": {"required": ["photo"]}}, "data: not was added"),
    ],
)
def test_incompatible_change_is_refused_with_the_path(schema: dict[str, Any], reason: str) -> None:
    with pytest.raises(Unfit, match=reason):
        changed(draft().checked(1), draft(schema))


def test_change_between_numbers_and_truth_values_is_refused() -> None:
    for keywords in (lambda value: {"enum": [value]}, lambda value: {"not": {"const": value}}):
        kind = draft(without(photo=keywords(1))).checked(1)
        with pytest.raises(Unfit, match=r"data\.photo"):
            changed(kind, draft(without(photo=keywords(True))))


def test_comparison_of_deeply_nested_branches_is_refused_after_a_bounded_number_of_steps() -> None:
    def nested(maximum: int) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "number", "maximum": maximum}
        for _ in range(28):
            schema = {"allOf": [schema]}
        return schema

    kind = draft(without(photo=nested(5))).checked(1)
    with pytest.raises(Unfit, match="too many nested branches"):
        changed(kind, draft(without(photo=nested(4))))


def test_paths_in_another_order_keep_the_version() -> None:
    index: dict[str, Any] = {"title": "string", "minutes": "number"}
    kind = draft(index=index).checked(1)
    assert changed(kind, draft(index=dict(reversed(index.items())))) == kind


def test_filter_by_a_path_that_is_being_built_is_refused_whatever_its_name() -> None:
    schema = {"type": "object", "properties": {"salt and pepper": {"type": "string"}}, "additionalProperties": False}
    kind = changed(draft(schema).checked(1), draft(schema, index={"salt and pepper": "string"}))
    with pytest.raises(Unfit, match="the index of salt and pepper is being built"):
        kind.lists(kind.filters({"salt and pepper": "a"}))


def refused(old: Any, new: Any) -> bool:
    """Return whether a change of the schema of a property is refused."""
    encoded = (msgspec.json.encode({"type": "object", "properties": {"x": schema}}).decode() for schema in (old, new))
    return bool(incompatibilities(*encoded))


@pytest.mark.parametrize(
    ("wider", "narrower"),
    [
        ({}, {"patternProperties": {"^a": {"type": "string"}}}),
        ({"additionalProperties": False, "patternProperties": {"^a": {}}}, {"additionalProperties": False}),
        ({"items": {"type": "number"}}, {"items": {"type": "integer"}}),
        ({"prefixItems": [{}]}, {"prefixItems": [{"type": "string"}]}),
        ({"prefixItems": [{"type": "number"}]}, {"prefixItems": [{"type": "number"}], "items": False}),
        ({"items": {"type": "number"}}, {"prefixItems": [{"type": "integer"}], "items": {"type": "number"}}),
        ({}, {"oneOf": [{"type": "string"}, {"type": "number"}]}),
        ({}, {"not": {"type": "string"}}),
        ({}, {"contains": {"type": "string"}}),
        ({"contains": {}, "minContains": 0}, {"contains": {}}),
        ({}, {"if": {"type": "string"}, "then": {"minLength": 1}}),
        ({}, {"dependentRequired": {"a": ["b"]}}),
        ({}, {"dependentSchemas": {"a": {"required": ["b"]}}}),
        ({}, {"propertyNames": {"maxLength": 3}}),
        ({}, {"unevaluatedProperties": False}),
        ({"properties": {"a": {}}}, {"properties": {"a": {}}, "additionalProperties": False}),
        ({}, {"properties": {"a": {"type": "string"}}}),
        ({"anyOf": [{"type": "string"}, {"type": "number"}]}, {"anyOf": [{"type": "string"}, {"type": "integer"}]}),
        ({"allOf": [{"maximum": 9}]}, {"allOf": [{"maximum": 8}]}),
        ({"minimum": 1}, {"exclusiveMinimum": 1}),
        ({"type": ["string", "null"]}, {"type": "string"}),
        ({"enum": [1, 2]}, {"enum": [1]}),
        (True, False),
        ({"multipleOf": 2}, {"multipleOf": 4}),
        ({}, {"uniqueItems": True}),
        ({"format": "date"}, {"format": "date-time"}),
    ],
)
def test_narrower_schema_is_refused(wider: Any, narrower: Any) -> None:
    assert refused(wider, narrower)
    assert not refused(narrower, narrower)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"oneOf": [{"type": "string"}]}, {}),
        ({"contains": {}, "minContains": 2}, {}),
        ({"if": {"type": "string"}, "then": {"minLength": 1}}, {}),
        ({"const": 1}, {"type": "integer", "minimum": 0}),
        ({"enum": [1, "a"]}, {"anyOf": [{"type": "string"}, {"type": "integer"}]}),
        ({"type": "string"}, {"type": "string", "maximum": 5}),
        ({"anyOf": [{"type": "string"}]}, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        ({"allOf": [{"maximum": 8}]}, {"allOf": [{"maximum": 9}]}),
        ({"exclusiveMaximum": 5}, {"maximum": 5}),
        ({"multipleOf": 4}, {"multipleOf": 2}),
        ({"prefixItems": [{"type": "integer"}], "items": False}, {"items": {"type": "number"}}),
        (
            {"properties": {"a": {"type": "string"}}, "additionalProperties": False},
            {"properties": {"a": {"type": "string"}, "b": {"type": "number"}}, "additionalProperties": False},
        ),
        (False, {"type": "string"}),
        ({"title": "Old"}, {"title": "New", "description": "More", "default": 1}),
    ],
)
def test_wider_schema_is_accepted(old: Any, new: Any) -> None:
    assert not refused(old, new)


def test_unchanged_declaration_keeps_the_version() -> None:
    kind = draft().checked(1)
    assert changed(kind, draft()) is kind


_names = st.sampled_from(["a", "b", "c"])
_small = st.integers(0, 4)
_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 6)
    | st.sampled_from([0.5, 1.5, 3.0])
    | st.sampled_from(["", "a", "ab", "b" * 5]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_names, inner, max_size=3),
    max_leaves=6,
)
_type = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])


def _schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.booleans() | st.fixed_dictionaries(
        {},
        optional={
            "type": _type | st.lists(_type, min_size=1, max_size=3, unique=True),
            "enum": st.lists(_values, min_size=1, max_size=3),
            "const": _values,
            "minimum": _small,
            "maximum": _small,
            "exclusiveMinimum": _small,
            "exclusiveMaximum": _small,
            "multipleOf": st.sampled_from([1, 2, 0.5]),
            "minLength": _small,
            "maxLength": _small,
            "pattern": st.sampled_from(["^a", "b"]),
            "minItems": _small,
            "maxItems": _small,
            "uniqueItems": st.booleans(),
            "minProperties": _small,
            "maxProperties": _small,
            "required": st.lists(_names, unique=True, max_size=2),
            "dependentRequired": st.dictionaries(_names, st.lists(_names, unique=True, max_size=2), max_size=1),
            "properties": st.dictionaries(_names, inner, max_size=3),
            "patternProperties": st.dictionaries(st.sampled_from(["a", "^b"]), inner, max_size=1),
            "additionalProperties": inner,
            "propertyNames": st.just({"maxLength": 1}) | st.just({"enum": ["a", "b"]}),
            "items": inner,
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "contains": inner,
            "not": inner,
            "allOf": st.lists(inner, min_size=1, max_size=2),
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "oneOf": st.lists(inner, min_size=1, max_size=2),
            "unevaluatedProperties": st.booleans(),
            "unevaluatedItems": st.booleans(),
        },
    )


_subschemas = st.recursive(st.booleans() | st.fixed_dictionaries({"type": _type}), _schemas, max_leaves=5)


@st.composite
def _changes(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a schema, and the schema with some keywords, at any depth, removed, replaced or added."""
    old = draw(_schemas(_subschemas).filter(lambda schema: isinstance(schema, dict)))
    return old, draw(_mutations(old))


def _mutations(schema: Any) -> st.SearchStrategy[Any]:
    @st.composite
    def mutate(draw: st.DrawFn) -> Any:
        if isinstance(schema, bool) or draw(st.integers(0, 9)) == 0:
            return draw(_subschemas)
        new = dict(schema)
        for keyword in list(new):
            choice = draw(st.integers(0, 5))
            if choice == 0:
                del new[keyword]
            elif keyword in ("properties", "patternProperties"):
                new[keyword] = {name: draw(_mutations(each)) for name, each in new[keyword].items()}
            elif keyword in ("allOf", "anyOf", "oneOf", "prefixItems"):
                new[keyword] = [draw(_mutations(each)) for each in new[keyword]]
            elif keyword in ("additionalProperties", "items", "contains", "not"):
                new[keyword] = draw(_mutations(new[keyword]))
            elif choice == 1:
                other = draw(_schemas(_subschemas))
                if isinstance(other, dict) and keyword in other:
                    new[keyword] = other[keyword]
        extra = draw(_schemas(_subschemas))
        if isinstance(extra, dict) and draw(st.booleans()):
            new = {**extra, **new}
        return new

    return mutate()


@settings(max_examples=examples(100, full=1_000), deadline=None, suppress_health_check=list(HealthCheck))
@given(_changes(), st.lists(_values, min_size=20, max_size=40))
def test_data_valid_under_a_schema_is_valid_under_every_compatible_one(
    change: tuple[dict[str, Any], dict[str, Any]], several: list[Any]
) -> None:
    old, new = (
        msgspec.json.encode({"type": "object", "required": ["x"], "properties": {"x": schema}}).decode()
        for schema in change
    )
    if not incompatibilities(old, new):
        for value in several:
            if is_valid(old, {"x": value}):
                assert is_valid(new, {"x": value}), (change, value)
