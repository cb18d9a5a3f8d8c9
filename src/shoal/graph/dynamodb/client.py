"""DynamoDB requests: the store URL, retries, condition failures, and consumed capacity.

The retries of the client library are off, so that every pause has full jitter, is bounded, and is counted. A retried request is
identical, including its token, so a request whose response was lost takes effect once.
"""

from __future__ import annotations

import asyncio
import functools
import random
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from socket import gaierror
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from aiobotocore.config import AioConfig
from aiobotocore.session import AioSession, get_session
from aiohttp import ClientConnectorError
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    EndpointConnectionError,
    HTTPClientError,
    NoCredentialsError,
    NoRegionError,
)
from botocore.exceptions import ConnectionError as CutOff

from shoal.core.errors import InvalidInput, OutcomeUnknown, ShoalError, Unavailable
from shoal.graph.connection_errors import MisconfiguredEngine, UnreachableEngine, is_lasting, read_authorities, why
from shoal.graph.dynamodb.items import INDEX, Item, ItemKey
from shoal.graph.dynamodb.point_reads import READ_AT_ONCE, PointReads
from shoal.observability.tracing import timed

SPREAD = 8
"""Default number of partitions per kind of item in the index, for its throughput: a partition takes 1,000 writes per second."""
_LARGEST_SPREAD = 64


class TableLocation(NamedTuple):
    table: str
    region: str | None
    endpoint: str | None
    spread: int
    cafile: str | None = None
    """A PEM file of certificates to trust instead of the system's."""


def parse(url: str) -> TableLocation:
    """Parse `dynamodb://table?region=...&endpoint=...&spread=...&cafile=...`. Raises `InvalidInput` for any other URL."""
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query))
    if (
        parts.scheme != "dynamodb"
        or not parts.netloc
        or parts.path.strip("/")
        or options.keys() - TableLocation._fields
    ):
        raise InvalidInput("expected dynamodb://table?region=...&endpoint=...&spread=...&cafile=...")
    spread = options.get("spread", str(SPREAD))
    if not spread.isdecimal() or not 1 <= int(spread) <= _LARGEST_SPREAD:
        raise InvalidInput(f"the URL option spread must be a number from 1 to {_LARGEST_SPREAD}")
    # Use `netloc` below: `hostname` is in lower case, but table names are case-sensitive.
    cafile = options.get("cafile")
    if cafile is not None:
        read_authorities(cafile, "store")
    return TableLocation(parts.netloc, options.get("region"), options.get("endpoint"), int(spread), cafile)


WRITE_AT_ONCE = 25
"""Maximum number of items in one write request outside transactions."""
TRANSACTION_ITEMS = 100
TRANSACTION_BYTES = 4 * 1024 * 1024
ITEM_BYTES = 400 * 1024

_SIDE_BY_SIDE = 64
_PAGE = 10_000
"""Maximum limit in a query, because the service rejects large numbers. It ends a page at 1 MB anyway."""
_FIRST_PAUSE = 0.025
_LONGEST_PAUSE = 1.0
_CONNECT_SECONDS = 2.0
_ANSWER_SECONDS = 5.0

_BUSY = {
    "ProvisionedThroughputExceededException",
    "ProvisionedThroughputExceeded",
    "ThrottlingException",
    "ThrottlingError",
    "Throttling",
    "RequestLimitExceeded",
    "LimitExceededException",
}
_IN_PROGRESS = "TransactionInProgressException"
_PASSING = {
    "TransactionConflictException",
    _IN_PROGRESS,
    "InternalServerError",
    "ServiceUnavailable",
}
_REFUSED = {
    "AccessDeniedException",
    "UnrecognizedClientException",
    "ExpiredTokenException",
    "InvalidSignatureException",
}


_CHANGES = {"transact_write_items", "batch_write_item", "put_item", "update_item", "delete_item", "create_table"}
UNANSWERED = "the store did not respond: the change may or may not have been stored"


class ConditionFailed(Exception):
    """The condition of a request is false for the stored item."""


class TransactionOvertaken(Exception):
    """Another transaction changed, or is changing, an item of this transaction. The caller has to read and decide again.

    `unknown` means that an earlier attempt got no response, and may still be executed. `cause` is for `Capacity.retries`.
    """

    unknown = False

    def __init__(self, cause: str = "TransactionOvertaken") -> None:
        super().__init__(cause)
        self.cause = cause


