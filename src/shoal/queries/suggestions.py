"""Follow suggestions: members whom a viewer is likely to want to follow, the most likely first, each with its reasons.

Candidates are friends of friends, members who follow the viewer, authors whose posts the viewer liked, shared or saved, authors
of the newest posts under tags that interest the viewer or near the viewer's location, and the most followed members. The reasons
for a candidate are read in bulk, and `core.ranking.people` turns them into a score. An author whose posts the viewer reported
more than liked is not a candidate.

Candidates and the most followed members are cached for a minute. Members whom the viewer follows, requested to follow, blocks,
mutes or dismissed, who block the viewer, or who do not want to be found are never shown, whatever is cached.

`portfolios` returns the newest photos of several members at once, as a preview before following them.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from shoal.core.filters import FilterContext
from shoal.core.model import Member
from shoal.core.places import distance_km
from shoal.core.ranking import people
from shoal.core.ranking.people import REASON_NAMES, WEIGHTS, FriendsOfFriends, PeopleFacts
from shoal.core.ranking.preferences import Interests
from shoal.core.ranking.terms import Column, Matrix, best_first, scores
from shoal.core.visibility import STRANGER
from shoal.graph.access import members_by_id
from shoal.graph.cache.coherence import one_request
from shoal.graph.cache.dependencies import compared
from shoal.graph.contract import Cursor
from shoal.graph.payloads.members import Personalization, personalization_of
from shoal.graph.schema import (
    BLOCKED_BY,
    BLOCKS,
    DISMISSES,
    FOLLOWED_BY,
    FOLLOWS,
    MUTES,
    POSTED,
    REQUESTS,
    TAG_OF,
    AssocType,
    tag_id,
)
from shoal.queries import public_timelines
from shoal.queries.context import Reads, Suggested
from shoal.queries.foryou.interests import interests_of, wished
from shoal.queries.hydration import Entry, Profile, Row, profiles, viewer_state
from shoal.queries.pipeline import content_filters_of
from shoal.queries.public_timelines import listed_publicly
from shoal.queries.tags import has_media, is_presentable
from shoal.search.indexing import is_listed

_ACTIVE = 2_000
"""Maximum number of discoverable members considered, by latest post. On most servers, these are all of them."""
_ASKED = 400
_ASKED_FOLLOWS = 50
"""Follows read of each of `_ASKED` active members, to find popular members on a larger server."""
_FOUND = 500
POPULAR = 100


async def most_followed(reads: Reads) -> list[int]:
    """Return the members with the most followers, whether or not they are active.

    The result does not depend on the viewer. Three reads.
    """
    return await compared(lambda: reads.popular.get(reads.tags.clock(), partial(_find_most_followed, reads)))


async def _find_most_followed(reads: Reads) -> list[int]:
    active = await reads.search.directory("active", _ACTIVE)
    lists = await reads.graph.assoc_ranges(active[:_ASKED], FOLLOWS, Cursor(limit=_ASKED_FOLLOWS)) if active else {}
    often = Counter(entry.id2 for entries in lists.values() for entry in entries).most_common(_FOUND)
    known = list(dict.fromkeys([*active, *(id_ for id_, _ in often)]))
    followers = (await reads.graph.assoc_count(known, (FOLLOWED_BY,)))[FOLLOWED_BY] if known else {}
    return sorted(known, key=lambda id_: -followers.get(id_, 0))[:POPULAR]


KNOWN = (FOLLOWS, REQUESTS, BLOCKS, BLOCKED_BY, MUTES, DISMISSES)
"""Associations of the viewer with members to leave out."""
_MAX_CACHED = 200
"""Cached candidates: more than are shown, because some may become hidden."""
FRIENDS_OF_FRIENDS = 300
"""Maximum number of candidates among friends of friends, by strength of the bonds."""
_FOLLOWERS = 100
_AUTHORS = 50
"""Maximum of each: liked authors, authors with interesting tags, and nearby authors."""
_TAGS = 10
_TAGGED_EACH = 30
_NEARBY = 60

Associations = Mapping[AssocType, Mapping[int, object]]


def is_known(associations: Associations, id_: int) -> bool:
    """Return whether a member must not be suggested, given the viewer's associations of the types `KNOWN`."""
    return any(id_ in associations[atype] for atype in KNOWN)


