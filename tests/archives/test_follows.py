"""Follows in an archive: the maximum, batched look-ups, and the member's follow limit."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from shoal.admin.archives.importer import import_archive
from shoal.admin.archives.records import Omission
from shoal.graph.contract import Graph
from tests.archives import factories
from tests.archives.test_import import opened, reasons
from tests.async_runner import in_loop

PIECE = 400


class Noting:
    """A graph that records the size of each look-up and the ids in single relationship look-ups."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.sizes: list[int] = []
        self.alone: set[int] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._graph, name)

    async def obj_get(self, ids: Any) -> Any:
        self.sizes.append(len(ids))
        return await self._graph.obj_get(ids)

    async def key_get(self, keys: Any) -> Any:
        self.sizes.append(len(keys))
        return await self._graph.key_get(keys)

    async def assoc_get(self, id1: int, atypes: Any, others: Any) -> Any:
        self.sizes.append(len(others))
        if len(others) == 1:
            self.alone.update(others)
        return await self._graph.assoc_get(id1, atypes, others)


def export_with(folder: Path, follows: list[tuple[int, str]]) -> Path:
    files: dict[str, bytes | str] = {
        "profile.json": json.dumps({"id": "1", "name": "ann", "joined": "2024-05-01"}),
        "posts.json": "[]",
        "comments.json": "[]",
        "media.json": "[]",
        "follows.csv": "id,name\n" + "".join(f"{id_},{name}\n" for id_, name in follows),
    }
    return factories.zipped(folder / "export.zip", files)


@in_loop
async def test_archive_import_follows_are_limited_by_list_size_and_max_follows(tmp_path: Path) -> None:
    async with opened(max_follows=2) as shoal:
        ann = await shoal.register("ann")
        others = [await shoal.register(f"other{n}") for n in range(5)]
        named = [*((other.id, other.name) for other in others), *((n, f"nobody{n}") for n in range(1, 11_996))]
        writes = shoal.network.writes
        graph = Noting(writes.graph)
        network = replace(shoal.network, writes=replace(writes, graph=cast("Graph", graph)))
        report = await import_archive(network, ann.id, export_with(tmp_path, named), dry_run=False)
        assert (report.found.follows, report.taken.follows) == (5, 2)
        assert reasons(report) == {
            ("follows", Omission.TOO_MANY): 2_000,
            ("follows", Omission.ELSEWHERE): 9_995,
            ("follows", Omission.REFUSED): 3,
        }
        assert max(graph.sizes) == PIECE
        assert graph.alone.isdisjoint(other.id for other in others[3:])


@in_loop
async def test_archive_import_follow_addresses_are_looked_up_in_batches(tmp_path: Path) -> None:
    async with opened() as shoal:
        ann = await shoal.register("ann")
        ben = await shoal.register("ben")
        rows = "".join(f"nobody{n}@shoal.example\n" for n in range(900))
        files = factories.mastodon_files([])
        files["following_accounts.csv"] = f"Account address\n{rows}ben@shoal.example\n"
        writes = shoal.network.writes
        graph = Noting(writes.graph)
        network = replace(shoal.network, writes=replace(writes, graph=cast("Graph", graph)))
        report = await import_archive(network, ann.id, factories.zipped(tmp_path / "a.zip", files), dry_run=True)
        assert (report.found.follows, reasons(report)) == (1, {("follows", Omission.ELSEWHERE): 900})
        assert max(graph.sizes) == PIECE
        assert ben.id not in graph.alone
