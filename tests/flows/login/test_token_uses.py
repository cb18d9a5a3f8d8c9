"""Token uses are recorded in the background, and unused tokens expire."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from shoal import Shoal
from shoal.commands import oauth, sessions
from shoal.commands.context import Writes
from shoal.commands.oauth import NewToken, TokenUses
from shoal.core.errors import InvalidToken, Unavailable
from shoal.core.ids import IdMaker, milliseconds_of, shard_of
from shoal.core.model import Token
from shoal.core.tokens import Origin, TokenLifetime, TokenUse
from shoal.graph.contract import Batch, Cursor, Graph
from shoal.graph.schema import EVERYBODY, LOGGED_IN, PUSHES, TOKEN_USE_START
from shoal.library.handle import Handle
from tests.async_runner import eventually, in_loop

DAY = 86_400_000
HOME = Origin("192.0.2.7", "Firefox", "Linux")
AWAY = Origin("198.51.100.9", "Tusky", "Android")


class Clock:
    """A manual clock for ids and all other times."""

    def __init__(self, writes: Writes) -> None:
        self.now = writes.new_id.now() + 1
        self.writes = replace(writes, new_id=IdMaker(lambda: self.now))

    def days(self, count: float) -> None:
        self.now += int(count * DAY)


class Faulty:
    """A graph that records its commits and can fail them."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.broken = False
        self.ready = asyncio.Event()
        """Cleared to hold commits back."""
        self.ready.set()
        self.commits: list[Batch] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._graph, name)

    async def commit(self, batch: Batch) -> None:
        await self.ready.wait()
        self.commits.append(batch)
        if self.broken:
            raise Unavailable("the store is away")
        await self._graph.commit(batch)


async def tokens_of(writes: Writes, member: Handle, count: int) -> list[NewToken]:
    app = (await oauth.register(writes, "Tide")).app
    return [await oauth.issue_token(writes, app.id, member.id, ("read",), origin=HOME) for _ in range(count)]


async def stored(writes: Writes, token: Token) -> Token:
    node = (await writes.graph.obj_get((token.id,)))[token.id]
    assert isinstance(node, Token)
    return node


async def checked(writes: Writes, noting: TokenUses, text: str, origin: Origin = AWAY) -> Token:
    """Check a token and record its use, as a request does."""
    token = (await oauth.check_token(writes, text)).token
    noting.note(token, lambda: origin)
    return token


@in_loop
async def test_token_use_is_written_once_per_day() -> None:
    async with Shoal.open("memory://") as shoal:
        clock = Clock(shoal.network.writes)
        graph = Faulty(clock.writes.graph)
        writes = replace(clock.writes, graph=cast("Graph", graph))
        noting = TokenUses(writes)
        (made,) = await tokens_of(writes, await shoal.register("ann"), 1)
        assert made.token.use == TokenUse(clock.now, "Firefox", "Linux", "192.0.2.7", "192.0.2.7")
        graph.commits.clear()
        for _ in range(23):
            clock.days(1 / 24)
            await checked(writes, noting, made.text)
        await noting.flush()
        assert graph.commits == []
        clock.days(1 / 24)
        for _ in range(50):
            await checked(writes, noting, made.text)
        await noting.flush()
        assert len(graph.commits) == 1
        used = (await stored(writes, made.token)).use
        assert used == TokenUse(clock.now, "Tusky", "Android", "192.0.2.7", "198.51.100.9")
        await checked(writes, noting, made.text)
        await noting.flush()
        assert len(graph.commits) == 1
        await noting.close()


@in_loop
async def test_token_use_times_are_written_in_background_without_explicit_flush() -> None:
    async with Shoal.open("memory://") as shoal:
        clock = Clock(shoal.network.writes)
        graph = Faulty(clock.writes.graph)
        noting = TokenUses(replace(clock.writes, graph=cast("Graph", graph)))
        made = await tokens_of(clock.writes, await shoal.register("ann"), 100)
        clock.days(2)
        # On a slow machine, the uses would be written before all of them are recorded.
        graph.ready.clear()
        for one in made:
            await checked(clock.writes, noting, one.text)
        before = [(await stored(clock.writes, one.token)).use.at for one in made]
        assert clock.now not in before
        graph.ready.set()

        async def written() -> set[int]:
            return {(await stored(clock.writes, one.token)).use.at for one in made}

        await eventually(written, {clock.now})
        await noting.close()


@in_loop
async def test_token_use_times_not_yet_written_are_limited_in_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oauth, "_MOST_PENDING", 3)
    # Only `flush` writes, however slow the machine is.
    monkeypatch.setattr(oauth, "_PAUSE_SECONDS", 3_600.0)
    async with Shoal.open("memory://") as shoal:
        clock = Clock(shoal.network.writes)
        noting = TokenUses(clock.writes)
        made = await tokens_of(clock.writes, await shoal.register("ann"), 5)
        clock.days(2)
        for run_once in (3, 5):
            for one in made:
                await checked(clock.writes, noting, one.text)
            await noting.flush()
            written = [one for one in made if (await stored(clock.writes, one.token)).use.at == clock.now]
            assert len(written) == run_once
        await noting.close()


