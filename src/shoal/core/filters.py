"""Values of filters: what a member does not want to read, and how it is treated. `filtering.py` does the matching."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from shoal.core.model import Node


class FilterAction(StrEnum):
    """How a client shows a post that a filter matches."""

    WARN = "warn"
    HIDE = "hide"
    BLUR = "blur"


class FilterContext(StrEnum):
    """Where a filter applies."""

    HOME = "home"
    NOTIFICATIONS = "notifications"
    PUBLIC = "public"
    THREAD = "thread"
    ACCOUNT = "account"


class FilterKeyword(NamedTuple):
    """A word or phrase that a filter looks for."""

    id: int
    keyword: str
    whole_word: bool = True


class FilterPost(NamedTuple):
    """A post that a filter matches, whatever its text."""

    id: int
    post_id: int


class Filter(Node, frozen=True, tag="filter"):
    """A rule of a member's about posts that they do not want to read."""

    owner_id: int
    title: str
    contexts: tuple[FilterContext, ...] = ()
    action: FilterAction = FilterAction.WARN
    expires_at: int = 0
    """Unix milliseconds; 0 for never."""
    irreversible: bool = False
    """Whether matching posts are left out of the home timeline and the notifications altogether."""
    keywords: tuple[FilterKeyword, ...] = ()
    posts: tuple[FilterPost, ...] = ()
