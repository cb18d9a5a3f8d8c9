"""The mark of a restore that is not finished, in the store that it goes to: a key whose owner is a number of the generation."""

from __future__ import annotations

from hashlib import blake2b

from shoal.core.errors import Unavailable
from shoal.core.ids import EPOCH_MS, compose, shard_of
from shoal.graph.bulk import KeyRow
from shoal.graph.contract import Reader
from shoal.graph.schema import EVERYBODY, import_key

_KEY = import_key(shard_of(EVERYBODY), "restore")
_BYTES = 5


def mark_of(generation: str) -> KeyRow:
    """Return the mark of a restore of this generation."""
    number = int.from_bytes(blake2b(generation.encode(), digest_size=_BYTES).digest())
    return KeyRow(_KEY.space, _KEY.name, compose(EPOCH_MS + number, _KEY.shard), 0)


async def marked(graph: Reader) -> int:
    """Return the owner of the mark; 0 where there is none."""
    return (await graph.key_get((_KEY,))).get(_KEY, 0)


async def check_restored(graph: Reader) -> None:
    """Raise `Unavailable` where a restore is not finished: a part of the network is missing."""
    if await marked(graph):
        raise Unavailable("a backup was being restored here, which is not finished: run `shoal restore` again")
