"""Profile, lists, albums, invitations, logins, passkeys, filters and choices about ranking in a member's export."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import msgspec

from shoal.core.model import Album, App, Media, MemberList, Token
from shoal.core.signup import Invitation
from shoal.graph.access import members_by_id
from shoal.graph.contract import Cursor
from shoal.graph.member_lookup import login_of
from shoal.graph.payloads.members import MOST_PHOTOS, collected_of, filters_of, in_order, tastes_of
from shoal.graph.schema import COLLECTS, LISTS, LOGGED_IN, OWNS_ALBUM, OWNS_INVITATION, OWNS_LIST
from shoal.ops.transfer.exporting import Export, file_name, iso, when

_INTERNAL = frozenset({"login_id", "follows_inviter"})
"""Fields of a member that say nothing about them."""


async def write(export: Export) -> None:
    """The profile, lists, albums, invitations, logins, passkeys, filters and choices about ranking."""
    await _profile(export)
    await export.array("lists", _lists(export))
    await export.array("albums", _albums(export))
    await export.array("invitations", _invitations(export))
    await export.array("sessions", _sessions(export))
    await _passkeys(export)
    await _filters(export)
    await _ranking(export)


async def _profile(export: Export) -> None:
    """Export the member's profile, as others see it, and their settings."""
    values = {name: value for name, value in msgspec.structs.asdict(export.member).items() if name not in _INTERNAL}
    values["id"] = str(export.member.id)
    values["created_at"] = values.pop("dated")
    del values["email_hash"]
    values["findable_by_email"] = export.member.findable_by_email
    values["joined"] = iso(export.member.created_at)
    inviter = export.member.invited_by
    people = await members_by_id(export.graph, (inviter,)) if inviter else {}
    values["invited_by"] = people[inviter].name if inviter in people else None
    for name in ("avatar", "header"):
        if values[name]:
            values[name] = await export.file(values[name])
    export.document("profile", values)


async def _lists(export: Export) -> AsyncGenerator[dict[str, Any], None]:
    """Lists of members, each with the names of those on it."""
    async with aclosing(export.pages(OWNS_LIST)) as pages:
        async for page in pages:
            nodes = await export.graph.obj_get([entry.id2 for entry in page])
            for entry in page:
                if isinstance(node := nodes.get(entry.id2), MemberList):
                    yield {
                        "title": node.title,
                        "replies": node.replies,
                        "exclusive": node.exclusive,
                        "members": await _names(export, node.id),
                    }


async def _names(export: Export, list_id: int) -> list[str]:
    names: list[str] = []
    async with aclosing(export.pages(LISTS, list_id)) as pages:
        async for page in pages:
            found = await members_by_id(export.graph, [entry.id2 for entry in page])
            names += [found[entry.id2].name for entry in page if entry.id2 in found]
    return names


async def _albums(export: Export) -> AsyncGenerator[dict[str, Any], None]:
    """Albums, each with its photos in their order: the post of each, and its file as `media.json` names it."""
    async with aclosing(export.pages(OWNS_ALBUM)) as pages:
        async for page in pages:
            nodes = await export.graph.obj_get([entry.id2 for entry in page])
            for entry in page:
                if isinstance(node := nodes.get(entry.id2), Album):
                    yield {
                        "title": node.title,
                        "description": node.description,
                        "made": when(node.id),
                        "photos": await _photos(export, node.id),
                    }


async def _invitations(export: Export) -> AsyncGenerator[dict[str, Any], None]:
    """Invitations, without the codes by which somebody could sign up."""
    async with aclosing(export.pages(OWNS_INVITATION)) as pages:
        async for page in pages:
            nodes = await export.graph.obj_get([entry.id2 for entry in page])
            for entry in page:
                if isinstance(node := nodes.get(entry.id2), Invitation):
                    yield {
                        "made": when(node.id),
                        "until": iso(node.expires_at) or None,
                        "uses": node.used,
                        "most_uses": node.most or None,
                        "follow": node.follow,
                    }


async def _sessions(export: Export) -> AsyncGenerator[dict[str, Any], None]:
    """Browsers and apps where the member is logged in."""
    async with aclosing(export.pages(LOGGED_IN)) as pages:
        async for page in pages:
            nodes = await export.graph.obj_get([entry.id2 for entry in page])
            tokens = [node for entry in page if isinstance(node := nodes.get(entry.id2), Token)]
            apps = await export.graph.obj_get(list({token.app_id for token in tokens} - {0}))
            for token in tokens:
                app, use = apps.get(token.app_id), token.use
                yield {
                    "app": app.name if isinstance(app, App) else None,
                    "program": use.program or None,
                    "system": use.system or None,
                    "made": when(token.id),
                    "made_from": use.made_from or None,
                    "last_used": iso(use.at) or None,
                    "last_used_from": use.used_from or None,
                }


async def _passkeys(export: Export) -> None:
    """Export the member's passkeys: their names, and when they were used. The keys themselves say nothing to anybody else."""
    login = await login_of(export.graph, export.member)
    export.document(
        "passkeys",
        [
            {"name": one.name, "made": iso(one.made_at), "last_used": iso(one.used_at) or None}
            for one in (login.passkeys if login else ())
        ],
    )


async def _photos(export: Export, album_id: int) -> list[dict[str, str]]:
    held = in_order(await export.graph.assoc_range(album_id, COLLECTS, Cursor(limit=MOST_PHOTOS)))
    nodes = await export.graph.obj_get([assoc.id2 for assoc in held]) if held else {}
    return [
        {"post": str(collected_of(assoc).post_id), "file": file_name(media)}
        for assoc in held
        if isinstance(media := nodes.get(assoc.id2), Media)
    ]


async def _filters(export: Export) -> None:
    """Export the member's filters."""
    export.document(
        "filters",
        [
            {
                "title": held.title,
                "contexts": held.contexts,
                "action": held.action,
                "irreversible": held.irreversible,
                "until": iso(held.expires_at) or None,
                "keywords": [{"keyword": word.keyword, "whole_word": word.whole_word} for word in held.keywords],
                "posts": [str(post.post_id) for post in held.posts],
            }
            for held in await filters_of(export.graph, export.member.id)
        ],
    )


async def _ranking(export: Export) -> None:
    """How feeds are ranked for the member, and what they said they want more or less of."""
    tastes = await tastes_of(export.graph, export.member.id)
    wishes = tastes.wishes
    authors = await members_by_id(export.graph, list(wishes.authors))
    export.document(
        "ranking",
        {
            "on": tastes.taste is None or not tastes.taste.off,
            "recipe": tastes.taste.recipe if tastes.taste is not None else None,
            "interests": wishes.picked,
            "authors": {authors[id_].name: taps for id_, taps in wishes.authors.items() if id_ in authors},
            "tags": wishes.tags,
        },
    )
