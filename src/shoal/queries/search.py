"""Search for members, posts and tags, limited to what the viewer may see.

The index proposes candidates; each is read from the graph and matched again. So a search never shows outdated text, and reveals
nothing that the viewer may not see. Exact user names and the viewer's own newest posts are found without the index, immediately
after their creation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import structs

from shoal.core.errors import InvalidInput
from shoal.core.model import Member, Post
from shoal.core.places import Disk
from shoal.core.text import canonical_tag, check_user_name
from shoal.core.tokenizer import MAX_CLAUSES, Clause, clause_of, fold
from shoal.core.visibility import Relation, is_hushed
from shoal.graph.access import members_by_id, objects_of, relations
from shoal.graph.contract import Cursor, find_object
from shoal.graph.schema import FOLLOWED_BY, FOLLOWS, POSTED, user_name_key
from shoal.queries.context import Reads
from shoal.queries.hydration import Entry, Profile, Row, ViewerState, profiles
from shoal.queries.pipeline import Page, read_page
from shoal.search.contract import Ask, PostRow, by, fits, says
from shoal.search.indexing import is_listed, name_words, note_words, post_row, related_ids, whole_row
from shoal.search.query import read_question

MOST = 400
"""Maximum position that a search can reach."""
_CANDIDATES = 200
"""Members considered for one page, to rank those with many followers first."""
_OWN = 20
"""Own posts that are found without the index."""
_FOLLOWED = 10_000
_NAMED, _CALLED, _BIO = range(3)


class _Asked(NamedTuple):
    """A query to the search index, and the circles on the map in which results must be."""

    ask: Ask
    near: tuple[Disk, ...]

    def fits(self, post: Post, row: PostRow, *, shy: bool) -> bool:
        """Return whether a post matches. `row` is its row in the search index, and `shy` means that its author is not indexable."""
        return fits(self.ask, row, shy=shy) and all(disk.has(post.place) for disk in self.near)


class ResultRange(NamedTuple):
    limit: int
    offset: int = 0

    @property
    def end(self) -> int:
        return min(self.offset + self.limit, MOST)


async def member_named(reads: Reads, name: str) -> Member | None:
    """Return the member with exactly this user name, in any case; None for an unknown or suspended member."""
    try:
        key = user_name_key(check_user_name(name, reserved=True))
    except InvalidInput:
        return None
    member = await find_object(reads.graph, Member, (await reads.graph.key_get((key,))).get(key, 0))
    return member if member is not None and not member.suspended else None


async def members(
    reads: Reads, viewer: int | None, text: str, part: ResultRange, *, following: bool = False
) -> list[Profile]:
    """Find members by the exact user name, then by prefix of the user name, by words in the names, and by words in the bio.

    Within each group, the viewer's followees come first, then the most followed. Except for an exact name, only members who
    want to be found are returned; with `following`, only the viewer's followees. At most seven reads.
    """
    exact = await member_named(reads, text)
    clauses = [clause for word in text.split()[:MAX_CLAUSES] if (clause := clause_of(word, open_ended=True))]
    among = await _followees(reads, viewer) if following else None
    ids = await reads.search.members(clauses, fold(text.strip()), _CANDIDATES, among=among) if clauses else []
    if exact is not None and (among is None or exact.id in among):
        ids = [exact.id, *(id_ for id_ in ids if id_ != exact.id)]
    found = await members_by_id(reads.graph, ids)
    relationships = await relations(reads.graph, viewer, found)
    ranks = {
        id_: rank
        for id_, member in found.items()
        if (rank := _rank(member, clauses, text, relationships[id_], exact, anybody=following)) is not None
    }
    # Read the number of followers of every match for the order, but profiles only for the page.
    followers = (await reads.graph.assoc_count(list(ranks), (FOLLOWED_BY,)))[FOLLOWED_BY]
    ordered = sorted(
        ranks, key=lambda id_: (ranks[id_], not relationships[id_].following, -followers.get(id_, 0), found[id_].name)
    )
    shown = {id_: found[id_] for id_ in ordered[part.offset : part.end]}
    return list((await profiles(reads.graph, shown, viewer, relationships)).values())


async def _followees(reads: Reads, viewer: int | None) -> list[int]:
    if viewer is None:
        return []
    return [assoc.id2 for assoc in await reads.graph.assoc_range(viewer, FOLLOWS, Cursor(limit=_FOLLOWED))]


def _rank(
    member: Member, clauses: Sequence[Clause], text: str, relation: Relation, exact: Member | None, *, anybody: bool
) -> int | None:
    """Return a member's rank among the results: -1 for the exact name, then 0 (best) and higher; None to omit the member.

    With `anybody`, members who are not listed are included.
    """
    if exact is not None and member.id == exact.id:
        return -1
    if member.suspended or not (is_listed(member) or anybody) or relation.severed:
        return None
    words = name_words(member)
    if all(says(words, clause) for clause in clauses):
        return _NAMED if member.name.startswith(fold(text.strip())) else _CALLED
    bio = note_words(member)
    return _BIO if all(says(bio, clause._replace(open=False)) for clause in clauses) else None


async def posts(
    reads: Reads, viewer: int, text: str, cursor: Cursor, *, offset: int = 0, author: int | None = None
) -> list[Entry]:
    """Find posts by words, newest first: public posts of authors who allow it, own posts, and posts mentioning the viewer.

    See `shoal.search.query` for the query language.
    """
    asked = await _resolved(reads, viewer, text, author)
    if asked is None or offset + cursor.limit > MOST:
        return []
    own = await _own_that_fit(reads, viewer, asked)

    async def skeleton(at: Cursor) -> list[int]:
        found = await reads.search.posts(structs.replace(asked.ask, before=at.before, after=at.after), at.limit)
        fresh = [id_ for id_ in own if at.after < id_ < at.before]
        return sorted({*found, *fresh}, reverse=True)[: at.limit]

    async def keep(seen: ViewerState, rows: Sequence[Row]) -> list[Row]:
        return [row for row in rows if _still_fits(asked, seen, row[1])]

    page_cursor = cursor._replace(limit=cursor.limit + offset, oldest_first=False)
    page: Page = await read_page(reads, viewer, page_cursor, skeleton, keep)
    return page.entries[offset:]


async def _resolved(reads: Reads, viewer: int, text: str, author: int | None) -> _Asked | None:
    """Return the query with its user names resolved to ids; None if nothing can match."""
    question = read_question(text)
    if question.nothing:
        return None
    every, none = list(question.ask.every), list(question.ask.none)
    for names, clauses in ((question.by, every), (question.not_by, none)):
        for name in names:
            id_ = await _id_of(reads, viewer, name)
            if id_ is not None:
                clauses.append(Clause((by(id_),)))
            elif names is question.by:
                return None
    if author is not None:
        every.append(Clause((by(author),)))
    seer = None if question.public_only else viewer
    ask = structs.replace(question.ask, every=tuple(every), none=tuple(none), viewer=seer)
    return _Asked(ask, question.near)


async def _id_of(reads: Reads, viewer: int, name: str) -> int | None:
    if name == "me":
        return viewer
    member = await member_named(reads, name.removeprefix("@").partition("@")[0])
    return member.id if member else None


def _still_fits(asked: _Asked, seen: ViewerState, post: Post) -> bool:
    author = seen.members[post.author_id]
    hushed = is_hushed(seen.viewer, post, author, seen.relationships[author.id])
    return not hushed and asked.fits(post, post_row(post, seen.poll(post), seen.media(post)), shy=not author.indexable)


async def _own_that_fit(reads: Reads, viewer: int, asked: _Asked) -> list[int]:
    """Return the ids of the viewer's newest posts that match the query; two reads, or three with polls or media."""
    newest = await own_newest(reads, viewer)
    ids = dict.fromkeys(id_ for post in newest for id_ in related_ids(post))
    nodes = await reads.graph.obj_get(list(ids)) if ids else {}
    return [post.id for post in newest if asked.fits(post, whole_row(post, nodes), shy=False)]


