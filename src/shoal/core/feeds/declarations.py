"""Declarations of named feeds: sources, filters, order and parameters, as a JSON document; and the cost of reading a page.

    {
      "sources": [{"from": "followees"}, {"from": "tag", "tag": "bread"}],
      "filters": {"media": "with", "maximum_age_hours": 168},
      "parameters": {"half_life": {"type": "number", "default": 24, "minimum": 1, "maximum": 720}},
      "order": {"by": "expression", "expression": "4 * exp(-age_hours / $half_life) + log(1 + likes)"},
      "diversity": {"author_most": 3}
    }

A feed shows posts, each at most once, and no shares. The order `newest` has no end. The other orders rank the newest posts of each
source, `most` of each, and at most 1,500 together.

A new kind of source is a struct of the union `Source` with its cost in `_READS`, and a reader in `queries/named_feeds/sources.py`.
A new filter is a field of `Filters`, and a condition there.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from shoal.core.errors import InvalidInput, Unfit
from shoal.core.feeds.decode_errors import key_step, message_of
from shoal.core.feeds.expressions import (
    ABOUT_AUTHORS,
    COUNTED,
    MAX_LENGTH,
    MAX_NUMBER,
    MAX_TEXT,
    PERSONAL,
    SEEN,
    Expression,
    Type,
    Value,
    parse,
)
from shoal.core.ids import MAX_ID
from shoal.core.kind_index import MAX_INDEXED, MAX_LISTS, MAX_VALUES
from shoal.core.kinds import MAX_NAME as MAX_KIND_NAME
from shoal.core.kinds import MAX_PATH
from shoal.core.model import Node
from shoal.core.places import MAX_RADIUS_KM, MIN_RADIUS_KM, cover, disk
from shoal.core.ranking.recipes import Recipe
from shoal.core.text import MAX_TAG, MAX_USER_NAME, check_tag, check_text

MAX_SOURCES = 20
MAX_MERGED = 32
"""Maximum sources of a page, with those of the feeds that a feed contains. Rankings have one bit for each."""
MAX_CANDIDATES = 1_500
"""Maximum posts that a page of a ranked feed is chosen from."""
MAX_READS = 2_500
"""Maximum lists and bulk reads of a page."""
MAX_DEPTH = 2
"""A feed may contain feeds, whose own feeds are left out."""
MAX_PARAMETERS = 10
MAX_CHOICES = 20
MAX_TITLE = 100
MAX_FEEDS_OF_MEMBER = 50
MAX_FEEDS_OF_SERVER = 100
MAX_BYTES = 16_384
"""Maximum bytes of a declaration as JSON."""
SPAN = 20
"""Consecutive entries among which `Diversity.author_most` counts."""
MAX_LIST_MEMBERS = 500
_NEVER_HOURS = 876_000.0

_NAME = re.compile(r"[a-z][a-z0-9_-]{1,49}")
_RESERVED_NAMES = ("dry_run", "new")
"""Paths of the API and of the web app that a feed with this name would collide with."""
_PARAMETER = re.compile(r"[a-z][a-z0-9_]{0,29}")
_LANGUAGE = re.compile(r"[a-z]{2,3}")
_NUMBER = re.compile(r"[+-]?([0-9]{1,20}(\.[0-9]{0,20})?|\.[0-9]{1,20})([eE][+-]?[0-9]{1,3})?")
_LIST_ID = re.compile(r"[0-9]{1,19}")
_AUTHOR = re.compile(r"[a-z0-9_]+")

_Most = Annotated[int, Meta(ge=1, le=1_000)]
_Tag = Annotated[str, Meta(min_length=1, max_length=MAX_TAG + 1)]
_Tags = Annotated[tuple[_Tag, ...], Meta(max_length=10)]
_Hours = Annotated[float, Meta(ge=0.0, le=_NEVER_HOURS)]
_Number = Annotated[float, Meta(ge=-MAX_NUMBER, le=MAX_NUMBER)]
_Text = Annotated[str, Meta(max_length=MAX_TEXT)]
_Kind = Annotated[str, Meta(min_length=1, max_length=MAX_KIND_NAME)]
_FieldText = Annotated[str, Meta(max_length=200)]
_Field = (
    _FieldText
    | bool
    | float
    | Annotated[tuple[_FieldText | bool | float, ...], Meta(min_length=1, max_length=MAX_VALUES)]
)
_Fields = dict[Annotated[str, Meta(min_length=1, max_length=MAX_PATH)], _Field]
_Reference = Annotated[str, Meta(min_length=1, max_length=50)]


class _Source(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="from"
):
    most: _Most = 200
    """The number of newest posts of the source that a ranked feed considers."""


class Followees(_Source, frozen=True, kw_only=True, tag="followees"):
    """Posts by the members whom the reader follows."""


class OnList(_Source, frozen=True, kw_only=True, tag="list"):
    """Posts by the members of one of the owner's lists. Only the owner of the list can read it."""

    list: Annotated[str, Meta(min_length=1, max_length=19)]
    """The id of the list."""


