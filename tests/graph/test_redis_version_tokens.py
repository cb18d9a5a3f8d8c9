"""Version tokens in Redis: equal for all processes, renewed by each change and absent during a change."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from types import SimpleNamespace

import numpy as np
import pytest
from redis import Redis

from shoal.core.errors import Unavailable
from shoal.graph.cache.coherence import VersionTokenGuard
from shoal.graph.redis import version_tokens as redis_stamps
from shoal.graph.redis.client import Nodes, keys_of
from shoal.graph.redis.version_tokens import RedisVersionTokens
from tests.async_runner import eventually, in_loop
from tests.engines import redis

IDS = [5 << 10, 6 << 10, 5_000 << 10, -(2**62)]
ONE, TWO = IDS[:2]


QUICK = {"answer_seconds": 0.5}
"""Short timeouts for tests in which a server does not answer."""


@asynccontextmanager
async def stamps_at(url: str, patience: Mapping[str, float] = redis.PATIENT) -> AsyncIterator[RedisVersionTokens]:
    nodes = Nodes(url, **patience)
    versions = RedisVersionTokens(nodes, settling_seconds=1.0)
    yield versions
    await versions.close()
    await nodes.close()


@contextmanager
def closed_port() -> Iterator[int]:
    """A port on which connections are refused."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        yield sock.getsockname()[1]


def key(id_: int) -> bytes:
    return keys_of("s", np.array([id_])).tobytes()


on_both = pytest.mark.parametrize("where", ["single", "cluster", "valkey"])


@on_both
@in_loop
async def test_version_tokens_are_equal_for_all_processes_until_a_change(where: str) -> None:
    url = getattr(redis, where)()
    async with stamps_at(url) as mine, stamps_at(url) as yours:
        versions = await mine.read(IDS)
        assert versions.keys() == set(IDS)
        assert await yours.read(IDS) == versions
        assert await yours.read([ONE, ONE]) == {ONE: versions[ONE]}
        assert await mine.read([]) == {}
        await yours.end([ONE, IDS[3]], await yours.begin([ONE, IDS[3]]))
        after = await mine.read(IDS)
        assert {id_ for id_ in IDS if after[id_] != versions[id_]} == {ONE, IDS[3]}


@on_both
@in_loop
async def test_version_token_of_object_being_changed_is_absent(where: str) -> None:
    url = getattr(redis, where)()
    async with stamps_at(url) as mine, stamps_at(url) as yours:
        before = await mine.read(IDS)
        begun = await yours.begin([TWO, IDS[2]])
        assert await mine.read(IDS) == {ONE: before[ONE], IDS[3]: before[IDS[3]]}
        await yours.end([TWO, IDS[2]], begun)
        assert (await mine.read(IDS)).keys() == set(IDS)


@on_both
@in_loop
async def test_version_token_is_renewed_at_end_of_change_without_concurrent_change(where: str) -> None:
    url = getattr(redis, where)()
    async with stamps_at(url) as mine, stamps_at(url) as yours:
        before = await mine.read(IDS[:3])
        renewed = await yours.end(IDS, await yours.begin(IDS))
        assert {id_: versions.before for id_, versions in renewed.items()} == {**before, IDS[3]: b""}
        after = await mine.read(IDS)
        assert {id_: versions.after for id_, versions in renewed.items()} == after
        assert not set(after.values()) & set(before.values())
        assert all(after[id_][:16] == before[id_][:16] for id_ in before), "the history has not changed"
        with Redis.from_url(redis.server().url) as server:
            assert where != "single" or 80_000 < server.ttl(key(ONE)) <= 86_400


