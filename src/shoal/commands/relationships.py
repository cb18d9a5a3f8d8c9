"""Follows, follow requests, blocks, mutes, notes and endorsements between members, followed tags, and dismissed suggestions.

Every command is idempotent. Following a locked member creates a follow request, which that member authorizes or rejects.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import structs

from shoal.commands.context import Claim, Writes, serialized
from shoal.commands.tags import MAX_FOLLOWED_TAGS, held_tags
from shoal.core.errors import InvalidInput, NotAllowed, NotFound
from shoal.core.events import Blocked, FollowChanged, NamedFeedChanged, RequestChanged
from shoal.core.ids import now_ms, shard_of
from shoal.core.model import Member
from shoal.core.text import check_tag, check_text
from shoal.core.visibility import Relation
from shoal.graph.access import access_member, association, count_of, get_object, relation, relation_and_bonds
from shoal.graph.cache.coherence import foresee
from shoal.graph.contract import Assoc, Batch, find_object
from shoal.graph.payloads.follows import FOLLOW, MAX_LANGUAGES, FollowTerms, MuteTerms, encode, follow_terms
from shoal.graph.schema import (
    BLOCKS,
    DISMISSES,
    ENDORSES,
    FOLLOWED_BY,
    FOLLOWS,
    FOLLOWS_TAG,
    MUTES,
    NOTES,
    REQUESTED_BY,
    REQUESTS,
    WATCHED_BY,
    WATCHES,
    AssocType,
    feed_access_id,
    following,
    tag_id,
)
from shoal.i18n import check_language

_NEAR = 512
"""Remaining follows below which a member's requests are serialized. It exceeds the number of requests in progress at once."""
MAX_MUTE_SECONDS = 10 * 366 * 86_400

_BONDS = (FOLLOWS, REQUESTS, WATCHES, ENDORSES)
"""Associations from a member to a member whom they follow or asked to follow. All of them are deleted when the follow ends."""


class FollowOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a follow; None keeps the current value.

    By default a follow includes all posts and shares, without notifications.
    """

    shares: bool | None = None
    notify: bool | None = None
    languages: Sequence[str] | None = None
    """Languages of the posts to include; empty for all."""


AS_IS = FollowOptions()


async def follow(writes: Writes, member_id: int, other_id: int, options: FollowOptions = AS_IS) -> Relation:
    """Follow a member, or send a follow request if that member is locked.

    A repeated follow changes its options. Raises `NotAllowed` if both ids are equal, or if one of the members has blocked the
    other.
    """
    foresee(member_id)
    other = await access_member(writes.graph, other_id)
    current, bonds = await relation_and_bonds(writes.graph, member_id, other_id)
    if member_id == other_id or current.severed:
        raise NotAllowed("This action is not allowed")
    atype = REQUESTS if other.locked and not current.following else FOLLOWS
    old = bonds[atype].get(other_id)
    before = _terms(old, watching=other_id in bonds[WATCHES])
    after = _with_options(before, options)
    if old is None:
        await _begin_one_more(writes, member_id, atype, other_id, after)
    elif after != before:
        await _begin_follow(writes, member_id, atype, other_id, after, old)
    # Derive the new relationship from the one read before, because another read would take as long as all reads before the
    # commit.
    return msgspec.structs.replace(
        current,
        following=atype is FOLLOWS,
        requested=atype is REQUESTS,
        shares=after.shares,
        languages=after.languages,
        watching=after.notify,
        endorsed=atype is FOLLOWS and other_id in bonds[ENDORSES],
    )


async def _begin_one_more(writes: Writes, member_id: int, atype: AssocType, other_id: int, terms: FollowTerms) -> None:
    """Create a follow or follow request, up to the follow limit. As in Mastodon, a request does not count until it is accepted."""

    async def attempt(claim: Claim) -> None:
        if await _follows_left(writes, member_id) <= 0:
            raise InvalidInput(
                f"You can follow at most {writes.limits.follows} people, or 10 percent more than follow you"
            )
        await _begin_follow(writes, member_id, atype, other_id, terms, None, claim)

    if await _follows_left(writes, member_id) > _NEAR:
        # Concurrent follows need not be serialized while the member is far below the limit.
        await _begin_follow(writes, member_id, atype, other_id, terms, None)
    else:
        await serialized(writes, member_id, attempt)


async def _follows_left(writes: Writes, member_id: int) -> int:
    """Return how many more members the member may follow.

    The limit is the setting, or 110% of the member's follower count if that is more.
    """
    counts = await writes.graph.assoc_count((member_id,), (FOLLOWS, FOLLOWED_BY))
    most = max(writes.limits.follows, counts[FOLLOWED_BY].get(member_id, 0) * 11 // 10)
    return most - counts[FOLLOWS].get(member_id, 0)


def _terms(existing: Assoc | None, *, watching: bool) -> FollowTerms:
    if existing is None:
        return FOLLOW
    terms = follow_terms(existing.data)
    return msgspec.structs.replace(terms, notify=terms.notify or watching)


def _with_options(terms: FollowTerms, options: FollowOptions) -> FollowTerms:
    """Return `terms` changed by `options`. Raises `InvalidInput` for too many languages, or an invalid language."""
    languages = terms.languages
    if options.languages is not None:
        if len(options.languages) > MAX_LANGUAGES:
            raise InvalidInput(f"languages: at most {MAX_LANGUAGES} languages", field="languages")
        checked = (check_language(text, field="languages") for text in options.languages)
        languages = tuple(dict.fromkeys(filter(None, checked)))
    return FollowTerms(
        shares=terms.shares if options.shares is None else options.shares,
        languages=languages,
        notify=terms.notify if options.notify is None else options.notify,
        since=terms.since,
    )


async def _begin_follow(
    writes: Writes,
    member_id: int,
    atype: AssocType,
    other_id: int,
    terms: FollowTerms,
    old: Assoc | None,
    claim: Claim | None = None,
) -> None:
    """Create a follow or follow request, or change its options.

    If only the options change, the follow keeps its position in lists: its time stays equal or increases slightly.
    """
    batch = Batch(shard_of(member_id))
    if claim is not None:
        claim(batch)
    at = old.time if old else writes.new_id(batch.shard)
    batch.presumed_new = old is None and claim is None
    if old is not None:
        terms = msgspec.structs.replace(terms, since=terms.began(old.time))
    if atype is REQUESTS:
        batch.assoc_add(member_id, REQUESTS, other_id, at, encode(terms))
        batch.emit(RequestChanged(member_id=member_id, other_id=other_id))
    else:
        batch.assoc_add(member_id, FOLLOWS, other_id, at, encode(msgspec.structs.replace(terms, notify=False)))
        watch = batch.assoc_add if terms.notify else batch.assoc_del
        watch(member_id, WATCHES, other_id, writes.new_id(batch.shard))
        # Delete any earlier request: the other member may have been locked when it was sent.
        _end_bonds(writes, batch, member_id, (REQUESTS,), other_id)
        batch.emit(FollowChanged(follower_id=member_id, source_id=other_id))
    await writes.graph.commit(batch)


async def follow_inviter(writes: Writes, batch: Batch, member: Member) -> None:
    """Add a follow of their inviter to the batch that approves a member, unless the inviter is deleted or suspended."""
    inviter = await find_object(writes.graph, Member, member.invited_by)
    if inviter is not None and not inviter.suspended:
        begin_first(writes, batch, member.id, inviter)


def begin_first(writes: Writes, batch: Batch, member_id: int, other: Member) -> None:
    """Add a new member's first follow, or follow request, to a batch, without checks for earlier associations."""
    atype = REQUESTS if other.locked else FOLLOWS
    batch.assoc_add(member_id, atype, other.id, writes.new_id(batch.shard), encode(FOLLOW))
    if other.locked:
        batch.emit(RequestChanged(member_id=member_id, other_id=other.id))
    else:
        batch.emit(FollowChanged(follower_id=member_id, source_id=other.id))


async def unfollow(writes: Writes, member_id: int, other_id: int) -> Relation:
    """End a follow, or withdraw a follow request. The posts of the other member leave the home timeline."""
    bonds = await writes.graph.assoc_get(member_id, _BONDS, (other_id,))
    if any(bonds.values()):
        batch = Batch(shard_of(member_id))
        _end_bonds(writes, batch, member_id, [atype for atype in _BONDS if bonds[atype]], other_id)
        await writes.graph.commit(batch)
    return await relation(writes.graph, member_id, other_id)


def _end_bonds(writes: Writes, batch: Batch, member_id: int, atypes: Sequence[AssocType], other_id: int) -> None:
    for atype in atypes:
        batch.assoc_del(member_id, atype, other_id, writes.new_id(batch.shard))
    if FOLLOWS in atypes:
        batch.emit(FollowChanged(follower_id=member_id, source_id=other_id))
    if REQUESTS in atypes:
        batch.emit(RequestChanged(member_id=member_id, other_id=other_id))


