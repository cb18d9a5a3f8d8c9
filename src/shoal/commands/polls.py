"""Polls in posts, and votes.

A vote is one commit on the voter's shard, with associations to the poll and to the chosen options, and a unique key that makes a
concurrent vote fail. In a multiple-choice poll a later vote adds options to the earlier ones, with a separate key.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from shoal.commands.context import Limits, Writes
from shoal.core.errors import InvalidInput
from shoal.core.events import PollRemoved
from shoal.core.ids import milliseconds_of, shard_of
from shoal.core.model import Poll, PollOption, Post
from shoal.core.text import check_text, visible
from shoal.graph.access import access_poll, association
from shoal.graph.changes import put_on, retry_on_conflict, take_off
from shoal.graph.contract import Batch, KeyTaken, Reader, find_object
from shoal.graph.schema import CHOOSES, VOTES, vote_key

_VOTED = "You have already voted on this poll"


class PollDraft(msgspec.Struct, frozen=True, kw_only=True):
    """Unvalidated values of a new poll."""

    options: tuple[str, ...]
    seconds: int | None = None
    """How long the poll is open, in seconds."""
    multiple: bool = False
    hide_totals: bool = False


def checked(limits: Limits, draft: PollDraft) -> PollDraft:
    """Return the draft with whitespace removed around its options. Raises `InvalidInput` if the poll exceeds the limits."""
    options = tuple(check_text(option.strip(), field="options", maximum=limits.poll_option) for option in draft.options)
    if not all(options):
        raise InvalidInput("Options can't be blank", field="options")
    if len(options) < 2:
        raise InvalidInput("Options must have more than one item", field="options")
    if len(options) > limits.poll_options:
        raise InvalidInput(f"Options can't contain more than {limits.poll_options} items", field="options")
    if len(set(map(visible, options))) < len(options):
        raise InvalidInput("Options contain duplicate items", field="options")
    if draft.seconds is None or draft.seconds > limits.poll_most_seconds:
        raise InvalidInput("Expires at is too far into the future", field="expires_in")
    if draft.seconds < limits.poll_least_seconds:
        raise InvalidInput("Expires at is too soon", field="expires_in")
    return msgspec.structs.replace(draft, options=options)


def made(writes: Writes, draft: PollDraft, owner_id: int, post_id: int, now: int) -> Poll:
    """Return a new poll from a validated draft, open from `now` (Unix ms)."""
    # Options are not objects, so the store does not check their ids: they follow the id of the poll within its reserved block.
    id_ = writes.new_id.block(shard_of(owner_id))
    return Poll(
        id=id_,
        owner_id=owner_id,
        post_id=post_id,
        options=tuple(PollOption(id_ + at, title) for at, title in enumerate(draft.options, 1)),
        multiple=draft.multiple,
        hide_totals=draft.hide_totals,
        expires_at=now + 1_000 * (draft.seconds or 0),
        ticket_id=id_,
    )


def revised(writes: Writes, old: Poll | None, draft: PollDraft, post: Post, now: int) -> Poll:
    """Return the poll after an edit. If the options or `multiple` change, it is a new poll without votes."""
    new = made(writes, draft, post.author_id, post.id, now)
    if old is None or (titles(old), old.multiple) != (titles(new), new.multiple):
        return new
    return msgspec.structs.replace(
        old, hide_totals=new.hide_totals, expires_at=new.expires_at, ticket_id=new.ticket_id, version=old.version + 1
    )


def exchange(batch: Batch, old: Poll | None, new: Poll | None, now: int) -> None:
    """Add, remove or replace the poll of a post in the batch; `now` is a new id, which contains the current time."""
    if new == old:
        return
    if old is not None:
        take_off(batch, old.ticket_id, now)
    if new is not None:
        put_on(batch, new.ticket_id, new.expires_at, new.id)
    if old is not None and new is not None and old.id == new.id:
        batch.obj_set(new)
        return
    if new is not None:
        batch.obj_add(new)
        batch.fresh.add(new.id)
    if old is not None:
        batch.obj_del(old.id, old.version)
        batch.emit(PollRemoved(poll_id=old.id, option_ids=tuple(option.id for option in old.options)))


async def poll_of(graph: Reader, post: Post) -> Poll | None:
    return await find_object(graph, Poll, post.poll_id)


def titles(poll: Poll | None) -> tuple[str, ...]:
    return tuple(option.title for option in poll.options) if poll else ()


async def vote(writes: Writes, member_id: int, poll_id: int, choices: Sequence[int]) -> Poll:
    """Vote for options by their positions. Raises `NotFound` for a poll whose post the member may not see.

    A single-choice poll accepts one vote; a multiple-choice poll accepts later votes for further options. Raises `InvalidInput`
    for a closed or own poll, an option that does not exist or was voted for, and too many options.
    """

    async def attempt() -> Poll:
        poll = await access_poll(writes.graph, member_id, poll_id)
        shard = shard_of(member_id)
        now = writes.new_id(shard)
        _check_vote(poll, member_id, choices, milliseconds_of(now))
        ordinal, before = await _votes_before(writes, member_id, poll) if poll.multiple else (0, b"")
        if set(choices) & set(before):
            raise InvalidInput(_VOTED, field="choices")
        batch = Batch(shard)
        batch.key_add(vote_key(member_id, shard, poll.id, ordinal), now)
        batch.fresh.add(now)
        batch.assoc_add(member_id, VOTES, poll.id, now, bytes((*before, *choices)))
        for choice in choices:
            # An option is not a stored object. The association to it contains the id of the poll, so that the option's store,
            # which writes the inverse, can check whether the poll still exists.
            batch.assoc_add(member_id, CHOOSES, poll.options[choice].id, now, poll.id.to_bytes(8))
        batch.expect(poll.id)
        try:
            await writes.commit(batch)
        except KeyTaken as error:
            if poll.multiple:
                raise
            raise InvalidInput(_VOTED, field="choices") from error
        return poll

    return await retry_on_conflict(attempt)


async def _votes_before(writes: Writes, member_id: int, poll: Poll) -> tuple[int, bytes]:
    keys = [vote_key(member_id, shard_of(member_id), poll.id, ordinal) for ordinal in range(len(poll.options))]
    # Read the keys first. If another vote is committed between the two reads, its choices are read as well, and this vote then
    # fails because its key is taken.
    ordinal = len(await writes.graph.key_get(keys))
    voted = await association(writes.graph, member_id, VOTES, poll.id)
    return ordinal, voted.data if voted else b""


def _check_vote(poll: Poll, member_id: int, choices: Sequence[int], now: int) -> None:
    if poll.expires_at <= now:
        raise InvalidInput("The poll has already ended")
    if poll.owner_id == member_id:
        raise InvalidInput("You cannot vote in your own polls")
    if not choices or any(not 0 <= choice < len(poll.options) for choice in choices):
        raise InvalidInput("The chosen vote option does not exist", field="choices")
    if len(choices) > (len(set(choices)) if poll.multiple else 1):
        raise InvalidInput(_VOTED, field="choices")