@in_loop
async def test_version_token_is_not_renewed_after_concurrent_change() -> None:
    url = redis.single()
    async with stamps_at(url) as mine, stamps_at(url) as yours:

        async def renewed(other: Callable[[], Awaitable[object]]) -> set[int]:
            await mine.read([ONE])
            begun = await mine.begin([ONE])
            await other()
            found = await mine.end([ONE], begun)
            if found:
                assert await yours.read([ONE]) == {ONE: found[ONE].after}
            return set(found)

        async def nobody() -> None:
            assert await yours.read([ONE]) == {}

        async def a_whole_change() -> None:
            assert await yours.end([ONE], await yours.begin([ONE])) == {}

        async def an_end_without_a_mark() -> None:
            assert await yours.end([ONE], None) == {}

        async def a_stamp_after_the_mark_held_no_longer() -> None:
            with Redis.from_url(redis.server().url) as server:
                value = server.get(key(ONE))
                assert isinstance(value, bytes)
                server.set(key(ONE), value[:9] + bytes(8))
            assert (await yours.read([ONE])).keys() == {ONE}

        assert await renewed(nobody) == {ONE}
        for other in (a_whole_change, an_end_without_a_mark, a_stamp_after_the_mark_held_no_longer):
            assert await renewed(other) == set(), other.__name__
            assert await renewed(nobody) == {ONE}
        first = await mine.begin([ONE])
        second = await mine.begin([ONE])
        assert await mine.end([ONE], first) == await mine.end([ONE], second) == {}
        # The request is repeated, as after a lost response.
        begun = await mine.begin([ONE])
        assert (await mine.end([ONE], begun)).keys() == {ONE}
        assert await mine.end([ONE], begun) == {}


@on_both
@in_loop
async def test_version_token_read_while_setting_change_mark_returns_previous_version_tokens(where: str) -> None:
    url = getattr(redis, where)()
    async with stamps_at(url) as mine, stamps_at(url) as yours:
        before = await yours.read(IDS[:2])
        begun = await mine.begin(IDS, reading=True)
        assert begun.before.keys() == set(IDS), "an object without a version token has one now"
        assert {id_: begun.before[id_] for id_ in before} == before
        assert await yours.read(IDS) == {}
        assert (await yours.begin(IDS[:1], reading=True)).before == {}, "another process is changing the object"
        renewed = await mine.end(IDS, begun)
        assert {id_: versions.before for id_, versions in renewed.items()} == {
            id_: begun.before[id_] for id_ in IDS[1:]
        }


@in_loop
async def test_version_token_read_while_setting_change_mark_ignores_abandoned_change_mark() -> None:
    url = redis.single()
    async with stamps_at(url) as versions:
        await versions.begin([ONE])
        await versions.begin([ONE])
        with Redis.from_url(redis.server().url) as server:
            server.set(key(ONE), b"m" + bytes(16))
        begun = await versions.begin([ONE], reading=True)
        renewed = await versions.end([ONE], begun)
        assert renewed[ONE].before == begun.before[ONE] != b""
        assert await versions.read([ONE]) == {ONE: renewed[ONE].after}


@on_both
@in_loop
async def test_version_tokens_are_restored_after_commit_without_effect_unless_changed_concurrently(where: str) -> None:
    url = getattr(redis, where)()
    async with stamps_at(url) as mine, stamps_at(url) as yours:
        before = await yours.read(IDS)
        begun = await mine.begin(IDS, reading=True)
        renewed = await mine.end(IDS, begun, changed=False)
        assert {id_: (versions.before, versions.after) for id_, versions in renewed.items()} == {
            id_: (version, version) for id_, version in before.items()
        }
        assert await yours.read(IDS) == before
        begun = await mine.begin(IDS, reading=True)
        await yours.end([ONE], await yours.begin([ONE]))
        await yours.end([TWO], None)
        assert (await mine.end(IDS, begun, changed=False)).keys() == set(IDS[2:])
        after = await yours.read(IDS)
        assert {id_ for id_ in IDS if after[id_] != before[id_]} == {ONE, TWO}
        assert await mine.end(IDS, None, changed=False) == {}
        assert await yours.read(IDS) == after


