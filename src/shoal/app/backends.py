"""Backend classes by URL scheme. Modules are imported lazily: each may need an optional extra."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from shoal.core.errors import InvalidInput, missing_package


class Backend(NamedTuple):
    """The class of a backend, and the optional dependencies of the package (an extra) that it requires."""

    module: str
    name: str
    extra: str = ""

    def load(self) -> Any:
        """Import the class. Raises `InvalidInput` if its extra is not installed."""
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
"""Stores whose data sources may move while processes run, with the classes that notify a process of moves."""
MOVING_STORES: Mapping[str, Backend] = dict.fromkeys(
    ("postgresql", "postgres"), Backend("shoal.graph.postgres.moves", "PostgresSide", "postgres")
)
"""Stores between which data sources can move, with the classes that carry out moves."""
SNAPSHOTS: Mapping[str, Backend] = {
    "sqlite": Backend("shoal.graph.sqlite.bulk", "SqliteSnapshot"),
    "postgresql": Backend("shoal.graph.postgres.bulk", "PostgresSnapshot", "postgres"),
    "postgres": Backend("shoal.graph.postgres.bulk", "PostgresSnapshot", "postgres"),
}
"""Stores that support consistent snapshots for backups."""
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
"""Versions of search indexes with upgrades that may take long."""
CLOUD_VERSIONS: Mapping[str, Backend] = {
    "sqlite": Backend("shoal.tagcloud.sqlite_sql", "MIGRATIONS"),
    "postgresql": Backend("shoal.tagcloud.postgres", "LEDGER", "postgres"),
    "postgres": Backend("shoal.tagcloud.postgres", "LEDGER", "postgres"),
}
"""Versions of tag clouds with upgrades that may take long."""
CLOUDS: Mapping[str, Backend] = {
    "sqlite": Backend("shoal.tagcloud.sqlite", "SqliteCloud"),
    "memory": Backend("shoal.tagcloud.memory", "MemoryCloud"),
    "postgresql": Backend("shoal.tagcloud.postgres", "PostgresCloud", "postgres"),
    "postgres": Backend("shoal.tagcloud.postgres", "PostgresCloud", "postgres"),
    "dynamodb": Backend("shoal.tagcloud.dynamodb", "DynamoCloud", "dynamodb"),
}
INDEXES: Mapping[str, Backend] = {
    "sqlite": Backend("shoal.search.sqlite", "SqliteIndex"),
    "memory": Backend("shoal.search.memory", "MemoryIndex"),
    "postgresql": Backend("shoal.search.postgres", "PostgresIndex", "postgres"),
    "postgres": Backend("shoal.search.postgres", "PostgresIndex", "postgres"),
}
TRANSPORTS: Mapping[str, Backend] = dict.fromkeys(
    ("amqp", "amqps"), Backend("shoal.tagcloud.rabbitmq", "RabbitTransport", "rabbitmq")
)
"""Transports of tag count increments to collectors."""
SHARED_STORES = frozenset({"postgresql", "postgres", "dynamodb"})
"""Stores that several processes may write to concurrently."""


def scheme_of(url: str, field: str, allowed: Mapping[str, object], shown: str) -> str:
    """Return the scheme of a URL. Raises `InvalidInput` if the scheme is not allowed."""
    try:
        scheme = urlsplit(url).scheme
    except ValueError:
        scheme = ""
    if scheme not in allowed:
        # Even a malformed URL may contain a password.
        label = "this" if "@" in url else repr(scheme or url)
        raise InvalidInput(f"{field}: {label} is not supported; use one of {shown}", field=field)
    return scheme
