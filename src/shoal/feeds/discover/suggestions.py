"""Suggestions of members to follow: friends of friends, then members whom many follow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

from shoal.core.visibility import STRANGER
from shoal.discovery.rows import member_row
from shoal.feeds.hydrate import Profile, profiles
from shoal.feeds.reads import Candidate, Reads
from shoal.graph.access import members_by_id
from shoal.graph.contract import Cursor
from shoal.graph.schema import BLOCKED_BY, BLOCKS, DISMISSES, FOLLOWED_BY, FOLLOWS, MUTES, REQUESTS

MOST = 80
"""Maximum of suggestions."""
_FRIENDS = 100
"""Newest followees who are asked whom they follow; also how many follows of each are read."""
_CANDIDATES = 300
_ACTIVE = 2_000
"""Members who are considered, of those who want to be found, the latest posters first: in most networks all."""
_ASKED = 400
_ASKED_FOLLOWS = 50
"""Follows that are read of each of `_ASKED` active members, to find popular members in a larger network."""
_FOUND = 500
_POPULAR = 100
_KNOWN = (FOLLOWS, REQUESTS, BLOCKS, BLOCKED_BY, MUTES, DISMISSES)
"""Associations from the viewer to members who are not suggested to them."""


class Suggestion(NamedTuple):
    """A suggested member, and how many of the viewer's followees follow them; 0: many others do."""

    profile: Profile
    friends: int


async def suggestions(reads: Reads, viewer: int, limit: int) -> list[Suggestion]:
    """Suggest members to follow, the likeliest first. At most eight reads of the graph, and three within a minute."""
    candidates = await _candidates(reads, viewer)
    ids = [candidate.id for candidate in candidates]
    stands = await reads.graph.assoc_get(viewer, _KNOWN, ids)
    left = _others(candidates, {viewer, *(id_ for found in stands.values() for id_ in found)})
    # A few more, for those who do not want to be found.
    members = await members_by_id(reads.graph, [candidate.id for candidate in left[: 2 * MOST]])
    wanted = [one for one in left if one.id in members and member_row(members[one.id]).listed][:limit]
    # Members whom the viewer follows are not suggested.
    strangers = dict.fromkeys(members, STRANGER)
    known = await profiles(reads.graph, {one.id: members[one.id] for one in wanted}, viewer, strangers)
    return [Suggestion(known[one.id], one.friends) for one in wanted]


def _others(candidates: Sequence[Candidate], known: Collection[int]) -> list[Candidate]:
    return [candidate for candidate in candidates if candidate.id not in known]


async def _candidates(reads: Reads, viewer: int) -> list[Candidate]:
    now = reads.tags.clock()
    held = reads.suggested.get(viewer, now)
    if held is not None:
        return held
    followed = [entry.id2 for entry in await reads.graph.assoc_range(viewer, FOLLOWS, Cursor(limit=_FRIENDS))]
    lists = await reads.graph.assoc_ranges(followed, FOLLOWS, Cursor(limit=_FRIENDS)) if followed else {}
    friends = Counter(entry.id2 for entries in lists.values() for entry in entries)
    for id_ in (viewer, *followed):
        friends.pop(id_, None)
    ranked = sorted(friends.items(), key=lambda found: (-found[1], -found[0]))
    candidates = [Candidate(*found) for found in ranked[:_CANDIDATES]]
    there = {candidate.id for candidate in candidates}
    candidates += [Candidate(id_, 0) for id_ in await _popular(reads) if id_ not in there]
    reads.suggested.put(viewer, candidates, now)
    return candidates


async def _popular(reads: Reads) -> list[int]:
    """Return the most followed members, whether they posted lately or not.

    The answer is the same for everybody. Three reads.
    """
    now = reads.tags.clock()
    held = reads.popular.get(None, now)
    if held is None:
        active = await reads.search.directory("active", _ACTIVE)
        lists = await reads.graph.assoc_ranges(active[:_ASKED], FOLLOWS, Cursor(limit=_ASKED_FOLLOWS)) if active else {}
        often = Counter(entry.id2 for entries in lists.values() for entry in entries).most_common(_FOUND)
        known = list(dict.fromkeys([*active, *(id_ for id_, _ in often)]))
        followers = (await reads.graph.assoc_count(known, (FOLLOWED_BY,)))[FOLLOWED_BY] if known else {}
        held = sorted(known, key=lambda id_: -followers.get(id_, 0))[:_POPULAR]
        reads.popular.put(None, held, now)
    return held
