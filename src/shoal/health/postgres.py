"""PostgreSQL: sizes, connections, cache hits, and long transactions."""

from __future__ import annotations

from shoal.graph.postgres.connections import connect
from shoal.health.probes import EngineHealth, Measurement

_SECONDS = 2.0
_SETTINGS = {"application_name": "shoal-vitals", "statement_timeout": "2s"}
_MOST_CONNECTIONS = 0.9
_LONG_SECONDS = 300.0
_FAR_BEHIND_SECONDS = 30.0
# Only a database role with `pg_read_all_stats` sees standbys and the transactions of other roles. For any other role, these
# values are 0.
_FIGURES = """
SELECT current_setting('server_version') AS version,
  pg_database_size(current_database()) AS stored,
  (SELECT sum(numbackends) FROM pg_stat_database) AS connections,
  current_setting('max_connections')::int AS most,
  d.xact_commit AS commits,
  d.deadlocks,
  coalesce(d.blks_hit::float8 / nullif(d.blks_hit + d.blks_read, 0), 1) AS hits,
  coalesce((SELECT extract(epoch FROM max(clock_timestamp() - xact_start)) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()), 0)::float8 AS longest,
  (SELECT extract(epoch FROM max(replay_lag)) FROM pg_stat_replication)::float8 AS behind
FROM pg_stat_database d WHERE d.datname = current_database()
"""


async def look(url: str, address: str) -> list[EngineHealth]:
    connection = await connect(url, _SETTINGS, _SECONDS)
    try:
        row = await connection.fetchrow(_FIGURES)
    finally:
        await connection.close(timeout=_SECONDS)
    measurements = [
        Measurement("stored_bytes", row["stored"]),
        Measurement("connections", row["connections"], row["connections"] > _MOST_CONNECTIONS * row["most"]),
        Measurement("connections_most", row["most"]),
        Measurement("commits", row["commits"]),
        Measurement("deadlocks", row["deadlocks"]),
        Measurement("cache_hits", row["hits"]),
        Measurement("longest_transaction_seconds", row["longest"], row["longest"] > _LONG_SECONDS),
    ]
    if row["behind"] is not None:
        measurements.append(Measurement("replica_behind_seconds", row["behind"], row["behind"] > _FAR_BEHIND_SECONDS))
    return [EngineHealth("PostgreSQL", address, row["version"].partition(" ")[0], tuple(measurements))]