async def likely(reads: Reads, viewer: int, personalization: Personalization) -> Suggested:
    """Return the 200 best suggestions, with the viewer's feedback applied, without members who must not be suggested.

    At most 22 reads, including the viewer's interests.
    """
    popular = await most_followed(reads)
    if personalization.off:
        # Ranking is off for this member: use only facts that do not depend on the viewer.
        return await _best(reads, viewer, popular, _Found())
    interests = await wished(reads, await interests_of(reads, viewer), personalization.feedback)
    found = await _found(reads, viewer, interests)
    return await _best(reads, viewer, [*_proposed(interests, found), *popular], found)


@dataclass
class _Found:
    """The data from which candidates for suggestions are scored."""

    near: FriendsOfFriends = field(default_factory=lambda: people.friends_of_friends({}, {}))
    followers: frozenset[int] = frozenset()
    liked: Mapping[int, float] = field(default_factory=dict)
    likes: Mapping[int, int] = field(default_factory=dict)
    affinities: Mapping[str, float] = field(default_factory=dict)
    tags: defaultdict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    town: str = ""
    """The town where the viewer lives, if distances are measured from there."""
    away: dict[int, float] = field(default_factory=dict)
    """Kilometers from the viewer's place to the nearest post of each member."""


async def _found(reads: Reads, viewer: int, interests: Interests) -> _Found:
    """Read the facts about candidates, including authors of nearby posts and of posts with interesting tags. Seven reads."""
    tags = sorted((tag for tag, force in interests.tags.items() if force > 0), key=lambda tag: -interests.tags[tag])
    tagged, around = await asyncio.gather(
        reads.graph.assoc_ranges([tag_id(tag) for tag in tags[:_TAGS]], TAG_OF, Cursor(limit=_TAGGED_EACH)),
        public_timelines.newest_around(reads, interests.place, reads.recipe.near_km, _NEARBY),
    )
    found = _Found(
        interests.near,
        interests.followers,
        interests.authors,
        interests.likes,
        {tag: interests.tags[tag] for tag in tags},
    )
    if interests.location is not None and interests.location.place is not None:
        found.town = interests.location.town
    seen = viewer_state(reads.graph, viewer)
    rows = await seen.look(list(dict.fromkeys([*(row.id2 for rows in tagged.values() for row in rows), *around])))
    for _, post, _ in rows:
        if not listed_publicly(seen, post) or not seen.members[post.author_id].rankable:
            continue
        if shared := found.affinities.keys() & post.tags:
            found.tags[post.author_id] |= shared
        if interests.place is not None and post.place is not None:
            away = distance_km(*interests.place, *post.place)
            found.away[post.author_id] = min(away, found.away.get(post.author_id, math.inf))
    return found


def _proposed(interests: Interests, found: _Found) -> Iterable[int]:
    """Yield the candidates for this viewer, except the most followed members of the network."""
    followed = set(interests.followees)
    near = [id_ for id_ in found.near.ids.tolist() if id_ not in followed][:FRIENDS_OF_FRIENDS]
    followers = sorted(found.followers - followed, reverse=True)[:_FOLLOWERS]
    forces = {id_: force for id_, force in found.liked.items() if force > 0 and id_ not in followed}
    liked = sorted(forces, key=lambda id_: -forces[id_])[:_AUTHORS]
    tagged = sorted(found.tags.keys() - followed, key=lambda id_: (-len(found.tags[id_]), -id_))[:_AUTHORS]
    around = sorted(found.away.keys() - followed, key=lambda id_: (found.away[id_], -id_))[:_AUTHORS]
    return (*near, *followers, *liked, *tagged, *around)


