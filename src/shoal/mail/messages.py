"""The texts of mails, in the language of the recipient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from shoal.core.email import MailKind
from shoal.i18n import LANGUAGES, Translated, words_in
from shoal.mail.mailers import Letter


class Stationery(NamedTuple):
    """The name of the network and the root of its links, common to all mails."""

    title: str
    base_url: str


class About(NamedTuple):
    """The member and the event that a mail is about."""

    kind: MailKind
    to: str
    """E-mail address."""
    name: str
    at: int
    """In Unix milliseconds."""
    proof: str = ""
    """Token of the link; empty for kinds without one."""
    address: str = ""
    """The member's current address."""
    place: str = ""
    """Network address of a login."""
    passkey: str = ""
    """Name of the passkey."""


class _Said(NamedTuple):
    subject: str
    before: Sequence[str]
    button: str
    path: str
    after: Sequence[str]


def write(stationery: Stationery, about: About, language: str) -> Letter:
    """Return a mail, in English if `language` (a code such as "de") is not available."""
    words = words_in(language if language in LANGUAGES else "en")
    said, foot = _said(words, about, stationery.title), _foot(words, about, stationery)
    return _letter(stationery, words, about.to, said, foot)


def trial(stationery: Stationery, to: str, language: str) -> Letter:
    """Return a test mail for operators."""
    words = words_in(language if language in LANGUAGES else "en")
    _, facts = words.text, {"title": stationery.title, "url": stationery.base_url}
    said = _Said(
        _("Mail from %(title)s arrives") % facts,
        [_("This is a test that whoever runs %(title)s asked for.") % facts],
        _("Open %(title)s") % facts,
        "/",
        (),
    )
    return _letter(stationery, words, to, said, _("This mail is from %(url)s.") % facts)


def _letter(stationery: Stationery, words: Translated, to: str, said: _Said, foot: str) -> Letter:
    link = stationery.base_url + said.path
    views = {"said": said, "link": link, "words": words, "stationery": stationery, "foot": foot}
    text, html = (_templates().get_template(f"letter.{kind}").render(views) for kind in ("txt", "html"))
    return Letter(to, said.subject, text, html)


def _foot(words: Translated, about: About, stationery: Stationery) -> str:
    said = words.text("This mail is about the account @%(name)s on %(title)s, %(url)s. Nobody reads replies to it.")
    return said % {"name": about.name, "title": stationery.title, "url": stationery.base_url}


