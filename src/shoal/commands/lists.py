"""Commands for lists of followed members.

Unfollowed members are removed later (`relationships.trim_lists`); queries skip them immediately.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from shoal.commands.context import Claim, Writes, add_node, delete_owned, serialized
from shoal.core.errors import InvalidInput, NotFound, Taken
from shoal.core.events import ListChanged
from shoal.core.ids import shard_of
from shoal.core.model import MemberList, RepliesPolicy
from shoal.core.text import check_text
from shoal.graph.access import count_of, members_by_id, own_object
from shoal.graph.changes import change_object
from shoal.graph.contract import Batch
from shoal.graph.schema import FOLLOWS, LISTS, OWNS_LIST


async def create(
    writes: Writes,
    member_id: int,
    title: str,
    *,
    replies: RepliesPolicy = RepliesPolicy.LIST,
    exclusive: bool = False,
) -> MemberList:
    """Create an empty list. Raises `InvalidInput` if there are too many lists, or for a title that is empty or too long."""
    title = _checked_title(writes, title)
    shard = shard_of(member_id)

    async def attempt(claim: Claim) -> MemberList:
        if await count_of(writes.graph, member_id, OWNS_LIST) >= writes.limits.lists:
            raise InvalidInput(f"at most {writes.limits.lists} lists")

        def build(id_: int) -> tuple[MemberList, Batch]:
            made = MemberList(id=id_, owner_id=member_id, title=title, replies=replies, exclusive=exclusive)
            batch = Batch(shard)
            claim(batch)
            batch.obj_add(made)
            batch.assoc_add(member_id, OWNS_LIST, id_, id_)
            batch.emit(ListChanged(list_id=id_, owner_id=member_id))
            return made, batch

        return await add_node(writes, shard, build)

    return await serialized(writes, member_id, attempt)


async def update(
    writes: Writes,
    member_id: int,
    list_id: int,
    *,
    title: str | None = None,
    replies: RepliesPolicy | None = None,
    exclusive: bool | None = None,
) -> MemberList:
    """Change the given values of a list. Raises `NotFound` for another member's list."""

    def change(list_: MemberList) -> MemberList:
        return msgspec.structs.replace(
            list_,
            title=list_.title if title is None else _checked_title(writes, title),
            replies=list_.replies if replies is None else replies,
            exclusive=list_.exclusive if exclusive is None else exclusive,
        )

    return await change_object(
        writes.graph,
        lambda: own_object(writes.graph, MemberList, member_id, list_id),
        change,
        lambda batch, *_: batch.emit(ListChanged(list_id=list_id, owner_id=member_id)),
    )


async def delete(writes: Writes, member_id: int, list_id: int) -> None:
    """Delete a list; its members are removed from it later. Raises `NotFound` for another member's list."""
    event = ListChanged(list_id=list_id, owner_id=member_id)
    await delete_owned(writes, MemberList, OWNS_LIST, member_id, list_id, event)


async def put_on(writes: Writes, member_id: int, list_id: int, others: Sequence[int]) -> None:
    """Add members to a list, all or none.

    Raises `NotFound` for a member whom the owner does not follow (the owner may add themselves), `Taken` if a member is already on
    the list, and `InvalidInput` if the list would be too long.
    """
    await own_object(writes.graph, MemberList, member_id, list_id)
    requested = list(dict.fromkeys(others))
    if not requested:
        return
    followed = (await writes.graph.assoc_get(member_id, (FOLLOWS,), requested))[FOLLOWS]
    there = await members_by_id(writes.graph, requested)
    if any(id_ not in there or (id_ not in followed and id_ != member_id) for id_ in requested):
        raise NotFound("Record not found")

    async def attempt(claim: Claim) -> None:
        if (await writes.graph.assoc_get(list_id, (LISTS,), requested))[LISTS]:
            raise Taken("Account has already been taken", field="account_ids")
        if await count_of(writes.graph, list_id, LISTS) + len(requested) > writes.limits.list_members:
            raise InvalidInput(f"a list has at most {writes.limits.list_members} members", field="account_ids")
        batch = _changed(member_id, list_id)
        claim(batch)
        batch.expect(list_id)
        for id_ in requested:
            batch.assoc_add(list_id, LISTS, id_, writes.new_id(batch.shard))
        await writes.commit(batch)

    await serialized(writes, member_id, attempt)


async def take_off(writes: Writes, member_id: int, list_id: int, others: Sequence[int]) -> None:
    """Remove members from a list, ignoring any that are not on it."""
    await own_object(writes.graph, MemberList, member_id, list_id)
    listed = (await writes.graph.assoc_get(list_id, (LISTS,), list(dict.fromkeys(others))))[LISTS]
    if listed:
        batch = _changed(member_id, list_id)
        for id_ in listed:
            batch.assoc_del(list_id, LISTS, id_, writes.new_id(batch.shard))
        await writes.graph.commit(batch)


def _changed(member_id: int, list_id: int) -> Batch:
    batch = Batch(shard_of(member_id))
    batch.emit(ListChanged(list_id=list_id, owner_id=member_id))
    return batch


def _checked_title(writes: Writes, title: str) -> str:
    title = check_text(title.strip(), field="title", maximum=writes.limits.list_title)
    if not title:
        raise InvalidInput("Title can't be blank", field="title")
    return title
