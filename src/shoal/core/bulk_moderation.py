"""Bulk moderation: a query for posts, and an action on the posts that it found, which can be undone as a whole.

A preview stores the ids of the matching posts, so the action applies to the posts that the moderator has seen. The commit that
changes a post also marks it with the action: a repeated step changes nothing, and undo only reverts what the action changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Literal, get_args

import msgspec
from msgspec.structs import replace

from shoal.core.errors import InvalidInput
from shoal.core.model import HIDDEN_BY_MODERATION, OPEN, Node, Post
from shoal.core.moderation_rules import (
    MAX_BYTES,
    DomainIndex,
    PhraseIndex,
    PictureIndex,
    PictureMatch,
    checked_domains,
    checked_words,
    texts_in,
)
from shoal.core.text import check_tag, parse

MAX_POSTS = 1_000
"""Maximum posts of a bulk action."""
MAX_ACTIONS = 100
"""Maximum stored bulk actions. Beyond that, the oldest previews are deleted first. A deleted action cannot be undone."""
PREVIEW_MS = 86_400_000
"""For how long a preview can be applied, in milliseconds."""

Verb = Literal["hide", "mark_sensitive", "keep_from_trends"]
VERBS: tuple[Verb, ...] = get_args(Verb)


class BulkState(StrEnum):
    PREVIEW = "preview"
    APPLYING = "applying"
    APPLIED = "applied"
    UNDOING = "undoing"
    UNDONE = "undone"
    DELETING = "deleting"


class BulkQuery(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Conditions that a post must meet together. Empty values, and zeros, are no condition. Times are in Unix milliseconds."""

    words: tuple[str, ...] = ()
    """The text or content warning has at least one of these words or phrases."""
    domains: tuple[str, ...] = ()
    """At least one link leads to one of these domains or their subdomains."""
    tag: str = ""
    member_id: int = 0
    since: int = 0
    until: int = 0
    media_id: int = 0
    """A picture looks like this picture."""
    blurhash: str = ""
    """The blurhash of `media_id`."""
    likeness: PictureMatch = "same"

    def checked(self) -> BulkQuery:
        """Return the query in normalized form. Raises `InvalidInput` if it matches all posts, or if a value is invalid."""
        found = replace(
            self,
            words=checked_words(self.words),
            domains=checked_domains(self.domains),
            tag=check_tag(self.tag) if self.tag else "",
        )
        if not (found.words or found.domains or found.tag or found.member_id or found.media_id):
            raise InvalidInput("query: at least one of words, domains, tag, member and media", field="query")
        if (size := sum(len(text.encode()) for text in (*found.words, *found.domains))) > MAX_BYTES:
            raise InvalidInput(f"words: at most {MAX_BYTES} bytes, not {size}", field="words")
        if found.until and found.since >= found.until:
            raise InvalidInput("since: must be before until", field="since")
        if found.likeness not in get_args(PictureMatch) or not found.likeness:
            raise InvalidInput(f"likeness: must be same or similar (got {found.likeness!r})", field="likeness")
        return found


class BulkAction(Node, frozen=True, tag="bulk_action"):
    """A preview of a bulk action or, once it was applied, the action. Times are in Unix milliseconds."""

    query: BulkQuery
    verb: Verb
    post_ids: tuple[int, ...]
    """The matching posts, newest first."""
    state: BulkState = BulkState.PREVIEW
    actor_name: str = ""
    """The member who created it; empty for an operator or a server key."""
    reason: str = ""
    read: int = 0
    """Number of posts that the search read."""
    reached: int = 0
    """The search covers posts from this time on; 0 if it covers all posts of the query."""
    changed: int = 0
    """Number of posts that are changed by the action now, after the last finished step."""
    applied_at: int = 0
    undone_at: int = 0


def needs(post: Post, verb: Verb) -> bool:
    """Return whether the action would change a post."""
    if verb == "hide":
        return not post.hidden & HIDDEN_BY_MODERATION
    return not (post.sensitive if verb == "mark_sensitive" else post.untrendable)


class BulkMatcher:
    """A bulk query prepared for checking posts. It never matches posts that are not public or unlisted."""

    def __init__(self, query: BulkQuery, verb: Verb) -> None:
        self.query, self._verb = query, verb
        self._phrases, self._domains = PhraseIndex(), DomainIndex()
        self._pictures = PictureIndex((query.blurhash,))
        for word in query.words:
            self._phrases.add(word, 0)
        for domain in query.domains:
            self._domains.add(domain, 0)

    def may_match(self, post: Post) -> bool:
        """Return whether a post meets all conditions except the one on its pictures."""
        query = self.query
        return (
            post.visibility in OPEN
            and needs(post, self._verb)
            and query.member_id in (0, post.author_id)
            and (not query.tag or query.tag in post.tags)
            and query.since <= post.created_at
            and (not query.until or post.created_at < query.until)
            and (not query.words or bool(self._phrases.owners(f"{post.spoiler}\n{_text(post)}")))
            and (not query.domains or bool(self._domains.owners(_links(post))))
        )

    def looks_alike(self, blurhashes: Iterable[str]) -> bool:
        return not self.query.media_id or any(self._pictures.has(each, self.query.likeness) for each in blurhashes)


def _text(post: Post) -> str:
    """Return the text of a post and those of its data: apps may show them."""
    return f"{post.text}\n{texts_in(post.json)}" if post.json else post.text


def _links(post: Post) -> list[str]:
    return [span.value for span in parse(_text(post)) if span.kind == "link"]
