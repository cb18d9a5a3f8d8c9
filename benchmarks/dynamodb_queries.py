"""The nine use cases of the single-table document on one DynamoDB table: requests and read capacity of each.

Each use case runs on DynamoDB Local, as a visitor and as a member, in a process with empty caches (cold) and again (warm). The
network has one member with followers, posts, likes and comments enough to fill every page of 20 posts or 25 members. Capacity is
that of strongly consistent reads, a unit for each 4 KB of an item, as the service reports it. `raw engine` is one `Query` of a
denormalized page: the same bytes in adjacent items, read consistently.

At the end, home is read in each of two processes of one network, which share version tokens and timelines on Redis: twice, until
everything is cached, and again (warm).
"""

from __future__ import annotations

import asyncio
import math
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from typing import Any, NamedTuple, cast
from unittest.mock import patch

import msgspec

from benchmarks.measure import Report, parser, workplace
from benchmarks.shared_engines import engines
from shoal import Shoal
from shoal.app.network import open_network
from shoal.graph.cache.cached_graph import CachedGraph
from shoal.graph.contract import Cursor, Store
from shoal.graph.dynamodb import DynamoGraph
from shoal.graph.dynamodb.client import Capacity, Service, Spent
from shoal.graph.dynamodb.items import Item, ItemKey, address_of, item_of
from shoal.graph.redis.client import Nodes
from shoal.graph.schema import FOLLOWS
from shoal.queries.hydration import Profile
from shoal.settings import build
from shoal.timelines.dynamodb import DynamoTimelines
from shoal_devcluster import dynamodb

_CREDENTIALS = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench"}
"""DynamoDB Local accepts any credentials."""
_UNIT = 4_096

PEOPLE = 30
"""Number of members who follow, like and comment: more than a page shows."""


class Filled(NamedTuple):
    """Ids of a member with followers, of one of their posts, and of a reader of that post."""

    star: int
    post: int
    reader: int


Ask = Callable[[Any, Filled], Awaitable[Any]]
"""Runs a use case in the view of a `Visitor` or a `Handle`."""


class UseCase(NamedTuple):
    name: str
    parameters: str
    condition: str
    """Key condition of the query that finds the entries, or keys of the items."""
    ask: Ask
    public: bool = True
    """Whether visitors have this use case too."""


USE_CASES = (
    UseCase(
        "getTimelineByUserId",
        "member id",
        "timeline outside this table; to rebuild it: `ID = <followee> AND begins_with(sort, 'list#013#')`",
        lambda view, _: view.home(),
        public=False,
    ),
    UseCase(
        "getUserByUserName",
        "user name",
        "`ID = 'key#user_name#<name>' AND sort = 'key'`, then `ID = <member> AND sort = 'object'`",
        lambda view, _: view.profile_of("star"),
    ),
    UseCase(
        "getFolloweesByUserId",
        "member id",
        "`ID = <member> AND begins_with(sort, 'list#001#')`",
        lambda view, filled: view.following_of(filled.star),
    ),
    UseCase(
        "getFollowersByUserId",
        "member id",
        "`ID = <member> AND begins_with(sort, 'list#002#')`",
        lambda view, filled: view.followers_of(filled.star),
    ),
    UseCase(
        "getCountFolloweeByUserId, getCountFollowerByUserId",
        "member id",
        "`ID = <member> AND sort = 'counts#profile'`",
        lambda view, filled: view.profile_of(filled.star),
    ),
    UseCase(
        "getTweetsByUserId",
        "member id",
        "`ID = <member> AND begins_with(sort, 'list#013#')`",
        lambda view, filled: view.posts_by(filled.star),
    ),
    UseCase(
        "getTweetByTweetId",
        "post id",
        "`ID = <post> AND sort = 'object'`",
        lambda view, filled: view.read(filled.post),
    ),
    UseCase(
        "getCommentsByTweetId",
        "post id",
        "`ID = <post> AND begins_with(sort, 'list#015#')`",
        lambda view, filled: view.replies(filled.post),
    ),
)
"""The nine use cases, in the order of the document; both counts are one read here."""


class Counted(NamedTuple):
    """The requests and read units of a use case, and its result."""

    requests: list[str]
    units: float
    answer: Any


class Costs(NamedTuple):
    """The requests of a use case in a process with empty caches, and when it is repeated."""

    cold: Counted
    warm: Counted
    refilled: Counted | None
    """The requests of a home timeline with empty caches, but with the timeline that `cold` has built."""


class CountedScripts:
    """A counter of the scripts that run on Redis."""

    def __init__(self) -> None:
        self.count = 0

    @contextmanager
    def counted(self) -> Iterator[None]:
        run = Nodes._run

        async def script(nodes: Nodes, *values: Any, **more: Any) -> Any:
            self.count += 1
            return await run(nodes, *values, **more)

        with patch.object(Nodes, "_run", script):
            yield


