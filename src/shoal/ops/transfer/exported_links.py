"""Whom and what a member has to do with, and what was done with their account, in their export: a CSV file for each kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from shoal.core.model import Poll
from shoal.graph.access import members_by_id
from shoal.graph.contract import Assoc
from shoal.graph.payloads.follows import follow_terms, mute_terms
from shoal.graph.payloads.posts import chosen_of
from shoal.graph.schema import (
    AUDITED,
    BLOCKS,
    BOOKMARKS,
    ENDORSES,
    FEATURES_TAG,
    FOLLOWED_BY,
    FOLLOWS,
    FOLLOWS_TAG,
    LIKES,
    MUTES,
    MUTES_THREAD,
    NOTES,
    REACTS,
    REQUESTED_BY,
    REQUESTS,
    SHARES,
    VOTES,
    WATCHES,
    AssocType,
)
from shoal.ops.transfer.exporting import Export, iso, when
from shoal.queries import moderation
from shoal.queries.hydration import hydrate


class _People(NamedTuple):
    """A list of members, and what stands beside each name."""

    atype: AssocType
    more: tuple[str, ...] = ()
    told: Callable[[Assoc], tuple[str, ...]] = lambda _assoc: ()


def _follow(assoc: Assoc) -> tuple[str, ...]:
    terms = follow_terms(assoc.data)
    return _yes(terms.shares), " ".join(terms.languages)


def _request(assoc: Assoc) -> tuple[str, ...]:
    return (*_follow(assoc), _yes(follow_terms(assoc.data).notify))


def _mute(assoc: Assoc) -> tuple[str, ...]:
    terms = mute_terms(assoc.data)
    return _yes(terms.notifications), iso(terms.expires_at)


def _note(assoc: Assoc) -> tuple[str, ...]:
    return (assoc.data.decode(),)


_PEOPLE = {
    "follows": _People(FOLLOWS, ("shares", "languages"), _follow),
    "followers": _People(FOLLOWED_BY),
    "requests": _People(REQUESTS, ("shares", "languages", "notify"), _request),
    "requested_by": _People(REQUESTED_BY),
    "notified_of": _People(WATCHES),
    "blocks": _People(BLOCKS),
    "mutes": _People(MUTES, ("notifications", "until"), _mute),
    "notes": _People(NOTES, ("note",), _note),
    "endorsed": _People(ENDORSES),
}
_POSTS = {"likes": LIKES, "shares": SHARES, "bookmarks": BOOKMARKS, "muted_threads": MUTES_THREAD}
_TAGS = {"followed_tags": FOLLOWS_TAG, "featured_tags": FEATURES_TAG}


async def write(export: Export) -> None:
    """Posts of others, votes, people and tags."""
    for noun, atype in _POSTS.items():
        await _posts(export, noun, atype)
    await _reactions(export)
    await _votes(export)
    for noun, people in _PEOPLE.items():
        await _people(export, noun, people)
    for noun, atype in _TAGS.items():
        await _tags(export, noun, atype)
    await _audited(export)


async def _posts(export: Export, noun: str, atype: AssocType) -> None:
    """Posts that the member reacted to, with their author and text where the member may see them."""

    async def rows(page: Sequence[Assoc]) -> list[Sequence[str]]:
        told = await _quoted(export, [assoc.id2 for assoc in page])
        return [(when(a.time), str(a.id2), *told.get(a.id2, ("", ""))) for a in page]

    await export.table(noun, atype, ("time", "post", "author", "text"), rows)


async def _reactions(export: Export) -> None:
    """Posts that the member put emoji on, as `_posts`, with the emoji."""

    async def rows(page: Sequence[Assoc]) -> list[Sequence[str]]:
        told = await _quoted(export, [assoc.id2 for assoc in page])
        return [
            (when(a.time), str(a.id2), *told.get(a.id2, ("", "")), " ".join(place.emoji for place in chosen_of(a)))
            for a in page
        ]

    await export.table("reactions", REACTS, ("time", "post", "author", "text", "emoji"), rows)


async def _votes(export: Export) -> None:
    """Export the member's votes in polls that still exist, with the texts that the member may see."""

    async def rows(page: Sequence[Assoc]) -> list[Sequence[str]]:
        nodes = await export.graph.obj_get([assoc.id2 for assoc in page])
        voted = [(assoc, poll) for assoc in page if isinstance(poll := nodes.get(assoc.id2), Poll)]
        told = await _quoted(export, [poll.post_id for _, poll in voted])
        return [
            (when(assoc.time), str(poll.post_id), *told[poll.post_id], _chosen(assoc, poll))
            if poll.post_id in told
            else (when(assoc.time), str(poll.post_id), "", "", "")
            for assoc, poll in voted
        ]

    await export.table("votes", VOTES, ("time", "post", "author", "text", "chosen"), rows)


def _chosen(assoc: Assoc, poll: Poll) -> str:
    return "; ".join(poll.options[position].title for position in assoc.data)


async def _quoted(export: Export, post_ids: Sequence[int]) -> dict[int, tuple[str, str]]:
    """Author and text of the posts that the member may see now."""
    seen = await hydrate(export.graph, export.member.id, post_ids, unasked=False)
    return {entry.id: (entry.author.member.name, entry.post.text) for entry in seen}


async def _people(export: Export, noun: str, people: _People) -> None:
    async def rows(page: Sequence[Assoc]) -> list[Sequence[str]]:
        found = await members_by_id(export.graph, [assoc.id2 for assoc in page])
        return [
            (_since(people, a), str(a.id2), found[a.id2].name if a.id2 in found else "", *people.told(a)) for a in page
        ]

    await export.table(noun, people.atype, ("time", "id", "name", *people.more), rows)


def _since(people: _People, assoc: Assoc) -> str:
    """A follow began before it was changed."""
    follows = people.atype in (FOLLOWS, FOLLOWED_BY)
    return when(follow_terms(assoc.data).began(assoc.time) if follows else assoc.time)


async def _tags(export: Export, noun: str, atype: AssocType) -> None:
    async def rows(page: Sequence[Assoc]) -> list[Sequence[str]]:
        return [(when(assoc.time), assoc.data.decode()) for assoc in page]

    await export.table(noun, atype, ("time", "tag"), rows)


async def _audited(export: Export) -> None:
    """Acts on the member's own account, with the addresses they came from, and log-ins that failed."""

    async def rows(page: Sequence[Assoc]) -> list[Sequence[str]]:
        entries = await moderation.own(export.graph, export.member.id, page)
        return [
            (when(id_), entry.verb.value, address, _words(entry.details.items())) for id_, entry, address in entries
        ]

    await export.table("account_activity", AUDITED, ("time", "act", "address", "details"), rows)


def _words(details: Iterable[tuple[str, str | int]]) -> str:
    return "; ".join(f"{name}: {value}" for name, value in details)


def _yes(value: bool) -> str:
    return "yes" if value else "no"
