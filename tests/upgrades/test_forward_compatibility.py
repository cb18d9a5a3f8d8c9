"""Events and objects written by a newer Shoal: they are neither lost nor discarded, and wait for a newer process."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from shoal import Shoal
from shoal.core.errors import NewerNeeded
from shoal.core.events import FutureEvent, PostCreated, decode, encode
from shoal.core.ids import shard_of
from shoal.core.model import Post
from shoal.graph.contract import Batch, Cursor
from shoal.graph.payloads.notifications import Kind, Notice, begun
from shoal.graph.schema import LIKES, NOTIFIED, decode_node, encode_node
from shoal.graph.sqlite import SqliteGraph
from tests.async_runner import eventually, in_loop

FUTURE = msgspec.msgpack.encode({"type": "tide_turned", "post_id": 7, "height": 2.5})


def test_outbox_event_of_newer_version_is_encoded_again_unchanged() -> None:
    narrowed = msgspec.msgpack.decode(encode(PostCreated(post_id=1, author_id=2))) | {"visibility": "neighbors"}
    for data in (FUTURE, msgspec.msgpack.encode(narrowed)):
        event = decode(data)
        assert isinstance(event, FutureEvent)
        assert encode(event) == data
    with pytest.raises(msgspec.DecodeError):
        decode(b"\xc1")


def test_stored_event_or_post_with_unknown_field_is_read() -> None:
    known = PostCreated(post_id=1, author_id=2)
    more = msgspec.msgpack.decode(encode(known)) | {"tide": 2.5}
    assert decode(msgspec.msgpack.encode(more)) == known
    post = Post(id=5, author_id=2, text="low tide")
    assert decode_node(msgspec.msgpack.encode(msgspec.msgpack.decode(encode_node(post)) | {"tide": 2.5})) == post


@in_loop
async def test_outbox_event_of_unknown_kind_stays_and_blocks_no_other_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NewerNeeded, "backoff_seconds", 0.01)
    async with Shoal.open(f"sqlite:///{tmp_path}/shoal.db") as shoal:
        ann, ben = await shoal.register("ann"), await shoal.register("ben")
        await ben.follow(ann)
        store = shoal.network.store
        batch = Batch(shard_of(ann.id))
        batch.emit(FutureEvent(data=FUTURE))
        await store.commit(batch)
        asked = 0

        async def posted_and_shown() -> bool:
            nonlocal asked
            asked += 1
            await ann.create(f"number {asked}")
            return len((await ben.home(limit=40)).entries) >= 15

        await eventually(posted_and_shown, True)
        await eventually(store.backlog, 1)
        assert not await store.parked()
    # The event is unchanged after a restart.
    graph = await SqliteGraph.open(tmp_path / "shoal.db")
    (job,) = await graph.claim(10, 60.0)
    assert (job.event, job.attempt) == (FutureEvent(data=FUTURE), 0)
    await graph.close()


@in_loop
async def test_stored_post_with_unknown_value_is_not_treated_as_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(NewerNeeded, "backoff_seconds", 0.01)
    path = tmp_path / "shoal.db"
    async with Shoal.open(f"sqlite:///{path}") as shoal:
        ann, ben = await shoal.register("ann"), await shoal.register("ben")
        post = await ann.create("low tide")
        await ben.like(post)
        await shoal.settle()
    graph = await SqliteGraph.open(path)
    data = msgspec.msgpack.encode(msgspec.msgpack.decode(encode_node(post)) | {"visibility": "neighbors"})
    await graph._write(lambda write: write.execute("UPDATE object SET data = ? WHERE id = ?", (data, post.id)).rowcount)
    await graph.close()
    async with Shoal.open(f"sqlite:///{path}") as shoal:
        ann, ben = await shoal.member("ann"), await shoal.member("ben")
        with pytest.raises(NewerNeeded):
            await ben.read(post)
        store = shoal.network.store
        batch = Batch(shard_of(ann.id))
        batch.emit(PostCreated(post_id=post.id, author_id=ann.id))
        await store.commit(batch)
        other = await ann.create("another")
        await eventually(store.backlog, 1)
        # A like of a deleted post would be removed.
        assert set((await store.assoc_get(ben.id, [LIKES], [post.id]))[LIKES]) == {post.id}
        assert not await store.parked()
        assert (await ben.read(other)).post.id == other.id
    graph = await SqliteGraph.open(path)
    await graph._write(
        lambda write: write.execute("UPDATE object SET data = ? WHERE id = ?", (encode_node(post), post.id)).rowcount
    )
    await graph.close()
    async with Shoal.open(f"sqlite:///{path}") as shoal:
        await shoal.settle()
        assert (await (await shoal.member("ben")).read(post)).post.text == "low tide"


@in_loop
async def test_notification_of_unknown_kind_is_hidden_and_kept() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await shoal.register("ann"), await shoal.register("ben")
        await ben.follow(ann)
        await shoal.settle()
        store, time = shoal.network.store, shoal.network.writes.new_id(shard_of(ann.id))
        batch = Batch(shard_of(ann.id))
        known = begun(ann.id, Notice(Kind.FOLLOW, ben.id, 7), time)
        batch.put(known._replace(data=msgspec.msgpack.encode(["tide", ben.id, 7])))
        await store.commit(batch)
        page = await ann.notifications.page()
        assert [item.actor.member.id for item in page.items] == [ben.id]
        assert len(await store.assoc_range(ann.id, NOTIFIED, Cursor(limit=5))) == 2
