"""Account deletion: request, cancel, receipt, and the deletion of all data, one page at a time.

During the grace period the member is hidden like a suspended member and no data is deleted: canceling restores everything but
sessions and role. The deletion object is in the schedule (agenda).

The deletion uses the member's own commands, so the usual events are emitted and counts stay exact. Each step deletes data that
still exists, so it may be repeated, also by another process, and only the start has to be recorded. The member object is deleted
last. The user name stays reserved, because links still refer to it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from shoal.commands import (
    albums,
    authentication,
    external_ids,
    feeds,
    filters,
    held_content,
    invitations,
    lists,
    members,
    posts,
    reactions,
    relationships,
    scheduled_posts,
    sessions,
)
from shoal.commands.audit import end_addresses, note
from shoal.commands.authentication import Asker, OwnerProof
from shoal.commands.context import Writes, add_node
from shoal.commands.oauth import check_welcome
from shoal.core.audit import AuditVerb, member_target
from shoal.core.errors import Conflict, InvalidInput, NotAllowed, NotFound
from shoal.core.events import FilesReleased, MemberRemoved, NamedFeedChanged, ProfileChanged, SuspensionChanged
from shoal.core.external_ids import DELETED_MEMBERS, ExternalLink
from shoal.core.ids import milliseconds_of, shard_of
from shoal.core.media_files import files_of_member
from shoal.core.model import DAY_MS, RECEIPT_DAYS, AccountDeletion, Media, Member, Node, Poll, Role
from shoal.core.tokens import fits, hash_of, new_secret, opened, text_of
from shoal.graph import media as media_life
from shoal.graph import schema
from shoal.graph.access import access_member, get_object
from shoal.graph.changes import put_on, retry_on_conflict, take_off
from shoal.graph.contract import Assoc, Batch, Cursor, find_object
from shoal.graph.member_lookup import redeclare
from shoal.graph.payloads.members import drop_login, personalization_of
from shoal.graph.payloads.posts import chosen_of, put_reactions, unvote_batch, vote_keys

_SECRET_BYTES = 16
_BEGUN = "This account is being deleted"


class Farewell(NamedTuple):
    """An account deletion and the secret text of its receipt, which is returned only once."""

    deletion: AccountDeletion
    receipt: str


async def leave(writes: Writes, member_id: int, password: OwnerProof, asker: Asker | None = None) -> Farewell:
    """Start the deletion of the member's account: hide it, revoke all logins, and delete everything after the grace period.

    Raises `InvalidInput` for a wrong password, `NotAllowed` for a member without one, and `TooMany` if the `asker` is rate-limited.
    """
    member = await access_member(writes.graph, member_id)
    if not await authentication.is_owner(writes, member, password, asker):
        raise InvalidInput("the password is wrong", field="password")
    return await dismiss(writes, member_id, writes.limits.leaving_days)


async def dismiss(writes: Writes, member_id: int, days: int) -> Farewell:
    """Start an account deletion without a password, for operators. With 0 days it begins immediately.

    If the deletion is scheduled already, only its date changes. Raises `NotFound` for an unknown or pending member, and
    `NotAllowed` if the deletion has begun.
    """
    secret, shard = new_secret(_SECRET_BYTES), shard_of(member_id)

    async def attempt() -> Farewell:
        member = await _access(writes, member_id)
        before = await find_object(writes.graph, AccountDeletion, member.departure_id)
        if before is not None and before.begun_at:
            raise NotAllowed(_BEGUN)

        def build(id_: int) -> tuple[AccountDeletion, Batch]:
            now = milliseconds_of(id_)
            made = AccountDeletion(
                id=id_,
                member_id=member_id,
                name=member.name,
                asked_at=before.asked_at if before is not None else now,
                at=now + days * DAY_MS,
                ticket_id=id_,
                secret_hash=hash_of(secret),
            )
            batch = Batch(shard)
            if before is not None:
                batch.obj_del(before.id, before.version)
                take_off(batch, before.ticket_id, id_)
            batch.obj_add(made)
            put_on(batch, made.ticket_id, made.at, made.id)
            _hide(batch, member, made, id_)
            batch.emit(ended)
            note(writes, batch, AuditVerb.DELETION_REQUESTED, member_target(member), days=days)
            return made, batch

        ended = await sessions.all_ended(writes, member_id)
        made = await add_node(writes, shard, build)
        return Farewell(made, text_of(made.id, secret))

    return await retry_on_conflict(attempt)


async def come_back(writes: Writes, name_or_email: str, password: str, asker: Asker | None = None) -> Member:
    """Cancel an account deletion that has not begun yet. Everything but logins and the role is restored.

    Raises `Unauthenticated` for a wrong name or password, `TooMany` if the `asker` is rate-limited, and `NotAllowed` if no
    deletion is scheduled, the member is disabled, or the deletion has begun.
    """
    member = await members.by_password(writes, name_or_email, password, asker)
    return await keep(writes.by(writes.actor.proved(member)), member.id)


async def keep(writes: Writes, member_id: int) -> Member:
    """Cancel the scheduled deletion of an account, for operators: the password of the member is not needed.

    Raises `NotFound` for an unknown or pending member, and `NotAllowed` if no deletion is scheduled, the member is disabled, or
    the deletion has begun.
    """

    async def attempt() -> Member:
        member = await _access(writes, member_id)
        deletion = await find_object(writes.graph, AccountDeletion, member.departure_id)
        if deletion is None:
            check_welcome(member)
            raise NotAllowed("This account is not scheduled for deletion")
        if deletion.begun_at:
            raise NotAllowed(_BEGUN)
        if member.disabled:
            check_welcome(member)
        batch = Batch(shard_of(member_id))
        now = writes.new_id(batch.shard)
        batch.obj_del(deletion.id, deletion.version)
        take_off(batch, deletion.ticket_id, now)
        back = replace(member, departure_id=0, suspended=False, version=member.version + 1)
        batch.obj_set(back)
        _tell(batch, member_id, now)
        note(writes, batch, AuditVerb.DELETION_CANCELLED, member_target(member))
        await writes.graph.commit(batch)
        return back

    return await retry_on_conflict(attempt)


async def receipt(writes: Writes, text: str) -> AccountDeletion:
    """Return the account deletion whose receipt has this text. Raises `NotFound` if there is none."""
    id_, secret = opened(text)
    deletion = await get_object(writes.graph, AccountDeletion, id_)
    if not fits(deletion.secret_hash, secret):
        raise NotFound("Record not found")
    return deletion


async def _access(writes: Writes, member_id: int) -> Member:
    """Return a member whatever their state. Raises `NotFound` for an unknown or pending member."""
    member = await get_object(writes.graph, Member, member_id)
    if member.pending:
        raise NotFound("Record not found")
    return member


def _hide(batch: Batch, member: Member, deletion: AccountDeletion, now: int) -> None:
    gone = replace(
        member,
        departure_id=deletion.id,
        suspended=True,
        # Canceling the deletion must not lift a suspension by moderators.
        disabled=member.disabled or (member.suspended and not member.departure_id),
        role=Role.NONE,
        generation=member.generation + 1,
        version=member.version + 1,
    )
    batch.obj_set(gone)
    if member.role is not Role.NONE:
        batch.assoc_del(member.id, schema.SERVES, schema.EVERYBODY, now)
    _tell(batch, member.id, now)


def _tell(batch: Batch, member_id: int, now: int) -> None:
    batch.emit(ProfileChanged(member_id=member_id))
    batch.emit(SuspensionChanged(member_id=member_id))
    batch.emit(NamedFeedChanged(feed_id=schema.feeds_of_id(member_id), time=now))


_PAGE = 50
_PLAIN_PAGE = 15
"""Associations deleted per commit: a DynamoDB transaction is limited to 100 items, and each association takes six."""
_PAGES_AT_ONCE = 20
"""Maximum number of pages per run, so that other items of the schedule are not delayed."""

_COUNTED: dict[str, schema.AssocType] = {
    "posts": schema.POSTED,
    "followers": schema.FOLLOWED_BY,
    "follows": schema.FOLLOWS,
    "likes": schema.LIKES,
    "shares": schema.SHARES,
    **{mark.noun: mark.atype for mark in schema.POST_MARKS},
    "reactions": schema.REACTS,
    "votes": schema.VOTES,
    "media": schema.OWNS,
    "albums": schema.OWNS_ALBUM,
    "lists": schema.OWNS_LIST,
    "feeds": schema.OWNS_FEED,
    "filters": schema.OWNS_FILTER,
    "invitations": schema.OWNS_INVITATION,
    "scheduled": schema.SCHEDULES,
    "blocks": schema.BLOCKS,
    "mutes": schema.MUTES,
    "notes": schema.NOTES,
    "tags": schema.FOLLOWS_TAG,
    "notifications": schema.NOTIFIED,
    "conversations": schema.CONVERSES,
}
"""Types of associations that are counted for the receipt. The list of posts includes shares, which are subtracted."""

_PLAIN = (
    schema.POSTED_RESTRICTED,
    schema.POSTED_TO_FOLLOWERS,
    schema.PINS,
    schema.BLOCKS,
    schema.BLOCKED_BY,
    schema.MUTES,
    schema.NOTES,
    schema.ENDORSES,
    schema.WATCHES,
    schema.WATCHED_BY,
    schema.DISMISSES,
    schema.FEATURES_TAG,
    schema.MUTES_THREAD,
    schema.LISTED_IN,
    schema.NOTIFIED,
    schema.HELD,
    schema.ACCEPTS_NOTICES,
    schema.CONVERSES,
    schema.MARKED,
    schema.REPORT_UPHELD,
    schema.REPORT_DISMISSED,
    schema.FOLLOWS_FEED,
    schema.SETS_FEED,
)
"""Types of associations whose deletion needs no further cleanup. Reports filed by the member are kept."""

_Step = Callable[[Writes, int], Awaitable[int]]


async def carry_out(writes: Writes, deletion: AccountDeletion) -> None:
    """Advance an account deletion: begin it, delete some data, finish it or, in the end, delete the receipt.

    Raises `Conflict` if another process works on it.
    """
    if deletion.done_at:
        await _forget(writes, deletion)
        return
    if not deletion.begun_at:
        deletion = await _begin(writes, deletion)
    for _ in range(_PAGES_AT_ONCE):
        if not await _page(writes, deletion.member_id):
            await _end(writes, deletion)
            return


async def _begin(writes: Writes, deletion: AccountDeletion) -> AccountDeletion:
    """Record the start time and the numbers of items to delete. Raises `Conflict` after a concurrent cancellation."""
    member = deletion.member_id
    counts = await writes.graph.assoc_count((member,), tuple(_COUNTED.values()))
    found = {name: counts[atype].get(member, 0) for name, atype in _COUNTED.items()}
    found["posts"] -= found["shares"]
    node = await find_object(writes.graph, Member, member)
    found["bytes"] = node.media_bytes if node else 0
    now = writes.new_id.now()
    begun = replace(deletion, counts=found, begun_at=now, version=deletion.version + 1)
    batch = Batch(shard_of(deletion.id))
    batch.obj_set(begun)
    await writes.graph.commit(batch)
    return begun


async def _page(writes: Writes, member: int) -> int:
    """Delete a page of the member's remaining data, one kind after another. Return the number of deleted items; 0 at the end."""
    for step in _STEPS:
        if found := await step(writes, member):
            return found
    return 0


