"""The one rule of who may see what. Every surface asks it, and nothing else answers."""

from __future__ import annotations

import msgspec

from shoal.core.model import HIDDEN_BY_MODERATION, OPEN, Member, Post, Share, Visibility


class Relation(msgspec.Struct, frozen=True):
    """How a viewer stands to one other member."""

    following: bool = False
    followed_by: bool = False
    blocking: bool = False
    blocked_by: bool = False
    muting: bool = False
    muting_notifications: bool = False
    """Notifications of what they do are not wanted either."""
    muted_until: int = 0
    """Unix milliseconds; 0 for a mute without an end."""
    shares: bool = True
    """Of one who is followed, or whom the viewer asked to follow: what they share is wanted too."""
    languages: tuple[str, ...] = ()
    """Of the same: the languages that are wanted; none for all."""
    watching: bool = False
    """The viewer is notified of what they post, or wants to be once they agree to be followed."""
    requested: bool = False
    """The viewer has asked to follow them."""
    requested_by: bool = False
    endorsed: bool = False
    """The viewer shows them on the own profile."""
    note: str = ""
    """What the viewer has noted about them, for themselves."""

    @property
    def severed(self) -> bool:
        """One of the two has blocked the other."""
        return self.blocking or self.blocked_by


STRANGER = Relation()


def may_see(viewer: int | None, post: Post, author: Member | None, relation: Relation) -> bool:
    """Whether the viewer (None: nobody is logged in) may see this post of this author at all.

    A deleted author is None. `relation` is that of the viewer to the author.
    """
    if author is None or author.suspended:
        return False
    if viewer is not None and viewer == post.author_id:
        return True
    # `relation.severed`, without a call: this is asked of every entry of every page.
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
    """Whether the post may come to the viewer unasked, in a timeline or a list: as `may_see`, less whom they mute."""
    return not relation.muting and may_see(viewer, post, author, relation)


def may_list_publicly(viewer: int | None, post: Post, author: Member, relation: Relation) -> bool:
    """Whether a post that may come to the viewer (`may_list`) also comes in the timelines of everybody, and under its tags.

    Those of a silenced author come there to whoever follows them.
    """
    if post.visibility is not Visibility.PUBLIC:
        return False
    return not author.silenced or relation.following or viewer == author.id


def is_sensitive(post: Post, author: Member) -> bool:
    """Whether the post is shown to others as sensitive: its author says so, or moderators do of all media of theirs."""
    return post.sensitive or (author.sensitized and bool(post.media))


def may_come(post: Post, share: Share | None, relation: Relation) -> bool:
    """Whether what somebody posts or shares is wanted of them in a home or a list: what a follow says besides that there is one.

    `relation` is that of the viewer to the sharer, or to the author where nobody shared it. A post in no language is wanted.
    """
    if share is not None and not relation.shares:
        return False
    return not relation.languages or not post.language or post.language in relation.languages


def may_see_share(viewer: int | None, share: Share, sharer: Member | None, relation: Relation) -> bool:
    """Whether the viewer may see that this member shared a post; whether they may see the post is for `may_see`.

    A deleted sharer is None. `relation` is that of the viewer to the sharer.
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
    """Whether a viewer who may see the post may show it to their followers."""
    if post.visibility in OPEN:
        return True
    return post.visibility is Visibility.FOLLOWERS and viewer == post.author_id