class WithTag(_Source, frozen=True, kw_only=True, tag="tag"):
    tag: _Tag


class ByAuthor(_Source, frozen=True, kw_only=True, tag="author"):
    author: Annotated[str, Meta(min_length=1, max_length=MAX_USER_NAME + 1)]
    """A user name."""


class Nearby(_Source, frozen=True, kw_only=True, tag="nearby"):
    latitude: Annotated[float, Meta(ge=-90.0, le=90.0)]
    longitude: Annotated[float, Meta(ge=-180.0, le=180.0)]
    radius_km: Annotated[float, Meta(ge=MIN_RADIUS_KM, le=MAX_RADIUS_KM)]


class Popular(_Source, frozen=True, kw_only=True, tag="popular"):
    """The posts that trend on the server."""


class FromEverybody(_Source, frozen=True, kw_only=True, tag="everybody"):
    """The posts of the public timeline."""


class OfKind(_Source, frozen=True, kw_only=True, tag="kind"):
    """Public posts of a kind, optionally with values of an indexed path, or of a pair of paths."""

    kind: _Kind
    where: Annotated[_Fields, Meta(max_length=2)] = {}
    """Values by path: one value, several, or a range such as `10..30`."""


class OfFeed(_Source, frozen=True, kw_only=True, tag="feed"):
    """The posts of another feed, with its filters, regardless of its order. Its own feeds are left out."""

    feed: _Reference
    """The name of a feed of the server, or the id of a feed that the reader may read."""


Source: TypeAlias = Followees | OnList | WithTag | ByAuthor | Nearby | Popular | FromEverybody | OfKind | OfFeed


