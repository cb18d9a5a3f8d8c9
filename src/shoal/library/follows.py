"""Relationships between members: follows, requests, blocks, mutes, notes, and their lists."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.commands import relationships
from shoal.commands.relationships import FollowOptions
from shoal.core.errors import NotFound
from shoal.core.visibility import Relation
from shoal.graph.access import access_member, full_relations, members_by_id
from shoal.graph.cache.coherence import foresee
from shoal.graph.schema import BLOCKS, ENDORSES, FOLLOWED_BY, FOLLOWS, MUTES, REQUESTED_BY, AssocType
from shoal.library.acting import Acting, AnyMember, Seeing, part
from shoal.queries import members
from shoal.queries.follows import DAYS, FollowersOfDay, RelationshipHistory, by_day
from shoal.queries.follows import history as relationship_history
from shoal.queries.hydration import Profile
from shoal.queries.members import MemberPage


class SeesPeople(Seeing):
    """The followers, followees and endorsements of members, as a viewer sees them."""

    async def followers_of(self, who: AnyMember, before: int | None = None, limit: int = members.PAGE) -> MemberPage:
        """Return a page of a member's followers, newest first. The page is empty if the member hides their followers.

        Raises `NotFound`, `Gone` for a suspended member, and `InvalidInput` for a limit below 1.
        """
        return await self._connections(who, FOLLOWED_BY, before, limit)

    async def following_of(self, who: AnyMember, before: int | None = None, limit: int = members.PAGE) -> MemberPage:
        """Return a page of a member's followees, newest first. The page is empty if the member hides their followees.

        Raises `NotFound`, `Gone` for a suspended member, and `InvalidInput` for a limit below 1.
        """
        return await self._connections(who, FOLLOWS, before, limit)

    async def endorsed_by(self, who: AnyMember, before: int | None = None, limit: int = members.PAGE) -> MemberPage:
        """Return a page of the members endorsed on a profile, newest first.

        Raises `NotFound`, `Gone` for a suspended member, and `InvalidInput` for a limit below 1.
        """
        member = await access_member(self._reads.graph, await self._resolve(who))
        cursor = part(before, limit)
        return await members.page(self._reads, self._viewer, member.id, ENDORSES, cursor, followed_by=member.id)

    async def _connections(self, who: AnyMember, atype: AssocType, before: int | None, limit: int) -> MemberPage:
        cursor = part(before, limit)
        showing = ((atype, members.read_by_page(cursor)),)
        member = await access_member(self._reads.graph, await self._resolve(who), showing=showing)
        if member.hides_connections and member.id != self._viewer:
            return MemberPage([], [], None)
        return await members.page(self._reads, self._viewer, member.id, atype, cursor)


class Relates(Acting):
    """Actions of a member toward other members, such as follows, mutes and blocks, and lists of the members concerned."""

    async def follow(
        self,
        who: AnyMember,
        *,
        shares: bool | None = None,
        notify: bool | None = None,
        languages: Sequence[str] | None = None,
    ) -> Relation:
        """Follow a member, or send a follow request if they are locked. Following again changes the given options.

        Raises `NotFound`, `NotAllowed` for the member's own account and if either has blocked the other, and `InvalidInput` for
        too many follows.
        """
        options = FollowOptions(shares=shares, notify=notify, languages=languages)
        return await relationships.follow(self._writes, self.id, await self._other(who), options)

    async def unfollow(self, who: AnyMember) -> Relation:
        """Unfollow a member, or withdraw the follow request. Raises `NotFound`."""
        return await relationships.unfollow(self._writes, self.id, await self._other(who))

    async def remove_follower(self, who: AnyMember) -> Relation:
        """Remove a follower, who may follow again. Raises `NotFound`."""
        return await relationships.remove_follower(self._writes, self.id, await self._other(who))

    async def block(self, who: AnyMember) -> Relation:
        """Block a member: neither sees the other, and follows end.

        Raises `NotFound`, and `NotAllowed` for the member's own account.
        """
        return await relationships.block(self._writes, self.id, await self._other(who))

    async def unblock(self, who: AnyMember) -> Relation:
        """End a block. Raises `NotFound` for an unknown member."""
        return await relationships.unblock(self._writes, self.id, await self._other(who))

    async def mute(self, who: AnyMember, *, notifications: bool = True, seconds: int = 0) -> Relation:
        """Mute a member for `seconds`, or until `unmute` if it is 0. The muted member is not notified.

        Raises `NotFound`, `NotAllowed` for the member's own account, and `InvalidInput` for a time that is too long.
        """
        other = await self._other(who)
        return await relationships.mute(self._writes, self.id, other, notifications=notifications, seconds=seconds)

    async def unmute(self, who: AnyMember) -> Relation:
        """End a mute. Raises `NotFound` for an unknown member."""
        return await relationships.unmute(self._writes, self.id, await self._other(who))

    async def note(self, who: AnyMember, text: str) -> Relation:
        """Set a private note about a member; an empty text removes it. Raises `NotFound` and `TooLarge`."""
        return await relationships.note(self._writes, self.id, await self._other(who), text)

    async def endorse(self, who: AnyMember) -> Relation:
        """Endorse a followee on the member's profile. Raises `NotFound`, and `InvalidInput` for an unfollowed member."""
        return await relationships.endorse(self._writes, self.id, await self._other(who))

    async def unendorse(self, who: AnyMember) -> Relation:
        """Undo `endorse`. Raises `NotFound`."""
        return await relationships.unendorse(self._writes, self.id, await self._other(who))

    async def authorize(self, who: AnyMember) -> Relation:
        """Accept a follow request. Raises `NotFound` if there is none."""
        return await relationships.authorize_request(self._writes, self.id, await self._other(who))

    async def reject(self, who: AnyMember) -> Relation:
        """Reject a follow request; the member may send another. Raises `NotFound` if there is none."""
        return await relationships.reject_request(self._writes, self.id, await self._other(who))

    async def relations(self, *others: AnyMember) -> dict[int, Relation]:
        """Return this member's relations to other members, by id. Raises `NotFound` for an unknown user name."""
        ids = [await self._resolve(who) for who in others]
        return await full_relations(self._reads.graph, self.id, ids)

    async def familiar(self, *others: AnyMember) -> dict[int, list[Profile]]:
        """Return for each of these members, by id, which of their followers this member follows.

        Raises `NotFound` for an unknown user name.
        """
        ids = [await self._resolve(who) for who in others]
        return await members.familiar(self._reads, self.id, ids)

    async def relationship_history(self, who: AnyMember) -> RelationshipHistory:
        """Return the periods in which this member and another followed each other. Raises `NotFound`."""
        return await relationship_history(self._reads, self.id, await self._resolve(who))

    async def followers_by_day(self, days: int = DAYS) -> list[FollowersOfDay]:
        """Return the follower count at the end of each of the last `days` (1 to 400, UTC), oldest first, with gains and losses.

        There are fewer days if histories are not kept that long. Raises `InvalidInput`.
        """
        return await by_day(self._reads, self.id, days)

    async def followers(self, before: int | None = None, limit: int = members.PAGE) -> MemberPage:
        """Return a page of the followers, newest first. `before` is the `next` of the previous page.

        Raises `InvalidInput` for a limit below 1.
        """
        return await self._list(FOLLOWED_BY, before, limit)

    async def following(self, before: int | None = None, limit: int = members.PAGE) -> MemberPage:
        """Return a page of the followees, newest first. Raises `InvalidInput` for a limit below 1."""
        return await self._list(FOLLOWS, before, limit)

    async def requests(self, before: int | None = None, limit: int = members.PAGE) -> MemberPage:
        """Return a page of the follow requests, newest first. Raises `InvalidInput` for a limit below 1."""
        return await self._list(REQUESTED_BY, before, limit)

    async def blocked(self, before: int | None = None, limit: int = members.PAGE) -> MemberPage:
        """Return a page of the blocked members, newest first. Raises `InvalidInput` for a limit below 1."""
        return await self._list(BLOCKS, before, limit, severed=True)

    async def muted(self, before: int | None = None, limit: int = members.PAGE) -> MemberPage:
        """Return a page of the muted members, newest first. Raises `InvalidInput` for a limit below 1."""
        return await self._list(MUTES, before, limit, severed=True)

    async def endorsed(self, before: int | None = None, limit: int = members.PAGE) -> MemberPage:
        """Return a page of the endorsed members, newest first. Raises `InvalidInput` for a limit below 1."""
        return await self._list(ENDORSES, before, limit, followed_by=self.id)

    async def _list(
        self, atype: AssocType, before: int | None, limit: int, *, severed: bool = False, followed_by: int = 0
    ) -> MemberPage:
        cursor = part(before, limit)
        return await members.page(
            self._reads, self.id, self.id, atype, cursor, severed=severed, followed_by=followed_by
        )

    async def _other(self, who: AnyMember) -> int:
        id_ = await self._resolve(who)
        foresee(self.id)
        if not await members_by_id(self._reads.graph, (id_,)):
            raise NotFound("Record not found")
        return id_