async def fill(url: str, people: int) -> Filled:
    """Create the network: every member follows the star, is followed back, and likes and comments."""
    async with Shoal.open(url) as shoal:
        star = await shoal.register("star")
        others = [await shoal.register(f"member_{n}") for n in range(people)]
        for n, other in enumerate(others):
            await other.follow(star)
            await star.follow(other)
            await star.create(f"The boats lie on the sand, number {n}, and the light goes gray over the harbour wall")
        post = await star.create("Low tide at the harbour wall")
        for other in others:
            await other.like(post)
            await other.comment(post, "And the gulls have the quay to themselves")
        await shoal.settle()
        return Filled(star.id, post.id, others[0].id)


@contextmanager
def described() -> Iterator[list[str]]:
    """Collect a description of each request to DynamoDB that is sent during the block."""
    requests: list[str] = []
    call = Service.call

    async def describing(service: Service, operation: str, **parameters: Any) -> Any:
        requests.append(describe(operation, parameters))
        return await call(service, operation, **parameters)

    with patch.object(Service, "call", describing):
        yield requests


def describe(operation: str, parameters: Mapping[str, Any]) -> str:
    """Return the kind of a read request, with the number of items of each kind or the list that it queries."""
    if operation == "query":
        low = parameters["ExpressionAttributeValues"][":low"]["S"]
        return "Query timeline" if low == "head" else f"Query {'#'.join(low.split('#')[:2])}"
    (asked,) = parameters["RequestItems"].values()
    kinds = Counter(key["sort"]["S"].partition("#")[0] for key in asked["Keys"])
    return "BatchGetItem " + ", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items()))


async def count(url: str, use_case: UseCase, filled: Filled, *, as_member: bool) -> Costs:
    """Run a use case in a newly opened network without background work."""
    settings = build(store=url, media="memory://", rate_limits=False, run_consequences=False)
    async with open_network(settings, background=False) as network:
        shoal = Shoal(network)
        view = await shoal.member(filled.reader) if as_member else shoal.visitor

        capacity = _graph(network.store).capacity

        async def once() -> Counted:
            return await counted_once((capacity,), use_case.ask(view, filled))

        cold, warm = await once(), await once()
        if use_case.public:
            return Costs(cold, warm, None)
        network.memory.forget_all()
        return Costs(cold, warm, await once())


async def counted_once(capacities: Sequence[Capacity], ask: Awaitable[Any]) -> Counted:
    """Await a call, and return its requests to the tables of these capacities."""
    units = sum(capacity.reads for capacity in capacities)
    before = sum(capacity.requests.total() for capacity in capacities)
    complete = asyncio.Event()

    def answered(_: Spent | None = None) -> None:
        sent = sum(capacity.requests.total() for capacity in capacities) - before
        (complete.set if sent == len(requests) else complete.clear)()

    for capacity in capacities:
        capacity.on_request = answered
    with described() as requests:
        answer = await ask
    answered()
    # A prefetch of the next page may still be running: wait for its end.
    await complete.wait()
    return Counted(requests, sum(capacity.reads for capacity in capacities) - units, answer)


async def count_home(url: str, timelines: str, filled: Filled) -> Costs:
    """Return the costs of a home page of a new process whose timelines are in a table of their own."""
    settings = build(store=url, timelines=timelines, media="memory://", rate_limits=False, run_consequences=False)
    async with open_network(settings, background=False) as network:
        await (await Shoal(network).member(filled.reader)).home()
    async with open_network(settings, background=False) as network:
        table = network.timelines
        assert isinstance(table, DynamoTimelines)
        reader = await Shoal(network).member(filled.reader)
        capacities = (_graph(network.store).capacity, table.service.capacity)
        cold, warm = [await counted_once(capacities, reader.home()) for _ in range(2)]
        return Costs(cold, warm, None)


def _graph(store: Store) -> DynamoGraph:
    return cast("DynamoGraph", cast("CachedGraph", store)._store)


def size(answer: Any) -> int:
    """Return the approximate bytes of a result."""
    return len(msgspec.json.encode(answer, enc_hook=lambda thing: getattr(thing, "id", str(thing))))


async def run(url: str, cache: str, people: int, report: Report) -> None:
    filled = await fill(url, people)
    # The followed author has one more post than there are other members. A home page also includes the reader's own comment.
    pages = {
        "getTimelineByUserId": min(people + 2, 20),
        "getFolloweesByUserId": min(people, 25),
        "getFollowersByUserId": min(people, 25),
        "getTweetsByUserId": min(people + 1, 20),
        "getCommentsByTweetId": min(people, 20),
    }
    for use_case in USE_CASES:
        for as_member in (False, True) if use_case.public else (True,):
            name = f"{use_case.name}, {'a member' if as_member else 'a visitor'}"
            costs = await count(url, use_case, filled, as_member=as_member)
            report.add(f"{name}: requests, cold", len(costs.cold.requests), raw=1)
            report.add(f"{name}: requests, warm", len(costs.warm.requests))
            if costs.refilled is not None:
                report.add(f"{name}: requests, cold except for the timeline", len(costs.refilled.requests))
            bare = math.ceil(size(costs.cold.answer) / _UNIT)
            report.add(f"{name}: read units, cold", costs.cold.units, raw=bare)
            report.add(f"{name}: read units, warm", costs.warm.units)
            report.check(
                f"{name}: repeated, with the same result", size(costs.warm.answer) == size(costs.cold.answer), 1
            )
            if use_case.name in pages:
                report.check(f"{name}: on the page", _rows(costs.cold.answer), pages[use_case.name])
    other = await alternatives(url, filled)
    report.add("copies of profiles: followers: requests", other.requests)
    report.add("copies of profiles: followers: read units", other.read_units)
    report.add("copies of profiles: entries with one member", other.entries)
    report.add("copies of profiles: write units of a change", other.write_units)
    report.add("one profile: write units of a change", other.one_profile)
    report.add("follows of a viewer, the whole list: read units", other.whole_list)
    report.add("follows of a viewer, 21 of them: read units", other.links)
    await among_several(url, cache, filled, report)


