"""Behavior specific to the DynamoDB graph: requests, limits, conflicts and retries."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from shoal.core.errors import Conflict, InvalidInput, OutcomeUnknown, ShoalError, TooLarge, Unavailable
from shoal.core.events import InversePending, PostCreated
from shoal.core.ids import named, shard_of
from shoal.core.model import Member, Post
from shoal.core.placement import source_of
from shoal.graph.contract import MAX_TIME, Batch, Cursor, KeyTaken, Missing
from shoal.graph.dynamodb import DynamoGraph
from shoal.graph.dynamodb.client import Service, Spent
from shoal.graph.dynamodb.items import (
    CHUNK_ENTRIES,
    LAYOUT,
    address_of,
    count_spot,
    counts_in,
    item_of,
    single_count_at,
)
from shoal.graph.dynamodb.table import upgrade
from shoal.graph.event_log import EventLog
from shoal.graph.schema import (
    BLOCKS,
    COMMENTED_BY,
    COMMENTS_ON,
    FOLLOWED_BY,
    FOLLOWS,
    LIKED_BY,
    LIKES,
    POSTED,
    TAGGED,
    user_name_key,
)
from tests.async_runner import eventually, in_loop
from tests.engines.dynamodb import PATIENT_SECONDS, new_table
from tests.engines.dynamodb_faults import (
    Fault,
    Moods,
    after,
    has_a_late_index,
    leaves_all_undone,
    loses_its_answer,
    moody,
    says,
)
from tests.stores import (
    ANN,
    BEN,
    CYD,
    POST_OF_BEN,
    add,
    all_counts,
    all_links,
    all_objects,
    begin,
    broken_promises,
    end,
    id_on,
    ids_of,
    moment,
)
from tests.tiers import deep

PAGE = Path(__file__).parents[2] / "docs" / "data-layout.md"
LONG = 3600.0
NAME = user_name_key("ben")


@asynccontextmanager
async def opened(
    *urls: str, patience: float = PATIENT_SECONDS, logs: bool | None = None
) -> AsyncIterator[list[DynamoGraph]]:
    """Yield several graphs, each like in its own process."""
    async with AsyncExitStack() as stack:
        graphs = []
        for url in urls:
            graphs.append(await DynamoGraph.open(url, patience=patience, logs=logs))
            stack.push_async_callback(graphs[-1].close)
        yield graphs


class Scene(NamedTuple):
    """One table, reached directly and through a server that injects faults."""

    graph: DynamoGraph
    behind: DynamoGraph
    moods: Moods


@asynccontextmanager
async def scene(patience: float = 10.0) -> AsyncIterator[Scene]:
    url = new_table()
    async with moody() as moods:
        beyond = url.partition("&endpoint=")[0] + f"&endpoint={moods.url}"
        async with opened(url) as (graph,), opened(beyond, patience=patience) as (behind,):
            yield Scene(graph, behind, moods)


async def a_small_world(graph: DynamoGraph) -> None:
    members = [Member(id=ANN, name="ann"), Member(id=BEN, name="ben"), Member(id=CYD, name="cyd")]
    for member in members:
        await add(graph, member)
    batch = Batch(NAME.shard)
    batch.key_add(NAME, BEN)
    await graph.commit(batch)
    await add(graph, Post(id=POST_OF_BEN, author_id=BEN, text="hello"))
    await begin(graph, BEN, POSTED, POST_OF_BEN, POST_OF_BEN)
    await begin(graph, BEN, FOLLOWS, CYD, moment(1))
    for n, follower in enumerate((ANN, CYD)):
        await begin(graph, follower, FOLLOWS, BEN, moment(n))
        await begin(graph, id_on(7, n), COMMENTS_ON, POST_OF_BEN, id_on(7, n))


Ask = Callable[[DynamoGraph], Awaitable[Any]]


class Question(NamedTuple):
    ask: Ask
    answer: Callable[[Any], bool]


QUESTIONS = {
    "timeline": Question(lambda g: g.obj_get([POST_OF_BEN, id_on(9, 9), BEN]), lambda a: set(a) == {POST_OF_BEN, BEN}),
    "user by name": Question(lambda g: g.key_get([NAME]), lambda a: a == {NAME: BEN}),
    "followees": Question(lambda g: g.assoc_range(BEN, FOLLOWS, Cursor(limit=40)), lambda a: ids_of(a) == [CYD]),
    "followers": Question(
        lambda g: g.assoc_range(BEN, FOLLOWED_BY, Cursor(limit=40)), lambda a: ids_of(a) == [CYD, ANN]
    ),
    "both counts": Question(
        lambda g: g.assoc_count([BEN], [FOLLOWS, FOLLOWED_BY]),
        lambda a: a == {FOLLOWS: {BEN: 1}, FOLLOWED_BY: {BEN: 2}},
    ),
    "posts by user": Question(
        lambda g: g.assoc_range(BEN, POSTED, Cursor(limit=40)), lambda a: ids_of(a) == [POST_OF_BEN]
    ),
    "post by id": Question(lambda g: g.obj_get([POST_OF_BEN]), lambda a: a[POST_OF_BEN].text == "hello"),
    "comments by post": Question(
        lambda g: g.assoc_range(POST_OF_BEN, COMMENTED_BY, Cursor(limit=40)),
        lambda a: ids_of(a) == [id_on(7, 1), id_on(7, 0)],
    ),
}
"""The nine queries of the article: followers and followees are counted by one query."""


@pytest.mark.parametrize("name", QUESTIONS)
@in_loop
async def test_dynamodb_graph_association_query_takes_one_request(name: str) -> None:
    async with opened(new_table()) as (graph,):
        await a_small_world(graph)
        asked = graph.capacity.requests.total()
        assert QUESTIONS[name].answer(await QUESTIONS[name].ask(graph))
        assert graph.capacity.requests.total() == asked + 1


@in_loop
async def test_dynamodb_graph_commit_takes_one_read_and_one_transaction() -> None:
    async with opened(new_table()) as (graph,):
        await a_small_world(graph)
        before = graph.capacity.requests.copy()
        batch = Batch(shard_of(ANN))
        batch.obj_add(Post(id=id_on(0, 9), author_id=ANN, text="hello"))
        batch.assoc_add(ANN, POSTED, id_on(0, 9), id_on(0, 9))
        batch.assoc_add(ANN, LIKES, POST_OF_BEN, moment(3), aggregate_id=BEN)
        batch.expect(POST_OF_BEN)
        batch.emit(PostCreated(post_id=id_on(0, 9), author_id=ANN))
        await graph.commit(batch)
        assert graph.capacity.requests - before == {"batch_get_item": 1, "transact_write_items": 1}


@in_loop
async def test_dynamodb_graph_follow_changes_take_fixed_number_of_requests_and_items(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    items: list[int] = []
    transact = Service.transact

    async def noted(service: Service, writes: Sequence[Mapping[str, Any]]) -> None:
        items.append(len(writes))
        await transact(service, writes)

    monkeypatch.setattr(Service, "transact", noted)
    async with opened(new_table()) as (graph,):
        for n in range(6):
            before = graph.capacity.requests.copy()
            await (end if n % 2 else begin)(graph, ANN, FOLLOWS, BEN, moment(n))
            assert graph.capacity.requests - before == {"batch_get_item": 1, "transact_write_items": 1}
    # A follow is two associations, each with a list entry and a count. An ended follow is in the list of ended followers. The
    # history takes two more items: one of them has a list entry too, which moves when the history grows.
    assert items == [6, 7, 10, 7, 11, 7]


# Limits


@in_loop
async def test_dynamodb_graph_batch_over_100_items_is_refused_without_requests() -> None:
    async with opened(new_table()) as (graph,):
        members = [Member(id=id_on(7, n), name="m") for n in range(101)]
        await add(graph, *members[:100])
        asked = graph.capacity.requests.total()
        with pytest.raises(TooLarge, match=r"at most 100 \(got 101\)"):
            await add(graph, *[Member(id=id_on(8, n), name="m") for n in range(101)])
        assert graph.capacity.requests.total() == asked
        assert len(await all_objects(graph)) == 100


@in_loop
async def test_dynamodb_graph_batch_item_limit_includes_inverses_list_entries_and_counts() -> None:
    async with opened(new_table()) as (graph,):
        batch = Batch(shard_of(ANN))
        for n in range(17):
            # Each follow takes two associations, two list entries and two counts; one of the counts is shared by all follows.
            batch.assoc_add(ANN, FOLLOWS, id_on(9, n), moment(n))
        await graph.commit(batch)
        batch = Batch(shard_of(ANN))
        for n in range(20):
            batch.assoc_add(ANN, FOLLOWS, id_on(10, n), moment(n))
        with pytest.raises(TooLarge, match=r"\(got 101\)"):
            await graph.commit(batch)
        assert await graph.assoc_count([ANN], [FOLLOWS]) == {FOLLOWS: {ANN: 17}}
        assert await broken_promises(graph) == []


@pytest.mark.parametrize(
    ("number", "size", "message"), [(1, 400 * 1024, "an item is too large"), (12, 390_000, "at most 4 MB")]
)
@in_loop
async def test_dynamodb_graph_batch_over_size_limit_is_refused(number: int, size: int, message: str) -> None:
    async with opened(new_table()) as (graph,):
        with pytest.raises(TooLarge, match=message):
            await add(graph, *[Member(id=id_on(7, n), name="m", note="x" * size) for n in range(number)])
        assert "transact_write_items" not in graph.capacity.requests
        assert await all_objects(graph) == []


# The client library warns that sending a large body blocks the event loop.
@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
@in_loop
async def test_dynamodb_graph_batch_below_size_limit_is_stored() -> None:
    async with opened(new_table()) as (graph,):
        members = [Member(id=id_on(7, n), name="m", note="x" * 390_000) for n in range(10)]
        await add(graph, *members)
        assert await graph.obj_get([member.id for member in members]) == {member.id: member for member in members}


# Conflicts between read and write


async def delete_the_post(graph: DynamoGraph) -> None:
    batch = Batch(shard_of(BEN))
    batch.obj_del(POST_OF_BEN)
    await graph.commit(batch)


async def take_the_name(graph: DynamoGraph) -> None:
    batch = Batch(NAME.shard)
    batch.key_add(NAME, CYD)
    await graph.commit(batch)


async def edit(graph: DynamoGraph, text: str) -> None:
    batch = Batch(shard_of(BEN))
    batch.obj_set(Post(id=POST_OF_BEN, author_id=BEN, version=2, text=text))
    await graph.commit(batch)


def liked() -> Batch:
    batch = Batch(shard_of(ANN))
    batch.assoc_add(ANN, LIKES, POST_OF_BEN, moment(1), aggregate_id=BEN)
    batch.expect(POST_OF_BEN)
    return batch


def named_ben() -> Batch:
    batch = Batch(NAME.shard)
    batch.obj_add(Member(id=BEN, name="ben"))
    batch.key_add(NAME, BEN)
    return batch


def edited() -> Batch:
    batch = Batch(shard_of(BEN))
    batch.obj_set(Post(id=POST_OF_BEN, author_id=BEN, version=2, text="mine"))
    return batch


def added_again() -> Batch:
    batch = Batch(shard_of(BEN))
    batch.obj_add(Post(id=id_on(40, 7), author_id=BEN))
    return batch


class Race(NamedTuple):
    batch: Callable[[], Batch]
    between: Callable[[DynamoGraph], Awaitable[None]]
    error: type[Conflict]


RACES = {
    "what it relies on is deleted": Race(liked, delete_the_post, Missing),
    "its name is taken": Race(named_ben, take_the_name, KeyTaken),
    "its object is changed": Race(edited, lambda graph: edit(graph, "theirs"), Conflict),
    "its id is taken": Race(added_again, lambda graph: add(graph, Post(id=id_on(40, 7), author_id=BEN)), Conflict),
}


@pytest.mark.parametrize("name", RACES)
@in_loop
async def test_dynamodb_graph_commit_overtaken_between_read_and_write_is_refused(name: str) -> None:
    race = RACES[name]
    async with scene() as (graph, behind, moods):
        await add(graph, Post(id=POST_OF_BEN, author_id=BEN))
        moods.next("TransactWriteItems", after(lambda: race.between(graph)))
        with pytest.raises(race.error):
            await behind.commit(race.batch())
        assert behind.capacity.retries == {"TransactionOvertaken": 1}
        assert await all_links(graph) == []


@in_loop
async def test_dynamodb_graph_association_added_concurrently_gets_later_time_and_is_counted_once() -> None:
    async with scene() as (graph, behind, moods):
        moods.next(
            "TransactWriteItems", after(lambda: begin(graph, ANN, LIKES, POST_OF_BEN, moment(9), aggregate_id=BEN))
        )
        await begin(behind, ANN, LIKES, POST_OF_BEN, moment(3), aggregate_id=BEN)
        assert [entry.time for entry in await graph.assoc_range(ANN, LIKES, Cursor(limit=5))] == [moment(9) + 1]
        assert await graph.assoc_count([POST_OF_BEN, BEN], [LIKED_BY]) == {LIKED_BY: {POST_OF_BEN: 1, BEN: 1}}
        assert await broken_promises(graph) == []


@in_loop
async def test_dynamodb_graph_association_deletion_is_retried_if_association_is_added_concurrently() -> None:
    async with scene() as (graph, behind, moods):
        batch = Batch(shard_of(ANN))
        batch.assoc_del(ANN, FOLLOWS, BEN, moment(9))
        batch.assoc_add(ANN, FOLLOWS, CYD, moment(9))
        moods.next("TransactWriteItems", after(lambda: begin(graph, ANN, FOLLOWS, BEN, moment(3))))
        await behind.commit(batch)
        assert ids_of(await graph.assoc_range(ANN, FOLLOWS, Cursor(limit=5))) == [CYD]
        assert await broken_promises(graph) == []


@in_loop
async def test_dynamodb_graph_counts_are_exact_for_concurrent_processes() -> None:
    url = new_table()
    async with opened(url, url, url, patience=60.0) as graphs:
        members = [id_on(source, 3) for source in range(20)]
        for act in (begin, begin, end, begin):
            doing = [
                act(graph, member, LIKES, POST_OF_BEN, moment(n), aggregate_id=BEN)
                for n, member in enumerate(members)
                for graph in graphs
            ]
            await asyncio.gather(*doing)
        assert await graphs[0].assoc_count([POST_OF_BEN, BEN], [LIKED_BY]) == {LIKED_BY: {POST_OF_BEN: 20, BEN: 20}}
        assert await broken_promises(graphs[0]) == []


@in_loop
async def test_dynamodb_graph_commits_of_one_process_are_serialized_without_retries() -> None:
    async with opened(new_table()) as (graph,):
        liking = [begin(graph, id_on(n, 3), LIKES, POST_OF_BEN, moment(n), aggregate_id=BEN) for n in range(20)]
        await asyncio.gather(*liking, *[begin(graph, ANN, FOLLOWS, BEN, moment(n)) for n in range(20)])
        assert graph.capacity.retries == {}


# Busy service


BUSY = {
    "throttled": says("ThrottlingException"),
    "throughput exceeded": says("ProvisionedThroughputExceededException"),
    "too many requests": says("RequestLimitExceeded"),
    "in progress": says("TransactionInProgressException"),
    "conflicting": says("TransactionCanceledException", "None", "TransactionConflict"),
    "throttled inside": says("TransactionCanceledException", "ThrottlingError", "None"),
    "answer lost": loses_its_answer,
}


@pytest.mark.parametrize("name", BUSY)
@in_loop
async def test_dynamodb_graph_commit_on_busy_service_is_applied_once(name: str) -> None:
    async with scene() as (graph, behind, moods):
        batch = Batch(shard_of(ANN))
        batch.obj_add(Member(id=ANN, name="ann"))
        batch.assoc_add(ANN, FOLLOWS, BEN, moment(1))
        batch.emit(PostCreated(post_id=1, author_id=ANN))
        moods.next("TransactWriteItems", BUSY[name], BUSY[name])
        await behind.commit(batch)
        assert behind.capacity.retries.total() == 2
        assert await graph.assoc_count([ANN, BEN], [FOLLOWS]) == {FOLLOWS: {ANN: 1}}
        assert (await graph.backlog(), len(await all_links(graph))) == (1, 2)


READS: dict[str, tuple[str, Ask]] = {
    "objects": ("BatchGetItem", lambda graph: graph.obj_get([POST_OF_BEN])),
    "lists": ("Query", lambda graph: graph.assoc_range(BEN, FOLLOWED_BY, Cursor(limit=2))),
    "counts": ("BatchGetItem", lambda graph: graph.assoc_count([BEN], [FOLLOWED_BY])),
}


@pytest.mark.parametrize("fault", [says("ThrottlingException"), loses_its_answer], ids=["throttled", "answer lost"])
@pytest.mark.parametrize("name", READS)
@in_loop
async def test_dynamodb_graph_read_on_busy_service_is_retried(name: str, fault: Fault) -> None:
    operation, ask = READS[name]
    async with scene() as (graph, behind, moods):
        await a_small_world(graph)
        moods.next(operation, fault, fault, fault)
        assert await ask(behind) == await ask(graph)
        assert behind.capacity.retries.total() == 3


@in_loop
async def test_dynamodb_graph_unprocessed_items_are_retried() -> None:
    async with scene() as (graph, behind, moods):
        await a_small_world(graph)
        moods.next("BatchGetItem", leaves_all_undone, leaves_all_undone)
        assert set(await behind.obj_get([ANN, BEN, id_on(1, 1)])) == {ANN, BEN}
        batch = Batch(shard_of(ANN))
        batch.emit(PostCreated(post_id=1, author_id=ANN))
        await graph.commit(batch)
        moods.next("BatchWriteItem", leaves_all_undone, leaves_all_undone)
        await behind.ack(await behind.claim(5, LONG))
        assert await graph.backlog() == 0


@pytest.mark.parametrize("fault", [says("ThrottlingException"), loses_its_answer], ids=["throttled", "answer lost"])
@in_loop
async def test_dynamodb_graph_on_persistently_busy_service_raises_unavailable(fault: Fault) -> None:
    async with scene(patience=0.2) as (_, behind, moods):
        moods.always = fault
        for ask in (
            behind.obj_get([ANN]),
            behind.assoc_range(ANN, FOLLOWS, Cursor(limit=2)),
            begin(behind, ANN, LIKES, 1, 1),
        ):
            with pytest.raises(Unavailable):
                await ask
        moods.always = None
        assert await behind.obj_get([ANN]) == {}


@pytest.mark.parametrize(
    "fault", [loses_its_answer, says("TransactionInProgressException")], ids=["lost", "in progress"]
)
@in_loop
async def test_dynamodb_graph_commit_without_answer_raises_outcome_unknown(fault: Fault) -> None:
    async with scene(patience=0.3) as (graph, behind, moods):
        batch = Batch(shard_of(ANN))
        batch.obj_add(Member(id=ANN, name="ann"))
        moods.next("TransactWriteItems", *[fault] * 1000)
        with pytest.raises(OutcomeUnknown, match="may or may not have been stored"):
            await behind.commit(batch)
        assert set(await graph.obj_get([ANN])) == ({ANN} if fault is loses_its_answer else set())


@in_loop
async def test_dynamodb_graph_commit_always_throttled_raises_unavailable() -> None:
    async with scene(patience=0.3) as (graph, behind, moods):
        moods.next("TransactWriteItems", *[says("ThrottlingException")] * 1000)
        with pytest.raises(Unavailable) as refused:
            await begin(behind, ANN, LIKES, POST_OF_BEN, 1)
        assert not isinstance(refused.value, OutcomeUnknown)
        assert await all_links(graph) == []


@in_loop
async def test_dynamodb_graph_retry_after_lost_answer_with_conflict_raises_outcome_unknown() -> None:
    async with scene() as (graph, behind, moods):
        batch = Batch(shard_of(ANN))
        batch.obj_add(Member(id=ANN, name="ann"))
        # The answer is lost; then a conflicting transaction forces a new decision with a new request token.
        moods.next("TransactWriteItems", loses_its_answer, says("TransactionCanceledException", "TransactionConflict"))
        with pytest.raises(OutcomeUnknown):
            await behind.commit(batch)
        assert set(await graph.obj_get([ANN])) == {ANN}


@in_loop
async def test_dynamodb_graph_commit_with_persistent_conflict_raises_unavailable() -> None:
    async with scene(patience=0.2) as (graph, behind, moods):
        moods.always = says("TransactionCanceledException", "TransactionConflict")
        moods.next("BatchGetItem", *[after(lambda: asyncio.sleep(0))] * 1000)
        with pytest.raises(Unavailable):
            await begin(behind, ANN, LIKES, POST_OF_BEN, 1)
        moods.always = None
        assert await all_links(graph) == []


@in_loop
async def test_dynamodb_graph_with_invalid_credentials_raises_unavailable() -> None:
    async with scene() as (_, behind, moods):
        moods.next("BatchGetItem", says("UnrecognizedClientException"))
        with pytest.raises(Unavailable, match="credentials"):
            await behind.obj_get([ANN])
        moods.next("BatchGetItem", says("ValidationException"))
        with pytest.raises(Exception, match="ValidationException") as raised:
            await behind.obj_get([ANN])
        assert not isinstance(raised.value, ShoalError)


@in_loop
async def test_dynamodb_graph_with_unreachable_server_raises_unavailable() -> None:
    with pytest.raises(Unavailable):
        await DynamoGraph.open("dynamodb://shoal?region=local&endpoint=http://127.0.0.1:1", patience=0.1)


# Capacity


@in_loop
async def test_dynamodb_graph_reports_and_sums_consumed_capacity() -> None:
    async with opened(new_table()) as (graph,):
        told: list[Spent] = []
        graph.capacity.on_request = told.append
        reads, writes = graph.capacity.reads, graph.capacity.writes
        await begin(graph, ANN, FOLLOWS, BEN, moment(1))
        await graph.assoc_range(ANN, FOLLOWS, Cursor(limit=5))
        assert [spent.operation for spent in told] == ["batch_get_item", "transact_write_items", "query"]
        assert told[1].writes > 0.0
        assert (told[2].reads, told[2].writes) == (1.0, 0.0)
        assert graph.capacity.last == told[2]
        assert graph.capacity.reads - reads == sum(spent.reads for spent in told)
        assert graph.capacity.writes - writes == sum(spent.writes for spent in told)


# The table


@in_loop
async def test_dynamodb_graph_number_of_index_partitions_of_existing_table_is_kept() -> None:
    url = new_table(spread=3)
    async with opened(url, url.replace("spread=3", "spread=7")) as (graph, other):
        await asyncio.gather(*[add(graph, Member(id=id_on(source), name="m")) for source in range(20)])
        await asyncio.gather(*[add(other, Member(id=id_on(source, 1), name="m")) for source in range(20)])
        assert len(await all_objects(graph)) == len(await all_objects(other)) == 40


@pytest.mark.parametrize("page", [50, *deep(5)])
@in_loop
async def test_dynamodb_graph_scans_are_ordered_with_full_pages_across_partitions(page: int) -> None:
    async with opened(new_table(spread=16)) as (graph,):
        ids = [id_on(source, n) for n in range(2) for source in range(60)]
        await asyncio.gather(*[add(graph, Member(id=id_, name="m")) for id_ in ids])
        tags = [named("tag", str(n)) for n in range(5)]
        await asyncio.gather(
            *[begin(graph, id_, TAGGED, tag, moment(n)) for n, id_ in enumerate(ids[:30]) for tag in tags]
        )
        assert [node.id for node in await all_objects(graph, page)] == sorted(ids)
        assert len(await graph.obj_scan(-1, page)) == page
        rows = [row[:3] for row in await all_links(graph, page)]
        assert rows == sorted(rows)
        assert len(rows) == 2 * 30 * 5
        assert len(await all_counts(graph, page)) == 30 + 5
        assert await broken_promises(graph) == []


@in_loop
async def test_dynamodb_graph_table_creation_by_concurrent_processes_succeeds() -> None:
    url = new_table()
    graphs = await asyncio.gather(*[DynamoGraph.open(url) for _ in range(4)])
    await add(graphs[0], Member(id=ANN, name="ann"))
    assert all([ANN in await graph.obj_get([ANN]) for graph in graphs])
    await asyncio.gather(*[graph.close() for graph in graphs])


@pytest.mark.parametrize(
    "url", ["dynamodb://", "sqlite://shoal", "dynamodb://a/b", "dynamodb://a?color=red", "dynamodb://a?spread=0"]
)
@in_loop
async def test_dynamodb_graph_url_without_valid_table_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput):
        await DynamoGraph.open(url)


@in_loop
async def test_dynamodb_graph_item_kinds_and_attributes_match_the_documented_ones() -> None:
    url = new_table()
    async with opened(url, logs=True) as (graph,):
        await a_small_world(graph)
        for n in range(2 * CHUNK_ENTRIES):
            await begin(graph, ANN, LIKES, id_on(9, n), moment(n))
        assert await EventLog(graph).trim(MAX_TIME)
        for n in range(CHUNK_ENTRIES + 1):
            await begin(graph, ANN, LIKES, id_on(10, n), moment(n))
        await end(graph, ANN, FOLLOWS, BEN, moment(9))
        await emit(graph, 1, 2, 3)
        await graph.park((await graph.claim(2, LONG))[0], "no")
        items = (await graph._service.call("scan", TableName=graph._service.table))["Items"]
    section = PAGE.read_text().partition("### DynamoDB: one table")[2].partition("\n### ")[0]
    rows = re.findall(r"^\| `([^`]+)` \| `([^`]+)` \| (.*) \| [^|]* \|$", section, re.MULTILINE)
    documented = {(_kind(id_), _kind(sort)): set(re.findall(r"`([\w<>]+)`", text)) for id_, sort, text in rows}
    found: dict[tuple[str, str], set[str]] = {}
    for item in items:
        kind = _kind(item["ID"]["S"]), _kind(item["sort"]["S"])
        names = {re.sub(r"\d+", "<type>", name) for name in item.keys() - {"ID", "sort", "part", "place"}}
        found.setdefault(kind, set()).update(names)
    assert found.keys() == documented.keys()
    assert {kind: names - documented[kind] for kind, names in found.items() if names - documented[kind]} == {}


def _kind(text: str) -> str:
    """Return the prefix of a part of a key; empty for a number or a number's name."""
    kind = text.partition("#")[0]
    return "" if kind.startswith("<") or kind.lstrip("-").isdecimal() or len(kind) == 16 else kind


