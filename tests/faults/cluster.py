"""A cluster for fault tests: real engines and processes, links that can be cut, members, and checks after a fault."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from shoal.admin.consistency.check import check
from shoal.admin.jobs import Work, survey
from shoal.admin.throttling import run_bounded
from shoal.amqp import depth_of
from shoal.app.network import Network, open_network
from shoal.app.outboxes import open_outboxes
from shoal.commands import members, oauth, relationships
from shoal.core.model import Post
from shoal.core.placement import place, source_of
from shoal.graph.contract import Cursor
from shoal.graph.schema import FOLLOWS, POSTED
from shoal.queries import home
from shoal.tagcloud.rabbitmq import RabbitTransport
from shoal_devcluster import cluster as clusters
from shoal_devcluster.cluster import held
from shoal_devcluster.program import NotInstalled
from tests.engines.postgres_standby import Standby
from tests.faults.load import Load, Person
from tests.faults.proxy import Link, moved, port_of

PEOPLE = 16
CROSSING = 3
"""Number of members in each half who interact with members of the other half."""
SCOPES = ("read", "write", "follow")
_PATIENCE_SECONDS = 150.0
_QUIET_LOOKS = 3
_AT_ONCE = 64
_OK = 200
_BUSY = 503
_PAGE = 40
_WALKED = 8
"""Number of random home timelines that are compared in full with their definition. Of the others, the newest page is compared."""
_SECOND_HALF = 32
"""The first data source whose members are stored in the second PostgreSQL."""


class ClusterFixture:
    """A cluster with members. `links` are the connections to `postgres-1`, `postgres-2` and `rabbitmq`."""

    def __init__(
        self, folder: Path, cluster: clusters.Cluster, links: dict[str, Link], standby: Standby | None = None
    ) -> None:
        self.folder = folder
        self.cluster = cluster
        self.links = links
        self.settings = cluster.settings
        self.people: list[Person] = []
        self._standby = standby
        self.whole = True
        """Whether all checks have passed since a test last took the cluster."""

    @property
    def standby(self) -> Standby:
        """Return the standby of `postgres-1`, which the cluster must have."""
        assert self._standby is not None
        return self._standby

    @property
    def urls(self) -> list[str]:
        """Return the URLs of the web processes."""
        return [program.url for program in self.cluster.web]

    def living_in(self, postgres: int) -> list[Person]:
        """Return the members whose data is in PostgreSQL number 0 or 1."""
        return [person for person in self.people if (person.source >= _SECOND_HALF) == bool(postgres)]

    def load(self, seed: int, *, twice: bool = False) -> Load:
        """Return a load by all members."""
        return Load(self.cluster.web, self.people, seed, twice=twice)

    @contextmanager
    def halves(self, seed: int) -> Iterator[tuple[Load, Load]]:
        """Run one load in each PostgreSQL and one across both. Yields the loads of the first and of the second PostgreSQL."""
        homes = [self.living_in(0), self.living_in(1)]
        first, second = (Load(self.cluster.web, homes[n][CROSSING:], seed + n, reading=False) for n in (0, 1))
        across = Load(self.cluster.web, [person for people in homes for person in people[:CROSSING]], seed + 2)
        with first, second, across:
            yield first, second

    def sound(self) -> None:
        """Wait until the network is idle, and check the invariants that hold after every fault."""
        assert not self.rest().parked
        asyncio.run(self._holds())
        self.whole = True

    def rest(self) -> Work:
        """Wait until the workers have done all jobs, and return the state of the outboxes."""
        return asyncio.run(self._rest())

    async def _rest(self) -> Work:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        quiet = 0
        async with open_outboxes(self.settings, read_only=True) as outboxes:
            while True:
                standing = await survey(outboxes)
                # A job in transit from the store to the broker is briefly in neither.
                quiet = 0 if standing.waiting else quiet + 1
                if quiet == _QUIET_LOOKS:
                    return standing
                assert time.monotonic() < deadline, standing
                await asyncio.sleep(0.1)

    async def _holds(self) -> None:
        async with asyncio.TaskGroup() as group:
            for url in self.urls:
                group.create_task(self._all_shown(url))
        async with open_network(self.settings, background=False) as network:
            await self._all_there(network)
            try:
                await network.settle(_PATIENCE_SECONDS)
            except TimeoutError:
                raise AssertionError(f"tag counts do not settle: {await _tags_stand(network)}") from None
            report = await check(network, sample=_WALKED)
            assert report.clean, report

    async def _all_there(self, network: Network) -> None:
        """Check that the graph contains every acknowledged write exactly once."""
        for person in self.people:
            found = await network.store.obj_get([*person.posts, *person.deleted])
            texts = {id_: node.text for id_, node in found.items() if isinstance(node, Post)}
            assert {id_: text for id_, text in texts.items() if id_ in person.posts} == person.posts
            counts = await network.store.assoc_count([person.id], [POSTED, FOLLOWS])
            assert counts[POSTED].get(person.id, 0) == len(person.posts), "a post is duplicated or lost"
            follows = await network.store.assoc_range(person.id, FOLLOWS, Cursor(limit=1_000))
            assert {follow.id2 for follow in follows} == {id_ for id_, on in person.follows.items() if on}

    async def _all_shown(self, url: str) -> None:
        """Check that a web process shows the acknowledged state, whatever it has cached."""
        there = {id_ for person in self.people for id_ in person.posts}
        async with httpx.AsyncClient(base_url=url, timeout=60.0) as client, asyncio.TaskGroup() as group:
            for person in self.people:
                group.create_task(self._shown(client, person, there))

    async def _shown(self, client: httpx.AsyncClient, person: Person, there: set[int]) -> None:
        who = f"{person.name} at {client.base_url}"
        params = {"id[]": [str(other) for other in person.follows]}
        stands = await self._asked(client, "accounts/relationships", person, params)
        shown = {int(one["id"]): one["following"] for one in stands}
        assert shown == person.follows, f"{who}: follows {shown}, expected {person.follows}"
        liked = {id_: on for id_, on in person.likes.items() if id_ in there}
        for id_, on in list(liked.items())[-2:]:
            status = await self._asked(client, f"statuses/{id_}", person)
            assert status["favourited"] == on, f"{who}: {id_}"
        likes = await self._page(client, "favourites", person)
        expected = {id_ for id_, on in liked.items() if on}
        assert set(likes) <= expected, f"{who}: unexpected likes"
        assert len(likes) == min(len(expected), _PAGE), f"{who}: missing likes"
        shown_home = await self._page(client, "timelines/home", person)
        assert list(shown_home) == self._home_of(person), f"{who}: wrong home timeline"
        for id_, favourited in (likes | shown_home).items():
            assert favourited == person.likes.get(id_, False), f"{who}: {id_}"

    async def _page(self, client: httpx.AsyncClient, name: str, person: Person) -> dict[int, bool]:
        """Return the first posts of a list, in order, with whether the member likes each post."""
        page = await self._asked(client, name, person, {"limit": _PAGE})
        return {int(status["id"]): status["favourited"] for status in page}

    async def _asked(
        self, client: httpx.AsyncClient, path: str, person: Person, params: Mapping[str, Any] | None = None
    ) -> Any:
        """Return the JSON response to a GET request. Repeats the request while the server is busy, as clients do."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            answer = await client.get(f"/api/v1/{path}", params=params, headers=person.bearer)
            if answer.status_code == _OK:
                return answer.json()
            assert answer.status_code == _BUSY, f"{path}: {answer.status_code} {answer.text[:200]}"
            assert time.monotonic() < deadline, f"{path}: {answer.text[:200]}"
            await asyncio.sleep(float(answer.headers.get("Retry-After", "0.2")))

    def _home_of(self, person: Person) -> list[int]:
        """Return the newest posts of the member and of the members they follow."""
        sources = {id_ for id_, on in person.follows.items() if on} | {person.id}
        posts = [id_ for other in self.people if other.id in sources for id_ in other.posts]
        return sorted(posts, reverse=True)[:_PAGE]