@in_loop
async def test_token_use_with_failed_write_is_recorded_by_next_use() -> None:
    async with Shoal.open("memory://") as shoal:
        clock = Clock(shoal.network.writes)
        graph = Faulty(clock.writes.graph)
        writes = replace(clock.writes, graph=cast("Graph", graph))
        noting = TokenUses(writes)
        made, gone = await tokens_of(writes, await shoal.register("ann"), 2)
        clock.days(2)
        graph.broken = True
        await checked(writes, noting, made.text)
        await noting.flush()
        assert (await stored(writes, made.token)).use == made.token.use
        graph.broken = False
        await checked(writes, noting, made.text)
        await checked(writes, noting, gone.text)
        await oauth.revoke_token(writes, gone.token)
        await noting.flush()
        assert (await stored(writes, made.token)).use.at == clock.now
        # A token revoked before the flush is not stored again.
        assert gone.token.id not in await writes.graph.obj_get((gone.token.id,))
        await noting.close()


@in_loop
async def test_access_token_unused_for_a_year_expires_and_is_deleted_with_push_subscription() -> None:
    async with Shoal.open("memory://", token_days=365) as shoal:
        clock = Clock(shoal.network.writes)
        writes, ann = clock.writes, await shoal.register("ann")
        noting = TokenUses(writes)
        idle, busy = await tokens_of(writes, ann, 2)
        batch = Batch(shard_of(ann.id))
        batch.assoc_add(ann.id, PUSHES, idle.token.id, writes.new_id(batch.shard), b"")
        await writes.graph.commit(batch)
        for _ in range(12):
            clock.days(30.4)
            await checked(writes, noting, busy.text)
            await noting.flush()
        assert (await oauth.check_token(writes, idle.text)).token.id == idle.token.id
        clock.days(1.5)
        with pytest.raises(InvalidToken):
            await oauth.check_token(writes, idle.text)
        assert [one.token.id for one in (await sessions.page(writes, ann.id, Cursor())).sessions] == [busy.token.id]
        await checked(writes, noting, busy.text)
        await noting.flush()
        assert idle.token.id not in await writes.graph.obj_get((idle.token.id,))
        counts = await writes.graph.assoc_count((ann.id,), (LOGGED_IN, PUSHES))
        assert counts == {LOGGED_IN: {ann.id: 1}, PUSHES: {}}
        assert (await oauth.check_token(writes, busy.text)).token.id == busy.token.id
        await noting.close()


@in_loop
async def test_access_token_expiry_is_disabled_when_token_days_is_zero() -> None:
    async with Shoal.open("memory://", token_days=0) as shoal:
        clock = Clock(shoal.network.writes)
        (made,) = await tokens_of(clock.writes, await shoal.register("ann"), 1)
        clock.days(9_000)
        assert (await oauth.check_token(clock.writes, made.text)).token.id == made.token.id


@in_loop
async def test_access_token_from_before_upgrade_expires_counted_from_upgrade() -> None:
    async with Shoal.open("memory://", token_days=365) as shoal:
        writes, ann = shoal.network.writes, await shoal.register("ann")
        clock = Clock(writes)
        since = writes.lifetime.since
        mark = (await writes.graph.assoc_get(EVERYBODY, (TOKEN_USE_START,), (EVERYBODY,)))[TOKEN_USE_START][EVERYBODY]
        assert abs(clock.now - since) < 60_000
        assert milliseconds_of(mark.time) == since
        (made,) = await tokens_of(clock.writes, ann, 1)
        batch = Batch(shard_of(ann.id))
        batch.obj_set(from_before(made.token))
        await writes.graph.commit(batch)
        # The upgrade came ten years after the token was created, and no use was recorded before it.
        clock.days(3_650)
        upgraded = replace(clock.writes, lifetime=TokenLifetime(365 * DAY, clock.now - DAY))
        assert (await oauth.check_token(upgraded, made.text)).token.use == TokenUse()
        noting = TokenUses(upgraded)
        await checked(upgraded, noting, made.text)
        await noting.flush()
        assert (await stored(upgraded, made.token)).use == TokenUse(clock.now, "Tusky", "Android", "", "198.51.100.9")
        batch = Batch(shard_of(ann.id))
        batch.obj_set(from_before(await stored(upgraded, made.token)))
        await writes.graph.commit(batch)
        clock.days(366)
        with pytest.raises(InvalidToken):
            await oauth.check_token(upgraded, made.text)
        await noting.close()


@in_loop
async def test_token_expiry_start_time_is_stored_at_first_start_and_kept_on_restart(tmp_path: Path) -> None:
    found: list[int] = []
    for _ in range(3):
        async with Shoal.open(f"sqlite:///{tmp_path}/shoal.db") as shoal:
            found.append(shoal.network.writes.lifetime.since)
        await asyncio.sleep(0.005)
    assert len(set(found)) == 1


def from_before(token: Token) -> Token:
    """Return a token in the format of an earlier release."""
    return msgspec.structs.replace(token, use=TokenUse(), version=token.version + 1)
