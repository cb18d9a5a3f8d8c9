"""Feeds: home, the public timeline, timelines of tags, of places and of one member.

Made from `shoal.library.feeds` by `python -m scripts.sync_library`.
"""

from __future__ import annotations

from collections.abc import Sequence

from shoal.core.places import DEFAULT_RADIUS_KM
from shoal.library import feeds as awaited
from shoal.library.acting import AnyMember
from shoal.queries.hydration import Entry
from shoal.queries.pipeline import Page
from shoal.sync.calling import Acting, Calling


class SeesFeeds(Calling):
    """Feeds that are there for everybody, as a viewer sees them."""

    _awaited: awaited.SeesFeeds

    def public(
        self,
        before: int | None = None,
        limit: int = 20,
        *,
        after: int | None = None,
        oldest_first: bool = False,
        only_media: bool = False,
    ) -> Page:
        """A page of the public posts of everybody, newest first, without shares and comments on others' posts.

        Raises `InvalidInput` for a limit below 1.
        """
        return self._loop.call(
            self._awaited.public(before, limit, after=after, oldest_first=oldest_first, only_media=only_media)
        )

    def tagged(
        self,
        tag: str,
        before: int | None = None,
        limit: int = 20,
        *,
        any_of: Sequence[str] = (),
        all_of: Sequence[str] = (),
        none_of: Sequence[str] = (),
        after: int | None = None,
        oldest_first: bool = False,
        only_media: bool = False,
    ) -> Page:
        """A page of the public posts under a tag, newest first: or under `any_of`, and under `all_of`, but `none_of`.

        Raises `InvalidInput` for text that is no tag, and for a limit below 1.
        """
        return self._loop.call(
            self._awaited.tagged(
                tag,
                before,
                limit,
                any_of=any_of,
                all_of=all_of,
                none_of=none_of,
                after=after,
                oldest_first=oldest_first,
                only_media=only_media,
            )
        )

    def nearby(
        self,
        latitude: float,
        longitude: float,
        radius_km: float = DEFAULT_RADIUS_KM,
        before: int | None = None,
        limit: int = 20,
        *,
        after: int | None = None,
        oldest_first: bool = False,
        only_media: bool = False,
    ) -> Page:
        """A page of the public posts within 0.1 to 500 km of a place (degrees), newest first.

        Distances are those to the places of posts as they are stored: as exactly as their authors chose. Raises
        `InvalidInput` for a place off the globe, for another radius, and for a limit below 1.
        """
        return self._loop.call(
            self._awaited.nearby(
                latitude,
                longitude,
                radius_km,
                before,
                limit,
                after=after,
                oldest_first=oldest_first,
                only_media=only_media,
            )
        )

    def posts_by(
        self,
        who: AnyMember,
        before: int | None = None,
        limit: int = 20,
        *,
        after: int | None = None,
        oldest_first: bool = False,
        only_media: bool = False,
        no_comments: bool = False,
        no_shares: bool = False,
        tag: str = "",
    ) -> Page:
        """A page of a member's posts and shares, newest first, as this viewer may see them.

        Raises `NotFound`, `Gone` for a suspended member, and `InvalidInput` for a limit below 1.
        """
        return self._loop.call(
            self._awaited.posts_by(
                who,
                before,
                limit,
                after=after,
                oldest_first=oldest_first,
                only_media=only_media,
                no_comments=no_comments,
                no_shares=no_shares,
                tag=tag,
            )
        )


class HasFeeds(SeesFeeds, Acting):
    """A member's own feeds."""

    _awaited: awaited.HasFeeds

    def home(
        self, before: int | None = None, limit: int = 20, *, after: int | None = None, oldest_first: bool = False
    ) -> Page:
        """A page of the home timeline, newest first; `before` is the `next` of the page before.

        Raises `InvalidInput` for a limit below 1.
        """
        return self._loop.call(self._awaited.home(before, limit, after=after, oldest_first=oldest_first))

    def posts(self, of: AnyMember | None = None, before: int | None = None, limit: int = 20) -> Page:
        """A page of the posts and shares of a member (by default this one), as `posts_by` without its choices.

        Raises `NotFound`, `Gone` for a suspended member, and `InvalidInput` for a limit below 1.
        """
        return self._loop.call(self._awaited.posts(of, before, limit))

    def list_recent(self, a: int = 0, b: int = 19) -> list[Entry]:
        """The own posts and shares at positions `a` to `b` (both included; 0 is the newest), at the same price at any position.

        A position is that of a stored entry: a deleted post has none. A share of a post that this member may not see (any
        more) keeps its position and is left out, so there may be fewer entries; fewer than asked for are no sign of the end.
        Raises `InvalidInput` for more than 2,000 positions at once.
        """
        return self._loop.call(self._awaited.list_recent(a, b))

    def list_public_feed(self, a: int = 0, b: int = 19) -> list[Entry]:
        """The home timeline at positions `a` to `b` (both included; 0 is the newest), at the same price at any position.

        A position is that of a stored entry of this member, of followees or under followed tags, one for each of these that
        brings it. What this member may not see, or home does not show (direct posts to others, hidden posts, talk with
        strangers, a share beside the post, filters), keeps its position and is left out: there may be fewer entries than
        asked for. `home` has full pages. Raises `InvalidInput` for more than 2,000 positions at once.
        """
        return self._loop.call(self._awaited.list_public_feed(a, b))
