"""Kinds: types of posts that an application declares, such as recipes. The `data` of a post of a kind matches the kind's schema.

A kind has versions. A new version must accept all data that the current one accepts, so stored posts stay valid.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from shoal.core.errors import InvalidInput, Unfit
from shoal.core.kind_index import (
    INDEX_TYPES,
    MAX_INDEXED,
    MAX_PAIRS,
    Filter,
    IndexType,
    author_name,
    kind_name,
    names_of,
    selected_names,
    selection_of,
)
from shoal.core.kind_schemas import check_data, checked_schema, expanded, incompatibilities
from shoal.core.model import Node, Post, Presentation, Visibility
from shoal.core.text import as_text, is_blank, parse, plain_excerpt

MAX_KINDS = 100
MAX_NAME = 32
MAX_PATH = 200
MAX_FILE_BYTES = 128 * 1024
MAX_TITLE = 200
"""Characters of the title of a post that clients show."""
MAX_URL = 2_000

_NAME = re.compile(r"[a-z0-9_]{1,32}")
_AND = " and "
_JSON_TYPES: Mapping[IndexType, Sequence[str]] = {
    "string": ("string",),
    "number": ("number", "integer"),
    "boolean": ("boolean",),
    "time": ("string",),
    "geo": ("object",),
}
"""The types of a property that an index accepts."""
_REASONS = 5
"""Maximum reasons in the message about an incompatible schema."""


class PostKind(Node, frozen=True, tag="kind", kw_only=True):
    """A kind as stored."""

    name: str
    schema_version: int = 1
    """Incremented with each change. A post has the version with which its data was checked last."""
    schema: str
    """The JSON Schema, as JSON text."""
    title: str = ""
    """Path of the title that clients show; empty for none."""
    image: str = ""
    """Path of the URL of a picture."""
    link: str = ""
    """Path of the URL to which the card of a post leads."""
    index: tuple[tuple[str, IndexType], ...] = ()
    """The indexed paths with their types."""
    pairs: tuple[tuple[str, str], ...] = ()
    """The pairs of indexed paths that a filter can combine."""
    building: tuple[str, ...] = ()
    """The paths and pairs (as "path and path") whose lists are being built, and cannot be read yet."""

    @property
    def draft(self) -> KindDraft:
        """The declaration of the current version."""
        return KindDraft(
            name=self.name,
            schema=msgspec.json.decode(self.schema),
            title=self.title,
            image=self.image,
            link=self.link,
            index=dict(self.index),
            pairs=self.pairs,
        )

    def names(self, post: Post) -> set[str]:
        """Return the names of the lists in which a post of this kind is."""
        names = {author_name(self.name, post.author_id)}
        if post.visibility is Visibility.PUBLIC:
            data = post.data
            values = {path: value_at(data, path) for path, _ in self.index}
            names |= {kind_name(self.name), *names_of(self.name, dict(self.index), self.pairs, values)}
        return names

    def filters(self, given: Mapping[str, object]) -> tuple[Filter, ...]:
        """Return the filters by indexed paths that a caller gave. Raises `InvalidInput` for a path that has no index."""
        types = dict(self.index)
        found = []
        for path, values in given.items():
            if path not in types:
                known = ", ".join(types) or "none"
                raise InvalidInput(
                    f"filter: {path[:100]!r} has no index of the kind {self.name} (indexed: {known})", field="filter"
                )
            found.append(Filter(path, types[path], selection_of(path, types[path], values)))
        return tuple(found)

    def lists(self, filters: Sequence[Filter]) -> list[str]:
        """Return the names of the lists that contain all public posts of this kind that match the filters.

        Raises `InvalidInput` for more than two filters, and for filters that cannot be combined, and `Unfit` while an index is
        being built.
        """
        if not filters:
            return [kind_name(self.name)]
        if len(filters) > 2:
            raise InvalidInput(f"filter: at most two properties (got {len(filters)})", field="filter")
        names = selected_names(self.name, filters, self.pairs)
        paths = {each.path for each in filters}
        for name in self.building:
            # A path may contain " and ".
            if paths == {name} or paths == set(name.split(_AND)):
                raise Unfit(f"filter: the index of {name} is being built; try again later")
        return names

    def check(self, data: object) -> None:
        """Raise `InvalidInput` if the data of a post does not match the schema."""
        check_data(self.schema, data)

    def presented(self, data: object) -> Presentation | None:
        """Return what clients without support for the kind show of this data; None for nothing."""
        title, image, link = (value_at(data, path) for path in (self.title, self.image, self.link))
        shown = Presentation(title=_title(title), image=_url(image), link=_url(link))
        return shown if shown != Presentation() else None


def _title(value: object) -> str:
    text = " ".join(as_text(value).split()) if isinstance(value, str) else ""
    return "" if is_blank(text) else plain_excerpt(text, MAX_TITLE)


def _url(value: object) -> str:
    """Return a value that is a link, as in the text of a post; "" for other values."""
    if not isinstance(value, str) or len(value) > MAX_URL:
        return ""
    return value if [(span.kind, span.value) for span in parse(value)] == [("link", value)] else ""


class KindDraft(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The declaration of a kind. Paths of properties are dotted, such as "nutrition.kcal"."""

    name: str
    """1 to 32 of the characters a-z, 0-9 and _."""
    schema: dict[str, Any]
    """A JSON Schema (2020-12) with the type "object"; at most 64 KB. `$ref` may lead to `$defs`, without recursion."""
    title: str = ""
    """Path of a text that clients without support for the kind show as the title of a post."""
    image: str = ""
    """Path of an https URL of a picture, for the card of a post."""
    link: str = ""
    """Path of an https URL, to which the card of a post leads."""
    index: dict[str, IndexType] = {}
    """Up to 8 paths by which posts can be filtered, each with its type.

    A "time" is a text with a date or time (RFC 3339), and "geo" an object with "latitude" and "longitude".
    """
    pairs: tuple[tuple[str, str], ...] = ()
    """Up to 4 pairs of indexed paths that a filter can combine. The first one takes values, the second also a range or a circle."""

    def checked(self, id_: int) -> PostKind:
        """Return the first version of the kind. Raises `InvalidInput`, which names the field and its allowed values."""
        if not is_kind_name(self.name):
            raise InvalidInput(
                f"name: must have 1 to {MAX_NAME} of the characters a-z, 0-9 and _ (got {self.name[:100]!r})",
                field="name",
            )
        schema = checked_schema(self.schema)
        properties = expanded(schema)
        for field, path in (("title", self.title), ("image", self.image), ("link", self.link)):
            if path:
                check_path(field, path, properties, ("string",))
        self._check_index(properties)
        return PostKind(
            id=id_,
            name=self.name,
            schema=schema,
            title=self.title,
            image=self.image,
            link=self.link,
            index=tuple(self.index.items()),
            pairs=tuple((first, second) for first, second in self.pairs),
        )

    def _check_index(self, properties: Mapping[str, Any]) -> None:
        if len(self.index) > MAX_INDEXED:
            raise InvalidInput(f"index: at most {MAX_INDEXED} paths (got {len(self.index)})", field="index")
        for path, type_ in self.index.items():
            if type_ not in INDEX_TYPES:
                raise InvalidInput(f"index: a type is one of {', '.join(INDEX_TYPES)} (got {type_!r})", field="index")
            check_path("index", path, properties, _JSON_TYPES[type_])
        if len(self.pairs) > MAX_PAIRS:
            raise InvalidInput(f"pairs: at most {MAX_PAIRS} pairs (got {len(self.pairs)})", field="pairs")
        if len({frozenset(pair) for pair in self.pairs}) < len(self.pairs):
            raise InvalidInput("pairs: a pair is given twice", field="pairs")
        for first, second in self.pairs:
            if first == second or not {first, second} <= self.index.keys():
                raise InvalidInput(f"pairs: {first!r} and {second!r} must be two indexed paths", field="pairs")
            if self.index[first] == "geo":
                raise InvalidInput(f"pairs: {first!r} is a place, which must be the second of a pair", field="pairs")


