"""Home streams deliver events from any process, limited to entries visible to the listener."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from shoal import Shoal, Visibility
from shoal.core.errors import Unavailable
from shoal.queries.streaming import Arrived
from shoal.streaming import updates
from shoal.streaming.hub import Hub
from tests.async_runner import eventually, in_loop
from tests.engines import redis
from tests.flows.members import home_texts, register
from tests.flows.notifications.home_listener import Listener, listening
from tests.flows.shared_network import SharedDatabases, processes
from tests.flows.test_multiprocess import seen_by
from tests.flows.visibility_cases import a_scene

KINDS = ["embedded", "shared"]
on_each_kind = pytest.mark.parametrize("kind", KINDS)


@asynccontextmanager
async def network(kind: str) -> AsyncIterator[tuple[Shoal, Shoal]]:
    """Yield the process of the changes and the process of the listener; they can be one process."""
    if kind == "embedded":
        async with Shoal.open("memory://") as shoal:
            yield shoal, shoal
        return
    place = SharedDatabases()
    async with processes(2, await place.settings()) as (one, two):
        yield one, two


@on_each_kind
@in_loop
async def test_home_stream_delivers_posts_edits_and_deletions_to_followers(kind: str) -> None:
    async with network(kind) as (here, there):
        ann, ben, cyd = await register(here, "ann", "ben", "cyd")
        await ben.follow(ann)
        await here.settle()
        async with listening(await seen_by(there, ben)) as at_ben, listening(await seen_by(there, cyd)) as at_cyd:
            post = await ann.create("low tide")
            await at_ben.hears("+low tide")
            await ann.update(post, "high tide")
            await at_ben.hears("~high tide")
            await cyd.create("to nobody")
            await at_cyd.hears("+to nobody")
            await ann.delete(post)
            await at_ben.hears(f"-{post.id}")
            await ann.create("the last")
            await at_ben.hears("+the last")
            await at_cyd.hears()


@on_each_kind
@in_loop
async def test_home_stream_delivers_shares_and_their_removal(kind: str) -> None:
    async with network(kind) as (here, there):
        ann, ben, cyd = await register(here, "ann", "ben", "cyd")
        await ben.follow(ann)
        await here.settle()
        async with listening(await seen_by(there, ben)) as at_ben:
            post = await cyd.create("a shell")
            share = await ann.share(post)
            await at_ben.hears("+> a shell")
            await ann.unshare(post)
            await at_ben.hears(f"-{share.id}")
            share = await ann.share(post)
            await at_ben.hears("+> a shell")
            await cyd.delete(post)
            await at_ben.hears(f"-{share.id}")


@on_each_kind
@in_loop
async def test_home_stream_applies_follow_changes_of_members_and_tags(kind: str) -> None:
    async with network(kind) as (here, there):
        ann, ben, cyd = await register(here, "ann", "ben", "cyd")
        async with listening(await seen_by(there, ben)) as at_ben:
            await ben.follow(ann)
            await ann.create("one")
            await at_ben.hears("+one")
            await ben.unfollow(ann)
            await ann.create("two")
            await ben.follow_tag("dawn")
            tagged = await cyd.create("three #dawn")
            await at_ben.hears("+three #dawn")
            await cyd.update(tagged, "three #dusk")
            await at_ben.hears(f"-{tagged.id}")
            await ben.unfollow_tag("dawn")
            await cyd.create("four #dawn")
            await ben.create("five")
            await at_ben.hears("+five")


@on_each_kind
@in_loop
async def test_home_stream_sends_no_events_of_blocked_or_muted_authors(kind: str) -> None:
    async with network(kind) as (here, there):
        ann, ben, cyd = await register(here, "ann", "ben", "cyd")
        await ben.follow_tag("dawn")
        for source in (ann, cyd):
            await ben.follow(source)
        await here.settle()
        async with listening(await seen_by(there, ben)) as at_ben:
            posts = [await ann.create("one #dawn"), await cyd.create("two #dawn")]
            await at_ben.hears("+one #dawn", "+two #dawn")
            await ann.block(ben)
            await ben.mute(cyd)
            for author, post in zip((ann, cyd), posts, strict=True):
                await author.create("more #dawn")
                await author.update(post, "without")
                await author.delete(post)
            await here.settle()
            await ben.create("the last")
            await at_ben.hears("+the last")


@on_each_kind
@in_loop
async def test_home_stream_delivers_restricted_posts_to_permitted_viewers_only(kind: str) -> None:
    async with network(kind) as (here, there):
        ann, ben, cyd = await register(here, "ann", "ben", "cyd")
        await ben.follow(ann)
        await cyd.follow_tag("dawn")
        await here.settle()
        async with listening(await seen_by(there, ben)) as at_ben, listening(await seen_by(there, cyd)) as at_cyd:
            posts = [
                await ann.create("@ben alone #dawn", visibility=Visibility.DIRECT),
                await ann.create("followers #dawn", visibility=Visibility.FOLLOWERS),
                await ann.create("unlisted #dawn", visibility=Visibility.UNLISTED),
            ]
            await ann.create("all #dawn")
            await at_ben.hears("+@ben alone #dawn", "+followers #dawn", "+unlisted #dawn", "+all #dawn")
            for post in posts:
                await ann.delete(post)
            await at_ben.hears(*(f"-{post.id}" for post in posts))
            await cyd.create("the last")
            await at_cyd.hears("+all #dawn", "+the last")


@in_loop
async def test_home_stream_delivers_exactly_the_entries_of_the_home_timeline() -> None:
    """Publish every kind of post and share in every visibility to every kind of viewer, as if the viewer followed the author."""
    async with a_scene(suspended=False) as scene:
        publish = scene.network.effects.channel.publish
        for name, handle in scene.people.items():
            async with listening(handle) as listener:
                for post in scene.posts.values():
                    told = updates.PostCreated(post.id, post.author_id, Visibility.PUBLIC, (handle.id,))
                    await publish(updates.encode(told))
                for share in scene.shares.values():
                    await publish(updates.encode(updates.ShareCreated(share, handle.id)))
                last = await handle.create("the last")
                await eventually(partial(_newest, listener), last.id)
                heard = {one.entry.id for one in listener.news if isinstance(one, Arrived)} - {last.id}
            home = {entry.id for entry in (await handle.home(limit=200)).entries}
            every = {post.id for post in scene.posts.values()} | set(scene.shares.values())
            assert heard == every & home, name


async def _newest(listener: Listener) -> int:
    found = [one.entry.id for one in listener.news if isinstance(one, Arrived)]
    return found[-1] if found else 0


@on_each_kind
@in_loop
async def test_home_stream_resumed_from_position_delivers_missed_events_across_processes(kind: str) -> None:
    async with network(kind) as (here, there):
        ann, ben = await register(here, "ann", "ben")
        await ben.follow(ann)
        await here.settle()
        async with listening(ben) as at_ben:
            await ann.create("one")
            await eventually(at_ben.heard, ["+one"])
            position = at_ben.position
        gone = await ann.create("two")
        await ann.create("three")
        await ann.delete(gone)
        await here.settle()
        async with listening(await seen_by(there, ben), after=position) as at_ben:
            await at_ben.hears("+three", f"-{gone.id}")
            await ann.create("four")
            await at_ben.hears("+four")
        async with listening(ben, after="made-up-1") as at_ben:
            await at_ben.hears("?")


@on_each_kind
@in_loop
async def test_home_stream_slow_listener_is_marked_to_reload(kind: str) -> None:
    async with network(kind) as (here, there):
        ann, ben = await register(here, "ann", "ben")
        await ben.follow(ann)
        await here.settle()
        network_there = there.network
        hub = Hub(network_there.effects.channel, network_there.store, capacity=3)
        async with hub.connect(ben.id) as connection:
            for number in range(4):
                await ann.create(f"post {number}")
            await here.settle()

            async def missed() -> bool:
                return connection._missed is not None

            await eventually(missed, True)
        await hub.close()
        assert await home_texts(await seen_by(there, ben)) == [f"post {n}" for n in (3, 2, 1, 0)]


@in_loop
async def test_home_stream_after_redis_flush_sends_reload_and_continues() -> None:
    place = SharedDatabases()
    async with processes(3, await place.settings()) as (one, two, three):
        ann, ben = await register(one, "ann", "ben")
        await ben.follow(ann)
        await one.settle()
        async with listening(await seen_by(two, ben)) as first, listening(await seen_by(three, ben)) as second:
            await ann.create("before")
            for listener in (first, second):
                await listener.hears("+before")
            redis.single()  # which empties it
            for listener in (first, second):
                await listener.hears("?")
            await (await seen_by(three, ann)).create("after")
            for listener in (first, second):
                await listener.hears("+after")


async def _newest_text(listener: Listener) -> str:
    return (await listener.heard())[-1]


@in_loop
async def test_home_stream_without_redis_resumes_when_redis_returns() -> None:
    server = redis.own()
    place = SharedDatabases()
    place.timelines = server.url
    try:
        async with processes(2, await place.settings()) as (one, two):
            ann, ben = await register(one, "ann", "ben")
            await ben.follow(ann)
            await one.settle()
            async with listening(await seen_by(two, ben)) as at_ben:
                await ann.create("before")
                await at_ben.hears("+before")
                server.kill()
                await ann.create("meanwhile")
                with pytest.raises(Unavailable):
                    await anext(aiter(ben.live()))
                server.start()

                async def first() -> list[str]:
                    return (await at_ben.heard())[:1]

                # The log is a new one; the post can be published before or after the listener notices it.
                await eventually(first, ["?"])
                await one.settle()
                assert await home_texts(await seen_by(two, ben)) == ["meanwhile", "before"]
                await ann.create("after")
                await eventually(partial(_newest_text, at_ben), "+after")
                assert [short for short in await at_ben.heard() if short != "+meanwhile"] == ["?", "+after"]
    finally:
        server.kill()


@on_each_kind
@in_loop
async def test_home_stream_listener_stops_when_network_closes(kind: str) -> None:
    async with network(kind) as (here, there):
        (ann,) = await register(here, "ann")
        at_ann = Listener((await seen_by(there, ann)).live())
        task = asyncio.create_task(at_ann.run())

        async def connected() -> int:
            return there.network.hub.connected

        await eventually(connected, 1)
    await task
