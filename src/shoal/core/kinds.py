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
from shoal.core.kind_schemas import check_data, checked_schema, expanded, incompatibilities
from shoal.core.model import Node, Presentation

MAX_KINDS = 100
MAX_NAME = 32
MAX_PATH = 200
MAX_FILE_BYTES = 128 * 1024
MAX_TITLE = 200
"""Characters of the title of a post that clients show."""
MAX_URL = 2_000

_NAME = re.compile(r"[a-z0-9_]{1,32}")
_URL = re.compile(r"https?://[^\s<>\"]+")
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

    @property
    def draft(self) -> KindDraft:
        """The declaration of the current version."""
        return KindDraft(
            name=self.name,
            schema=msgspec.json.decode(self.schema),
            title=self.title,
            image=self.image,
            link=self.link,
        )

    def check(self, data: object) -> None:
        """Raise `InvalidInput` if the data of a post does not match the schema."""
        check_data(self.schema, data)

    def presented(self, data: object) -> Presentation | None:
        """Return what clients without support for the kind show of this data; None for nothing."""
        title, image, link = (value_at(data, path) for path in (self.title, self.image, self.link))
        shown = Presentation(
            title=" ".join(title.split())[:MAX_TITLE] if isinstance(title, str) else "",
            image=_url(image),
            link=_url(link),
        )
        return shown if shown != Presentation() else None


def _url(value: object) -> str:
    return value if isinstance(value, str) and len(value) <= MAX_URL and _URL.fullmatch(value) else ""


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

    def checked(self, id_: int) -> PostKind:
        """Return the first version of the kind. Raises `InvalidInput`, which names the field and its allowed values."""
        if not _NAME.fullmatch(self.name):
            raise InvalidInput(
                f"name: must have 1 to {MAX_NAME} of the characters a-z, 0-9 and _ (got {self.name[:100]!r})",
                field="name",
            )
        schema = checked_schema(self.schema)
        properties = expanded(schema)
        for field, path in (("title", self.title), ("image", self.image), ("link", self.link)):
            if path:
                check_path(field, path, properties, ("string",))
        return PostKind(id=id_, name=self.name, schema=schema, title=self.title, image=self.image, link=self.link)


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
    new = replace(draft.checked(kind.id), version=kind.version, schema_version=kind.schema_version)
    if new == kind:
        return kind
    if reasons := incompatibilities(kind.schema, new.schema):
        shown = "; ".join(reasons[:_REASONS]) + (
            f"; and {len(reasons) - _REASONS} more" if len(reasons) > _REASONS else ""
        )
        raise Unfit(f"schema: not compatible with version {kind.schema_version} of the kind {kind.name}: {shown}")
    return replace(new, schema_version=kind.schema_version + 1)


def value_at(data: object, path: str) -> Any:
    """Return the value at a dotted path; None if there is none."""
    for key in path.split("."):
        data = data.get(key) if isinstance(data, dict) else None
    return data


def parse_file(content: bytes, *, toml: bool) -> KindDraft:
    """Parse the declaration of a kind in TOML or JSON. Raises `InvalidInput`."""
    if len(content) > MAX_FILE_BYTES:
        raise InvalidInput(f"at most {MAX_FILE_BYTES} bytes (got {len(content)})")
    try:
        value = tomllib.loads(content.decode()) if toml else msgspec.json.decode(content)
        return msgspec.convert(value, KindDraft)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.DecodeError, RecursionError) as error:
        raise InvalidInput(str(error)) from None
