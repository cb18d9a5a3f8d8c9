"""Scopes as sentences, for the member who is asked whether an app may have them."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.api.http.scopes import AREAS, granted

_WHOLE = {
    "read": "read everything that you can read, direct messages and settings included",
    "write": "act for you: post, like, share, follow, and change your profile and settings",
    "follow": "follow, mute and block for you, and see whom you follow, mute and block",
    "push": "send you notifications",
    "profile": "see your name and your picture",
    "admin:read": "read everything that your role lets you read about all members",
    "admin:write": "do everything that your role lets you do to all members",
    "read:search": "search for you",
    "write:accounts": "change your profile, your settings and your password",
    "write:favourites": "like posts for you",
    "write:media": "upload pictures and videos for you",
    "write:reports": "report others for you",
    "write:statuses": "post, edit, share and delete for you",
}
_VERBS = {"read": "see", "write": "change"}


def in_words(scopes: Sequence[str]) -> list[str]:
    """A sentence for each scope that another one of them does not grant already."""
    widest = [scope for scope in scopes if not granted(frozenset(scopes) - {scope}, scope)]
    return list(dict.fromkeys(map(_words, widest)))


def _words(scope: str) -> str:
    if words := _WHOLE.get(scope):
        return words
    head, _, area = scope.rpartition(":")
    if head.startswith("admin:"):
        return f"{_VERBS[head.removeprefix('admin:')]}, as your role lets you, {area.replace('_', ' ')} of the network"
    return f"{_VERBS[head]} {AREAS[area]}"
