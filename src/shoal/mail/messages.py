"""The texts of mails, in the language of the recipient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from shoal.core.email import MailKind
from shoal.core.webhooks import Pause
from shoal.i18n import LANGUAGES, Translated, words_in
from shoal.mail.mailers import Letter


class Stationery(NamedTuple):
    """The data that all mails contain: the name of the network, and the root of its links."""

    title: str
    base_url: str


class About(NamedTuple):
    kind: MailKind
    to: str
    name: str
    at: int
    """In Unix milliseconds."""
    proof: str = ""
    """Token in the mail's link; empty for mails without a link."""
    address: str = ""
    """The member's current address."""
    place: str = ""
    passkey: str = ""
    webhook: str = ""
    pause: str = ""


class _Content(NamedTuple):
    subject: str
    before: Sequence[str]
    button: str
    path: str
    after: Sequence[str]


def write(stationery: Stationery, about: About, language: str) -> Letter:
    """Write a mail in a language (a code such as "de"), or in English if it is not available."""
    words = words_in(language if language in LANGUAGES else "en")
    content, foot = _content_of(words, about, stationery.title), _foot(words, about, stationery)
    return _letter(stationery, words, about.to, content, foot)


def trial(stationery: Stationery, to: str, language: str) -> Letter:
    words = words_in(language if language in LANGUAGES else "en")
    _, facts = words.text, {"title": stationery.title, "url": stationery.base_url}
    content = _Content(
        _("Test e-mail from %(title)s") % facts,
        [_("An administrator of %(title)s sent this test e-mail.") % facts],
        _("Open %(title)s") % facts,
        "/",
        (),
    )
    return _letter(stationery, words, to, content, _("This e-mail was sent by %(url)s.") % facts)


def _letter(stationery: Stationery, words: Translated, to: str, content: _Content, foot: str) -> Letter:
    link = stationery.base_url + content.path
    views = {"content": content, "link": link, "words": words, "stationery": stationery, "foot": foot}
    text, html = (_templates().get_template(f"letter.{kind}").render(views) for kind in ("txt", "html"))
    return Letter(to, content.subject, text, html)


def _foot(words: Translated, about: About, stationery: Stationery) -> str:
    content = words.text("This e-mail is about the account @%(name)s on %(title)s, %(url)s. Replies are not read.")
    return content % {"name": about.name, "title": stationery.title, "url": stationery.base_url}


def _content_of(words: Translated, about: About, title: str) -> _Content:
    _ = words.text
    facts = {
        "name": about.name,
        "title": title,
        "when": words.full(about.at),
        "address": about.address,
        "place": about.place or _("an unknown address"),
        "passkey": about.passkey,
        "webhook": about.webhook,
    }

    def content(subject: str, before: Sequence[str], button: str, path: str, *after: str) -> _Content:
        return _Content(
            subject % facts, [line % facts for line in before], button, path, [line % facts for line in after]
        )

    nothing = _("If this was you, no action is needed.")
    match about.kind:
        case MailKind.RESET:
            return content(
                _("A new password for @%(name)s"),
                [_("Someone, probably you, requested a new password for @%(name)s on %(title)s.")],
                _("Choose a new password"),
                f"/reset/{about.proof}",
                _(
                    "The link works once and expires in an hour. If this was not you, ignore this e-mail; your"
                    " password does not change."
                ),
            )
        case MailKind.RECOVERY:
            return content(
                _("Log in as @%(name)s"),
                [_("The e-mail address of @%(name)s on %(title)s was restored to this one.")],
                _("Log in"),
                f"/recover/{about.proof}",
                _("The link works once and expires in an hour. Add a passkey or a login provider then."),
            )
        case MailKind.CONFIRM:
            return content(
                _("Please confirm your address"),
                [_("Welcome to %(title)s! Please confirm that this address belongs to you, @%(name)s.")],
                _("Confirm this address"),
                f"/confirm/{about.proof}",
                _("The link expires in 7 days. If you did not sign up, ignore this e-mail."),
            )
        case MailKind.CHANGE:
            return content(
                _("Confirm the new address of @%(name)s"),
                [_("You asked us to use this address for @%(name)s on %(title)s.")],
                _("Use this address"),
                f"/confirm/{about.proof}",
                _("The link expires in a day. Until you open it, your current address stays in use."),
                _("If this was not you, ignore this e-mail."),
            )
        case MailKind.UNDO:
            return content(
                _("The address of @%(name)s was changed"),
                [_("On %(when)s, the e-mail address of @%(name)s on %(title)s was changed to %(address)s."), nothing],
                _("This wasn't me: restore this address"),
                f"/undo/{about.proof}",
                _(
                    "The link expires in 7 days. It logs out all sessions, removes all passkeys and unlinks the login"
                    " providers that were added in the settings. We then send you a link to log in again."
                ),
            )
        case MailKind.RENEWED:
            return content(
                _("The password of @%(name)s was changed"),
                [
                    _(
                        "The password of @%(name)s on %(title)s was changed on %(when)s, and all sessions were logged out."
                    ),
                    nothing,
                ],
                _("This wasn't me: choose a new password"),
                "/forgotten",
                _("Passkeys still work. Check under Passkeys in your settings that all of them are yours."),
            )
        case MailKind.APPROVED:
            return content(
                _("Welcome to %(title)s"),
                [_("Your account @%(name)s on %(title)s was approved.")],
                _("Log in"),
                "/login",
            )
        case MailKind.NEW_PLACE:
            return content(
                _("New login to @%(name)s"),
                [
                    _("Someone logged in to @%(name)s on %(title)s on %(when)s, for the first time from %(place)s."),
                    nothing,
                ],
                _("This wasn't me: change the password"),
                "/settings/password",
                _("Changing the password logs out all other sessions."),
            )
        case MailKind.SECOND_ON:
            return content(
                _("Two-factor authentication is on for @%(name)s"),
                [
                    _(
                        "Since %(when)s, logging in to @%(name)s on %(title)s requires a code or a passkey in addition"
                        " to the password."
                    ),
                    _(
                        "Keep your recovery codes in a safe place. You can log in with them without the app or the passkey."
                    ),
                ],
                _("Review login settings"),
                "/settings/second_factor",
                _(
                    "If this was not you, someone knows your password. If you also got an e-mail about a changed address, its link"
                    " reverts this too; otherwise contact the administrator of %(title)s."
                ),
            )
        case MailKind.SECOND_OFF:
            return content(
                _("Two-factor authentication is off for @%(name)s"),
                [_("Since %(when)s, logging in to @%(name)s on %(title)s requires only the password."), nothing],
                _("This wasn't me: change the password"),
                "/settings/password",
                _("Changing the password logs out all other sessions."),
            )
        case _:
            return _notice(words, about, content, nothing)


