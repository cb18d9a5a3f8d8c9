"""Sign-up: the form, with or without an invitation, and the pages shown after it."""

from __future__ import annotations

import time
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta
from starlette.responses import Response

from shoal.commands import invitations
from shoal.core.errors import InvalidInput, NotAllowed
from shoal.mastodon_api.registration import Joining, join, needs_approval
from shoal.queries import trends
from shoal.web import routing
from shoal.web.account import password_length
from shoal.web.authentication import begin
from shoal.web.explore import WallPhoto, wall_of
from shoal.web.form_errors import RIGHT, Wrong, told, wrong_of
from shoal.web.rendering import page
from shoal.web.request_context import Form, Line, Text, Visit
from shoal.web.view_models import face_of


class SignUpForm(Form, frozen=True, kw_only=True):
    username: Line = ""
    email: Line = ""
    password: Line = ""
    agreement: bool = False
    reason: Text = ""
    invite_code: Line = ""
    """The code of the invitation link that opened the form."""
    proof: Line = ""
    """The proof of work found by a script."""
    homepage: Line = ""
    """A honeypot: the field is hidden, so only bots fill it in."""


class InvitePath(msgspec.Struct, frozen=True):
    code: Annotated[str, Meta(max_length=100)]


class AskedWork(NamedTuple):
    """A proof-of-work challenge for the browser: see `shoal.core.signup`."""

    bits: int
    since: int
    """When it was issued, in Unix seconds."""
    domain: str


_PHOTOS = 8
"""Photos next to the form."""


async def form(visit: Visit, path: InvitePath | None) -> Response:
    """Show the sign-up form, with the name of the member who sent the invitation if there is one.

    While registrations are closed to the viewer, show a page with the alternatives.
    """
    if visit.viewer is not None:
        return visit.go("/")
    return await _form(visit, SignUpForm(invite_code=path.code if path else ""))


async def sign_up(visit: Visit, asked: SignUpForm) -> Response:
    """Create an account. A member who needs no approval is logged in and redirected to the onboarding."""
    visit.check_sent(asked)
    if asked.homepage:
        unread = visit.words.text("It seems that a program filled this in. If you are a person, please try once more.")
        return await _form(visit, asked, {"": unread})
    try:
        joining = Joining(
            username=asked.username.strip(),
            email=asked.email,
            password=asked.password,
            agreement=asked.agreement,
            language=visit.words.code,
            reason=asked.reason.strip(),
            invite_code=asked.invite_code,
            proof=asked.proof,
        )
        member = await join(visit.anonymous, joining)
    except InvalidInput as error:
        return await _form(visit, asked, wrong_of(visit.words, error, **_rules(visit)))
    except NotAllowed:
        return await _form(visit, asked)
    if member.unconfirmed:
        return visit.go("/signup/confirm")
    if member.pending:
        return visit.go("/signup/waiting")
    return await begin(visit, member, "/welcome/interests")


async def waiting(visit: Visit, _params: None) -> Response:
    """Show the page for members who wait for approval."""
    return await page(visit, "signup_waiting", title=visit.words.text("Thank you"))


async def unconfirmed(visit: Visit, _params: None) -> Response:
    """Show the page for members who must confirm their email address."""
    return await page(visit, "signup_confirm", title=visit.words.text("Check your mail"))


async def _form(visit: Visit, asked: SignUpForm, wrong: Wrong = RIGHT) -> Response:
    title, settings = visit.words.text("Join"), visit.settings
    offer = None
    try:
        if asked.invite_code:
            offer = await invitations.offered(visit.writes, asked.invite_code)
        approval = needs_approval(visit.anonymous, invited=offer is not None)
    except InvalidInput as error:
        title = visit.words.text("Invitation")
        views = {"why": told(visit.words, error), "may_join": settings.registrations, "shown": settings}
        return await page(visit, "invitation_over", status=410, title=title, **views)
    except NotAllowed:
        status = 403 if visit.request.method == "POST" else 200
        shut = not settings.registrations and offer is None
        return await page(visit, "signup_shut", status=status, title=title, shut=shut, shown=settings)
    return await page(
        visit,
        "signup",
        title=title,
        typed=asked,
        wrong=wrong,
        approval=approval,
        shown=settings,
        work=_work(visit) if offer is None else None,
        wall=await _wall(visit),
        inviter=face_of(visit, offer.inviter) if offer else None,
        follows=offer is not None and offer.invitation.follow,
    )


def _work(visit: Visit) -> AskedWork | None:
    """Return the proof-of-work challenge, or None if there is none."""
    front = visit.front
    if not front.settings.signup_work:
        return None
    return AskedWork(front.settings.signup_work, time.time_ns() // 1_000_000_000, front.at.netloc)


async def _wall(visit: Visit) -> list[WallPhoto]:
    """Return photos for anonymous visitors; none if the network is closed to them."""
    if not visit.settings.public_pages:
        return []
    return wall_of(visit, await trends.page(visit.reads, None, _PHOTOS))


def _rules(visit: Visit) -> dict[str, str]:
    _ = visit.words.text
    return {
        "username": _("A user name is made of the letters a to z, digits and the underscore, 30 at most."),
        "email": _("This is no e-mail address. One looks like name@example.org."),
        "password": password_length(visit),
        "proof": _("Your device counted for too long, or for another name. Please try once more."),
        "reason": _("This is too long: %(most)s characters at most.") % {"most": visit.limits.reason},
    }


ROUTES = (
    routing.page("/signup", form),
    routing.page("/invite/{code}", form, InvitePath, secret=True),
    routing.form("/signup", sign_up, SignUpForm, limit_class="signup", secret=True),
    routing.page("/signup/waiting", waiting),
    routing.page("/signup/confirm", unconfirmed),
)
