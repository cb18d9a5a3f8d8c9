"""IP blocks: moderators refuse networks, or make people who sign up from them wait for approval.

Blocks are on the shard of their list, so each change is one commit. It also moves a mark (`ip_blocks_changed`):
processes that remember all blocks look at the mark, and read the blocks again when it has moved.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from msgspec.structs import replace

from shoal.core.audit import AuditVerb, ip_target
from shoal.core.blocklists import IpBlock, IpSeverity, check_network
from shoal.core.errors import NotFound, Taken
from shoal.core.ids import shard_of
from shoal.core.text import check_text
from shoal.graph.changes import put_on, retry_on_conflict, take_off
from shoal.graph.contract import MAX_TIME, Batch, Cursor, KeyTaken, Reader
from shoal.graph.schema import BLOCKS_IP, EVERYBODY, IP_BLOCKS_CHANGED, ip_block_key
from shoal.services.audit import note
from shoal.services.blocklists.keeping import check_room
from shoal.services.writes import Writes, add_node

MAX_BLOCKS = 10_000
MAX_COMMENT = 1_000
"""Maximum characters."""
MAX_SECONDS = 10 * 365 * 86_400
"""Maximum duration of a block."""
_SHARD = shard_of(EVERYBODY)
_PAGE = 500


class IpBlockChanges(NamedTuple):
    """Wanted changes of a block: None leaves a value as it is."""

    network: str | None = None
    severity: IpSeverity | None = None
    comment: str | None = None
    seconds: int | None = None
    """Seconds until it expires; 0 for never."""


async def block(writes: Writes, network: str, severity: IpSeverity, *, comment: str = "", seconds: int = 0) -> IpBlock:
    """Block a network for so many seconds; 0 for ever.

    Raises `InvalidInput` for a malformed network, `Taken` for one that is blocked, `Unfit` for one too many.
    """
    made = _checked(IpBlock(id=0, network="", severity=severity), IpBlockChanges(network, None, comment, seconds))
    await check_room(writes.graph, BLOCKS_IP, MAX_BLOCKS)

    def build(id_: int) -> tuple[IpBlock, Batch]:
        node = replace(made, id=id_, ticket_id=id_ if made.expires_at else 0)
        batch = _changing(writes)
        batch.obj_add(node)
        batch.key_add(ip_block_key(node.network), id_)
        batch.assoc_add(EVERYBODY, BLOCKS_IP, id_, id_)
        if node.ticket_id:
            put_on(batch, node.ticket_id, node.expires_at, id_)
        note(writes.because(node.comment), batch, AuditVerb.IP_BLOCKED, ip_target(node), severity=node.severity.value)
        return node, batch

    try:
        return await add_node(writes, _SHARD, build)
    except KeyTaken as error:
        raise _taken() from error


async def update(writes: Writes, block_id: int, changes: IpBlockChanges) -> IpBlock:
    """Change a block. Raises as `block` does, and `NotFound`."""

    async def attempt() -> IpBlock:
        before = await access(writes.graph, block_id)
        after = _checked(before, changes)
        if after == before:
            return before
        if after.expires_at != before.expires_at:
            after = replace(after, ticket_id=writes.new_id(_SHARD) if after.expires_at else 0)
        after = replace(after, version=before.version + 1)
        batch = _changing(writes)
        batch.obj_set(after)
        if after.network != before.network:
            batch.key_del(ip_block_key(before.network), block_id)
            batch.key_add(ip_block_key(after.network), block_id)
        if after.ticket_id != before.ticket_id:
            take_off(batch, before.ticket_id, writes.new_id(_SHARD))
            if after.ticket_id:
                put_on(batch, after.ticket_id, after.expires_at, block_id)
        changed = AuditVerb.IP_BLOCK_CHANGED
        note(writes.because(after.comment), batch, changed, ip_target(after), severity=after.severity.value)
        try:
            await writes.graph.commit(batch)
        except KeyTaken as error:
            raise _taken() from error
        return after

    return await retry_on_conflict(attempt)


async def unblock(writes: Writes, block_id: int) -> IpBlock:
    """End a block. Raises `NotFound`."""

    async def attempt() -> IpBlock:
        node = await access(writes.graph, block_id)
        batch = _ending(writes, node)
        note(writes, batch, AuditVerb.IP_UNBLOCKED, ip_target(node), severity=node.severity.value)
        await writes.graph.commit(batch)
        return node

    return await retry_on_conflict(attempt)


async def expire(writes: Writes, node: IpBlock) -> None:
    """End a block in the version that was read. Raises `Conflict` if it was changed since."""
    await writes.graph.commit(_ending(writes, node))


def _ending(writes: Writes, node: IpBlock) -> Batch:
    batch = _changing(writes)
    batch.obj_del(node.id, node.version)
    batch.key_del(ip_block_key(node.network), node.id)
    batch.assoc_del(EVERYBODY, BLOCKS_IP, node.id, writes.new_id(_SHARD))
    take_off(batch, node.ticket_id, writes.new_id(_SHARD))
    return batch


async def access(graph: Reader, block_id: int) -> IpBlock:
    """Return a block by its id. Raises `NotFound`."""
    node = (await graph.obj_get((block_id,))).get(block_id)
    if not isinstance(node, IpBlock):
        raise NotFound("Record not found")
    return node


async def version(graph: Reader) -> int:
    """Return a number that changes whenever the blocks may have changed."""
    found = await graph.assoc_get(EVERYBODY, (IP_BLOCKS_CHANGED,), (EVERYBODY,))
    mark = found[IP_BLOCKS_CHANGED].get(EVERYBODY)
    return mark.time if mark else 0


async def everything(graph: Reader) -> list[IpBlock]:
    """Return all blocks, newest first."""
    found: list[IpBlock] = []
    before = MAX_TIME
    while page := await graph.assoc_range(EVERYBODY, BLOCKS_IP, Cursor(before=before, limit=_PAGE)):
        nodes = await graph.obj_get([assoc.id2 for assoc in page])
        found += [node for assoc in page if isinstance(node := nodes.get(assoc.id2), IpBlock)]
        before = page[-1].time
    return found


def _checked(before: IpBlock, changes: IpBlockChanges) -> IpBlock:
    after = before
    if changes.network is not None:
        after = replace(after, network=check_network(changes.network))
    if changes.severity is not None:
        after = replace(after, severity=changes.severity)
    if changes.comment is not None:
        after = replace(after, comment=check_text(changes.comment, field="comment", maximum=MAX_COMMENT))
    if changes.seconds is not None:
        expires_at = time.time_ns() // 1_000_000 + changes.seconds * 1_000 if changes.seconds else 0
        after = replace(after, expires_at=expires_at)
    return after


def _changing(writes: Writes) -> Batch:
    """Begin a batch that makes every process read the blocks again."""
    batch = Batch(_SHARD)
    batch.assoc_add(EVERYBODY, IP_BLOCKS_CHANGED, EVERYBODY, writes.new_id(_SHARD))
    return batch


def _taken() -> Taken:
    return Taken("Ip has already been taken", field="ip")
