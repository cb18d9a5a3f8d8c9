"""Tags: followed tags, featured tags on a profile, related tags, and tags that a new member may pick as interests.

Related tags appear together in posts more often than their frequencies predict. Only public posts are considered, so the result
does not depend on the viewer and reveals no more than the public list of the tag. Tags offered to a new member each have a
picture, and are ordered by the number of members who used them today and yesterday.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from shoal.core.filters import FilterContext
from shoal.core.model import MediaKind, MediaState, Member, Post, Visibility
from shoal.core.text import check_tag
from shoal.core.visibility import STRANGER, is_sensitive, may_list, may_list_publicly
from shoal.graph.access import members_by_id
from shoal.graph.cache.coherence import one_request
from shoal.graph.cache.dependencies import compared
from shoal.graph.contract import MAX_TIME, Assoc, Cursor, Reader
from shoal.graph.payloads.members import personalization_of
from shoal.graph.schema import FEATURES_TAG, FOLLOWS_TAG, POSTED, TAG_OF, tag_id
from shoal.queries.context import Reads
from shoal.queries.hydration import Entry, Row, ViewerState, viewer_state
from shoal.queries.pagination import entries_page
from shoal.queries.pipeline import content_filters_of
from shoal.tagcloud.cloud import RelatedTag, Word, check_words, likeness

_FEATURED = 100
"""Maximum number of featured tags that are read, which is more than a member may have."""
_PAGE = 1_000
_PAGES = 10
"""Pages of a member's newest entries that are counted."""
_RECENT = 200


class Featured(NamedTuple):
    place: int
    """Position of the tag in the member's list, which identifies the tag there."""
    name: str
    posts: int
    """Open posts of the member under the tag, among their newest 10,000 entries."""
    newest: int
    """Time of the newest of these posts (Unix milliseconds); 0 if there is none."""


class FollowedTags(NamedTuple):
    """A page of the tags that a member follows; `next` is None at the end."""

    tags: Sequence[Assoc]
    """The associations; the data of each is the tag's name."""
    next: int | None


async def followed(reads: Reads, member_id: int, cursor: Cursor) -> FollowedTags:
    return FollowedTags(*await entries_page(reads.graph, member_id, FOLLOWS_TAG, cursor))


async def featured(graph: Reader, member_id: int) -> list[Featured]:
    assocs = await graph.assoc_range(member_id, FEATURES_TAG, Cursor(limit=_FEATURED))
    return await counted(graph, member_id, assocs)


async def names(graph: Reader, member_id: int) -> list[str]:
    """Return the names of the tags that a member features, most recently featured first; one read."""
    assocs = await graph.assoc_range(member_id, FEATURES_TAG, Cursor(limit=_FEATURED))
    return [assoc.data.decode() for assoc in assocs]


async def counted(graph: Reader, member_id: int, assocs: Sequence[Assoc]) -> list[Featured]:
    names = [assoc.data.decode() for assoc in assocs]
    found = await _posts_under(graph, member_id, names) if names else {}
    return [
        Featured(assoc.time, name, len(found[name]), max((post.created_at for post in found[name]), default=0))
        for assoc, name in zip(assocs, names, strict=True)
    ]


async def suggested(reads: Reads, member_id: int, most: int = 10) -> list[str]:
    """Suggest tags to feature: the most used ones of the member's newest posts that are not featured yet."""
    posted = await reads.graph.assoc_range(member_id, POSTED, Cursor(limit=_RECENT))
    nodes = await reads.graph.obj_get([entry.time for entry in posted])
    used = Counter(tag for node in nodes.values() if isinstance(node, Post) and node.open for tag in node.tags)
    featured = {assoc.id2 for assoc in await reads.graph.assoc_range(member_id, FEATURES_TAG, Cursor(limit=_FEATURED))}
    return [name for name, _ in used.most_common() if tag_id(name) not in featured][:most]


