"""Tags that go together: they appear in the same posts more often than their numbers lead one to expect.

Only posts that everybody may see are considered, so the answer is the same for every viewer, and reveals no more than
the public list of the tag does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from shoal.core.model import Member, Post, Visibility
from shoal.core.text import check_tag
from shoal.core.visibility import STRANGER, may_list
from shoal.feeds.reads import Reads
from shoal.graph.access import members_by_id
from shoal.graph.cache.dependencies import compared
from shoal.graph.contract import Cursor
from shoal.graph.schema import TAG_OF, tag_id
from shoal.tagcloud.cloud import RelatedTag, likeness

POSTS = 400
"""Newest posts with a tag that are considered."""
MOST = 40
"""Maximum of related tags."""
_ONE_VOICE = 5
"""Posts of one author that count: nobody can make two tags alike alone."""
_CANDIDATES = 100


class _Met(NamedTuple):
    """The other tags in the posts of a tag, with their counts."""

    posts: int
    together: Counter[str]


async def related(reads: Reads, name: str, limit: int = 20) -> list[RelatedTag]:
    """Return the tags most like a tag, the closest first; at most 40.

    Three reads of the graph, or none within a minute.

    Raises `InvalidInput` for a name that cannot be a tag.
    """
    return await compared(partial(_related, reads, check_tag(name), limit))


async def _related(reads: Reads, name: str, limit: int) -> list[RelatedTag]:
    return (await related_to_each(reads, (name,)))[name][:limit]


async def related_to_each(reads: Reads, names: Sequence[str], posts: int = POSTS) -> dict[str, list[RelatedTag]]:
    """Return the related tags of several tags (canonical), from `posts` posts of each; three reads for all of them."""
    now = reads.tags.clock()
    known = {name: held for name in names if (held := reads.related.get((name, posts), now)) is not None}
    if missing := [name for name in names if name not in known]:
        for name, alike in (await _alike(reads, missing, posts)).items():
            known[name] = alike
            reads.related.put((name, posts), alike, now)
    # What is remembered is older than what an admin said a moment ago.
    shown = await reads.tags.shown_as({*known, *(tag.name for alike in known.values() for tag in alike)})
    return {
        name: [tag for tag in alike if name in shown and shown.get(tag.name) == tag.name]
        for name, alike in known.items()
    }


async def _alike(reads: Reads, names: Sequence[str], posts: int) -> dict[str, list[RelatedTag]]:
    met = await _met(reads, names, posts)
    counted = await reads.tags.counted({*names, *(other for one in met.values() for other in one.together)})
    found: dict[str, list[RelatedTag]] = {}
    for name, one in met.items():
        uses = counted[name].uses if name in counted else 0
        alike: list[RelatedTag] = []
        for other, together in one.together.items():
            # The cloud may be a moment behind the graph.
            form, other_uses = (counted[other].form, counted[other].uses) if other in counted else (other, together)
            how = likeness(together, one.posts, uses, other_uses)
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
    for post in _heard(
        post for post in posts if _is_everybodys(post, authors) and not set(group).isdisjoint(post.tags)
    ):
        looked += 1
        together.update({shown[tag] for tag in post.tags if tag in shown}.difference(group))
    first = sorted(together.items(), key=lambda met: (-met[1], met[0]))[:_CANDIDATES]
    return _Met(looked, Counter(dict(first)))


def _is_everybodys(post: Post, authors: Mapping[int, Member]) -> bool:
    return post.visibility is Visibility.PUBLIC and may_list(None, post, authors.get(post.author_id), STRANGER)


def _heard(posts: Iterator[Post]) -> Iterator[Post]:
    voices: Counter[int] = Counter()
    for post in posts:
        voices[post.author_id] += 1
        if voices[post.author_id] <= _ONE_VOICE:
            yield post
