"""The graph in one SQLite file: the embedded default."""

from __future__ import annotations

from shoal.graph.sqlite.store import SqliteGraph

__all__ = ["SqliteGraph"]
