"""The upgrade of tags that were stored without case folding."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal import Shoal
from shoal.admin.consistency import tag_spellings
from shoal.admin.consistency.check import check
from shoal.admin.consistency.tag_spellings import fold_all
from shoal.app.network import open_network
from shoal.commands import ranking
from shoal.core.errors import Conflict
from shoal.core.model import Post
from shoal.core.text import canonical_tag
from shoal.graph.contract import Cursor
from shoal.graph.payloads.notifications import Kind
from shoal.graph.schema import REVISED, TAGGED, tags_folded_key
from shoal.settings import build
from shoal.tagcloud.contract import TagRule
from shoal.tagcloud.rules import allowing, denying, folded, merging
from tests.async_runner import eventually, in_loop, run
from tests.engines import dynamodb, postgres
from tests.example_counts import examples
from tests.stores import all_counts, all_links, all_objects
from tests.upgrades.lowercase_network import (
    APART,
    forget_upgrade,
    former_canonical_tag,
    former_tags,
    make_network,
    upgrade_of,
)


class Database:
    """The owner of a test database, which is released with it."""


@asynccontextmanager
async def in_sqlite(folder: Path) -> AsyncIterator[str]:
    yield f"sqlite:///{folder / 'shoal.db'}"


@asynccontextmanager
async def in_postgres(folder: Path) -> AsyncIterator[str]:
    url = await postgres.database(database := Database())
    yield url
    del database


@asynccontextmanager
async def in_dynamodb(folder: Path) -> AsyncIterator[str]:
    yield dynamodb.new_table()


ENGINES = [in_sqlite, in_postgres, in_dynamodb]
Engine = Callable[[Path], AbstractAsyncContextManager[str]]


async def texts_under(shoal: Shoal, tag: str) -> list[str]:
    ann = await shoal.member("ann")
    return [entry.post.text for entry in (await ann.tagged(tag)).entries]


async def stored(network: Any) -> list[object]:
    """Return everything in a store that the upgrade of tags may change."""
    store = network.store
    rows = [row async for row in _rows(network.counting.store)]
    return [await all_objects(store), await all_links(store), await all_counts(store), rows]


async def _rows(cloud: Any) -> AsyncIterator[object]:
    for row in await cloud.scan(-(2**63), 1_000):
        yield row.name, row.n, row.forms, row.days


async def assert_upgraded(shoal: Shoal) -> None:
    """Assert that a network of `lowercase_network` has all tags in their canonical form, each counted once."""
    network = shoal.network
    await shoal.settle()
    report = await check(network)
    assert report.clean, report
    assert await texts_under(shoal, "straße") == [
        "after #Straße",
        "an answer about #Straße",
        "#STRASSE and #sea",
        "both a #straße and a #STRASSE",
        "A #Straße, early",
    ]
    assert await texts_under(shoal, "strasse") == await texts_under(shoal, "STRASSE") != []
    assert len(await texts_under(shoal, "istanbul")) == 2
    assert len(await texts_under(shoal, "οδοσ")) == 1
    rows = {row.name: row for row in await network.counting.store.scan(-(2**63), 1_000)}
    assert {name: row.n for name, row in rows.items() if row.n} == {
        "strasse": 5,
        "sea": 1,
        "οδοσ": 1,
        "istanbul": 2,
        "ᏣᎳᎩ": 1,
    }
    assert rows["strasse"].forms == {"Straße": 3, "straße": 1, "STRASSE": 1}
    assert rows["istanbul"].forms == {"İstanbul": 1, "istanbul": 1}
    assert await network.counting.store.rules() == {
        "οδόσ": TagRule("οδόσ", target="οδοσ"),
        "ᏣᎳᎩ": TagRule("ᏣᎳᎩ", denied=True),
    }
    ann, ben, cyd, dan, eve = [await shoal.member(name) for name in ("ann", "ben", "cyd", "dan", "eve")]
    for follower in (cyd, dan, eve):
        assert [assoc.data for assoc in (await follower.followed_tags()).tags] == [b"strasse"]
        seen = [entry.post.text for entry in (await follower.home()).entries]
        assert seen == await texts_under(shoal, "strasse")
    assert [tag.name for tag in await ann.featured_by(ann)] == ["strasse", "sea"]
    assert [tag.name for tag in await ann.featured_by(ben)] == ["istanbul"]
    assert (await cyd.feedback()).picked == ("strasse", "sea")
    assert (await dan.feedback()).tags == {"strasse": 1}
    posts = [node for node in await all_objects(network.store) if isinstance(node, Post)]
    revised = [post for post in posts if await network.store.assoc_range(post.id, REVISED, Cursor())]
    assert [post.text for post in posts if post.edited_at] == [post.text for post in revised] == ["after #Straße"]
    notices = [one.notice.kind for who in (ann, ben, cyd, dan, eve) for one in (await who.notifications.page()).items]
    assert notices == [Kind.LIKE]


@pytest.mark.parametrize("engine", ENGINES)
@in_loop
async def test_tag_upgrade_runs_when_network_with_lowercase_tags_is_opened(engine: Engine, tmp_path: Path) -> None:
    async with engine(tmp_path) as url:
        tags = "" if engine is not in_dynamodb else f"sqlite:///{tmp_path / 'tags.db'}"
        await make_network(url, tags)
        async with Shoal.open(url, tags=tags, **APART) as shoal:

            async def is_upgraded() -> bool:
                return bool(await shoal.network.store.key_get((tags_folded_key(),)))

            await eventually(is_upgraded, answer=True)
            await assert_upgraded(shoal)


@pytest.mark.parametrize("engine", ENGINES)
@in_loop
async def test_tag_upgrade_when_repeated_changes_no_data(engine: Engine, tmp_path: Path) -> None:
    async with engine(tmp_path) as url:
        await make_network(url, tags := f"sqlite:///{tmp_path / 'tags.db'}")
        async with open_network(build(store=url, tags=tags, **APART), background=False) as network:
            await upgrade_of(network).once()
            await network.settle()
            before = await stored(network)
            await forget_upgrade(network.store)
            await upgrade_of(network).once()
            await network.settle()
            assert await stored(network) == before


@pytest.mark.parametrize("engine", ENGINES)
@in_loop
async def test_tag_upgrade_of_many_tags_fits_commit_limits_of_each_engine(engine: Engine, tmp_path: Path) -> None:
    names = [f"Straße{number}" for number in range(14)]
    async with engine(tmp_path) as url, Shoal.open(url, tags="memory://", **APART) as shoal:
        network = shoal.network
        ann = await shoal.register("ann")
        await ann.home()
        with former_tags():
            post = await ann.create(" ".join(f"#{name}" for name in names))
            for name in names:
                await ann.follow_tag(name)
            await shoal.settle()
        followed = [assoc.time for assoc in (await ann.followed_tags()).tags]
        await fold_all(network.store, network.writes, network.counting.store)
        await shoal.settle()
        assert (await ann.read(post)).post.tags == tuple(f"strasse{number}" for number in range(14))
        tags = (await ann.followed_tags()).tags
        assert [assoc.data.decode() for assoc in tags] == [f"strasse{number}" for number in range(13, -1, -1)]
        assert [assoc.time for assoc in tags] == followed
        assert (await check(network)).clean


@in_loop
async def test_shoal_check_reports_lowercase_tags_and_repair_upgrades_them(tmp_path: Path) -> None:
    async with in_sqlite(tmp_path) as url:
        await make_network(url)
        async with open_network(build(store=url, **APART), background=False) as network:
            report = await check(network)
            assert {line.name for line in report.invariants if line.found} == {"spellings"}
            # 7 posts with tags, 4 followed and featured tags in different forms, interests of 2 members, the rules.
            assert report["spellings"].found == 14, report["spellings"].examples
            assert "is stored under a former spelling" in report["spellings"].examples[0]
            assert (await check(network, repair=True)).repaired == 14
        async with Shoal.open(url, **APART) as shoal:
            await assert_upgraded(shoal)


def test_tag_upgrade_killed_after_each_commit_resumes_and_completes(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'shoal.db'}"
    run(make_network(url))
    deaths = 0
    # The first commit is the claim; each run makes one more commit.
    while (
        done := subprocess.run([sys.executable, "-m", "tests.upgrades.lowercase_network", url, "3"], check=False)
    ).returncode:
        assert done.returncode == -signal.SIGKILL
        deaths += 1
        assert deaths < 40
    assert deaths > 4

    async def assert_whole() -> None:
        async with Shoal.open(url, **APART) as shoal:
            await assert_upgraded(shoal)

    run(assert_whole())


@in_loop
async def test_tag_upgrade_in_second_process_conflicts_until_first_completes(tmp_path: Path) -> None:
    async with in_sqlite(tmp_path) as url:
        await make_network(url)
        async with open_network(build(store=url, **APART), background=False) as network:
            other = upgrade_of(network)
            await other._claim()
            with pytest.raises(Conflict):
                await upgrade_of(network).once()
            assert not await network.store.key_get((tags_folded_key(),))
            await other.once()
            await upgrade_of(network).once()
            assert await network.store.key_get((tags_folded_key(),))


@in_loop
async def test_tag_upgrade_when_stopped_releases_claim_for_next_process(tmp_path: Path) -> None:
    async with in_sqlite(tmp_path) as url:
        await make_network(url)
        async with open_network(build(store=url, **APART), background=False) as network:
            stopped = upgrade_of(network)
            await stopped._claim()
            await stopped.stop()
            await upgrade_of(network).once()
            assert await network.store.key_get((tags_folded_key(),))


@in_loop
async def test_tag_upgrade_of_new_network_is_already_complete(tmp_path: Path) -> None:
    async with open_network(build(store=f"sqlite:///{tmp_path / 'shoal.db'}", **APART), background=False) as network:
        assert await network.store.key_get((tags_folded_key(),))


@in_loop
async def test_lowercase_tags_before_upgrade_can_be_edited_deleted_and_unfollowed() -> None:
    async with Shoal.open("memory://", media="memory://", tags="memory://", search="memory://") as shoal:
        with former_tags():
            ann = await shoal.register("ann")
            edited, deleted = await ann.create("an #Straße"), await ann.create("a #Straße")
            await ann.follow_tag("Straße")
            await ann.feature("Straße")
            await shoal.settle()
        await ann.update(edited, "no tag")
        await ann.delete(deleted)
        await ann.unfollow_tag("STRASSE")
        await ann.unfeature("straße")
        await shoal.settle()
        assert not [row for row in await all_links(shoal.network.store) if row.alive and row.atype == TAGGED.number]
        assert not (await ann.followed_tags()).tags
        assert not await ann.featured_by(ann)
        assert not [row for row in await shoal.network.counting.store.scan(-(2**63), 10) if row.n or row.forms]
        assert (await check(shoal.network)).clean


@in_loop
async def test_shoal_check_repairs_post_edited_by_version_0_2_after_tag_upgrade() -> None:
    async with Shoal.open("memory://", media="memory://", tags="memory://", search="memory://") as shoal:
        ann = await shoal.register("ann")
        edited, deleted = await ann.create("a #Straße"), await ann.create("gone #STRASSE")
        with former_tags():
            await ann.update(edited, "a #Straße in #İstanbul")
            await ann.delete(deleted)
            await shoal.settle()
        assert await texts_under(shoal, "strasse") == []
        report = await check(shoal.network, repair=True)
        assert (report["spellings"].found, report.repaired) == (1, 1)
        assert await texts_under(shoal, "strasse") == await texts_under(shoal, "istanbul") == ["a #Straße in #İstanbul"]
        assert (await check(shoal.network)).clean


SPELLINGS = ["straße", "Straße", "STRASSE", "ẞ", "ss", "İi", "ii", "ΟΔΟΣ", "οδος", "οδοσ", "ꮳ", "Ꮳ", "ﬁ", "FI", "sea"]
_tags = st.sampled_from(SPELLINGS)
_KINDS = ["post", "follow", "feature", "pick", "delete", "edit", "upgrade"]


def _acts(*more: str) -> st.SearchStrategy[list[tuple[str, int, list[str]]]]:
    kinds = st.sampled_from([*_KINDS, *more])
    return st.lists(st.tuples(kinds, st.integers(0, 2), st.lists(_tags, min_size=1, max_size=3)), max_size=12)


@settings(max_examples=examples(12, full=25), deadline=None)
# Shoal 0.2 left a tag followed when another of its spellings was unfollowed.
@given(before=_acts(), after=_acts("unfollow"))
def test_tag_upgrade_result_equals_network_with_folded_tags_from_start(before: Any, after: Any) -> None:
    upgraded, folded_always = run(_lived(before, after, former=True)), run(_lived(before, after, former=False))
    assert upgraded == folded_always


async def _lived(before: Any, after: Any, *, former: bool) -> object:
    """Return the final content of a network; if `former`, Shoal 0.2 stored the first actions."""
    async with Shoal.open("memory://", media="memory://", tags="memory://", search="memory://") as shoal:
        people = [await shoal.register(name) for name in ("ann", "ben", "cyd")]
        mine: list[list[Post]] = [[], [], []]
        for who in people:
            # This makes the timeline warm.
            await who.home()
        if former:
            with former_tags():
                await _act(shoal, people, mine, before)
                await shoal.settle()
        else:
            await _act(shoal, people, mine, before)
        await _act(shoal, people, mine, after)
        network = shoal.network
        await fold_all(network.store, network.writes, network.counting.store)
        await shoal.settle()
        report = await check(network)
        assert report.clean, report
        # The order of posts within one millisecond is undefined.
        number = {post.id: (who, at) for who, posts in enumerate(mine) for at, post in enumerate(posts)}
        shown: list[object] = [
            sorted((number[entry.post.id], entry.post.tags) for entry in (await people[0].tagged(tag)).entries)
            for tag in SPELLINGS
        ]
        for who in people:
            shown.append({assoc.data for assoc in (await who.followed_tags()).tags})
            shown.append({tag.name for tag in await who.featured_by(who)})
            shown.append((await who.feedback()).picked)
            shown.append(sorted(number[entry.post.id] for entry in (await who.home()).entries))
        rows = await network.counting.store.scan(-(2**63), 100)
        return shown, {row.name: (row.n, row.forms) for row in rows if row.n or row.forms}


async def _act(shoal: Shoal, people: Any, mine: Any, acts: Any) -> None:
    for act, at, tags in acts:
        who, posts = people[at], mine[at]
        text = " ".join(f"#{tag}" for tag in tags)
        if act == "post":
            posts.append(await who.create(text))
        elif act == "edit" and posts:
            await who.update(posts[-1], text)
        elif act == "delete" and posts:
            await who.delete(posts.pop())
        elif act == "follow":
            await who.follow_tag(tags[0])
        elif act == "unfollow":
            await who.unfollow_tag(tags[0])
        elif act == "feature":
            await who.feature(tags[0])
        elif act == "pick":
            await who.pick_interests(*tags)
        elif act == "upgrade":
            network = shoal.network
            await fold_all(network.store, network.writes, network.counting.store)


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ([TagRule("straße", target="strasse")], []),
        ([TagRule("straße", target="road"), TagRule("strasse", denied=True)], [TagRule("strasse", denied=True)]),
        (
            [TagRule("οδος", target="straße"), TagRule("strasse", target="road")],
            [TagRule("οδοσ", target="road"), TagRule("strasse", target="road")],
        ),
        ([TagRule("a", target="straße"), TagRule("strasse", target="a")], []),
        ([TagRule("sea", target="sky")], [TagRule("sea", target="sky")]),
    ],
)
def test_tag_rules_on_spellings_of_one_tag_become_rules_on_canonical_tag_without_chains(
    rules: list[TagRule], expected: list[TagRule]
) -> None:
    found = folded({rule.name: rule for rule in rules})
    assert found == {rule.name: rule for rule in expected}
    assert folded(found) == found


@given(st.text(max_size=100))
def test_canonical_tag_of_lowercase_tag_equals_canonical_tag_of_original(name: str) -> None:
    if former := former_canonical_tag(name):
        assert canonical_tag(former) == canonical_tag(name)


@in_loop
async def test_more_like_feedback_on_two_spellings_of_tag_is_summed_once() -> None:
    async with Shoal.open("memory://", media="memory://", tags="memory://", search="memory://") as shoal:
        ann, ben = await shoal.register("ann"), await shoal.register("ben")
        with former_tags():
            post = await ben.create("#straße #strasse #sea")
            for tag, taps in (("straße", 3), ("strasse", 4), ("sea", 1)):
                for _ in range(taps):
                    await ann.more_like(post, tag)
        for _ in range(2):
            await ranking.fold_tags(shoal.network.writes, ann.id)
            assert (await ann.feedback()).tags == {"strasse": 5, "sea": 1}


@in_loop
async def test_tag_rules_apply_during_tag_upgrade(monkeypatch: Any) -> None:
    async with Shoal.open("memory://", media="memory://", tags="memory://", search="memory://") as shoal:
        network = shoal.network
        with former_tags():
            for name in ("ann", "ben", "cyd", "dan"):
                await (await shoal.register(name)).create("#Straße #ΟΔΟς #Weiß #sea")
            await network.tags.rule(denying("straße"))
            await network.tags.rule(denying("weiß"))
            await network.tags.rule(merging("οδος", "sea"))
            await shoal.settle()
        shown: list[list[str]] = []

        async def look(writes: Any, node: Any) -> None:
            await fold_one(writes, node)
            await shoal.settle()
            shown.append([word.name for word in (await network.tags.cloud()).words])
            # The upgrade keeps rules that an admin changes during it.
            await network.tags.rule(allowing("weiss"))

        fold_one = tag_spellings._fold
        monkeypatch.setattr(tag_spellings, "_fold", look)
        monkeypatch.setattr(tag_spellings, "_AT_ONCE", 1)
        await fold_all(network.store, network.writes, network.counting.store)
        await shoal.settle()
        assert len(shown) == 4
        assert shown[0] == ["sea"]
        assert {name for names in shown for name in names} == {"sea", "weiss"}
        assert await network.counting.store.rules() == {
            "strasse": TagRule("strasse", denied=True),
            "οδοσ": TagRule("οδοσ", target="sea"),
        }


@in_loop
async def test_tag_upgrade_removes_tag_that_is_too_long_when_folded() -> None:
    async with Shoal.open("memory://", media="memory://", tags="memory://", search="memory://") as shoal:
        network = shoal.network
        ann = await shoal.register("ann")
        with former_tags():
            long = "ß" * 51
            await ann.create(f"#{long}")
            await ann.follow_tag(long)
            await ann.feature(long)
            await ann.pick_interests(long, "sea")
            await shoal.settle()
        assert (await check(network))["spellings"].found == 4
        await fold_all(network.store, network.writes, network.counting.store)
        await shoal.settle()
        assert (await ann.followed_tags()).tags == []
        assert await ann.featured_by(ann) == []
        assert (await ann.feedback()).picked == ("sea",)
        assert (await check(network)).clean


@in_loop
async def test_tag_upgrade_yields_to_event_loop_within_page(monkeypatch: Any) -> None:
    async with Shoal.open("memory://", media="memory://", tags="memory://", search="memory://") as shoal:
        network = shoal.network
        ann = await shoal.register("ann")
        for number in range(12):
            await ann.create(f"#sea {number}")
        checked, between = 0, 0

        def counted(node: Any) -> bool:
            nonlocal checked, between
            checked, between = checked + 1, between + 1
            assert between <= 5
            return False

        async def tick() -> None:
            nonlocal between
            while True:
                between = 0
                await asyncio.sleep(0)

        monkeypatch.setattr(tag_spellings, "is_outdated", counted)
        monkeypatch.setattr(tag_spellings, "_BETWEEN_PAUSES", 5)
        ticking = asyncio.create_task(tick())
        await fold_all(network.store, network.writes, network.counting.store)
        ticking.cancel()
        assert checked > 12


@in_loop
async def test_more_like_feedback_given_on_tag_before_tag_upgrade_is_counted() -> None:
    async with Shoal.open("memory://", media="memory://", tags="memory://", search="memory://") as shoal:
        ann, ben = await shoal.register("ann"), await shoal.register("ben")
        with former_tags():
            post = await ben.create("#Straße")
        for spelling in ("straße", "STRASSE"):
            await ann.more_like(post, spelling)
        assert (await ann.feedback()).tags == {"strasse": 2}
