"""Keys in a store that mark a restore or a bulk import as unfinished. A server does not start on such a store.

A restore has one key, whose owner is a number derived from the backup. A bulk import has two keys. Their owners are a
fingerprint of its files and its start time, which both fit into the timestamp bits of an id. Until the import finishes,
associations may lack their inverses.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import NamedTuple

from shoal.core.errors import Unavailable
from shoal.core.ids import EPOCH_MS, compose, milliseconds_of, now_ms, shard_of
from shoal.graph.bulk import KeyRow
from shoal.graph.contract import Batch, Graph, Reader
from shoal.graph.schema import EVERYBODY, import_key

_KEY = import_key(shard_of(EVERYBODY), "restore")
_BYTES = 5


def mark_of(generation: str) -> KeyRow:
    number = int.from_bytes(blake2b(generation.encode(), digest_size=_BYTES).digest())
    return KeyRow(_KEY.space, _KEY.name, compose(EPOCH_MS + number, _KEY.shard), 0)


async def marked(graph: Reader) -> int:
    """Return the owner of the key that marks a restore as unfinished; 0 if there is no such key."""
    return (await graph.key_get((_KEY,))).get(_KEY, 0)


async def check_restored(graph: Reader) -> None:
    """Raise `Unavailable` if a restore is unfinished, because a part of the network is missing then."""
    if await marked(graph):
        raise Unavailable("a restore into this store is unfinished: run `shoal restore` again")


_SHARD = shard_of(EVERYBODY)
_FILES, _SINCE = import_key(_SHARD, "bulk:files"), import_key(_SHARD, "bulk:since")


class Begun(NamedTuple):
    """An unfinished bulk import: the fingerprint of its files, and its start time (Unix ms)."""

    files: int
    since: int


async def begun(graph: Graph) -> Begun | None:
    found = await graph.key_get((_FILES, _SINCE))
    if len(found) < 2:
        return None
    return Begun(milliseconds_of(found[_FILES]) - EPOCH_MS, milliseconds_of(found[_SINCE]))


async def check_none(graph: Graph) -> None:
    """Raise `Unavailable` if a bulk import is unfinished, because follows may lack their inverses then."""
    if await begun(graph) is not None:
        raise Unavailable("a bulk import into this store is unfinished: run `shoal import` again with its files")


async def begin(graph: Graph, files: int) -> Begun:
    new = Begun(files, now_ms())
    batch = Batch(_SHARD)
    batch.key_add(_FILES, compose(EPOCH_MS + new.files, _SHARD))
    batch.key_add(_SINCE, compose(new.since, _SHARD))
    await graph.commit(batch)
    return new


async def finish(graph: Graph, done: Begun) -> None:
    batch = Batch(_SHARD)
    batch.key_del(_FILES, compose(EPOCH_MS + done.files, _SHARD))
    batch.key_del(_SINCE, compose(done.since, _SHARD))
    await graph.commit(batch)