class Filters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Conditions that each post must meet. Empty values are no condition."""

    languages: Annotated[tuple[Annotated[str, Meta(min_length=2, max_length=3)], ...], Meta(max_length=10)] = ()
    """ISO 639 codes. Posts without a language are left out."""
    media: Literal["", "with", "without", "image", "video", "audio"] = ""
    minimum_age_hours: _Hours = 0.0
    maximum_age_hours: _Hours | None = None
    sensitive: Literal["", "without", "only"] = ""
    replies: bool = False
    """Whether replies to other members are included."""
    kinds: Annotated[tuple[_Kind, ...], Meta(max_length=10)] = ()
    fields: Annotated[_Fields, Meta(max_length=MAX_INDEXED)] = {}
    """Values by indexed path of the only one of `kinds`."""
    tags_any: _Tags = ()
    tags_all: _Tags = ()
    tags_none: _Tags = ()


class Newest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="by", tag="newest"):
    """Newest first, without an end."""


class ByRecipe(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="by", tag="recipe"):
    """By the terms of the For you feed. Needs a reader."""

    recipe: Recipe = Recipe()


class ByExpression(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="by", tag="expression"
):
    expression: Annotated[str, Meta(min_length=1, max_length=MAX_LENGTH)]


Order: TypeAlias = Newest | ByRecipe | ByExpression


class NumberParameter(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="number"
):
    default: _Number
    minimum: _Number
    maximum: _Number


class BooleanParameter(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="boolean"
):
    default: bool


class TextParameter(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    tag_field="type",
    tag="text",
):
    default: _Text
    choices: Annotated[tuple[_Text, ...], Meta(max_length=MAX_CHOICES)] = ()
    """The allowed values; empty to allow any text of at most 100 characters."""


Parameter: TypeAlias = NumberParameter | BooleanParameter | TextParameter


class Diversity(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    author_most: Annotated[int, Meta(ge=1, le=SPAN)]
    """Posts by one author among any 20 consecutive entries, while other authors have posts left."""


class FeedDeclaration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a feed shows."""

    sources: Annotated[tuple[Source, ...], Meta(min_length=1, max_length=MAX_SOURCES)]
    filters: Filters = Filters()
    order: Order = Newest()
    parameters: Annotated[dict[Annotated[str, Meta(max_length=30)], Parameter], Meta(max_length=MAX_PARAMETERS)] = {}
    diversity: Diversity | None = None
    aggregate: Literal["", "author", "tag", "day"] = ""
    """Show only the best post by each author, with each first tag, or of each day (UTC), and the ids of the others with it."""

    @property
    def ranked(self) -> bool:
        return not isinstance(self.order, Newest)

    @property
    def feeds(self) -> tuple[str, ...]:
        return tuple(source.feed for source in self.sources if isinstance(source, OfFeed))

    @property
    def has_lists(self) -> bool:
        return any(isinstance(source, OnList) for source in self.sources)

    def expression(self) -> Expression | None:
        """Return the parsed expression of the order; None for another order. Raises `InvalidInput`."""
        if not isinstance(self.order, ByExpression):
            return None
        return parse(self.order.expression, self._types(), field="order.expression")

    def document(self) -> dict[str, Any]:
        """Return the declaration as JSON values, without fields that have their defaults."""
        defaults = {"filters": {}, "order": {"by": "newest"}}
        found: dict[str, Any] = msgspec.to_builtins(self)
        return {name: value for name, value in found.items() if defaults.get(name) != value}

    def _types(self) -> dict[str, Type]:
        return {name: _type_of(parameter) for name, parameter in self.parameters.items()}


class NamedFeed(Node, frozen=True, tag="named_feed"):
    """A feed of the server or of a member."""

    owner_id: int
    """0 for a feed of the server."""
    title: str
    declaration: FeedDeclaration
    name: str = ""
    """The name of a feed of the server, by which it is read; empty for a feed of a member."""
    shared: bool = False
    """Whether anyone may read it, and other members may copy it. Feeds of the server always are."""
    origin_id: int = 0
    """The feed of which this one is a copy; 0 for none."""

    @property
    def readable(self) -> bool:
        return self.shared or not self.owner_id


def declaration_of(document: object) -> FeedDeclaration:
    """Return the declaration in a JSON document, given as its text or as decoded. Raises `InvalidInput`, which names the field."""
    try:
        if isinstance(document, str | bytes):
            if len(document) > MAX_BYTES:
                raise InvalidInput(f"declaration: at most {MAX_BYTES} bytes (got {len(document)})", field="declaration")
            declared = msgspec.json.decode(document, type=FeedDeclaration)
        elif isinstance(document, FeedDeclaration):
            declared = msgspec.convert(msgspec.to_builtins(document), FeedDeclaration)
        else:
            declared = msgspec.convert(document, FeedDeclaration)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InvalidInput(message_of(error, document, FeedDeclaration), field="declaration") from error
    if (size := len(msgspec.json.encode(declared))) > MAX_BYTES:
        raise InvalidInput(f"declaration: at most {MAX_BYTES} bytes (got {size})", field="declaration")
    return _checked(declared)


