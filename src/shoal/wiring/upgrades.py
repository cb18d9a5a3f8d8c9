"""Upgrades of a network that may take long: of its stores, of the search index and of the tag cloud."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

from shoal.graph.migrations import PendingStep, Progress
from shoal.graph.sharding.shard_map import shown_url
from shoal.settings import Settings
from shoal.wiring.backends import CLOUD_VERSIONS, INDEX_VERSIONS, UPGRADES, Backend
from shoal.wiring.places import file_beside, sqlite_path, store_urls


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
    found += _beside(settings, "search", settings.search, INDEX_VERSIONS)
    found += _beside(settings, "tags", settings.tags, CLOUD_VERSIONS)
    return found


def _beside(settings: Settings, what: str, url: str, versions: Mapping[str, Backend]) -> list[NamedUpgrade]:
    """The upgrade of what lies at a URL, or beside the first store where that is empty; none of a file that is not there."""
    first = store_urls(settings)[0]
    scheme = urlsplit(url or first).scheme
    if scheme not in versions:
        return []
    upgrade, known = UPGRADES[scheme].load(), versions[scheme].load()
    if scheme != "sqlite":
        return [NamedUpgrade(f"{what} in {shown_url(url or first)}", upgrade(url or first, known))]
    path = file_beside(settings, url, what)
    # A file that the settings name has nobody else's lock.
    owner = None if url else sqlite_path(first)
    named = f"sqlite:///{path}"
    return [NamedUpgrade(f"{what} in {named}", upgrade(named, known, owner=owner))] if path.exists() else []
