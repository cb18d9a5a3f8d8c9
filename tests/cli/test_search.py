"""`shoal search`, and the setting for the location of the index."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from shoal import Shoal
from shoal.app.indexes import open_search
from shoal.cli import main
from shoal.core.errors import InvalidInput
from shoal.graph.contract import Cursor
from shoal.queries import search
from shoal.queries.search import ResultRange
from shoal.search.memory import MemoryIndex
from shoal.settings import Settings
from tests.async_runner import in_loop, run


async def _network(url: str, index: str = "") -> list[str]:
    """Create a member with a post unless they exist, and return the search results of another member."""
    async with Shoal.open(url, search=index) as shoal:
        reads = shoal.network.reads
        if await search.member_named(reads, "ann") is None:
            ann = await shoal.register("ann")
            await ann.create("low tide")
        await shoal.settle()
        ben = (
            await shoal.register("ben")
            if await search.member_named(reads, "ben") is None
            else await shoal.member("ben")
        )
        entries = await search.posts(reads, ben.id, "tide", Cursor(limit=9))
        return [entry.post.text for entry in entries]


def test_search_rebuild_on_store_of_running_server_restores_all_entries(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'shoal.db'}"
    assert run(_network(url)) == ["low tide"]

    async def beside() -> str:
        async with Shoal.open(url) as shoal:
            # The startup fill must finish on the complete index before the index is cleared.
            await asyncio.gather(*(task for task in asyncio.all_tasks() if task.get_name() == "shoal-search"))
            await shoal.network.reads.search.clear()
            command = ["--store", url, "search", "rebuild"]
            done = await asyncio.to_thread(CliRunner().invoke, main, command)
            assert done.exit_code == 0, done.output
            ben = await shoal.member("ben")
            assert len(await search.posts(shoal.network.reads, ben.id, "tide", Cursor(limit=9))) == 1
            return done.output

    assert run(beside()) == "3 members and posts indexed\n"


def test_search_rebuild_without_store_or_index_is_refused(tmp_path: Path) -> None:
    missing = CliRunner().invoke(main, ["--store", f"sqlite:///{tmp_path / 'none.db'}", "search", "rebuild"])
    assert missing.exit_code == 1
    assert "no store at" in missing.output
    nowhere = CliRunner().invoke(main, ["--store", "memory://", "search", "rebuild"])
    assert nowhere.exit_code == 1
    assert "no index to rebuild" in nowhere.output
    assert list(tmp_path.iterdir()) == []


def test_search_setting_places_index_in_separate_file(tmp_path: Path) -> None:
    path = tmp_path / "elsewhere.search"
    assert run(_network("memory://", index=f"sqlite:///{path}")) == ["low tide"]
    assert path.exists()


def test_search_index_in_memory_is_filled_at_each_start(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'shoal.db'}"
    assert run(_network(url, index="memory://")) == ["low tide"]
    assert not list(tmp_path.glob("*.search"))

    async def again() -> None:
        async with Shoal.open(url, search="memory://") as shoal:
            index = shoal.network.reads.search
            assert isinstance(index, MemoryIndex)
            async with asyncio.timeout(60):
                while not (await index.state()).complete:  # noqa: ASYNC110  # there is no event to wait for
                    await asyncio.sleep(0.01)
            assert len(await index.ids(-1, 9)) == 3

    run(again())


@in_loop
async def test_search_setting_with_unknown_scheme_is_refused() -> None:
    for url in ("dynamodb://table", "ftp://x", "nonsense"):
        with pytest.raises(InvalidInput, match=r"search: .* is not supported"):
            async with Shoal.open("memory://", search=url):
                pass


@in_loop
async def test_search_without_index_finds_names_and_logs_hint(caplog: pytest.LogCaptureFixture) -> None:
    async with contextlib.AsyncExitStack() as stack:
        filler = await open_search(Settings(store="dynamodb://table?region=here"), stack, read_only=False)
        assert "set search to one of" in caplog.text
        async with Shoal.open("memory://") as shoal:
            ann = await shoal.register("ann")
            await ann.create("low #tide")
            await shoal.settle()
            reads = replace(shoal.network.reads, search=filler.index)
            assert await search.member_named(reads, "ann") is not None
            people = await search.members(reads, None, "ann", ResultRange(9))
            assert [one.member.name for one in people] == ["ann"]
            assert await search.tags(reads, None, "#tide", ResultRange(9)) == ["tide"]
            assert await search.tags(reads, None, "#ti", ResultRange(9)) == []
