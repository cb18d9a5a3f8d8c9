"""Sign-up: the form, with or without an invitation, and the pages shown after it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta
from msgspec.structs import replace
from starlette.responses import Response

from shoal.commands import external_ids, invitations, members
from shoal.core.errors import InvalidInput, NotAllowed, Taken
from shoal.mastodon_api.browser_session import PROVIDER
from shoal.mastodon_api.registration import Joining, join, needs_approval, requires_confirmation
from shoal.queries import trends
from shoal.web import routing
from shoal.web.account import password_length
from shoal.web.authentication import begin
from shoal.web.form_errors import RIGHT, Wrong, error_text, wrong_of
from shoal.web.oidc import ProviderIdentity, end_identity, identity_of
from shoal.web.pending_actions import in_words, pending
from shoal.web.photo_grid import GridPhoto, grid_of
from shoal.web.rendering import page
from shoal.web.request_context import Form, Line, PageContext, Text, local
from shoal.web.view_models import face_of


class SignUpForm(Form, frozen=True, kw_only=True):
    username: Line = ""
    email: Line = ""
    password: Line = ""
    agreement: bool = False
    reason: Text = ""
    invite_code: Line = ""
    proof: Line = ""
    """The proof of work found by a script."""
    homepage: Line = ""


class SignUpQuery(msgspec.Struct, frozen=True, kw_only=True):
    to: Line = ""
    """The path of the page to return to after the sign-up; if empty, the onboarding follows."""


class InvitePath(SignUpQuery, frozen=True, kw_only=True):
    code: Annotated[str, Meta(max_length=100)]


class AskedWork(NamedTuple):
    """The proof of work that the browser must compute: see `shoal.core.signup`."""

    bits: int
    since: int
    """The time at which the server issued the task, in Unix seconds."""
    domain: str


_PHOTOS = 8


async def form(ctx: PageContext, path: SignUpQuery | InvitePath) -> Response:
    """Show the sign-up form, with the name of the inviter if the visitor has an invitation.

    While registrations are closed to the viewer, show a page with the alternatives.
    """
    if ctx.viewer is not None:
        return ctx.go("/")
    return await _form(
        ctx, SignUpForm(invite_code=path.code if isinstance(path, InvitePath) else "", to=local(path.to, ""))
    )


async def sign_up(ctx: PageContext, asked: SignUpForm) -> Response:
    """Create an account. A member who needs no approval is logged in and redirected to onboarding."""
    ctx.check_sent(asked)
    return await _sign_up(ctx, asked, None)


async def identity_form(ctx: PageContext, _params: None) -> Response:
    """Show the sign-up form to the user of a login provider (`web.oidc`), with a free user name like theirs."""
    identity = await identity_of(ctx)
    if ctx.viewer is not None or identity is None:
        return ctx.go("/settings/logins" if ctx.viewer else "/signup")
    name = await external_ids.free_name(ctx.writes, identity.user_name or identity.name)
    return await _form(
        ctx, SignUpForm(username=name, invite_code=identity.invite_code, to=identity.to), identity=identity
    )


async def sign_up_with_identity(ctx: PageContext, asked: SignUpForm) -> Response:
    """Create an account that is linked to the user of a login provider."""
    ctx.check_sent(asked)
    identity = await identity_of(ctx)
    return ctx.go("/signup") if identity is None else await _sign_up(ctx, asked, identity)


async def _sign_up(ctx: PageContext, asked: SignUpForm, identity: ProviderIdentity | None) -> Response:
    if asked.homepage:
        unread = ctx.words.text("This looks like an automated submission. If you are a person, please try again.")
        return await _form(ctx, asked, {"": unread}, identity)
    joining = Joining(
        username=asked.username.strip(),
        email=asked.email,
        password=asked.password,
        agreement=asked.agreement,
        language=ctx.words.code,
        reason=asked.reason.strip(),
        invite_code=asked.invite_code,
        proof=asked.proof,
    )
    if identity is not None:
        verified = await _verified_address(ctx, identity)
        joining = replace(
            joining,
            email=verified or (asked.email if requires_confirmation(ctx.app.settings) else ""),
            password="",
            external=identity.external,
            verified=verified != "",
            # The address counts even if the member does not get it: a suspended member may have it.
            claimed=identity.email or identity.claimed,
            display_name=identity.name[: ctx.limits.display_name],
        )
    try:
        member = await join(ctx.anonymous, joining)
    except InvalidInput as error:
        if identity is not None and isinstance(error, Taken) and error.field == "id":
            # Another tab has just created the member.
            return ctx.go("/login")
        wrong = wrong_of(ctx.words, error, **_rules(ctx))
        if identity is not None and "email" in wrong and not await _asks_address(ctx, identity):
            # The form has no field for the address of the provider.
            wrong = {**wrong, "": wrong["email"]}
        return await _form(ctx, asked, wrong, identity)
    except NotAllowed:
        return await _form(ctx, asked, identity=identity)
    if member.unconfirmed:
        response = ctx.go("/signup/confirm")
    elif member.pending:
        response = ctx.go("/signup/waiting")
    else:
        provider = identity.provider if identity else ""
        response = await begin(ctx, member, local(asked.to, "/welcome/interests"), provider=provider)
        ctx.browser.hold(response, PROVIDER, provider, None)
    await end_identity(ctx, response)
    return response


async def _is_taken(ctx: PageContext, identity: ProviderIdentity | None) -> bool:
    """Return whether an existing member has the address of an identity, which their provider has verified."""
    try:
        if identity is not None and identity.email:
            await members.check_free(ctx.writes, identity.email, 0)
    except Taken:
        return True
    return False


async def _verified_address(ctx: PageContext, identity: ProviderIdentity) -> str:
    """Return the address that the member gets from the provider; empty for none."""
    return "" if await _is_taken(ctx, identity) else identity.email


async def _asks_address(ctx: PageContext, identity: ProviderIdentity | None) -> bool:
    """Return whether the form must ask for an address that the member confirms by a mail."""
    if identity is None:
        return True
    return requires_confirmation(ctx.app.settings) and not await _verified_address(ctx, identity)


async def waiting(ctx: PageContext, _params: None) -> Response:
    return await page(ctx, "signup_waiting", title=ctx.words.text("Thank you"))


async def unconfirmed(ctx: PageContext, _params: None) -> Response:
    return await page(ctx, "signup_confirm", title=ctx.words.text("Check your e-mail"))


async def _form(
    ctx: PageContext, asked: SignUpForm, wrong: Wrong = RIGHT, identity: ProviderIdentity | None = None
) -> Response:
    title, settings = ctx.words.text("Sign up"), ctx.settings
    offer = None
    try:
        if asked.invite_code:
            offer = await invitations.offered(ctx.writes, asked.invite_code)
        approval = needs_approval(ctx.anonymous, invited=offer is not None)
    except InvalidInput as error:
        title = ctx.words.text("Invitation")
        views = {"why": error_text(ctx.words, error), "may_join": settings.registrations, "shown": settings}
        return await page(ctx, "invitation_over", status=410, title=title, **views)
    except NotAllowed:
        status = 403 if ctx.request.method == "POST" else 200
        shut = offer is None and not (settings.registrations and (settings.password_login or ctx.app.providers.titles))
        return await page(ctx, "signup_shut", status=status, title=title, shut=shut, shown=settings)
    return await page(
        ctx,
        "signup",
        title=title,
        action=in_words(ctx, pending(ctx, asked.to), joins=True),
        typed=asked,
        wrong=wrong,
        approval=approval,
        shown=settings,
        work=_work(ctx) if offer is None and identity is None else None,
        identity=identity,
        provider=ctx.app.providers.titles[identity.provider] if identity else "",
        asks_address=await _asks_address(ctx, identity),
        address_taken=await _is_taken(ctx, identity),
        photos=await _recent_photos(ctx),
        inviter=face_of(ctx, offer.inviter) if offer else None,
        follows=offer is not None and offer.invitation.follow,
    )


def _work(ctx: PageContext) -> AskedWork | None:
    """Return the proof of work that the browser must compute; None if the server requires none."""
    if not ctx.app.settings.signup_work:
        return None
    return AskedWork(ctx.app.settings.signup_work, time.time_ns() // 1_000_000_000, ctx.app.at.netloc)


async def _recent_photos(ctx: PageContext) -> Sequence[GridPhoto]:
    """Return photos for anonymous visitors; none if the network is closed to them."""
    if not ctx.settings.public_pages:
        return []
    return grid_of(ctx, await trends.page(ctx.reads, None, _PHOTOS)).photos


def _rules(ctx: PageContext) -> dict[str, str]:
    _ = ctx.words.text
    return {
        "username": _("Use up to 30 letters a to z, digits and underscores."),
        "email": _("Enter a valid e-mail address, such as name@example.org."),
        "password": password_length(ctx),
        "proof": _("The check of your device expired. Please try again."),
        "reason": _("Too long: at most %(most)s characters.") % {"most": ctx.limits.reason},
        "agreement": _("You must agree to the rules to sign up.")
        if ctx.settings.rules
        else _("You must agree to the terms of service to sign up."),
    }


ROUTES = (
    routing.page("/signup", form, SignUpQuery),
    routing.page("/invite/{code}", form, InvitePath, secret=True),
    routing.form("/signup", sign_up, SignUpForm, limit_class="signup", secret=True),
    routing.page("/signup/identity", identity_form, secret=True),
    routing.form("/signup/identity", sign_up_with_identity, SignUpForm, limit_class="signup", secret=True),
    routing.page("/signup/waiting", waiting),
    routing.page("/signup/confirm", unconfirmed),
)