async def _tags_stand(network: Network) -> object:
    """Return the depth of each queue of increments at the broker, and the report of each collector."""
    transport = network.counting.transport
    assert isinstance(transport, RabbitTransport)
    assert transport._counting is not None
    names = transport._names
    depths = {queue: await depth_of(transport._counting, queue) for queue in names.queues}
    return depths, await transport._liveness.send(await names.collectors(transport._counting))


class ClusterFixtures:
    """A cluster that tests reuse. A failed test may leave it in any state, so the next test gets a new cluster."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._place: ClusterFixture | None = None

    def take(self) -> ClusterFixture:
        """Return a cluster without faults for a test to break. It is reused if `Place.sound` passes."""
        if self._place is None or not self._place.whole:
            self.close()
            self._place = self._stack.enter_context(cluster_fixture())
        self._place.whole = False
        return self._place

    def close(self) -> None:
        """Stop the cluster."""
        self._place = None
        self._stack.close()


@contextmanager
def cluster_fixture(*, standby: bool = False) -> Iterator[ClusterFixture]:
    """Start a cluster of two web processes and two workers, with members.

    With `standby`, the first PostgreSQL has a standby, which the URL of the store names, too. Skips the test where an engine is
    not installed, except in CI.
    """
    folder = Path(tempfile.mkdtemp(prefix="shoal-cluster-"))
    folder.chmod(0o755)
    links: dict[str, Link] = {}
    standbys: list[Standby] = []

    def through(url: str) -> str:
        name = "rabbitmq" if url.startswith("amqp") else f"postgres-{len(links) + 1}"
        links[name] = Link(port_of(url))
        there = moved(url, links[name].at)
        if standby and name == "postgres-1":
            standbys.append(Standby(folder / "standby", url))
            return standbys[0].beside(there)
        return there

    try:
        with held(folder):
            running = _started(folder, through)
            try:
                here = ClusterFixture(folder, running, links, *standbys)
                asyncio.run(_settled(here))
                yield here
            finally:
                for link in links.values():
                    link.heal()
                for program in running.programs:
                    program.resume()
                running.stop()
    finally:
        for link in links.values():
            link.close()
        for one in standbys:
            one.stop()
        shutil.rmtree(folder)


def _started(folder: Path, through: clusters.Through) -> clusters.Cluster:
    try:
        return clusters.start(folder, through=through, rate_limits=False)
    except NotInstalled as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))


async def _settled(here: ClusterFixture) -> None:
    """Register members with access tokens, half of them in each PostgreSQL."""
    async with open_network(here.settings, background=False) as network:
        app = await oauth.register(network.writes, "load", scopes=SCOPES)
        for name in _names():
            member = await members.register(network.writes, name)
            token = await oauth.issue_token(network.writes, app.app.id, member.id, SCOPES)
            here.people.append(Person(member.id, name, source_of(place(name).shard), token.text))


def _names() -> list[str]:
    candidates = [f"m{number}" for number in range(200)]
    first = [name for name in candidates if source_of(place(name).shard) < _SECOND_HALF]
    second = [name for name in candidates if name not in first]
    return first[: PEOPLE // 2] + second[: PEOPLE // 2]


async def crowd(here: ClusterFixture, author: Person, size: int) -> list[int]:
    """Create `size` followers of a member, with warm home timelines, and return their ids."""
    made: list[int] = []
    async with open_network(here.settings, background=False) as network:

        async def follow(name: str) -> None:
            member = await members.register(network.writes, name)
            await relationships.follow(network.writes, member.id, author.id)
            await home.warm_up(network.reads, member.id)
            made.append(member.id)

        await run_bounded([f"crowd{number}" for number in range(size)], follow, _AT_ONCE, lambda _: None)
    return made
