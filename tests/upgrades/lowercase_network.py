"""A network whose tags are stored as Shoal 0.2 and earlier stored them, NFKC in lower case without case folding.

    python -m tests.upgrades.lowercase_network URL N

runs the upgrade of its tags and kills itself at commit N.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unicodedata import normalize
from unittest.mock import patch

from shoal import Shoal, Visibility
from shoal.admin import tags as tag_upgrade
from shoal.admin.consistency import tag_spellings
from shoal.admin.tags import TagUpgrade
from shoal.app.network import Network, open_network
from shoal.commands import ranking
from shoal.core import text
from shoal.core.ids import shard_of
from shoal.graph.contract import Batch, Store
from shoal.graph.schema import EVERYBODY, tags_folded_key
from shoal.settings import build
from shoal.tagcloud.rules import denying, merging

APART: Any = {"media": "memory://", "search": "memory://"}


def former_canonical_tag(name: str) -> str:
    """Return the canonical form of a tag as Shoal 0.2 and earlier made it."""
    name = name.replace("\uff5e", "\u301c")
    canonical = normalize("NFKC", normalize("NFKC", name).lower())
    return canonical if len(canonical) <= text.MAX_TAG else ""


@contextmanager
def former_tags() -> Iterator[None]:
    """Store tags as Shoal 0.2 and earlier did."""

    def forget() -> None:
        text.parse.cache_clear()
        text.tags_of.cache_clear()

    with (
        patch.object(text, "canonical_tag", former_canonical_tag),
        patch.object(ranking, "canonical_tag", former_canonical_tag),
    ):
        forget()
        try:
            yield
        finally:
            forget()


async def forget_upgrade(store: Store) -> None:
    """Delete the key that records that the tags of a network were upgraded."""
    found = await store.key_get((tags_folded_key(),))
    batch = Batch(shard_of(EVERYBODY))
    for key, owner in found.items():
        batch.key_del(key, owner)
    await store.commit(batch)


async def make_network(url: str, tags: str = "") -> None:
    """Create a small network: posts, followed and featured tags, interests and rules on tags in former spellings."""
    with former_tags():
        async with Shoal.open(url, tags=tags, **APART) as shoal:
            ann, ben, cyd, dan, eve = [await shoal.register(name) for name in ("ann", "ben", "cyd", "dan", "eve")]
            for member, followed in ((cyd, "straße"), (dan, "STRASSE"), (dan, "Straße"), (eve, "strasse")):
                await member.follow_tag(followed)
            first = await ann.create("A #Straße, early")
            await ann.create("both a #straße and a #STRASSE")
            await ben.create("#STRASSE and #sea")
            await ben.create("#ΟΔΟΣ #οδος #οδοσ in #İstanbul")
            await ben.create("in #istanbul")
            await ann.create("quiet #Straße", visibility=Visibility.FOLLOWERS)
            await ann.comment(first, "an answer about #Straße")
            edited = await ann.create("before #sea")
            await ann.update(edited, "after #Straße")
            await ann.delete(await ann.create("gone #Straße"))
            await ben.like(first)
            await ben.create("ᏣᎳᎩ is #ꮳꮃꭹ")
            for tag in ("sea", "straße", "STRASSE"):
                await ann.feature(tag)
            await ben.feature("İstanbul")
            await cyd.pick_interests("straße", "sea")
            await dan.more_like(first, "straße")
            await shoal.network.tags.rule(merging("οδός", "οδος"))
            await shoal.network.tags.rule(denying("ꮳꮃꭹ"))
            for reader in (ann, ben, cyd, dan, eve):
                await reader.home()
            await shoal.settle()
            await forget_upgrade(shoal.network.store)


def upgrade_of(network: Network) -> TagUpgrade:
    """Return the tag upgrade for a network that does not run it itself."""
    return TagUpgrade(network.store, network.writes, network.counting.store)


async def _upgrade_and_die(url: str, commits: int) -> None:
    # The claim of a killed process blocks others for a minute. Concurrent commits would become durable together.
    with patch.object(tag_upgrade, "_CLAIM_SECONDS", 0.0), patch.object(tag_spellings, "_AT_ONCE", 1):
        async with open_network(build(store=url, **APART), background=False) as network:
            commit, done = network.store.commit, 0

            async def counted(batch: Batch) -> None:
                nonlocal done
                await commit(batch)
                done += 1
                if done == commits:
                    os.kill(os.getpid(), signal.SIGKILL)

            network.store.commit = counted  # type: ignore[method-assign]
            await upgrade_of(network).once()


if __name__ == "__main__":
    asyncio.run(_upgrade_and_die(sys.argv[1], int(sys.argv[2])))
