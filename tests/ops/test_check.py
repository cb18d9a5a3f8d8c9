"""Each test damages an invariant in the store; `shoal check` detects, reports and repairs it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import AsyncMock, patch

import pytest
from msgspec.structs import replace

from shoal import Shoal
from shoal.admin.consistency.check import check
from shoal.admin.consistency.derived import count_all
from shoal.admin.consistency.repair import miscount, recount
from shoal.admin.report import CheckReport, Finding, nothing
from shoal.app.network import open_network
from shoal.commands import members, moderation, posts, reactions
from shoal.core.ids import shard_of
from shoal.core.kinds import KindDraft
from shoal.core.model import Media
from shoal.core.placement import place
from shoal.graph.contract import MAX_TIME, AssocOp, AssocRow, Batch
from shoal.graph.payloads.follows import moments_of
from shoal.graph.schema import BLOCKED_BY, LIKED_BY, LIKES, POSTED, TAG_OF, TAGGED, tag_id
from shoal.graph.sqlite import ranks
from shoal.search.contract import PUBLIC, IndexChange, PostRow
from shoal.settings import load
from shoal.tagcloud import cloud as clouds
from shoal.tagcloud.contract import TagRow
from shoal.tagcloud.merger import Amendment
from tests.api.in_memory_network import picture
from tests.async_runner import in_loop
from tests.stores import all_links

NAMES = (
    *(
        "I1",
        "I2",
        "positions",
        "I3",
        "histories",
        "I4",
        "kinds",
        "spellings",
        "cloud",
        "search",
        "files",
        "lists",
        "ends",
        "keys",
    ),
    *("apps", "agenda", "ids"),
)


class CheckedNetwork(NamedTuple):
    """The path of a small network and the ids of its members and post."""

    path: Path
    ann: int
    ben: int
    post: int

    @property
    def url(self) -> str:
        return f"sqlite:///{self.path}"

    def sql(self, statement: str) -> None:
        """Change the database file directly."""
        with closing(sqlite3.connect(self.path)) as connection:
            connection.execute(statement.format(**self._asdict()))
            connection.commit()


_made: list[tuple[CheckedNetwork, dict[Path, bytes]]] = []


async def network_in(folder: Path) -> CheckedNetwork:
    """Return a small network in an empty folder. The first call makes it; later calls write copies of its files."""
    if not _made:
        made = await _make_network(folder)
        _made.append((made, _files(folder)))
        return made
    made, files = _made[0]
    for file, data in files.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_bytes(data)
    return made._replace(path=folder / made.path.name)


def _files(folder: Path) -> dict[Path, bytes]:
    return {file.relative_to(folder): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


async def _make_network(folder: Path) -> CheckedNetwork:
    """Create a network: Ben refollows Ann, and likes, bookmarks, shares and answers a post; Ann edits it and unfollows Ben."""
    path = folder / "shoal.db"
    async with Shoal.open(f"sqlite:///{path}") as shoal:
        ann, ben = await shoal.register("ann", email="ann@example.org"), await shoal.register("ben")
        await ben.follow(ann)
        await ben.unfollow(ann)
        await ben.follow(ann)
        await ann.follow(ben)
        await ann.unfollow(ben)
        await ann.follow_tag("dawn")
        post = await ann.create("Low tide at #dawn, #sea")
        await ann.update(post, "Low tide at #dawn, #sea and #sand")
        await ann.create("Again at #dawn")
        await ben.like(post)
        await ben.bookmark(post)
        await ben.share(post)
        await ben.comment(post, "Cold!")
        await ann.unlike(post)
        await shoal.kinds.declare(KindDraft(name="note", schema={"type": "object"}))
        await ann.create("A note", kind="note", data={})
        elsewhere = ("Elsewhere", "https://mastodon.social/@ann and @ann@pixelfed.social")
        await ann.albums.create("Tides")
        await ann.update_profile(fields=[elsewhere], findable_by_email=True)
        await shoal.blocklists.block_domain("spam.example")
        await shoal.blocklists.block_address("rude@example.org")
        await shoal.blocklists.block_network("203.0.113.0/24", seconds=86_400)
        waiting = [
            await members.register(shoal.network.writes, name, email=f"{name}@example.org", pending=True)
            for name in ("pia", "pam")
        ]
        await moderation.reject(shoal.network.writes, waiting[0].id)
        await shoal.settle()
        # Checks skip a search index that was not filled completely when its network was closed.
        await asyncio.gather(*(task for task in asyncio.all_tasks() if task.get_name() == "shoal-search"))
    return CheckedNetwork(path, ann.id, ben.id, post.id)


async def checked(checked_network: CheckedNetwork, *, repair: bool = False) -> CheckReport:
    async with Shoal.open(checked_network.url) as shoal:
        return await check(shoal.network, repair=repair)


def found(report: CheckReport) -> set[str]:
    return {line.name for line in report.invariants if line.found}


@in_loop
async def test_shoal_check_of_consistent_store_is_clean_and_covers_all_invariants(tmp_path: Path) -> None:
    report = await checked(await network_in(tmp_path))
    assert report.clean
    assert tuple(line.name for line in report.invariants) == NAMES
    assert all(
        line.checked for line in report.invariants if line.name not in {"positions", "files", "apps", "agenda", "ids"}
    )


BREAKS = {
    "an inverse is lost": ("DELETE FROM association WHERE alive >= 0 AND atype = 2", {"I3", "I2"}),
    "the acting end is lost": ("DELETE FROM association WHERE alive >= 0 AND atype = 1", {"I3", "I2"}),
    "one end is dead": ("UPDATE association SET alive = 0 WHERE alive >= 0 AND atype = 8", {"I3", "I2"}),
    "the ends tell different times": ("UPDATE association SET time = time + 1 WHERE alive >= 0 AND atype = 12", {"I3"}),
    "the ends tell different data": ("UPDATE association SET data = x'00' WHERE alive >= 0 AND atype = 10", {"I3"}),
    "one end has no history": ("DELETE FROM association WHERE alive = 0 AND atype = 93", {"histories"}),
    "the ends tell different histories": (
        "UPDATE association SET data = CAST(x'00000000000000aa' || data AS BLOB) WHERE alive = 0 AND atype = 2",
        {"histories"},
    ),
    "a history does not end": (
        "UPDATE association SET data = substr(data, 1, 8) WHERE alive = 0 AND atype IN (1, 2)",
        {"histories"},
    ),
    "a history ends and the follow goes on": (
        "UPDATE association SET time = 5 WHERE alive = 1 AND atype IN (1, 2)",
        {"histories"},
    ),
    "a count is too high": ("UPDATE association SET time = 7 WHERE alive = -1 AND atype = 2", {"I2"}),
    "a count is lost": ("DELETE FROM association WHERE alive = -1 AND atype = 1", {"I2"}),
    "the author's sum is wrong": (
        "UPDATE association SET time = 7 WHERE alive = -1 AND atype = 8 AND id1 = {ann}",
        {"I2"},
    ),
    "a count is of nothing": ("INSERT INTO association VALUES (12345, 2, 9e999, 3, -1, x'')", {"I2"}),
    "a tag does not lead to a post": (
        "DELETE FROM association WHERE alive >= 0 AND atype IN (16, 17) AND {post} IN (id1, id2)",
        {"I4"},
    ),
    "a tag is dead at both ends": ("UPDATE association SET alive = 0 WHERE alive >= 0 AND atype IN (16, 17)", {"I4"}),
    "a tagged post is gone": ("DELETE FROM object WHERE id = {post}", {"I4", "lists", "ends"}),
    "a post is in no list": ("DELETE FROM association WHERE alive >= 0 AND atype = 13", {"lists"}),
    "an album is in no list": ("DELETE FROM association WHERE alive >= 0 AND atype = 98", {"lists"}),
    "a share is in no list": ("DELETE FROM association WHERE alive >= 0 AND atype IN (9, 10)", {"lists"}),
    "a comment answers nothing": ("DELETE FROM association WHERE alive >= 0 AND atype IN (14, 15)", {"lists"}),
    "a member is gone": ("DELETE FROM object WHERE id = {ben}", {"ends"}),
    "a name is lost": ("DELETE FROM key WHERE space = 'user_name'", {"keys"}),
    "a name leads to nobody": ("UPDATE key SET id = 12345 WHERE space IN ('user_name', 'email')", {"keys"}),
    "a block is in no list": ("DELETE FROM association WHERE alive >= 0 AND atype IN (70, 71, 72)", {"lists"}),
    "a block is gone": ("DELETE FROM object WHERE id IN (SELECT id2 FROM association WHERE atype = 70)", {"lists"}),
    "a block's key is lost": ("DELETE FROM key WHERE space LIKE '%_block'", {"keys"}),
    "an account elsewhere leads to nobody": (
        "DELETE FROM association WHERE alive >= 0 AND atype IN (90, 91)",
        {"lists"},
    ),
    "an account elsewhere is dead": (
        "UPDATE association SET alive = 0 WHERE alive >= 0 AND atype = 91",
        {"I3", "lists"},
    ),
    "an account elsewhere that nobody declares": (
        "UPDATE association SET id1 = id1 + (atype = 91), id2 = id2 + (atype = 90) WHERE alive >= 0 AND atype IN (90, 91)",
        {"lists"},
    ),
    "the salt of hashes is lost": ("DELETE FROM key WHERE space = 'contact_salt'", {"keys"}),
    "a share's key is lost": ("DELETE FROM key WHERE space = 'share'", {"keys"}),
}


@pytest.mark.parametrize("damage", BREAKS)
@in_loop
async def test_shoal_check_detects_and_repairs_each_kind_of_damage(tmp_path: Path, damage: str) -> None:
    statement, expected = BREAKS[damage]
    checked_network = await network_in(tmp_path)
    checked_network.sql(statement)
    report = await checked(checked_network)
    assert expected <= found(report)
    assert all(line.examples for line in report.invariants if line.found)
    assert report.repaired == 0
    repaired = await checked(checked_network, repair=True)
    assert found(repaired) == found(report)
    assert repaired.repaired > 0
    assert repaired.notes == []
    assert (await checked(checked_network)).clean


@in_loop
async def test_shoal_check_finding_examples_are_sentences_with_member_names(tmp_path: Path) -> None:
    checked_network = await network_in(tmp_path)
    checked_network.sql("DELETE FROM association WHERE alive >= 0 AND atype = 2")
    checked_network.sql("UPDATE association SET time = 7 WHERE alive = -1 AND atype = 2 AND id1 = {ann}")
    report = await checked(checked_network)
    assert report["I3"].examples == ["@ben follows @ann, but the inverse association of @ann is missing"]
    assert report["I2"].examples == ["@ann has 0 associations 'followed by', but the count says 7"]
    assert report["histories"].examples == ["@ann remembers when they followed @ben, but @ben does not"]


@in_loop
async def test_shoal_check_repair_of_follow_history_without_end_adds_end_just_after_last_beginning(
    tmp_path: Path,
) -> None:
    checked_network = await network_in(tmp_path)
    checked_network.sql("DELETE FROM association WHERE alive = 0 AND atype = 2")
    checked_network.sql("UPDATE association SET data = substr(data, 1, 8) WHERE alive = 0 AND atype = 1")
    assert (await checked(checked_network, repair=True))["histories"].found > 0
    assert (await checked(checked_network)).clean
    async with Shoal.open(checked_network.url) as shoal:
        ends = [row for row in await all_links(shoal.network.store) if row.atype in (1, 2) and not row.alive]
        (one, other) = ends
        assert one.data == other.data
        # An end without a time would be deleted immediately.
        began, ended = sorted(moments_of(one.data), key=abs)
        assert (other.time, ended) == (began + 1, -began - 1)


@in_loop
async def test_shoal_check_repair_of_deleted_inverse_association_restores_followers_and_count(tmp_path: Path) -> None:
    checked_network = await network_in(tmp_path)
    async with Shoal.open(checked_network.url) as shoal:
        before = await (await shoal.member("ann")).followers()
    checked_network.sql("DELETE FROM association WHERE alive >= 0 AND atype = 2")
    await checked(checked_network, repair=True)
    async with Shoal.open(checked_network.url) as shoal:
        ann = await shoal.member("ann")
        assert await ann.followers() == before
        assert (await ann.profile()).followers == 1


@in_loop
async def test_shoal_check_repair_converts_lists_and_counts_of_older_format(tmp_path: Path) -> None:
    checked_network = await network_in(tmp_path)
    async with Shoal.open(checked_network.url) as shoal:
        ann, ben = await shoal.member("ann"), await shoal.member("ben")
        await ben.comment(checked_network.post, "@ann psst", visibility="direct")
        await ben.share(await ben.create("for friends", visibility="followers"))
        await shoal.settle()
        counted = (await ben.profile()).posts, (await ann.read(checked_network.post)).comments
    # The older format: all comments in one list and all entries in one count.
    checked_network.sql(
        "UPDATE association SET atype = atype - 41, alive = atype - 54 WHERE alive >= 0 AND atype IN (55, 56)"
    )
    checked_network.sql("DELETE FROM association WHERE alive >= 0 AND atype IN (57, 58)")
    checked_network.sql("DELETE FROM association WHERE alive = -1 AND atype IN (56, 57, 58)")
    checked_network.sql("UPDATE association SET atype = 14 WHERE alive = -1 AND atype = 55")
    checked_network.sql("UPDATE association SET time = 2 WHERE alive = -1 AND atype = 15 AND id1 = {post}")
    assert found(await checked(checked_network)) == {"lists"}
    async with Shoal.open(checked_network.url) as shoal:
        ann, ben = await shoal.member("ann"), await shoal.member("ben")
        assert ((await ben.profile()).posts, (await ann.read(checked_network.post)).comments) == (
            counted[0] + 1,
            counted[1] + 1,
        )
        assert [entry.post.text for entry in (await ann.thread(checked_network.post)).below] == ["Cold!", "@ann psst"]
    assert (await checked(checked_network, repair=True)).notes == []
    assert (await checked(checked_network)).clean
    async with Shoal.open(checked_network.url) as shoal:
        ann, ben = await shoal.member("ann"), await shoal.member("ben")
        assert ((await ben.profile()).posts, (await ann.read(checked_network.post)).comments) == counted == (4, 1)
        assert [entry.post.text for entry in (await ann.thread(checked_network.post)).below] == ["Cold!", "@ann psst"]


@in_loop
async def test_shoal_check_repair_of_association_that_differs_from_its_inverse_keeps_the_later_of_both(
    tmp_path: Path,
) -> None:
    checked_network = await network_in(tmp_path)
    checked_network.sql("UPDATE association SET alive = 0, time = time + 10 WHERE alive >= 0 AND atype = 2")
    await checked(checked_network, repair=True)
    async with Shoal.open(checked_network.url) as shoal:
        assert (await (await shoal.member("ben")).profile()).following == 0


@in_loop
async def test_shoal_check_detects_association_changed_without_its_inverse(tmp_path: Path) -> None:
    checked_network = await network_in(tmp_path)
    async with Shoal.open(checked_network.url) as shoal:
        for op in (
            AssocOp(checked_network.ben, BLOCKED_BY.number, checked_network.ann, 1 << 40, alive=True, plain=True),
            AssocOp(checked_network.ann, LIKES.number, checked_network.post, 1 << 40, alive=True, plain=True),
            AssocOp(checked_network.post, TAGGED.number, -5, checked_network.post, alive=True, plain=True),
            AssocOp(-6, TAG_OF.number, checked_network.post, checked_network.post, alive=True, plain=True),
        ):
            batch = Batch(shard_of(op.id1))
            batch.put(op)
            await shoal.network.store.commit(batch)
        report = await check(shoal.network, repair=True)
        assert (report["I3"].found, report["I4"].found) == (4, 1)
        assert (await check(shoal.network)).clean


@in_loop
async def test_shoal_check_incomplete_home_timeline_is_reported_and_dropped(tmp_path: Path) -> None:
    checked_network = await network_in(tmp_path)
    async with Shoal.open(checked_network.url) as shoal:
        ben = await shoal.member("ben")
        # Otherwise the share of the post would appear instead.
        await ben.update_profile(folds_shares=False)
        whole = await ben.home()
        await shoal.network.timelines.subtract(ben.id, [checked_network.post])
        report = await check(shoal.network, repair=True)
        assert found(report) == {"I1"}
        assert report["I1"].examples == [
            f"the home timeline of @ben lacks {checked_network.post} and has nothing in excess"
        ]
        assert await shoal.network.timelines.floor(ben.id) is None
        assert await ben.home() == whole
        assert (await check(shoal.network)).clean


WRONG_ROWS: dict[str, tuple[Callable[[TagRow], TagRow], str]] = {
    "too many uses": (lambda row: replace(row, n=row.n + 5), "counts 7 uses of #dawn, there are 2"),
    "a day too few": (lambda row: replace(row, days={}), "has wrong counts of the last days of #dawn"),
    "a spelling too much": (lambda row: replace(row, forms={"Dawn": 9}), "has wrong counts of the spellings of #dawn"),
    "nothing at all": (lambda row: TagRow(row.id, row.name), "counts 0 uses of #dawn, there are 2"),
}


@pytest.mark.parametrize("wrong", WRONG_ROWS)
@in_loop
async def test_shoal_check_wrong_tag_counts_are_reported_and_recounted(tmp_path: Path, wrong: str) -> None:
    change, words = WRONG_ROWS[wrong]
    checked_network, dawn = await network_in(tmp_path), tag_id("dawn")
    async with Shoal.open(checked_network.url) as shoal:
        right = (await shoal.network.tag_store.tags((dawn,)))[dawn]
        await shoal.network.amend_tags(Amendment(rows=(change(right),), authors={(dawn, 1 << 20, 12): 3}))
        report = await check(shoal.network, repair=True)
        assert found(report) == {"cloud"}
        assert words in report["cloud"].examples[0]
        row = (await shoal.network.tag_store.tags((dawn,)))[dawn]
        assert (row.n, row.forms, row.days) == (right.n, right.forms, right.days)
        assert (await check(shoal.network)).clean


@in_loop
async def test_tag_cloud_is_rebuilt_from_posts(tmp_path: Path) -> None:
    checked_network = await network_in(tmp_path)
    async with Shoal.open(checked_network.url) as shoal:
        right = await shoal.network.tag_store.scan(-(2**63), 100)
    _lose_cloud(tmp_path)
    async with Shoal.open(checked_network.url) as shoal:
        assert await count_all(shoal.network, nothing) == 3
        counted = await shoal.network.tag_store.scan(-(2**63), 100)
        assert [(row.name, row.n, row.forms, row.days) for row in counted] == [
            (row.name, row.n, row.forms, row.days) for row in right
        ]
        assert (await check(shoal.network)).clean


@in_loop
async def test_shoal_check_stale_search_index_is_reported_and_repaired(tmp_path: Path) -> None:
    checked_network = await network_in(tmp_path)
    async with Shoal.open(checked_network.url) as shoal:
        index = shoal.network.reads.search
        right = await index.rows([checked_network.ann, checked_network.post])
        stray = PostRow(7, checked_network.ann, 7, (PUBLIC,), ("stray",))
        await index.write(IndexChange(posts=[stray], gone=[checked_network.ann, checked_network.post]))
    report = await checked(checked_network)
    assert found(report) == {"search"}
    assert report["search"].found == 3
    assert "the row of @ann in the search index is outdated or missing" in report["search"].examples
    assert "the search index has a row of 7 (no such object), which does not exist" in report["search"].examples
    assert (await checked(checked_network, repair=True)).repaired == 3
    assert (await checked(checked_network)).clean
    async with Shoal.open(checked_network.url) as shoal:
        assert await shoal.network.reads.search.rows([7, checked_network.ann, checked_network.post]) == right


@in_loop
async def test_shoal_check_stale_media_description_in_search_index_is_repaired(tmp_path: Path) -> None:
    checked_network = await network_in(tmp_path)
    async with Shoal.open(checked_network.url) as shoal:
        ann = await shoal.member("ann")
        photo = await ann.upload(picture(), description="a boat")
        post = await ann.create("Look", media=[photo])
        await shoal.settle()
        held = (await shoal.network.store.obj_get((photo.id,)))[photo.id]
        assert isinstance(held, Media)
        batch = Batch(shard_of(ann.id))
        batch.obj_set(replace(held, description="a quay", version=held.version + 1))
        await shoal.network.store.commit(batch)
    report = await checked(checked_network)
    assert found(report) == {"search"}
    assert (await checked(checked_network, repair=True)).repaired == 1
    assert (await checked(checked_network)).clean
    async with Shoal.open(checked_network.url) as shoal:
        row = (await shoal.network.reads.search.rows([post.id]))[post.id]
        assert row.words == ("look", "a", "quay")


@in_loop
async def test_shoal_check_skips_search_index_during_initial_build(tmp_path: Path) -> None:
    checked_network = await network_in(tmp_path)
    with patch("shoal.app.indexes.fill_quietly", AsyncMock()):
        async with Shoal.open(checked_network.url) as shoal:
            await shoal.network.reads.search.clear()
        report = await checked(checked_network)
    assert report.clean
    assert "search" not in {line.name for line in report.invariants}


def _lose_cloud(folder: Path) -> None:
    for file in folder.glob("shoal.db.tags*"):
        file.unlink()


@in_loop
async def test_shoal_check_lost_tag_cloud_is_rebuilt(tmp_path: Path) -> None:
    checked_network = await network_in(tmp_path)
    _lose_cloud(tmp_path)
    async with Shoal.open(checked_network.url) as shoal:
        assert (await check(shoal.network, repair=True))["cloud"].found == 3
        assert (await check(shoal.network)).clean
        shown = clouds.decode((await shoal.network.tag_store.head()).cloud)
        assert shown.entries[shown.orders["all"][0]].name == "dawn"
        ann = await shoal.member("ann")
        await ann.create("#sand and #dawn")
        await shoal.settle()
        assert (await check(shoal.network)).clean


@in_loop
async def test_shoal_check_detects_missing_entry_deep_in_home_timeline(tmp_path: Path) -> None:
    """Timelines are also compared beyond the first pages."""
    async with Shoal.open(f"sqlite:///{tmp_path / 'shoal.db'}") as shoal:
        ann, ben = await shoal.register("ann"), await shoal.register("ben")
        await ben.follow(ann)
        posts = [await ann.create(f"Wave {n}") for n in range(150)]
        await ben.home()
        await shoal.network.timelines.subtract(ben.id, [posts[3].id])
        assert found(await check(shoal.network)) == {"I1"}


@in_loop
async def test_shoal_check_samples_cold_timelines_without_warming_them(tmp_path: Path) -> None:
    checked_network = await network_in(tmp_path)
    async with Shoal.open(checked_network.url) as shoal:
        assert (await check(shoal.network))["I1"].checked == 3
        assert await shoal.network.timelines.members(9) == []


@in_loop
async def test_shoal_check_read_only_reports_findings_and_skips_home_timelines(tmp_path: Path) -> None:
    checked_network = await network_in(tmp_path)
    checked_network.sql("UPDATE association SET time = 7 WHERE alive = -1 AND atype = 2")
    async with open_network(load({}, store=checked_network.url), read_only=True) as network:
        report = await check(network, read_only=True)
    assert found(report) == {"I2"}
    assert "I1" not in [line.name for line in report.invariants]
    assert "not checked" in report.notes[0]


@in_loop
async def test_shoal_check_repair_covers_every_store(tmp_path: Path) -> None:
    files = [tmp_path / "one.db", tmp_path / "two.db"]
    shard_map = {"0-31": f"sqlite:///{files[0]}", "32-63": f"sqlite:///{files[1]}"}
    names = [f"member{n}" for n in range(12)]
    assert {place(name).a // 32 for name in names} == {0, 1}
    async with Shoal.open(shard_map) as shoal:
        members = [await shoal.register(name) for name in names]
        for one, other in pairwise(members):
            await one.follow(other)
            await other.like(await one.create("Low tide at #dawn"))
        await shoal.settle()
        assert (await check(shoal.network)).clean
    for file in files:
        with closing(sqlite3.connect(file)) as connection:
            connection.execute("DELETE FROM association WHERE alive >= 0 AND atype IN (1, 8, 17)")
            connection.execute("UPDATE association SET time = time + 1 WHERE alive = -1")
            connection.commit()
    async with Shoal.open(shard_map) as shoal:
        assert found(await check(shoal.network, repair=True)) >= {"I2", "I3", "I4"}
        assert (await check(shoal.network)).clean


@pytest.mark.parametrize("damage", ["n = n + 1", "upto = upto + (40000 << 23)"])
@in_loop
async def test_shoal_check_wrong_block_of_list_position_index_is_reported_and_rebuilt(
    tmp_path: Path, damage: str
) -> None:
    checked_network = await network_in(tmp_path)
    with patch.multiple(ranks, BLOCK=3, FAN=2, OPEN=5):
        async with Shoal.open(checked_network.url) as shoal:
            ann = await shoal.member("ann")
            for number in range(40):
                await ann.create(f"{number} #dawn")
            wanted = await shoal.network.store.assoc_ranks([ann.id], POSTED, [0, MAX_TIME])
            report = await check(shoal.network)
            assert report.clean
            assert report["positions"].checked > 20
        checked_network.sql(f"UPDATE block SET {damage} WHERE level = 1")  # noqa: S608  # constants of this module
        assert found(await checked(checked_network)) == {"positions"}
        repaired = await checked(checked_network, repair=True)
        assert "a block of the list 'posted' of @ann has" in repaired["positions"].examples[0]
        assert repaired.repaired == repaired["positions"].found > 0
        async with Shoal.open(checked_network.url) as shoal:
            assert await shoal.network.store.assoc_ranks([ann.id], POSTED, [0, MAX_TIME]) == wanted
            report = await check(shoal.network)
            assert report.clean
            assert report["positions"].checked > 20


@in_loop
async def test_shoal_check_likes_of_deleted_post_count_until_cleanup(tmp_path: Path) -> None:
    checked_network = await network_in(tmp_path)
    off = Finding("the sum of likes", (checked_network.ann,), recount=(checked_network.ann, LIKED_BY.number))
    async with open_network(load({}, store=checked_network.url), background=False) as network:
        await posts.delete(network.writes, checked_network.ann, checked_network.post)
        assert await miscount(network, off) == 0
        await recount(network, [off])
        await network.settle()
        assert await miscount(network, off) == 0
        assert (await check(network)).clean


@in_loop
async def test_shoal_check_count_changed_during_check_is_not_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked_network = await network_in(tmp_path)
    off = Finding("the sum of likes", (checked_network.ann,), recount=(checked_network.ann, LIKED_BY.number))
    async with open_network(load({}, store=checked_network.url), background=False) as network:
        await posts.delete(network.writes, checked_network.ann, checked_network.post)
        scan = network.store.assoc_scan

        async def scan_and_go_on(*args: Any) -> Sequence[AssocRow]:
            rows = await scan(*args)
            monkeypatch.undo()
            post = await posts.create(network.writes, checked_network.ann, posts.Draft(text="Foam at #dawn"))
            await reactions.like(network.writes, checked_network.ben, post.id)
            await network.settle()
            return rows

        monkeypatch.setattr(network.store, "assoc_scan", scan_and_go_on)
        assert await miscount(network, off) == 0


@in_loop
async def test_shoal_check_of_network_in_use_reports_no_false_findings(tmp_path: Path) -> None:
    checked_network = await network_in(tmp_path)
    async with Shoal.open(checked_network.url, most_behind_seconds=0) as shoal:
        ann, ben = await shoal.member("ann"), await shoal.member("ben")
        done = asyncio.Event()

        async def live() -> None:
            while not done.is_set():
                post = await ann.create("Foam at #dawn")
                await ben.like(post)
                await ann.delete(post)

        busy = asyncio.create_task(live())
        try:
            for _ in range(8):
                report = await check(shoal.network)
                assert [line.examples for line in report.invariants if line.found] == []
        finally:
            done.set()
            await busy
