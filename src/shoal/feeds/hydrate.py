"""Ids to full values, in a fixed number of reads however many there are; what the viewer may not see is left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from shoal.core.model import Media, Member, Post, Share
from shoal.core.visibility import Relation, may_list, may_see
from shoal.graph.access import relations
from shoal.graph.contract import Reader
from shoal.graph.schema import (
    BOOKMARKS,
    COMMENTED_BY,
    FOLLOWED_BY,
    FOLLOWS,
    LIKED_BY,
    LIKES,
    POSTED,
    SHARED_BY,
    SHARES,
    AnyNode,
)

_POST_COUNTS = (LIKED_BY, SHARED_BY, COMMENTED_BY)
_MEMBER_COUNTS = (FOLLOWED_BY, FOLLOWS, POSTED)
_VIEWER_STATE = (LIKES, SHARES, BOOKMARKS)


class Profile(msgspec.Struct, frozen=True):
    """A member with the numbers that stand on a profile."""

    member: Member
    followers: int = 0
    following: int = 0
    posts: int = 0


class Entry(msgspec.Struct, frozen=True):
    """One entry of a feed: a post, with who shared it when it is there as a share."""

    id: int
    """Of the post or, for a share, of the share: the cursor."""
    post: Post
    author: Profile
    relation: Relation
    """Of the viewer to the author."""
    media: tuple[Media, ...] = ()
    likes: int = 0
    shares: int = 0
    comments: int = 0
    liked: bool = False
    shared: bool = False
    bookmarked: bool = False
    share: Share | None = None
    sharer: Profile | None = None
    sharer_relation: Relation | None = None


class _Found(msgspec.Struct, frozen=True):
    """The objects that a page needs."""

    nodes: Mapping[int, AnyNode]
    people: Mapping[int, AnyNode]

    def post(self, entry: Post | Share) -> Post | None:
        if isinstance(entry, Post):
            return entry
        node = self.nodes.get(entry.post_id)
        return node if isinstance(node, Post) else None

    def member(self, id_: int) -> Member | None:
        node = self.people.get(id_)
        return node if isinstance(node, Member) else None


async def hydrate(graph: Reader, viewer: int | None, ids: Sequence[int], *, unasked: bool = True) -> list[Entry]:
    """Entries by id, in the order of `ids`, as the viewer may see them.

    `unasked` entries come in a timeline or a list, where those whom the viewer mutes are left out; otherwise the viewer
    asked for just these. At most seven reads.
    """
    entries = await _entries(graph, ids)
    found = await _objects(graph, entries)
    stands = await relations(graph, viewer, {person for entry in entries for person in _people(entry, found)})
    visible = [entry for entry in entries if _visible(viewer, entry, found, stands, unasked=unasked)]
    return await _assemble(graph, viewer, visible, found, stands)


async def _entries(graph: Reader, ids: Sequence[int]) -> list[Post | Share]:
    nodes = await graph.obj_get(ids)
    return [node for id_ in ids if isinstance(node := nodes.get(id_), Post | Share)]


async def _objects(graph: Reader, entries: Sequence[Post | Share]) -> _Found:
    """The shared posts, then everybody and every picture."""
    shared = {entry.post_id for entry in entries if isinstance(entry, Share)}
    nodes = await graph.obj_get(list(shared)) if shared else {}
    posts = [entry if isinstance(entry, Post) else nodes.get(entry.post_id) for entry in entries]
    wanted = {entry.author_id for entry in entries}
    for post in posts:
        if isinstance(post, Post):
            wanted.add(post.author_id)
            wanted.update(post.media)
    return _Found(nodes, await graph.obj_get(list(wanted)))


def _people(entry: Post | Share, found: _Found) -> Iterable[int]:
    yield entry.author_id
    post = found.post(entry)
    if post is not None:
        yield post.author_id
        if post.parent_author_id:
            yield post.parent_author_id


def _visible(
    viewer: int | None, entry: Post | Share, found: _Found, stands: Mapping[int, Relation], *, unasked: bool
) -> bool:
    post = found.post(entry)
    if post is None:
        return False
    rule = may_list if unasked else may_see
    if not rule(viewer, post, found.member(post.author_id), stands[post.author_id]):
        return False
    if isinstance(entry, Post):
        return True
    sharer, stand = found.member(entry.author_id), stands[entry.author_id]
    return sharer is not None and not sharer.suspended and not stand.severed and not (unasked and stand.muting)


async def _assemble(
    graph: Reader,
    viewer: int | None,
    entries: Sequence[Post | Share],
    found: _Found,
    stands: Mapping[int, Relation],
) -> list[Entry]:
    posts = {entry.id: post for entry in entries if (post := found.post(entry)) is not None}
    post_ids = list({post.id for post in posts.values()})
    people = {entry.author_id for entry in entries} | {post.author_id for post in posts.values()}
    if not post_ids:
        return []
    counts = await graph.assoc_count(post_ids, _POST_COUNTS)
    profiles = await _profiles(graph, found, people)
    state = await graph.assoc_get(viewer, _VIEWER_STATE, post_ids) if viewer is not None else {}
    liked, shared, bookmarked = (state.get(atype, {}) for atype in _VIEWER_STATE)
    likes, shares, comments = (counts[atype] for atype in _POST_COUNTS)
    answer: list[Entry] = []
    for entry in entries:
        post = posts[entry.id]
        id_ = post.id
        share = entry if isinstance(entry, Share) else None
        answer.append(
            Entry(
                id=entry.id,
                post=post,
                author=profiles[post.author_id],
                relation=stands[post.author_id],
                media=_media(post, found) if post.media else (),
                likes=likes.get(id_, 0),
                shares=shares.get(id_, 0),
                comments=comments.get(id_, 0),
                liked=id_ in liked,
                shared=id_ in shared,
                bookmarked=id_ in bookmarked,
                share=share,
                sharer=profiles[share.author_id] if share else None,
                sharer_relation=stands[share.author_id] if share else None,
            )
        )
    return answer


def _media(post: Post, found: _Found) -> tuple[Media, ...]:
    return tuple(node for id_ in post.media if isinstance(node := found.people.get(id_), Media))


async def _profiles(graph: Reader, found: _Found, people: Iterable[int]) -> dict[int, Profile]:
    members = {id_: member for id_ in people if (member := found.member(id_)) is not None}
    return await profiles(graph, members)


async def profiles(graph: Reader, members: Mapping[int, Member]) -> dict[int, Profile]:
    """Members with their numbers; one read."""
    counts = await graph.assoc_count(list(members), _MEMBER_COUNTS)
    followers, following, posts = (counts[atype] for atype in _MEMBER_COUNTS)
    return {
        id_: Profile(member, followers.get(id_, 0), following.get(id_, 0), posts.get(id_, 0))
        for id_, member in members.items()
    }


async def profiles_by_id(graph: Reader, ids: Sequence[int]) -> list[Profile]:
    """Profiles in the order of `ids`; those who are gone are left out. Two reads."""
    nodes = await graph.obj_get(ids)
    members = {id_: node for id_ in ids if isinstance(node := nodes.get(id_), Member) and not node.suspended}
    found = await profiles(graph, members)
    return [found[id_] for id_ in members]
