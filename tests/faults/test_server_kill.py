"""I5: an acknowledged write survives `kill -9` of the serving process at any instant."""

from __future__ import annotations

import asyncio
import dataclasses
import random
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from shoal import Shoal
from shoal.admin.consistency.check import check
from shoal.commands import oauth, scheduled_posts
from shoal.commands.context import Limits
from shoal.commands.posts import Draft
from shoal.core.model import Post, ScheduledPost
from tests.async_runner import eventually
from tests.server_process import Server, served
from tests.stores import all_objects

MEMBERS = 12
WRITERS = 16
KILLS = 6


class Journal:
    """Writes that the server has acknowledged."""

    def __init__(self) -> None:
        self.posts: dict[str, str] = {}
        self.likes: set[tuple[str, str]] = set()
        self.follows: set[tuple[str, str]] = set()
        self.deleted: set[str] = set()


def test_server_kill_loses_no_acknowledged_write(tmp_path: Path) -> None:
    store = tmp_path / "shoal.db"
    tokens = asyncio.run(_people(store))
    journal = Journal()
    chance = random.Random(1)
    for _ in range(KILLS):
        with served(store) as server:
            asyncio.run(_write_until_killed(server, tokens, journal, chance))
    with served(store) as server:
        asyncio.run(_all_there(server, tokens, journal))
        assert server.stop() == 0
    asyncio.run(_sound(store, journal))


async def _people(store: Path) -> dict[str, str]:
    """Members by id, with a token each; each follows the next three."""
    async with Shoal.open(f"sqlite:///{store}") as shoal:
        handles = [await shoal.register(f"m{number}") for number in range(MEMBERS)]
        writes = shoal.network.writes
        app = await oauth.register(writes, "load", scopes=("read", "write", "follow"))
        for at, handle in enumerate(handles):
            for step in (1, 2, 3):
                await handle.follow(handles[(at + step) % MEMBERS])
        scopes = ("read", "write", "follow")
        return {
            str(handle.id): (await oauth.issue_token(writes, app.app.id, handle.id, scopes)).text for handle in handles
        }


async def _write_until_killed(server: Server, tokens: dict[str, str], journal: Journal, chance: random.Random) -> None:
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
        writers = [
            asyncio.create_task(_write(client, tokens, journal, random.Random(chance.random()))) for _ in range(WRITERS)
        ]
        await _grown(journal, len(journal.posts) + chance.randint(30, 150))
        server.kill()
        await asyncio.gather(*writers)


async def _grown(journal: Journal, wanted: int) -> None:
    """Wait until enough writes are acknowledged, on any machine."""
    deadline = time.monotonic() + 60.0
    while len(journal.posts) < wanted:
        assert time.monotonic() < deadline, "the load is too small to prove anything"
        await asyncio.sleep(0.001)


async def _write(client: httpx.AsyncClient, tokens: dict[str, str], journal: Journal, chance: random.Random) -> None:
    """Post, like, follow and delete until the connection breaks; record only acknowledged writes."""
    try:
        while True:
            member, token = chance.choice(list(tokens.items()))
            await _act(client, member, token, tokens, journal, chance)
    except httpx.TransportError:
        return


async def _act(
    client: httpx.AsyncClient, member: str, token: str, tokens: dict[str, str], journal: Journal, chance: random.Random
) -> None:
    bearer = {"Authorization": f"Bearer {token}"}
    act = chance.random()
    if act < 0.6 or not journal.posts:
        answer = await client.post(
            "/api/v1/statuses", headers=bearer, json={"status": f"number {chance.random()} #kill"}
        )
        if answer.status_code == 503:
            # The delivery backlog is too long: the post was refused, not acknowledged.
            await asyncio.sleep(0.05)
            return
        assert answer.status_code == 200, answer.text
        journal.posts[answer.json()["id"]] = member
    elif act < 0.8:
        post = chance.choice(list(journal.posts))
        answer = await client.post(f"/api/v1/statuses/{post}/favourite", headers=bearer)
        if answer.status_code == 200:
            journal.likes.add((member, post))
    elif act < 0.9:
        other = chance.choice([id_ for id_ in tokens if id_ != member])
        answer = await client.post(f"/api/v1/accounts/{other}/follow", headers=bearer)
        if answer.status_code == 503:
            # An overloaded server, on a busy machine, refuses requests.
            await asyncio.sleep(0.05)
            return
        assert answer.status_code == 200, answer.text
        journal.follows.add((member, other))
    else:
        await _delete(client, tokens, journal, chance)


async def _delete(client: httpx.AsyncClient, tokens: dict[str, str], journal: Journal, chance: random.Random) -> None:
    """Delete a post; drop it from the journal first, since an unacknowledged deletion may have happened."""
    post = chance.choice(list(journal.posts))
    author = journal.posts.pop(post)
    answer = await client.delete(f"/api/v1/statuses/{post}", headers={"Authorization": f"Bearer {tokens[author]}"})
    if answer.status_code == 200:
        journal.deleted.add(post)


