"""Request bodies use a bounded amount of memory, and each member has a limit of concurrent uploads."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import tempfile
from collections.abc import AsyncIterator
from typing import IO, Any

import httpx
import pytest

from shoal.core.errors import StorageFull, TooMany, Unavailable
from shoal.http import bodies as intake
from shoal.http.application import build_app
from shoal.http.bodies import SPOOL_BYTES, Budget, Intake, Memory, Spool, UploadSlots
from shoal.http.rate_limits import OFF, MemoryLimiter
from shoal.http.routes import Context, Route
from tests.api.harness import ROUTES, StatusParams, authenticate, serving
from tests.async_runner import eventually, in_loop

LARGE = b"x" * (SPOOL_BYTES + 1)
MANY = 20_000_000


@in_loop
async def test_upload_memory_is_granted_to_waiting_requests_in_order_of_arrival() -> None:
    budget = Budget(10)
    assert [await budget.take(size, {}) for size in (4, 6, 0)] == [4, 6, 0]
    large, small = (asyncio.create_task(budget.take(size, {})) for size in (8, 1))
    await asyncio.sleep(0)
    budget.give(4)
    await asyncio.sleep(0)
    # The small request would fit, but granting it first could starve the large one.
    assert (large.done(), small.done(), budget.take_now(1)) == (False, False, 0)
    budget.give(6)
    assert (await large, await small, budget.free) == (8, 1, 1)


@in_loop
async def test_upload_memory_wait_timeout_raises_unavailable() -> None:
    budget = Budget(10, seconds=0.05)
    await budget.take(5, {})
    with pytest.raises(Unavailable):
        await budget.take(10, {})
    assert await budget.take(5, {}) == 5


@in_loop
async def test_upload_memory_wait_that_is_cancelled_lets_next_request_proceed() -> None:
    budget = Budget(10)
    await budget.take(5, {})
    large = asyncio.create_task(budget.take(10, {}))
    await asyncio.sleep(0)
    small = asyncio.create_task(budget.take(5, {}))
    await asyncio.sleep(0)
    large.cancel()
    assert (await small, budget.free) == (5, 0)


@in_loop
async def test_upload_memory_granted_to_cancelled_request_is_not_lost() -> None:
    budget = Budget(10)
    await budget.take(10, {})
    waiting = asyncio.create_task(budget.take(10, {}))
    await asyncio.sleep(0)
    budget.give(10)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert budget.free == 10


@in_loop
async def test_upload_memory_request_over_total_budget_is_granted_the_whole_budget() -> None:
    budget = Budget(10)
    assert await budget.take(50, {}) == 10
    budget.give(10)
    assert budget.free == 10


@in_loop
async def test_upload_spool_keeps_small_file_in_memory_and_large_file_on_disk_until_load() -> None:
    memory = Memory()
    async with Intake(memory, {}) as taken:
        small, large = taken.file(""), taken.file("")
        small.write(b"abc")
        small.write(b"def")
        large.write(LARGE[:1000])
        await taken.settle()
        large.write(LARGE[1000:])
        await taken.settle()
        assert (small.on_disk, large.on_disk) == (False, True)
        assert (memory.coming.free, memory.loaded.free) == (intake.COMING_BYTES - 6, intake.LOADED_BYTES)
        await taken.load()
        assert (small.data, large.data) == (b"abcdef", LARGE)
        assert memory.loaded.free == intake.LOADED_BYTES - len(LARGE)
        large.close()
        assert memory.loaded.free == intake.LOADED_BYTES
    assert (memory.coming.free, memory.loaded.free) == (intake.COMING_BYTES, intake.LOADED_BYTES)


@in_loop
async def test_upload_spool_moves_small_files_to_disk_when_memory_is_half_full() -> None:
    memory = Memory(coming=1_000)
    async with Intake(memory, {}) as taken:
        files = [taken.file("") for _ in range(10)]
        for file in files:
            file.write(b"x" * 100)
            await taken.settle()
        assert [file.on_disk for file in files] == [False] * 5 + [True] * 5
        # The other half of the budget is reserved for data that must stay in memory.
        await taken.hold(500)
    assert memory.coming.free == 1_000


@in_loop
async def test_upload_files_of_one_request_are_loaded_together_or_not_at_all() -> None:
    memory = Memory(loaded=3 * SPOOL_BYTES, seconds=0.05)
    async with Intake(memory, {}) as one, Intake(memory, {}) as other:
        for taken in (one, one, other, other):
            taken.file("").write(LARGE)
            await taken.settle()
        await one.load()
        with pytest.raises(Unavailable):
            await other.load()
    assert memory.loaded.free == 3 * SPOOL_BYTES


@in_loop
async def test_upload_spool_on_full_disk_raises_storage_full() -> None:
    class Full:
        def write(self, _data: memoryview) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        def close(self) -> None:
            pass

    def full(**_options: Any) -> IO[bytes]:
        return Full()  # type: ignore[return-value]

    spool = Spool(Memory())
    spool.write(LARGE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "TemporaryFile", full)
        with pytest.raises(StorageFull):
            await spool.settle()
    spool.close()


@in_loop
async def test_upload_limit_per_member_queues_then_refuses_and_other_members_proceed() -> None:
    upload_slots = UploadSlots(each=2, waiting=1, seconds=20.0)
    async with upload_slots.of(1, {}), upload_slots.of(2, {}), contextlib.AsyncExitStack() as second:
        await second.enter_async_context(upload_slots.of(1, {}))
        third = asyncio.create_task(_held(upload_slots, 1))
        await asyncio.sleep(0)
        with pytest.raises(TooMany):
            await _held(upload_slots, 1)
        assert not third.done()
        await second.aclose()
        await third
        await _held(upload_slots, 2)
    assert not upload_slots._upload_slots


@in_loop
async def test_upload_limit_by_default_allows_three_concurrent_uploads_per_member() -> None:
    upload_slots = UploadSlots()
    async with upload_slots.of(1, {}), upload_slots.of(1, {}), contextlib.AsyncExitStack() as third:
        await third.enter_async_context(upload_slots.of(1, {}))
        fourth = asyncio.create_task(_held(upload_slots, 1))
        await _held(upload_slots, 2)
        assert not fourth.done()
        await third.aclose()
        await fourth


@in_loop
async def test_upload_limit_wait_timeout_raises_too_many() -> None:
    upload_slots = UploadSlots(each=1, seconds=0.05)
    async with upload_slots.of(1, {}):
        with pytest.raises(TooMany):
            await _held(upload_slots, 1)
    await _held(upload_slots, 1)


async def _held(upload_slots: UploadSlots, who: int) -> None:
    async with upload_slots.of(who, {}):
        pass


class Works:
    """A handler that waits and counts concurrent calls."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.busy = self.most = 0

    async def work(self, _context: Context[object], params: StatusParams) -> object:
        self.busy += 1
        self.most = max(self.most, self.busy)
        await self.go.wait()
        self.busy -= 1
        assert params.avatar is not None
        return {"size": len(params.avatar.data)}

    async def at_work(self) -> int:
        return self.busy