def _checked(declared: FeedDeclaration) -> FeedDeclaration:
    """Return a declaration in normalized form. Raises `InvalidInput`."""
    for name, parameter in declared.parameters.items():
        _check_parameter(name, parameter)
    for at, language in enumerate(declared.filters.languages):
        if not _LANGUAGE.fullmatch(language):
            raise InvalidInput(
                f"filters.languages[{at}]: expected codes such as en or de (got {language!r})", field="filters"
            )
    filters, order = declared.filters, declared.order
    if filters.maximum_age_hours is not None and filters.maximum_age_hours <= filters.minimum_age_hours:
        raise InvalidInput("filters.maximum_age_hours: must be above minimum_age_hours", field="filters")
    for name, given in (("diversity", declared.diversity is not None), ("aggregate", declared.aggregate)):
        if given and not declared.ranked:
            raise InvalidInput(
                f"{name}: needs an order by recipe or expression, such as -age_hours, because entries change places",
                field=name,
            )
    if declared.parameters and not isinstance(order, ByExpression):
        raise InvalidInput("parameters: need an order by expression, which uses them", field="parameters")
    if filters.fields and len(filters.kinds) != 1:
        raise InvalidInput(f"filters.fields: needs exactly one of kinds (got {len(filters.kinds)})", field="filters")
    declared.expression()
    names = ("tags_any", "tags_all", "tags_none")
    filters = replace(filters, **{name: _checked_tags(name, getattr(filters, name)) for name in names})
    sources = tuple(_checked_source(f"sources[{at}]", source) for at, source in enumerate(declared.sources))
    known: set[bytes] = set()
    for at, source in enumerate(sources):
        encoded = msgspec.json.encode(replace(source, most=1))
        if encoded in known:
            raise InvalidInput(f"sources[{at}]: each source may be given once", field="sources")
        known.add(encoded)
    return replace(declared, sources=sources, filters=filters)


def _checked_tags(name: str, tags: tuple[str, ...]) -> tuple[str, ...]:
    checked = (_checked_tag(f"filters.{name}[{at}]", tag) for at, tag in enumerate(tags))
    return tuple(dict.fromkeys(checked))


def _checked_tag(path: str, tag: str) -> str:
    try:
        return check_tag(tag)
    except InvalidInput as error:
        raise InvalidInput(
            f"{path}: {error} (got {tag[:60]!r})", field=path.partition(".")[0].partition("[")[0]
        ) from None


def _checked_source(path: str, source: Source) -> Source:
    if isinstance(source, WithTag):
        return replace(source, tag=_checked_tag(f"{path}.tag", source.tag))
    if isinstance(source, ByAuthor):
        author = source.author.removeprefix("@").lower()
        if not _AUTHOR.fullmatch(author):
            raise InvalidInput(
                f"{path}.author: expected a user name of letters, digits and _ (got {source.author!r})", field="sources"
            )
        return replace(source, author=author)
    if isinstance(source, OnList) and not (_LIST_ID.fullmatch(source.list) and int(source.list) <= MAX_ID):
        raise InvalidInput(f"{path}.list: expected the id of a list (got {source.list!r})", field="sources")
    return source


def _check_parameter(name: str, parameter: Parameter) -> None:
    field = f"parameters{key_step(name)}"
    if not _PARAMETER.fullmatch(name):
        raise InvalidInput(f"{field}: expected 1 to 30 lower-case letters, digits and underscores", field="parameters")
    if isinstance(parameter, NumberParameter) and not parameter.minimum <= parameter.default <= parameter.maximum:
        raise InvalidInput(f"{field}: the default must be between minimum and maximum", field="parameters")
    if isinstance(parameter, TextParameter) and parameter.choices and parameter.default not in parameter.choices:
        raise InvalidInput(f"{field}: the default must be one of the choices", field="parameters")


