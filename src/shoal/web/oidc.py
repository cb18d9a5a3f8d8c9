"""Login with OpenID Connect providers: the redirect to a provider and the handling of its response.

A response logs in the member linked to the provider's user, confirms that a logged-in member is the owner of the account, or
leaves an *identity* in the browser for ten minutes: a user without a member, for whom the sign-up page creates a member, or whom
the settings link to an existing one. An address never joins the two.
"""

from __future__ import annotations

import hmac
import logging
import secrets
from typing import Annotated, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import Meta
from starlette.responses import Response

from shoal.commands import credentials, external_ids
from shoal.commands.authentication import is_used_up, sealed, unsealed, use_up
from shoal.core.credentials import MOST_CHARACTERS, Purpose
from shoal.core.errors import (
    Leaving,
    NotAllowed,
    NotFound,
    Taken,
    TooMany,
    Unauthenticated,
    Unavailable,
    Unconfirmed,
    Unfit,
)
from shoal.core.external_ids import ExternalId
from shoal.http.middleware import outside
from shoal.mastodon_api import login_attempts
from shoal.mastodon_api.browser_session import IDENTITY, REQUESTED
from shoal.oidc import AuthorizationRequest, DomainRefused, OidcUser
from shoal.web import routing
from shoal.web.authentication import begin, leave_to, passkey_refusal, password_refusal
from shoal.web.form_errors import RIGHT, Wrong, error_text
from shoal.web.login import ask_again, login_page
from shoal.web.ownership import owner_of, remember_owner
from shoal.web.request_context import Form, Line, PageContext, local
from shoal.web.settings_layout import NOT_SAVED, SettingsQuery, saved_at, settings_page

_log = logging.getLogger("shoal.logins")

K = TypeVar("K", bound=msgspec.Struct)

_SECONDS = 600
"""Lifetime of a request to a provider, and of an identity."""
_MOST_NAME, _MOST_PATH = 100, 1_000
"""Maximum characters of the texts in an identity: browsers store at most 4,096 bytes of a cookie."""
_ProviderName = Annotated[str, Meta(max_length=32)]
_Purpose = Literal["login", "link", "confirm"]


class _Requested(msgspec.Struct, frozen=True, array_like=True):
    """A request to a provider, as the browser keeps it."""

    provider: str
    purpose: _Purpose
    secrets: AuthorizationRequest
    to: str
    invite_code: str
    member_id: int
    """The member who sent it; 0 for a visitor."""


class ProviderIdentity(msgspec.Struct, frozen=True, array_like=True):
    """A provider's user without a linked member, as stored in the browser."""

    provider: str
    external: ExternalId
    user_name: str
    name: str
    email: str
    """A verified address, or empty."""
    claimed: str
    """An address that is not verified, or empty (`OidcUser.claimed`)."""
    to: str
    invite_code: str
    member_id: int
    """The member who asked to link it; 0 for any member of this browser."""

    @property
    def shown(self) -> str:
        """The most recognizable of the user's names."""
        return self.email or self.user_name or self.name or self.external.id


class StartForm(Form, frozen=True, kw_only=True):
    provider: _ProviderName
    purpose: _Purpose = "login"
    invite_code: Line = ""


class ReturnQuery(msgspec.Struct, frozen=True):
    """The response of a provider (RFC 6749, 4.1.2, and RFC 9207). Parameters that are not listed are ignored."""

    provider: _ProviderName
    state: Line = ""
    code: Annotated[str, Meta(max_length=8_000)] = ""
    iss: Line = ""
    error: Line = ""


def _redirect_uri(ctx: PageContext, provider: str) -> str:
    return f"{ctx.app.at.root}/login/with/{provider}/return"


