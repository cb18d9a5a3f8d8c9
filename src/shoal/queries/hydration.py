"""Hydration: load the full values for a list of ids in a fixed number of reads, without the values the viewer may not see.

The values include the reactions to each post: the count of each emoji and declared reaction, and whether the viewer added it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import msgspec

from shoal.core.filters import Filter
from shoal.core.model import Media, Member, Poll, Post, Share
from shoal.core.reactions import is_named
from shoal.core.visibility import Relation, may_list, may_see, may_see_share
from shoal.graph.access import prefetch, prefetches, relations
from shoal.graph.contract import Assoc, Reader
from shoal.graph.payloads.posts import EmojiPosition, chosen_of, emoji_positions
from shoal.graph.schema import (
    BOOKMARK,
    CHOSEN_BY,
    EMOJI_PUT_BY,
    FOLLOWS,
    LIKES,
    MEMBER_COUNTS,
    MUTES_THREAD,
    PINS,
    POST_COUNTS,
    POST_MARKS,
    REACTED_BY,
    REACTS,
    REPORTS_POST,
    SHARES,
    VIEWER_LISTS,
    VOTED_BY,
    VOTES,
    AnyNode,
    AssocType,
    PostMark,
)


class EmojiCount(msgspec.Struct, frozen=True):
    emoji: str
    """The emoji, or the name of a declared reaction."""
    count: int
    me: bool
    """Whether the viewer added it."""

    @property
    def named(self) -> bool:
        return is_named(self.emoji)


async def emoji_counts(
    graph: Reader, post_ids: Sequence[int], mine: Mapping[int, Assoc]
) -> dict[int, tuple[EmojiCount, ...]]:
    """Return the emoji of each post with their counts, in the order of their first use; two reads.

    `mine` has the viewer's `REACTS` association with each post, if any.
    """
    found = await emoji_counts_by_post(graph, post_ids, mine)
    return {post: tuple(count for _, count in counts) for post, counts in found.items()}


async def emoji_counts_by_post(
    graph: Reader, post_ids: Sequence[int], mine: Mapping[int, Assoc]
) -> dict[int, list[tuple[EmojiPosition, EmojiCount]]]:
    """Return the result of `emoji_counts`, with the `EmojiPosition` of each count."""
    there = await emoji_positions(graph, post_ids)
    ids = [position.id for positions in there.values() for position in positions]
    counts = (await graph.assoc_count(ids, (EMOJI_PUT_BY,)))[EMOJI_PUT_BY] if ids else {}
    chosen = {position.id for assoc in mine.values() for position in chosen_of(assoc)}
    return {
        post: [
            (position, EmojiCount(position.emoji, n, position.id in chosen))
            for position in positions
            if (n := counts.get(position.id))
        ]
        for post, positions in there.items()
    }


async def named_counts(graph: Reader, post_ids: Sequence[int]) -> dict[int, dict[str, int]]:
    """Return the counts of the declared reactions to each post, by name. One read, and two more if posts have reactions."""
    reacted = list((await graph.assoc_count(post_ids, (REACTED_BY,)))[REACTED_BY])
    found = await emoji_counts(graph, reacted, {}) if reacted else {}
    return {post: {each.emoji: each.count for each in counts if each.named} for post, counts in found.items()}


_VIEWER_STATE = (LIKES, SHARES, MUTES_THREAD, REPORTS_POST, *[mark.atype for mark in POST_MARKS])
_POLL_COUNTS = (CHOSEN_BY, VOTED_BY)
_NONE: Mapping[int, Assoc] = {}


class Profile(msgspec.Struct, frozen=True):
    member: Member
    followers: int = 0
    following: int = 0
    posts: int = 0
    """Number of entries that the viewer may find."""


class PollView(msgspec.Struct, frozen=True):
    poll: Poll
    votes: tuple[int, ...] = ()
    voters: int = 0
    choices: tuple[int, ...] | None = None
    """Positions of the viewer's choices; None if they have not voted, or without a viewer."""


class Filtered(msgspec.Struct, frozen=True):
    """A filter of the viewer that matches a post, with the matching keywords and posts."""

    filter: Filter
    keywords: tuple[str, ...] = ()
    posts: tuple[int, ...] = ()


