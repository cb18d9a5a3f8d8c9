"""Home timelines on DynamoDB: write units and requests per delivered entry, and the cost of a home page of a new process.

A delivery adds a post to the timeline of one follower. Posts are pushed one after the other, and then by several authors with the
same followers at once. For comparison, the same deliveries are written as one item per entry and follower, 25 items per request
(`raw engine`). Capacity is what DynamoDB Local reports, except for writes (`meter_writes`).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from botocore.exceptions import ClientError

from benchmarks.dynamodb_queries import fill
from benchmarks.measure import Report, parser, workplace
from shoal import Shoal
from shoal.app.network import open_network
from shoal.core.ids import IdMaker
from shoal.graph.cache.cached_graph import CachedGraph
from shoal.graph.contract import Cursor
from shoal.graph.dynamodb.client import Capacity, Service
from shoal.graph.dynamodb.items import attribute
from shoal.settings import build
from shoal.timelines.dynamodb import DynamoTimelines
from shoal_devcluster import dynamodb

_CREDENTIALS = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench"}
"""DynamoDB Local accepts any credentials."""
_LENGTH = 800
_IDLE_SECONDS = 14 * 86_400
_AT_ONCE = 25


def meter_writes(timelines: DynamoTimelines) -> None:
    """Count write units as DynamoDB does, where DynamoDB Local reports them differently.

    It reports none for statements, so each statement is executed as the `UpdateItem` that it stands for; a refused write costs a
    unit. It reports four units per kilobyte of a transaction instead of two.
    """
    service = timelines.service
    call = service.call

    async def counted(operation: str, **parameters: Any) -> dict[str, Any]:
        if operation == "transact_write_items":
            answer = await call(operation, **parameters)
            service.capacity.writes -= sum(part["CapacityUnits"] for part in answer["ConsumedCapacity"]) / 2
            return answer
        if operation != "batch_execute_statement":
            return await call(operation, **parameters)
        found = await asyncio.gather(*(_update(service, one["Parameters"]) for one in parameters["Statements"]))
        service.capacity.add(operation, {"ConsumedCapacity": [{"CapacityUnits": units} for units, _ in found]})
        return {"Responses": [response for _, response in found]}

    service.call = counted  # type: ignore[method-assign]


async def _update(service: Service, parameters: Sequence[Any]) -> tuple[float, dict[str, Any]]:
    """Return the write units of a push to one timeline, and its response."""
    ids, member, now, lowest, most = parameters
    try:
        answer = await service._client.update_item(
            TableName=service.table,
            Key={"ID": member, "sort": attribute("head")},
            UpdateExpression="ADD ids :ids",
            ConditionExpression="#until > :now AND #floor < :lowest AND size(ids) <= :most",
            ExpressionAttributeNames={"#until": "until", "#floor": "floor"},
            ExpressionAttributeValues={":ids": ids, ":now": now, ":lowest": lowest, ":most": most},
            ReturnConsumedCapacity="TOTAL",
        )
    except ClientError as error:
        return 1.0, {"Error": {"Code": error.response["Error"]["Code"]}}
    return answer["ConsumedCapacity"]["CapacityUnits"], {}


class _Meter:
    def __init__(self, spent: Capacity) -> None:
        self._spent = spent
        self._before = (spent.writes, spent.reads, spent.requests.total())

    def each(self, deliveries: int) -> tuple[float, float, float]:
        writes, reads, requests = self._before
        spent = self._spent
        found = (spent.writes - writes, spent.reads - reads, spent.requests.total() - requests)
        return found[0] / deliveries, found[1] / deliveries, found[2] / deliveries


async def _one_item_per_entry(timelines: DynamoTimelines, entries: Sequence[int], members: Sequence[int]) -> None:
    """Write the deliveries as the article does, without any read or bound."""
    for entry in entries:
        for first in range(0, len(members), _AT_ONCE):
            puts = [
                {"PutRequest": {"Item": {"ID": attribute(f"raw#{member}"), "sort": attribute(f"{entry:019d}")}}}
                for member in members[first : first + _AT_ONCE]
            ]
            await timelines.service.call(
                "batch_write_item", RequestItems={timelines.service.table: puts}, ReturnConsumedCapacity="TOTAL"
            )


async def deliveries(url: str, followers: int, posts: int, authors: int, report: Report) -> None:
    timelines = await DynamoTimelines.open(url, _LENGTH, idle_seconds=_IDLE_SECONDS)
    try:
        new_id = IdMaker()
        members = [new_id(0) for _ in range(followers)]
        cold = [new_id(0) for _ in range(followers)]
        older = [new_id(0) for _ in range(_LENGTH)]
        for member in members:
            await timelines.create(member)
            await timelines.fill(member, older, 0)
        meter_writes(timelines)
        spent, slots = timelines.service.capacity, timelines.slots(members)

        entries = [new_id(0) for _ in range(posts)]
        meter = _Meter(spent)
        written = sum([await timelines.push(entry, slots) for entry in entries])
        one_by_one = meter.each(posts * followers)
        meter = _Meter(spent)
        await _one_item_per_entry(timelines, entries, members)
        raw = meter.each(posts * followers)
        report.add("one post at a time: write units per delivery", one_by_one[0], raw=raw[0])
        report.add("one post at a time: read units per delivery", one_by_one[1])
        report.add("one post at a time: requests per delivery", one_by_one[2], raw=raw[2])
        report.check("one post at a time: deliveries", written, posts * followers)

        together = [new_id(0) for _ in range(posts)]
        meter = _Meter(spent)
        written = 0
        for first in range(0, posts, authors):
            written += sum(
                await asyncio.gather(*(timelines.push(entry, slots) for entry in together[first : first + authors]))
            )
        report.add(f"{authors} posts at once: write units per delivery", meter.each(posts * followers)[0], raw=raw[0])
        report.add(f"{authors} posts at once: requests per delivery", meter.each(posts * followers)[2], raw=raw[2])
        report.check(f"{authors} posts at once: deliveries", written, posts * followers)

        await timelines.push(new_id(0), timelines.slots(cold))
        meter = _Meter(spent)
        taken = sum([await timelines.push(new_id(0), timelines.slots(cold)) for _ in range(4)])
        of_cold = meter.each(4 * followers)
        report.add("to followers without a timeline: write units per delivery", of_cold[0], raw=raw[0])
        report.check("to followers without a timeline: deliveries", taken, 0)

        meter = _Meter(spent)
        for entry in together[-4:]:
            await timelines.remove(entry, slots)
        removed = meter.each(4 * followers)
        report.add("deletion: write units per timeline", removed[0], raw=1)
        report.add("deletion: read units per timeline", removed[1])

        meter = _Meter(spent)
        found = await timelines.read(members[0], Cursor(limit=_LENGTH))
        read = meter.each(1)
        report.add("reading a timeline: read units", read[1])
        report.add("reading a timeline: requests", read[2], raw=1)
        kept = np.array([*older, *entries, *together[:-4]])[-_LENGTH:]
        report.check("newest entry of a timeline", found.ids[0] if found else 0, int(kept[-1]))
    finally:
        await timelines.close()


async def home(store: str, url: str, people: int, report: Report) -> None:
    """Request a home page in a new process, from a timeline that another process has written."""
    filled = await fill(store, people)
    settings = build(store=store, timelines=url, media="memory://", rate_limits=False, run_consequences=False)
    for rebuilt in (True, False):
        async with open_network(settings) as network:
            graph, timelines = network.store, network.timelines
            assert isinstance(graph, CachedGraph)
            assert isinstance(timelines, DynamoTimelines)
            reader = await Shoal(network).member(filled.reader)
            graph_spent: Capacity = graph._store.capacity  # type: ignore[attr-defined]
            meters = (_Meter(graph_spent), _Meter(timelines.service.capacity))
            page = await reader.home()
            units, requests = (sum(meter.each(1)[at] for meter in meters) for at in (1, 2))
            name = "home that has to be rebuilt" if rebuilt else "home, cold"
            report.add(f"{name}: requests", requests, raw=1)
            report.add(f"{name}: read units", units)
            report.check(f"{name}: posts on the page", len(page.entries), min(people + 2, 20))


def main() -> None:
    sizes = {"followers": 25, "posts": 320, "authors": 16, "people": 30}
    options = parser(
        __doc__,
        quick={**sizes, "posts": 160},
        smallest={"followers": 3, "posts": 84, "authors": 4, "people": 5},
    )
    options.add_argument(
        "--followers", type=int, default=sizes["followers"], help="number of timelines to which each post is pushed"
    )
    options.add_argument("--posts", type=int, default=sizes["posts"], help="number of pushed posts")
    options.add_argument("--authors", type=int, default=sizes["authors"], help="number of posts pushed concurrently")
    options.add_argument(
        "--people", type=int, default=sizes["people"], help="number of members whose posts are on the home page"
    )
    chosen = options.parse_args()
    report = Report("dynamodb_timelines", chosen.size)
    os.environ.update(_CREDENTIALS)
    with workplace(None) as place:
        server = dynamodb.start(place / "dynamodb", durable=False)
        try:
            table = f"?region=local&endpoint={server.url}"
            asyncio.run(deliveries(f"dynamodb://pushed{table}", chosen.followers, chosen.posts, chosen.authors, report))
            asyncio.run(home(f"dynamodb://shoal{table}", f"dynamodb://timelines{table}", chosen.people, report))
        finally:
            server.stop()
    report.show()


if __name__ == "__main__":
    main()