@in_loop
async def test_change_mark_of_another_change_remains_after_one_change_ends() -> None:
    url = redis.single()
    async with stamps_at(url) as mine, stamps_at(url) as yours:
        first, second, third = await mine.begin([ONE]), await yours.begin([ONE]), await yours.begin([ONE])
        await mine.end([ONE], first)
        assert await mine.read([ONE]) == {}
        await yours.end([ONE], third)
        await yours.end([ONE], third)
        assert await mine.read([ONE]) == {}
        await yours.end([ONE], second)
        assert (await mine.read([ONE])).keys() == {ONE}


@in_loop
async def test_version_token_is_invalidated_by_change_without_change_mark() -> None:
    url = redis.single()
    async with stamps_at(url) as mine, stamps_at(url) as yours:
        before = await mine.read([ONE])
        held = await yours.begin([TWO])
        await mine.end([ONE, TWO], None)
        after = await mine.read([ONE, TWO])
        assert after.keys() == {ONE}
        assert after != before
        await yours.end([TWO], held)


@in_loop
async def test_change_mark_of_crashed_process_expires() -> None:
    async with stamps_at(redis.single()) as versions:
        await versions.begin([ONE])
        with Redis.from_url(redis.server().url) as server:
            assert 0 < server.ttl(key(ONE)) <= 30
            value = server.get(key(ONE))
            assert isinstance(value, bytes)
            # Write the change mark with a deadline that has passed.
            server.set(key(ONE), value[:9] + bytes(8))
        assert (await versions.read([ONE])).keys() == {ONE}
        with Redis.from_url(redis.server().url) as server:
            server.set(key(ONE), value[:9] + bytes(8))
        later = await versions.begin([ONE])
        assert await versions.read([ONE]) == {}
        await versions.end([ONE], later)
        assert (await versions.read([ONE])).keys() == {ONE}


@in_loop
async def test_version_token_expires_within_a_day() -> None:
    async with stamps_at(redis.single()) as versions:
        await versions.read([ONE])
        with Redis.from_url(redis.server().url) as server:
            assert 0 < server.ttl(key(ONE)) <= 86_400


@in_loop
async def test_version_token_requests_of_one_loop_iteration_share_a_call() -> None:
    nodes = Nodes(redis.single(), **redis.PATIENT)
    versions = RedisVersionTokens(nodes, settling_seconds=1.0)
    answers = await asyncio.gather(*(versions.read([id_ << 10, 7 << 10]) for id_ in range(10)))
    assert nodes.calls == 1
    assert len({answer[7 << 10] for answer in answers}) == 1
    begun = await asyncio.gather(*(versions.begin([id_ << 10]) for id_ in range(9)))
    await asyncio.gather(*(versions.end([id_ << 10], token) for id_, token in enumerate(begun)))
    assert nodes.calls == 3
    await versions.close()
    await nodes.close()


@in_loop
async def test_redis_restart_renews_all_version_tokens() -> None:
    program = redis.own()
    async with stamps_at(program.url) as versions:
        before = await versions.read(IDS)
        with Redis.from_url(program.url) as server:
            server.save()
        program.kill()
        program.start()

        async def read() -> bool:
            try:
                after = await versions.read(IDS)
            except Unavailable:
                return False
            return after.keys() == before.keys() and not set(after.values()) & set(before.values())

        await eventually(read, True)
    program.stop()


