"""Keep a copy of the public data of a network in a database file, for analyses with SQL: SQLite, or DuckDB if the name ends so.

    SHOAL_KEY=... python examples/warehouse.py https://social.example copy.db
    SHOAL_KEY=... python examples/warehouse.py https://social.example copy.duckdb

The key needs the scope server:events. The copy and the cursor are committed together, so the program may be stopped at any moment.

    SELECT json_extract_string(data, '$.author_id') AS author, count(*) FROM objects WHERE kind = 'post' GROUP BY ALL;  -- DuckDB
    SELECT data ->> 'author_id' AS author, count(*) FROM objects WHERE kind = 'post' GROUP BY author;  -- SQLite
"""

from __future__ import annotations

import importlib
import json
import os
import sqlite3
import sys
from contextlib import closing
from typing import Any

import httpx

TABLES = (
    """
    CREATE TABLE IF NOT EXISTS state (
        subject TEXT PRIMARY KEY, kind TEXT, version BIGINT, deleted BOOLEAN, data TEXT
    )""",
    "CREATE TABLE IF NOT EXISTS progress (id INTEGER PRIMARY KEY, cursor TEXT)",
    "CREATE VIEW IF NOT EXISTS objects AS SELECT subject, kind, data FROM state WHERE NOT deleted",
)
# Events may repeat, and arrive out of order: the greatest version counts, and of two equal ones a deletion.
PUT = """
    INSERT INTO state VALUES (?, ?, ?, ?, ?) ON CONFLICT (subject) DO UPDATE
    SET version = excluded.version, deleted = excluded.deleted, data = excluded.data
    WHERE excluded.version > state.version OR (excluded.version = state.version AND excluded.deleted >= state.deleted)
"""
MOVE = "INSERT INTO progress VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET cursor = excluded.cursor"


def opened(path: str) -> Any:
    """Open the database file, and create the tables."""
    if path.endswith(".duckdb"):
        database = importlib.import_module("duckdb").connect(path)
    else:
        database = sqlite3.connect(path, isolation_level=None)
    for table in TABLES:
        database.execute(table)
    return database


def store(database: Any, page: Any) -> None:
    """Commit a page of events with its cursor."""
    database.execute("BEGIN TRANSACTION")
    for event in page["events"]:
        kind, change = event["type"].split(".")
        deleted, data = change == "deleted", json.dumps(event["data"])
        database.execute(PUT, (event["subject"], kind, int(event["version"]), deleted, data))
    database.execute(MOVE, (page["cursor"],))
    database.execute("COMMIT")


def follow(client: httpx.Client, path: str) -> None:
    """Read events until stopped, or until the copy has to be made again. Between two pages, other programs can open the file."""
    while True:
        with closing(opened(path)) as database:
            row = database.execute("SELECT cursor FROM progress").fetchone()
        query = {"after": row[0] if row else "start", "wait": 30}
        answer = client.get("/api/shoal/v1/events", params=query)
        if answer.status_code == httpx.codes.GONE:
            sys.exit(f"{answer.json()['error']}. Delete the file to copy the stored events again.")
        with closing(opened(path)) as database:
            store(database, answer.raise_for_status().json())


def main() -> None:
    """Follow a server until stopped."""
    server, path = sys.argv[1:]
    headers = {"Authorization": f"Bearer {os.environ['SHOAL_KEY']}"}
    with httpx.Client(base_url=server, headers=headers, timeout=60.0) as client:
        follow(client, path)


if __name__ == "__main__":
    main()
