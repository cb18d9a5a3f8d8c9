"""Kinds of statuses, which applications declare. Mastodon has no equivalent."""

from __future__ import annotations

import logging
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from shoal.commands import kinds
from shoal.core.errors import InvalidInput
from shoal.core.kinds import MAX_FILE_BYTES, MAX_PATH, KindDraft, PostKind
from shoal.core.model import Role
from shoal.graph.kinds import all_kinds
from shoal.http.params import Json
from shoal.mastodon_api.context import Context, Router, actor

router = Router(auth="optional")
admin_router = Router(role=Role.ADMIN)

_log = logging.getLogger("shoal.kinds")

_KINDS = "/api/shoal/v1/kinds"

_Path = Annotated[str, Meta(max_length=MAX_PATH)]
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

    def draft(self) -> KindDraft:
        if not isinstance(self.schema.value, dict):
            raise InvalidInput("schema: must be an object", field="schema")
        return KindDraft(name=self.name, schema=self.schema.value, title=self.title, image=self.image, link=self.link)


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


@router.get(_KINDS, scope="read", answer=list[KindEntity])
async def list_kinds(context: Context, _params: None) -> list[KindEntity]:
    """List the kinds, by name."""
    return [_entity(kind) for kind in await all_kinds(context.app.graph)]


@router.get(f"{_KINDS}/{{name}}", scope="read", answer=KindEntity)
async def get_kind(context: Context, params: KindName) -> KindEntity:
    """Show a kind by its name."""
    return _entity(await kinds.get(context.app.writes, params.name))


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
    )
