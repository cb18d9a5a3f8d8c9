"""Blocks of user names: each beside the list of them, so that a change is one commit."""

from __future__ import annotations

from shoal.core.errors import NotFound, Reserved, Taken
from shoal.core.ids import shard_of
from shoal.core.name_blocks import NameBlock, check_word, key_text, plain, refusing
from shoal.graph.contract import Batch, KeyTaken, Reader
from shoal.graph.schema import BLOCKS_NAME, EVERYBODY, name_block_key
from shoal.services.blocklists.room import check_room
from shoal.services.writes import Writes, add_node

MAX_NAMES = 20_000
_SHARD = shard_of(EVERYBODY)


async def block(writes: Writes, word: str, *, part: bool = False) -> NameBlock:
    """Refuse sign-ups with this user name, or, as a `part`, with every name that has it in it. Members keep theirs.

    Raises `InvalidInput` for what is no word, `Taken` for one that is blocked so, `Unfit` for one too many.
    """
    checked = check_word(word, part=part)
    await check_room(writes.graph, BLOCKS_NAME, MAX_NAMES)

    def build(id_: int) -> tuple[NameBlock, Batch]:
        made, batch = NameBlock(id=id_, word=checked, part=part), Batch(_SHARD)
        batch.key_add(name_block_key(key_text(checked, part=part)), id_)
        batch.obj_add(made)
        batch.assoc_add(EVERYBODY, BLOCKS_NAME, id_, id_)
        return made, batch

    try:
        return await add_node(writes, _SHARD, build)
    except KeyTaken as error:
        raise Taken("This word is blocked already", field="word") from error


async def unblock(writes: Writes, word: str) -> None:
    """End the blocks of a word, as a name and as a part. Raises `NotFound` where there is none."""
    keys = [name_block_key(key_text(plain(word), part=part)) for part in (False, True)]
    found = await writes.graph.key_get(keys)
    if not found:
        raise NotFound(f"{word} is not blocked")
    batch = Batch(_SHARD)
    for key, id_ in found.items():
        batch.key_del(key, id_)
        batch.obj_del(id_)
        batch.assoc_del(EVERYBODY, BLOCKS_NAME, id_, writes.new_id(_SHARD))
    await writes.graph.commit(batch)


async def check_sign_up(graph: Reader, name: str) -> None:
    """Raise `Reserved` for a user name that is blocked: the answer does not say by which word."""
    if await graph.key_get([name_block_key(text) for text in refusing(name)]):
        raise Reserved(f"the user name {name} is reserved", field="username")