class SharedBy(msgspec.Struct, frozen=True):
    """The other members who shared a post, whose shares are folded into this entry."""

    first: tuple[Profile, ...]
    number: int


class Entry(msgspec.Struct, frozen=True):
    """An entry of a feed: a post, or a share of it by the `sharer`."""

    id: int
    """Id of the post or share, which is also the cursor."""
    post: Post
    author: Profile
    relation: Relation
    media: tuple[Media, ...] = ()
    likes: int = 0
    shares: int = 0
    comments: int = 0
    emoji: tuple[EmojiCount, ...] = ()
    named: tuple[EmojiCount, ...] = ()
    """The declared reactions."""
    liked: bool = False
    shared: bool = False
    marks: int = 0
    """The viewer's private marks, such as bookmarks, as bits by position in `POST_MARKS`."""
    pinned: bool = False
    """Whether the viewer pinned the post, which is their own."""
    on_top: bool = False
    """Whether the entry precedes the other posts of its author's profile because it is pinned."""
    thread_muted: bool = False
    poll: PollView | None = None
    filtered: tuple[Filtered, ...] = ()
    """The viewer's filters that match the post in the context of this feed."""
    matches: tuple[Filtered, ...] = ()
    """The viewer's filters that match the post in any context."""
    share: Share | None = None
    sharer: Profile | None = None
    shared_by: SharedBy | None = None
    reported: bool = False
    """Whether the viewer reported the post, which hides the entry from their feeds."""

    @property
    def bookmarked(self) -> bool:
        return self.has_mark(BOOKMARK)

    def has_mark(self, mark: PostMark) -> bool:
        return bool(self.marks >> POST_MARKS.index(mark) & 1)

    @property
    def reactions(self) -> int:
        return self.likes + self.shares


def viewer_counts(viewer: int | None) -> list[tuple[Sequence[int], Sequence[AssocType]]]:
    """Return the counts to prefetch for a viewer: a list with the count 0 need not be read. Empty for an anonymous viewer."""
    return [] if viewer is None else [((viewer,), (FOLLOWS, *VIEWER_LISTS))]


Row = tuple[int, Post, Share | None]
"""An entry before hydration: its id, the post, and the share if it is one."""

RowFilter = Callable[[Row], bool]
"""A predicate on the post or share alone, evaluated before anything else is read."""

_Rule = Callable[[Row, Mapping[int, Member], Mapping[int, Relation]], bool]
"""Decides whether an entry is shown, from the existing members and the viewer's relationships to them."""

_AHEAD = 50
"""Maximum number of entries whose counts are prefetched: two items each fit into one request."""
_MANY = 200
"""Number of entries above which posts are read without the cache, so that they do not evict hot ones."""