def _type_of(parameter: Parameter) -> Type:
    if isinstance(parameter, NumberParameter):
        return "number"
    return "boolean" if isinstance(parameter, BooleanParameter) else "text"


def values_of(declared: FeedDeclaration, given: Mapping[str, object]) -> dict[str, Value]:
    """Return the values of all parameters. Values may be given as texts. Raises `InvalidInput`, which names the parameter."""
    for name in given:
        if name not in declared.parameters:
            allowed = ", ".join(declared.parameters) or "none"
            raise InvalidInput(f"{name[:32]}: unknown parameter of this feed; allowed are {allowed}", field=name[:32])
    return {
        name: _value_of(name, parameter, given[name]) if name in given else parameter.default
        for name, parameter in declared.parameters.items()
    }


def _value_of(name: str, parameter: Parameter, given: object) -> Value:
    if isinstance(parameter, NumberParameter):
        number = _number(given)
        if not parameter.minimum <= number <= parameter.maximum:
            allowed = f"{parameter.minimum:g} to {parameter.maximum:g}"
            raise InvalidInput(f"{name}: expected a number from {allowed} (got {str(given)[:32]!r})", field=name)
        return number
    if isinstance(parameter, BooleanParameter):
        found = {"true": True, "1": True, "false": False, "0": False}.get(str(given).lower())
        if found is None:
            raise InvalidInput(f"{name}: expected true or false (got {str(given)[:32]!r})", field=name)
        return found
    text = str(given)
    if len(text) > MAX_TEXT or (parameter.choices and text not in parameter.choices):
        allowed = f"one of {', '.join(parameter.choices)}" if parameter.choices else f"at most {MAX_TEXT} characters"
        raise InvalidInput(f"{name}: expected {allowed} (got {text[:32]!r})", field=name)
    return text


def _number(given: object) -> float:
    if isinstance(given, str) and not _NUMBER.fullmatch(given):
        return math.nan
    try:
        return float(given) if isinstance(given, str | int | float) else math.nan
    except OverflowError:
        return math.nan


def checked_title(title: str) -> str:
    """Return a title without surrounding spaces. Raises `InvalidInput`."""
    title = check_text(title.strip(), field="title", maximum=MAX_TITLE)
    if not title:
        raise InvalidInput("title: this must not be empty", field="title")
    return title


def checked_name(name: str) -> str:
    """Return the name of a feed of the server. Raises `InvalidInput`."""
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"name: expected 2 to 50 lower-case letters, digits, - and _, starting with a letter (got {name[:60]!r})",
            field="name",
        )
    if name in _RESERVED_NAMES:
        raise InvalidInput(f"name: {name} is reserved for the server", field="name")
    return name


class Part(NamedTuple):
    """A part of the cost of a page."""

    name: str
    reads: int
    candidates: int
    path: str = ""
    """The place of the source in the declaration; empty for another part."""


class Cost(NamedTuple):
    """The most that reading a page costs while the home timeline, trends and interests that it needs are cached."""

    reads: int
    """Lists and bulk reads; for a feed in the order of time, of a single pass over its sources."""
    candidates: int
    """Posts that a ranked feed considers; 0 for a feed in the order of time."""
    parts: tuple[Part, ...]
    sources: int
    """Sources, with those of the feeds that it contains."""


_READS: Mapping[type, Callable[[Any], int]] = {
    Followees: lambda _: 10,
    OnList: lambda _: 2 * MAX_LIST_MEMBERS,
    WithTag: lambda _: 1,
    ByAuthor: lambda _: 2,
    Nearby: lambda source: 2 * len(cover(disk(source.latitude, source.longitude, source.radius_km))),
    Popular: lambda _: 13,
    FromEverybody: lambda _: 2 * 64,
    OfKind: lambda source: 2 * (MAX_LISTS if source.where else 1),
}
_PAGE_READS = 12
"""Bulk reads that hydrate and filter a page."""
_RECIPE_READS = 50
"""Bulk reads of the facts of the For you feed: 4 lists of neighbors and counts, 5 of declared reactions, and the lists of what the
reader likes."""
_REACTION_READS = 3
_EXPRESSION_READS = {COUNTED: 1, SEEN: 1, ABOUT_AUTHORS: 1, PERSONAL: 20, frozenset(("recent",)): 13}


