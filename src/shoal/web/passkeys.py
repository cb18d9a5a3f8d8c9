"""Log in with a passkey; add, rename and remove passkeys.

A script asks the device for the key. Adding or removing a passkey requires proof of identity.
"""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta
from starlette.responses import JSONResponse, Response

from shoal.commands import authentication, passkeys, sessions
from shoal.core.credentials import MOST_CHARACTERS, MOST_NAME, Passkey, Purpose, read_assertion, site_of
from shoal.core.errors import InvalidInput, Leaving, NotAllowed, NotFound, TooMany, Unauthenticated, Unconfirmed
from shoal.core.model import Member
from shoal.graph.access import get_object
from shoal.mastodon_api import login_attempts
from shoal.web import routing
from shoal.web.authentication import begin, passkey_refusal, password_refusal
from shoal.web.form_errors import RIGHT, Wrong, wrong_of
from shoal.web.login import login_page
from shoal.web.ownership import proof, remember_owner
from shoal.web.request_context import Form, Line, PageContext
from shoal.web.sessions import program_of
from shoal.web.settings_layout import SettingsQuery, saved_at, settings_page


class QuestionQuery(msgspec.Struct, frozen=True):
    kind: Literal["login", "second", "confirm", "owner", "add"] = "login"


class ByPasskey(Form, frozen=True, kw_only=True):
    answer: Annotated[str, Meta(max_length=MOST_CHARACTERS)] = ""


async def question(ctx: PageContext, query: QuestionQuery) -> Response:
    """Return the options of a WebAuthn call as JSON. To an anonymous caller they reveal nothing about accounts."""
    return JSONResponse(await _options(ctx, query))


async def _options(ctx: PageContext, query: QuestionQuery) -> dict[str, object]:
    site, writes = site_of(ctx.app.at.root, ctx.app.settings.title), ctx.app.writes
    match query.kind:
        case "login":
            return await authentication.passkey_options(writes, site, Purpose.LOG_IN)
        case "second":
            found = await sessions.halfway(writes, ctx.browser.login)
            if found is None:
                raise NotFound("There is no such page")
            return await authentication.passkey_options(writes, site, Purpose.SECOND, found.member)
        case "confirm":
            return await authentication.passkey_options(writes, site, Purpose.CONFIRM, ctx.member)
        case "owner":
            return await authentication.passkey_options(writes, site, Purpose.OWNER, ctx.member)
        case "add":
            return await passkeys.options(writes, site, ctx.member)


async def log_in(ctx: PageContext, asked: ByPasskey) -> Response:
    ctx.check_sent(asked)
    try:
        member = await login_attempts.by_passkey(ctx.anonymous, asked.answer)
    except Leaving:
        # The passkey was verified, so its member is the one who wants to come back.
        response = ctx.go("/comeback")
        leaving = await get_object(ctx.graph, Member, read_assertion(asked.answer).member_id)
        await remember_owner(ctx, response, leaving)
        return response
    except Unconfirmed:
        return ctx.go("/signup/confirm")
    except (Unauthenticated, NotAllowed, TooMany) as error:
        refusal = passkey_refusal(ctx.words, error)
        return refusal.on(await login_page(ctx, asked.to, wrong=refusal.words))
    return await begin(ctx, member, asked.to, proved=True)


class PasskeyRow(NamedTuple):
    id: str
    name: str
    made: str
    used: str


def _passkey_row(ctx: PageContext, passkey: Passkey) -> PasskeyRow:
    used = ctx.words.day(passkey.used_at) if passkey.used_at else ""
    return PasskeyRow(passkey.id, passkey.name, ctx.words.day(passkey.made_at), used)


_Id = Annotated[str, Meta(max_length=16, pattern="^[0-9a-f]*$")]
_Answer = Annotated[str, Meta(max_length=MOST_CHARACTERS)]


class PasskeyQuery(msgspec.Struct, frozen=True):
    id: _Id


class AddPasskeyForm(Form, frozen=True, kw_only=True):
    name: Line = ""
    answer: _Answer = ""
    current_password: Line = ""
    code: _Answer = ""


class NameForm(Form, frozen=True, kw_only=True):
    id: _Id
    name: Line = ""


class RemovePasskeyForm(Form, frozen=True, kw_only=True):
    id: _Id
    current_password: Line = ""
    code: _Answer = ""