def _notice(words: Translated, about: About, content: Callable[..., _Content], nothing: str) -> _Content:
    _, kind = words.text, about.kind
    if kind is MailKind.WEBHOOK_PAUSED:
        causes: dict[str, str] = {
            Pause.FAILING: _("Paused: deliveries failed for three days"),
            Pause.GONE: _("Paused: the server says that this URL is gone"),
            Pause.FULL: _("Paused: too many events are parked"),
            Pause.EXPIRED: _("Paused: events were deleted from the event log before they were delivered"),
        }
        cause = causes.get(about.pause)
        return content(
            _("A webhook of %(title)s was paused"),
            [_("Since %(when)s, no events are sent to %(webhook)s."), *([f"{cause}."] if cause else [])],
            _("Review webhooks"),
            "/ops/webhooks",
            _("Events are lost: resynchronize the receiver, then resume the webhook.")
            if about.pause == Pause.EXPIRED
            else _("No event is lost as long as the event log has it. Resume the webhook when its server works again."),
        )
    if kind is MailKind.PROVIDER_LINKED:
        return content(
            _("New login provider for @%(name)s"),
            [
                _("On %(when)s, an account at %(passkey)s was linked to @%(name)s on %(title)s. It can log in."),
                nothing,
            ],
            _("This wasn't me: unlink it"),
            "/settings/logins",
            _(
                "Then log out all other sessions in your settings. If you also got an e-mail about a changed address,"
                " its link unlinks the provider too."
            ),
        )
    if kind is MailKind.PASSKEY_ADDED:
        return content(
            _("New passkey for @%(name)s"),
            [
                _(
                    "On %(when)s, the passkey “%(passkey)s” was added to @%(name)s on %(title)s. It logs in without the password."
                ),
                nothing,
            ],
            _("This wasn't me: remove the passkey"),
            "/settings/passkeys",
            _("Then change your password, because the person who added the passkey knows it."),
        )
    if kind is MailKind.PASSKEY_REMOVED:
        return content(
            _("A passkey of @%(name)s was removed"),
            [
                _("On %(when)s, the passkey “%(passkey)s” was removed from @%(name)s on %(title)s."),
                nothing,
            ],
            _("This wasn't me: change the password"),
            "/settings/password",
            _("Changing the password logs out all other sessions."),
        )
    if kind is MailKind.PROVIDER_UNLINKED:
        return content(
            _("A login provider of @%(name)s was unlinked"),
            [
                _("On %(when)s, the account at %(passkey)s was unlinked from @%(name)s on %(title)s."),
                nothing,
            ],
            _("Review login settings"),
            "/settings/logins",
            _("Then log out all other sessions in your settings."),
        )
    return content(
        _("A copied passkey of @%(name)s was rejected"),
        [
            _("On %(when)s, a login with a copy of the passkey “%(passkey)s” of @%(name)s on %(title)s was rejected."),
            _("The device counts its signatures, and the count did not increase, which happens if a key was copied."),
        ],
        _("Remove the passkey"),
        "/settings/passkeys",
        _("Then add a new passkey on your device."),
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
