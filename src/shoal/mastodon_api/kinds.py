"""Kinds of statuses, which applications declare. Mastodon has no equivalent."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from shoal.commands import kinds
from shoal.core.errors import InvalidInput
from shoal.core.kind_index import IndexType
from shoal.core.kinds import MAX_FILE_BYTES, MAX_PATH, KindDraft, PostKind
from shoal.core.model import Role
from shoal.graph.access import access_member
from shoal.graph.kinds import all_kinds
from shoal.http.pagination import StatusesQuery
from shoal.http.params import Id, Json
from shoal.mastodon_api.context import Context, Router, actor, cursor_of, entries_page
from shoal.mastodon_api.entities.statuses import Status
from shoal.queries.kinds import posts_page

router = Router(auth="optional")
admin_router = Router(role=Role.ADMIN)

_log = logging.getLogger("shoal.kinds")

_KINDS = "/api/shoal/v1/kinds"

_Path = Annotated[str, Meta(max_length=MAX_PATH)]
_Value = Annotated[str, Meta(max_length=1_000)]
_Values = Annotated[tuple[_Value, ...], Meta(max_length=100)]
_Name = Annotated[str, Meta(max_length=100)]


class KindName(msgspec.Struct, frozen=True):
    name: _Name


class KindParams(msgspec.Struct, frozen=True, kw_only=True):
    """The declaration of a kind. Paths of properties are dotted, such as `nutrition.kcal`."""

    name: _Name
    """1 to 32 of the characters a-z, 0-9 and _."""
    schema: Json
    """A JSON Schema (2020-12) with the type `object`, at most 64 KB; as an object, or as a text with JSON if it has many levels."""
    title: _Path = ""
    """Path of a text that clients without support for the kind show as the title of a status."""
    image: _Path = ""
    """Path of the URL of a picture, for the card of a status."""
    link: _Path = ""
    """Path of the URL to which the card of a status leads."""
    index: Annotated[Mapping[_Path, IndexType], Meta(max_length=100)] = {}
    """Up to 8 paths by which statuses can be filtered, each with its type."""
    pairs: Annotated[tuple[Annotated[tuple[_Path, ...], Meta(max_length=2)], ...], Meta(max_length=100)] = ()
    """Up to 4 pairs of indexed paths that a filter can combine. The first one takes values, the second also a range or a circle."""

    def draft(self) -> KindDraft:
        if not isinstance(self.schema.value, dict):
            raise InvalidInput("schema: must be an object", field="schema")
        if any(len(pair) != 2 for pair in self.pairs):
            raise InvalidInput("pairs: a pair has two paths", field="pairs")
        return KindDraft(
            name=self.name,
            schema=self.schema.value,
            title=self.title,
            image=self.image,
            link=self.link,
            index=dict(self.index),
            pairs=tuple((first, second) for first, second in self.pairs),
        )


class KindPostsQuery(StatusesQuery, frozen=True, kw_only=True):
    name: _Name
    filter: Annotated[Mapping[_Path, _Value | _Values], Meta(max_length=100)] = {}
    """Values of one indexed path, or of a declared pair: `filter[cuisine]=thai`, or up to 10 as `filter[cuisine][]=thai`.

    A number or time also takes a range, `filter[minutes]=10..30`, in which one end may be empty. A time is a date or a date with a
    time (RFC 3339), and a place a circle: `filter[place]=latitude,longitude,radius_km`.
    """
    account_id: Id = Id(0)
    """Only statuses by this account, whatever their visibility, that the caller may see."""


class KindEntity(msgspec.Struct, kw_only=True):
    """A kind of statuses. The `shoal.data` of a status of this kind matches the schema."""

    name: str
    version: int
    """Incremented with each change of the kind."""
    schema: dict[str, Any]
    """A JSON Schema (2020-12)."""
    title: str | None
    """Path of the title of a status; null for none."""
    image: str | None
    """Path of the URL of a picture; null for none."""
    link: str | None
    """Path of the URL to which the card of a status leads; null for none."""
    index: dict[str, str]
    """The paths by which statuses can be filtered, each with its type: `string`, `number`, `boolean`, `time` or `geo`."""
    pairs: list[list[str]]
    """The pairs of paths that a filter can combine."""
    building: list[str]
    """The paths, and pairs as `path and path`, whose index is being built: statuses cannot be filtered by them yet."""


@router.get(_KINDS, scope="read", answer=list[KindEntity])
async def list_kinds(context: Context, _params: None) -> list[KindEntity]:
    """List the kinds, by name."""
    return [_entity(kind) for kind in await all_kinds(context.app.graph)]


@router.get(f"{_KINDS}/{{name}}", scope="read", answer=KindEntity)
async def get_kind(context: Context, params: KindName) -> KindEntity:
    """Show a kind by its name."""
    return _entity(await kinds.get(context.app.graph, params.name))


@router.get(f"{_KINDS}/{{name}}/posts", scope="read:statuses", answer=list[Status])
async def list_posts(context: Context, params: KindPostsQuery) -> object:
    """List the public statuses of a kind, newest first, optionally filtered by indexed paths of `shoal.data`."""
    kind = await kinds.get(context.app.graph, params.name)
    filters = kind.filters(
        {path: each if isinstance(each, str) else list(each) for path, each in params.filter.items()}
    )
    if params.account_id:
        await access_member(context.app.graph, params.account_id)
    cursor, viewer = cursor_of(params), context.caller.member_id
    page = await posts_page(context.app.reads, viewer, kind, filters, cursor, author_id=params.account_id)
    return await entries_page(context, page, cursor, with_data=params.with_data)


@admin_router.put(f"{_KINDS}/{{name}}", scope="admin:write", answer=KindEntity, max_body=2 * MAX_FILE_BYTES)
async def declare_kind(context: Context, params: KindParams) -> KindEntity:
    """Declare a kind, or change it to its next version. A change is refused if data that is valid now may be invalid after it."""
    kind = await kinds.declare(context.app.writes, params.draft())
    _log.info("moderator %s: declare kind %s, version %d", actor(context), kind.name, kind.schema_version)
    return _entity(kind)


def _entity(kind: PostKind) -> KindEntity:
    return KindEntity(
        name=kind.name,
        version=kind.schema_version,
        schema=msgspec.json.decode(kind.schema),
        title=kind.title or None,
        image=kind.image or None,
        link=kind.link or None,
        index=dict(kind.index),
        pairs=[list(pair) for pair in kind.pairs],
        building=list(kind.building),
    )