@contextlib.asynccontextmanager
async def taking(
    memory: Memory, upload_slots: UploadSlots | None = None
) -> AsyncIterator[tuple[Works, httpx.AsyncClient]]:
    """Run a server that accepts uploads."""
    works = Works()
    row = {"auth": "user", "limit_class": "media", "answer": dict, "params": StatusParams, "scope": "write:media"}
    route = Route("POST", "/api/v1/files", works.work, max_body=MANY, **row)  # type: ignore[arg-type]
    limiter = MemoryLimiter(OFF)
    app = build_app(
        (*ROUTES, route), None, authenticate=authenticate, limiter=limiter, memory=memory, upload_slots=upload_slots
    )
    async with (
        serving(app) as port,
        httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}", timeout=60, limits=httpx.Limits(max_connections=None)
        ) as client,
    ):
        yield works, client


def _post(client: httpx.AsyncClient, size: int) -> asyncio.Task[httpx.Response]:
    files = {"avatar": ("a.png", b"x" * size)}
    headers = {"Authorization": "Bearer member"}
    return asyncio.create_task(client.post("/api/v1/files", files=files, headers=headers))


@in_loop
async def test_concurrent_uploads_are_limited_by_memory_budget() -> None:
    memory = Memory(coming=1 << 20, loaded=4_500_000)
    async with taking(memory, UploadSlots(each=100)) as (works, client):
        uploads = [_post(client, 2_000_000) for _ in range(10)]
        await eventually(works.at_work, 2)
        works.go.set()
        answers = [await upload for upload in uploads]
        assert [answer.json() for answer in answers] == [{"size": 2_000_000}] * 10
        assert works.most == 2
        assert (memory.coming.free, memory.loaded.free) == (1 << 20, 4_500_000)


@in_loop
async def test_concurrent_uploads_over_member_limit_return_429() -> None:
    async with taking(Memory(), UploadSlots(each=3, waiting=5)) as (works, client):
        uploads = [_post(client, 10) for _ in range(10)]
        await eventually(works.at_work, 3)

        async def refused() -> list[int]:
            return [upload.result().status_code for upload in uploads if upload.done()]

        await eventually(refused, [429, 429])
        works.go.set()
        assert sorted([(await upload).status_code for upload in uploads]) == [200] * 8 + [429] * 2
        assert works.most == 3


@in_loop
async def test_multipart_text_fields_over_size_limit_return_413() -> None:
    async with taking(Memory()) as (_, client):
        headers = {"Authorization": "Bearer member"}
        body = {"status": "x" * (1 << 20), "sensitive": "1"}
        answer = await client.post("/api/v1/files", data=body, files={"avatar": ("a", b"x")}, headers=headers)
        assert answer.status_code == 413


@in_loop
async def test_request_body_without_free_memory_returns_503_with_retry_after() -> None:
    memory = Memory(coming=100, seconds=0.05)
    memory.coming.take_now(100)
    async with taking(memory) as (_, client):
        headers = {"Authorization": "Bearer member"}
        answer = await client.post("/api/v1/statuses", json={"status": "hello"}, headers=headers)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
