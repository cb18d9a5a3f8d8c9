"""Checks of posts, edits, profile changes and uploads before they are public: their input and their outcome.

Checks run in order: the built-in rules, then the program's own callable or the hook URL. The strictest decision wins, and the first
of equally strict ones.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, NamedTuple

import msgspec

from shoal.core.model import Media, Node

HeldKind = Literal["post", "edit", "profile", "media"]
Kind = Literal[HeldKind, "album"]
Action = Literal["allow", "hold", "reject"]

_ACTIONS: tuple[Action, ...] = ("allow", "hold", "reject")
"""In order of strictness."""

MAX_REASON = 500
"""Characters of a reason, and of the name of a rule."""
RECENT_SECONDS = 600


class MediaFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A picture, video or sound of a candidate."""

    id: int
    kind: str
    """`image`, `video`, `gifv` or `audio`."""
    sha256: str = ""
    """Hexadecimal digest of the uploaded file; empty where it is not known."""
    phash: int | None = None
    """Perceptual hash of the picture (64 bits); None where it is not known."""
    blurhash: str = ""
    """BlurHash of the picture, or of a frame of the video; empty where it is not known."""


def texts_of(media: Media) -> tuple[str, ...]:
    """Return the texts that are shown with a picture, video or sound."""
    return (media.description, *((media.details.camera, media.details.lens) if media.details else ()))


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """Content that is about to become public. Times are Unix seconds."""

    id: int = 0
    """If the decision is to hold, the id of the held content. 0 for an upload, an album and a new member, which cannot be held."""
    kind: Kind
    member_id: int
    """0 for a new member."""
    member_name: str
    member_created_at: float
    member_posts: int
    """Number of the member's posts, without the candidate."""
    text: str
    """All texts of the candidate, one after the other: those of a post, with its poll and its media, of a profile, or the
    description, camera and lens of an upload."""
    data: str = ""
    """`data` of a post, as JSON; empty without."""
    links: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    """Canonical forms (lower-case NFKC) of the tags."""
    mentions: tuple[str, ...] = ()
    """User names of the mentioned members."""
    visibility: str = "public"
    """Visibility of a post; `public` for a profile and for media."""
    media: tuple[MediaFacts, ...] = ()
    in_post: bool = False
    """Of `media`: whether a post that is checked has the file already, so a new description or thumbnail is like an edit of it."""
    recent_posts: int = 0
    """Number of the member's posts in the last ten minutes, without the candidate."""


class Decision(msgspec.Struct, frozen=True):
    """The outcome of a check: whether the candidate becomes public, and why not."""

    action: Action
    reason: str = ""
    """For the author, if the candidate is rejected; for moderators, if it is held."""
    rule: str = ""
    """Name of the rule that decided; empty for the callable and the hook."""
    candidate_id: int = 0
    """Id of the candidate; 0 if it cannot be held."""
    unchecked: bool = False
    """Whether a check gave no decision, and the configured one applies."""


ALLOW = Decision("allow")

Check = Callable[[Candidate], Awaitable[Decision]]


def strictest(decisions: Sequence[Decision]) -> Decision:
    """Return the strictest decision, and the first of equally strict ones; `ALLOW` without decisions."""
    return max(decisions, key=lambda decision: _ACTIONS.index(decision.action), default=ALLOW)


class Checks(NamedTuple):
    """The checks of a network, in order: first the rules. Without any, nothing is checked."""

    checks: tuple[Check, ...] = ()
    rules: Sequence[Check] = ()
    """The check of the moderation rules; empty while none of them is in force."""
    direct: bool = False
    """Whether direct posts are checked too."""
    refresh: Callable[[], Awaitable[None]] | None = None
    """Reads the rules again if they may have changed."""

    async def in_force(self) -> bool:
        """Return whether content is checked, as of the newest rules. Commands call this before they use the checks."""
        if self.refresh is not None:
            await self.refresh()
        return bool(self)

    def __bool__(self) -> bool:
        return bool(self.rules or self.checks)

    async def decide(self, candidate: Candidate) -> Decision:
        """Run the checks until one of them rejects the candidate. Return the strictest decision."""
        decisions: list[Decision] = []
        for check in (*self.rules, *self.checks):
            decisions.append(await check(candidate))
            if decisions[-1].action == "reject":
                break
        unchecked = any(decision.unchecked for decision in decisions)
        return msgspec.structs.replace(strictest(decisions), candidate_id=candidate.id, unchecked=unchecked)


NO_CHECKS = Checks()


class CheckedMedia(NamedTuple):
    """The values of a post's media that a check saw, and that their owner can change."""

    id: int
    description: str
    preview_key: str


class HeldContent(Node, frozen=True, tag="held_content"):
    """Content that waits for the decision of a moderator, or that a moderator has rejected."""

    owner_id: int
    kind: HeldKind
    """For `media`, the content is a new description. An upload is held by its own flag, until a post with it is approved."""
    text: str
    """The texts for the moderators: those of the candidate, without the descriptions of its media."""
    data: str = ""
    """`data` of a post or edit, as JSON; empty without."""
    content: bytes = b""
    """The draft of a post or edit, or the changes of a profile, as encoded by the commands that apply them."""
    target_id: int = 0
    """The post of an edit, or the media of a description."""
    edited_at: int = 0
    """When the post of an edit was edited last. Approval fails if it has been edited since."""
    media: tuple[int, ...] = ()
    """Media of a post or edit. They are kept while the content exists."""
    checked: tuple[CheckedMedia, ...] = ()
    """The media as the check saw them. Approval fails if they have been changed since."""
    files: tuple[str, ...] = ()
    """Keys of the pictures of a profile."""
    visibility: str = "public"
    app_id: int = 0
    reason: str = ""
    """Why it was held, for the moderators."""
    rule: str = ""
    rejected_at: int = 0
    """When a moderator rejected it, in Unix milliseconds; 0 while it waits."""
    refusal: str = ""
    """Why it was rejected, for the author."""

    @property
    def descriptions(self) -> tuple[str, ...]:
        """The descriptions of the media of a post or edit, in their order."""
        return () if self.kind == "media" else tuple(media.description for media in self.checked)