def _said(words: Translated, about: About, title: str) -> _Said:
    _ = words.text
    facts = {
        "name": about.name,
        "title": title,
        "when": words.full(about.at),
        "address": about.address,
        "place": about.place or _("a network that we do not know"),
        "passkey": about.passkey,
    }

    def said(subject: str, before: Sequence[str], button: str, path: str, *after: str) -> _Said:
        return _Said(subject % facts, [line % facts for line in before], button, path, [line % facts for line in after])

    nothing = _("If it was you, there is nothing to do.")
    match about.kind:
        case MailKind.RESET:
            return said(
                _("A new password for @%(name)s"),
                [_("Somebody, probably you, asked for a new password for @%(name)s on %(title)s.")],
                _("Choose a new password"),
                f"/reset/{about.proof}",
                _("The link works once, within an hour. If it was not you, do nothing: your password stays as it is."),
            )
        case MailKind.CONFIRM:
            return said(
                _("Please confirm your address"),
                [_("Welcome to %(title)s! Please confirm that this address belongs to you, @%(name)s.")],
                _("Confirm this address"),
                f"/confirm/{about.proof}",
                _("The link works for 7 days. If you did not sign up, do nothing."),
            )
        case MailKind.CHANGE:
            return said(
                _("The new address of @%(name)s"),
                [_("You asked that mail for @%(name)s on %(title)s should go to this address.")],
                _("Use this address"),
                f"/confirm/{about.proof}",
                _("The link works for a day. Until it is opened, the address that you have stays."),
                _("If it was not you, do nothing."),
            )
        case MailKind.UNDO:
            return said(
                _("The address of @%(name)s was changed"),
                [_("Since %(when)s, mail for @%(name)s on %(title)s goes to %(address)s."), nothing],
                _("It was not me: bring this address back"),
                f"/undo/{about.proof}",
                _(
                    "The link works for 7 days. It logs everybody out and removes all passkeys, and you get a mail with a link to"
                    " choose a new password."
                ),
            )
        case MailKind.RENEWED:
            return said(
                _("The password of @%(name)s was changed"),
                [
                    _("The password of @%(name)s on %(title)s was changed on %(when)s, and everybody was logged out."),
                    nothing,
                ],
                _("It was not me: choose a new password"),
                "/forgotten",
                _(
                    "If there are passkeys, they log in as before: see in the settings, under Passkeys, whether all of them are"
                    " yours."
                ),
            )
        case MailKind.APPROVED:
            return said(
                _("Welcome to %(title)s"),
                [_("You are let in: the account @%(name)s on %(title)s is yours from now on.")],
                _("Log in"),
                "/login",
            )
        case MailKind.NEW_PLACE:
            return said(
                _("@%(name)s was used from a new place"),
                [
                    _("Somebody logged in as @%(name)s on %(title)s on %(when)s, from %(place)s for the first time."),
                    nothing,
                ],
                _("It was not me: change the password"),
                "/settings/password",
                _("Changing the password logs out everybody else."),
            )
        case MailKind.SECOND_ON:
            return said(
                _("@%(name)s has a second factor"),
                [
                    _(
                        "Since %(when)s, logging in as @%(name)s on %(title)s takes a code or a passkey besides the password."
                    ),
                    _("Keep the recovery codes in a safe place: they let you in without the app or the passkey."),
                ],
                _("See how you log in"),
                "/settings/second_factor",
                _(
                    "If it was not you, somebody has your password. If a mail told you of another address, its link ends this too;"
                    " otherwise write to whoever runs %(title)s."
                ),
            )
        case MailKind.SECOND_OFF:
            return said(
                _("@%(name)s has no second factor any more"),
                [_("Since %(when)s, the password alone lets somebody in as @%(name)s on %(title)s."), nothing],
                _("It was not me: change the password"),
                "/settings/password",
                _("Changing the password logs out everybody else."),
            )
        case _:
            return _about_passkeys(words, about.kind, said, nothing)


def _about_passkeys(words: Translated, kind: MailKind, said: Callable[..., _Said], nothing: str) -> _Said:
    _ = words.text
    if kind is MailKind.PASSKEY_ADDED:
        return said(
            _("@%(name)s has a new passkey"),
            [
                _("Since %(when)s, the passkey “%(passkey)s” logs in as @%(name)s on %(title)s, without the password."),
                nothing,
            ],
            _("It was not me: remove the passkey"),
            "/settings/passkeys",
            _("Then change the password: whoever added the passkey has it."),
        )
    if kind is MailKind.PASSKEY_REMOVED:
        return said(
            _("A passkey of @%(name)s was removed"),
            [
                _("Since %(when)s, the passkey “%(passkey)s” does not log in as @%(name)s on %(title)s any more."),
                nothing,
            ],
            _("It was not me: change the password"),
            "/settings/password",
            _("Changing the password logs out everybody else."),
        )
    return said(
        _("A copy of a passkey of @%(name)s was refused"),
        [
            _("On %(when)s, a copy of the passkey “%(passkey)s” of @%(name)s on %(title)s was used, and refused."),
            _("The device counts its signatures, and the count did not grow: that happens when a key was copied."),
        ],
        _("Remove the passkey"),
        "/settings/passkeys",
        _("Then add a new one on the device that you have."),
    )


@cache
def _templates() -> Environment:
    return Environment(
        loader=PackageLoader("shoal.mail"),
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
