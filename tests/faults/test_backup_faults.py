"""A network under load is backed up, destroyed and restored: acknowledged writes are present, and the check passes."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest

from shoal import Shoal
from shoal.admin.backups.repository import BackupRepository, Manifest
from shoal.admin.consistency.check import check
from shoal.commands import oauth
from shoal.core.model import Media
from shoal.graph.schema import FOLLOWS, LIKES
from tests.async_runner import run
from tests.engines import postgres
from tests.flows.media.test_media_posts import picture
from tests.server_process import served
from tests.stores import all_objects

MEMBERS = 10
WRITERS = 8
BACKUPS = 3
_DERIVED = {"cloud", "search"}
"""Invariants of derived data that is rebuilt after a restore."""


@dataclass
class Said:
    """All actions of members, with the time (Unix ms) of the acknowledgment."""

    posts: dict[int, float] = field(default_factory=dict)
    begun: dict[int, float] = field(default_factory=dict)
    """When the creation of a post was requested."""
    deleted: dict[int, float] = field(default_factory=dict)
    """When the deletion of a post was requested."""
    gone: dict[int, float] = field(default_factory=dict)
    """When the deletion was acknowledged."""
    likes: dict[tuple[int, int], float] = field(default_factory=dict)
    follows: dict[tuple[int, int], float] = field(default_factory=dict)
    uploads: int = 0
    discarded: int = 0


Store = str | dict[str, str]


@pytest.fixture(params=["sqlite", "three sqlite", "two postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """Return the `store` setting of a network."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/shoal.db"
    if request.param == "three sqlite":
        return {part: f"sqlite:///{tmp_path}/shoal-{part}.db" for part in ("0-9", "10-40", "41-63")}
    return {part: run(postgres.database(request)) for part in ("0-31", "32-63")}


def test_backup_under_load_restores_all_acknowledged_writes(store: Store, tmp_path: Path) -> None:
    media = f"file://{tmp_path}/media"
    tokens = run(_people(store, media))
    said = Said()
    with served(store if isinstance(store, str) else json.dumps(store), SHOAL_MEDIA=media) as server:
        made = asyncio.run(_worked(server.url, tokens, said, store, tmp_path))
        assert server.stop() == 0
    assert said.uploads > 10
    assert said.discarded > 2
    assert len(said.gone) > 2
    for manifest in made:
        run(_destroy(store, tmp_path))
        place = ("--from", str(tmp_path / "backups"), "--generation", manifest.generation)
        told = _shoal(store, tmp_path, "restore", *place, "--no-check")
        assert "restored generation" in told
        run(_as_it_was(store, media, said, manifest))
        assert "consistent" in _shoal(store, tmp_path, "check")


async def _people(store: Store, media: str) -> dict[int, str]:
    """Members by id, with a token each."""
    scopes = ("read", "write", "follow")
    async with Shoal.open(store, media=media) as shoal:
        handles = [await shoal.register(f"m{number}") for number in range(MEMBERS)]
        app = await oauth.register(shoal.network.writes, "load", scopes=scopes)
        return {
            handle.id: (await oauth.issue_token(shoal.network.writes, app.app.id, handle.id, scopes)).text
            for handle in handles
        }


