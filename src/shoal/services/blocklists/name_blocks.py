"""Blocks of user names: words that nobody signs up with, or with a name that has one in it."""

from __future__ import annotations

from shoal.core.audit import AuditVerb, TargetKind
from shoal.core.blocklists import NameBlock, check_word, key_text, plain, refusing
from shoal.core.errors import NotFound, Reserved, Taken
from shoal.graph.contract import Reader
from shoal.graph.schema import BLOCKS_NAME, name_block_key
from shoal.services.blocklists.keeping import Blocklist, add_block, remove_blocks
from shoal.services.writes import Writes

MAX_NAMES = 20_000
_NAMES = Blocklist(BLOCKS_NAME, MAX_NAMES, TargetKind.NAME, AuditVerb.NAME_BLOCKED, AuditVerb.NAME_UNBLOCKED)


async def block(writes: Writes, word: str, *, part: bool = False) -> NameBlock:
    """Refuse sign-ups with this user name, or, as a `part`, with every name that has it in it. Members keep theirs.

    Raises `InvalidInput` for what is no word, `Taken` for one that is blocked so, `Unfit` for one too many.
    """
    checked = check_word(word, part=part)
    key = name_block_key(key_text(checked, part=part))
    taken = Taken("This word is blocked already", field="word")
    return await add_block(writes, _NAMES, key, lambda id_: NameBlock(id=id_, word=checked, part=part), taken)


async def unblock(writes: Writes, word: str) -> None:
    """End the blocks of a word, as a name and as a part. Raises `NotFound` where there is none."""
    keys = [name_block_key(key_text(plain(word), part=part)) for part in (False, True)]
    found = await writes.graph.key_get(keys)
    if not found:
        raise NotFound(f"{word} is not blocked")
    await remove_blocks(writes, _NAMES, found)


async def check_sign_up(graph: Reader, name: str) -> None:
    """Raise `Reserved` for a user name that is blocked: the answer does not say by which word."""
    if await graph.key_get([name_block_key(text) for text in refusing(name)]):
        raise Reserved(f"the user name {name} is reserved", field="username")
