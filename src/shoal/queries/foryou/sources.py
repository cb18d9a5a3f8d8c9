"""Sources of For you: ids of posts that may interest a member, each with the sources that propose it.

Only ids are collected. Lists of many members and tags are read in bulk, so the number of reads does not depend on the number of
follows; every source has a limit.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, zip_longest
from typing import NamedTuple, TypeVar

import numpy as np

from shoal.core.model import Post, Share
from shoal.core.places import Location
from shoal.core.ranking.preferences import Interests
from shoal.core.ranking.reranking import Source
from shoal.graph.contract import Assoc, Cursor
from shoal.graph.schema import LIKES, POSTED, PUBLIC_LISTS, PUBLISHED, TAG_OF, tag_id
from shoal.queries import home, public_timelines, trends
from shoal.queries.context import Reads
from shoal.queries.public_timelines import in_country

Key = TypeVar("Key", bound=Hashable)

MOST = 1_000
_HOME = 200
_FRIENDS = 60
"""Number of followees whose likes and posts are read: those whose posts the member likes most, then the latest
followed."""
_FRIEND_LIKES = 5
_FRIENDS_OF_FRIENDS = 30
_AUTHORS = 20
_POSTS_EACH = 4
"""Number of newest entries read of each followee, friend of friends and liked author."""
_TAGS = 15
_RISING = 10
_TAGGED_EACH = 8
_NEW_EACH = 2
"""Number of newest public posts of each data source, for exploration."""
_POPULAR = 100
_NEARBY = 60


@dataclass
class Candidates:
    """Ids of posts and shares that may enter a ranked feed, each with its `Source` flags. The posts are not read yet."""

    location: Location | None = None
    """Where the viewer lives."""
    sources: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    """The `Source` flags of each id, as a plain number, because thousands are combined per page."""
    likers: defaultdict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    """For each post, the followees who like it, among those whose likes were read."""

    def add(self, ids: Iterable[int], source: Source) -> None:
        sources, bit = self.sources, source.value
        for id_ in ids:
            sources[id_] |= bit


Newest = Callable[[Reads, int, int], Awaitable[list[int]]]
"""Returns the ids of the newest entries of a member's home timeline, up to a limit."""


async def candidates(
    reads: Reads, viewer: int, interests: Interests, near_km: float, newest: Newest = home.newest
) -> Candidates:
    """Return the candidates for a member's ranked feed.

    Takes eight concurrent reads, the reads of `newest`, and one more if the member's country is known. `near_km` is the distance
    from the member's place within which a post counts as nearby. Candidates from the member's country include posts just
    beyond its borders, which `proposals` removes.
    """
    graph = reads.graph
    closest = closest_followees(interests, _FRIENDS)
    followed = {viewer, *interests.followees}
    most_friends = interests.near.ids[np.argsort(-interests.near.friends.astype(np.int32), kind="stable")]
    near = [id_ for id_ in most_friends.tolist() if id_ not in followed][:_FRIENDS_OF_FRIENDS]
    liked = _strongest({id_: force for id_, force in interests.authors.items() if id_ not in followed}, _AUTHORS)
    tags = _strongest(interests.tags, _TAGS)
    rising = [word.name for word in (await reads.tags.cloud("rising")).words[:_RISING]]
    tag_ids = {tag_id(tag): tag for tag in (*tags, *rising)}
    (at_home, trending, around, from_country), (likes, posted, tagged, new) = await asyncio.gather(
        asyncio.gather(
            newest(reads, viewer, _HOME),
            trends.ids(reads, outdated=True),
            public_timelines.newest_around(reads, interests.place, near_km, _NEARBY),
            public_timelines.newest_in_country(reads, interests.location, _NEARBY),
        ),
        asyncio.gather(
            graph.assoc_ranges(closest, LIKES, Cursor(limit=_FRIEND_LIKES)),
            graph.assoc_ranges(list(dict.fromkeys((*closest, *near, *liked))), POSTED, Cursor(limit=_POSTS_EACH)),
            graph.assoc_ranges(list(tag_ids), TAG_OF, Cursor(limit=_TAGGED_EACH)),
            graph.assoc_ranges(PUBLIC_LISTS, PUBLISHED, Cursor(limit=_NEW_EACH)),
        ),
    )
    found = Candidates(interests.location)
    found.add(at_home, Source.FOLLOWEES)
    for friend, rows in likes.items():
        for row in rows:
            found.likers[row.id2].add(friend)
    found.add(found.likers, Source.FRIENDS_LIKED)
    found.add(_of(posted, closest), Source.FOLLOWEES)
    found.add(_of(posted, near), Source.FRIENDS_OF_FRIENDS)
    found.add(_of(posted, liked), Source.AUTHORS_LIKED)
    for id_, tag in tag_ids.items():
        entries = [row.id2 for row in tagged.get(id_, ())]
        if tag in interests.followed_tags:
            found.add(entries, Source.TAGS_FOLLOWED)
        elif tag in interests.tags:
            found.add(entries, Source.TAGS_LIKED)
        if tag in rising:
            found.add(entries, Source.RISING)
    found.add(trending[:_POPULAR], Source.POPULAR)
    found.add(around, Source.NEARBY)
    found.add(from_country, Source.COUNTRY)
    found.add(_of(new, PUBLIC_LISTS), Source.EXPLORATION)
    return found


