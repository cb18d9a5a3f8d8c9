"""Blocks of the whole network, each beside the list of them and under a key, so that a change is one commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

from shoal.core.audit import AuditTarget, AuditVerb, TargetKind
from shoal.core.errors import NotFound, Taken, Unfit
from shoal.core.ids import shard_of
from shoal.core.model import Node
from shoal.graph.changes import retry_on_conflict
from shoal.graph.contract import Batch, KeyTaken, Reader
from shoal.graph.schema import EVERYBODY, AssocType, Key
from shoal.services.audit import note
from shoal.services.writes import Writes, add_node

B = TypeVar("B", bound=Node)

_SHARD = shard_of(EVERYBODY)


async def check_room(graph: Reader, atype: AssocType, maximum: int) -> None:
    """Raise `Unfit` for a list that is full. Two who add at the same moment may both find the last place; that does no harm."""
    counted = await graph.assoc_count((EVERYBODY,), (atype,))
    if counted[atype].get(EVERYBODY, 0) >= maximum:
        raise Unfit(f"There are {maximum} such blocks already, which is the maximum")


class Blocklist(NamedTuple):
    """A list of blocks: where it stands, how long it may be, and what the audit log says of its blocks."""

    atype: AssocType
    maximum: int
    kind: TargetKind
    blocked: AuditVerb
    unblocked: AuditVerb


async def add_block(writes: Writes, listed: Blocklist, key: Key, make: Callable[[int], B], taken: Taken) -> B:
    """Return a new block, made with its id. Raises `taken` where there is one under this key, and `Unfit` for one too many."""
    await check_room(writes.graph, listed.atype, listed.maximum)

    def build(id_: int) -> tuple[B, Batch]:
        block, batch = make(id_), Batch(_SHARD)
        batch.key_add(key, id_)
        batch.obj_add(block)
        batch.assoc_add(EVERYBODY, listed.atype, id_, id_)
        note(writes, batch, listed.blocked, AuditTarget(listed.kind, id_, key.name))
        return block, batch

    try:
        return await add_node(writes, _SHARD, build)
    except KeyTaken as error:
        raise taken from error


async def remove_blocks(writes: Writes, listed: Blocklist, blocks: Mapping[Key, int]) -> None:
    """End blocks of a list, given their ids by their keys. Raises `NotFound` where none of them is there any more."""

    async def attempt() -> None:
        nodes = await writes.graph.obj_get(list(blocks.values()))
        batch = Batch(_SHARD)
        for key, id_ in blocks.items():
            if id_ in nodes:
                batch.key_del(key, id_)
                batch.obj_del(id_, nodes[id_].version)
                batch.assoc_del(EVERYBODY, listed.atype, id_, writes.new_id(_SHARD))
                note(writes, batch, listed.unblocked, AuditTarget(listed.kind, id_, key.name))
        if not batch.objects:
            raise NotFound("Record not found")
        await writes.graph.commit(batch)

    await retry_on_conflict(attempt)
