"""Health probes of the engines of a network, and counts of the statements sent to each store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from shoal.app.backends import Backend
from shoal.app.paths import distinct_urls, sqlite_path, store_urls
from shoal.app.shared import Sharing
from shoal.graph.contract import Store
from shoal.graph.sharding.sharded_graph import ShardedGraph
from shoal.health.probes import EngineProbe
from shoal.settings import Settings
from shoal.tagcloud.contract import CloudStore

_SQLITE = Backend("shoal.health.probes", "look")
_POSTGRES = Backend("shoal.health.postgres", "look", "postgres")
_DYNAMODB = Backend("shoal.health.dynamodb", "look", "dynamodb")
_REDIS = Backend("shoal.health.redis", "look", "redis")
_RABBITMQ = Backend("shoal.health.rabbitmq", "look", "rabbitmq")
_SUFFIXES = ("", ".tags", ".search")
"""File name suffixes of a SQLite store: graph, tag cloud, search index."""


def engine_probes(settings: Settings) -> list[EngineProbe]:
    """Return a health probe for each distinct database, broker or SQLite file in the settings."""
    search = distinct_urls(settings.search)
    urls = [*store_urls(settings), settings.tags, *search, settings.timelines, settings.broker]
    return [probe for url in dict.fromkeys(filter(None, urls)) for probe in _probes(url)]


def _probes(url: str) -> Iterator[EngineProbe]:
    parts = urlsplit(url)
    address = parts.netloc.rpartition("@")[2]
    scheme = parts.scheme
    if scheme == "sqlite":
        yield from _files(sqlite_path(url))
    elif scheme in {"postgresql", "postgres"}:
        yield EngineProbe("PostgreSQL", address + parts.path, partial(_POSTGRES.load(), url, address + parts.path))
    elif scheme == "dynamodb":
        yield EngineProbe("DynamoDB", address, partial(_DYNAMODB.load(), url))
    elif scheme.startswith("redis"):
        yield EngineProbe("Redis", address, partial(_REDIS.load(), url))
    elif scheme.startswith("amqp"):
        yield EngineProbe("RabbitMQ", address, partial(_RABBITMQ.load(), url, address))


def _files(path: Path) -> Iterator[EngineProbe]:
    for ending in _SUFFIXES:
        file = path.with_name(path.name + ending)
        if not ending or file.exists():
            yield EngineProbe("SQLite", file.name, partial(_SQLITE.load(), file))


class Statements:
    """Statement counters of the remote stores of a network. Local files and memory are not counted."""

    def __init__(self, store: Store, tags: CloudStore, sharing: Sharing | None) -> None:
        self._store = store
        self._tags = tags
        self._sharing = sharing

    def sent(self) -> Mapping[str, int]:
        """Return the number of statements, requests or scripts since the start of the process, by store.

        The keys are `graph-0` etc. in the order of the shard map, `tags`, and `shared` for home timelines and other state shared
        by processes.
        """
        return {name: sent for name, part in self._parts() if (sent := _sent(part)) is not None}

    def _parts(self) -> Iterator[tuple[str, object]]:
        stores = self._store.stores if isinstance(self._store, ShardedGraph) else (self._store,)
        for at, store in enumerate(stores):
            yield f"graph-{at}", store
        yield "tags", self._tags
        if self._sharing is not None:
            yield "shared", self._sharing


def _sent(part: object) -> int | None:
    sent = getattr(part, "round_trips", None)
    # The placeholder for a store that is not open returns a function for every attribute, so check the type.
    return sent if isinstance(sent, int) else None