def is_kind_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None


def check_path(field: str, path: str, schema: Mapping[str, Any], types: Sequence[str]) -> None:
    """Raise `InvalidInput` if no property of the expanded schema has this path, or if it has none of these types."""
    if len(path) > MAX_PATH:
        raise InvalidInput(f"{field}: a path has at most {MAX_PATH} characters (got {len(path)})", field=field)
    found: Any = schema
    for key in path.split("."):
        found = found.get("properties", {}).get(key) if isinstance(found, dict) else None
    if not isinstance(found, dict):
        raise InvalidInput(f"{field}: the schema has no property {path!r}", field=field)
    given = found.get("type", ())
    if not set((given,) if isinstance(given, str) else given) & set(types):
        raise InvalidInput(f"{field}: the property {path!r} must have the type {' or '.join(types)}", field=field)


def changed(kind: PostKind, draft: KindDraft) -> PostKind:
    """Return the next version of a kind, or the kind itself if the draft changes nothing.

    Raises `InvalidInput` as `KindDraft.checked`, and `Unfit` with the reasons if stored data may not match the new schema.
    """
    new = replace(
        draft.checked(kind.id), version=kind.version, schema_version=kind.schema_version, building=kind.building
    )
    if dict(new.index) == dict(kind.index):
        # Another order is no change.
        new = replace(new, index=kind.index)
    if new == kind:
        return kind
    had, has = dict(kind.index), dict(new.index)
    reasons = [
        f"index: the type of {path} was changed (from {had[path]} to {has[path]})"
        for path in had
        if has.get(path, had[path]) != had[path]
    ]
    if reasons := [*reasons, *incompatibilities(kind.schema, new.schema)]:
        shown = "; ".join(reasons[:_REASONS]) + (
            f"; and {len(reasons) - _REASONS} more" if len(reasons) > _REASONS else ""
        )
        raise Unfit(f"schema: not compatible with version {kind.schema_version} of the kind {kind.name}: {shown}")
    added = [
        *(path for path in has if path not in had),
        *(_AND.join(pair) for pair in new.pairs if pair not in kind.pairs),
    ]
    building = [each for each in kind.building if each in has or each in map(_AND.join, new.pairs)]
    return replace(new, schema_version=kind.schema_version + 1, building=tuple(dict.fromkeys((*building, *added))))


def value_at(data: object, path: str) -> Any:
    """Return the value at a dotted path; None if there is none."""
    for key in path.split("."):
        data = data.get(key) if isinstance(data, dict) else None
    return data


def parse_file(content: bytes, *, toml: bool) -> KindDraft:
    """Parse the declaration of a kind in TOML or JSON. Raises `InvalidInput`."""
    if len(content) > MAX_FILE_BYTES:
        raise InvalidInput(f"a declaration has at most {MAX_FILE_BYTES} bytes")
    try:
        value = tomllib.loads(content.decode()) if toml else msgspec.json.decode(content)
        return msgspec.convert(value, KindDraft)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.DecodeError, RecursionError) as error:
        raise InvalidInput(str(error)) from None