async def _all_there(server: Server, tokens: dict[str, str], journal: Journal) -> None:
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
        for post, author in journal.posts.items():
            answer = await client.get(f"/api/v1/statuses/{post}", headers={"Authorization": f"Bearer {tokens[author]}"})
            assert answer.status_code == 200, f"acknowledged post {post} is lost"
        for post in journal.deleted:
            assert (await client.get(f"/api/v1/statuses/{post}")).status_code == 404
        for member, post in journal.likes:
            if post in journal.posts:
                bearer = {"Authorization": f"Bearer {tokens[member]}"}
                assert (await client.get(f"/api/v1/statuses/{post}", headers=bearer)).json()["favourited"]
        for member, other in journal.follows:
            bearer = {"Authorization": f"Bearer {tokens[member]}"}
            answer = await client.get("/api/v1/accounts/relationships", params={"id[]": other}, headers=bearer)
            assert answer.json()[0]["following"]


async def _sound(store: Path, journal: Journal) -> None:
    async with Shoal.open(f"sqlite:///{store}") as shoal:
        await shoal.settle()
        report = await check(shoal.network)
        assert report.clean, report


def test_tag_cloud_merge_resumes_immediately_after_owner_is_killed(tmp_path: Path) -> None:
    """The only owner of a file does not wait for the lock that it held before it was killed."""
    store = tmp_path / "shoal.db"
    token = next(iter(asyncio.run(_people(store)).values()))
    with served(store) as server:
        killed = asyncio.run(_killed_with_the_lock(server, store, token))
    with served(store) as server:
        # The killed holder's lock, if it has not expired yet, was released when the server opened the file.
        assert _lock_of(store) != killed
        asyncio.run(_counted(server, token))


def _lock_of(store: Path) -> bytes:
    """Return the holder of the lock, also of an expired one; b"" if it was released."""
    with closing(sqlite3.connect(f"file:{store}.tags?mode=ro", uri=True)) as cloud:
        found = cloud.execute("SELECT holder FROM lock WHERE until > 0").fetchone()
    return found[0] if found else b""


async def _killed_with_the_lock(server: Server, store: Path, token: str) -> bytes:
    """Kill a server while it holds the lock, and return the holder."""
    with closing(sqlite3.connect(f"file:{store}.tags?mode=ro", uri=True)) as cloud:

        def held() -> bool:
            return cloud.execute("SELECT 1 FROM lock WHERE until > ?", (time.time(),)).fetchone() is not None

        async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
            deadline = time.monotonic() + 120
            while True:
                assert time.monotonic() < deadline, "no merge was observed"
                await _tag(client, token, "before")
                for _ in range(1_000):
                    if held():
                        # Stop the process first: it may have released the lock since the last check.
                        server.process.send_signal(signal.SIGSTOP)
                        if held():
                            killed = _lock_of(store)
                            server.kill()
                            return killed
                        server.process.send_signal(signal.SIGCONT)
                    await asyncio.sleep(0.001)


async def _counted(server: Server, token: str) -> None:
    """Assert that a new use is counted."""
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
        await _tag(client, token, "after")

        async def uses() -> list[int]:
            cloud = (await client.get("/api/shoal/v1/tags/cloud")).json()
            return [word["uses"] for word in cloud["tags"] if word["name"] == "after"]

        await eventually(uses, [1])


async def _tag(client: httpx.AsyncClient, token: str, tag: str) -> None:
    bearer = {"Authorization": f"Bearer {token}"}
    answer = await client.post("/api/v1/statuses", headers=bearer, json={"status": f"a use of #{tag}"})
    assert answer.status_code == 200, answer.text


PLANNED = 400


def test_scheduled_posts_are_published_exactly_once_despite_server_kills(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a slow machine, the posts may be due before the last one is planned.
    monkeypatch.setattr(scheduled_posts, "LEAST_MS", -3_600_000)
    store = tmp_path / "shoal.db"
    asyncio.run(_plan(store))
    # Kill each server after it has published some of the posts.
    for some in (1, PLANNED // 3, 2 * PLANNED // 3):
        with served(store) as server:
            _await_posts(server, some)
            server.kill()
    with served(store) as server:
        _await_posts(server, PLANNED)
        assert server.stop() == 0
    asyncio.run(_each_once(store))


async def _plan(store: Path) -> None:
    async with Shoal.open(f"sqlite:///{store}", run_consequences=False) as shoal:
        ann = await shoal.register("ann")
        writes = dataclasses.replace(shoal.network.writes, limits=Limits(scheduled=PLANNED))
        at = time.time_ns() // 1_000_000 + 5_000
        for number in range(PLANNED):
            await scheduled_posts.schedule(writes, ann.id, Draft(text=str(number)), at + number % 7)


def _await_posts(server: Server, wanted: int) -> None:
    deadline = time.monotonic() + 60.0
    while httpx.get(f"{server.url}/api/v1/accounts/lookup?acct=ann", timeout=60).json()["statuses_count"] < wanted:
        assert time.monotonic() < deadline, "due posts are not published"
        time.sleep(0.002)


async def _each_once(store: Path) -> None:
    async with Shoal.open(f"sqlite:///{store}") as shoal:
        nodes = await all_objects(shoal.network.store)
        assert sorted(int(node.text) for node in nodes if isinstance(node, Post)) == list(range(PLANNED))
        assert not [node for node in nodes if isinstance(node, ScheduledPost)]
        assert (await check(shoal.network)).clean