@pytest.mark.parametrize("marking", [False, True])
@in_loop
async def test_redis_restart_withholds_version_tokens_for_a_second_from_earlier_clients(
    marking: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_000.0
    monkeypatch.setattr(redis_stamps, "time", SimpleNamespace(monotonic=lambda: now))
    program = redis.own()
    async with stamps_at(program.url) as mine, stamps_at(program.url) as others:
        before = await mine.read(IDS)
        program.kill()
        program.start()
        # A client whose first request is after the restart has no earlier cached entries.
        assert (await others.read(IDS)).keys() == before.keys()
        expected: set[int] | None = set()
        await eventually(lambda: _answer(mine, marking=marking), expected)
        for seconds, known in ((0.9, set()), (0.2, set(IDS))):
            now += seconds
            assert await _answer(mine, marking=marking) == known
    program.stop()


async def _answer(versions: RedisVersionTokens, *, marking: bool) -> set[int] | None:
    """Return the ids with a version token, from a read or a marker; None while the server is unreachable."""
    try:
        if not marking:
            return set(await versions.read(IDS))
        begun = await versions.begin(IDS, reading=True)
        await versions.end(IDS, begun, changed=False)
        return set(begun.before)
    except Unavailable:
        return None


@in_loop
async def test_redis_changes_made_during_outage_renew_version_tokens_after_recovery(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(redis_stamps, "_RETRY_SECONDS", 0.02)
    program = redis.own()
    async with stamps_at(program.url, QUICK) as versions:
        before = await versions.read(IDS)
        begun = await versions.begin([ONE])
        # The paused server loses no data, so its history is unchanged.
        program.pause()
        await versions.end([ONE], begun)
        await versions.end([TWO], None)
        with pytest.raises(Unavailable):
            await versions.read([TWO])
        with pytest.raises(Unavailable):
            await versions.begin([TWO])
        program.resume()

        async def told() -> bool:
            try:
                after = await versions.read(IDS)
            except Unavailable:
                return False
            return after.keys() == before.keys() and {id_ for id_ in IDS if after[id_] == before[id_]} == set(IDS[2:])

        await eventually(told, True)
    program.stop()


@in_loop
async def test_redis_outage_with_too_many_changes_invalidates_whole_shards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(redis_stamps, "_RETRY_SECONDS", 0.02)
    monkeypatch.setattr(redis_stamps, "_PENDING_OBJECTS", 1)
    program = redis.own()
    # The shard of the last object has another object that has not changed.
    ids = [*IDS[:3], IDS[2] + 1]
    async with stamps_at(program.url, QUICK) as versions, stamps_at(program.url, QUICK) as others:
        before = await versions.read(ids)
        program.pause()
        await versions.end([ONE], None)
        await versions.end([IDS[2]], None)
        assert versions._pending.keys() == {ONE}
        assert versions._pending_shards.keys() == {5_000}
        program.resume()

        async def renewed() -> set[int]:
            try:
                after = await others.read(ids)
            except Unavailable:
                return set()
            return {id_ for id_ in ids if after.get(id_) != before[id_]}

        await eventually(renewed, {ONE, IDS[2], IDS[2] + 1})
        assert versions._pending == versions._pending_shards == {}
    program.stop()


@on_both
@in_loop
async def test_version_token_invalidation_of_whole_shard_keeps_change_marks_of_other_processes(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_stamps, "_PENDING_OBJECTS", 0)
    url = getattr(redis, where)()
    same_shard = [*range(IDS[2] + 1, IDS[2] + 600)]
    async with stamps_at(url) as mine, stamps_at(url) as yours:
        before = await mine.read([*IDS, *same_shard])
        begun = await yours.begin([IDS[2]])
        mine._defer(await mine.begin([TWO, IDS[2]]))
        await mine._report_pending()
        assert mine._pending_shards == {}
        after = await mine.read([*IDS, *same_shard])
        assert {id_ for id_ in before if after.get(id_) == before[id_]} == {ONE, IDS[3]}
        assert IDS[2] not in after, "another process is changing it"
        await yours.end([IDS[2]], begun)


@in_loop
async def test_redis_outage_keeps_bounded_memory_and_logs_one_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(redis_stamps, "_RETRY_SECONDS", 0.001)
    monkeypatch.setattr(redis_stamps, "_PENDING_OBJECTS", 10)
    with closed_port() as port:
        async with stamps_at(f"redis://127.0.0.1:{port}", QUICK) as versions:
            guard = VersionTokenGuard(versions, 100, lambda _: None, lambda _: ())
            for n in range(50):
                async with guard.change([n << 10, n << 10 | 1], lambda _: None):
                    pass
            assert len(versions._pending) == 10
            assert len(versions._pending_shards) == 45
            warnings = [record for record in caplog.records if record.levelname == "WARNING"]
            assert [record.getMessage() for record in warnings] == [
                "Redis is unreachable: this process will replace the version tokens of changed objects after reconnecting"
            ]
