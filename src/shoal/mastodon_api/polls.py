"""Polls: show them and vote, and the parameters of a new poll."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from shoal.commands import polls
from shoal.commands.polls import PollDraft
from shoal.core.errors import NotFound
from shoal.core.ids import milliseconds_of, shard_of
from shoal.core.text import is_blank
from shoal.graph.access import access_poll
from shoal.http.errors import Malformed
from shoal.http.params import Id
from shoal.mastodon_api.context import Context, One, Router, actor, entry_of
from shoal.mastodon_api.entities import serializers
from shoal.mastodon_api.entities.statuses import Poll

router = Router()

_Option = Annotated[str, Meta(max_length=10_000)]
_Position = Annotated[int, Meta(ge=-1_000_000, le=1_000_000)]
"""The index of an option.

The range is wider than any poll, so that a vote for a missing option gets the error message that clients look for.
"""


class PollParams(msgspec.Struct, frozen=True):
    """A poll of a status. Blank options are ignored, because clients send unfilled rows."""

    options: Annotated[tuple[_Option, ...], Meta(max_length=100)] = ()
    expires_in: Annotated[int, Meta(ge=0, le=10_000_000_000)] | None = None
    """Seconds until the poll closes."""
    multiple: bool = False
    hide_totals: bool = False

    def draft(self) -> PollDraft | None:
        """Return the draft of the poll; None if the request has neither options nor an expiry."""
        if not self.options and self.expires_in is None:
            return None
        return PollDraft(
            options=tuple(option for option in self.options if not is_blank(option)),
            seconds=self.expires_in,
            multiple=self.multiple,
            hide_totals=self.hide_totals,
        )


class Votes(msgspec.Struct, frozen=True):
    id: Id
    choices: Annotated[tuple[_Position, ...], Meta(max_length=100)]


@router.get("/api/v1/polls/{id}", auth="optional", scope="read:statuses", answer=Poll)
async def get_poll(context: Context, params: One) -> object:
    """Show a poll by id."""
    return await _shown(context, params.id)


@router.post("/api/v1/polls/{id}/votes", scope="write:statuses", answer=Poll)
async def vote(context: Context, params: Votes) -> object:
    """Vote in a poll. If it has multiple choices, the caller may vote again for other options."""
    if not params.choices:
        raise Malformed("choices is missing", field="choices")
    await polls.vote(context.app.writes, actor(context), params.id, params.choices)
    return await _shown(context, params.id)


async def _shown(context: Context, poll_id: int) -> object:
    poll = await access_poll(context.app.graph, context.caller.member_id, poll_id)
    view = (await entry_of(context, poll.post_id)).poll
    if view is None:
        raise NotFound("Record not found")
    now = milliseconds_of(context.app.writes.new_id(shard_of(poll.id)))
    return serializers.poll(view, context.caller.member_id, now)