def closest_followees(interests: Interests, most: int) -> list[int]:
    """Return the followees whose posts a member likes most; ties go to the newest."""
    return sorted(interests.followees, key=lambda id_: -interests.authors.get(id_, 0.0))[:most]


def _of(lists: Mapping[int, Sequence[Assoc]], owners: Iterable[int]) -> Iterable[int]:
    return (row.id2 for owner in owners for row in lists.get(owner, ()))


def _strongest(strengths: Mapping[Key, float], most: int) -> list[Key]:
    return sorted((key for key, force in strengths.items() if force > 0), key=lambda key: -strengths[key])[:most]


_BITS = Source.FOLLOWEES.value, Source.FRIENDS_SHARED.value, Source.FRIENDS_COMMENTED.value


class Proposal(NamedTuple):
    source: int
    """The `Source` flags as a plain number."""
    friends: int
    """Number of followees who like or share the post."""


async def proposals(reads: Reads, viewer: int, found: Candidates) -> dict[int, Proposal]:
    """Read the candidates, and return up to 1,000 posts by id; one read.

    Shares are replaced by the shared post, and a followee's comment by the post that it replies to.
    """
    nodes = await reads.graph.obj_get(list(found.sources))
    sources: defaultdict[int, int] = defaultdict(int)
    friends = found.likers
    followees, shared, commented = _BITS
    for id_, source in found.sources.items():
        node = nodes.get(id_)
        if isinstance(node, Share):
            if node.author_id != viewer:
                sources[node.post_id] |= shared if source & followees else source
                if source & followees:
                    friends[node.post_id].add(node.author_id)
        elif isinstance(node, Post):
            if source & Source.COUNTRY.value and not in_country(node, found.location):
                source &= ~Source.COUNTRY.value  # noqa: PLW2901
                if not source:
                    continue
            if not node.parent_id or node.parent_author_id == node.author_id:
                sources[id_] |= source
            elif source & followees:
                sources[node.parent_id] |= commented
    counted = {id_: len(members) for id_, members in friends.items()}
    return {id_: Proposal(sources[id_], counted.get(id_, 0)) for id_ in _interleaved(sources)}


def _interleaved(sources: Mapping[int, int]) -> Iterable[int]:
    """Return at most 1,000 ids, taken in turn from each source."""
    if len(sources) <= MOST:
        return sources
    groups: defaultdict[int, list[int]] = defaultdict(list)
    for id_, source in sources.items():
        groups[source & -source].append(id_)
    round_robin = chain.from_iterable(zip_longest(*groups.values()))
    return islice((id_ for id_ in round_robin if id_ is not None), MOST)
