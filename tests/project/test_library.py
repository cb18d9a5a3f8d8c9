"""`Shoal.project`: tables that a program keeps from the library."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

import shoal.sync
from shoal import Shoal
from shoal.core.errors import Gone, InvalidInput
from shoal.core.model import Visibility
from shoal.graph.contract import MAX_TIME
from shoal.graph.event_log import EventLog
from shoal.library import plugins
from tests.async_runner import in_loop


def texts(copy: Path) -> list[str]:
    return [text for (text,) in sqlite3.connect(copy).execute("SELECT text FROM posts ORDER BY id")]


@in_loop
async def test_library_project_stores_events_since_the_last_call(tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    async with Shoal.open(f"sqlite:///{tmp_path}/shoal.db", event_log="on") as shoal:
        ann = await shoal.register("ann")
        first = await ann.create("one")
        await shoal.project(f"sqlite:///{copy}")
        assert texts(copy) == ["one"]
        await ann.create("two")
        await ann.create("@bob a letter", visibility=Visibility.DIRECT)
        await ann.delete(first)
        await shoal.project(f"sqlite:///{copy}")
        assert texts(copy) == ["two"]
        with pytest.raises(InvalidInput, match="other private data"):
            await shoal.project(f"sqlite:///{copy}", ["direct"])
        await shoal.project(f"sqlite:///{copy}", ["direct"], rebuild=True)
        assert texts(copy) == ["two", "@bob a letter"]


def test_library_project_without_await_stores_events(tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    with shoal.sync.Shoal.open("memory://", event_log="on") as network:
        network.register("ann").create("one")
        network.project(f"sqlite:///{copy}")
        assert texts(copy) == ["one"]


@in_loop
async def test_library_project_in_shared_network_stores_events(tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    async with Shoal.open(f"sqlite:///{tmp_path}/shoal.db", shared=True, event_log="on") as network:
        await (await network.register("ann")).create("one")
        await network.project(f"sqlite:///{copy}")
        assert texts(copy) == ["one"]


@in_loop
async def test_library_project_refuses_invalid_arguments_without_effect(tmp_path: Path) -> None:
    store = tmp_path / "shoal.db"
    async with Shoal.open(f"sqlite:///{store}", event_log="on") as shoal:
        cases: list[tuple[str, Any, str]] = [
            ("mysql://db", (), "url: 'mysql://db' is not one of postgresql://"),
            (f"sqlite:///{store}", (), "url: .* is the store of the network"),
            (f"sqlite:///{tmp_path}/copy.db", ["emails"], r"include: allowed are followers, .* \(got 'emails'\)"),
        ]
        for url, include, message in cases:
            with pytest.raises(InvalidInput, match=message):
                await shoal.project(url, include, rebuild=True)
    assert not (tmp_path / "copy.db").exists()


@in_loop
async def test_library_project_after_missed_events_asks_for_rebuild(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/copy.db"
    async with Shoal.open("memory://", event_log="on") as shoal:
        ann = await shoal.register("ann")
        await shoal.project(url)
        for text in ("one", "two", "three"):
            await ann.create(text)
        await EventLog(shoal.network.store).trim(MAX_TIME)
        with pytest.raises(Gone, match="rebuild=True"):
            await shoal.project(url)
        await shoal.project(url, rebuild=True)
    assert texts(tmp_path / "copy.db") == ["one", "two", "three"]


@in_loop
async def test_library_project_of_earlier_schema_version_is_replaced_by_rebuild_only(tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    async with Shoal.open("memory://", event_log="on") as shoal:
        await (await shoal.register("ann")).create("one")
        await shoal.project(f"sqlite:///{copy}")
        with sqlite3.connect(copy) as database:
            database.executescript(
                "DROP INDEX posts_kind; ALTER TABLE posts DROP COLUMN kind; UPDATE shoal_projection SET schema_version = 1"
            )
        with pytest.raises(InvalidInput, match="schema version 1, not 3: run with --rebuild"):
            await shoal.project(f"sqlite:///{copy}")
        await shoal.project(f"sqlite:///{copy}", rebuild=True)
    assert sqlite3.connect(copy).execute("SELECT text, kind FROM posts").fetchall() == [("one", "")]


@pytest.mark.parametrize("value", ["shoal_absent.library:project", None])
@in_loop
async def test_library_project_without_its_package_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    def entries(group: str, name: str) -> Iterator[EntryPoint]:
        if value:
            yield EntryPoint(name, value, group)

    monkeypatch.setattr(plugins, "entry_points", entries)
    async with Shoal.open("memory://", event_log="on") as shoal:
        with pytest.raises(InvalidInput, match=r"needs the package shoal_\w+: run `pip install -e '\.\[project\]'`"):
            await shoal.project("sqlite:///copy.db")
