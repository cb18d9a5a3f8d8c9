"""Posts with more photos than the maximum: the split into parts is deterministic, and each part is counted once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from shoal.admin.archives.importer import import_archive
from shoal.admin.archives.records import ArchiveReport, Omission
from shoal.core.errors import Unavailable
from shoal.core.events import PostImported
from shoal.graph.contract import Batch, Graph
from shoal.library import Handle, Shoal
from tests.archives.test_import import album, opened, read, reasons, taken
from tests.async_runner import in_loop


class Disturbed:
    """A graph that calls a function before one of its methods."""

    def __init__(self, graph: Graph, method: str, before: Callable[..., Awaitable[None]]) -> None:
        self._graph = graph
        self._method = method
        self._before = before

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._graph, name)
        if name != self._method:
            return method

        async def disturbed(*args: Any) -> Any:
            await self._before(*args)
            return await method(*args)

        return disturbed


async def taken_with(shoal: Shoal, who: Handle, path: Path, graph: Disturbed) -> ArchiveReport:
    network = replace(shoal.network, writes=replace(shoal.network.writes, graph=cast("Graph", graph)))
    report = await import_archive(network, who.id, path, dry_run=False)
    await shoal.settle()
    return report


@in_loop
async def test_archive_import_repeated_does_not_read_unreadable_photo_of_imported_post_again(tmp_path: Path) -> None:
    path = album(tmp_path / "a.zip", 9, (1,))
    async with opened(max_media_per_post=4) as shoal:
        ann = await shoal.register("ann")
        first = await taken(shoal, ann, path)
        assert (first.taken.photos, reasons(first)) == (8, {("photos", Omission.UNREADABLE): 1})
        out = await read(shoal, ann, tmp_path)
        assert [len(post["media"]) for post in (*out["posts"], *out["comments"])] in ([3, 4, 1], [3, 1, 4])
        again = await taken(shoal, ann, path)
        # The photo is not read again.
        assert (again.there.posts, reasons(again)) == (1, {})


@in_loop
async def test_archive_import_of_post_without_text_puts_first_readable_photos_into_post(tmp_path: Path) -> None:
    async with opened(max_media_per_post=4) as shoal:
        ann = await shoal.register("ann")
        report = await taken(shoal, ann, album(tmp_path / "a.zip", 9, (0, 1, 2, 3), title=""))
        assert (report.taken.posts, report.taken.photos) == (1, 5)
        out = await read(shoal, ann, tmp_path)
        assert [len(post["media"]) for post in (*out["posts"], *out["comments"])] == [4, 1]
        nothing = await taken(shoal, ann, album(tmp_path / "b.zip", 2, (0, 1), title=""))
        assert ("posts", Omission.DELETED) not in reasons(nothing)


@in_loop
async def test_archive_import_retry_counts_omissions_once(tmp_path: Path) -> None:
    path = album(tmp_path / "a.zip", 5, (1,), title="a" * 20_000)
    commits = 0

    async def away(batch: Batch) -> None:
        nonlocal commits
        commits += any(isinstance(event, PostImported) for event in batch.events)
        # Fail the first commit of the first part and of the second part.
        if commits in {1, 3}:
            raise Unavailable("the store is away")

    async with opened(max_media_per_post=4) as shoal:
        ann = await shoal.register("ann")
        report = await taken_with(shoal, ann, path, Disturbed(shoal.network.writes.graph, "commit", away))
        assert commits == 4
        assert reasons(report) == {("photos", Omission.UNREADABLE): 1}
        assert (report.cut, report.continued, report.taken.posts, report.taken.photos) == (1, 1, 1, 4)


@pytest.mark.parametrize("title", ["Zehn für dich", ""])
@in_loop
async def test_archive_import_of_divided_post_deleted_during_import_leaves_no_comments(
    tmp_path: Path, title: str
) -> None:
    async with opened(max_media_per_post=4) as shoal:
        ann = await shoal.register("ann")
        await taken(shoal, ann, album(tmp_path / "a.zip", 5, (4,), title))
        (post,) = (await read(shoal, ann, tmp_path))["posts"]
        left = [post]

        async def deleting(*_: Any) -> None:
            # The post exists at the first look-up and is deleted before the look-up of its photos.
            while left:
                await ann.delete(int(left.pop()["id"]))

        graph = Disturbed(shoal.network.writes.graph, "key_get", _second(deleting))
        report = await taken_with(shoal, ann, album(tmp_path / "b.zip", 5, (), title), graph)
        assert (left, reasons(report)) == ([], {("posts", Omission.DELETED): 1})
        out = await read(shoal, ann, tmp_path, "after.zip")
        assert (out["posts"], out["comments"]) == ([], [])


def _second(act: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    calls = 0

    async def acting(*args: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            await act(*args)

    return acting