async def start(ctx: PageContext, asked: StartForm) -> Response:
    """Send the browser to a provider."""
    if asked.purpose == "login":
        ctx.check_sent(asked)
    else:
        ctx.checked(asked)
    providers = ctx.app.providers
    if asked.provider not in providers.titles or (
        asked.purpose == "confirm" and not providers.reauthenticates(asked.provider)
    ):
        raise NotFound("There is no such page")
    new = AuthorizationRequest(secrets.token_urlsafe(24), secrets.token_urlsafe(24), secrets.token_urlsafe(48))
    requested = _Requested(
        asked.provider, asked.purpose, new, local(asked.to, ""), asked.invite_code[:100], ctx.viewer_id or 0
    )
    try:
        async with outside(ctx.request.scope):
            url = await providers.authorization_url(
                asked.provider, _redirect_uri(ctx, asked.provider), new, again=asked.purpose == "confirm"
            )
    except Unavailable as error:
        return await _failed(ctx, requested, error)
    response = await leave_to(ctx, url, ctx.app.providers.titles[asked.provider])
    ctx.browser.hold(response, REQUESTED, await _kept(ctx, REQUESTED, requested), _SECONDS)
    return response


async def come_back(ctx: PageContext, query: ReturnQuery) -> Response:
    """Handle the response of a provider."""
    requested = await _read(ctx, REQUESTED, _Requested)
    if (
        requested is None
        or requested.provider != query.provider
        or query.provider not in ctx.app.providers.titles
        or not hmac.compare_digest(requested.secrets.state.encode(), query.state.encode())
        # A response counts once, even if the browser kept the cookie.
        or not await use_up(ctx.writes, requested.secrets.state, _SECONDS * 1_000)
    ):
        wrong = ctx.words.text("This page has expired, or your browser blocks cookies. Try again.")
        return await login_page(ctx, "", wrong=wrong)
    try:
        response = await _answered(ctx, requested, query)
    except (Unauthenticated, Unavailable, NotAllowed, Taken) as error:
        response = await _failed(ctx, requested, error)
    ctx.browser.hold(response, REQUESTED, "", 0)
    return response


async def _answered(ctx: PageContext, requested: _Requested, query: ReturnQuery) -> Response:
    if query.error or not query.code:
        raise Unauthenticated(f"the provider responded {query.error[:100]!r}")
    async with outside(ctx.request.scope):
        user = await ctx.app.providers.user(
            requested.provider,
            _redirect_uri(ctx, requested.provider),
            requested.secrets,
            query.code,
            query.iss,
            again=requested.purpose == "confirm",
        )
    member = await external_ids.find(ctx.graph, user.external)
    if requested.purpose == "confirm":
        if member is None or not member.id == ctx.viewer_id == requested.member_id:
            raise NotAllowed(
                ctx.words.text("This is not the account that is linked to yours. Try again with that one.")
            )
        response = ctx.go(local(requested.to))
        await remember_owner(ctx, response, member)
        return response
    if requested.purpose == "link":
        if ctx.viewer_id != requested.member_id:
            raise NotAllowed(ctx.words.text("This page has expired, or your browser blocks cookies. Try again."))
        if member is not None and member.id != ctx.viewer_id:
            raise Taken("another member is linked to this account")
        if member is not None:
            return ctx.go("/settings/logins")
        return await _keep_identity(ctx, requested, user, "/settings/logins")
    if member is None:
        return await _keep_identity(ctx, requested, user, "/signup/identity")
    try:
        await login_attempts.welcomed(ctx.anonymous, member)
    except Leaving:
        response = ctx.go("/comeback")
        await remember_owner(ctx, response, member)
        return response
    except Unconfirmed:
        return await ask_again(ctx, member.name)
    return await begin(ctx, member, requested.to, provider=requested.provider)


async def _keep_identity(ctx: PageContext, requested: _Requested, user: OidcUser, path: str) -> Response:
    identity = ProviderIdentity(
        requested.provider,
        user.external,
        user.user_name[:_MOST_NAME],
        user.name[:_MOST_NAME],
        user.email,
        user.claimed,
        requested.to if len(requested.to) <= _MOST_PATH else "",
        requested.invite_code,
        requested.member_id if requested.purpose == "link" else 0,
    )
    response = ctx.go(path)
    ctx.browser.hold(response, IDENTITY, await _kept(ctx, IDENTITY, identity), _SECONDS)
    return response