class ViewerState:
    """Reads entries as a viewer sees them, in two steps.

    `look` reads the data that decides which entries are shown; `entries` hydrates these. Relations and members from one call of
    `look` are kept for the next, so a page may call it several times.
    """

    def __init__(self, graph: Reader, viewer: int | None, rule: _Rule, lasting: Reader | None = None) -> None:
        self.graph = graph
        self.viewer = viewer
        self.members: Mapping[int, Member] = {}
        """Authors and sharers, by id."""
        self.relationships: Mapping[int, Relation] = {}
        """The viewer's relationships to authors and sharers, and to the authors of parent posts."""
        self._rule = rule
        self._lasting = lasting or graph
        self._nodes: Mapping[int, AnyNode] = {}

    async def look(self, ids: Sequence[int], selected: RowFilter | None = None) -> list[Row]:
        """Return the entries that `selected` accepts and the viewer may see, in the order of `ids`; four reads."""
        rows = await _rows(self.graph if len(ids) <= _MANY else self._lasting, ids)
        if selected is not None:
            rows = [row for row in rows if selected(row)]
        if not rows:
            return rows
        people = {post.author_id for _, post, _ in rows}
        people.update([share.author_id for _, _, share in rows if share is not None])
        related = [
            id_ for _, post, _ in rows if post.media or post.poll_id for id_ in (*post.media, post.poll_id) if id_
        ]
        # A home timeline also needs the viewer's relationships to the authors of the parent posts.
        related_to = people | {parent for _, post, _ in rows if (parent := post.parent_author_id)}
        relating = partial(relations, self.graph, self.viewer, related_to)
        if prefetches(self.graph):
            counts = [(list(people), MEMBER_COUNTS), *viewer_counts(self.viewer)]
            _, relationships, _ = await asyncio.gather(
                prefetch(self.graph, [*people, *related], counts),
                relating(),
                _reactions(self.graph, self.viewer, [post for _, post, _ in rows]),
            )
            nodes = await self.graph.obj_get([*people, *related])
        else:
            nodes = await self.graph.obj_get([*people, *related])
            relationships = await relating()
        members = {id_: node for id_ in people if isinstance(node := nodes.get(id_), Member)}
        rule = self._rule
        rows = [row for row in rows if rule(row, members, relationships)]
        self._nodes = {**self._nodes, **nodes} if self._nodes else nodes
        self.members = {**self.members, **members} if self.members else members
        self.relationships = {**self.relationships, **relationships} if self.relationships else relationships
        return rows

    def media(self, post: Post) -> tuple[Media, ...]:
        return _media(post, self._nodes)

    def poll(self, post: Post) -> Poll | None:
        return poll if isinstance(poll := self._nodes.get(post.poll_id), Poll) else None

    async def entries(self, rows: Sequence[Row]) -> list[Entry]:
        """Hydrate rows that `look` has returned; three reads, one more with polls, two more with emoji.

        Removes posts that the viewer reported, which `look` does not check.
        """
        if not rows:
            return []
        found = await _assemble(self.graph, self.viewer, rows, self.members, self._nodes, self.relationships)
        return found if self._rule is _there else [entry for entry in found if not entry.reported]


def viewer_state(
    graph: Reader, viewer: int | None, *, unasked: bool = True, lasting: Reader | None = None
) -> ViewerState:
    """Return a `ViewerState` for this viewer.

    With `unasked`, as for timelines, entries by muted authors are excluded; without it, the viewer has requested exactly these
    entries. `lasting` is an uncached graph, from which large numbers of entries are read.
    """
    return ViewerState(graph, viewer, partial(_visible, viewer, may_list if unasked else may_see), lasting)


async def hydrate(graph: Reader, viewer: int | None, ids: Sequence[int], *, unasked: bool = True) -> list[Entry]:
    """Return the entries that the viewer may see, in the order of `ids`. For `unasked`, see `viewer_state`.

    At most seven reads, one more with polls, and two more with emoji.
    """
    return await _hydrated(viewer_state(graph, viewer, unasked=unasked), ids)


async def hydrate_taken_back(graph: Reader, member_id: int, id_: int) -> Entry | None:
    """Return an entry after the member removed their own reaction from the entry; None if the entry no longer exists.

    An entry that they reported or may no longer see is reduced to its id and author, without content and counts.
    """
    seen = ViewerState(graph, member_id, _there)
    rows = await seen.look((id_,))
    if not rows:
        return None
    (entry,) = await seen.entries(rows)
    shown = not entry.reported and _visible(member_id, may_see, rows[0], seen.members, seen.relationships)
    return entry if shown else _bare(entry)


def _bare(entry: Entry) -> Entry:
    """Return an entry without the post's text, media, poll and counts, and with only the name of a suspended author."""
    post, author = entry.post, entry.author
    return msgspec.structs.replace(
        entry,
        post=Post(
            id=post.id, author_id=post.author_id, visibility=post.visibility, dated=post.dated, version=post.version
        ),
        author=Profile(Member(id=author.member.id, name=author.member.name)) if author.member.suspended else author,
        media=(),
        poll=None,
        likes=0,
        shares=0,
        comments=0,
        emoji=(),
        named=(),
    )


async def hydrate_reported(graph: Reader, ids: Sequence[int]) -> list[Entry]:
    """Return reported entries, even those that are hidden or not public; only for moderators."""
    return await _hydrated(ViewerState(graph, None, _there), ids)


async def _hydrated(seen: ViewerState, ids: Sequence[int]) -> list[Entry]:
    return await seen.entries(await seen.look(ids))


def _there(row: Row, members: Mapping[int, Member], _relationships: Mapping[int, Relation]) -> bool:
    _, post, share = row
    return post.author_id in members and (share is None or share.author_id in members)