class Spent(NamedTuple):
    """The cost of a request in capacity units. The service does not report the cost of a request whose condition failed."""

    operation: str
    reads: float
    writes: float


class Capacity:
    def __init__(self) -> None:
        self.reads = 0.0
        self.writes = 0.0
        self.requests: Counter[str] = Counter()
        """Number of answered requests, by operation."""
        self.retries: Counter[str] = Counter()
        """Number of retries by cause: the service's error code, the client's error, or `TransactionOvertaken`."""
        self.last: Spent | None = None
        self.on_request: Callable[[Spent], None] | None = None
        """Called after each request, on the event loop."""

    def add(self, operation: str, answer: Mapping[str, Any]) -> None:
        consumed = answer.get("ConsumedCapacity") or []
        units = sum(part.get("CapacityUnits", 0.0) for part in ([consumed] if isinstance(consumed, dict) else consumed))
        reading = operation in {"query", "batch_get_item", "get_item", "scan"}
        spent = Spent(operation, units if reading else 0.0, 0.0 if reading else units)
        self.reads += spent.reads
        self.writes += spent.writes
        self.requests[operation] += 1
        self.last = spent
        if self.on_request is not None:
            self.on_request(spent)


class Backoff:
    """Exponential backoff with full jitter. It gives up after `seconds`, all waits and attempts together."""

    def __init__(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds
        self._longest = _FIRST_PAUSE

    @property
    def left(self) -> float:
        """Seconds until it gives up."""
        return self._deadline - time.monotonic()

    async def pause(self, error: BaseException | None = None, *, unknown: bool = False) -> None:
        """Wait before the next attempt.

        If the total time is exceeded, raises `Unavailable` or, if an attempt may have taken effect (`unknown`),
        `OutcomeUnknown`.
        """
        delay = random.uniform(0.0, self._longest)  # noqa: S311  # no secret, only a spread
        self._longest = min(2 * self._longest, _LONGEST_PAUSE)
        if delay > self.left:
            if unknown:
                raise OutcomeUnknown(UNANSWERED) from error
            raise Unavailable("the store is overloaded; try again in a moment") from error
        await asyncio.sleep(delay)


@functools.cache
def _session() -> AioSession:
    """Return the botocore session. It is created once, because loading the description of the service is slow."""
    return get_session()


class Service:
    def __init__(self, client: Any, table: str, patience: float, stack: AsyncExitStack) -> None:
        self.table = table
        self.capacity = Capacity()
        self.patience = patience
        """Number of seconds for which a request is retried."""
        self._client = client
        self._stack = stack
        self._places = asyncio.Semaphore(_SIDE_BY_SIDE)
        self._point_reads = PointReads(partial(self._get, attributes=()))

    @classmethod
    async def connect(cls, location: TableLocation, *, patience: float) -> Service:
        """Connect with the credentials in the environment. Raises `Unavailable` for an invalid region or endpoint."""
        config = AioConfig(
            connect_timeout=_CONNECT_SECONDS,
            read_timeout=_ANSWER_SECONDS,
            max_pool_connections=_SIDE_BY_SIDE,
            retries={"mode": "standard", "total_max_attempts": 1},
        )
        stack = AsyncExitStack()
        try:
            making = _session().create_client(
                "dynamodb",
                region_name=location.region,
                endpoint_url=location.endpoint,
                verify=location.cafile,
                config=config,
            )
            client = await stack.enter_async_context(making)
        except (NoRegionError, ValueError) as error:
            raise Unavailable(f"cannot open the store {location.table}: {error}") from error
        return cls(client, location.table, patience, stack)

    async def close(self) -> None:
        await self._point_reads.close()
        await self._stack.aclose()

    async def call(self, operation: str, *, waits: bool = True, **parameters: Any) -> dict[str, Any]:
        """Send a request, and retry it while the service is busy or unreachable. Other errors of the service are raised.

        Raises:
            ConditionFailed: The condition of the request is false.
            TransactionOvertaken: The transaction conflicts with another one, or the service is busy and `waits` is false.
            Unavailable: All retries failed.
            OutcomeUnknown: All retries failed, and a change was sent that got no response.
        """
        return await timed("dynamodb", operation, self._called(operation, parameters, waits=waits))

    async def _called(self, operation: str, parameters: Mapping[str, Any], *, waits: bool) -> dict[str, Any]:
        patience, unknown = Backoff(self.patience), False
        while True:
            try:
                async with self._places:
                    answer: dict[str, Any] = await getattr(self._client, operation)(**parameters)
            except (ClientError, BotoCoreError) as error:
                unknown = unknown or (operation in _CHANGES and _is_unanswered(error))
                try:
                    cause = _passing(error)
                except TransactionOvertaken as overtaken:
                    overtaken.unknown = unknown
                    raise
                if cause in _BUSY and not (waits or unknown):
                    raise TransactionOvertaken(cause) from error
                self.capacity.retries[cause] += 1
                await patience.pause(error, unknown=unknown)
            else:
                self.capacity.add(operation, answer)
                return answer

    async def get(self, addresses: Sequence[ItemKey], *attributes: str) -> list[Item]:
        """Return the items that exist at these addresses, by consistent reads, in no particular order.

        If `attributes` are given, the items have only these and the keys. Otherwise they have all attributes, and concurrent reads
        are joined.
        """
        if not attributes:
            return await self._point_reads.get(addresses)
        distinct = list(dict.fromkeys(addresses))
        parts = [distinct[start : start + READ_AT_ONCE] for start in range(0, len(distinct), READ_AT_ONCE)]
        answers = await asyncio.gather(*[self._get(part, attributes) for part in parts])
        return [item for answer in answers for item in answer]

    async def _get(self, addresses: Sequence[ItemKey], attributes: Sequence[str]) -> list[Item]:
        request: dict[str, Any] = {"Keys": [address.item() for address in addresses], "ConsistentRead": True}
        if attributes:
            names = ("ID", "sort", *attributes)
            request["ProjectionExpression"] = ", ".join(f"#{name}" for name in names)
            request["ExpressionAttributeNames"] = {f"#{name}": name for name in names}
        asked, items, patience = {self.table: request}, list[Item](), Backoff(self.patience)
        while True:
            answer = await self.call("batch_get_item", RequestItems=asked, ReturnConsumedCapacity="TOTAL")
            items += answer["Responses"].get(self.table, [])
            if not (asked := answer.get("UnprocessedKeys") or {}):
                return items
            await patience.pause()

    async def stretch(self, first: ItemKey, last: ItemKey, limit: int, *, newest_first: bool = False) -> list[Item]:
        """Return up to `limit` items of one partition, with sort keys from `first` to `last`, by a consistent read."""
        between = _between("ID", first.id, "sort", first.sort, last.sort)
        answers = await self._query(limit, **between, ScanIndexForward=not newest_first, ConsistentRead=True)
        return [item for answer in answers for item in answer["Items"]]

    async def index(self, part: str, above: str, upto: str, limit: int) -> list[Item]:
        """Return up to `limit` item keys of one partition of the index, with sort keys from `above` to `upto`, in order.

        The index is eventually consistent.
        """
        answers = await self._query(limit, **_between("part", part, "place", above, upto), IndexName=INDEX)
        return [item for answer in answers for item in answer["Items"]]

    async def number(self, first: ItemKey, last: ItemKey) -> int:
        """Return the number of items of one partition between two keys, inclusive. Costs as much as reading them."""
        between = _between("ID", first.id, "sort", first.sort, last.sort)
        answers = await self._query(None, **between, Select="COUNT", ConsistentRead=True)
        return sum(answer["Count"] for answer in answers)

    async def _query(self, limit: int | None, **parameters: Any) -> list[dict[str, Any]]:
        """Query page after page, because the service ends a page at 1 MB even if it has fewer than `limit` items."""
        answers: list[dict[str, Any]] = []
        while limit is None or limit > 0:
            if limit is not None:
                parameters["Limit"] = min(limit, _PAGE)
            answer = await self.call("query", TableName=self.table, ReturnConsumedCapacity="TOTAL", **parameters)
            answers.append(answer)
            if "LastEvaluatedKey" not in answer:
                break
            parameters["ExclusiveStartKey"] = answer["LastEvaluatedKey"]
            if limit is not None:
                limit -= len(answer["Items"])
        return answers

    async def transact(self, writes: Sequence[Mapping[str, Any]], *, waits: bool = True) -> None:
        """Send a transaction.

        If the service is busy, it is sent again after a pause, or `TransactionOvertaken` is raised if `waits` is false. If it got
        no response, it is sent again in any case: the service recognizes it, and executes it once.
        """
        await self.call(
            "transact_write_items",
            waits=waits,
            TransactItems=list(writes),
            ClientRequestToken=uuid.uuid4().hex,
            ReturnConsumedCapacity="TOTAL",
        )

    async def write(self, operation: str, **parameters: Any) -> Item:
        """Change one item, and return its new state if `operation` asks for it."""
        answer = await self.call(operation, TableName=self.table, ReturnConsumedCapacity="TOTAL", **parameters)
        item: Item = answer.get("Attributes", {})
        return item

    async def forget(self, addresses: Sequence[ItemKey]) -> None:
        parts = [addresses[start : start + WRITE_AT_ONCE] for start in range(0, len(addresses), WRITE_AT_ONCE)]
        await asyncio.gather(*[self._forget(part) for part in parts])

    async def _forget(self, addresses: Sequence[ItemKey]) -> None:
        asked = {self.table: [{"DeleteRequest": {"Key": address.item()}} for address in addresses]}
        patience = Backoff(self.patience)
        while True:
            answer = await self.call("batch_write_item", RequestItems=asked, ReturnConsumedCapacity="TOTAL")
            if not (asked := answer.get("UnprocessedItems") or {}):
                return
            await patience.pause()


def _between(partition: str, value: str, sort: str, low: str, high: str) -> dict[str, Any]:
    return {
        "KeyConditionExpression": "#p = :p AND #s BETWEEN :low AND :high",
        "ExpressionAttributeNames": {"#p": partition, "#s": sort},
        "ExpressionAttributeValues": {":p": {"S": value}, ":low": {"S": low}, ":high": {"S": high}},
    }


def _is_unanswered(error: ClientError | BotoCoreError) -> bool:
    """Return whether the failed request may have been executed: it was sent, and the service did not reject it."""
    if isinstance(error, ClientError):
        return error.response["ResponseMetadata"]["HTTPStatusCode"] >= 500 or _code(error) == _IN_PROGRESS
    if isinstance(error, EndpointConnectionError):
        # botocore raises this error also if a connection is reset after the request was sent.
        return not isinstance(error.__context__, ClientConnectorError | gaierror)
    return isinstance(error, HTTPClientError)


def _code(error: ClientError) -> str:
    return str(error.response["Error"]["Code"])


def _passing(error: ClientError | BotoCoreError) -> str:
    """Return the error code or class name of a retryable error, for the log.

    Raise any other error, as a Shoal error if there is one.
    """
    if is_lasting(error):
        raise MisconfiguredEngine("the store is misconfigured") from UnreachableEngine(why(error))
    if isinstance(error, HTTPClientError | CutOff):
        return type(error).__name__
    if isinstance(error, NoCredentialsError):
        raise Unavailable(
            "no AWS credentials in the environment: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        ) from error
    if not isinstance(error, ClientError):
        raise ShoalError("querying the store failed") from error
    code = _code(error)
    if code == "ConditionalCheckFailedException":
        raise ConditionFailed from error
    if code == "TransactionCanceledException":
        return _cancelled(error)
    if code in _REFUSED:
        raise Unavailable("the store rejected the credentials") from error
    if code in _BUSY | _PASSING or error.response["ResponseMetadata"]["HTTPStatusCode"] >= 500:
        return code
    raise error


def _cancelled(error: ClientError) -> str:
    """Return the reason of a canceled transaction if it is throttling, so that the transaction can be sent again.

    For any other reason an error is raised, so that the caller reads the items and evaluates the commit again.
    """
    reasons: set[str] = {reason.get("Code", "None") for reason in error.response.get("CancellationReasons", [])} - {
        "None"
    }
    if reasons & {"ConditionalCheckFailed", "TransactionConflict"}:
        raise TransactionOvertaken from error
    if reasons and reasons <= _BUSY:
        return min(reasons)
    raise error
