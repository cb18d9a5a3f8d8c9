"""Tag cloud versions in DynamoDB are written completely or not at all, regardless of where a writer or helper dies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from shoal.core.errors import Unavailable
from shoal.tagcloud import dynamodb
from shoal.tagcloud.contract import KEEP_CLOUDS, Overtaken
from shoal.tagcloud.dynamodb import DynamoCloud
from tests.async_runner import in_loop
from tests.engines.dynamodb import PATIENT_SECONDS, new_table
from tests.engines.dynamodb_faults import after, loses_its_answer, moody, says
from tests.tagcloud.stores import DAY, FIRST, increment_id, large, merge, row, whole
from tests.tiers import deep

TAGS = 12


class Died(BaseException):
    """Simulates the death of the process; the code under test does not catch it."""


class Mortal:
    """Dies before or after the n-th request, and at each later one."""

    def __init__(self, store: DynamoCloud, lives: int, *, answered: bool) -> None:
        self._lives = lives
        self._answered = answered
        self._call: Any = store._service.call
        self.calls = 0

    async def __call__(self, operation: str, **parameters: Any) -> dict[str, Any]:
        self.calls += 1
        if self.calls > self._lives or (self.calls == self._lives and not self._answered):
            raise Died
        answer: dict[str, Any] = await self._call(operation, **parameters)
        if self.calls == self._lives:
            raise Died
        return answer


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shrink the slices so that a few rows need several sequential slices."""
    monkeypatch.setattr(dynamodb, "SLICE_CHANGES", 4)
    monkeypatch.setattr(dynamodb, "_CONCURRENT", 1)


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[DynamoCloud]:
    store = await DynamoCloud.open(url, patience=PATIENT_SECONDS)
    try:
        yield store
    finally:
        await store.close()


async def killed_at(url: str, lives: int, *, answered: bool, version: int) -> bool:
    """Write a version and die at a request; return whether the writer died."""
    async with opened(url) as store:
        mortal = Mortal(store, lives, answered=answered)
        store._service.call = mortal  # type: ignore[method-assign]
        try:
            await store.write(large(version, TAGS))
        except Died:
            return True
        finally:
            # Remaining tasks of the writer die too.
            await asyncio.sleep(0)
            del store._service.call
        return False


@pytest.mark.parametrize("answered", [False, *deep(True)])
@in_loop
async def test_tag_cloud_write_killed_at_any_request_stores_version_completely_or_not_at_all(answered: bool) -> None:
    url = new_table()
    async with opened(url) as store:
        await store.write(large(1, TAGS))
        version, lives, ended = 1, 1, set()
        while await killed_at(url, lives, answered=answered, version=version + 1):
            seen = await store.head()
            assert seen == large(version, TAGS).head or seen == large(version + 1, TAGS).head
            now = await whole(store, TAGS)
            assert now in {version, version + 1}
            ended.add(now - version)
            version, lives = now, lives + 1
        assert await whole(store, TAGS) == version + 1
        # The writer died both before and after the version was committed.
        assert ended == {0, 1}
        assert lives > 15


@in_loop
async def test_tag_cloud_version_is_completed_although_processes_that_complete_it_die() -> None:
    url = new_table()
    async with opened(url) as store:
        for version in range(1, 4):
            lives = version * 2 + 8
            assert await killed_at(url, lives, answered=True, version=version)
            assert (await store.version()) == version - 1
            died = 0
            for more in range(2, 8):
                async with opened(url) as other:
                    other._service.call = Mortal(other, more, answered=True)  # type: ignore[method-assign]
                    try:
                        await other.tags([1])
                    except Died:
                        died += 1
                    del other._service.call
            assert died > 1
            assert await whole(store, TAGS) == version


@in_loop
async def test_tag_cloud_version_completed_by_concurrent_processes_is_correct() -> None:
    url = new_table()
    async with opened(url) as one, opened(url) as other:
        assert await killed_at(url, 12, answered=True, version=1)
        await asyncio.gather(*[store.scan(FIRST, 5) for store in (one, other, one, other)])
        assert await one.version() == 1
        assert await whole(other, TAGS) == 1