async def prefetch_shown(graph: Reader, viewer: int, ids: Sequence[int]) -> None:
    """Prefetch the data that `ViewerState` reads for these entries, whose posts and counts are cached already.

    The reads are concurrent, so that the store can join them into one request.
    """
    nodes = (await graph.obj_get(ids)).values()
    posts = [node for node in nodes if isinstance(node, Post)]
    shares = [node for node in nodes if isinstance(node, Share)]
    shared = [share.post_id for share in shares]
    people = {post.author_id for post in posts}
    people.update(id_ for share in shares for id_ in (share.author_id, share.post_author_id))
    media = [id_ for post in posts for id_ in (*post.media, post.poll_id) if id_]
    parents = {parent for post in posts if (parent := post.parent_author_id)}
    await asyncio.gather(
        prefetch(graph, [*shared, *people, *media], ((shared, POST_COUNTS), (list(people), MEMBER_COUNTS))),
        relations(graph, viewer, people | parents),
        _reactions(graph, viewer, posts, shared),
    )


async def _reactions(
    graph: Reader, viewer: int | None, posts: Sequence[Post], more: Sequence[int] = ()
) -> Mapping[AssocType, Mapping[int, Assoc]]:
    """Return the viewer's associations with these posts, such as likes, and with the posts with the ids `more`; one read."""
    ids = {id_ for post in posts for id_ in (post.id, post.root_id, post.poll_id) if id_}.union(more)
    return await graph.assoc_get(viewer, _VIEWER_STATE, list(ids)) if viewer is not None else {}


async def _rows(graph: Reader, ids: Sequence[int]) -> list[Row]:
    """Read the posts and shares with these ids, skipping missing ones."""
    if len(ids) <= _AHEAD:
        await prefetch(graph, ids, ((ids, POST_COUNTS),))
    nodes = await graph.obj_get(ids)
    found = [node for id_ in ids if (node := nodes.get(id_)) is not None]
    selected = {node.post_id for node in found if type(node) is Share}
    posts = await graph.obj_get(list(selected)) if selected else {}
    rows: list[Row] = []
    for node in found:
        if type(node) is Post:
            rows.append((node.id, node, None))
        elif type(node) is Share and isinstance(post := posts.get(node.post_id), Post):
            rows.append((node.id, post, node))
    return rows


def _visible(
    viewer: int | None,
    rule: Callable[[int | None, Post, Member | None, Relation], bool],
    row: Row,
    members: Mapping[int, Member],
    relationships: Mapping[int, Relation],
) -> bool:
    _, post, share = row
    author = post.author_id
    if not rule(viewer, post, members.get(author), relationships[author]):
        return False
    if share is None:
        return True
    relation = relationships[share.author_id]
    if rule is may_list and relation.muting:
        return False
    return may_see_share(viewer, share, members.get(share.author_id), relation)


