"""The thread around a post: its ancestors and its descendants.

The root of a thread lists all comments in it (`graph/payloads/posts.py`), so one read gives the page's structure. Comments from
before this list existed are found by the comment lists of their parents, one level at a time, until `shoal check --repair` adds
them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from shoal.core.model import Post
from shoal.graph.access import access_post, prefetch, prefetches
from shoal.graph.cache.cached_graph import is_prefix
from shoal.graph.contract import Cursor, Reader, find_object
from shoal.graph.payloads.posts import ThreadPosition, authors_of, thread_position
from shoal.graph.schema import COMMENTED_BY, LIKED_BY, MEMBER_COUNTS, POST_COUNTS, RESTRICTED_COMMENTED_BY, THREAD
from shoal.queries.context import Reads
from shoal.queries.hydration import Entry, hydrate
from shoal.queries.pagination import read_by_page
from shoal.queries.pipeline import Page, read_page

MOST = 20_000
"""Maximum number of comments of a thread that are read, newest first. A page shows a selection of them."""
_MISFITS = 100
"""Number of comments that may be left out, because they and their ancestors exceed the limit, before the selection stops."""
_RANKED = 2_000
"""Number of comments, newest first, of which the most liked ones are selected."""
_LISTS = (COMMENTED_BY, RESTRICTED_COMMENTED_BY)
_POST_AND_LISTS = (*POST_COUNTS, RESTRICTED_COMMENTED_BY)


class Thread(NamedTuple):
    """The ancestors of a post (`above`), root first, and its descendants (`below`), each post before its comments.

    Comments on the same post are ordered oldest first.
    """

    above: list[Entry]
    below: list[Entry]
    more: bool = False
    """Whether the post has descendants that are not in `below`."""


async def thread(
    reads: Reads, viewer: int | None, post_id: int, *, above: int, below: int, most_liked: bool = False
) -> Thread:
    """Return up to `above` ancestors and `below` descendants of a post. Raises `NotFound` if the viewer may not see the post.

    If the post has more descendants, the viewer's own comments and the newest ones are selected, each with its ancestors. With
    `most_liked`, the most liked of the newest 2,000 are selected instead of the newest ones.
    """
    post = await access_post(reads.graph, viewer, post_id)
    listed = await reads.graph.assoc_range(post.root_id or post.id, THREAD, Cursor(limit=MOST))
    comments = {assoc.id2: thread_position(assoc) for assoc in listed}
    up = await _ancestors(reads, post, comments, above)
    tree = await _descendants(reads, post.id, comments, whole=len(listed) < MOST)
    first: Sequence[int] = ()
    if len(tree) > below:
        tree, first = await _with_authors(reads, tree), sorted(tree, reverse=True)
        if most_liked:
            first = await _by_likes(reads, first[:_RANKED])
    chosen = _chosen(tree, post.id, viewer, below, first)
    return Thread(
        await hydrate(reads.graph, viewer, up, unasked=False),
        await hydrate(reads.graph, viewer, chosen),
        more=len(chosen) < len(tree) or len(listed) == MOST,
    )


async def replies(reads: Reads, viewer: int | None, post_id: int, cursor: Cursor) -> Page:
    """Return a page of all visible direct comments on a post, newest first.

    Raises `NotFound` if the viewer may not see the post.
    """
    post = await _access_with_replies(reads.graph, viewer, post_id, cursor)

    async def skeleton(at: Cursor) -> list[int]:
        found = await asyncio.gather(*(reads.graph.assoc_range(post.id, atype, at) for atype in _LISTS))
        return sorted((assoc.id2 for page in found for assoc in page), reverse=not at.oldest_first)[: at.limit]

    return await read_page(reads, viewer, cursor, skeleton)


async def _access_with_replies(graph: Reader, viewer: int | None, post_id: int, cursor: Cursor) -> Post:
    """Return the post (see `access_post`). If its `open` is true, prefetch the data of the first page of its comments."""
    at = read_by_page(cursor)
    await prefetch(graph, (post_id,), (((post_id,), _POST_AND_LISTS),), ((post_id, COMMENTED_BY, at),))
    accessing = partial(access_post, graph, viewer, post_id)
    if not (prefetches(graph) and is_prefix(at)):
        return await accessing()
    node = (await graph.obj_get((post_id,))).get(post_id)
    if not (isinstance(node, Post) and node.open):
        return await accessing()
    # The page reads one comment more than it returns.
    listed = (await graph.assoc_range(post_id, COMMENTED_BY, at))[: cursor.limit + 1]
    comments, members = [entry.id2 for entry in listed], list({node.author_id, *authors_of(listed)})
    counts = ((comments, POST_COUNTS), (members, MEMBER_COUNTS))
    post, _ = await asyncio.gather(accessing(), prefetch(graph, [*comments, *members], counts))
    return post


async def _ancestors(reads: Reads, post: Post, comments: Mapping[int, ThreadPosition], limit: int) -> list[int]:
    """Return the ancestors of a post, root first. Ancestors above a deleted post are left out.

    An ancestor that is not in `comments`, the comments found in the thread's list, costs a read.
    """
    chain: list[int] = []
    at = post.parent_id
    while at and len(chain) < limit:
        if at in comments:
            up = comments[at].parent_id
        elif at == post.root_id:
            up = 0
        else:
            unlisted = await find_object(reads.graph, Post, at)
            if unlisted is None:
                break
            up = unlisted.parent_id
        chain.append(at)
        at = up
    return chain[::-1]


async def _descendants(
    reads: Reads, post_id: int, comments: Mapping[int, ThreadPosition], *, whole: bool
) -> dict[int, ThreadPosition]:
    """Return all comments below a post, each after its parent, older siblings first.

    The thread's list of comments may lack old ones. If a post has more comments than are listed, its own comment lists are
    read, with two reads per level of the thread.
    """
    children: dict[int, set[int]] = {}
    for comment in comments.values():
        children.setdefault(comment.parent_id, set()).add(comment.id)
    looked_at: Sequence[int] = [post_id, *_below(post_id, children)]
    while whole and looked_at:
        more = await _unlisted(reads, looked_at, children)
        for parent, ids in more.items():
            children.setdefault(parent, set()).update(ids)
        looked_at = [id_ for ids in more.values() for new in ids for id_ in (new, *_below(new, children))]
    parents = {child: parent for parent, ids in children.items() for child in ids}
    return {id_: comments.get(id_) or ThreadPosition(id_, parents[id_], 0) for id_ in _below(post_id, children)}


async def _unlisted(reads: Reads, ids: Sequence[int], children: Mapping[int, set[int]]) -> dict[int, set[int]]:
    counts = await reads.graph.assoc_count(ids, _LISTS)
    lacking = [id_ for id_ in ids if sum(counts[atype].get(id_, 0) for atype in _LISTS) > len(children.get(id_, ()))]
    if not lacking:
        return {}
    pages = await asyncio.gather(*(reads.graph.assoc_ranges(lacking, atype, Cursor(limit=MOST)) for atype in _LISTS))
    found: dict[int, set[int]] = {}
    for page in pages:
        for parent, listed in page.items():
            found.setdefault(parent, set()).update(assoc.id2 for assoc in listed)
    return {parent: new for parent, every in found.items() if (new := every - children.get(parent, set()))}


def _below(post_id: int, children: Mapping[int, Iterable[int]]) -> list[int]:
    ordered: list[int] = []
    waiting = sorted(children.get(post_id, ()), reverse=True)
    while waiting:
        at = waiting.pop()
        ordered.append(at)
        if at in children:
            waiting += sorted(children[at], reverse=True)
    return ordered


async def _with_authors(reads: Reads, tree: Mapping[int, ThreadPosition]) -> dict[int, ThreadPosition]:
    """Return the comments with their authors, from the posts themselves if the thread's list does not have them."""
    unknown = [id_ for id_, comment in tree.items() if not comment.author_id]
    nodes = await reads.graph.obj_get(unknown) if unknown else {}
    authors = {id_: node.author_id for id_, node in nodes.items() if isinstance(node, Post)}
    return {id_: comment._replace(author_id=authors.get(id_, comment.author_id)) for id_, comment in tree.items()}


async def _by_likes(reads: Reads, ids: Sequence[int]) -> list[int]:
    likes = (await reads.graph.assoc_count(ids, (LIKED_BY,)))[LIKED_BY]
    return sorted(ids, key=lambda id_: -likes.get(id_, 0))


def _chosen(
    tree: Mapping[int, ThreadPosition], post_id: int, viewer: int | None, limit: int, first: Sequence[int]
) -> list[int]:
    """Select up to `limit` comments, each with its ancestors: the viewer's own, then `first`, then the others."""
    if len(tree) <= limit:
        return list(tree)
    own = sorted((id_ for id_ in tree if tree[id_].author_id == viewer), reverse=True)
    chosen: set[int] = set()
    for candidates in (own, first, tree):
        misfits = 0
        for id_ in candidates:
            chain, at = list[int](), id_
            while at != post_id and at not in chosen and len(chain) <= limit:
                chain.append(at)
                at = tree[at].parent_id
            if len(chosen) + len(chain) <= limit:
                chosen.update(chain)
            elif (misfits := misfits + 1) > _MISFITS:
                break
    return [id_ for id_ in tree if id_ in chosen]
