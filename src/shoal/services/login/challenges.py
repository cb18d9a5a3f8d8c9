"""Challenges for passkeys: made, checked, and used up. The key of them is the network's; whoever needs it first makes it."""

from __future__ import annotations

import secrets

from shoal.core.credentials import GOOD_MS, KEY_BYTES, ChallengeKey, Purpose, is_good, made_at, new_challenge
from shoal.graph.contract import Batch
from shoal.graph.schema import challenge_key_key, used_challenge_key
from shoal.services.writes import Writes, made_once


async def make(writes: Writes, purpose: Purpose, member_id: int = 0) -> bytes:
    """Return a challenge for a member; 0 where it is not known who answers."""
    return new_challenge(await _secret(writes), purpose, member_id, writes.new_id.now())


async def fits(writes: Writes, challenge: bytes, purpose: Purpose, member_id: int = 0) -> bool:
    """Return whether this is a challenge of ours for this, and not too old. Whether it was used, the commit says."""
    return is_good(await _secret(writes), challenge, purpose, member_id, writes.new_id.now())


def use_up(writes: Writes, batch: Batch, challenge: bytes) -> None:
    """Use a challenge up with the batch, which fails with `KeyTaken` where it was used before."""
    key, use = used_challenge_key(batch.shard, challenge), writes.new_id(batch.shard)
    batch.key_add(key, use, until=made_at(challenge) + 2 * GOOD_MS)
    batch.fresh.add(use)


async def _secret(writes: Writes) -> bytes:
    def make(id_: int) -> ChallengeKey:
        return ChallengeKey(id=id_, secret=secrets.token_bytes(KEY_BYTES))

    return (await made_once(writes, challenge_key_key(), ChallengeKey, make)).secret