# Tables of older versions of Shoal


async def as_of_layout_1(graph: DynamoGraph) -> None:
    """Remove the additions of layout 2 from a table: tombstones of follows have no list and no moments, like all others."""
    service = graph._service
    for item in (await service.call("scan", TableName=service.table))["Items"]:
        if item["sort"]["S"].startswith("ended#"):
            await service.write("delete_item", Key=address_of(item).item())
        elif item.get("part", {}).get("S", "").startswith("past#"):
            part = item["part"]["S"].replace("past#", "dead#")
            await service.write("put_item", Item={**item, "part": {"S": part}, "data": {"B": b""}})
    (layout,) = await service.get([LAYOUT])
    await service.write("put_item", Item={**layout, "version": {"N": "1"}})


@pytest.mark.parametrize("at_once", [2, 100])
@in_loop
async def test_dynamodb_graph_layout_1_table_upgrade_adds_lists_of_ended_follows(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.graph.dynamodb.table._AT_ONCE", at_once)
    url = new_table()
    async with opened(url) as (graph,):
        for n in range(5):
            await begin(graph, id_on(n, 1), FOLLOWS, BEN, moment(n + 1))
            await end(graph, id_on(n, 1), FOLLOWS, BEN, moment(n + 11))
        await begin(graph, ANN, FOLLOWS, BEN, moment(1))
        await begin(graph, ANN, BLOCKS, CYD, moment(1))
        await end(graph, ANN, BLOCKS, CYD, moment(2))
        await as_of_layout_1(graph)
        assert await graph.assoc_ended_range(BEN, FOLLOWED_BY, Cursor(limit=9)) == []
        rows = await all_links(graph)
    async with AsyncExitStack() as stack:
        # Two processes upgrade the table concurrently.
        for graph in await asyncio.gather(*(DynamoGraph.open(url, patience=PATIENT_SECONDS) for _ in range(2))):
            stack.push_async_callback(graph.close)
        ended = await graph.assoc_ended_range(BEN, FOLLOWED_BY, Cursor(limit=9))
        assert [(row.id2, row.time) for row in ended] == [(id_on(n, 1), moment(n + 11)) for n in range(4, -1, -1)]
        assert await graph.assoc_ended_range(ANN, FOLLOWED_BY, Cursor(limit=9)) == []
        assert await all_links(graph) == rows
        assert await graph.sweep(MAX_TIME, 0) == 2
        assert await graph.sweep_history(moment(13)) == 4
        assert len(await graph.assoc_ended_range(BEN, FOLLOWED_BY, Cursor(limit=9))) == 3
    async with opened(url) as (graph,):
        assert (await graph._service.get([LAYOUT]))[0]["version"] == {"N": "3"}


@in_loop
async def test_dynamodb_graph_table_of_newer_layout_opens_only_if_marked_readable() -> None:
    url = new_table()
    async with opened(url) as (graph,):
        (layout,) = await graph._service.get([LAYOUT])
        newer = {**layout, "version": {"N": "5"}}
        await graph._service.write("put_item", Item={**newer, "readable_from": {"N": "4"}})
    async with opened(url) as (graph,):
        await graph._service.write("put_item", Item=newer)
    with pytest.raises(Unavailable, match="this Shoal reads layout versions up to 4"):
        await DynamoGraph.open(url, patience=PATIENT_SECONDS)


# The outbox with several processes


async def emit(graph: DynamoGraph, *posts: int) -> None:
    for post in posts:
        batch = Batch(shard_of(ANN))
        batch.emit(PostCreated(post_id=post, author_id=ANN))
        await graph.commit(batch)


def posts_of(jobs: list[Any]) -> list[int]:
    return [job.event.post_id for job in jobs]


@in_loop
async def test_dynamodb_outbox_delivers_each_event_to_one_process() -> None:
    url = new_table()
    async with opened(url, url, url) as graphs:
        await asyncio.gather(*[emit(graph, *range(start, 60, 3)) for start, graph in enumerate(graphs)])
        given: list[int] = []
        while pages := [jobs for jobs in await asyncio.gather(*[g.claim(8, LONG) for g in graphs]) if jobs]:
            given += [post for jobs in pages for post in posts_of(jobs)]
        assert sorted(given) == list(range(60))


@in_loop
async def test_dynamodb_outbox_events_of_dead_process_are_redelivered_after_lease() -> None:
    url = new_table()
    async with opened(url) as (other,):
        dead = await DynamoGraph.open(url)
        await emit(dead, 1, 2)
        assert posts_of(await dead.claim(1, LONG)) == [1]
        assert posts_of(await dead.claim(1, 0.0)) == [2]
        await dead._service.close()  # like a killed process: its leases are not released
        given: list[int] = []

        async def all_given() -> list[int]:
            given.extend(posts_of(await other.claim(5, LONG)))
            return given

        await eventually(all_given, [2])


@in_loop
async def test_dynamodb_outbox_close_releases_own_leases_only() -> None:
    url = new_table()
    async with opened(url) as (other,):
        async with opened(url) as (first,):
            await emit(first, 1, 2)
            slow, quick = await first.claim(5, 0.0)
            assert posts_of(await other.claim(1, LONG)) == [1]
            await first.put_back(quick, LONG)
        assert posts_of(await other.claim(5, LONG)) == [2]
        assert posts_of([slow]) == [1]


@in_loop
async def test_dynamodb_outbox_finds_own_events_that_lagging_index_does_not_have_yet() -> None:
    async with scene() as (graph, behind, moods):
        moods.always = has_a_late_index
        await emit(behind, 1, 2)
        first, second = await behind.claim(5, LONG)
        await behind.put_back(second._replace(mark=7))
        await behind.ack([first])
        assert await behind.claim(5, LONG) == [second._replace(mark=7)]
        await behind.park(second, "no")
        assert await behind.unpark([second]) == 1
        await behind.ack(await behind.claim(5, LONG))
        assert await graph.backlog() == 0


@in_loop
async def test_dynamodb_outbox_skips_deleted_event_that_lagging_index_still_has() -> None:
    async with scene() as (graph, behind, moods):
        await emit(graph, 1, 2)
        doomed, _ = await graph.claim(5, 0.0)
        moods.next("UpdateItem", after(lambda: graph.ack([doomed])))
        assert posts_of(await behind.claim(5, LONG)) == [2]
        assert await behind.backlog() == 1


@in_loop
async def test_dynamodb_outbox_sequence_numbers_are_unique_across_processes() -> None:
    url = new_table()
    async with opened(url, url) as graphs:
        await asyncio.gather(*[emit(graph, *range(25)) for graph in graphs])
        jobs = await graphs[0].claim(100, LONG)
        assert len({job.seq for job in jobs}) == 50


@in_loop
async def test_dynamodb_graph_owning_some_shards_emits_pending_inverses_for_other_shards() -> None:
    graph = await DynamoGraph.open(new_table(), owns=lambda shard: source_of(shard) < 32)
    batch = Batch(shard_of(ANN))
    batch.assoc_add(ANN, FOLLOWS, BEN, moment(1))
    ((job, op),) = await graph.commit_owing(batch)
    assert job.event == InversePending(op=op)
    assert [row[:3] for row in await all_links(graph)] == [(ANN, FOLLOWS.number, BEN)]
    assert await graph.claim(5, LONG) == [job]
    await graph.close()


async def as_of_layout_2(graph: DynamoGraph) -> None:
    """Give each count an item of its own, as in layout 2."""
    service = graph._service
    for item in (await service.call("scan", TableName=service.table))["Items"]:
        if not item["sort"]["S"].startswith("counts#"):
            continue
        for pair, n in counts_in(item):
            address = single_count_at(pair)
            single = item_of(address, {"n": n}, count_spot(address, graph._spread))
            await service.write("put_item", Item=single)
        await service.write("delete_item", Key=address_of(item).item())
    (layout,) = await service.get([LAYOUT])
    await service.write("put_item", Item={**layout, "version": {"N": "2"}})


async def a_counted_world(graph: DynamoGraph) -> None:
    await a_small_world(graph)
    await begin(graph, ANN, LIKES, POST_OF_BEN, moment(3), aggregate_id=BEN)
    await begin(graph, ANN, BLOCKS, CYD, moment(1))
    await begin(graph, POST_OF_BEN, TAGGED, named("tag", "sea"), POST_OF_BEN)


@pytest.mark.parametrize("at_once", [2, 100])
@in_loop
async def test_dynamodb_graph_layout_2_table_is_upgraded_with_the_same_counts(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.graph.dynamodb.table._AT_ONCE", at_once)
    url = new_table()
    async with opened(url) as (graph,):
        await a_counted_world(graph)
        counts = await all_counts(graph)
        await as_of_layout_2(graph)
        assert await graph.assoc_count([BEN], [FOLLOWED_BY]) == {FOLLOWED_BY: {}}
    async with AsyncExitStack() as stack:
        # Two processes upgrade the table concurrently.
        for graph in await asyncio.gather(*(DynamoGraph.open(url, patience=PATIENT_SECONDS) for _ in range(2))):
            stack.push_async_callback(graph.close)
        assert await all_counts(graph) == counts
        assert await graph.assoc_count([BEN], [FOLLOWED_BY]) == {FOLLOWED_BY: {BEN: 2}}
        assert await broken_promises(graph) == []
        (layout,) = await graph._service.get([LAYOUT])
        assert layout == {**LAYOUT.item(), "version": {"N": "3"}, "spread": {"N": "2"}}


@in_loop
async def test_dynamodb_graph_interrupted_upgrade_hides_table_from_layout_2_and_is_finished_when_opened() -> None:
    url = new_table()
    async with opened(url) as (graph,):
        await a_counted_world(graph)
        counts = await all_counts(graph)
        await as_of_layout_2(graph)
    with pytest.MonkeyPatch.context() as patch:

        async def killed(*_: object) -> None:
            raise InterruptedError

        patch.setattr("shoal.graph.dynamodb.table._move_count", killed)
        with pytest.raises(InterruptedError):
            await DynamoGraph.open(url)
    async with opened(url) as (graph,):
        assert await all_counts(graph) == counts


@in_loop
async def test_dynamodb_graph_layout_upgrade_sets_new_version_before_converting_items() -> None:
    seen: list[tuple[object, object]] = []
    transact = Service.transact

    async def noting(service: Service, writes: Sequence[Mapping[str, Any]]) -> None:
        (layout,) = await service.get([LAYOUT])
        seen.append((layout["version"], layout["upgraded_from"]))
        await transact(service, writes)

    async with opened(new_table()) as (graph,):
        await a_counted_world(graph)
        await as_of_layout_2(graph)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Service, "transact", noting)
            await upgrade(graph._service, graph._spread, 2)
    assert seen
    assert all(versions == ({"N": "3"}, {"N": "2"}) for versions in seen)


@pytest.mark.parametrize("page", [1, 2, 1_000])
@in_loop
async def test_dynamodb_graph_count_scan_returns_each_count_once_on_every_page_size(page: int) -> None:
    async with opened(new_table()) as (graph,):
        await a_counted_world(graph)
        await graph.count_set(BEN, FOLLOWED_BY.number, 7)
        await graph.count_set(BEN, TAGGED.number, 9)
        rows = await all_counts(graph, page)
        assert rows == sorted(rows)
        found = {(id1, atype): n for id1, atype, n in rows}
        assert len(found) == len(rows)
        assert (found[BEN, FOLLOWED_BY.number], found[BEN, FOLLOWS.number], found[BEN, TAGGED.number]) == (7, 1, 9)
        assert found[POST_OF_BEN, COMMENTED_BY.number] == 2