async def _failed(
    ctx: PageContext, requested: _Requested, error: Unauthenticated | Unavailable | NotAllowed | Taken
) -> Response:
    _, names = ctx.words.text, {"provider": ctx.app.providers.titles[requested.provider]}
    _log.warning("login failed: reason=%r provider=%s", str(error), requested.provider)
    status = 403
    match error:
        case DomainRefused():
            wrong = (
                _("Your account at %(provider)s has no verified e-mail address with which you can log in here.") % names
            )
        case Taken():
            wrong = _taken(ctx)
        case NotAllowed():
            wrong = error_text(ctx.words, error)
        case Unauthenticated():
            wrong = _("Logging in with %(provider)s failed. Try again.") % names
        case _:
            wrong, status = _("%(provider)s can't be reached now. Try again later.") % names, 503
    if requested.purpose == "login" or ctx.viewer is None:
        response = await login_page(ctx, requested.to, wrong=wrong)
    else:
        response = await show(ctx, wrong={"": wrong})
    response.status_code = status
    return response


def _taken(ctx: PageContext) -> str:
    return ctx.words.text("This account is linked to another member.")


async def _kept(ctx: PageContext, purpose: str, what: msgspec.Struct) -> str:
    return await sealed(ctx.writes, purpose.encode(), msgspec.msgpack.encode(what))


async def _read(ctx: PageContext, purpose: str, kind: type[K]) -> K | None:
    data = await unsealed(ctx.writes, purpose.encode(), ctx.browser.read(purpose), _SECONDS * 1_000)
    try:
        return msgspec.msgpack.decode(data, type=kind) if data else None
    except msgspec.DecodeError:
        # Another version of this server wrote it.
        return None


async def identity_of(ctx: PageContext) -> ProviderIdentity | None:
    """Return the identity in the browser, if it was not used, its provider is in the settings and the viewer may use it."""
    found = await _read(ctx, IDENTITY, ProviderIdentity)
    if found is None or ctx.app.providers.issuer(found.provider) != found.external.issuer:
        return None
    if found.member_id not in {0, ctx.viewer_id} or await is_used_up(ctx.writes, ctx.browser.read(IDENTITY)):
        return None
    return found


async def end_identity(ctx: PageContext, response: Response) -> None:
    """Use up the identity in the browser, after it was linked, has signed up, or was declined."""
    if text := ctx.browser.read(IDENTITY):
        await use_up(ctx.writes, text, _SECONDS * 1_000)
        ctx.browser.hold(response, IDENTITY, "", 0)


class LoginRow(NamedTuple):
    """A login provider in the settings, and whether the viewer's account is linked to it."""

    name: str
    title: str
    linked: bool


class LinkForm(Form, frozen=True, kw_only=True):
    do: Literal["link", "cancel"] = "link"
    code: Annotated[str, Meta(max_length=MOST_CHARACTERS)] = ""


class UnlinkForm(Form, frozen=True, kw_only=True):
    provider: _ProviderName
    code: Annotated[str, Meta(max_length=MOST_CHARACTERS)] = ""


class ConfirmForm(Form, frozen=True, kw_only=True):
    password: Line = ""
    answer: Annotated[str, Meta(max_length=MOST_CHARACTERS)] = ""
    """The response of a passkey."""


async def show(
    ctx: PageContext, query: SettingsQuery = NOT_SAVED, wrong: Wrong = RIGHT, unlinked: str = ""
) -> Response:
    """Show the providers to which the account is linked, and the identity that may be linked.

    `unlinked` is the name of a provider for whose removal the page asks for the second-factor code.
    """
    if not ctx.app.providers.titles:
        raise NotFound("There is no such page")
    linked = {external.issuer for external in await external_ids.of_member(ctx.graph, ctx.member.id)}
    titles = ctx.app.providers.titles
    found = await identity_of(ctx)
    return await settings_page(
        ctx,
        "logins",
        wrong=wrong,
        saved=query.saved,
        rows=[LoginRow(name, title, ctx.app.providers.issuer(name) in linked) for name, title in titles.items()],
        identity=found,
        provider=titles[found.provider] if found else "",
        unlinked=unlinked if unlinked in titles else "",
        second=ctx.member.second_factor,
    )