async def show(ctx: PageContext, query: SettingsQuery) -> Response:
    return await _page(ctx, saved=query.saved)


async def add(ctx: PageContext, asked: AddPasskeyForm) -> Response:
    member = ctx.checked(asked)
    try:
        _check_not_shared(ctx)
        await login_attempts.add_passkey(
            ctx.anonymous,
            member.id,
            asked.name.strip(),
            asked.answer,
            await proof(ctx, asked.current_password),
            asked.code,
        )
    except (InvalidInput, NotAllowed, TooMany) as error:
        return await _refused(ctx, error, name=asked.name)
    return saved_at(ctx, "passkeys")


async def show_one(ctx: PageContext, query: PasskeyQuery) -> Response:
    return await _page(ctx, await _row(ctx, query.id))


async def rename(ctx: PageContext, asked: NameForm) -> Response:
    member = ctx.checked(asked)
    try:
        await passkeys.rename(ctx.writes, member.id, asked.id, asked.name.strip())
    except InvalidInput as error:
        return await _refused(ctx, error, await _row(ctx, asked.id), name=asked.name)
    return saved_at(ctx, "passkeys")


async def remove(ctx: PageContext, asked: RemovePasskeyForm) -> Response:
    member = ctx.checked(asked)
    row = await _row(ctx, asked.id)
    try:
        password = await proof(ctx, asked.current_password)
        await login_attempts.remove_passkey(ctx.anonymous, member.id, asked.id, password, asked.code)
    except (InvalidInput, NotAllowed, TooMany) as error:
        return await _refused(ctx, error, row)
    return saved_at(ctx, "passkeys")


def _check_not_shared(ctx: PageContext) -> None:
    if ctx.member.id == ctx.app.demo_member:
        raise NotAllowed(ctx.words.text("Passkeys are disabled for the shared demo account."))


async def _row(ctx: PageContext, id_: str) -> PasskeyRow:
    for passkey in await passkeys.of_member(ctx.writes, ctx.member.id):
        if passkey.id == id_:
            return _passkey_row(ctx, passkey)
    raise NotFound("There is no such page")


async def _refused(
    ctx: PageContext, error: InvalidInput | NotAllowed | TooMany, row: PasskeyRow | None = None, *, name: str = ""
) -> Response:
    _ = ctx.words.text
    if isinstance(error, InvalidInput):
        known = {
            "current_password": _("Incorrect password."),
            "code": _("Incorrect code or passkey."),
        }
        found = wrong_of(ctx.words, error, **known)
        if "answer" in found:
            found = {"": found["answer"]}
        return await _page(ctx, row, found, name=name)
    refusal = password_refusal(ctx.words, error)
    field = "" if isinstance(error, NotAllowed) else "current_password"
    return refusal.on(await _page(ctx, row, {field: refusal.words}, name=name))


async def _page(
    ctx: PageContext, row: PasskeyRow | None = None, wrong: Wrong = RIGHT, *, saved: bool = False, name: str = ""
) -> Response:
    """Return the page of the passkey in `row`; if `row` is None, the page that lists all passkeys."""
    member = ctx.member
    found = await passkeys.of_member(ctx.writes, member.id)
    return await settings_page(
        ctx,
        "passkeys",
        template="passkey" if row else "",
        wrong=wrong,
        saved=saved,
        one=row,
        passkeys=[_passkey_row(ctx, passkey) for passkey in found],
        may_add=len(found) < passkeys.MOST,
        most=passkeys.MOST,
        second=member.second_factor,
        typed=name or program_of(ctx, ctx.origin.first(0)),
        longest=MOST_NAME,
    )


ROUTES = (
    routing.page("/login/passkey", question, QuestionQuery, secret=True),
    routing.form("/login/passkey", log_in, ByPasskey, limit_class="login", secret=True),
    routing.page("/settings/passkeys", show, SettingsQuery, secret=True),
    routing.form("/settings/passkeys", add, AddPasskeyForm, limit_class="login", secret=True),
    routing.page("/settings/passkeys/{id}", show_one, PasskeyQuery, secret=True),
    routing.form("/settings/passkeys/{id}", rename, NameForm, secret=True),
    routing.form("/settings/passkeys/{id}/remove", remove, RemovePasskeyForm, limit_class="login", secret=True),
)
