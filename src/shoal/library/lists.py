"""Lists of members, each with its own timeline."""

from __future__ import annotations

from typing import Literal, TypeAlias

from shoal.commands import lists
from shoal.core.model import MemberList, RepliesPolicy
from shoal.graph.access import access_member, own_object
from shoal.graph.schema import LISTS
from shoal.library.acting import AnyMember, Owned, id_of, one_of, part, resolve
from shoal.queries import lists as feed
from shoal.queries import members as member_queries
from shoal.queries.members import MemberPage
from shoal.queries.pipeline import Page

AnyList: TypeAlias = MemberList | int
RepliesName: TypeAlias = Literal["followed", "list", "none"]


class OwnLists(Owned):
    """The lists of a member."""

    async def all(self) -> list[MemberList]:
        """Return all lists, oldest first. Raises `Unavailable`."""
        return await feed.owned(self._reads.graph, self._owner)

    async def get(self, which: AnyList) -> MemberList:
        """Return the current version of one of this member's lists. Raises `NotFound`."""
        return await own_object(self._reads.graph, MemberList, self._owner, id_of(which))

    async def create(
        self, title: str, *, replies: RepliesPolicy | RepliesName = RepliesPolicy.LIST, exclusive: bool = False
    ) -> MemberList:
        """Create an empty list. Posts by members of an `exclusive` list do not appear in the home timeline.

        Raises `InvalidInput` if there are too many lists, and for a title that is empty or too long.
        """
        policy = one_of(RepliesPolicy, replies, "replies")
        return await lists.create(self._writes, self._owner, title, replies=policy, exclusive=exclusive)

    async def update(
        self,
        which: AnyList,
        *,
        title: str | None = None,
        replies: RepliesPolicy | RepliesName | None = None,
        exclusive: bool | None = None,
    ) -> MemberList:
        """Change the given values of a list; None keeps a value. Raises `NotFound`, and `InvalidInput` for an invalid value."""
        policy = None if replies is None else one_of(RepliesPolicy, replies, "replies")
        return await lists.update(
            self._writes, self._owner, id_of(which), title=title, replies=policy, exclusive=exclusive
        )

    async def delete(self, which: AnyList) -> None:
        """Delete a list. Raises `NotFound`."""
        await lists.delete(self._writes, self._owner, id_of(which))

    async def put_on(self, which: AnyList, *members: AnyMember) -> None:
        """Add followees to a list, all of them or none.

        Raises `NotFound` for an unknown list or an unfollowed member, `Taken` for a member already on the list,
        and `InvalidInput` for too many members.
        """
        await lists.put_on(self._writes, self._owner, id_of(which), await self._ids(members))

    async def take_off(self, which: AnyList, *members: AnyMember) -> None:
        """Remove members from a list. Members not on it are ignored. Raises `NotFound`."""
        await lists.take_off(self._writes, self._owner, id_of(which), await self._ids(members))

    async def members(self, which: AnyList, before: int | None = None, limit: int = member_queries.PAGE) -> MemberPage:
        """Return a page of the members of a list, newest first. Raises `NotFound`, and `InvalidInput` for a limit below 1."""
        member_list = await self.get(which)
        cursor = part(before, limit)
        return await member_queries.page(
            self._reads, self._owner, member_list.id, LISTS, cursor, followed_by=self._owner
        )

    async def containing(self, who: AnyMember) -> list[MemberList]:
        """Return the lists that a member is on. Raises `NotFound`, and `Gone` for a suspended member."""
        member = await access_member(self._reads.graph, await resolve(self._network, who))
        return await feed.with_member(self._reads.graph, self._owner, member.id)

    async def timeline(
        self,
        which: AnyList,
        before: int | None = None,
        limit: int = 20,
        *,
        after: int | None = None,
        oldest_first: bool = False,
    ) -> Page:
        """Return a page of the posts by members of a list, newest first.

        With `oldest_first`, the page has the oldest posts newer than `after`, still newest first.
        Raises `NotFound`, and `InvalidInput` for a limit below 1.
        """
        cursor = part(before, limit, after, oldest_first=oldest_first)
        return await feed.page(self._reads, self._owner, id_of(which), cursor)

    async def _ids(self, members: tuple[AnyMember, ...]) -> list[int]:
        return [await resolve(self._network, who) for who in members]
