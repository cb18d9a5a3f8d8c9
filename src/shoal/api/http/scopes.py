"""Scopes of a token: their grammar, and the check whether a token has one.

A scope is `read`, `write`, `follow`, `push`, `profile`, or a child such as `read:statuses` and `admin:write:reports`. A parent
grants its children; `follow` grants reading and writing of blocks, follows and mutes. A scope that is unknown is refused
when it is asked for, so none is ever stored.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from shoal.core.errors import InvalidInput

AREAS = {
    "accounts": "your profile and settings",
    "blocks": "whom you block",
    "bookmarks": "your bookmarks",
    "conversations": "your direct conversations",
    "favourites": "what you like",
    "filters": "your filters",
    "follows": "whom you follow, and who follows you",
    "lists": "your lists",
    "media": "your pictures and videos",
    "mutes": "whom you mute",
    "notifications": "your notifications",
    "reports": "what you reported",
    "search": "what you search for",
    "statuses": "posts as you see them",
}
"""The areas that a member's app may read or write, each in words for the member who is asked."""
_ADMIN_AREAS = (
    "accounts",
    "reports",
    "domain_allows",
    "domain_blocks",
    "ip_blocks",
    "email_domain_blocks",
    "canonical_email_blocks",
)

_FOLLOW = frozenset(f"{verb}:{area}" for verb in ("read", "write") for area in ("blocks", "follows", "mutes"))

KNOWN = frozenset(
    {"read", "write", "follow", "push", "profile", "admin:read", "admin:write"}
    | {f"{verb}:{area}" for verb in ("read", "write") for area in AREAS}
    | {f"admin:{verb}:{area}" for verb in ("read", "write") for area in _ADMIN_AREAS}
)
"""Every scope that may be asked for."""

DEFAULT = ("read",)
"""Scopes of an app that asks for none."""


@lru_cache(maxsize=4096)
def granted(token_scopes: frozenset[str], needed: str) -> bool:
    """Whether a token with these scopes may do what needs this one. Cached: the same few sets come with every request."""
    if needed in token_scopes or ("follow" in token_scopes and needed in _FOLLOW):
        return True
    parent = needed.rpartition(":")[0]
    return bool(parent) and granted(token_scopes, parent)


def parse(text: str) -> tuple[str, ...]:
    """The scopes of a list divided by blanks (or by `+` that was encoded twice), each once and in the order they came.

    An empty list is `DEFAULT`. Unknown scopes are `InvalidInput`.
    """
    asked = tuple(dict.fromkeys(text.replace("+", " ").split())) or DEFAULT
    unknown = [scope for scope in asked if scope not in KNOWN]
    if unknown:
        raise InvalidInput("the requested scope is invalid, unknown, or malformed", field="scope")
    return asked


def check_subset(asked: Iterable[str], of_app: Iterable[str]) -> tuple[str, ...]:
    """The asked scopes, when the app registered for all of them (itself or by a parent); else `InvalidInput`."""
    owned, wanted = frozenset(of_app), tuple(asked)
    if not all(granted(owned, scope) for scope in wanted):
        raise InvalidInput("the requested scope is wider than the scopes the application registered for", field="scope")
    return wanted
