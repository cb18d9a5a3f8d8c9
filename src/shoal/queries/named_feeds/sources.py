"""The sources of a named feed: which ids they propose, and which visible posts belong to the feed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from shoal.core.errors import InvalidInput, NotFound
from shoal.core.feeds.declarations import (
    ByAuthor,
    FeedDeclaration,
    Filters,
    Followees,
    FromEverybody,
    Nearby,
    OfFeed,
    OfKind,
    OnList,
    Popular,
    Source,
    WithTag,
    label_of,
)
from shoal.core.ids import floor_at
from shoal.core.kind_index import Filter
from shoal.core.kinds import value_at
from shoal.core.model import HELD, MediaKind, MemberList, Post, Visibility
from shoal.core.places import cover, disk
from shoal.core.ranking import reranking
from shoal.core.visibility import is_sensitive, may_come
from shoal.graph.access import own_object
from shoal.graph.contract import Cursor
from shoal.graph.feed_lookup import field_filters, kind_selection
from shoal.graph.schema import (
    CELL_OF,
    INDEX_OF,
    POSTED,
    PUBLIC_LISTS,
    PUBLISHED,
    TAG_OF,
    cell_id,
    index_id,
    tag_id,
    user_name_key,
)
from shoal.queries import home, lists, trends
from shoal.queries.context import Reads
from shoal.queries.hydration import Row, ViewerState
from shoal.queries.pagination import pull
from shoal.queries.pipeline import Skeleton
from shoal.queries.public_timelines import listed_publicly

_HOUR_MS = 3_600_000
_ID_SLACK_MS = _HOUR_MS
"""An import may give a post the id of a slightly different time, if other posts have the ids of its time."""
_KINDS: Mapping[str, tuple[MediaKind, ...]] = {
    "image": (MediaKind.IMAGE,),
    "video": (MediaKind.VIDEO, MediaKind.GIFV),
    "audio": (MediaKind.AUDIO,),
}

Condition = Callable[[ViewerState, Post], bool]


class OpenSource(NamedTuple):
    """A source as a viewer reads it."""

    label: str
    skeleton: Skeleton
    belongs: Condition
    """Whether a visible post is from this source now. The lists of a source may lag behind changes."""
    most: int
    flag: int
    """The corresponding `core.ranking.reranking.Source` of the For you feed."""


async def open_sources(
    reads: Reads,
    viewer: int | None,
    declared: FeedDeclaration,
    contained: Mapping[str, FeedDeclaration],
    *,
    pulled: bool = False,
) -> list[OpenSource]:
    """Return the sources of a feed and of the feeds that it contains, without sources that the viewer does not have.

    With `pulled`, the home timeline of the viewer is neither rebuilt nor kept warm. An anonymous viewer has no followees and no
    lists. The lists of another member, and deleted ones, have no posts.
    """
    found: list[OpenSource] = []
    for source in declared.sources:
        if not isinstance(source, OfFeed):
            opened = await _opened(reads, viewer, source, pulled=pulled)
            found += [opened] if opened is not None else []
        elif source.feed in contained:
            inner = contained[source.feed]
            admits = await admission(reads, inner.filters)
            for part in await open_sources(reads, viewer, inner, {}, pulled=pulled):
                both = partial(_both, part.belongs, admits)
                label = f"feed {source.feed}: {part.label}"
                found.append(part._replace(label=label, belongs=both, most=min(part.most, source.most)))
    return found


def _both(one: Condition, other: Condition, seen: ViewerState, post: Post) -> bool:
    return one(seen, post) and other(seen, post)


async def _opened(reads: Reads, viewer: int | None, source: Source, *, pulled: bool) -> OpenSource | None:
    made = partial(OpenSource, label_of(source), most=source.most)
    flags = reranking.Source
    match source:
        case Followees():
            if viewer is None:
                return None
            skeleton: Skeleton = partial(home.pulled_at if pulled else home.materialized, reads, viewer)
            return made(skeleton, _by_followee, flag=flags.FOLLOWEES.value)
        case OnList(list=list_id):
            members = await _members(reads, viewer, int(list_id))
            if not members:
                return None
            skeleton = partial(pull, reads.graph, {POSTED: members})
            return made(skeleton, partial(_on_list, frozenset(members)), flag=flags.FOLLOWEES.value)
        case ByAuthor(author=name):
            key = user_name_key(name)
            author = (await reads.graph.key_get((key,))).get(key, 0)
            skeleton = partial(pull, reads.graph, {POSTED: (author,)})
            belongs = partial(_by_author, author)
            return made(skeleton, belongs, flag=flags.AUTHORS_LIKED.value) if author else None
        case WithTag(tag=tag):
            skeleton = partial(pull, reads.graph, {TAG_OF: (tag_id(tag),)})
            return made(skeleton, partial(_with_tag, tag), flag=flags.TAGS_LIKED.value)
        case Nearby():
            area = disk(source.latitude, source.longitude, source.radius_km)
            skeleton = partial(pull, reads.graph, {CELL_OF: [cell_id(cell) for cell in cover(area)]})
            return made(
                skeleton,
                lambda seen, post: area.has(post.place) and listed_publicly(seen, post),
                flag=flags.NEARBY.value,
            )
        case Popular():
            return made(partial(_popular, reads), _is_popular, flag=flags.POPULAR.value)
        case FromEverybody():
            skeleton = partial(pull, reads.graph, {PUBLISHED: PUBLIC_LISTS})
            return made(skeleton, _published, flag=flags.EXPLORATION.value)
        case OfKind():
            return await _of_kind(reads, source, made)
        case OfFeed():
            return None


async def _of_kind(reads: Reads, source: OfKind, made: Callable[..., OpenSource]) -> OpenSource | None:
    try:
        names, filters = await kind_selection(reads.graph, source)
    except (NotFound, InvalidInput):
        # The kind was changed after the feed was saved.
        return None
    skeleton = partial(pull, reads.graph, {INDEX_OF: list(map(index_id, names))})
    belongs = partial(_is_of_kind, source.kind, filters)
    return made(skeleton, belongs, flag=reranking.Source.EXPLORATION.value)


async def _members(reads: Reads, viewer: int | None, list_id: int) -> list[int]:
    if viewer is None:
        return []
    try:
        shown = await own_object(reads.graph, MemberList, viewer, list_id)
    except NotFound:
        return []
    return await lists.members_of(reads.graph, shown)


async def _popular(reads: Reads, at: Cursor) -> list[int]:
    ids = [id_ for id_ in await trends.ids(reads, outdated=True) if at.after < id_ < at.before]
    return sorted(ids, reverse=not at.oldest_first)[: at.limit]


def _by_followee(seen: ViewerState, post: Post) -> bool:
    relation = seen.relationships[post.author_id]
    return relation.following and may_come(post, None, relation)


def _on_list(members: frozenset[int], seen: ViewerState, post: Post) -> bool:
    author = post.author_id
    return author in members and (author == seen.viewer or may_come(post, None, seen.relationships[author]))


def _by_author(author: int, _seen: ViewerState, post: Post) -> bool:
    return post.author_id == author


def _is_of_kind(kind: str, filters: Sequence[Filter], seen: ViewerState, post: Post) -> bool:
    return post.kind == kind and _has_fields(filters, post) and listed_publicly(seen, post)


def _has_fields(filters: Sequence[Filter], post: Post) -> bool:
    data = post.data if filters else None
    return all(each.admits(value_at(data, each.path)) for each in filters)


def _with_tag(tag: str, seen: ViewerState, post: Post) -> bool:
    return tag in post.tags and listed_publicly(seen, post)


def _is_popular(seen: ViewerState, post: Post) -> bool:
    return not post.untrendable and listed_publicly(seen, post)


def _published(seen: ViewerState, post: Post) -> bool:
    return post.published and listed_publicly(seen, post)


async def proposed(sources: Sequence[OpenSource], at: Cursor) -> list[int]:
    """Return the first `at.limit` ids that the sources propose, in the direction of the cursor."""
    found = await asyncio.gather(*[source.skeleton(at) for source in sources])
    return sorted({id_ for ids in found for id_ in ids}, reverse=not at.oldest_first)[: at.limit]


async def newest_of_each(sources: Sequence[OpenSource], at: Cursor) -> list[int]:
    """Return the newest ids of each source in the range of a cursor, up to the maximum of the source."""
    found = await asyncio.gather(*[source.skeleton(at.of(source.most)) for source in sources])
    return list(dict.fromkeys(id_ for ids in found for id_ in ids))


class Belonging(NamedTuple):
    row: Row
    sources: int
    """The sources that have the post, as bits by their position."""


def belonging(
    seen: ViewerState, rows: Sequence[Row], sources: Sequence[OpenSource], admits: Condition, *, ranked: bool
) -> list[Belonging]:
    """Return the visible posts that belong to the feed, without shares and direct posts."""
    found: list[Belonging] = []
    for row in rows:
        _, post, share = row
        if share is not None or post.visibility is Visibility.DIRECT or not admits(seen, post):
            continue
        if ranked and not rankable(seen, post):
            continue
        mask = sum(1 << at for at, source in enumerate(sources) if source.belongs(seen, post))
        if mask:
            found.append(Belonging(row, mask))
    return found


def rankable(seen: ViewerState, post: Post) -> bool:
    """Return whether a visible post may be in a ranked feed of the viewer.

    Authors may keep their posts out, and posts that were reported are only ranked for followers until moderators have decided.
    """
    if post.author_id == seen.viewer:
        return True
    held = post.review in HELD and not seen.relationships[post.author_id].following
    return seen.members[post.author_id].rankable and not held


async def admission(reads: Reads, filters: Filters) -> Condition:
    """Return the condition of a feed's filters. If the kind of its fields was changed, no post may meet it."""
    now = reads.tags.clock()
    try:
        fields = await field_filters(reads.graph, filters) if filters.fields else ()
    except (NotFound, InvalidInput):
        return lambda _seen, _post: False
    newest = now - filters.minimum_age_hours * _HOUR_MS if filters.minimum_age_hours else None
    oldest = None if filters.maximum_age_hours is None else now - filters.maximum_age_hours * _HOUR_MS
    every, none, either = map(frozenset, (filters.tags_all, filters.tags_none, filters.tags_any))

    def admits(seen: ViewerState, post: Post) -> bool:
        if not filters.replies and post.parent_id and post.parent_author_id != post.author_id:
            return False
        if filters.languages and post.language not in filters.languages:
            return False
        if (newest is not None and post.created_at > newest) or (oldest is not None and post.created_at < oldest):
            return False
        if filters.sensitive and is_sensitive(post, seen.members[post.author_id]) != (filters.sensitive == "only"):
            return False
        if filters.kinds and (post.kind not in filters.kinds or not _has_fields(fields, post)):
            return False
        tags = frozenset(post.tags)
        if not every <= tags or none & tags or (either and not either & tags):
            return False
        return _has_media(filters.media, seen, post)

    return admits


def within_age(filters: Filters, now: int, at: Cursor) -> Cursor:
    """Return the part of a range that can have posts of the age that the filters admit. `now` is in Unix milliseconds."""
    before, after = at.before, at.after
    if filters.minimum_age_hours:
        before = min(before, floor_at(int(now - filters.minimum_age_hours * _HOUR_MS) + _ID_SLACK_MS))
    if filters.maximum_age_hours is not None:
        after = max(after, floor_at(int(now - filters.maximum_age_hours * _HOUR_MS) - _ID_SLACK_MS))
    return at._replace(before=before, after=after)


def _has_media(kind: str, seen: ViewerState, post: Post) -> bool:
    if not kind:
        return True
    if kind in ("with", "without"):
        return bool(post.media) == (kind == "with")
    return any(item.kind in _KINDS[kind] for item in seen.media(post))
