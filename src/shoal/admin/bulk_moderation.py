"""Bulk moderation: previews, and the operations to create, apply, undo and list bulk actions."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from shoal.admin.contract import AnyNetwork, Operation, member_named
from shoal.admin.report import Progress
from shoal.commands import bulk_moderation
from shoal.commands.context import Writes
from shoal.core.bulk_moderation import VERBS, BulkAction, BulkQuery, Verb
from shoal.core.errors import InvalidInput
from shoal.core.model import OPEN, Post
from shoal.core.text import plain_excerpt
from shoal.graph.access import get_object, members_by_id, objects_of
from shoal.graph.contract import MAX_TIME, Reader, Store
from shoal.queries.bulk_moderation import select

EXAMPLES = 20
_EXCERPT = 200


class BulkExample(msgspec.Struct, frozen=True, kw_only=True):
    post_id: int
    author_id: int
    author_name: str
    created_at: int
    """Unix milliseconds."""
    text: str
    """The beginning of the text."""


class BulkPreview(msgspec.Struct, frozen=True, kw_only=True):
    """A bulk action with 20 of its posts, newest first, without posts that are no longer public or unlisted."""

    action: BulkAction
    examples: list[BulkExample]
    next: int = 0
    """The `before` parameter for the posts after these; 0 at the end."""


async def preview(store: Store, writes: Writes, query: BulkQuery, verb: Verb) -> BulkPreview:
    """Select the posts for an action, and store them as a preview. Nothing else changes.

    Raises `InvalidInput` for an invalid query or action, and `NotFound` for unknown media.
    """
    if verb not in VERBS:
        raise InvalidInput(f"action: must be one of {', '.join(VERBS)} (got {verb!r})", field="action")
    found = await select(store, query, verb)
    action = await bulk_moderation.create(
        writes, found.query, verb, found.post_ids, read=found.read, reached=found.reached
    )
    return await shown(writes.graph, action)


async def shown(graph: Reader, action: BulkAction, before: int = MAX_TIME) -> BulkPreview:
    """Return an action with its newest 20 posts whose ids are below `before`."""
    ids = [id_ for id_ in action.post_ids if id_ < before]
    found = await objects_of(graph, Post, ids[:EXAMPLES])
    posts = [post for post in found if post.visibility in OPEN]
    members = await members_by_id(graph, list({post.author_id for post in posts}))
    examples = [
        BulkExample(
            post_id=post.id,
            author_id=post.author_id,
            author_name=members[post.author_id].name if post.author_id in members else "",
            created_at=post.created_at,
            text=plain_excerpt(" ".join(f"{post.spoiler} {post.shown_text}".split()), _EXCERPT),
        )
        for post in posts
    ]
    return BulkPreview(action=action, examples=examples, next=ids[EXAMPLES - 1] if len(ids) > EXAMPLES else 0)


class PreviewBulk(Operation[BulkPreview]):
    query: BulkQuery
    verb: Verb
    member: str = ""
    """Name of the member whose posts are selected; empty for all members."""

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> BulkPreview:
        query = self.query
        if self.member:
            query = replace(query, member_id=(await member_named(network, self.member)).id)
        return await preview(network.store, network.writes, query, self.verb)


class ApplyBulk(Operation[BulkAction]):
    """Apply a preview. Its events change the posts."""

    background = True
    action_id: int
    reason: str = ""

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> BulkAction:
        return await bulk_moderation.apply(network.writes.because(self.reason), self.action_id)


class UndoBulk(Operation[BulkAction]):
    background = True
    action_id: int

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> BulkAction:
        return await bulk_moderation.undo(network.writes, self.action_id)


class ShowBulk(Operation[BulkPreview]):
    action_id: int
    before: int = MAX_TIME

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> BulkPreview:
        return await shown(network.store, await get_object(network.store, BulkAction, self.action_id), self.before)


class ListBulk(Operation[list[BulkAction]]):
    async def carry_out(self, network: AnyNetwork, progress: Progress) -> list[BulkAction]:
        return await bulk_moderation.stored(network.store)
