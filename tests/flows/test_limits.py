"""Limits are exact under concurrency, on every store and across processes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shoal import Shoal
from shoal.app.network import Network, open_network
from shoal.commands import filters, lists, members, reactions, relationships, scheduled_posts, tags
from shoal.commands.context import Writes
from shoal.commands.filters import FilterChange, KeywordChange
from shoal.commands.members import ProfileChange
from shoal.commands.posts import Draft
from shoal.core.credentials import Login
from shoal.core.errors import InvalidInput, NotAllowed
from shoal.core.filters import MAX_FILTERS, FilterContext
from shoal.graph.access import filters_of
from shoal.graph.contract import Cursor
from shoal.graph.schema import (
    FEATURES_TAG,
    FOLLOWS,
    FOLLOWS_TAG,
    LISTS,
    OWNS_LIST,
    PINS,
    REQUESTS,
    SCHEDULES,
    AssocType,
)
from shoal.settings import build
from tests.async_runner import in_loop
from tests.engines import dynamodb, postgres, redis
from tests.flows.members import register

REFUSED = (InvalidInput, NotAllowed)
STORES = ("memory", "sqlite", "postgres", "dynamodb")


class _Owner:
    """The owner of a test database, which is released with it."""


@asynccontextmanager
async def networks(store: str, folder: Path) -> AsyncIterator[list[Network]]:
    """Yield one network, or for PostgreSQL and DynamoDB two processes that share a network and Redis."""
    owner = _Owner()
    if store in {"memory", "sqlite"}:
        url = "memory://" if store == "memory" else f"sqlite:///{folder / 'shoal.db'}"
        async with open_network(build(store=url)) as network:
            yield [network]
        return
    url = await postgres.database(owner) if store == "postgres" else dynamodb.new_table()
    settings = build(store=url, timelines=redis.single(), media=f"file://{folder / 'media'}", tags="memory://")
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(open_network(settings)) for _ in range(2)]


async def aggregate_id(work: list[Coroutine[Any, Any, Any]]) -> tuple[int, int]:
    """Return the numbers of accepted and refused calls; fail on other errors."""
    answers = await asyncio.gather(*work, return_exceptions=True)
    strange = [answer for answer in answers if isinstance(answer, BaseException) and not isinstance(answer, REFUSED)]
    assert not strange, strange[0]
    refused = sum(isinstance(answer, REFUSED) for answer in answers)
    return len(answers) - refused, refused


@pytest.mark.parametrize("store", ["memory", "sqlite"])
@in_loop
async def test_filter_limit_is_exact_for_concurrent_creation(store: str, tmp_path: Path) -> None:
    async with networks(store, tmp_path) as (network,):
        writes = network.writes
        ann = (await members.register(writes, "ann")).id
        wish = FilterChange(title="t", contexts=tuple(FilterContext))
        assert await aggregate_id([filters.create(writes, ann, wish) for _ in range(240)]) == (MAX_FILTERS, 140)
        assert len(await filters_of(writes.graph, ann)) == MAX_FILTERS
        # Deleting one allows one more.
        await filters.delete(writes, ann, (await filters_of(writes.graph, ann))[0].id)
        assert await aggregate_id([filters.create(writes, ann, wish) for _ in range(9)]) == (1, 8)


@pytest.mark.parametrize("store", STORES)
@in_loop
async def test_lists_per_member_limit_is_exact_for_concurrent_creation_across_processes(
    store: str, tmp_path: Path
) -> None:
    async with networks(store, tmp_path) as found:
        all_writes = [replace(network.writes, limits=replace_limits(network.writes, lists=5)) for network in found]
        ann = (await members.register(all_writes[0], "ann")).id
        work = [lists.create(all_writes[n % len(found)], ann, f"list {n}") for n in range(16)]
        assert await aggregate_id(work) == (5, 11)
        assert len(await found[0].store.assoc_range(ann, OWNS_LIST, Cursor(limit=99))) == 5


def replace_limits(writes: Writes, **changes: int) -> Any:
    """Return the limits with smaller values for some."""
    return type(writes.limits)(
        **{**{name: getattr(writes.limits, name) for name in writes.limits.__struct_fields__}, **changes}
    )


async def small(shoal: Shoal, **limits: int) -> Writes:
    """Return writes with the given limits."""
    writes = shoal.network.writes
    return replace(writes, limits=replace_limits(writes, **limits))


async def count(shoal: Shoal, id1: int, atype: AssocType) -> int:
    """Return the number of associations."""
    return len(await shoal.network.store.assoc_range(id1, atype, Cursor(limit=999)))


@in_loop
async def test_pin_tag_schedule_and_list_member_limits_are_exact_for_concurrent_additions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(relationships, "MAX_FOLLOWED_TAGS", 3)
    async with Shoal.open("memory://") as shoal:
        ann, *others = await register(shoal, "ann", *(f"member{n}" for n in range(8)))
        writes = await small(shoal, pins=3, featured_tags=3, scheduled=3, list_members=3)
        made = [await ann.create(str(n)) for n in range(8)]
        for other in others:
            await ann.follow(other)
        kept = (await lists.create(writes, ann.id, "kept")).id
        at = 10_000_000_000_000 // 5
        for atype, id1, verb in (
            (PINS, ann.id, lambda n: reactions.pin(writes, ann.id, made[n].id)),
            (FEATURES_TAG, ann.id, lambda n: tags.feature(writes, ann.id, f"tag{n}")),
            (FOLLOWS_TAG, ann.id, lambda n: relationships.follow_tag(writes, ann.id, f"tag{n}")),
            (SCHEDULES, ann.id, lambda n: scheduled_posts.schedule(writes, ann.id, Draft(text=str(n)), at)),
            (LISTS, kept, lambda n: lists.put_on(writes, ann.id, kept, [others[n].id])),
        ):
            assert await aggregate_id([verb(n) for n in range(8)]) == (3, 5), atype.name
            assert await count(shoal, id1, atype) == 3, atype.name
        # Repeating an existing follow at the limit is not an error.
        for held in await shoal.network.store.assoc_range(ann.id, FOLLOWS_TAG, Cursor(limit=1)):
            await relationships.follow_tag(writes, ann.id, held.data.decode())


@in_loop
async def test_filter_keyword_limit_is_exact_for_concurrent_additions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filters, "MAX_KEYWORDS_IN_ALL", 4)
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        writes = shoal.network.writes
        made = [
            (await filters.create(writes, ann.id, FilterChange(title="t", contexts=tuple(FilterContext)))).id
            for _ in range(6)
        ]
        more = [filters.update(writes, ann.id, id_, FilterChange(words=[KeywordChange(keyword="x")])) for id_ in made]
        assert await aggregate_id(more) == (4, 2)
        assert sum(len(held.keywords) for held in await filters_of(writes.graph, ann.id)) == 4


@in_loop
async def test_follow_limit_grows_with_followers_and_includes_requests() -> None:
    async with Shoal.open("memory://", max_follows=10) as shoal:
        ann, *others = await register(shoal, "ann", *(f"member{n}" for n in range(24)))
        assert await aggregate_id([ann.follow(other) for other in others[:14]]) == (10, 4)
        assert await count(shoal, ann.id, FOLLOWS) == 10
        followed = {held.id2 for held in await shoal.network.store.assoc_range(ann.id, FOLLOWS, Cursor(limit=99))}
        await ann.follow(next(other for other in others if other.id in followed))
        # A request counts towards the limit.
        await members.update_profile(shoal.network.writes, others[20].id, ProfileChange(locked=True))
        with pytest.raises(InvalidInput, match="at most 10"):
            await ann.follow(others[20])
        for other in others:
            await other.follow(ann)
        assert await aggregate_id([ann.follow(other) for other in others if other.id not in followed]) == (14, 0)
        assert await count(shoal, ann.id, FOLLOWS) + await count(shoal, ann.id, REQUESTS) == 24


@in_loop
async def test_follow_request_approval_is_not_refused_at_the_follow_limit() -> None:
    async with Shoal.open("memory://", max_follows=1) as shoal:
        ann, ben, cat = await register(shoal, "ann", "ben", "cat")
        await members.update_profile(shoal.network.writes, ben.id, ProfileChange(locked=True))
        await ann.follow(ben)
        await ann.follow(cat)
        await relationships.authorize_request(shoal.network.writes, ben.id, ann.id)
        assert await count(shoal, ann.id, FOLLOWS) == 2


@in_loop
async def test_member_object_in_cache_is_unchanged_when_member_creates_a_list() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        writes = shoal.network.writes
        before = (await shoal.network.store.obj_get((ann.id,)))[ann.id]
        await lists.create(writes, ann.id, "one")
        after = (await shoal.network.store.obj_get((ann.id,)))[ann.id]
        assert after == before
        login = (await shoal.network.store.obj_get((after.login_id,)))[after.login_id]  # type: ignore[union-attr]
        assert isinstance(login, Login)
        assert login.version == 2
