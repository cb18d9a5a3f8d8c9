"""A network stored by an older version opens, is repaired by `shoal check --repair`, and keeps its contents.

`data/old-network.tar.xz` holds an SQLite store with its search index, tag cloud and pictures as commit da94c40 left them
(2026-11-22: media did not reference their posts yet). It was made by `make_old_network.py`, run with that code.
"""

from __future__ import annotations

import asyncio
import io
import tarfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from PIL import Image

from shoal import Shoal
from shoal.admin.consistency.check import check
from shoal.core.ids import milliseconds_of
from shoal.core.media_files import files_of
from shoal.core.model import Media
from shoal.graph.contract import Cursor
from shoal.library import Handle
from shoal.queries.search import posts
from shoal.scheduler import Agenda
from tests.async_runner import in_loop
from tests.stores import all_objects
from tests.upgrades.stored_networks import unpack_all

ARCHIVE = Path(__file__).parent / "data" / "old-network.tar.xz"
PASSWORD = "correct horse battery"
DAWN, EDITED, TWICE = "Two pictures at #dawn", "After the edit #sea", "The same picture, 2"
QUIET, POLL, TALK = "Quiet today #sea", "Tea or coffee? #dawn", "@ben a word, please"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with tarfile.open(ARCHIVE) as archive:
        unpack_all(archive, tmp_path)
    return tmp_path


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Shoal]:
    async with Shoal.open(f"sqlite:///{folder}/shoal.db") as shoal:
        await shoal.settle()
        yield shoal


@asynccontextmanager
async def repaired(folder: Path) -> AsyncIterator[Shoal]:
    async with opened(folder) as shoal:
        await check(shoal.network, repair=True, young=0.0)
        yield shoal


async def home_of(member: Handle) -> dict[str, int]:
    """Return the texts of a home timeline and the post id of each."""
    return {entry.post.text: entry.post.id for entry in (await member.home(limit=40)).entries}


async def replies_to(member: Handle, post_id: int) -> set[str]:
    return {entry.post.text for entry in (await member.thread(post_id)).below}


@in_loop
async def test_network_of_old_version_passes_check_after_one_repair(folder: Path) -> None:
    async with opened(folder) as shoal:
        await check(shoal.network, repair=True, young=0.0)
        report = await check(shoal.network, young=0.0)
        assert [(line.name, line.examples) for line in report.invariants if line.found] == []
    # The repair is durable, not in memory only.
    async with opened(folder) as shoal:
        assert (await check(shoal.network, young=0.0)).clean


@in_loop
async def test_network_of_old_version_keeps_timelines_replies_and_revisions_after_repair(folder: Path) -> None:
    async with repaired(folder) as shoal:
        ann, ben, cyd, dan = [await shoal.log_in(name, PASSWORD) for name in ("ann", "ben", "cyd", "dan")]
        assert {TALK, EDITED, DAWN, TWICE, "In the north.", "Where is that?"} <= set(await home_of(ann))
        assert {DAWN, EDITED, TWICE, TALK} <= set(await home_of(ben))
        assert {DAWN, EDITED, TWICE, QUIET, POLL} <= set(await home_of(cyd))
        assert {DAWN, QUIET, POLL, "Hidden by moderation #dawn"} <= set(await home_of(dan))
        shown = (await home_of(cyd))[DAWN]
        public = {"Where is that?", "In the north."}
        assert await replies_to(ann, shown) == public | {"@ann tell nobody", "@ann nor me"}
        assert await replies_to(dan, shown) == public | {"For those who follow me"}
        assert await replies_to(ben, shown) == public | {"@ann tell nobody"}
        entry = await cyd.read(shown)
        assert (entry.likes, entry.shares, entry.bookmarked) == (3, 1, True)
        assert [revision.text for revision in await ben.history((await home_of(ben))[EDITED])] == ["Before the edit"]


@in_loop
async def test_network_of_old_version_has_relationship_history_from_existing_follows(folder: Path) -> None:
    async with opened(folder) as shoal:
        ann, ben, dan = [await shoal.member(name) for name in ("ann", "ben", "dan")]
        began = (await ben.following()).times[-1]
        (period,) = (await ben.relationship_history(ann)).following
        assert period == (await ann.relationship_history(ben)).followed_by[0]
        assert (period.since, period.until) == (milliseconds_of(began), None)
        assert (await dan.relationship_history(ann)).following == []
        # From now on, the history is complete.
        await ben.unfollow(ann)
        await ben.follow(ann)
        again, before = (await ben.relationship_history(ann)).following
        assert before.since == period.since
        assert (again.until, before.until) == (None, before.until)
        assert len(await ann.followers_by_day(400)) == 30
        assert (await ann.followers_by_day(1))[0].lost == 1


@in_loop
async def test_network_of_old_version_links_media_to_posts_and_expires_unused_media_at_repair(folder: Path) -> None:
    async with opened(folder) as shoal:
        # Two concurrent updates left an avatar behind; uploads have neither a size nor an expiry time.
        before = await check(shoal.network, young=0.0)
        assert before["files"].found > before["keys"].found == 8
        await check(shoal.network, repair=True, young=0.0)
        assert sum(node.unused_since > 0 for node in await all_media(shoal)) == 3
        later = time.time_ns() // 1_000_000 + 25 * 3_600_000
        assert await Agenda(shoal.network.writes, clock=lambda: later).once() >= 3
        await shoal.settle()
        left = await all_media(shoal)
        assert len(left) == 5
        ann, ben = [(await (await shoal.member(name)).profile()).member for name in ("ann", "ben")]
        assert (ann.media_bytes, ben.media_bytes) == tuple(
            sum(node.stored for node in left if node.owner_id == owner.id) for owner in (ann, ben)
        )
        assert min(ann.media_bytes, ben.media_bytes) > 2_000
        kept = {key for node in left for key in files_of(node)} | {ann.avatar, ann.header, ben.avatar}
        assert {file.key async for page in shoal.network.media.files() for file in page} == kept


@in_loop
async def test_network_of_old_version_search_finds_picture_descriptions_without_repair(folder: Path) -> None:
    async with opened(folder) as shoal:
        async with asyncio.timeout(60):
            while not (await shoal.network.reads.search.state()).complete:  # noqa: ASYNC110  # there is no event to await
                await asyncio.sleep(0.01)
        cyd = await shoal.member("cyd")
        entries = await posts(shoal.network.reads, cyd.id, '"picture 6"', Cursor(limit=9))
        assert [entry.post.text for entry in entries] == [DAWN]


async def all_media(shoal: Shoal) -> list[Media]:
    return [node for node in await all_objects(shoal.network.store) if isinstance(node, Media)]


@in_loop
async def test_network_of_old_version_post_pictures_avatars_and_headers_are_readable_after_repair(folder: Path) -> None:
    async with repaired(folder) as shoal:
        cyd = await shoal.member("cyd")
        shown = {entry.post.text: entry for entry in (await cyd.home(limit=40)).entries if entry.media}
        assert {text: len(entry.media) for text, entry in shown.items()} == {DAWN: 2, EDITED: 1, TWICE: 1}
        keys = [key for entry in shown.values() for made in entry.media for key in (made.key, made.preview_key)]
        ann, ben = [(await (await shoal.member(name)).profile()).member for name in ("ann", "ben")]
        for key in (*keys, ann.avatar, ann.header, ben.avatar):
            data, _ = await shoal.network.media.read(key)
            assert Image.open(io.BytesIO(data)).size[0] >= 48
