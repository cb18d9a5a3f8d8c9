"""A page from a store that joins reads, which is prefetched, equals the page from any other store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import pytest

from shoal import Handle, Shoal
from shoal.core.errors import ShoalError
from shoal.core.model import Post
from shoal.graph.access import access_member
from shoal.graph.cache.cached_graph import CachedGraph
from shoal.graph.contract import Cursor, Store
from shoal.graph.dynamodb.items import counted_with
from shoal.graph.schema import FOLLOWED_BY, FOLLOWS, POSTED, AssocType
from shoal.queries import home, members, threads
from shoal.queries.context import Reads
from shoal.queries.hydration import hydrate, profiles_by_id
from shoal.queries.posts import authored_page
from tests.async_runner import in_loop

PAGE = Cursor(limit=5)
Page = Callable[[Reads, int | None], Awaitable[Any]]


class Joined:
    """A store whose reads are declared to be joined."""

    joins = True

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def counted_with(self, atypes: Sequence[AssocType]) -> Sequence[AssocType]:
        return counted_with(tuple(atypes))


async def a_network(shoal: Shoal) -> tuple[list[Handle], list[Post]]:
    """Ann, Ben, Cyd and Dee, of whom Ben blocks Dee; posts for all, for followers and for those mentioned, with comments."""
    ann, ben, cyd, dee = people = [await shoal.register(name) for name in ("ann", "ben", "cyd", "dee")]
    for one, other in ((ann, ben), (ben, ann), (cyd, ben), (dee, ann), (ann, cyd)):
        await one.follow(other)
    posts = [await ben.create(f"number {n}") for n in range(4)]
    posts.append(await ben.create("for followers", visibility="followers"))
    posts.append(await ben.create("for @ann", visibility="direct"))
    for one in (ann, cyd, dee):
        await one.comment(posts[0], f"from {one.name}")
        await one.like(posts[1])
    await ann.comment(posts[0], "only for @ben", visibility="direct")
    await cyd.share(posts[1])
    await ben.share(await cyd.create("shared", visibility="public"))
    await ben.block(dee)
    await shoal.settle()
    return people, posts


@in_loop
async def test_prefetched_timeline_pages_equal_pages_read_without_prefetch() -> None:
    async with Shoal.open("memory://") as shoal:
        people, posts = await a_network(shoal)
        store = cast("CachedGraph", shoal.network.store)._store
        pages: dict[str, Page] = {}
        for member in people:
            pages[f"posts of {member.name}"] = partial(authored, member.id)
            for atype in (FOLLOWS, FOLLOWED_BY):
                pages[f"{atype} of {member.name}"] = partial(listed, member.id, atype)
        for post in posts:
            pages[post.text] = partial(read, post.id)
            pages[f"comments: {post.text}"] = partial(replies, post.id)
        ids = [member.id for member in people]
        pages["profiles"] = lambda reads, viewer: profiles_by_id(reads.graph, viewer, ids)
        pages["home"] = lambda reads, viewer: home.page(reads, viewer or ids[0], PAGE)
        later = Cursor(before=posts[2].id, limit=2)
        pages["home, second page"] = lambda reads, viewer: home.page(reads, viewer or ids[0], later)
        for viewer in (None, *ids):
            for name, page in pages.items():
                plain = await outcome(page(over(shoal, store), viewer))
                assert await outcome(page(over(shoal, cast("Store", Joined(store))), viewer)) == plain, (name, viewer)


def over(shoal: Shoal, store: Store) -> Reads:
    """Return the reads of the network with an empty cache over a store."""
    graph = CachedGraph(store)
    return replace(shoal.network.reads, graph=graph, lasting=graph)


def listed(member: int, atype: AssocType, reads: Reads, viewer: int | None) -> Awaitable[Any]:
    return members.page(reads, viewer, member, atype, PAGE)


def read(post: int, reads: Reads, viewer: int | None) -> Awaitable[Any]:
    return hydrate(reads.graph, viewer, [post], unasked=False)


def replies(post: int, reads: Reads, viewer: int | None) -> Awaitable[Any]:
    return threads.replies(reads, viewer, post, PAGE)


async def authored(member: int, reads: Reads, viewer: int | None) -> Any:
    await access_member(reads.graph, member, showing=((POSTED, PAGE),))
    return await authored_page(reads, viewer, member, PAGE)


async def outcome(page: Awaitable[Any]) -> Any:
    """Return the result of a page, or the type of its error."""
    try:
        return await page
    except ShoalError as error:
        return type(error)


@pytest.mark.parametrize("visibility", ["public", "followers"])
@in_loop
async def test_comment_list_entry_of_a_post_contains_author_of_the_comment(visibility: str) -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await shoal.register("ann"), await shoal.register("ben")
        post = await ann.create("hello")
        comment = await ben.comment(post, "hi", visibility=visibility)  # type: ignore[arg-type]  # one of its names
        lists = [await shoal.network.store.assoc_range(post.id, atype, PAGE) for atype in threads._LISTS]
        ((entry,),) = filter(None, lists)
        assert (entry.id2, int.from_bytes(entry.data)) == (comment.id, ben.id)
