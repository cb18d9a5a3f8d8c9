"""Lists of members, whose posts their owner reads by themselves.

Made from `shoal.library.lists` by `python -m scripts.sync_library`.
"""

from __future__ import annotations

from shoal.core.model import MemberList, RepliesPolicy
from shoal.library import lists as awaited
from shoal.library.acting import AnyMember
from shoal.library.lists import AnyList, RepliesName
from shoal.queries import members as member_queries
from shoal.queries.members import MemberPage
from shoal.queries.pipeline import Page
from shoal.sync.calling import Calling


class OwnLists(Calling):
    """The lists of a member."""

    _awaited: awaited.OwnLists

    def all(self) -> list[MemberList]:
        """All lists, oldest first. Raises `Unavailable`."""
        return self._loop.call(self._awaited.all())

    def get(self, which: AnyList) -> MemberList:
        """A list by id, as it is now. Raises `NotFound`."""
        return self._loop.call(self._awaited.get(which))

    def create(
        self, title: str, *, replies: RepliesPolicy | RepliesName = RepliesPolicy.LIST, exclusive: bool = False
    ) -> MemberList:
        """Make a list without members. Posts of members of an `exclusive` list do not come to the home timeline.

        Raises `InvalidInput` for one list too many, and for a title that is empty or too long.
        """
        return self._loop.call(self._awaited.create(title, replies=replies, exclusive=exclusive))

    def update(
        self,
        which: AnyList,
        *,
        title: str | None = None,
        replies: RepliesPolicy | RepliesName | None = None,
        exclusive: bool | None = None,
    ) -> MemberList:
        """Change the given values of a list. Raises `NotFound`, and `InvalidInput` as `create`."""
        return self._loop.call(self._awaited.update(which, title=title, replies=replies, exclusive=exclusive))

    def delete(self, which: AnyList) -> None:
        """Delete a list. Raises `NotFound`."""
        self._loop.call(self._awaited.delete(which))

    def put_on(self, which: AnyList, *members: AnyMember) -> None:
        """Put followees on a list, all of them or none.

        Raises `NotFound` for a list or a member who is not followed, `Taken` for one who is on it, and `InvalidInput` for one
        too many.
        """
        self._loop.call(self._awaited.put_on(which, *members))

    def take_off(self, which: AnyList, *members: AnyMember) -> None:
        """Take members off a list; those who are not on it do no harm. Raises `NotFound`."""
        self._loop.call(self._awaited.take_off(which, *members))

    def members(self, which: AnyList, before: int | None = None, limit: int = member_queries.PAGE) -> MemberPage:
        """A page of the members of a list, newest first. Raises `NotFound`, and `InvalidInput` for a limit below 1."""
        return self._loop.call(self._awaited.members(which, before, limit))

    def containing(self, who: AnyMember) -> list[MemberList]:
        """The lists that a member is on. Raises `NotFound`, and `Gone` for a suspended member."""
        return self._loop.call(self._awaited.containing(who))

    def timeline(
        self,
        which: AnyList,
        before: int | None = None,
        limit: int = 20,
        *,
        after: int | None = None,
        oldest_first: bool = False,
    ) -> Page:
        """A page of the posts of the members of a list. Raises `NotFound`, and `InvalidInput` for a limit below 1."""
        return self._loop.call(self._awaited.timeline(which, before, limit, after=after, oldest_first=oldest_first))