def _each(atype: schema.AssocType, end: Callable[[Writes, int, Assoc], Awaitable[object]]) -> _Step:
    """Return a deletion step that calls `end` for each association of a type, a page at a time.

    Items that are deleted or changed concurrently are skipped; if they still exist, they are in the next page.
    """

    async def step(writes: Writes, member: int) -> int:
        async def attempt(assoc: Assoc) -> None:
            with contextlib.suppress(NotFound, Conflict):
                await end(writes, member, assoc)

        page = await writes.graph.assoc_range(member, atype, Cursor(limit=_PAGE))
        await asyncio.gather(*map(attempt, page))
        return len(page)

    return step


def _by_verb(atype: schema.AssocType, verb: Callable[[Writes, int, int], Awaitable[object]]) -> _Step:
    return _each(atype, lambda writes, member, assoc: verb(writes, member, assoc.id2))


async def _end_entry(writes: Writes, member: int, entry_id: int) -> None:
    try:
        await posts.delete(writes, member, entry_id)
    except NotFound:
        await reactions.unshare(writes, member, entry_id)


async def _end_reaction(writes: Writes, member: int, reaction: Assoc) -> None:
    batch = Batch(shard_of(member))
    put_reactions(batch, member, reaction.id2, writes.new_id(batch.shard), had=chosen_of(reaction), has=())
    await writes.graph.commit(batch)


