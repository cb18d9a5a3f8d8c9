"""Actions of anonymous visitors that are performed once they have logged in or signed up: like, share, save, follow, comment.

The browser stores the action in a cookie for half an hour. It was submitted with the form token of this browser, so no other site
can make a visitor act. An action that is refused, such as one on a post deleted since, is dropped.
"""

from __future__ import annotations

import base64
import binascii
import logging
from contextlib import suppress
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from shoal.commands import posts, reactions, relationships
from shoal.commands.posts import Draft
from shoal.core.errors import ShoalError
from shoal.core.model import Member, Visibility
from shoal.graph.schema import BOOKMARK
from shoal.web.compose import answering
from shoal.web.request_context import PageContext
from shoal.web.view_models import entry_with_id

_LOG = logging.getLogger(__name__)
_MOST_BYTES = 3_000
"""Browsers store at most 4,096 bytes of a cookie."""


class PendingAction(msgspec.Struct, frozen=True, omit_defaults=True):
    do: Literal["like", "share", "save", "follow", "follow_tag", "comment"]
    id: int = 0
    """The post, or the member to follow."""
    text: Annotated[str, Meta(max_length=_MOST_BYTES)] = ""
    """The comment, or the tag to follow."""
    request: Annotated[str, Meta(max_length=100)] = ""
    """The idempotency key of the comment."""

    def encoded(self) -> str:
        """Return the value of the cookie; empty if it would be too long."""
        text = base64.urlsafe_b64encode(msgspec.json.encode(self)).decode()
        return text if len(text) <= _MOST_BYTES else ""


def decoded(text: str) -> PendingAction | None:
    """Return the action in a cookie; None if there is none or the value is invalid."""
    with suppress(msgspec.DecodeError, binascii.Error, ValueError):
        return msgspec.json.decode(base64.urlsafe_b64decode(text), type=PendingAction)
    return None


async def perform(ctx: PageContext, member: Member) -> None:
    """Perform the action that the browser stored, if any, for the member who has just logged in."""
    action = decoded(ctx.browser.pending) if ctx.browser.pending else None
    if action is None:
        return
    try:
        await _perform(ctx, member, action)
    except ShoalError as error:
        _LOG.debug("a pending %s was refused: %s", action.do, error)


async def _perform(ctx: PageContext, member: Member, action: PendingAction) -> None:
    writes = ctx.writes
    match action.do:
        case "like":
            await reactions.like(writes, member.id, action.id)
        case "share":
            await reactions.share(writes, member.id, action.id)
        case "save":
            await reactions.mark(writes, member.id, action.id, mark=BOOKMARK)
        case "follow":
            await relationships.follow(writes, member.id, action.id)
        case "follow_tag":
            await relationships.follow_tag(writes, member.id, action.text)
        case "comment":
            values = answering(member, await entry_with_id(ctx, action.id))
            draft = Draft(
                text=values.text + action.text,
                visibility=Visibility(values.visibility),
                language=values.language,
                parent_id=action.id,
            )
            await posts.create(writes, member.id, draft, request=action.request)
