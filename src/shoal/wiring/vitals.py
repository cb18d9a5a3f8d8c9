"""The engines of a network, and how each is asked for its figures."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from shoal.observability.health import EngineProbe
from shoal.settings import Settings
from shoal.wiring.backends import Backend
from shoal.wiring.places import sqlite_path, store_urls

_SQLITE = Backend("shoal.observability.health", "look")
_POSTGRES = Backend("shoal.observability.postgres_health", "look", "postgres")
_DYNAMODB = Backend("shoal.observability.dynamodb_health", "look", "dynamodb")
_REDIS = Backend("shoal.observability.redis_health", "look", "redis")
_RABBITMQ = Backend("shoal.observability.rabbitmq_health", "look", "rabbitmq")
_BESIDE = ("", ".tags", ".search")
"""Endings of the files of a store on SQLite: the graph, the tag cloud, the search index."""


def engine_probes(settings: Settings) -> list[EngineProbe]:
    """Return how each engine that the settings name is asked, each once; what is in memory is none."""
    urls = [*store_urls(settings), settings.tags, settings.search, settings.timelines, settings.broker]
    return [probe for url in dict.fromkeys(filter(None, urls)) for probe in _probes(url)]


def _probes(url: str) -> Iterator[EngineProbe]:
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    scheme = parts.scheme
    if scheme == "sqlite":
        yield from _files(sqlite_path(url))
    elif scheme in {"postgresql", "postgres"}:
        yield EngineProbe("PostgreSQL", place + parts.path, partial(_POSTGRES.load(), url, place + parts.path))
    elif scheme == "dynamodb":
        yield EngineProbe("DynamoDB", place, partial(_DYNAMODB.load(), url))
    elif scheme.startswith("redis"):
        yield EngineProbe("Redis", place, partial(_REDIS.load(), url))
    elif scheme.startswith("amqp"):
        yield EngineProbe("RabbitMQ", place, partial(_RABBITMQ.load(), url, place))


def _files(path: Path) -> Iterator[EngineProbe]:
    for ending in _BESIDE:
        file = path.with_name(path.name + ending)
        if not ending or file.exists():
            yield EngineProbe("SQLite", file.name, partial(_SQLITE.load(), file))
