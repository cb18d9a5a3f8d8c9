"""E-mail addresses are unique, and lie on shards of their own: a second commit of every registration."""

from __future__ import annotations

from shoal.graph.contract import Batch, Graph
from shoal.graph.schema import email_key


async def keep_address(graph: Graph, member_id: int, address: str) -> None:
    """Make a held address the member's for good. Raises `KeyTaken` when the hold ran out and somebody else has it."""
    key = email_key(address)
    batch = Batch(key.shard)
    batch.key_add(key, member_id)
    await graph.commit(batch)


async def free_address(graph: Graph, member_id: int, address: str) -> None:
    """Give up the address of a member who is gone; nothing happens when it is somebody else's."""
    key = email_key(address)
    batch = Batch(key.shard)
    batch.key_del(key, member_id)
    await graph.commit(batch)
