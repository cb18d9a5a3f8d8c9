"""Placement in other languages: each program of `examples/placement` matches the conformance file for every name."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import asyncpg
import pytest

from shoal.core.placement import media_path, place
from tests.async_runner import in_loop
from tests.engines import postgres

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "examples" / "placement"
COLUMNS, *LINES = (ROOT / "docs" / "placement-conformance.csv").read_text("utf-8").splitlines()
NAMES = [line.partition(",")[0] for line in LINES]


def interpreter(name: str, check: str) -> str:
    """Return the interpreter of a language with the modules of the example. Skip the test on machines without it."""
    found = shutil.which(name, path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
    whole = (
        found is not None and subprocess.run([found, *check.split()], capture_output=True, check=False).returncode == 0
    )
    if found is None or not whole:
        if os.environ.get("CI"):
            pytest.fail(f"{name} is not installed: make setup")
        pytest.skip(f"{name} is not installed: make setup")
    return found


def test_placement_conformance_file_covers_every_kind_of_name() -> None:
    assert COLUMNS == "name,a,b,c,shard,path"
    assert len(LINES) == len(set(NAMES)) > 40
    assert "" in NAMES
    assert any(name != name.lower() and name.isascii() for name in NAMES)
    assert any(name != name.lower() and not name.isascii() for name in NAMES)
    assert {55, 56, 64} <= {len(name) for name in NAMES}
    assert max(len(name.encode()) for name in NAMES) >= 200


def test_name_placement_in_python_matches_conformance_file() -> None:
    placed = [(name, *place(name), place(name).shard, media_path(name)) for name in NAMES]
    assert [",".join(map(str, line)) for line in placed] == LINES


@pytest.mark.parametrize(
    ("language", "check", "program"),
    [
        ("perl", "-MDigest::MD5 -MEncode -e 1", "place.pl"),
        ("php", "-r exit((int)!extension_loaded('mbstring'));", "place.php"),
        ("node", "--version", "place.mjs"),
    ],
)
def test_name_placement_in_another_language_matches_conformance_file(language: str, check: str, program: str) -> None:
    command = [interpreter(language, check), str(PROGRAMS / program)]
    typed = "".join(f"{name}\n" for name in NAMES)
    done = subprocess.run(command, input=typed.encode(), capture_output=True, timeout=300, check=False)
    assert (done.returncode, done.stderr.decode()) == (0, "")
    assert done.stdout.decode().splitlines() == LINES


@in_loop
async def test_name_placement_in_sql_matches_conformance_file() -> None:
    url = await postgres.database(test_name_placement_in_sql_matches_conformance_file)
    connection = await asyncpg.connect(url)
    try:
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute((PROGRAMS / "place.sql").read_text("utf-8"))
        rows = await connection.fetch(
            "SELECT name, placed.* FROM unnest($1::text[]) WITH ORDINALITY AS given(name, at), place(name) AS placed ORDER BY at",
            NAMES,
        )
        await transaction.rollback()
    finally:
        await connection.close()
    assert [",".join(map(str, row)) for row in rows] == LINES
