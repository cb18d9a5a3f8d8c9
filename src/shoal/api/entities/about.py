"""JSON shapes in which a server describes itself, besides its instance, in the Mastodon API."""

from __future__ import annotations

import msgspec


class Activity(msgspec.Struct):
    """A week in numbers, all of them texts; `week` is its first second, Unix time."""

    week: str
    statuses: str
    logins: str
    registrations: str


class ExtendedDescription(msgspec.Struct):
    """More about the server, as HTML."""

    updated_at: str | None
    content: str


class Language(msgspec.Struct):
    """A language that statuses may be in."""

    code: str
    name: str


class WebFingerLink(msgspec.Struct, omit_defaults=True):
    """Where something of an account is."""

    rel: str
    type: str
    href: str


class WebFinger(msgspec.Struct):
    """Where an account is (RFC 7033)."""

    subject: str
    aliases: list[str]
    links: list[WebFingerLink]
