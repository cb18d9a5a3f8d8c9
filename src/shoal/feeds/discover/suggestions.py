"""Suggestions of members to follow, the likeliest first, each with its reasons.

The likeliest (`likely`) are remembered for a minute. Members whom the viewer follows, asked to follow, blocks, mutes or dismissed,
who block the viewer, or who do not want to be found, are never shown, whatever is remembered.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from shoal.core.model import Member
from shoal.core.ranking import people
from shoal.core.ranking.people import REASON_NAMES, WEIGHTS
from shoal.core.ranking.terms import Column, Matrix, best_first, scores
from shoal.core.visibility import STRANGER
from shoal.discovery.rows import is_listed
from shoal.feeds.discover.likely import KNOWN, Stands, is_known, likely
from shoal.feeds.hydrate import Profile, profiles
from shoal.feeds.reads import Reads, Suggested
from shoal.graph.access import members_by_id
from shoal.graph.payloads.members import tastes_of
from shoal.graph.schema import BLOCKED_BY, BLOCKS, FOLLOWS, MUTES

MOST = 80
"""Maximum of suggestions."""


class SuggestionReason(NamedTuple):
    """A reason of `core.ranking.people.REASONS` for a suggestion: the contribution is the value times the weight."""

    source: str
    number: float
    """Followees, followers, liked posts, tags or kilometres; 1 for somebody who follows the viewer."""
    value: float
    weight: float
    contribution: float
    words: str
    friends: tuple[str, ...] = ()
    """User names of up to two of the followees who follow them."""


class Suggestion(NamedTuple):
    """A suggested member and why, the strongest reason first. The contributions add up to the score."""

    profile: Profile
    score: float
    reasons: tuple[SuggestionReason, ...]

    @property
    def friends(self) -> int:
        """How many of the viewer's followees who were asked follow them."""
        return next((round(reason.number) for reason in self.reasons if reason.source == "friends"), 0)


async def suggestions(reads: Reads, viewer: int, limit: int) -> list[Suggestion]:
    """Suggest members to follow, the likeliest first.

    At most 27 reads of the graph, and five within a minute.
    """
    held = await _suggested(reads, viewer)
    friends = set(held.friends.ravel().tolist()) - {0}
    everybody = list({*held.ids, *friends})
    stands = await reads.graph.assoc_get(viewer, KNOWN, everybody)
    members = await members_by_id(reads.graph, everybody)
    contributed = _contributed(held, members)
    scored = scores(contributed)
    order = [
        at
        for at in best_first(scored, np.array(held.ids, np.int64)).tolist()
        if (member := members.get(held.ids[at])) is not None and is_listed(member) and not is_known(stands, member.id)
    ][: min(limit, MOST)]
    shown = {held.ids[at]: members[held.ids[at]] for at in order}
    # Members whom the viewer follows are not suggested.
    known = await profiles(reads.graph, shown, viewer, dict.fromkeys(shown, STRANGER))
    names = {id_: members[id_].name for id_ in friends if id_ in members and _may_be_named(stands, members[id_])}
    return [
        Suggestion(known[held.ids[at]], float(scored[at]), _reasons(held, at, contributed[at], names)) for at in order
    ]


def _contributed(held: Suggested, members: Mapping[int, Member]) -> Matrix:
    """Return the contributions; who follows somebody who hides their connections is nobody's to know."""
    contributed = people.contributions(held.values)
    hidden = [at for at, id_ in enumerate(held.ids) if id_ in members and members[id_].hides_connections]
    contributed[hidden, REASON_NAMES.index("friends")] = 0.0
    return contributed


def _may_be_named(stands: Stands, friend: Member) -> bool:
    """Return whether the viewer may be told that this followee follows somebody."""
    severed = any(friend.id in stands[atype] for atype in (BLOCKS, BLOCKED_BY, MUTES))
    return friend.id in stands[FOLLOWS] and not (severed or friend.hides_connections or friend.suspended)


def _reasons(held: Suggested, at: int, contributed: Column, names: Mapping[int, str]) -> tuple[SuggestionReason, ...]:
    """Return what speaks for the suggestion in a row, by user names of followees who may be named."""
    friends = tuple(names[id_] for id_ in held.friends[at].tolist() if id_ in names)
    named = {"friends": friends, "tags": held.tags[at]}
    columns = zip(REASON_NAMES, held.numbers[at], held.values[at], WEIGHTS.row(), contributed, strict=True)
    found = [
        SuggestionReason(
            name,
            number=float(number),
            value=float(value),
            weight=weight,
            contribution=float(added),
            words=people.words_of(name, number, named.get(name, ())),
            friends=friends if name == "friends" else (),
        )
        for name, number, value, weight, added in columns
        if added > 0
    ]
    return tuple(sorted(found, key=lambda reason: -reason.contribution))


async def _suggested(reads: Reads, viewer: int) -> Suggested:
    now = reads.tags.clock()
    tastes = await tastes_of(reads.graph, viewer)
    # What a member has just picked, or asked for, holds at once.
    key = viewer, tastes.taste.version if tastes.taste is not None else 0
    held = reads.suggested.get(key, now)
    if held is None:
        held = await likely(reads, viewer, tastes)
        reads.suggested.put(key, held, now)
    return held