async def _posts_under(graph: Reader, member_id: int, names: Sequence[str]) -> dict[str, list[Post]]:
    found: dict[str, list[Post]] = {name: [] for name in names}
    before = MAX_TIME
    for _ in range(_PAGES):
        page = [entry.time for entry in await graph.assoc_range(member_id, POSTED, Cursor(before=before, limit=_PAGE))]
        under = await asyncio.gather(*[graph.assoc_get(tag_id(name), (TAG_OF,), page) for name in names])
        nodes = await graph.obj_get(list({id_ for answer in under for id_ in answer[TAG_OF]}))
        posts = [node for node in nodes.values() if isinstance(node, Post) and node.open]
        for name in names:
            # The list of a tag may not reflect the latest edit of a post yet, so check the post.
            found[name] += [post for post in posts if name in post.tags]
        if len(page) < _PAGE:
            break
        before = page[-1]
    return found


POSTS = 400
"""Newest posts with a tag that are considered."""
MOST = 40
_OF_ONE_AUTHOR = 5
"""Posts per author that count, so that one author cannot make two tags related."""
_CANDIDATES = 100


class _Met(NamedTuple):
    posts: int
    together: Counter[str]


async def related(reads: Reads, name: str, limit: int = 20) -> list[RelatedTag]:
    """Return the tags most similar to a tag, closest first; at most 40.

    Three graph reads, or none within a minute. Raises `InvalidInput` for an invalid tag.
    """
    return await compared(partial(_related, reads, check_tag(name), limit))


async def _related(reads: Reads, name: str, limit: int) -> list[RelatedTag]:
    return (await related_to_each(reads, (name,)))[name][:limit]


async def related_to_each(reads: Reads, names: Sequence[str], posts: int = POSTS) -> dict[str, list[RelatedTag]]:
    """Return the tags related to each of several canonical tags, by the newest `posts` posts of each; three reads in total."""
    now = reads.tags.clock()
    known = {name: cached for name in names if (cached := reads.related.get((name, posts), now)) is not None}
    if missing := [name for name in names if name not in known]:
        for name, alike in (await _alike(reads, missing, posts)).items():
            known[name] = alike
            reads.related.put((name, posts), alike, now)
    # Check all tags again, because cached results may be older than an admin's latest decision.
    shown = await reads.tags.shown_as({*known, *(tag.name for alike in known.values() for tag in alike)})
    return {
        name: [tag for tag in alike if name in shown and shown.get(tag.name) == tag.name]
        for name, alike in known.items()
    }


async def _alike(reads: Reads, names: Sequence[str], posts: int) -> dict[str, list[RelatedTag]]:
    met = await _met(reads, names, posts)
    counted = await reads.tags.counted(
        {*names, *(other for counted_together in met.values() for other in counted_together.together)}
    )
    found: dict[str, list[RelatedTag]] = {}
    for name, counted_together in met.items():
        uses = counted[name].uses if name in counted else 0
        alike: list[RelatedTag] = []
        for other, together in counted_together.together.items():
            # The tag cloud may lag behind the graph and lack a new tag.
            form, other_uses = (counted[other].form, counted[other].uses) if other in counted else (other, together)
            how = likeness(together, counted_together.posts, uses, other_uses)
            alike.append(RelatedTag(other, form, max(other_uses, together), together, how))
        found[name] = sorted(alike, key=lambda tag: (-tag.likeness, -tag.together, tag.name))[:MOST]
    return found


async def _met(reads: Reads, names: Sequence[str], most: int) -> dict[str, _Met]:
    groups = {name: await reads.tags.group(name) for name in names}
    ids = dict.fromkeys(tag_id(each) for group in groups.values() for each in group)
    lists = await reads.graph.assoc_ranges(list(ids), TAG_OF, Cursor(limit=most)) if ids else {}
    newest = {
        name: sorted({row.id2 for each in group for row in lists.get(tag_id(each), ())}, reverse=True)[:most]
        for name, group in groups.items()
    }
    nodes = await reads.graph.obj_get(list({id_ for ids in newest.values() for id_ in ids})) if lists else {}
    posts = {id_: node for id_, node in nodes.items() if isinstance(node, Post)}
    authors = await members_by_id(reads.graph, list({post.author_id for post in posts.values()})) if posts else {}
    shown = await reads.tags.shown_as({tag for post in posts.values() for tag in post.tags})
    return {
        name: _meetings(group, [posts[id_] for id_ in newest[name] if id_ in posts], authors, shown)
        for name, group in groups.items()
    }


