"""Upgrades of a network that may take long: of its stores, and of the search index where that is in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

from shoal.graph.migrations import PendingStep, Progress
from shoal.graph.sharding.shard_map import shown_url
from shoal.settings import Settings
from shoal.wiring.backends import LEDGERS, UPGRADES
from shoal.wiring.places import store_urls


class Upgradable(Protocol):
    """Something that is upgraded as a whole."""

    async def plan(self) -> list[PendingStep]:
        """Return the steps that are still to be done. Raises `Unavailable`."""

    async def upgrade(self, progress: Progress) -> None:
        """Do them. Raises `Unavailable`."""


class NamedUpgrade(NamedTuple):
    """An upgrade, and what it is of, without any password."""

    name: str
    upgrade: Upgradable


def upgrades(settings: Settings) -> Sequence[NamedUpgrade]:
    """Return the upgrades of a network, in the order in which they are to be done.

    Tables of DynamoDB are upgraded when they are opened. Raises `InvalidInput` where an extra is missing.
    """
    found = [
        NamedUpgrade(shown_url(url), UPGRADES[scheme].load()(url))
        for url in store_urls(settings)
        if (scheme := urlsplit(url).scheme) in UPGRADES
    ]
    url = settings.search or store_urls(settings)[0]
    if (scheme := urlsplit(url).scheme) in LEDGERS:
        found.append(NamedUpgrade(f"search in {shown_url(url)}", UPGRADES[scheme].load()(url, LEDGERS[scheme].load())))
    return found