class Alternatives(NamedTuple):
    """Costs of two alternatives: list entries with copies of profiles, and point reads of a list."""

    requests: int
    """Requests for a page of 25 followers."""
    read_units: float
    entries: int
    """Number of entries with a copy of one member's profile: of their followers' and followees' lists, and their posts."""
    write_units: float
    """Cost of a change of what these entries show, such as a new picture or another number of followers."""
    one_profile: float
    """Cost of a change of a profile that is stored once."""
    whole_list: float
    """Read units of the whole list of a member's follows."""
    links: float
    """Read units of the associations of this list with 21 members."""


async def alternatives(url: str, filled: Filled) -> Alternatives:
    """Write the copies next to the network, and measure both alternatives."""
    settings = build(store=url, media="memory://", rate_limits=False, run_consequences=False)
    async with open_network(settings, background=False) as network:
        shoal, service = Shoal(network), _graph(network.store)._service
        capacity = service.capacity
        star = await shoal.member(filled.star)
        followers = [_copy(0, at, one) for at, one in enumerate((await shoal.visitor.followers_of(star)).profiles)]
        for copy in followers:
            await service.write("put_item", Item=copy)
        requests, units = capacity.requests.total(), capacity.reads
        found = await service.stretch(address_of(followers[0]), address_of(followers[-1]), len(followers))
        requests, units = capacity.requests.total() - requests, capacity.reads - units
        assert len(found) == len(followers)
        shown = await shoal.visitor.profile_of(star)
        entries = shown.followers + shown.following + shown.posts
        writes = capacity.writes
        for at in range(entries):
            await service.write("put_item", Item=_copy(1, at, shown))
        writes = capacity.writes - writes
        once = capacity.writes
        await star.update_profile(note="Low tide")
        once = capacity.writes - once
        graph, before = _graph(network.store), capacity.reads
        follows = await graph.assoc_range(filled.star, FOLLOWS, Cursor(limit=257))
        whole_list, before = capacity.reads - before, capacity.reads
        await graph.assoc_get(filled.star, (FOLLOWS,), [follow.id2 for follow in follows[:21]])
        return Alternatives(requests, units, entries, writes, once, whole_list, capacity.reads - before)


def _copy(owner: int, at: int, profile: Profile) -> Item:
    data = msgspec.json.encode(profile, enc_hook=str)
    return item_of(ItemKey(f"copies#{owner}", f"{at:06d}"), {"data": data})


async def among_several(url: str, cache: str, filled: Filled, report: Report) -> None:
    """Request a home page in each of two processes that share the table."""
    settings = build(store=url, timelines=cache, media="memory://", rate_limits=False, run_consequences=False)
    async with AsyncExitStack() as stack:
        networks = [await stack.enter_async_context(open_network(settings)) for _ in range(2)]
        sizes: set[int] = set()
        requests, scripts = 0, CountedScripts()
        for network in networks:
            reader = await Shoal(network).member(filled.reader)
            spent = _graph(network.store).capacity.requests
            for _ in range(2):
                await reader.home()
            before = spent.total()
            with scripts.counted():
                sizes.add(_rows(await reader.home()))
            requests += spent.total() - before
        report.add("home, one of two processes: requests, warm", requests / len(networks))
        report.add("home, one of two processes: scripts on Redis, warm", scripts.count / len(networks))
        report.check("home: sizes of pages in two processes", len(sizes), 1)


def _rows(page: Any) -> int:
    return len(page.entries if hasattr(page, "entries") else page.profiles)


def main() -> None:
    options = parser(__doc__, quick={"people": PEOPLE}, smallest={"people": 5})
    options.add_argument("--people", type=int, default=PEOPLE, help="number of members who follow, like and comment")
    chosen = options.parse_args()
    report = Report("dynamodb_queries", chosen.size)
    os.environ.update(_CREDENTIALS)
    with workplace(None) as place:
        server = dynamodb.start(place / "dynamodb", durable=False)
        try:
            url = f"dynamodb://shoal?region=local&endpoint={server.url}"
            with engines(0) as of:
                asyncio.run(run(url, of.redis.url, chosen.people, report))
        finally:
            server.stop()
    report.show()


if __name__ == "__main__":
    main()