def _meetings(
    group: Collection[str], posts: Sequence[Post], authors: Mapping[int, Member], shown: Mapping[str, str]
) -> _Met:
    together: Counter[str] = Counter()
    looked = 0
    public = (post for post in posts if post.visibility is Visibility.PUBLIC and not set(group).isdisjoint(post.tags))
    for post in _few_of_each_author(
        post for post in public if may_list(None, post, authors.get(post.author_id), STRANGER)
    ):
        looked += 1
        together.update({shown[tag] for tag in post.tags if tag in shown}.difference(group))
    first = sorted(together.items(), key=lambda met: (-met[1], met[0]))[:_CANDIDATES]
    return _Met(looked, Counter(dict(first)))


def _few_of_each_author(posts: Iterator[Post]) -> Iterator[Post]:
    posts_by: Counter[int] = Counter()
    for post in posts:
        posts_by[post.author_id] += 1
        if posts_by[post.author_id] <= _OF_ONE_AUTHOR:
            yield post


_LOOKED_AT = 12
"""Newest posts under each tag in which a picture is searched."""


class TagOffer(NamedTuple):
    name: str
    uses: int
    picked: bool
    example: Entry | None
    """A recent public post with a picture, distinct for each tag; None if there is none."""


async def offers(reads: Reads, viewer: int, limit: int = 40) -> list[TagOffer]:
    """Return the tags that the member picked as interests, followed by popular tags up to a total of `limit`.

    Five graph reads. Raises `InvalidInput` for a limit outside 1 to 200.
    """
    check_words(limit)
    with one_request():
        picked = (await personalization_of(reads.graph, viewer)).feedback.picked
        uses = await _uses(reads, picked)
        words = [*(await reads.tags.cloud("week")).words, *(await reads.tags.cloud("all")).words]
        words.sort(key=lambda word: (-word.reasons.members, -word.uses))
        offered = _first(words, limit, uses)
        names = [*uses, *offered]
        examples = await _examples(reads, viewer, names)
        return [TagOffer(name, (uses | offered)[name], name in uses, examples.get(name)) for name in names]


async def _uses(reads: Reads, picked: Sequence[str]) -> dict[str, int]:
    if not picked:
        return {}
    counted, shown = await reads.tags.counted(picked), await reads.tags.shown_as(picked)
    return {name: counted[name].uses if name in counted else 0 for name in picked if name in shown}


def _first(words: Sequence[Word], limit: int, picked: dict[str, int]) -> dict[str, int]:
    found: dict[str, int] = {}
    for word in words:
        if len(picked) + len(found) >= limit:
            break
        if word.name not in picked:
            found.setdefault(word.name, word.uses)
    return found


async def _examples(reads: Reads, viewer: int, names: Sequence[str]) -> dict[str, Entry]:
    tags = {tag_id(name): name for name in names}
    lists = await reads.graph.assoc_ranges(list(tags), TAG_OF, Cursor(limit=_LOOKED_AT)) if tags else {}
    seen = viewer_state(reads.graph, viewer, lasting=reads.lasting)
    ids = dict.fromkeys(row.id2 for rows in lists.values() for row in rows)
    rows = {row[0]: row for row in await seen.look(list(ids), has_media) if is_presentable(seen, row[1])}
    chosen: dict[str, Row] = {}
    for tag, name in tags.items():
        free = (rows.pop(entry.id2) for entry in lists.get(tag, ()) if entry.id2 in rows)
        if (row := next(free, None)) is not None:
            chosen[name] = row
    if not chosen:
        return {}
    content_filters = await content_filters_of(reads.graph, viewer, FilterContext.PUBLIC)
    admitted = await content_filters.admitted(await seen.entries(list(chosen.values())))
    entries = {entry.id: entry for entry in admitted if not entry.filtered}
    return {name: entries[row[0]] for name, row in chosen.items() if row[0] in entries}


def has_media(row: Row) -> bool:
    return bool(row[1].media)


def is_presentable(seen: ViewerState, post: Post) -> bool:
    """Return whether a post is suited as an example of a tag or author: public, with a picture, by a discoverable author."""
    author = seen.members[post.author_id]
    pictures = [file for file in seen.media(post) if file.kind is MediaKind.IMAGE and file.state is MediaState.READY]
    open_ = may_list_publicly(None, post, author, STRANGER) and not is_sensitive(post, author)
    return bool(pictures) and open_ and author.discoverable and author.rankable
