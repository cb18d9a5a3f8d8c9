"""The primary of a PostgreSQL store is killed under load, and its standby takes over.

A synchronous standby has every acknowledged write. An asynchronous standby loses the last writes: `check` finds the references
to them in other stores, and no process shows the lost posts.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import httpx

from shoal.admin.consistency.check import check
from shoal.admin.report import CheckReport
from shoal.app.network import open_network
from shoal.core.model import Post
from shoal.graph.contract import Cursor
from shoal.graph.schema import FOLLOWED_BY, FOLLOWS, LIKES, POSTED, AssocType
from tests.async_runner import run
from tests.faults.cluster import ClusterFixture, cluster_fixture

MANY, FEW = 60, 20
BOUND_SECONDS = 60.0
"""From the end of a promotion to an answer for all members, also on a busy machine."""


def test_postgres_synchronous_standby_promotion_loses_no_acknowledged_write() -> None:
    with cluster_fixture(standby=True) as here:
        # Slow enough that writes without synchronous replication are lost.
        here.standby.link.slow(0.25)
        here.standby.is_waited_for()
        with here.load(seed=21) as load:
            load.more(MANY)
            here.cluster.postgres[0].kill()
            here.standby.promote()
            began = time.monotonic()
            load.more(2 * MANY)
            assert time.monotonic() - began < BOUND_SECONDS
        assert load.broken or load.refused, "no request failed"
        here.sound()


@dataclass
class Lost:
    """Acknowledged writes that are missing in the graph."""

    posts: set[int] = field(default_factory=set)
    likes: int = 0
    """Likes of lost posts that the other store still has."""
    follows: int = 0
    """Follows between the stores that only one end has."""


def test_postgres_writes_lost_by_promoting_lagging_standby_are_found_by_check_and_not_shown() -> None:
    with cluster_fixture(standby=True) as here:
        with here.load(seed=22) as load:
            load.more(MANY)
            here.standby.falls_behind()
            load.more(2 * MANY)
            certain = run(_liked_across(here))
            load.more(FEW)
            before = [dict(person.posts) for person in here.people]
            here.cluster.postgres[0].kill()
            here.standby.promote()
            load.more(2 * MANY)
        here.rest()
        for person, posts in zip(here.people, before, strict=True):
            assert not [id_ for id_, text in person.posts.items() if posts.get(id_, text) != text], "an id was reused"
        lost = run(_reconciled(here, certain))
        assert len(lost.posts) > len(certain), "the standby was not behind"
        assert lost.likes >= len(certain)
        assert lost.follows
        run(_shown_by_nobody(here, lost.posts))
        told = run(_checked(here, repair=False))
        found = {line.name: line.found for line in told.invariants}
        assert found["ends"] >= lost.likes, told
        assert found["I3"] >= lost.follows, told
        run(_checked(here, repair=True))
        run(_reconciled(here))
        here.sound()


async def _liked_across(here: ClusterFixture) -> list[int]:
    """Create posts by members of the first store, liked by members of the other store; return the posts."""
    posts: list[int] = []
    async with httpx.AsyncClient(base_url=here.urls[0], timeout=60.0) as client:
        for author, other in zip(here.living_in(0), here.living_in(1), strict=True):
            headers = {**author.bearer, "Idempotency-Key": f"liked {author.id}"}
            answer = await _posted(client, "/api/v1/statuses", headers, {"status": "liked"})
            posts.append(int(answer.json()["id"]))
            await _posted(client, f"/api/v1/statuses/{posts[-1]}/favourite", other.bearer)
    return posts


async def _posted(
    client: httpx.AsyncClient, path: str, headers: Mapping[str, str], json: object = None
) -> httpx.Response:
    """Repeat a POST request while the server is busy, as clients do, and return the response."""
    deadline = time.monotonic() + BOUND_SECONDS
    while (answer := await client.post(path, headers=headers, json=json)).status_code == 503:
        assert time.monotonic() < deadline, answer.text
        await asyncio.sleep(0.2)
    return answer.raise_for_status()


async def _reconciled(here: ClusterFixture, posts: Sequence[int] = ()) -> Lost:
    """Reload the state of each member from the graph; return the acknowledged writes that are missing, plus these posts."""
    lost = Lost(set(posts))
    async with open_network(here.settings, background=False) as network:

        async def listed(id_: int, atype: AssocType) -> set[int]:
            return {link.id2 for link in await network.store.assoc_range(id_, atype, Cursor(limit=1_000))}

        for person in here.people:
            nodes = await network.store.obj_get(list(await listed(person.id, POSTED)))
            there = {id_: node.text for id_, node in nodes.items() if isinstance(node, Post)}
            lost.posts |= person.posts.keys() - there.keys()
            person.posts, person.deleted = there, person.deleted - there.keys()
        first, second = ({person.id for person in here.living_in(half)} for half in (0, 1))
        followed = {id_: await listed(id_, FOLLOWED_BY) for id_ in first}
        for person in here.people:
            likes, follows = await listed(person.id, LIKES), await listed(person.id, FOLLOWS)
            if person.id in second:
                lost.likes += len(likes & lost.posts)
                lost.follows += sum((person.id in followed[id_]) != (id_ in follows) for id_ in first)
            person.likes = {id_: id_ in likes for id_ in {*person.likes, *likes} - lost.posts}
            person.follows = {other.id: other.id in follows for other in here.people if other is not person}
    return lost


async def _shown_by_nobody(here: ClusterFixture, posts: set[int]) -> None:
    for url in here.urls:
        async with httpx.AsyncClient(base_url=url, timeout=60.0) as client:
            for person in here.people:
                home = await client.get("/api/v1/timelines/home", params={"limit": 40}, headers=person.bearer)
                assert home.status_code == 200
                assert not {int(status["id"]) for status in home.json()} & posts, f"{person.name} at {url}"
            asked = [client.get(f"/api/v1/statuses/{id_}", headers=here.people[0].bearer) for id_ in sorted(posts)]
            answers = await asyncio.gather(*asked)
            assert {answer.status_code for answer in answers} == {404}


async def _checked(here: ClusterFixture, *, repair: bool) -> CheckReport:
    async with open_network(here.settings, background=False) as network:
        await network.settle(150.0)
        return await check(network, repair=repair, young=-1.0)