async def _assemble(
    graph: Reader,
    viewer: int | None,
    rows: Sequence[Row],
    members: Mapping[int, Member],
    nodes: Mapping[int, AnyNode],
    relationships: Mapping[int, Relation],
) -> list[Entry]:
    post_ids = list({post.id for _, post, _ in rows})
    counts = await graph.assoc_count(post_ids, POST_COUNTS)
    if len(members) > len(rows):
        # Do not read the profiles of members whose entries are not shown.
        shown = {post.author_id for _, post, _ in rows}
        shown.update([share.author_id for _, _, share in rows if share is not None])
        members = {id_: members[id_] for id_ in shown}
    known = await profiles(graph, members, viewer, relationships)
    roots = [root for _, post, _ in rows if (root := post.root_id)]
    polls = [poll for _, post, _ in rows if post.poll_id and isinstance(poll := nodes.get(post.poll_id), Poll)]
    likes, shares, comments, reacted = (counts[atype] for atype in POST_COUNTS)
    types = (
        *_VIEWER_STATE,
        *((PINS,) if viewer in members else ()),
        *((VOTES,) if polls else ()),
        *((REACTS,) if reacted else ()),
    )
    # Posts, thread roots and polls have associations of distinct types, so one read of all types suffices.
    selected = list({*post_ids, *roots, *[poll.id for poll in polls]}) if roots or polls else post_ids
    state = await graph.assoc_get(viewer, types, selected) if viewer is not None else {}
    views = await _poll_views(graph, polls, state.get(VOTES, {})) if polls else {}
    emoji = await emoji_counts(graph, list(reacted), state.get(REACTS, _NONE)) if reacted else {}
    liked, shared, muted, reported, pinned = (
        state.get(atype, _NONE) for atype in (LIKES, SHARES, MUTES_THREAD, REPORTS_POST, PINS)
    )
    marks: dict[int, int] = {}
    for bit, mark in enumerate(POST_MARKS):
        for id_ in state.get(mark.atype, _NONE):
            marks[id_] = marks.get(id_, 0) | 1 << bit
    answer: list[Entry] = []
    for entry_id, post, share in rows:
        id_ = post.id
        answer.append(
            # Pass some arguments by position: with more than thirty arguments, the interpreter packs them into a
            # dictionary.
            Entry(
                entry_id,
                post,
                known[post.author_id],
                relationships[post.author_id],
                _media(post, nodes) if post.media else (),
                likes.get(id_, 0),
                shares.get(id_, 0),
                comments.get(id_, 0),
                tuple([each for each in emoji.get(id_, ()) if not each.named]) if emoji else (),
                tuple([each for each in emoji.get(id_, ()) if each.named]) if emoji else (),
                liked=id_ in liked,
                shared=id_ in shared,
                marks=marks.get(id_, 0),
                pinned=id_ in pinned,
                thread_muted=(post.root_id or id_) in muted,
                poll=views.get(post.poll_id) if views else None,
                share=share,
                sharer=known[share.author_id] if share else None,
                reported=id_ in reported,
            )
        )
    return answer


async def _poll_views(graph: Reader, polls: Sequence[Poll], voted: Mapping[int, Assoc]) -> dict[int, PollView]:
    """Return each poll with its votes and the viewer's choices, by its id; one read."""
    ids = [id_ for poll in polls for id_ in (poll.id, *[option.id for option in poll.options])]
    counts = await graph.assoc_count(ids, _POLL_COUNTS)
    chosen, voters = (counts[atype] for atype in _POLL_COUNTS)
    return {
        poll.id: PollView(
            poll,
            votes=tuple(chosen.get(option.id, 0) for option in poll.options),
            voters=voters.get(poll.id, 0),
            choices=tuple(voted[poll.id].data) if poll.id in voted else None,
        )
        for poll in polls
    }


def _media(post: Post, nodes: Mapping[int, AnyNode]) -> tuple[Media, ...]:
    return tuple(node for id_ in post.media if isinstance(node := nodes.get(id_), Media))


async def profiles(
    graph: Reader, members: Mapping[int, Member], viewer: int | None, relationships: Mapping[int, Relation]
) -> dict[int, Profile]:
    """Return members with their counts, as the viewer may see them; one read.

    The number of posts includes posts and shares that everyone may find and, for the member and their followers, those for
    followers only. Direct and hidden posts never count.
    """
    counts = await graph.assoc_count(list(members), MEMBER_COUNTS)
    followers, following, posted, restricted, reserved = (counts[atype] for atype in MEMBER_COUNTS)
    if reserved:
        strange = (id_ for id_ in reserved if id_ != viewer and not relationships[id_].following)
        posted = {**posted, **{id_: posted.get(id_, 0) - reserved[id_] for id_ in strange}}
    if restricted:
        posted = {**posted, **{id_: posted.get(id_, 0) - restricted[id_] for id_ in restricted}}
    return {
        id_: Profile(member, followers.get(id_, 0), following.get(id_, 0), posted.get(id_, 0))
        for id_, member in members.items()
    }


async def profiles_by_id(graph: Reader, viewer: int | None, ids: Sequence[int]) -> list[Profile]:
    """Return profiles in the order of `ids`, without deleted and suspended members. Three reads."""
    await prefetch(graph, ids, ((ids, MEMBER_COUNTS),))
    nodes = await graph.obj_get(ids)
    members = {id_: node for id_ in ids if isinstance(node := nodes.get(id_), Member) and not node.suspended}
    found = await profiles(graph, members, viewer, await relations(graph, viewer, members))
    return [found[id_] for id_ in members]