def _shoal(store: Store, folder: Path, *arguments: str) -> str:
    named = store if isinstance(store, str) else json.dumps(store)
    command = [sys.executable, "-m", "shoal.cli", "--store", named, "--media", f"file://{folder}/media", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class _PatientClient(httpx.AsyncClient):
    """Repeats requests that an overloaded server refuses, as clients do."""

    async def request(self, *args: Any, **options: Any) -> httpx.Response:
        deadline = time.monotonic() + 60
        while (answer := await super().request(*args, **options)).status_code == 503:
            assert time.monotonic() < deadline, answer.text
            await asyncio.sleep(0.05)
        return answer


async def _worked(url: str, tokens: dict[int, str], said: Said, store: Store, folder: Path) -> list[Manifest]:
    """Generate load, and create backups with the command under load."""
    over = asyncio.Event()
    async with _PatientClient(base_url=url, timeout=60) as client:
        writers = [asyncio.create_task(_work(client, tokens, said, seed, over)) for seed in range(WRITERS)]
        for number in range(BACKUPS):
            await _more(said, 40 * (number + 1), writers)
            await asyncio.to_thread(_shoal, store, folder, "backup", "--to", str(folder / "backups"))
        await _more(said, len(said.posts) + 20, writers)
        over.set()
        await asyncio.gather(*writers)
    return await BackupRepository.open((folder / "backups").as_uri(), make=False).manifests()


async def _more(said: Said, posts: int, writers: list[asyncio.Task[None]]) -> None:
    deadline = time.monotonic() + 120
    while len(said.posts) + len(said.gone) < posts:
        assert time.monotonic() < deadline, f"{len(said.posts)} posts were acknowledged"
        assert not any(writer.done() for writer in writers), [each.exception() for each in writers if each.done()]
        await asyncio.sleep(0.01)


async def _work(client: httpx.AsyncClient, tokens: dict[int, str], said: Said, seed: int, over: asyncio.Event) -> None:
    chance = random.Random(seed)
    mine = list(tokens)[seed % MEMBERS]
    posts: list[int] = []
    while not over.is_set():
        bearer = {"Authorization": f"Bearer {tokens[mine]}"}
        act = chance.random()
        if act < 0.45 or not posts:
            posts.append(await _post(client, bearer, said, f"{seed} {len(posts)} #work", []))
        elif act < 0.6:
            media = await _upload(client, bearer, said, chance)
            posts.append(await _post(client, bearer, said, f"{seed} shows {media}", [media]))
        elif act < 0.68:
            media = await _upload(client, bearer, said, chance)
            (await client.delete(f"/api/v1/media/{media}", headers=bearer)).raise_for_status()
            said.discarded += 1
        elif act < 0.85:
            post = chance.choice(list(said.posts))
            if (await client.post(f"/api/v1/statuses/{post}/favourite", headers=bearer)).status_code == 200:
                said.likes.setdefault((mine, post), _now())
        elif act < 0.93:
            other = chance.choice([id_ for id_ in tokens if id_ != mine])
            (await client.post(f"/api/v1/accounts/{other}/follow", headers=bearer)).raise_for_status()
            said.follows.setdefault((mine, other), _now())
        else:
            post = posts.pop(chance.randrange(len(posts)))
            said.deleted[post] = _now()
            said.posts.pop(post)
            (await client.delete(f"/api/v1/statuses/{post}", headers=bearer)).raise_for_status()
            said.gone[post] = _now()


async def _post(client: httpx.AsyncClient, bearer: dict[str, str], said: Said, text: str, media: list[str]) -> int:
    begun = _now()
    answer = await client.post("/api/v1/statuses", headers=bearer, json={"status": text, "media_ids": media})
    assert answer.status_code == 200, answer.text
    post = int(answer.json()["id"])
    said.begun[post], said.posts[post] = begun, _now()
    return post


async def _upload(client: httpx.AsyncClient, bearer: dict[str, str], said: Said, chance: random.Random) -> str:
    file = picture((chance.randrange(8, 99), chance.randrange(8, 99)))
    answer = await client.post("/api/v2/media", headers=bearer, files={"file": ("one.png", file, "image/png")})
    assert answer.status_code == 200, answer.text
    said.uploads += 1
    return str(answer.json()["id"])


def _now() -> float:
    return time.time() * 1_000


def _lose(folder: Path) -> None:
    shutil.rmtree(folder / "media")
    for path in folder.glob("shoal*"):
        path.unlink()


async def _destroy(store: Store, folder: Path) -> None:
    _lose(folder)
    for url in store.values() if isinstance(store, dict) else ():
        if url.startswith("postgres"):
            connection = await asyncpg.connect(url)
            await connection.execute("DROP SCHEMA shoal CASCADE")
            await connection.close()


async def _as_it_was(store: Store, media: str, said: Said, manifest: Manifest) -> None:
    async with Shoal.open(store, media=media) as shoal:
        await shoal.settle()
        report = await check(shoal.network, young=-1.0)
        wrong = [line for line in report.invariants if line.found and line.name not in _DERIVED]
        assert [line for line in wrong if line.name != "files"] == []
        # A file deleted during the backup was too new to be copied by an earlier round.
        assert sum(line.found for line in wrong) <= 2 * manifest.lacks
        nodes = {node.id: node for node in await all_objects(shoal.network.store)}
        kept = {post for post, at in said.posts.items() if at < manifest.moment}
        kept |= {post for post, at in said.deleted.items() if said.begun[post] < manifest.moment < at and post in nodes}
        assert kept <= nodes.keys()
        assert len(kept) > 20
        assert not {post for post, at in said.gone.items() if at < manifest.moment} & nodes.keys()
        assert not {post for post, at in said.begun.items() if at > manifest.finished} & nodes.keys()
        for pairs, atype in ((said.likes, LIKES), (said.follows, FOLLOWS)):
            for (a, b), at in pairs.items():
                if at < manifest.moment and (b in nodes):
                    assert (await shoal.network.store.assoc_get(a, (atype,), (b,)))[atype]
        assert any(isinstance(node, Media) for node in nodes.values())
        await check(shoal.network, repair=True)
