"""Which store keeps which of the 64 data sources, and where the stores are.

The settings give a network its first map. A network whose data sources have been moved keeps its map in its stores, with a
version: the highest one holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from shoal.core.placement import DATA_SOURCES


class ShardMap(NamedTuple):
    """`owners[source]` is the place in `stores` of the URL of the store that keeps a data source.

    Places never change: a store that joins is put at the end. `moved` says of data sources that were moved, and may
    be brought back, in which place they were before; `left`, in which place rows of them are that are to be deleted.
    """

    stores: tuple[str, ...]
    owners: tuple[int, ...]
    version: int = 0
    moved: Mapping[int, int] = {}
    left: Mapping[int, int] = {}

    def of(self, place: int) -> list[int]:
        """The data sources of one store."""
        return [source for source, owner in enumerate(self.owners) if owner == place]

    def place_of(self, url: str) -> int | None:
        """Where a store stands in the map, or None."""
        return self.stores.index(url) if url in self.stores else None

    def with_store(self, url: str) -> ShardMap:
        """Return a map that has this store; it is this map if the store is in it already."""
        return self if url in self.stores else self._replace(stores=(*self.stores, url))

    def moving(self, sources: Iterable[int], a: int, b: int, *, returns: bool) -> ShardMap:
        """The next version, in which these have gone from place `a` to place `b`; `returns`: back to where they were."""
        chosen = dict.fromkeys(sources, a)
        owners = tuple(b if source in chosen else owner for source, owner in enumerate(self.owners))
        moved = {source: place for source, place in self.moved.items() if source not in chosen}
        new = self._replace(owners=owners, version=self.version + 1)
        if returns:
            return new._replace(moved=moved, left={**self.left, **chosen})
        return new._replace(moved={**moved, **chosen})

    def plain(self) -> dict[str, Any]:
        """As it is stored, without its version."""
        return {
            "stores": list(self.stores),
            "owners": list(self.owners),
            "moved": {str(source): place for source, place in self.moved.items()},
            "left": {str(source): place for source, place in self.left.items()},
        }

    @classmethod
    def from_plain(cls, version: int, stored: Mapping[str, Any]) -> ShardMap:
        """The reverse of `plain`."""
        moved, left = ({int(source): place for source, place in stored[part].items()} for part in ("moved", "left"))
        return cls(tuple(stored["stores"]), tuple(stored["owners"]), version, moved, left)


def first_map(store: str | Mapping[str, str]) -> ShardMap:
    """The map that settings give: one store for everything, or ranges. Raises `ValueError`."""
    owners = parse_shard_map({f"0-{DATA_SOURCES - 1}": store} if isinstance(store, str) else store)
    stores = tuple(dict.fromkeys(owners[source] for source in range(DATA_SOURCES)))
    return ShardMap(stores, tuple(stores.index(owners[source]) for source in range(DATA_SOURCES)))


def parse_shard_map(ranges: Mapping[str, str]) -> dict[int, str]:
    """`{"0-31": url, "32-63": url}` as the URL of each of the 64 data sources; each must be named exactly once."""
    owners: dict[int, str] = {}
    for text, url in ranges.items():
        first, _, last = text.partition("-")
        if not (first.isdigit() and (last or first).isdigit() and int(first) <= int(last or first)):
            raise ValueError(f"shard map: {text!r} is not a range of data sources such as 0-31")
        for source in range(int(first), int(last or first) + 1):
            if source >= DATA_SOURCES or source in owners:
                raise ValueError(f"shard map: data source {source} is named twice or is past {DATA_SOURCES - 1}")
            owners[source] = url
    missing = sorted(set(range(DATA_SOURCES)) - set(owners))
    if missing:
        raise ValueError(f"shard map: no store for data source {missing[0]}")
    return owners


def parse_sources(text: str) -> list[int]:
    """`12-15,20` as data sources in order. Raises `ValueError`."""
    sources: set[int] = set()
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if not (first.isdigit() and (last or first).isdigit() and int(first) <= int(last or first) < DATA_SOURCES):
            raise ValueError(f"{text!r} does not name data sources, 0 to {DATA_SOURCES - 1}, such as 12-15,20")
        sources.update(range(int(first), int(last or first) + 1))
    return sorted(sources)


def ranges_of(sources: Sequence[int]) -> str:
    """Data sources as people write them: `12-15,20`."""
    parts: list[list[int]] = []
    for source in sorted(sources):
        if parts and parts[-1][1] == source - 1:
            parts[-1][1] = source
        else:
            parts.append([source, source])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


def shown_url(url: str) -> str:
    """Where a store is, for people: without its user and password."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
