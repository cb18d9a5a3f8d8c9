"""The backend for each URL. Modules are imported when they are needed: each may need an extra of its own."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from shoal.core.errors import InvalidInput, missing_package


class Backend(NamedTuple):
    """A class, and the extra of our package that brings what it needs."""

    module: str
    name: str
    extra: str = ""

    def load(self) -> Any:
        """Import the class. Raises `InvalidInput` when its extra is not installed."""
        try:
            return getattr(importlib.import_module(self.module), self.name)
        except ModuleNotFoundError as error:
            if not self.extra or (error.name or "").startswith("shoal"):
                raise
            raise InvalidInput(f"this {missing_package(error.name or self.module, self.extra)}") from error


STORES: Mapping[str, Backend] = {
    "sqlite": Backend("shoal.graph.sqlite", "SqliteGraph"),
    "memory": Backend("shoal.graph.memory", "MemoryGraph"),
    "postgresql": Backend("shoal.graph.postgres", "PostgresGraph", "postgres"),
    "postgres": Backend("shoal.graph.postgres", "PostgresGraph", "postgres"),
    "dynamodb": Backend("shoal.graph.dynamodb", "DynamoGraph", "dynamodb"),
}
LIVE_STORES: Mapping[str, Backend] = dict.fromkeys(
    ("postgresql", "postgres"), Backend("shoal.graph.postgres.moves", "PostgresPost", "postgres")
)
"""Stores whose data sources may move while processes run: the classes that tell a process of it."""
MOVING_STORES: Mapping[str, Backend] = dict.fromkeys(
    ("postgresql", "postgres"), Backend("shoal.graph.postgres.moves", "PostgresSide", "postgres")
)
"""Stores that data sources can move between: the classes through which a mover sees them."""
SNAPSHOTS: Mapping[str, Backend] = {
    "sqlite": Backend("shoal.graph.sqlite.bulk", "SqliteSnapshot"),
    "postgresql": Backend("shoal.graph.postgres.bulk", "PostgresSnapshot", "postgres"),
    "postgres": Backend("shoal.graph.postgres.bulk", "PostgresSnapshot", "postgres"),
}
"""Stores that a backup reads as they are at one moment."""
UPGRADES: Mapping[str, Backend] = {
    "sqlite": Backend("shoal.graph.sqlite.upgrade", "SqliteUpgrade"),
    "postgresql": Backend("shoal.graph.postgres.migrations", "PostgresUpgrade", "postgres"),
    "postgres": Backend("shoal.graph.postgres.migrations", "PostgresUpgrade", "postgres"),
}
"""Stores with upgrades that may take long."""
INDEX_VERSIONS: Mapping[str, Backend] = {
    "sqlite": Backend("shoal.search.sqlite_sql", "MIGRATIONS"),
    "postgresql": Backend("shoal.search.postgres", "LEDGER", "postgres"),
    "postgres": Backend("shoal.search.postgres", "LEDGER", "postgres"),
}
"""Search indexes with upgrades that may take long: their versions."""
CLOUD_VERSIONS: Mapping[str, Backend] = {
    "sqlite": Backend("shoal.tagcloud.sqlite_sql", "MIGRATIONS"),
    "postgresql": Backend("shoal.tagcloud.postgres", "LEDGER", "postgres"),
    "postgres": Backend("shoal.tagcloud.postgres", "LEDGER", "postgres"),
}
"""Tag clouds with upgrades that may take long: their versions."""
CLOUDS: Mapping[str, Backend] = {
    "sqlite": Backend("shoal.tagcloud.sqlite", "SqliteCloud"),
    "memory": Backend("shoal.tagcloud.memory", "MemoryCloud"),
    "postgresql": Backend("shoal.tagcloud.postgres", "PostgresCloud", "postgres"),
    "postgres": Backend("shoal.tagcloud.postgres", "PostgresCloud", "postgres"),
    "dynamodb": Backend("shoal.tagcloud.dynamodb", "DynamoCloud", "dynamodb"),
}
"""Backends of the tag cloud."""
INDEXES: Mapping[str, Backend] = {
    "sqlite": Backend("shoal.search.sqlite", "SqliteIndex"),
    "memory": Backend("shoal.search.memory", "MemoryIndex"),
    "postgresql": Backend("shoal.search.postgres", "PostgresIndex", "postgres"),
    "postgres": Backend("shoal.search.postgres", "PostgresIndex", "postgres"),
}
"""Backends of the search index."""
TRANSPORTS: Mapping[str, Backend] = dict.fromkeys(
    ("amqp", "amqps"), Backend("shoal.tagcloud.rabbitmq", "RabbitTransport", "rabbitmq")
)
"""Backends that carry increments to collectors."""
SHARED_STORES = frozenset({"postgresql", "postgres", "dynamodb"})
"""Stores that several processes may write to at once."""


def scheme_of(url: str, field: str, allowed: Mapping[str, object], shown: str) -> str:
    """Return the scheme of a URL. Raises `InvalidInput` for one that is not allowed."""
    try:
        scheme = urlsplit(url).scheme
    except ValueError:
        scheme = ""
    if scheme not in allowed:
        # It may be a URL with a password for all that.
        told = "this" if "@" in url else repr(scheme or url)
        raise InvalidInput(f"{field}: {told} is not one of {shown}", field=field)
    return scheme