async def own_newest(reads: Reads, viewer: int) -> list[Post]:
    listed = await reads.graph.assoc_range(viewer, POSTED, Cursor(limit=_OWN))
    return await objects_of(reads.graph, Post, [entry.id2 for entry in listed])


async def tags(reads: Reads, viewer: int | None, text: str, part: ResultRange) -> list[str]:
    """Find canonical tags by prefix, with or without a `#`: the most used first, then by name.

    Denied tags are excluded, and a merged tag is returned as its target.
    """
    prefix = canonical_tag(text.strip().removeprefix("#"))
    if not prefix or any(character.isspace() for character in prefix):
        return []
    uses = {tag.name: tag.uses for tag in await reads.search.tags(prefix, part.end + _CANDIDATES)}
    for name, n in (await _own_uses(reads, viewer, prefix)).items():
        uses[name] = max(n, uses.get(name, 0))
    if prefix not in uses and (known := await reads.tags.counted((prefix,))):
        uses[prefix] = known[prefix].uses
    leads = await reads.tags.shown_as(uses)
    shown: dict[str, int] = {}
    for name, lead in leads.items():
        shown[lead] = shown.get(lead, 0) + uses[name]
    return sorted(shown, key=lambda name: (-shown[name], name))[part.offset : part.end]


async def _own_uses(reads: Reads, viewer: int | None, prefix: str) -> dict[str, int]:
    """Count the viewer's own latest uses of tags with this prefix, because the index may not contain them yet."""
    uses: dict[str, int] = {}
    for post in await own_newest(reads, viewer) if viewer is not None else []:
        for name in post_row(post).tags:
            if name.startswith(prefix):
                uses[name] = uses.get(name, 0) + 1
    return uses