async def _code_refused(ctx: PageContext, code: str, unlinked: str = "") -> Response | None:
    """Return a page that asks for the second-factor code again; None if the code is valid, or the member has no second factor."""
    if not ctx.member.second_factor:
        return None
    try:
        if await login_attempts.code_counts(ctx.anonymous, ctx.member, code, Purpose.CONFIRM):
            return None
    except TooMany as error:
        refusal = password_refusal(ctx.words, error)
        return refusal.on(await show(ctx, wrong={"code": refusal.words}, unlinked=unlinked))
    return await show(ctx, wrong={"code": ctx.words.text("Incorrect code or passkey.")}, unlinked=unlinked)


async def link(ctx: PageContext, asked: LinkForm) -> Response:
    """Link the identity in the browser to the viewer's account."""
    member, found = ctx.checked(asked), await identity_of(ctx)
    if asked.do == "link":
        _check_not_shared(ctx)
        if not (await owner_of(ctx)).confirmed:
            return await show(ctx)
        if found is None:
            return await show(ctx, wrong={"": ctx.words.text("This page has expired. Open it again.")})
        if refused := await _code_refused(ctx, asked.code):
            return refused
        known = await external_ids.of_member(ctx.graph, member.id)
        try:
            await external_ids.link(ctx.writes, member.id, found.external, own=True)
            if found.external not in known:
                await credentials.notify_linked(ctx.writes, member, ctx.app.providers.titles[found.provider])
        except (Taken, Unfit) as error:
            most = ctx.words.text("You have linked the maximum number of accounts.")
            return await show(ctx, wrong={"": _taken(ctx) if isinstance(error, Taken) else most})
    response = saved_at(ctx, "logins") if asked.do == "link" else ctx.go("/settings/logins")
    await end_identity(ctx, response)
    return response


def _check_not_shared(ctx: PageContext) -> None:
    if ctx.member.id == ctx.app.demo_member:
        raise NotAllowed(ctx.words.text("Login providers are disabled for the shared demo account."))


async def unlink(ctx: PageContext, asked: UnlinkForm) -> Response:
    """Remove a provider from the viewer's account, unless no other way to log in is left."""
    member = ctx.checked(asked)
    _check_not_shared(ctx)
    if not (await owner_of(ctx)).confirmed:
        return await show(ctx)
    if member.second_factor and not asked.code:
        return await show(ctx, unlinked=asked.provider)
    if refused := await _code_refused(ctx, asked.code, asked.provider):
        return refused
    providers, title = ctx.app.providers, ctx.app.providers.titles.get(asked.provider, "")
    try:
        await external_ids.unlink_provider(
            ctx.writes, member.id, providers.issuer(asked.provider), title, providers.issuers
        )
    except NotAllowed as error:
        return await show(ctx, wrong={"": error_text(ctx.words, error)})
    return saved_at(ctx, "logins")


async def confirm(ctx: PageContext, asked: ConfirmForm) -> Response:
    """Remember for some minutes that the viewer entered their password or used their passkey."""
    member, wrong = ctx.checked(asked), ""
    try:
        if asked.answer:
            if not await login_attempts.confirms_by_passkey(ctx.anonymous, member, asked.answer):
                wrong = passkey_refusal(ctx.words, Unauthenticated()).words
        elif not await login_attempts.is_owner(ctx.anonymous, member, asked.password):
            wrong = ctx.words.text("Incorrect password.")
    except (NotAllowed, TooMany) as error:
        refusal = password_refusal(ctx.words, error)
        return refusal.on(await show(ctx, wrong={"": refusal.words}))
    if wrong:
        return await show(ctx, wrong={"": wrong})
    response = ctx.go(local(asked.to, "/settings"))
    await remember_owner(ctx, response, member)
    return response


ROUTES = (
    routing.form("/login/with", start, StartForm, limit_class="oidc", secret=True),
    routing.page("/login/with/{provider}/return", come_back, ReturnQuery, once=True, limit_class="oidc", secret=True),
    routing.page("/settings/logins", show, SettingsQuery, secret=True),
    routing.form("/settings/logins", link, LinkForm, limit_class="login", secret=True),
    routing.form("/settings/logins/unlink", unlink, UnlinkForm, limit_class="login", secret=True),
    routing.form("/settings/confirm", confirm, ConfirmForm, limit_class="login", secret=True),
)
