"""The layout of settings pages: sections in groups and their search, the current section, and the result of a form."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import NamedTuple

import msgspec
from jinja2.ext import extract_from_ast
from starlette.responses import Response

from shoal.core.signup import may_invite
from shoal.web.form_errors import RIGHT, Wrong
from shoal.web.ownership import owner_of
from shoal.web.rendering import page, templates
from shoal.web.request_context import LogInFirst, PageContext


class Section(NamedTuple):
    key: str
    icon: str
    words: str
    hint: str


class SettingsGroup(NamedTuple):
    words: str
    sections: tuple[Section, ...]


def groups_of(ctx: PageContext) -> tuple[SettingsGroup, ...]:
    """Return the groups of settings that the viewer can open. Anonymous viewers can open only the appearance."""
    _, writes, archives = ctx.words.text, ctx.writes, ctx.app.archives
    browser = SettingsGroup(
        _("This browser"),
        (Section("appearance", "palette", _("Appearance"), _("Light or dark, contrast, language")),),
    )
    if ctx.viewer is None:
        return (browser,)
    invites = may_invite(writes.inviters, ctx.viewer)
    imports = archives is not None and archives.most_bytes > 0
    invitations = Section("invitations", "send", _("Invitations"), _("Invite people with a link"))
    password = Section("password", "key-round", _("Password"), _("Change your password"))
    logins = Section("logins", "log-in", _("Login providers"), _("Log in with an account that you have elsewhere"))
    moving_in = Section("import", "upload", _("Import"), _("Import posts from another network"))
    return (
        SettingsGroup(
            _("You"),
            (
                Section("profile", "circle-user-round", _("Profile"), _("Name, pictures and bio")),
                Section("privacy", "lock", _("Privacy"), _("Who can follow you and find your posts")),
                Section("posting", "square-pen", _("Posting"), _("Defaults for new posts")),
            ),
        ),
        SettingsGroup(
            _("Content"),
            (
                Section("ranking", "sliders-horizontal", _("Ranking"), _("How For you is sorted")),
                Section("feedback", "thumbs-up", _("Your feedback"), _("What you want to see more or less of")),
                Section("filters", "funnel", _("Filters"), _("Hide posts with certain words")),
                Section("people", "volume-x", _("Muted and blocked"), _("People you have muted or blocked")),
                Section("notifications", "bell", _("Notifications"), _("Who can notify you")),
            ),
        ),
        browser,
        SettingsGroup(
            _("Account"),
            (
                *((password,) if ctx.settings.password_login else ()),
                *((logins,) if ctx.app.providers.titles else ()),
                Section(
                    "passkeys", "smartphone", _("Passkeys"), _("Log in with your fingerprint, face or security key")
                ),
                Section(
                    "second_factor",
                    "shield-check",
                    _("Two-factor authentication"),
                    _("A code in addition to the password"),
                ),
                Section("email", "mail", _("E-mail address"), _("For logging in and for mail from this server")),
                Section("sessions", "laptop", _("Sessions and apps"), _("Where you are logged in")),
                Section("contacts", "user-plus", _("Find friends"), _("Find people you follow on other networks")),
                *((invitations,) if invites else ()),
                *((moving_in,) if imports else ()),
                Section("archive", "archive", _("Your data"), _("Download all your data")),
                Section("account", "trash-2", _("Delete account"), _("Permanently delete your account and data")),
            ),
        ),
    )


_LONGEST_LABEL = 60


@cache
def _labels(key: str) -> tuple[str, ...]:
    """Return the labels in the template of a settings section: its short texts without punctuation at the end."""
    parsed = templates("en", "").parse(
        files("shoal.web").joinpath(f"templates/pages/settings/{key}.html").read_text("utf-8")
    )
    found = [message for _, _, message in extract_from_ast(parsed, ("_",))]
    labels = [one for one in found if isinstance(one, str) and "%(" not in one]
    return tuple(one for one in dict.fromkeys(labels) if len(one) <= _LONGEST_LABEL and one[-1] not in ".:?…")


def found_sections(ctx: PageContext, query: str) -> list[Section]:
    """Return the sections in which one text contains all words of the query; matches in titles come first.

    If only a label matches, the label is shown as the hint of the section.
    """
    terms = query.casefold().split()

    def matches(text: str) -> bool:
        return all(term in text.casefold() for term in terms)

    found: list[tuple[int, Section]] = []
    for section in (section for group in groups_of(ctx) for section in group.sections):
        if matches(section.words):
            found.append((0, section))
        elif matches(f"{section.words} {section.hint}"):
            found.append((1, section))
        elif label := next(filter(matches, map(ctx.words.text, _labels(section.key))), ""):
            found.append((2, section._replace(hint=label)))
    return [section for _, section in sorted(found, key=lambda one: one[0])]


class SettingsQuery(msgspec.Struct, frozen=True):
    saved: bool = False


NOT_SAVED = SettingsQuery()

_OF_OWNER = frozenset({"password", "logins", "passkeys", "second_factor", "email", "account"})
"""Sections whose forms need a proof that the account belongs to the viewer (`web.ownership`)."""


async def settings_page(
    ctx: PageContext,
    key: str,
    *,
    template: str = "",
    status: int = 0,
    wrong: Wrong = RIGHT,
    saved: bool = False,
    query: str = "",
    **views: object,
) -> Response:
    """Return the page of a section. Raises `LogInFirst` for anonymous viewers, except for the appearance.

    A page of `_OF_OWNER` may first ask the member to confirm that they own the account. The default status is 422 if `wrong` is
    not empty, and otherwise 200.
    """
    if ctx.viewer is None and key != "appearance":
        raise LogInFirst
    owner = await owner_of(ctx) if key in _OF_OWNER else None
    # Recovery codes are shown once, so nothing may hide them.
    unproven = owner is not None and not (owner.confirmed or (owner.password and key != "logins"))
    if unproven and template != "recovery_codes":
        template = "confirm"
    groups = groups_of(ctx)
    names = {section.key: section.words for group in groups for section in group.sections}
    heading = names.get(key, ctx.words.text("Settings"))
    return await page(
        ctx,
        f"settings/{template or key}",
        status=status,
        title=heading,
        groups=groups,
        here=key,
        owner=owner,
        wrong=wrong,
        saved=saved,
        query=query,
        **views,
    )


def saved_at(ctx: PageContext, key: str) -> Response:
    return ctx.go(f"/settings/{key}", saved=1)
