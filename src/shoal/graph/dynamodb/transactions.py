"""The writes of a commit as one transaction: each item that the decision relied on must be unchanged since it was read.

The write of an item that the batch changes has this condition; an item that was only read gets a separate check. Counts are
incremented without a condition, because the write of the association that changes them has one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from shoal.core.errors import TooLarge
from shoal.graph.contract import Job
from shoal.graph.dynamodb.client import ITEM_BYTES, TRANSACTION_BYTES, TRANSACTION_ITEMS
from shoal.graph.dynamodb.items import (
    Chunk,
    Item,
    ItemKey,
    Pair,
    Value,
    attribute,
    chunk_item,
    count_at,
    count_name,
    count_spot,
    event_at,
    item_of,
    job_values,
    key_at,
    key_item,
    link_at,
    link_item,
    list_at,
    new_spot,
    object_at,
    object_item,
)
from shoal.graph.resolve import KeyName, Known, Resolution, StoredAssoc, Touched, Triple
from shoal.graph.schema import ASSOC_TYPES

WITH_LOG_ITEMS = TRANSACTION_ITEMS - 2
"""Maximum number of other items in a transaction that appends to the event log: it may close a chunk and create the next one."""

Write = Mapping[str, Mapping[str, Any]]
"""One operation of a transaction, such as `{"Put": {...}}`."""


class Condition(NamedTuple):
    expression: str
    names: Mapping[str, str]
    values: Mapping[str, Any]

    def parameters(self) -> dict[str, Any]:
        parameters: dict[str, Any] = {"ConditionExpression": self.expression, "ExpressionAttributeNames": self.names}
        return parameters | ({"ExpressionAttributeValues": self.values} if self.values else {})


ABSENT = Condition("attribute_not_exists(#ID)", {"#ID": "ID"}, {})
PRESENT = Condition("attribute_exists(#ID)", {"#ID": "ID"}, {})


def still(**values: Value) -> Condition:
    return Condition(
        " AND ".join(f"#{name} = :{name}" for name in values),
        {f"#{name}": name for name in values},
        {f":{name}": attribute(value) for name, value in values.items()},
    )


class Transaction:
    def __init__(self, table: str, spread: int) -> None:
        self._table = table
        self._spread = spread
        self.writes: list[Write] = []
        self.changes = False
        """Whether the transaction changes anything. If it only has checks, it need not be sent."""

    def commit(self, touched: Touched, before: Known, changes: Resolution, jobs: Sequence[Job]) -> None:
        self._objects(touched, before, changes)
        for name in touched.keys:
            self._key(name, before.keys.get(name), changes)
        for triple in touched.triples:
            self._link(triple, before.links.get(triple), changes.links.get(triple))
        for triple in touched.histories & changes.links.keys():
            self._link(triple, before.links.get(triple), changes.links[triple])
        self.count({Pair(*pair): by for pair, by in changes.counts.items() if by})
        for job in jobs:
            address, spot = event_at(job.seq, self._spread), new_spot(job.seq, self._spread)
            self.put(item_of(address, job_values(job), spot), ABSENT)

    def put(self, item: Item, condition: Condition | None = None) -> None:
        self._add("Put", {"Item": item}, condition)

    def delete(self, address: ItemKey, condition: Condition | None = None) -> None:
        self._add("Delete", {"Key": address.item()}, condition)

    def check(self, address: ItemKey, condition: Condition) -> None:
        self._add("ConditionCheck", {"Key": address.item()}, condition)

    def _add(self, kind: str, parameters: Mapping[str, Any], condition: Condition | None) -> None:
        conditions = condition.parameters() if condition else {}
        self.writes.append({kind: {"TableName": self._table, **parameters, **conditions}})
        self.changes = self.changes or kind != "ConditionCheck"

    def _objects(self, touched: Touched, before: Known, changes: Resolution) -> None:
        for id_ in touched.ids:
            version = before.versions.get(id_)
            stored = still(version=version) if version else ABSENT
            node = changes.objects.get(id_)
            if node is not None:
                self.put(object_item(node, self._spread), stored)
            elif id_ not in changes.objects:
                # The batch only requires that this object exists, so it may be edited concurrently.
                self.check(object_at(id_), PRESENT)
            elif version:
                self.delete(object_at(id_), stored)
            else:
                self.check(object_at(id_), ABSENT)

    def _key(self, name: KeyName, before: tuple[int, int] | None, changes: Resolution) -> None:
        stored = still(owner=before[0], until=before[1]) if before else ABSENT
        now = changes.keys.get(name)
        if now is not None:
            self.put(key_item(name, *now, self._spread), stored)
        elif name in changes.keys:
            self.delete(key_at(name), stored)
        else:
            self.check(key_at(name), stored)

    def _link(self, triple: Triple, before: StoredAssoc | None, now: StoredAssoc | None) -> None:
        stored = still(**before._asdict()) if before else ABSENT
        if now is None:
            self.check(link_at(triple), stored)
            return
        self.put(link_item(triple, now, spread=self._spread), stored)
        was_at, is_at = _entry(triple, before), _entry(triple, now)
        if was_at is not None and was_at != is_at:
            self.delete(was_at)
        if is_at is not None:
            self.put(item_of(is_at, {"data": now.data}))

    def rewrite_assoc(self, triple: Triple, link: StoredAssoc) -> None:
        self._link(triple, link, link)

    def count(self, changes: Mapping[Pair, int]) -> None:
        """Add `changes` to the stored counts, with one write for each item: an item may have several counts."""
        by_item: dict[ItemKey, dict[str, int]] = {}
        for pair, by in changes.items():
            by_item.setdefault(count_at(pair), {})[count_name(pair)] = by
        for address, counts in by_item.items():
            spot = count_spot(address, self._spread)
            values: dict[str, Value] = {**counts, "part": spot.part, "place": spot.place}
            self._add(
                "Update",
                {
                    "Key": address.item(),
                    "UpdateExpression": f"ADD {', '.join(f'#{name} :{name}' for name in counts)} "
                    "SET #part = :part, #place = :place",
                    "ExpressionAttributeNames": {f"#{name}": name for name in values},
                    "ExpressionAttributeValues": {f":{name}": attribute(value) for name, value in values.items()},
                },
                None,
            )

    def log(self, chunk: Chunk, number: int, entries: bytes, now: int) -> None:
        """Append entries to the open chunk of a lane of the event log. If it is full, close it and begin the next one with them."""
        if chunk.is_full:
            self.close_chunk(chunk, now, chunk_item(chunk.following._replace(n=number), entries))
            return
        self._update_open(
            chunk,
            "SET #entries = list_append(#entries, :entries) ADD #n :number",
            {"#entries": "entries"},
            {":entries": {"L": [attribute(entries)]}, ":number": attribute(number)},
        )

    def close_chunk(self, chunk: Chunk, now: int, following: Item) -> None:
        """Close the open chunk of a lane, and create the next one."""
        self._update_open(chunk, "SET #closed = :now", {}, {":now": attribute(now)})
        self.put(following, ABSENT)

    def close_old_chunk(self, chunk: Chunk, now: int) -> None:
        """Close the open chunk of a lane, in order to delete it, on the condition that it has no more entries than `chunk.n`."""
        number = attribute(chunk.n)
        values = {":now": attribute(now), ":n": number}
        self._update_open(chunk, "SET #closed = :now", {}, values, "#n = :n")
        self.put({**chunk_item(chunk.following), "previous": number}, ABSENT)

    def _update_open(
        self,
        chunk: Chunk,
        expression: str,
        names: Mapping[str, str],
        values: Mapping[str, Mapping[str, Any]],
        condition: str = "attribute_exists(#n)",
    ) -> None:
        parameters = {
            "Key": chunk.address.item(),
            "UpdateExpression": expression,
            "ConditionExpression": f"{condition} AND attribute_not_exists(#closed)",
            "ExpressionAttributeNames": {"#n": "n", "#closed": "closed", **names},
            "ExpressionAttributeValues": values,
        }
        self._add("Update", parameters, None)

    def check_size(self) -> None:
        check_number(len(self.writes))
        sizes = [sum(_bytes(item)) for item in self._items()]
        if max(sizes, default=0) > ITEM_BYTES:
            raise TooLarge(f"an item is too large for the store: at most {ITEM_BYTES // 1024} kB")
        if sum(sizes) > TRANSACTION_BYTES:
            raise TooLarge(
                f"the transaction is too large for the store: at most {TRANSACTION_BYTES // 1024 // 1024} MB"
            )

    def _items(self) -> Iterator[Item]:
        for write in self.writes:
            for parameters in write.values():
                values: Mapping[str, Any] = parameters.get("ExpressionAttributeValues", {})
                yield {**parameters.get("Item", {}), **parameters.get("Key", {}), **values}


def _entry(triple: Triple, link: StoredAssoc | None) -> ItemKey | None:
    """Return the key of the list entry for an association or tombstone; None if no list contains it."""
    if link is None or not (link.alive or ASSOC_TYPES[triple[1]].ended_listed):
        return None
    return list_at(triple, link.time, alive=link.alive)


def check_number(items: int, limit: int = TRANSACTION_ITEMS) -> None:
    if items > limit:
        raise TooLarge(f"the transaction has too many items for the store: at most {limit} (got {items})")


def _bytes(item: Item) -> Iterator[int]:
    """Yield the estimated size of each attribute in bytes, which is never below the actual size."""
    for name, typed in item.items():
        ((_, value),) = typed.items()
        yield len(name.encode()) + _length(value)


def _length(value: bool | str | bytes | list[Mapping[str, Any]]) -> int:
    if isinstance(value, bool):
        return 1
    if isinstance(value, list):
        return sum(1 + _length(element) for typed in value for element in typed.values())
    return len(value.encode() if isinstance(value, str) else value)
