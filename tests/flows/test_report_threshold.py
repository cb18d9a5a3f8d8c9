"""Posts reported by several members are hidden from public lists until a moderator decides; the reporters are notified."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from shoal import Handle, Shoal
from shoal.admin.consistency.check import check
from shoal.consumers import reports
from shoal.core.events import ReportFiled, ReportOutcomeChanged
from shoal.core.ids import shard_of
from shoal.core.model import Member, Post, Report, Review
from shoal.graph.contract import AssocOp, Batch, Cursor
from shoal.graph.payloads.notifications import Kind
from shoal.graph.payloads.posts import encode_reports
from shoal.graph.schema import NOTIFIED, REPORTS_POST
from shoal.queries.foryou import feed
from shoal.queries.notifications import Notification
from tests.async_runner import eventually, in_loop
from tests.flows.members import home_texts, register, texts
from tests.flows.notifications.home_listener import listening


@pytest.fixture(params=["one store", "two stores"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str | dict[str, str]:
    """The stores of a network: Ann and Ben are in another store than Dan and Joe."""
    if request.param == "one store":
        return "memory://"
    return {"0-31": f"sqlite:///{tmp_path}/one.db", "32-63": f"sqlite:///{tmp_path}/two.db"}


@asynccontextmanager
async def network(url: str | dict[str, str] = "memory://", **more: Any) -> AsyncIterator[Shoal]:
    """Open a network that holds a post after two reports, by reporters of any age."""
    settings = {"reports_to_hold": 2, "reporter_age_days": 0.0, **more}
    async with Shoal.open(url, **settings) as shoal:
        yield shoal


async def review(shoal: Shoal, post: Post) -> Review:
    await shoal.settle()
    node = (await shoal.network.store.obj_get((post.id,)))[post.id]
    assert isinstance(node, Post)
    return node.review


async def report(by: Handle, post: Post) -> Report:
    return await by.report(post.author_id, posts=[post])


async def public_lists(who: Handle) -> dict[str, list[str]]:
    return {
        "public": texts(await who.public()),
        "tag": texts(await who.tagged("words")),
        "search": texts(await who.search_posts("rude")),
        "trends": texts(await who.trending_posts()),
    }


@in_loop
async def test_reported_post_at_threshold_is_shown_in_public_lists_only_to_author_and_followers(
    url: str | dict[str, str],
) -> None:
    async with network(url) as shoal:
        ann, fan, eve, tag, one, two = await register(shoal, "ann", "fan", "eve", "tag", "joe", "dan")
        await fan.follow(ann)
        await tag.follow_tag("words")
        post = await ann.create("rude #words")
        await fan.like(post)
        await shoal.settle()
        everywhere = {name: ["rude #words"] for name in ("public", "tag", "search", "trends")}
        nowhere = {name: list[str]() for name in everywhere}
        assert [await public_lists(who) for who in (ann, fan, eve)] == [everywhere] * 3
        await report(one, post)
        assert await review(shoal, post) is Review.NONE
        assert await public_lists(eve) == everywhere
        assert await home_texts(tag) == ["rude #words"]
        await report(two, post)
        assert await review(shoal, post) is Review.WAITING
        assert await public_lists(eve) == nowhere
        assert await home_texts(tag) == []
        assert texts(await shoal.visitor.public()) == []
        for who in (ann, fan):
            assert await public_lists(who) == everywhere | {"trends": []}
            assert await home_texts(who) == ["rude #words"]
        # Direct requests still find the post.
        assert (await eve.read(post)).post.text == "rude #words"
        assert texts(await eve.posts(ann)) == ["rude #words"]
        assert (await check(shoal.network)).clean


@in_loop
async def test_public_stream_sends_removal_when_post_is_held() -> None:
    async with network() as shoal:
        ann, fan, eve, one, two = await register(shoal, "ann", "fan", "eve", "joe", "dan")
        await fan.follow(ann)
        post = await ann.create("rude")
        await shoal.settle()
        heard: list[str] = []
        hub = shoal.network.hub

        async def listen() -> None:
            async for news in eve.live_public():
                heard.append(type(news).__name__)  # noqa: PERF401  # one by one, as they come

        async def connected() -> int:
            return hub.connected

        async def seen() -> list[str]:
            return heard

        task = asyncio.create_task(listen())
        try:
            await eventually(connected, 1)
            async with listening(fan) as listener:
                await report(one, post)
                await report(two, post)
                await shoal.settle()
                await eventually(seen, ["Removed"])
                await ann.update(post, "ruder")
                await ann.create("kind")
                await shoal.settle()
                await listener.hears("~ruder", "+kind")
            await eventually(seen, ["Removed", "Arrived"])
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@in_loop
async def test_report_by_frequently_wrong_reporter_does_not_count_towards_hold() -> None:
    async with network() as shoal:
        ann, ben, good, bad = await register(shoal, "ann", "ben", "good", "bad")
        judge = await shoal.register("judge")
        for _ in range(3):
            wrong = await report(bad, await ben.create("harmless"))
            await shoal.moderation.resolve(wrong, judge, upheld=False)
        post = await ann.create("rude")
        await report(good, post)
        await report(bad, post)
        assert await review(shoal, post) is Review.NONE
        # After as many upheld reports the reporter counts again.
        for _ in range(3):
            right = await report(bad, await ben.create("harmful"))
            await shoal.moderation.resolve(right, judge, upheld=True)
        again = await ann.create("rude again")
        await report(bad, again)
        await report(good, again)
        assert await review(shoal, again) is Review.WAITING


@in_loop
async def test_report_by_suspended_reporter_does_not_count_towards_hold() -> None:
    async with network() as shoal:
        ann, one, two, three = await register(shoal, "ann", "joe", "dan", "three")
        post = await ann.create("rude")
        await report(one, post)
        await shoal.settle()
        await shoal.moderation.suspend(one)
        await report(two, post)
        assert await review(shoal, post) is Review.NONE
        await report(three, post)
        assert await review(shoal, post) is Review.WAITING


@in_loop
async def test_report_by_reporter_younger_than_three_days_does_not_count_towards_hold() -> None:
    async with network(reporter_age_days=3.0) as shoal:
        ann, new = await register(shoal, "ann", "new")
        post = await ann.create("rude")
        await report(new, post)
        old = [await shoal.register(name) for name in ("old", "older")]
        for handle in old:
            await _age(shoal, handle, days=3.01)
        await report(old[0], post)
        assert await review(shoal, post) is Review.NONE
        await report(old[1], post)
        assert await review(shoal, post) is Review.WAITING


async def _age(shoal: Shoal, handle: Handle, *, days: float) -> None:
    member = (await shoal.network.store.obj_get((handle.id,)))[handle.id]
    assert isinstance(member, Member)
    batch = Batch(shard_of(member.id))
    joined = member.created_at - int(days * 86_400_000)
    batch.obj_set(replace(member, dated=joined, version=member.version + 1))
    await shoal.network.store.commit(batch)


@in_loop
async def test_reported_post_is_not_held_when_threshold_is_zero() -> None:
    async with network(reports_to_hold=0) as shoal:
        ann, one, two = await register(shoal, "ann", "joe", "dan")
        post = await ann.create("rude")
        await report(one, post)
        await report(two, post)
        assert await review(shoal, post) is Review.NONE


@in_loop
async def test_held_post_with_dismissed_report_is_cleared_and_not_held_again(url: str | dict[str, str]) -> None:
    async with network(url) as shoal:
        ann, eve, judge, *reporters = await register(shoal, "ann", "eve", "judge", "joe", "dan", "three", "four")
        post = await ann.create("rude")
        first = await report(reporters[0], post)
        await report(reporters[1], post)
        assert await review(shoal, post) is Review.WAITING
        closed = await shoal.moderation.resolve(first, judge)
        assert closed.upheld is False
        assert await review(shoal, post) is Review.CLEARED
        assert texts(await eve.public()) == ["rude"]
        await report(reporters[2], post)
        await report(reporters[3], post)
        assert await review(shoal, post) is Review.CLEARED
        await shoal.moderation.reopen(first)
        assert await review(shoal, post) is Review.WAITING
        assert (await check(shoal.network)).clean


@in_loop
async def test_reported_post_with_upheld_report_stays_out_of_public_lists(url: str | dict[str, str]) -> None:
    async with network(url) as shoal:
        ann, eve, judge, one, two = await register(shoal, "ann", "eve", "judge", "joe", "dan")
        post = await ann.create("rude")
        first = await report(one, post)
        await shoal.moderation.resolve(first, judge, upheld=True)
        assert await review(shoal, post) is Review.UPHELD
        assert texts(await eve.public()) == []
        second = await report(two, post)
        await shoal.moderation.resolve(second, judge, upheld=False)
        assert await review(shoal, post) is Review.UPHELD
        await shoal.moderation.reopen(first)
        assert await review(shoal, post) is Review.CLEARED
        await shoal.moderation.reopen(second)
        assert await review(shoal, post) is Review.WAITING
        # An edit does not change the review state.
        await ann.update(post, "still rude")
        assert await review(shoal, post) is Review.WAITING


@in_loop
async def test_report_resolution_is_upheld_after_moderation_action() -> None:
    async with network() as shoal:
        judge = await shoal.register("judge")
        acts: dict[str, Callable[[Handle, Post], Awaitable[object]]] = {
            "nothing": lambda ann, post: asyncio.sleep(0),
            "hide": lambda ann, post: shoal.moderation.hide(post),
            "delete": lambda ann, post: ann.delete(post),
            "suspend": lambda ann, post: shoal.moderation.suspend(ann),
            "silence": lambda ann, post: shoal.moderation.silence(ann),
            "disable": lambda ann, post: shoal.moderation.disable(ann),
            "sensitize": lambda ann, post: shoal.moderation.sensitize(ann),
        }
        for name, act in acts.items():
            ann, one = await register(shoal, f"ann_{name}", f"one_{name}")
            post = await ann.create("rude")
            filed = await report(one, post)
            await act(ann, post)
            closed = await shoal.moderation.resolve(filed, judge)
            assert closed.upheld is (name != "nothing"), name


@in_loop
async def test_report_repeated_by_member_counts_once_but_is_resolved_separately() -> None:
    async with network() as shoal:
        ann, judge, one, two = await register(shoal, "ann", "judge", "joe", "dan")
        post = await ann.create("rude")
        first = await report(one, post)
        await report(one, post)
        assert await review(shoal, post) is Review.NONE
        await report(two, post)
        assert await review(shoal, post) is Review.WAITING
        await shoal.moderation.resolve(first, judge, upheld=True)
        third = await report(two, post)
        await shoal.moderation.resolve(third, judge, upheld=False)
        assert await review(shoal, post) is Review.UPHELD


@in_loop
async def test_report_events_concurrent_or_repeated_give_equal_review_state(
    url: str | dict[str, str],
) -> None:
    async with network(url) as shoal:
        ann, judge, *reporters = await register(shoal, "ann", "judge", "joe", "dan")
        post = await ann.create("rude")
        filed = await asyncio.gather(*(report(one, post) for one in reporters))
        assert await review(shoal, post) is Review.WAITING
        effects = shoal.network.effects
        await shoal.moderation.resolve(filed[0], judge, upheld=False)
        assert await review(shoal, post) is Review.CLEARED
        for each in (*filed, *filed[::-1]):
            await reports.review_reported(effects, ReportFiled(report_id=each.id), 0)
            await reports.review_closed(effects, ReportOutcomeChanged(report_id=each.id), 0)
        assert await review(shoal, post) is Review.CLEARED


@in_loop
async def test_report_whose_inverse_is_pending_counts_towards_hold(tmp_path: Path) -> None:
    stores = {"0-31": f"sqlite:///{tmp_path}/one.db", "32-63": f"sqlite:///{tmp_path}/two.db"}
    async with network(stores) as shoal:
        ann, one, two = await register(shoal, "ann", "joe", "dan")
        post = await ann.create("rude")
        await shoal.settle()
        effects = shoal.network.effects
        for by in (one, two):
            shard = shard_of(by.id)
            filed = Report(id=effects.new_id(shard), reporter_id=by.id, target_id=ann.id, post_ids=(post.id,))
            batch = Batch(shard)
            batch.obj_add(filed)
            # Only the near end, like a store that commits it with a pending inverse.
            data = encode_reports(filed.id, None)
            batch.put(AssocOp(by.id, REPORTS_POST.number, post.id, filed.id, alive=True, data=data, plain=True))
            await shoal.network.store.commit(batch)
            await reports.review_reported(effects, ReportFiled(report_id=filed.id), 0)
        assert await review(shoal, post) is Review.WAITING


@in_loop
async def test_report_of_own_post_does_not_affect_review() -> None:
    async with network(reports_to_hold=1) as shoal:
        ann, judge, one = await register(shoal, "ann", "judge", "joe")
        post = await ann.create("rude")
        own = await report(ann, post)
        assert await review(shoal, post) is Review.NONE
        await shoal.moderation.resolve(own, judge, upheld=False)
        assert await review(shoal, post) is Review.NONE
        await report(one, post)
        assert await review(shoal, post) is Review.WAITING


@in_loop
async def test_moderation_report_list_can_be_limited_to_reports_of_held_posts() -> None:
    async with network() as shoal:
        ann, judge, one, two = await register(shoal, "ann", "judge", "joe", "dan")
        rude, kind = await ann.create("rude"), await ann.create("kind")
        await report(one, kind)
        first, second = await report(one, rude), await report(two, rude)
        await shoal.settle()
        assert [each.id for each in (await shoal.moderation.reports(waiting=True)).reports] == [second.id, first.id]
        await shoal.moderation.resolve(first, judge)
        await shoal.settle()
        assert (await shoal.moderation.reports(waiting=True)).reports == []


async def told(who: Handle) -> list[tuple[str, bool]]:
    """Return the verdict notifications of a member as pairs of target and closed state."""

    def one(item: Notification) -> tuple[str, bool]:
        assert item.notice.kind is Kind.REPORT_RESOLVED
        assert item.report is not None
        assert item.target is not None
        assert item.actor.member.id == who.id
        return item.target.member.name, bool(item.report.closed_at)

    return [one(item) for item in (await who.notifications.page()).items]


@in_loop
async def test_notification_of_closed_report_is_removed_when_report_is_reopened(
    url: str | dict[str, str],
) -> None:
    async with network(url) as shoal:
        ann, judge, one, two = await register(shoal, "ann", "judge", "joe", "dan")
        # The reporter can have blocked the reported member.
        await one.block(ann)
        filed = await one.report(ann)
        other = await report(two, await ann.create("rude"))
        await shoal.moderation.resolve(filed, judge)
        await shoal.settle()
        assert (await told(one), await told(two)) == ([("ann", True)], [])
        assert await told(one) == [("ann", True)]
        await shoal.moderation.resolve(filed, judge)
        await reports.tell_reporter(shoal.network.effects, ReportOutcomeChanged(report_id=filed.id), 0)
        assert await told(one) == [("ann", True)]
        await shoal.moderation.reopen(filed)
        await shoal.settle()
        assert await told(one) == []
        assert await shoal.network.store.assoc_range(one.id, NOTIFIED, Cursor()) == []
        await shoal.moderation.suspend(ann)
        await shoal.moderation.resolve(filed, judge)
        await shoal.moderation.resolve(other, judge)
        await shoal.settle()
        assert (await told(one), await told(two)) == ([("ann", True)], [("ann", True)])
        (item,) = (await one.notifications.page()).items
        assert item.target is not None
        assert not item.target.member.suspended


@in_loop
async def test_reported_post_upheld_is_hidden_from_home_and_for_you_until_cleared(url: str | dict[str, str]) -> None:
    async with network(url) as shoal:
        ann, fan, eve = await register(shoal, "ann", "fan", "eve")
        await fan.follow(ann)
        post = await ann.create("a rude word about the harbour")
        await shoal.settle()
        (report,) = [await eve.report(ann, posts=[post])]

        async def seen(who: Handle) -> tuple[list[str], list[str]]:
            ranked = await feed.page(shoal.network.reads, who.id, deadline=60.0)
            return await home_texts(who), [one.entry.post.text for one in ranked.entries]

        there = ["a rude word about the harbour"]
        assert await seen(fan) == (there, there)
        await shoal.moderation.resolve(report, ann, upheld=True)
        assert await review(shoal, post) is Review.UPHELD
        assert await seen(fan) == ([], [])
        assert await home_texts(ann) == there
        assert (await feed.why_not(shoal.network.reads, fan.id, post.id)).rule == "reported"
        assert (await fan.read(post)).post.text == there[0]
        await shoal.moderation.reopen(report)
        await shoal.moderation.resolve(report, ann, upheld=False)
        assert await review(shoal, post) is Review.CLEARED
        assert await seen(fan) == (there, there)
        assert (await check(shoal.network)).clean
