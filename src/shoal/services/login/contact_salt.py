"""The salt under which e-mail addresses are hashed, by those who look for members and for members who may be found."""

from __future__ import annotations

import secrets

from shoal.core.contacts import SALT_BYTES, ContactSalt
from shoal.graph.changes import retry_on_conflict
from shoal.graph.contract import Batch, Reader
from shoal.graph.schema import contact_salt_key
from shoal.services.writes import Writes, add_node


async def contact_salt(writes: Writes) -> str:
    """Return the salt of the network, in hexadecimal digits. Whoever asks first makes it."""

    async def attempt() -> ContactSalt:
        return await _stored(writes.graph) or await _made(writes)

    return (await retry_on_conflict(attempt)).salt.hex()


async def _stored(graph: Reader) -> ContactSalt | None:
    id_ = (await graph.key_get((contact_salt_key(),))).get(contact_salt_key(), 0)
    node = (await graph.obj_get((id_,))).get(id_) if id_ else None
    return node if isinstance(node, ContactSalt) else None


async def _made(writes: Writes) -> ContactSalt:
    key = contact_salt_key()
    salt = secrets.token_bytes(SALT_BYTES)

    def build(id_: int) -> tuple[ContactSalt, Batch]:
        node, batch = ContactSalt(id=id_, salt=salt), Batch(key.shard)
        batch.obj_add(node)
        batch.key_add(key, id_)
        return node, batch

    return await add_node(writes, key.shard, build)
