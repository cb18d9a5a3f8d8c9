"""Actions of anonymous visitors that are performed once they have logged in or signed up.

They are to like, share, save, follow, comment, open a draft of what another app shared (`web.sharing`), or open the editor
of a feed with the typed declaration (`web.feeds`).

The browser stores the action in a cookie for half an hour. The form of the action needs the form token of this browser,
so another site cannot cause an action. Only a login that begins on the page of the action performs it: the login page
announces the action, and any other login discards it. A typed feed stays in the cookie until the editor has shown it.
A refused action is dropped, such as a like of a post that was deleted. A refused comment opens in the compose form. A comment
that is held for moderators leads to the list of pending posts.
"""

from __future__ import annotations

import base64
import binascii
import logging
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from shoal.commands import posts, reactions, relationships
from shoal.commands.posts import Draft
from shoal.core.errors import Held, ShoalError
from shoal.core.model import Member, Visibility
from shoal.core.text import addressed, isolated
from shoal.graph.schema import BOOKMARK
from shoal.web.compose import addressees, answering, check_says_something
from shoal.web.request_context import PageContext, address, is_local
from shoal.web.view_models import entry_with_id

_LOG = logging.getLogger(__name__)
_MOST_BYTES = 3_600
"""Maximum bytes of the cookie's value. Browsers store at most 4,096 bytes of a cookie."""


_AFTER_LOGIN = {
    "like": "Log in to like this post.",
    "share": "Log in to share this post.",
    "save": "Log in to save this post.",
    "follow": "Log in to follow this person.",
    "draft": "Log in to post what you shared.",
    "feed": "Log in to continue with your feed.",
    "long_feed": (
        "Log in to continue with your feed. "
        "Without JavaScript, its declaration is too long to be kept; go back and copy it first."
    ),
}
_AFTER_SIGN_UP = {
    "like": "Sign up to like this post.",
    "share": "Sign up to share this post.",
    "save": "Sign up to save this post.",
    "follow": "Sign up to follow this person.",
    "follow_tag": "Sign up to follow this tag.",
    "comment": "Sign up to publish your comment.",
    "draft": "Sign up to post what you shared.",
    "feed": "Sign up to continue with your feed.",
    "long_feed": (
        "Sign up to continue with your feed. "
        "Without JavaScript, its declaration is too long to be kept; go back and copy it first."
    ),
}


class PendingAction(msgspec.Struct, frozen=True, omit_defaults=True):
    do: Literal["like", "share", "save", "follow", "follow_tag", "comment", "draft", "feed", "long_feed"]
    """What to do after the login. `long_feed` does nothing: it announces that the typed feed is too long to be kept."""
    id: int = 0
    """The post or member; for a feed, the member whose login passed the action on, or 0 before the login."""
    text: Annotated[str, Meta(max_length=_MOST_BYTES)] = ""
    """The comment, the tag to follow, the text of a draft, or the declaration of a feed."""
    title: Annotated[str, Meta(max_length=_MOST_BYTES)] = ""
    """The title of a feed."""
    shared: bool = False
    """Whether a feed is shared."""
    request: Annotated[str, Meta(max_length=100)] = ""

    to: Annotated[str, Meta(max_length=2_000)] = ""
    """The page of the action."""
    lost: bool = False
    """Whether files or a text of a draft were too large to be kept."""

    def at(self, page: str) -> str:
        """Return the cookie value of this action, which a login that returns to `page` performs; empty if it would be too long."""
        text = _encoded(msgspec.structs.replace(self, to=page))
        return text if len(text) <= _MOST_BYTES else ""


def _encoded(action: PendingAction) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(action)).decode()


def pending(ctx: PageContext, to: str) -> PendingAction | None:
    """Return the action that a login will perform if it returns to the page `to`; None if there is none."""
    action = decoded(ctx.browser.pending) if is_local(to) and ctx.browser.pending else None
    return action if action and action.to == to else None


def decoded(text: str) -> PendingAction | None:
    """Return the action in a cookie's value; None if the value is empty or invalid."""
    with suppress(msgspec.DecodeError, binascii.Error, ValueError, RecursionError):
        return msgspec.json.decode(base64.urlsafe_b64decode(text), type=PendingAction)
    return None


def in_words(ctx: PageContext, action: PendingAction | None, *, joins: bool = False) -> str:
    """Return a sentence with the action that the login or, with `joins`, the sign-up will perform; empty for no action."""
    _ = ctx.words.text
    if action is None or (joins and not action.lost):
        return _(_AFTER_SIGN_UP[action.do]) if action else ""
    match action:
        case PendingAction(do="comment", text=text):
            return _("Log in to publish your comment: %(text)s") % {"text": isolated(text)}
        case PendingAction(do="draft", lost=True, text=text):
            return (
                _("Log in to post what you shared. Its text is kept; share the photos again after logging in.")
                if text
                else _("Log in, then share again: what you shared was not kept.")
            )
        case PendingAction(do="follow_tag", text=tag):
            return _("Log in to follow %(name)s.") % {"name": f"#{tag}"}
        case PendingAction(do=do):
            return _(_AFTER_LOGIN[do])


async def perform(ctx: PageContext, member: Member, to: str) -> str:
    """Perform the pending action of a member who has just logged in. Return the path to redirect to, or "" to redirect to `to`."""
    action = pending(ctx, to)
    if action is None:
        return ""
    if action.do == "draft":
        return address("", "/compose", text=action.text)
    if action.do == "feed":
        return ""
    try:
        await _perform(replace(ctx, viewer=member), member, action)
    except Held:
        return "/pending"
    except ShoalError as error:
        _LOG.debug("the action %s, which waited for a login, was refused: %s", action.do, error)
        if action.do == "comment":
            return address("", "/compose", reply_to=action.id, text=action.text)
    return ""


def passed_on(ctx: PageContext, member: Member, to: str) -> str:
    """Return the cookie value with the typed feed that the login of a member passes on to the editor `to`; empty for none."""
    action = pending(ctx, to)
    if action is None or action.do != "feed" or action.id not in {0, member.id}:
        return ""
    return _encoded(msgspec.structs.replace(action, id=member.id))


def typed_feed(ctx: PageContext, page: str) -> PendingAction | None:
    """Return the feed that the member typed into the editor `page` before their login; None if there is none.

    The editor takes no values from its address, so a link cannot fill it in.
    """
    action = pending(ctx, page)
    return action if action and action.do == "feed" and action.id == ctx.viewer_id else None


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
            check_says_something(action.text)
            answered = await entry_with_id(ctx, action.id)
            values = answering(member, answered)
            draft = Draft(
                text=addressed(action.text, addressees(member, answered), writes.domain),
                visibility=Visibility(values.visibility),
                spoiler=values.spoiler,
                language=values.language,
                parent_id=action.id,
            )
            await posts.create(writes, member.id, draft, request=action.request)