@in_loop
async def test_tag_cloud_process_completing_an_old_version_late_does_not_change_later_versions() -> None:
    """The helper has read the slices of a version; later versions exist when it applies them."""
    url = new_table()
    async with opened(url) as store, opened(url) as late:
        assert await killed_at(url, 12, answered=True, version=1)
        stored = await late._intents.stored()
        assert stored.next is not None
        slices = await late._intents._slices_of("8")
        assert slices
        for version in (2, 3):
            await store.write(large(version, TAGS))
        await late._intents._each(late._intents._apply, slices)
        await late._intents._finish(stored.intent, stored.next)
        assert await whole(store, TAGS) == 3


@in_loop
async def test_tag_cloud_dynamodb_store_deletes_stale_slices_days_and_clouds() -> None:
    url = new_table()
    async with opened(url) as store:
        version = 0
        for lives in (5, 7, 9):
            # Slices of writers that died before the commit.
            await killed_at(url, lives, answered=True, version=version + 1)
            version = await whole(store, TAGS)
        for day in range(12):
            version += 1
            old = {(tag.id, DAY + day, 7): 1 for tag in large(1, TAGS).rows}
            await store.write(merge(version, authors=old, before_day=DAY + day - 2))
        items = await _all_items(store)
        assert not [item for item in items if item["ID"]["S"].startswith("tagslice")]
        days = {item["ID"]["S"].split("#")[1] for item in items if item["ID"]["S"].startswith("tagday")}
        assert days == {str(DAY + day) for day in (9, 10, 11)}
        # Emptied days are no longer scanned.
        assert len((await store._intents.stored()).state.days) <= 5
        assert len({item["sort"]["S"] for item in items if item["ID"]["S"] == "tagcloud"}) <= 2 * KEEP_CLOUDS


async def _all_items(store: DynamoCloud) -> list[dict[str, Any]]:
    answer = await store._service.call("scan", TableName=store._service.table)
    assert "LastEvaluatedKey" not in answer
    items: list[dict[str, Any]] = answer["Items"]
    return items


@in_loop
async def test_tag_cloud_write_with_lost_responses_and_conflicts_succeeds() -> None:
    url = new_table()
    async with moody() as moods, opened(_at(url, moods.url)) as store:
        await store.write(large(1, TAGS))
        cut = says("TransactionCanceledException", "TransactionConflict", "None")
        busy = says("TransactionCanceledException", "ThrottlingError")
        moods.next("TransactWriteItems", cut, busy, loses_its_answer, cut, loses_its_answer, cut, busy)
        await store.write(large(2, TAGS))
        assert await whole(store, TAGS) == 2


@in_loop
async def test_tag_cloud_write_that_loses_commit_race_leaves_no_slices_in_dynamodb() -> None:
    url = new_table()
    async with moody() as moods, opened(url) as other, opened(_at(url, moods.url)) as store:

        async def first() -> None:
            await other.write(large(1, TAGS))

        moods.next("TransactWriteItems", after(first))
        mine = merge(1, rows=[row("mine", 1)], increments=[increment_id(7)])
        with pytest.raises(Overtaken):
            await store.write(mine)
        assert await whole(store, TAGS) == 1
        assert not await store._intents._slices_of("8")


@in_loop
async def test_tag_cloud_write_with_unknown_commit_result_is_not_rolled_back() -> None:
    url = new_table()
    async with moody() as moods, opened(url) as other:
        store = await DynamoCloud.open(_at(url, moods.url), patience=0.2)
        moods.next("TransactWriteItems", *[loses_its_answer] * 50)
        with pytest.raises(Unavailable):
            await store.write(large(1, TAGS))
        moods.faults.clear()
        await store.close()
        assert (await other._intents.stored()).next is not None
        assert await whole(other, TAGS) == 1


def _at(url: str, endpoint: str) -> str:
    """Return the URL of the table by way of another endpoint."""
    before, _, rest = url.partition("endpoint=")
    return f"{before}endpoint={endpoint}&{rest.partition('&')[2]}"
