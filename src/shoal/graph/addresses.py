"""E-mail addresses are unique, and lie on shards of their own: a second commit of every registration."""

from __future__ import annotations

import contextlib

from shoal.core.model import Login, Member
from shoal.graph.contract import Batch, Graph, KeyTaken
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


async def release_address(graph: Graph, member_id: int, address: str, at: int) -> None:
    """Give up an address, unless it is the one that the member has, or one that is kept for them beyond `at` (Unix ms).

    It may be asked for late, and more than once.
    """
    if await _holds(graph, member_id, address, at):
        return
    await free_address(graph, member_id, address)
    if await _holds(graph, member_id, address, at):
        # It became theirs again in that very moment; or somebody else was faster still.
        with contextlib.suppress(KeyTaken):
            await keep_address(graph, member_id, address)


async def _holds(graph: Graph, member_id: int, address: str, at: int) -> bool:
    member = (await graph.obj_get((member_id,))).get(member_id)
    login = (await graph.obj_get((member.login_id,))).get(member.login_id) if isinstance(member, Member) else None
    if not isinstance(login, Login):
        return False
    return login.email == address or any(kept == address and until > at for kept, until in login.kept)
