"""The queries of `docs/howto/sql.md` and the notebook run on every engine."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from shoal import Shoal
from shoal.core.kinds import KindDraft
from tests.api.events.consumer import PUBLIC, key_of
from tests.api.in_memory_network import NetworkFixture, network_fixture
from tests.project.projections import RoutedSource, read_all
from tests.project.test_projection import Databases, target_on
from tests.project.test_targets import lively
from tests.test_examples import EXAMPLES, KERNEL

PAGE = Path(__file__).resolve().parents[2] / "docs" / "howto" / "sql.md"
_SQLITE = ("created_on > current_date - 30", "created_on > date('now', '-30 days')")
"""A condition of a query on the page, and the one that the page names for SQLite."""


def queries() -> list[str]:
    """Return the indented blocks of the page that query tables."""
    blocks = re.findall(r"^(?:    .*\n|\n)+", PAGE.read_text(), re.MULTILINE)
    return [block for text in blocks if (block := textwrap.dedent(text).strip()).startswith(("SELECT", "WITH"))]


async def _recipes(shoal: Shoal) -> None:
    properties = {"cuisine": {"type": "string"}, "minutes": {"type": "integer"}}
    await shoal.kinds.declare(KindDraft(name="recipe", schema={"type": "object", "properties": properties}))
    ann = await shoal.member("ann")
    for cuisine, minutes in (("thai", 20), ("greek", 90), ("thai", 30)):
        await ann.create("Dinner", kind="recipe", data={"cuisine": cuisine, "minutes": minutes})


@pytest.fixture
def logged() -> Iterator[NetworkFixture]:
    with network_fixture(event_log="on") as made:
        yield made


@pytest.mark.parametrize("engine", ["sqlite", "postgresql", "duckdb"])
def test_queries_of_sql_page_return_what_it_says(logged: NetworkFixture, tmp_path: Path, engine: str) -> None:
    assert all(condition in PAGE.read_text() for condition in _SQLITE)
    source, owner = RoutedSource(logged, key_of(logged, *PUBLIC), Random(1)), Databases()

    async def told() -> list[list[tuple[Any, ...]]]:
        await lively(Shoal(logged.network))
        await _recipes(Shoal(logged.network))
        async with target_on(engine, tmp_path, owner) as target:
            await read_all(target, source)
            chosen = [query for query in queries() if "read_parquet" not in query]
            adapted = [query.replace(*_SQLITE) if engine == "sqlite" else query for query in chosen]
            return [await target.read(query) for query in adapted]

    tags, retention, daily, liked, prices, cuisines = logged.run(told())
    assert tags == [("tide", 1, 1)]
    ((joined, month, active),) = retention
    assert (joined, active) == (month, 2)
    assert [row[1:] for row in daily] == [(3, 5, 2, 1)]
    assert [(name, text) for name, text, _ in liked] == [("cyd", "Nice"), ("ann", "Low #tide")]
    assert prices == [(12.5,)]
    assert cuisines == [("thai", 2, 25.0), ("greek", 1, 90.0)]


def test_query_of_sql_page_reads_parquet_files(logged: NetworkFixture, tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    source = RoutedSource(logged, key_of(logged, *PUBLIC), Random(1))

    async def told() -> None:
        await lively(Shoal(logged.network))
        async with target_on("parquet", tmp_path, None) as target:
            await read_all(target, source)
            await target.publish()

    logged.run(told())
    (query,) = (query for query in queries() if "read_parquet" in query)
    assert duckdb.execute(query.replace("DIR", str(tmp_path / "copy"))).fetchall() == [("tide", 1)]


def test_sql_notebook_prints_retention_tags_and_growth(logged: NetworkFixture, tmp_path: Path) -> None:
    source = RoutedSource(logged, key_of(logged, *PUBLIC), Random(1))

    async def told() -> None:
        await lively(Shoal(logged.network))
        async with target_on("sqlite", tmp_path, None) as target:
            await read_all(target, source)

    logged.run(told())
    command = [sys.executable, "-c", KERNEL, str(EXAMPLES / "sql.ipynb")]
    environment = {"COPY": str(tmp_path / "copy.db")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [line[-2:] for line in lines[:2]] == [["active", "percent"], ["2", "66"]]
    assert lines[2:4] == [["tag", "posts", "authors"], ["tide", "1", "1"]]
    assert lines[5][1:] == ["3", "1", "1", "2", "1"]