async def _end_vote(writes: Writes, member: int, poll_id: int) -> None:
    # If the poll is deleted, its own cleanup removes the vote: only that cleanup knows the options of the poll.
    if (poll := await find_object(writes.graph, Poll, poll_id)) is not None:
        votes = await writes.graph.key_get(vote_keys(member, poll.id, len(poll.options)))
        options = [option.id for option in poll.options]
        await writes.graph.commit(unvote_batch(member, poll.id, options, votes, writes.new_id(shard_of(member))))


def _plain(atype: schema.AssocType) -> _Step:
    """Return a deletion step for a type whose associations are deleted without further effects, many per commit."""

    async def step(writes: Writes, member: int) -> int:
        page, batch = await writes.graph.assoc_range(member, atype, Cursor(limit=_PLAIN_PAGE)), Batch(shard_of(member))
        for assoc in page:
            batch.assoc_del(member, atype, assoc.id2, writes.new_id(batch.shard))
        return await _commit(writes, batch)

    return step


async def _media(writes: Writes, member: int) -> int:
    page = await writes.graph.assoc_range(member, schema.OWNS, Cursor(limit=_PAGE))
    # Media are deleted one after the other, because each deletion changes the member's byte count.
    for owned in page:
        if (media := await find_object(writes.graph, Media, owned.id2)) is not None:
            await media_life.delete(writes.graph, writes.new_id, media)
    return len(page)