async def _best(reads: Reads, viewer: int, proposed: Sequence[int], found: _Found) -> Suggested:
    """Score the candidates, and return the best; two reads."""
    ids = [id_ for id_ in dict.fromkeys(proposed) if id_ != viewer and found.liked.get(id_, 0.0) >= 0]
    associations = await reads.graph.assoc_get(viewer, KNOWN, ids)
    ids = [id_ for id_ in ids if not is_known(associations, id_)]
    followers = (await reads.graph.assoc_count(ids, (FOLLOWED_BY,)))[FOLLOWED_BY] if ids else {}
    through = found.near.of(np.array(ids, np.int64))
    facts = PeopleFacts(
        bonds=through.bonds.astype(np.float64),
        followers=_column([followers.get(id_, 0) for id_ in ids]),
        follows_you=_column([id_ in found.followers for id_ in ids]),
        liked=_column([found.liked.get(id_, 0.0) for id_ in ids]),
        tags=_column([sum([found.affinities[tag] for tag in found.tags.get(id_, ())]) for id_ in ids]),
        distance_km=_column([found.away.get(id_, math.nan) for id_ in ids]),
    )
    numbers: dict[str, npt.NDArray[np.number]] = {
        "friends": through.friends,
        "followers": facts.followers,
        "follows_you": facts.follows_you,
        "liked": _column([found.likes.get(id_, 0) for id_ in ids]),
        "tags": _column([len(found.tags.get(id_, ())) for id_ in ids]),
        "nearby": facts.distance_km,
    }
    values = people.values(facts, near_km=reads.recipe.near_km)
    order = best_first(scores(people.contributions(values)), np.array(ids, np.int64))[:_MAX_CACHED]
    return Suggested(
        ids=[ids[n] for n in order],
        values=values[order],
        numbers=np.stack([numbers[name] for name in REASON_NAMES], axis=1)[order],
        friends=through.first[order],
        tags=[
            tuple(sorted(found.tags.get(ids[n], ()), key=lambda tag: (-found.affinities[tag], tag))[:2]) for n in order
        ],
        town=found.town,
    )


def _column(values: Sequence[float]) -> Column:
    return np.array(values, np.float64)


MOST = 80


class SuggestionReason(NamedTuple):
    """One reason for a suggestion, from `core.ranking.people.REASON_NAMES`.

    The reason contributes its value times its weight to the score.
    """

    source: str
    number: float
    """Followees, followers, liked posts, tags or kilometers; 1 for a member who follows the viewer."""
    value: float
    weight: float
    contribution: float
    words: str
    friends: tuple[str, ...] = ()
    """User names of up to two of the viewer's followees who follow the suggested member."""
    named: tuple[str, ...] = ()
    """The names in `words`: user names, tags, or the town where the viewer lives."""


class Suggestion(NamedTuple):
    """A suggested member and the reasons, strongest first. The contributions add up to the score."""

    profile: Profile
    score: float
    reasons: tuple[SuggestionReason, ...]

    @property
    def friends(self) -> int:
        """Number of the viewer's followees who follow the suggested member, among the followees that were examined."""
        return next((round(reason.number) for reason in self.reasons if reason.source == "friends"), 0)


async def suggestions(reads: Reads, viewer: int, limit: int) -> list[Suggestion]:
    """Suggest members to follow, the best first. At most 27 graph reads, or five if the suggestions are cached (one minute)."""
    candidates = await _suggested(reads, viewer)
    friends = set(candidates.friends.ravel().tolist()) - {0}
    everybody = list({*candidates.ids, *friends})
    associations = await reads.graph.assoc_get(viewer, KNOWN, everybody)
    members = await members_by_id(reads.graph, everybody)
    contributed = _contributed(candidates, members)
    scored = scores(contributed)
    order = [
        at
        for at in best_first(scored, np.array(candidates.ids, np.int64)).tolist()
        if (member := members.get(candidates.ids[at])) is not None
        and is_listed(member)
        and not is_known(associations, member.id)
    ][: min(limit, MOST)]
    shown = {candidates.ids[at]: members[candidates.ids[at]] for at in order}
    # Suggested members are not followed, so the relationship is `STRANGER`.
    known = await profiles(reads.graph, shown, viewer, dict.fromkeys(shown, STRANGER))
    names = {id_: members[id_].name for id_ in friends if id_ in members and _may_be_named(associations, members[id_])}
    return [
        Suggestion(known[candidates.ids[at]], float(scored[at]), _reasons(candidates, at, contributed[at], names))
        for at in order
    ]


