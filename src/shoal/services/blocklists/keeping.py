"""Blocks of the whole network, each beside the list of them and under a key, so that a change is one commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from shoal.core.errors import Taken, Unfit
from shoal.core.ids import shard_of
from shoal.core.model import Node
from shoal.graph.contract import Batch, KeyTaken, Reader
from shoal.graph.schema import EVERYBODY, AssocType, Key
from shoal.services.writes import Writes, add_node

B = TypeVar("B", bound=Node)

_SHARD = shard_of(EVERYBODY)


async def check_room(graph: Reader, atype: AssocType, maximum: int) -> None:
    """Raise `Unfit` for a list that is full. Two who add at the same moment may both find the last place; that does no harm."""
    counted = await graph.assoc_count((EVERYBODY,), (atype,))
    if counted[atype].get(EVERYBODY, 0) >= maximum:
        raise Unfit(f"There are {maximum} such blocks already, which is the maximum")


async def add_block(
    writes: Writes, atype: AssocType, maximum: int, key: Key, make: Callable[[int], B], taken: Taken
) -> B:
    """Return a new block, made with its id. Raises `taken` where there is one under this key, and `Unfit` for one too many."""
    await check_room(writes.graph, atype, maximum)

    def build(id_: int) -> tuple[B, Batch]:
        block, batch = make(id_), Batch(_SHARD)
        batch.key_add(key, id_)
        batch.obj_add(block)
        batch.assoc_add(EVERYBODY, atype, id_, id_)
        return block, batch

    try:
        return await add_node(writes, _SHARD, build)
    except KeyTaken as error:
        raise taken from error


async def remove_blocks(writes: Writes, atype: AssocType, blocks: Mapping[Key, int]) -> None:
    """End blocks of a list, given their ids by their keys."""
    batch = Batch(_SHARD)
    for key, id_ in blocks.items():
        batch.key_del(key, id_)
        batch.obj_del(id_)
        batch.assoc_del(EVERYBODY, atype, id_, writes.new_id(_SHARD))
    await writes.graph.commit(batch)
