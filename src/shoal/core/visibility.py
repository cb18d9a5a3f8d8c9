"""The rules of visibility, shared by all of Shoal."""

from __future__ import annotations

import msgspec

from shoal.core.errors import InvalidInput
from shoal.core.model import HELD, HIDDEN_BY_MODERATION, OPEN, Member, Post, Review, Share, Visibility


class Relation(msgspec.Struct, frozen=True):
    following: bool = False
    followed_by: bool = False
    blocking: bool = False
    blocked_by: bool = False
    muting: bool = False
    muting_notifications: bool = False
    """Whether the mute includes notifications from the other member."""
    muted_until: int = 0
    """Unix milliseconds; 0 for a permanent mute."""
    shares: bool = True
    """Whether the follow, or the requested follow, includes the other member's shares."""
    languages: tuple[str, ...] = ()
    """Languages that the follow, or the requested follow, includes; empty for all."""
    watching: bool = False
    """Whether the viewer is notified of the other member's posts, or will be once the follow request is accepted."""
    requested: bool = False
    """Whether the viewer has requested to follow the other member."""
    requested_by: bool = False
    endorsed: bool = False
    """Whether the viewer features the other member on their own profile."""
    note: str = ""

    @property
    def severed(self) -> bool:
        return self.blocking or self.blocked_by


STRANGER = Relation()


def may_see(viewer: int | None, post: Post, author: Member | None, relation: Relation) -> bool:
    """Return whether the viewer (None: anonymous) may see a post of this author at all.

    `author` is None for a deleted author. `relation` is the viewer's relation to the author.
    """
    if author is None or author.suspended:
        return False
    if viewer is not None and viewer == post.author_id:
        return True
    # This condition is `relation.severed`, inlined for speed: it runs for every entry of every page.
    if relation.blocking or relation.blocked_by or post.hidden & HIDDEN_BY_MODERATION:
        return False
    if post.visibility in OPEN:
        return True
    if viewer is None:
        return False
    if any(mention.id == viewer for mention in post.mentions):
        return True
    return post.visibility is Visibility.FOLLOWERS and relation.following


def may_list(viewer: int | None, post: Post, author: Member | None, relation: Relation) -> bool:
    """Return whether the post may appear in a timeline or list of the viewer.

    That requires `may_see` and an author whom the viewer has not muted. A post with an upheld report appears only to its author.
    """
    if post.review is Review.UPHELD and viewer != post.author_id:
        return False
    return not relation.muting and may_see(viewer, post, author, relation)


def may_list_publicly(viewer: int | None, post: Post, author: Member, relation: Relation) -> bool:
    """Return whether a post that passes `may_list` may also appear in public timelines and tag timelines.

    Posts of a silenced author, and posts held because of reports, appear there only to the author and the author's followers.
    """
    return post.visibility is Visibility.PUBLIC and not is_hushed(viewer, post, author, relation)


def is_hushed(viewer: int | None, post: Post, author: Member, relation: Relation) -> bool:
    """Return whether moderation excludes a post from public lists and search for this viewer.

    This applies if its author is silenced, or if the post is in review or has an upheld report. The author and the author's
    followers still find it.
    """
    return (author.silenced or post.review in HELD) and not relation.following and viewer != author.id


def is_sensitive(post: Post, author: Member) -> bool:
    """Return whether others see the post as sensitive, because the author or moderators marked it."""
    return post.sensitive or (author.sensitized and bool(post.media))


def may_come(post: Post, share: Share | None, relation: Relation) -> bool:
    """Return whether a follow's options for shares and languages allow a post in a home timeline or list.

    `relation` is the viewer's relation to the sharer, or to the author of a post that is not shared. A post without a language is
    allowed.
    """
    if share is not None and not relation.shares:
        return False
    return not relation.languages or not post.language or post.language in relation.languages


def may_see_share(viewer: int | None, share: Share, sharer: Member | None, relation: Relation) -> bool:
    """Return whether the viewer may see that a member shared a post. Whether the post is visible is up to `may_see`.

    `sharer` is None for a deleted sharer. `relation` is the viewer's relation to the sharer.
    """
    if sharer is None or sharer.suspended:
        return False
    if viewer is not None and viewer == share.author_id:
        return True
    if relation.severed:
        return False
    if share.visibility in OPEN:
        return True
    return viewer is not None and share.visibility is Visibility.FOLLOWERS and relation.following


def may_share(viewer: int, post: Post) -> bool:
    """Return whether a viewer who may see the post may share it with their followers."""
    if post.visibility in OPEN:
        return True
    return post.visibility is Visibility.FOLLOWERS and viewer == post.author_id


_ORDER = tuple(Visibility)
"""Visibilities from the widest to the narrowest."""


def narrower(visibility: Visibility) -> tuple[Visibility, ...]:
    return _ORDER[_ORDER.index(visibility) + 1 :]


def narrowed(post: Post, to: Visibility | None) -> Visibility:
    """Return the visibility of a post after an edit (None: no change). Raises `InvalidInput` for a wider visibility.

    The visibility is never widened, so that the original audience can rely on it.
    """
    if to is None or to is post.visibility:
        return post.visibility
    if to not in narrower(post.visibility):
        raise InvalidInput(
            f"visibility: an edit can only reduce the visibility, and this post is {post.visibility} already",
            field="visibility",
        )
    return to
