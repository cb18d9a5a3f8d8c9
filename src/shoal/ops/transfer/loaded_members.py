"""Members of an import into an empty network, written straight into the store.

Their ids follow from their positions in the file and from when the import began. So an import that was ended finds its members
again without asking, and begins anew what is not there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.commands import members
from shoal.commands.context import Limits
from shoal.core.credentials import Login
from shoal.core.errors import ShoalError, Taken
from shoal.core.ids import compose
from shoal.core.model import Member
from shoal.core.placement import place
from shoal.graph.bulk import KeyRow, Loading, LoadPart, Occupied
from shoal.graph.schema import encode_node, import_key, user_name_key
from shoal.ops.checking.report import Progress
from shoal.ops.network import AnyNetwork
from shoal.ops.transfer.imported_members import TWICE, bulk_keys, member_records
from shoal.ops.transfer.records import MemberRecord, NumberedRow
from shoal.ops.transfer.references import References
from shoal.ops.transfer.spools import RecordSpool
from shoal.ops.transfer.summary import Summary

PER_MS = 512
"""Members whose ids say the same millisecond: each has two, and there are 1,024 of a shard."""
_AT_ONCE = 20_000
_TAKEN = "Username has already been taken"
_SAME_ID = "an earlier record has this id"


class Newcomer(NamedTuple):
    """A member to be made, its login, and the name of its record in the store."""

    member: Member
    login: Login
    record: str


class LoadedMembers:
    """The members that the import is about, by their positions in the file."""

    def __init__(self, spool: RecordSpool[MemberRecord]) -> None:
        self.references = References()
        self.ids: NDArray[np.int64] = np.empty(0, np.int64)
        """The member at each position, 0 where there is none."""
        self.absent: dict[int, str] = {}
        """Names of records that were refused, by position."""
        self._spool = spool

    def __len__(self) -> int:
        return self._spool.count

    def read(self, lines: Iterable[NumberedRow], named: Mapping[str, str], summary: Summary) -> None:
        """Put the records aside, and learn who they are."""
        self._spool.fill(self._noted(member_records(lines, named, summary)))
        self.references.settle()
        self.ids = np.zeros(len(self), np.int64)

    def _noted(self, records: Iterable[MemberRecord]) -> Iterable[MemberRecord]:
        for record in records:
            self.references.add(record.id, record.name)
            yield record

    async def load(
        self,
        network: AnyNetwork,
        store: Loading,
        origin: str,
        since: int,
        first_posts: NDArray[np.int64],
        summary: Summary,
        progress: Progress,
    ) -> None:
        """Make those who are not there. `first_posts` says when each first posted (Unix ms), 0 for never."""
        start = 0
        for records in self._spool.blocks(_AT_ONCE):
            wanted = await asyncio.to_thread(
                partial(self._newcomers, records, start, origin, since, first_posts, network.writes.limits, summary)
            )
            await self._store(network, store, wanted, summary)
            start += len(records)
            progress("members", start, len(self))

    def _newcomers(
        self,
        records: Sequence[MemberRecord],
        start: int,
        origin: str,
        since: int,
        first_posts: NDArray[np.int64],
        limits: Limits,
        summary: Summary,
    ) -> dict[int, Newcomer]:
        found: dict[int, Newcomer] = {}
        firsts = first_posts[start : start + len(records)].tolist()
        for at, (record, first) in enumerate(zip(records, firsts, strict=True), start):
            if self.references.twice[at]:
                self._refuse(at, record.name, TWICE, summary)
                continue
            joined = min((moment for moment in (record.created_at, first) if moment > 0), default=0)
            name, note = record.display_name[: limits.display_name], record.note[: limits.note]
            try:
                made = members.imported(limits, _ids(at, since, record.name), record.name, name, note, joined)
            except ShoalError as error:
                self._refuse(at, record.name, str(error), summary)
                continue
            found[at] = Newcomer(*made, f"member:{origin}/{record.id}")
        return found

    def _refuse(self, at: int, name: str, reason: str, summary: Summary) -> None:
        self.absent[at] = name
        summary.refuse("members", name, reason)

    async def _store(
        self, network: AnyNetwork, store: Loading, wanted: Mapping[int, Newcomer], summary: Summary
    ) -> None:
        missing = wanted
        while missing:
            try:
                await store.load(await asyncio.to_thread(_part, list(missing.values())))
            except Occupied:
                known = await self._sorted_out(network, missing, summary)
                if not known:
                    # Two of them have the same id in the file, or somebody joins at this very moment.
                    await self._each(network, missing, summary)
                    return
                missing = {at: newcomer for at, newcomer in missing.items() if at not in known}
            else:
                break
        summary["members"].taken += len(missing)
        for at, newcomer in missing.items():
            self.ids[at] = newcomer.member.id

    async def _sorted_out(self, network: AnyNetwork, wanted: Mapping[int, Newcomer], summary: Summary) -> set[int]:
        """Return the positions of records that were made already, or that must be refused."""
        names = {at: user_name_key(newcomer.member.name) for at, newcomer in wanted.items()}
        records = {at: import_key(key.shard, wanted[at].record) for at, key in names.items()}
        owners = await bulk_keys(network, [*names.values(), *records.values()])
        known: set[int] = set()
        for at, newcomer in wanted.items():
            named, recorded = owners.get(names[at]), owners.get(records[at])
            if named is None and recorded is None:
                continue
            known.add(at)
            if named == recorded and named is not None:
                self.ids[at] = named
                summary["members"].there += 1
            else:
                self._refuse(at, newcomer.member.name, _TAKEN if named else _SAME_ID, summary)
        return known

    async def _each(self, network: AnyNetwork, wanted: Mapping[int, Newcomer], summary: Summary) -> None:
        """Register them one after the other, as an import does that is not in bulk."""
        for at, (member, _, record) in wanted.items():
            try:
                made = await members.register(
                    network.writes,
                    member.name,
                    display_name=member.display_name,
                    note=member.note,
                    created_at=member.dated,
                    reserved=True,
                    record=record,
                )
            except Taken as error:
                self._refuse(at, member.name, str(error), summary)
            else:
                self.ids[at] = made.id
                summary["members"].taken += 1


def _ids(at: int, since: int, name: str) -> tuple[int, int]:
    moment, shard, sequence = since + at // PER_MS, place(name).shard, 2 * (at % PER_MS)
    return compose(moment, shard, sequence), compose(moment, shard, sequence + 1)


def _part(newcomers: Sequence[Newcomer]) -> LoadPart:
    nodes = [node for newcomer in newcomers for node in (newcomer.member, newcomer.login)]
    keys = [
        KeyRow(space, name, newcomer.member.id, 0)
        for newcomer in newcomers
        for space, name in (("user_name", newcomer.member.name), ("import", newcomer.record))
    ]
    return LoadPart(sorted((node.id, node.version, encode_node(node)) for node in nodes), sorted(keys))
