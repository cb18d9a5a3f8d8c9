"""Members post, follow and like while their shards move between stores; one process holds the network."""

from __future__ import annotations

import asyncio
import itertools
import random

from shoal import Shoal
from shoal.admin.consistency.check import check
from shoal.core.errors import Unavailable
from shoal.core.placement import place
from shoal.graph.shard_map import LEASE_SECONDS
from tests.async_runner import in_loop
from tests.ops.shard_move_network import Databases, mover, patient


@patient()
@in_loop
async def test_shard_move_under_load_refuses_no_requests_and_passes_check() -> None:
    databases = Databases()
    here, there = await databases.one(), await databases.one()
    async with Shoal.open(here, media="memory://", most_behind_seconds=0) as shoal:
        handles = [await shoal.register(f"m{n}") for n in range(24)]
        # Parts of data sources: each with the shards of some members and without those of others.
        shards = sorted({place(f"m{n}").shard for n in range(0, 24, 2)})
        posts = [await handle.create(f"first of {n} #tag{n % 3}") for n, handle in enumerate(handles)]
        dice, numbers, stopping = random.Random(7), itertools.count(), asyncio.Event()
        longest = late = 0.0
        refused = 0
        loop = asyncio.get_running_loop()

        async def watch() -> None:
            """Measure how late the event loop is: a process that misses its lease refuses requests until it has renewed it."""
            nonlocal late
            while not stopping.is_set():
                began = loop.time()
                await asyncio.sleep(0.05)
                late = max(late, loop.time() - began)

        async def live() -> None:
            nonlocal refused
            while not stopping.is_set():
                try:
                    await act()
                except Unavailable:
                    refused += 1
                    await asyncio.sleep(0.1)

        async def act() -> None:
            nonlocal longest
            one, other = dice.sample(handles, 2)
            began = loop.time()
            posts.append(await one.create(f"post {next(numbers)} #tag{dice.randrange(3)}"))
            await one.follow(other)
            await one.like(dice.choice(posts))
            if dice.random() < 0.3:
                await one.unfollow(other)
            assert (await one.home()).entries
            longest = max(longest, loop.time() - began)

        living = [asyncio.create_task(live()) for _ in range(4)] + [asyncio.create_task(watch())]
        for step in ("move", "rollback", "move", "finish"):
            await asyncio.sleep(0.3)
            async with mover(here) as moving:
                await (moving.move(shards, there) if step == "move" else getattr(moving, step)(shards))
        await asyncio.sleep(0.3)
        stopping.set()
        await asyncio.gather(*living)
        # Without starvation no request is refused.
        assert refused == 0 or max(late, longest) > LEASE_SECONDS / 4, (refused, late, longest)
        print(f"\n{len(posts)} posts; the slowest five requests together took {longest:.3f} s")  # noqa: T201
        await shoal.settle()
        assert [line for line in (await check(shoal.network)).invariants if line.found] == []
        for post in posts:
            await handles[0].read(post)
    async with Shoal.open({"0-63": here}, media="memory://") as again:
        assert (await check(again.network)).clean
        assert await again.network.store.obj_get([post.id for post in posts])
