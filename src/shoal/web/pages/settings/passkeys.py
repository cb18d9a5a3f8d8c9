"""Passkeys: added by a script that asks the device, named, and removed."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.responses import Response

from shoal.commands import passkeys
from shoal.core.credentials import MOST_CHARACTERS, MOST_NAME
from shoal.core.errors import InvalidInput, NotAllowed, NotFound, TooMany
from shoal.mastodon_api import login_attempts
from shoal.web import rows
from shoal.web.pages.settings.frame import SettingsQuery, saved_at, settings_page
from shoal.web.views.errors.passwords import password_refusal
from shoal.web.views.errors.refusals import RIGHT, Wrong, told, wrong_of
from shoal.web.views.settings.passkeys import PasskeyRow, passkey_row
from shoal.web.views.settings.sessions import program_of
from shoal.web.visit import Form, Visit

_Id = Annotated[str, Meta(max_length=16, pattern="^[0-9a-f]*$")]
_Typed = Annotated[str, Meta(max_length=2_000)]
_Answer = Annotated[str, Meta(max_length=MOST_CHARACTERS)]


class PasskeyQuery(msgspec.Struct, frozen=True):
    """One passkey."""

    id: _Id


class AddPasskeyForm(Form, frozen=True, kw_only=True):
    """A passkey that a device has made, its name, and proof of who adds it."""

    name: _Typed = ""
    answer: _Answer = ""
    current_password: _Typed = ""
    code: _Answer = ""


class NameForm(Form, frozen=True, kw_only=True):
    """Another name of a passkey."""

    id: _Id
    name: _Typed = ""


class RemovePasskeyForm(Form, frozen=True, kw_only=True):
    """The passkey that is to go, and proof of who wants that."""

    id: _Id
    current_password: _Typed = ""
    code: _Answer = ""


async def show(visit: Visit, query: SettingsQuery) -> Response:
    """All passkeys, and the form for another one."""
    return await _page(visit, saved=query.saved)


async def add(visit: Visit, asked: AddPasskeyForm) -> Response:
    """Add what the device has made."""
    member = visit.checked(asked)
    try:
        _check_not_lent(visit)
        await login_attempts.add_passkey(
            visit.anonymous, member.id, asked.name.strip(), asked.answer, asked.current_password, asked.code
        )
    except (InvalidInput, NotAllowed, TooMany) as error:
        return await _refused(visit, error, name=asked.name)
    return saved_at(visit, "passkeys")


async def show_one(visit: Visit, query: PasskeyQuery) -> Response:
    """One passkey: its name, and removing it."""
    return await _page(visit, await _row(visit, query.id))


async def rename(visit: Visit, asked: NameForm) -> Response:
    """Give it another name."""
    member = visit.checked(asked)
    try:
        await passkeys.rename(visit.front.writes, member.id, asked.id, asked.name.strip())
    except InvalidInput as error:
        return await _refused(visit, error, await _row(visit, asked.id), name=asked.name)
    return saved_at(visit, "passkeys")


async def remove(visit: Visit, asked: RemovePasskeyForm) -> Response:
    """Remove it."""
    member = visit.checked(asked)
    row = await _row(visit, asked.id)
    try:
        await login_attempts.remove_passkey(visit.anonymous, member.id, asked.id, asked.current_password, asked.code)
    except (InvalidInput, NotAllowed, TooMany) as error:
        return await _refused(visit, error, row)
    return saved_at(visit, "passkeys")


def _check_not_lent(visit: Visit) -> None:
    if visit.member.id == visit.front.demo_member:
        raise NotAllowed(
            visit.words.text("Everybody logs in as this member here: a passkey would be one visitor's alone.")
        )


async def _row(visit: Visit, id_: str) -> PasskeyRow:
    for one in await passkeys.of_member(visit.front.writes, visit.member.id):
        if one.id == id_:
            return passkey_row(visit, one)
    raise NotFound("There is no such page")


async def _refused(
    visit: Visit, error: InvalidInput | NotAllowed | TooMany, row: PasskeyRow | None = None, *, name: str = ""
) -> Response:
    _ = visit.words.text
    if isinstance(error, InvalidInput):
        known = {
            "current_password": _("This is not your password."),
            "code": _("This is neither a code that counts now, nor the answer of a passkey of yours."),
        }
        found = wrong_of(visit.words, error, **known)
        if "answer" in found:
            found = {"": found["answer"]}
        return await _page(visit, row, found, name=name)
    if isinstance(error, NotAllowed):
        response = await _page(visit, row, {"": told(visit.words, error)}, name=name)
        response.status_code = 403
        return response
    refusal = password_refusal(visit.words, error)
    return refusal.on(await _page(visit, row, {"current_password": refusal.words}, name=name))


async def _page(
    visit: Visit, row: PasskeyRow | None = None, wrong: Wrong = RIGHT, *, saved: bool = False, name: str = ""
) -> Response:
    """Return the page of one passkey, or that of all of them."""
    member = visit.member
    found = await passkeys.of_member(visit.front.writes, member.id)
    return await settings_page(
        visit,
        "passkeys",
        template="passkey" if row else "",
        wrong=wrong,
        saved=saved,
        one=row,
        passkeys=[passkey_row(visit, one) for one in found],
        room=len(found) < passkeys.MOST,
        most=passkeys.MOST,
        member_name=member.name,
        second=member.second_factor,
        typed=name or program_of(visit, visit.origin.first(0)),
        longest=MOST_NAME,
    )


ROUTES = (
    rows.page("/settings/passkeys", show, SettingsQuery, secret=True),
    rows.form("/settings/passkeys", add, AddPasskeyForm, limit_class="login", secret=True),
    rows.page("/settings/passkeys/{id}", show_one, PasskeyQuery, secret=True),
    rows.form("/settings/passkeys/{id}", rename, NameForm, secret=True),
    rows.form("/settings/passkeys/{id}/remove", remove, RemovePasskeyForm, limit_class="login", secret=True),
)