async def _logins(writes: Writes, member: int) -> int:
    found = [
        assoc.id2
        for atype in (schema.LOGGED_IN, schema.EXPIRING)
        for assoc in await writes.graph.assoc_range(member, atype, Cursor(limit=_PLAIN_PAGE // 2))
    ]
    batch = Batch(shard_of(member))
    for id_ in dict.fromkeys(found):
        drop_login(batch, member, id_, writes.new_id(batch.shard))
    return await _commit(writes, batch)


async def _personalization(writes: Writes, member: int) -> int:
    found = await personalization_of(writes.graph, member)
    stored: list[tuple[schema.Key, Node | None]] = [
        (schema.preferences_key(member), found.feed_preferences),
        (schema.seen_key(member), found.seen),
    ]
    batch = Batch(shard_of(member))
    for key, node in stored:
        if node is not None:
            batch.obj_del(node.id, node.version)
            batch.key_del(key, node.id)
    if batch.objects:
        await writes.graph.commit(batch)
    return 0


async def _end_external_id(writes: Writes, member: int, assoc: Assoc) -> None:
    node = await get_object(writes.graph, Member, member)
    link = await get_object(writes.graph, ExternalLink, assoc.id2)
    if not link.own:
        # The member may have been imported.
        await external_ids.link_objects(writes, DELETED_MEMBERS, {link.external: member})
    await external_ids.release(writes, node, link.external, audited=False)


async def _commit(writes: Writes, batch: Batch) -> int:
    if batch.assocs:
        await writes.graph.commit(batch)
    return len(batch.assocs)


_STEPS: Sequence[_Step] = (
    _by_verb(schema.SCHEDULES, scheduled_posts.cancel),
    _by_verb(schema.HOLDS, held_content.withdraw),
    _by_verb(schema.POSTED, _end_entry),
    _by_verb(schema.FOLLOWED_BY, relationships.remove_follower),
    _by_verb(schema.FOLLOWS, relationships.unfollow),
    _by_verb(schema.REQUESTS, relationships.unfollow),
    _by_verb(schema.REQUESTED_BY, relationships.reject_request),
    _by_verb(schema.FOLLOWS_TAG, relationships.end_followed_tag),
    _by_verb(schema.LIKES, reactions.unlike),
    *[_by_verb(mark.atype, partial(reactions.unmark, mark=mark)) for mark in schema.POST_MARKS],
    _each(schema.REACTS, _end_reaction),
    _by_verb(schema.VOTES, _end_vote),
    _by_verb(schema.OWNS_LIST, lists.delete),
    _by_verb(schema.OWNS_FEED, feeds.delete_by_id),
    _by_verb(schema.OWNS_ALBUM, albums.delete),
    _by_verb(schema.OWNS_FILTER, filters.delete),
    _by_verb(schema.OWNS_INVITATION, invitations.drop),
    _each(schema.EXTERNAL_IDS, _end_external_id),
    _media,
    *map(_plain, _PLAIN),
    # Entries of the audit log are kept, but their IP addresses are removed.
    end_addresses,
    _logins,
    _personalization,
)


async def _end(writes: Writes, deletion: AccountDeletion) -> None:
    """Delete the member and the login. The receipt is kept for a year."""
    member = await find_object(writes.graph, Member, deletion.member_id)
    batch = Batch(shard_of(deletion.id))
    now = writes.new_id(batch.shard)
    if member is not None:
        login = await members.login_of(writes, member)
        batch.obj_del(member, member.version)
        batch.obj_del(member.login_id)
        redeclare(batch, member, replace(member, fields=(), email_hash=""), now)
        if keys := files_of_member(member):
            batch.emit(FilesReleased(keys=tuple(keys)))
        batch.emit(MemberRemoved(member_id=member.id, address=login.email if login else ""))
        note(writes, batch, AuditVerb.DELETION_COMPLETED, member_target(member))
    ticket = writes.new_id(batch.shard)
    done = milliseconds_of(now)
    batch.obj_set(replace(deletion, done_at=done, ticket_id=ticket, version=deletion.version + 1))
    take_off(batch, deletion.ticket_id, now)
    put_on(batch, ticket, done + RECEIPT_DAYS * DAY_MS, deletion.id)
    await writes.graph.commit(batch)


async def _forget(writes: Writes, deletion: AccountDeletion) -> None:
    batch = Batch(shard_of(deletion.id))
    batch.obj_del(deletion.id, deletion.version)
    take_off(batch, deletion.ticket_id, writes.new_id(batch.shard))
    await writes.graph.commit(batch)
