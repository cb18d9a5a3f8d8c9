"""Operations on kinds of posts: list and declare them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from shoal.admin.contract import AnyNetwork, Operation
from shoal.admin.report import Progress
from shoal.commands import kinds
from shoal.core.kinds import KindDraft, PostKind
from shoal.graph.contract import MAX_TIME, Cursor
from shoal.graph.kinds import all_kinds
from shoal.queries.kinds import posts_page


class ListKinds(Operation[list[PostKind]]):
    async def carry_out(self, network: AnyNetwork, progress: Progress) -> list[PostKind]:
        return await all_kinds(network.store)


class ShowKind(Operation[PostKind]):
    name: str

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> PostKind:
        return await kinds.get(network.store, self.name)


class DeclareKind(Operation[PostKind]):
    """Create a kind, or change it to its next version."""

    draft: KindDraft

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> PostKind:
        return await kinds.declare(network.writes, self.draft)


class KindPost(msgspec.Struct, kw_only=True):
    id: int
    author: str
    title: str
    """Empty for a kind without a title."""


class KindPosts(msgspec.Struct):
    posts: list[KindPost]
    next: int | None
    """The `before` of the next page; None at the end."""


class ListKindPosts(Operation[KindPosts]):
    """List public posts of a kind, newest first. `filters` has texts by path."""

    name: str
    filters: Mapping[str, str]
    before: int = MAX_TIME
    limit: int = 20

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> KindPosts:
        kind = await kinds.get(network.store, self.name)
        cursor = Cursor(before=self.before, limit=self.limit)
        page = await posts_page(network.reads, None, kind, kind.filters(self.filters), cursor)
        found = [
            KindPost(
                id=entry.id,
                author=entry.author.member.name,
                title=entry.post.presentation.title if entry.post.presentation else "",
            )
            for entry in page.entries
        ]
        return KindPosts(found, page.next)


class IndexKind(Operation[None]):
    """Index all posts of a kind again."""

    name: str

    async def carry_out(self, network: AnyNetwork, progress: Progress) -> None:
        await kinds.reindex(network.writes, self.name)
