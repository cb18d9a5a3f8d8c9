"""Archived stores of each schema version, which tests upgrade with the current code.

Before a schema gets a new version, write an archive of the current version:

    python -m tests.upgrades.stored_networks [--at COMMIT] [sqlite] [postgresql]

An archive is `stored/<engine>-<schema version of the graph>.tar.xz`. It contains the files of the store (SQLite) or an SQL dump
(PostgreSQL), and `facts.json` with the expected data. `sample_network.py` writes the store and the facts.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg

from shoal_devcluster import postgres

STORED = Path(__file__).parent / "stored"
FACTS = "facts.json"
DUMP = "dump.sql"
FILES = ("shoal.db", "shoal.db.tags", "shoal.db.search")
ROOT = Path(__file__).parents[2]
ENGINES = ("sqlite", "postgresql")
_MAKER = Path(__file__).with_name("sample_network.py")
_SECONDS = 120.0


def versions(engine: str) -> list[int]:
    """Return the schema versions of the graph for which there is an archive."""
    return sorted(int(path.name.split(".")[0].rpartition("-")[2]) for path in STORED.glob(f"{engine}-*.tar.xz"))


def unpack_all(archive: tarfile.TarFile, folder: Path) -> None:
    """Extract a trusted archive. Python before 3.11.4 has no extraction filters."""
    safe: Any = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    archive.extractall(folder, **safe)  # noqa: S202


def unpack(engine: str, version: int, folder: Path) -> dict[str, Any]:
    """Extract an archived store, and return its facts."""
    with tarfile.open(STORED / f"{engine}-{version}.tar.xz") as archive:
        unpack_all(archive, folder)
    facts: dict[str, Any] = json.loads((folder / FACTS).read_text())
    return facts


async def restore(url: str, dump: str = "") -> None:
    """Replace Shoal's schema in a database by a dump, or drop the schema if the dump is empty."""
    connection = await asyncpg.connect(url)
    try:
        # The functions of a dump are in alphabetical order: one may call a later one.
        await connection.execute(f"SET check_function_bodies = false; DROP SCHEMA IF EXISTS shoal CASCADE; {dump}")
    finally:
        await connection.close()


def _source(commit: str | None, folder: Path) -> Path:
    if commit is None:
        return ROOT / "src"
    archive = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        unpack_all(files, folder)
    return folder / "src"


def _write(source: Path, url: str, folder: Path) -> None:
    arguments = [sys.executable, str(_MAKER), url, str(folder / FACTS)]
    subprocess.run(arguments, check=True, timeout=_SECONDS, env={**os.environ, "PYTHONPATH": str(source)})


def _sqlite(source: Path, folder: Path) -> tuple[int, list[str]]:
    _write(source, f"sqlite:///{folder / FILES[0]}", folder)
    found = [name for name in FILES if (folder / name).exists()]
    for name in found:
        with closing(sqlite3.connect(folder / name)) as file:
            file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with closing(sqlite3.connect(folder / FILES[0])) as file:
        (version,) = file.execute("PRAGMA user_version").fetchone()
    return version, found


def _postgresql(source: Path, folder: Path) -> tuple[int, list[str]]:
    engine = folder / "engine"
    engine.mkdir()
    program = postgres.start(engine)
    try:
        _write(source, program.url, folder)
        version = asyncio.run(_applied(program.url))
        wanted = ["--inserts", "--rows-per-insert=500", "--no-owner", "--no-privileges", "--schema=shoal"]
        dumped = subprocess.run(
            [str(postgres._programs() / "pg_dump"), *wanted, program.url], check=True, capture_output=True, text=True
        )
    finally:
        program.kill()
    # Remove psql commands, and settings that an older server does not support.
    lines = [
        line for line in dumped.stdout.splitlines() if not line.startswith(("\\", "SET ", "SELECT pg_catalog.set"))
    ]
    (folder / DUMP).write_text("\n".join(lines) + "\n")
    return version, [DUMP]


async def _applied(url: str) -> int:
    connection = await asyncpg.connect(url)
    try:
        applied: int = await connection.fetchval("SELECT max(applied) FROM shoal.version")
        return applied
    finally:
        await connection.close()


def store(engine: str, commit: str | None) -> Path:
    """Write a store with the code of a commit, or with the current code, and return the path of its archive."""
    folder = Path(tempfile.mkdtemp(prefix="shoal-stored-"))
    folder.chmod(0o755)
    try:
        source = _source(commit, folder)
        version, names = (_sqlite if engine == "sqlite" else _postgresql)(source, folder)
        path = STORED / f"{engine}-{version}.tar.xz"
        with tarfile.open(path, "w:xz", preset=9) as archive:
            for name in (FACTS, *names):
                archive.add(folder / name, name, filter=_nobody)
        return path
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _nobody(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = info.mtime = 0
    info.uname = info.gname = ""
    return info


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.upgrades.stored_networks")
    parser.add_argument("engines", nargs="*", choices=[*ENGINES, []], default=list(ENGINES))
    parser.add_argument("--at", metavar="COMMIT", help="use the code of this commit")
    asked = parser.parse_args()
    for name in asked.engines:
        made = store(name, asked.at)
        sys.stdout.write(f"{made.name}: {made.stat().st_size:,} bytes\n")