async def remove_follower(writes: Writes, member_id: int, other_id: int) -> Relation:
    """End the other member's follow of this member. The other member may follow again."""
    if await association(writes.graph, member_id, FOLLOWED_BY, other_id) is not None:
        batch = Batch(shard_of(member_id))
        for atype in (FOLLOWED_BY, WATCHED_BY):
            batch.assoc_del(member_id, atype, other_id, writes.new_id(batch.shard))
        batch.emit(FollowChanged(follower_id=other_id, source_id=member_id))
        await writes.graph.commit(batch)
    return await relation(writes.graph, member_id, other_id)


async def follow_tag(writes: Writes, member_id: int, name: str) -> str:
    tag = check_tag(name)

    async def attempt(claim: Claim) -> None:
        if await association(writes.graph, member_id, FOLLOWS_TAG, tag_id(tag)) is not None:
            return
        if await count_of(writes.graph, member_id, FOLLOWS_TAG) >= MAX_FOLLOWED_TAGS:
            raise NotAllowed(f"a member follows at most {MAX_FOLLOWED_TAGS} tags")
        await _begin(writes, member_id, FOLLOWS_TAG, tag_id(tag), tag.encode(), claim)

    await serialized(writes, member_id, attempt)
    return tag


async def unfollow_tag(writes: Writes, member_id: int, name: str) -> str:
    """Unfollow a tag. Its posts leave the home timeline, except posts by followed authors."""
    tag = check_tag(name)

    async def attempt(claim: Claim) -> None:
        batch = Batch(shard_of(member_id))
        for assoc in await held_tags(writes.graph, member_id, FOLLOWS_TAG, tag):
            batch.assoc_del(member_id, FOLLOWS_TAG, assoc.id2, writes.new_id(batch.shard))
            batch.emit(FollowChanged(follower_id=member_id, source_id=assoc.id2))
        if batch.assocs:
            claim(batch)
            await writes.graph.commit(batch)

    await serialized(writes, member_id, attempt, active=False)
    return tag


async def end_followed_tag(writes: Writes, member_id: int, tag: int) -> None:
    """Unfollow a tag by its id, even if its name is no longer a valid tag."""
    await _end(writes, member_id, FOLLOWS_TAG, tag)


async def block(writes: Writes, member_id: int, other_id: int) -> Relation:
    """Block a member: neither can see the other, and follows and requests in both directions end."""
    await access_member(writes.graph, other_id)
    current = await relation(writes.graph, member_id, other_id)
    if member_id == other_id:
        raise NotAllowed("This action is not allowed")
    if not current.blocking:
        batch = Batch(shard_of(member_id))
        batch.assoc_add(member_id, BLOCKS, other_id, writes.new_id(batch.shard))
        _end_bonds(writes, batch, member_id, _BONDS, other_id)
        for atype in (REQUESTED_BY, WATCHED_BY):
            batch.assoc_del(member_id, atype, other_id, writes.new_id(batch.shard))
        batch.emit(RequestChanged(member_id=other_id, other_id=member_id))
        batch.emit(Blocked(blocker_id=member_id, blocked_id=other_id))
        _tell_readers_of_feeds(writes, batch, member_id, other_id)
        await writes.graph.commit(batch)
    return await relation(writes.graph, member_id, other_id)


async def unblock(writes: Writes, member_id: int, other_id: int) -> Relation:
    """End a block. The follows that it ended are not restored."""
    await _end(writes, member_id, BLOCKS, other_id)
    return await relation(writes.graph, member_id, other_id)


async def mute(
    writes: Writes, member_id: int, other_id: int, *, notifications: bool = True, seconds: int = 0
) -> Relation:
    """Mute a member without their knowledge: hide their posts from timelines and, with `notifications`, their notifications.

    The mute expires after `seconds` (0: never). Muting again changes both options. Raises `NotAllowed` if both ids are equal.
    """
    await access_member(writes.graph, other_id)
    if member_id == other_id:
        raise NotAllowed("This action is not allowed")
    if not 0 <= seconds <= MAX_MUTE_SECONDS:
        raise InvalidInput(f"duration: must be 0 to {MAX_MUTE_SECONDS} seconds", field="duration")
    now = now_ms()
    data = encode(MuteTerms(notifications, now + 1_000 * seconds if seconds else 0))
    existing = await association(writes.graph, member_id, MUTES, other_id)
    if existing is None or existing.data != data:
        await _begin(writes, member_id, MUTES, other_id, data)
    return await relation(writes.graph, member_id, other_id)


async def unmute(writes: Writes, member_id: int, other_id: int) -> Relation:
    await _end(writes, member_id, MUTES, other_id)
    return await relation(writes.graph, member_id, other_id)


