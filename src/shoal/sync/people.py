"""How members stand to each other: follows, requests, blocks, mutes, notes, and the lists of them.

Made from `shoal.library.follows` by `python -m scripts.sync_library`.
"""

from __future__ import annotations

from collections.abc import Sequence

from shoal.core.visibility import Relation
from shoal.library import follows as awaited
from shoal.library.acting import AnyMember
from shoal.queries import members
from shoal.queries.follows import DAYS, FollowersOfDay, RelationshipHistory
from shoal.queries.hydration import Profile
from shoal.queries.members import MemberPage
from shoal.sync.calling import Acting, Calling


class SeesPeople(Calling):
    """The lists of members on a profile, as a viewer sees them."""

    _awaited: awaited.SeesPeople

    def followers_of(self, who: AnyMember, before: int | None = None, limit: int = members.PAGE) -> MemberPage:
        """A page of a member's followers, newest first; empty where the member hides them.

        Raises `NotFound`, `Gone` for a suspended member, and `InvalidInput` for a limit below 1.
        """
        return self._loop.call(self._awaited.followers_of(who, before, limit))

    def following_of(self, who: AnyMember, before: int | None = None, limit: int = members.PAGE) -> MemberPage:
        """A page of the members whom a member follows, newest first; empty where the member hides them.

        Raises `NotFound`, `Gone` for a suspended member, and `InvalidInput` for a limit below 1.
        """
        return self._loop.call(self._awaited.following_of(who, before, limit))

    def endorsed_by(self, who: AnyMember, before: int | None = None, limit: int = members.PAGE) -> MemberPage:
        """A page of the members that a member shows on the profile, newest first.

        Raises `NotFound`, `Gone` for a suspended member, and `InvalidInput` for a limit below 1.
        """
        return self._loop.call(self._awaited.endorsed_by(who, before, limit))


class Relates(Acting):
    """Verbs of a member towards others, and the member's own lists."""

    _awaited: awaited.Relates

    def follow(
        self,
        who: AnyMember,
        *,
        shares: bool | None = None,
        notify: bool | None = None,
        languages: Sequence[str] | None = None,
    ) -> Relation:
        """Follow a member, or ask to when they are locked. A repeated follow changes what it brings; None stays.

        Raises `NotFound`, `NotAllowed` for oneself and where one has blocked the other, and `InvalidInput` for one too many.
        """
        return self._loop.call(self._awaited.follow(who, shares=shares, notify=notify, languages=languages))

    def unfollow(self, who: AnyMember) -> Relation:
        """End a follow, or withdraw the request. Raises `NotFound`."""
        return self._loop.call(self._awaited.unfollow(who))

    def remove_follower(self, who: AnyMember) -> Relation:
        """End the follow of a follower, who may follow again. Raises `NotFound`."""
        return self._loop.call(self._awaited.remove_follower(who))

    def block(self, who: AnyMember) -> Relation:
        """Block a member: neither sees the other, and follows end. Raises `NotFound`, and `NotAllowed` for oneself."""
        return self._loop.call(self._awaited.block(who))

    def unblock(self, who: AnyMember) -> Relation:
        """End a block. Raises `NotFound`."""
        return self._loop.call(self._awaited.unblock(who))

    def mute(self, who: AnyMember, *, notifications: bool = True, seconds: int = 0) -> Relation:
        """Mute a member, who does not learn of it: for so many seconds, or (0) until `unmute`.

        Raises `NotFound`, `NotAllowed` for oneself, and `InvalidInput` for a time that is too long.
        """
        return self._loop.call(self._awaited.mute(who, notifications=notifications, seconds=seconds))

    def unmute(self, who: AnyMember) -> Relation:
        """End a mute. Raises `NotFound`."""
        return self._loop.call(self._awaited.unmute(who))

    def note(self, who: AnyMember, text: str) -> Relation:
        """Note something about a member, for oneself; an empty text takes it away. Raises `NotFound` and `TooLarge`."""
        return self._loop.call(self._awaited.note(who, text))

    def endorse(self, who: AnyMember) -> Relation:
        """Show a followee on the own profile. Raises `NotFound`, and `InvalidInput` for a member who is not followed."""
        return self._loop.call(self._awaited.endorse(who))

    def unendorse(self, who: AnyMember) -> Relation:
        """Show the member there no longer. Raises `NotFound`."""
        return self._loop.call(self._awaited.unendorse(who))

    def authorize(self, who: AnyMember) -> Relation:
        """Let a member follow who asked to. Raises `NotFound` where they have not asked."""
        return self._loop.call(self._awaited.authorize(who))

    def reject(self, who: AnyMember) -> Relation:
        """Refuse a request to follow; they may ask again. Raises `NotFound` where they have not asked."""
        return self._loop.call(self._awaited.reject(who))

    def relations(self, *others: AnyMember) -> dict[int, Relation]:
        """How this member stands to others, by id. Raises `NotFound` for a name that nobody has."""
        return self._loop.call(self._awaited.relations(*others))

    def familiar(self, *others: AnyMember) -> dict[int, list[Profile]]:
        """For each of these members the followees of this member among the followers, by id.

        Raises `NotFound` for a name that nobody has.
        """
        return self._loop.call(self._awaited.familiar(*others))

    def relationship_history(self, who: AnyMember) -> RelationshipHistory:
        """When this member and another followed each other: since when, until when, and again. Raises `NotFound`."""
        return self._loop.call(self._awaited.relationship_history(who))

    def followers_by_day(self, days: int = DAYS) -> list[FollowersOfDay]:
        """The followers at the end of each of the last `days` (1 to 400, UTC), oldest first, with how many came and went.

        There are fewer days where histories are not kept for so long. Raises `InvalidInput`.
        """
        return self._loop.call(self._awaited.followers_by_day(days))

    def followers(self, before: int | None = None, limit: int = members.PAGE) -> MemberPage:
        """A page of the followers, newest first; `before` is the `next` of the page before.

        Raises `InvalidInput` for a limit below 1.
        """
        return self._loop.call(self._awaited.followers(before, limit))

    def following(self, before: int | None = None, limit: int = members.PAGE) -> MemberPage:
        """A page of the followees, newest first. Raises `InvalidInput` for a limit below 1."""
        return self._loop.call(self._awaited.following(before, limit))

    def requests(self, before: int | None = None, limit: int = members.PAGE) -> MemberPage:
        """A page of the members who ask to follow, newest first. Raises `InvalidInput` for a limit below 1."""
        return self._loop.call(self._awaited.requests(before, limit))

    def blocked(self, before: int | None = None, limit: int = members.PAGE) -> MemberPage:
        """A page of the members whom one blocks, newest first. Raises `InvalidInput` for a limit below 1."""
        return self._loop.call(self._awaited.blocked(before, limit))

    def muted(self, before: int | None = None, limit: int = members.PAGE) -> MemberPage:
        """A page of the members whom one mutes, newest first. Raises `InvalidInput` for a limit below 1."""
        return self._loop.call(self._awaited.muted(before, limit))

    def endorsed(self, before: int | None = None, limit: int = members.PAGE) -> MemberPage:
        """A page of the members on the own profile, newest first. Raises `InvalidInput` for a limit below 1."""
        return self._loop.call(self._awaited.endorsed(before, limit))