def cost_of(declared: FeedDeclaration, contained: Mapping[str, FeedDeclaration] | None = None) -> Cost:
    """Return the cost of a page. `contained` has the declarations of its feeds; a feed that is missing there costs nothing."""
    sources = list(_source_parts(declared, contained or {}))
    parts = (*sources, *_page_parts(declared))
    reads = sum(part.reads for part in parts)
    return Cost(reads, sum(part.candidates for part in parts), parts, len(sources))


def _source_parts(declared: FeedDeclaration, contained: Mapping[str, FeedDeclaration]) -> Iterator[Part]:
    for at, source in enumerate(declared.sources):
        path = f"sources[{at}]"
        if not isinstance(source, OfFeed):
            yield _part_of(source, "", path, ranked=declared.ranked)
        elif source.feed in contained:
            for inner in contained[source.feed].sources:
                if not isinstance(inner, OfFeed):
                    limited = replace(inner, most=min(inner.most, source.most))
                    yield _part_of(limited, f"feed {source.feed}: ", path, ranked=declared.ranked)


def _page_parts(declared: FeedDeclaration) -> Iterator[Part]:
    yield Part("page", _PAGE_READS, 0)
    if isinstance(declared.order, ByRecipe):
        yield Part("recipe", _RECIPE_READS, 0)
    expression = declared.expression()
    if expression is not None:
        for terms, reads in _EXPRESSION_READS.items():
            if used := sorted(terms & expression.terms):
                yield Part(", ".join(used), reads, 0)
        if expression.reactions:
            yield Part("declared reactions", _REACTION_READS, 0)


def _part_of(source: Source, prefix: str, path: str, *, ranked: bool) -> Part:
    return Part(f"{prefix}{label_of(source)}", _READS[type(source)](source), source.most if ranked else 0, path)


def label_of(source: Source) -> str:
    """Return a source in words, such as `tag bread`."""
    if isinstance(source, Nearby):
        return f"nearby {source.latitude:g}, {source.longitude:g}"
    names: Mapping[type, str] = {OnList: "list", OfKind: "kind", WithTag: "tag", ByAuthor: "author", OfFeed: "feed"}
    kind = names.get(type(source))
    return f"{kind} {getattr(source, kind)}" if kind else str(msgspec.to_builtins(source)["from"])


def affordable(declared: FeedDeclaration, contained: Mapping[str, FeedDeclaration]) -> Mapping[str, FeedDeclaration]:
    """Return the contained feeds without the last ones, if a page would be too expensive with them.

    A feed may have become more expensive after it was included in another one.
    """
    found = dict(contained)
    while found and _exceeded(cost_of(declared, found)):
        found.popitem()
    return found


def _exceeded(cost: Cost) -> bool:
    return cost.sources > MAX_MERGED or cost.reads > MAX_READS or cost.candidates > MAX_CANDIDATES


def check_cost(cost: Cost) -> None:
    """Raise `Unfit` if a page is too expensive, with the part that costs most."""
    if cost.sources > MAX_MERGED:
        raise Unfit(
            f"sources: at most {MAX_MERGED}, with those of contained feeds (got {cost.sources})", field="sources"
        )
    for name, total, most in (("reads", cost.reads, MAX_READS), ("candidates", cost.candidates, MAX_CANDIDATES)):
        if total > most:
            part = max(cost.parts, key=lambda part: getattr(part, name))
            raise Unfit(
                f"sources: a page takes up to {total} {name}, and at most {most} are allowed; "
                f"{part.path or part.name} takes the most ({getattr(part, name)})",
                field="sources",
            )