async def note(writes: Writes, member_id: int, other_id: int, text: str) -> Relation:
    """Store a private note about another member. An empty text deletes the note."""
    text = check_text(text, field="comment", maximum=writes.limits.private_note)
    if text:
        await access_member(writes.graph, other_id)
        await _begin(writes, member_id, NOTES, other_id, text.encode())
    else:
        await _end(writes, member_id, NOTES, other_id)
    return await relation(writes.graph, member_id, other_id)


async def endorse(writes: Writes, member_id: int, other_id: int) -> Relation:
    """Feature the other member on the member's profile. Raises `InvalidInput` if the member does not follow them."""
    current = await relation(writes.graph, member_id, other_id)
    if not current.following:
        raise InvalidInput("You must be already following the account you want to endorse")
    if not current.endorsed:
        await _begin(writes, member_id, ENDORSES, other_id)
    return await relation(writes.graph, member_id, other_id)


async def unendorse(writes: Writes, member_id: int, other_id: int) -> Relation:
    await _end(writes, member_id, ENDORSES, other_id)
    return await relation(writes.graph, member_id, other_id)


async def _begin(
    writes: Writes, member_id: int, atype: AssocType, other_id: int, data: bytes = b"", claim: Claim | None = None
) -> None:
    batch = Batch(shard_of(member_id))
    if claim is not None:
        claim(batch)
    batch.assoc_add(member_id, atype, other_id, writes.new_id(batch.shard), data)
    await _commit(writes, batch, member_id, atype, other_id)


async def _end(writes: Writes, member_id: int, atype: AssocType, other_id: int) -> None:
    if await association(writes.graph, member_id, atype, other_id) is not None:
        batch = Batch(shard_of(member_id))
        batch.assoc_del(member_id, atype, other_id, writes.new_id(batch.shard))
        await _commit(writes, batch, member_id, atype, other_id)


async def _commit(writes: Writes, batch: Batch, member_id: int, atype: AssocType, other_id: int) -> None:
    if atype is following(other_id):
        batch.emit(FollowChanged(follower_id=member_id, source_id=other_id))
    elif atype is BLOCKS:
        _tell_readers_of_feeds(writes, batch, member_id, other_id)
    await writes.graph.commit(batch)


def _tell_readers_of_feeds(writes: Writes, batch: Batch, member_id: int, other_id: int) -> None:
    """Report a block, or the end of one, to live streams of feeds that one of these members owns and the other reads."""
    batch.emit(NamedFeedChanged(feed_id=feed_access_id(member_id, other_id), time=writes.new_id(batch.shard)))


async def authorize_request(writes: Writes, member_id: int, other_id: int) -> Relation:
    """Accept the follow request of the other member, with its options. Raises `NotFound` if there is none.

    The commit is on the shard of `member_id`. The other member's side of the follow is an inverse, and may be written later.
    """
    data = await _request_of(writes, member_id, other_id)
    terms = follow_terms(data)
    batch = _without_request(writes, member_id, other_id)
    batch.assoc_add(
        member_id,
        FOLLOWED_BY,
        other_id,
        writes.new_id(batch.shard),
        encode(structs.replace(terms, notify=False, since=0)),
    )
    if terms.notify:
        batch.assoc_add(member_id, WATCHED_BY, other_id, writes.new_id(batch.shard))
    batch.emit(FollowChanged(follower_id=other_id, source_id=member_id))
    await writes.graph.commit(batch)
    return await relation(writes.graph, member_id, other_id)


async def reject_request(writes: Writes, member_id: int, other_id: int) -> Relation:
    """Delete the follow request of the other member, who may send another. Raises `NotFound` if there is none."""
    await _request_of(writes, member_id, other_id)
    await writes.graph.commit(_without_request(writes, member_id, other_id))
    return await relation(writes.graph, member_id, other_id)


async def _request_of(writes: Writes, member_id: int, other_id: int) -> bytes:
    found = await association(writes.graph, member_id, REQUESTED_BY, other_id)
    if found is None:
        raise NotFound("Record not found")
    return found.data


def _without_request(writes: Writes, member_id: int, other_id: int) -> Batch:
    batch = Batch(shard_of(member_id))
    batch.assoc_del(member_id, REQUESTED_BY, other_id, writes.new_id(batch.shard))
    batch.emit(RequestChanged(member_id=other_id, other_id=member_id))
    return batch


async def dismiss_suggestion(writes: Writes, member_id: int, other_id: int) -> None:
    """Never suggest this member again. Idempotent. Raises `NotFound` for an unknown member."""
    if (await get_object(writes.graph, Member, other_id)).pending:
        raise NotFound("Record not found")
    batch = Batch(shard_of(member_id))
    batch.assoc_add(member_id, DISMISSES, other_id, writes.new_id(batch.shard))
    await writes.graph.commit(batch)
