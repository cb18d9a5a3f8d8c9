"""Concurrent changes of an object: each is applied to the result of the previous ones."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from shoal.core.errors import Conflict
from shoal.core.events import PostUpdated
from shoal.core.ids import shard_of
from shoal.core.model import Post
from shoal.graph.changes import change_object, retry_on_conflict
from shoal.graph.contract import Batch, Graph
from shoal.graph.memory import MemoryGraph
from tests.async_runner import in_loop
from tests.stores import ANN, POST_OF_BEN


async def a_post(graph: Graph) -> Post:
    post = Post(id=POST_OF_BEN, author_id=ANN, text="")
    batch = Batch(shard_of(post.id))
    batch.obj_add(post)
    await graph.commit(batch)
    return post


async def read(graph: Graph) -> Post:
    # Yield between reading and writing, like a remote store does.
    post = (await graph.obj_get((POST_OF_BEN,)))[POST_OF_BEN]
    await asyncio.sleep(0)
    assert isinstance(post, Post)
    return post


@in_loop
async def test_change_object_called_concurrently_applies_every_change() -> None:
    graph = MemoryGraph()
    await a_post(graph)
    letters = [chr(200 + n) for n in range(100)]
    made = await asyncio.gather(
        *(
            change_object(graph, lambda: read(graph), lambda post, one=letter: replace(post, text=post.text + one))  # type: ignore[misc]
            for letter in letters
        )
    )
    after = await read(graph)
    assert sorted(after.text) == letters
    assert sorted(post.version for post in made) == list(range(2, 102))


@in_loop
async def test_change_object_without_difference_commits_nothing() -> None:
    graph = MemoryGraph()
    post = await a_post(graph)
    told: list[int] = []
    same = await change_object(
        graph, lambda: read(graph), lambda held: held, lambda _, old, new: told.append(new.version)
    )
    assert same == await read(graph) == post
    assert told == []


@in_loop
async def test_change_object_event_added_to_change_is_committed_once_per_change() -> None:
    graph = MemoryGraph()
    await a_post(graph)

    def beside(batch: Batch, before: Post, after: Post) -> None:
        batch.emit(PostUpdated(post_id=after.id, author_id=ANN, revision_id=before.version))

    def change(text: str) -> asyncio.Future[Post]:
        return asyncio.ensure_future(
            change_object(graph, lambda: read(graph), lambda post: replace(post, text=text), beside)
        )

    await asyncio.gather(change("one"), change("two"), change("three"))
    jobs = await graph.claim(10, 60.0)
    assert [job.event.revision_id for job in jobs if isinstance(job.event, PostUpdated)] == [1, 2, 3]


@in_loop
async def test_retry_on_conflict_with_persistent_conflict_raises_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.graph.changes._LONGEST_PAUSE", 0.0)
    tries = 0

    async def attempt() -> None:
        nonlocal tries
        tries += 1
        raise Conflict("overtaken")

    with pytest.raises(Conflict, match="being changed by another request; try again"):
        await retry_on_conflict(attempt)
    assert tries > 10
