"""The graph on PostgreSQL: one server, or one of several under a shard map."""

from __future__ import annotations

from shoal.graph.postgres.store import PostgresGraph

__all__ = ["PostgresGraph"]