def _contributed(candidates: Suggested, members: Mapping[int, Member]) -> Matrix:
    """Return each reason's contribution to the scores: 0 for "friends" if the suggested member hides their connections."""
    contributed = people.contributions(candidates.values)
    hidden = [at for at, id_ in enumerate(candidates.ids) if id_ in members and members[id_].hides_connections]
    contributed[hidden, REASON_NAMES.index("friends")] = 0.0
    return contributed


def _may_be_named(associations: Associations, friend: Member) -> bool:
    """Return whether the viewer may see that their followee `friend` follows a suggested member."""
    severed = any(friend.id in associations[atype] for atype in (BLOCKS, BLOCKED_BY, MUTES))
    return friend.id in associations[FOLLOWS] and not (severed or friend.hides_connections or friend.suspended)


def _reasons(
    candidates: Suggested, at: int, contributed: Column, names: Mapping[int, str]
) -> tuple[SuggestionReason, ...]:
    """Return the reasons for the suggestion at index `at`, naming only followees in `names`."""
    friends = tuple(names[id_] for id_ in candidates.friends[at].tolist() if id_ in names)
    named = {"friends": friends, "tags": candidates.tags[at], "nearby": (candidates.town,) if candidates.town else ()}
    columns = zip(REASON_NAMES, candidates.numbers[at], candidates.values[at], WEIGHTS.row(), contributed, strict=True)
    found = [
        SuggestionReason(
            name,
            number=float(number),
            value=float(value),
            weight=weight,
            contribution=float(added),
            words=people.words_of(name, number, named.get(name, ())),
            friends=friends if name == "friends" else (),
            named=tuple(named.get(name, ())),
        )
        for name, number, value, weight, added in columns
        if added > 0
    ]
    return tuple(sorted(found, key=lambda reason: -reason.contribution))


async def _suggested(reads: Reads, viewer: int) -> Suggested:
    now = reads.tags.clock()
    personalization = await personalization_of(reads.graph, viewer)
    # The key contains the version of the preferences, so that changed interests take effect immediately.
    key = viewer, personalization.feed_preferences.version if personalization.feed_preferences is not None else 0
    candidates = reads.suggested.get(key, now)
    if candidates is None:
        candidates = await likely(reads, viewer, personalization)
        reads.suggested.put(key, candidates, now)
    return candidates


_LOOKED_AT = 12
"""Newest posts of each member in which photos are searched."""


async def portfolios(reads: Reads, viewer: int, member_ids: Sequence[int], each: int = 3) -> dict[int, list[Entry]]:
    """Return for each member up to `each` public posts with a picture, newest first.

    Takes a fixed number of reads. Members without such posts are omitted.
    """
    with one_request():
        lists = await reads.graph.assoc_ranges(list(member_ids), POSTED, Cursor(limit=_LOOKED_AT)) if member_ids else {}
        seen = viewer_state(reads.graph, viewer, lasting=reads.lasting)
        ids = [entry.id2 for rows in lists.values() for entry in rows]
        looked = await seen.look(ids, lambda row: row[2] is None and has_media(row))
        rows = [row for row in looked if is_presentable(seen, row[1])]
        if not rows:
            return {}
        content_filters = await content_filters_of(reads.graph, viewer, FilterContext.PUBLIC)
        admitted = await content_filters.admitted(await seen.entries(_first(rows, each)))
        found: dict[int, list[Entry]] = {}
        for entry in admitted:
            if not entry.filtered:
                found.setdefault(entry.post.author_id, []).append(entry)
        return found


def _first(rows: Sequence[Row], each: int) -> list[Row]:
    selected: list[Row] = []
    counts = Counter[int]()
    for row in rows:
        author = row[1].author_id
        counts[author] += 1
        if counts[author] <= each:
            selected.append(row)
    return selected
