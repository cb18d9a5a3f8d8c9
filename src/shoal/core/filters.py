"""The values of filters: what a member does not want to read, and what becomes of it. How they match is in `filtering.py`."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from shoal.core.model import Node


class FilterAction(StrEnum):
    """What a client does with what a filter matches."""

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
    """Words that a filter looks for."""

    id: int
    keyword: str
    whole_word: bool = True


class FilterPost(NamedTuple):
    """One post that a filter matches whatever it says."""

    id: int
    post_id: int


class Filter(Node, frozen=True, tag="filter"):
    """What a member does not want to read."""

    owner_id: int
    title: str
    contexts: tuple[FilterContext, ...] = ()
    action: FilterAction = FilterAction.WARN
    expires_at: int = 0
    """Unix milliseconds; 0 for never."""
    irreversible: bool = False
    """What it matches does not come to the home and the notifications at all."""
    keywords: tuple[FilterKeyword, ...] = ()
    posts: tuple[FilterPost, ...] = ()
