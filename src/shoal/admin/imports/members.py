"""Members of an import: registered through `shoal.commands`, or written directly into an empty store.

References to members take 24 bytes each. They are 64-bit hashes with a key that is random in each process: the probability
that two of ten million members have equal hashes is 3e-6. In a bulk import, ids are computed from positions in the file and the
start time of the import, so an interrupted import finds its members again without lookups and creates the missing ones.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal.admin.consistency.scan import column
from shoal.admin.contract import AnyNetwork
from shoal.admin.imports.files import RecordSpool
from shoal.admin.imports.records import MemberRecord, NumberedRow, Summary, member_record, readable_rows
from shoal.admin.report import Progress
from shoal.admin.throttling import run_bounded
from shoal.commands import members
from shoal.commands.context import Limits
from shoal.core.credentials import Login
from shoal.core.errors import InvalidInput, ShoalError, Unavailable
from shoal.core.ids import compose
from shoal.core.model import Member
from shoal.core.placement import place
from shoal.core.text import check_user_name
from shoal.graph.bulk import KeyRow, Loading, LoadPart, Occupied
from shoal.graph.schema import Key, encode_node, import_key, user_name_key

TWICE = "an earlier record has this name"
_KEYS_AT_ONCE = 256
_REGISTERED_AT_ONCE = 256


def as_name(reference: str) -> str:
    return reference.lower().replace("-", "_")


def member_records(lines: Iterable[NumberedRow], named: Mapping[str, str], summary: Summary) -> Iterator[MemberRecord]:
    """Iterate over the records with valid names, in file order. Names may occur repeatedly."""
    for fields, line in readable_rows("members", lines, named, summary):
        try:
            record = member_record(fields, line)
            check_user_name(record.name, reserved=True)
        except InvalidInput as error:
            summary.refuse("members", fields.text(line.row, "name") or f"line {line.number}", str(error))
            continue
        yield record


async def bulk_keys(network: AnyNetwork, keys: Sequence[Key]) -> dict[Key, int]:
    found: dict[Key, int] = {}
    for start in range(0, len(keys), _KEYS_AT_ONCE):
        found |= await network.store.key_get(keys[start : start + _KEYS_AT_ONCE])
    return found


Positions = NDArray[np.int64]


class _Index(NamedTuple):
    """Sorted hashes of ids or names, each with the position of the member in the file."""

    hashes: NDArray[np.int64]
    positions: NDArray[np.int32]

    def find(self, candidates: NDArray[np.int64]) -> Positions:
        """Return the position of the member with each hash; -1 for an unknown hash.

        Of several members with one hash, the last is found.
        """
        found = np.full(len(candidates), -1, np.int64)
        if len(self.hashes):
            # Look the hashes up in order: accesses to nearby memory take a third of the time.
            order = np.argsort(candidates)
            ascending = candidates[order]
            at = np.maximum(np.searchsorted(self.hashes, ascending, side="right") - 1, 0)
            found[order] = np.where(self.hashes[at] == ascending, self.positions[at], -1)
        return found


class References:
    """Finds the positions of members by their id in the file or their user name. First `add` all members, then call `settle`."""

    def __init__(self) -> None:
        self._added = (array("q"), array("q"))
        self.twice: NDArray[np.bool_] = np.empty(0, np.bool_)
        """For each position, whether the record is ignored because an earlier record has the same name."""

    def __len__(self) -> int:
        return len(self.twice)

    def add(self, id_: str, name: str) -> None:
        ids, names = self._added
        ids.append(hash(id_))
        names.append(hash(name))

    def settle(self) -> None:
        ids, names = map(column, self._added)
        order = np.argsort(names, kind="stable")
        again = np.nonzero(names[order[1:]] == names[order[:-1]])[0] + 1
        self.twice = np.zeros(len(names), np.bool_)
        self.twice[order[again]] = True
        self._by_name = _index(names, order[~self.twice[order]])
        order = np.argsort(ids, kind="stable")
        self._by_id = _index(ids, order[~self.twice[order]])
        del self._added

    def find(self, references: Sequence[str]) -> Positions:
        """Return the position of the member that each reference names; -1 for an unknown reference."""
        found = self._by_id.find(_hashes(references))
        unknown = np.nonzero(found < 0)[0]
        if len(unknown):
            found[unknown] = self._by_name.find(_hashes([as_name(references[at]) for at in unknown.tolist()]))
        return found


def _index(hashes: NDArray[np.int64], order: NDArray[np.int64]) -> _Index:
    return _Index(hashes[order], order.astype(np.int32))


def _hashes(texts: Sequence[str]) -> NDArray[np.int64]:
    return np.fromiter(map(hash, texts), np.int64, len(texts))


PER_MS = 512
"""Number of members that get ids of the same millisecond. Each takes two of the 1,024 ids that a shard has in a millisecond."""
_AT_ONCE = 20_000
_TAKEN = "Username has already been taken"
_SAME_ID = "an earlier record has this id"


class _Job(NamedTuple):
    """A member to register: the record, its position, and the unique name by which later imports recognize the record."""

    at: int
    record: MemberRecord
    name: str


class NewMember(NamedTuple):
    member: Member
    login: Login
    record: str


class ImportedMembers:
    def __init__(self, spool: RecordSpool[MemberRecord]) -> None:
        self.references = References()
        self.ids: NDArray[np.int64] = np.empty(0, np.int64)
        """The member id at each position; 0 without a member."""
        self.names: list[str] = []
        """The user name at each position, if members are registered one by one."""
        self.absent: dict[int, str] = {}
        """Names of rejected records, by position."""
        self._spool = spool

    def __len__(self) -> int:
        return len(self.references)

    def read(self, lines: Iterable[NumberedRow], named: Mapping[str, str], summary: Summary) -> None:
        self._spool.fill(self._indexed(member_records(lines, named, summary)))
        self.references.settle()
        self.ids = np.zeros(len(self), np.int64)

    def _indexed(self, records: Iterable[MemberRecord]) -> Iterator[MemberRecord]:
        for record in records:
            self.references.add(record.id, record.name)
            yield record

    async def find_existing(self, network: AnyNetwork, names: Iterable[str]) -> None:
        """Find the members of the network with these user names, for an import without a file of members."""
        keys = list(dict.fromkeys(user_name_key(as_name(name)) for name in names))
        owners = await bulk_keys(network, keys)
        existing = [key for key in keys if key in owners]
        for key in existing:
            self.references.add(key.name, key.name)
        self.references.settle()
        self.ids = np.array([owners[key] for key in existing], np.int64)

    async def register(
        self,
        network: AnyNetwork,
        origin: str,
        first_posts: NDArray[np.int64],
        summary: Summary,
        progress: Progress,
        patience: float,
    ) -> None:
        """Create missing members one by one. `first_posts` has the time of each member's first post (Unix ms); 0 without a post.

        An unavailable store is retried for `patience` seconds.
        """
        start = 0

        def report_progress(done: int) -> None:
            progress("members", start + done, len(self))

        async def create(job: _Job) -> None:
            joined = _joined(job.record, int(first_posts[job.at]))
            await self._create(network, job._replace(record=job.record._replace(created_at=joined)), summary)

        for records in self._spool.blocks(_AT_ONCE):
            missing = await self._missing(network, records, start, origin, summary)
            await run_bounded(missing, create, _REGISTERED_AT_ONCE, report_progress, patience=patience)
            start += len(records)

    async def _missing(
        self, network: AnyNetwork, records: Sequence[MemberRecord], start: int, origin: str, summary: Summary
    ) -> list[_Job]:
        """Return the records, from number `start` of the file `origin`, whose members do not exist."""
        self.names += [record.name for record in records]
        jobs = [
            _Job(at, record, f"member:{origin}/{record.id}")
            for at, record in enumerate(records, start)
            if not self._refuse_duplicate(at, record, summary)
        ]
        keys = [import_key(place(job.record.name).shard, job.name) for job in jobs]
        known = await bulk_keys(network, keys)
        for job, key in zip(jobs, keys, strict=True):
            self.ids[job.at] = known.get(key, 0)
        missing = [job for job in jobs if not self.ids[job.at]]
        summary["members"].there += len(jobs) - len(missing)
        return missing

    def _refuse_duplicate(self, at: int, record: MemberRecord, summary: Summary) -> bool:
        """Return whether an earlier record has the same name. If so, reject this record."""
        if self.references.twice[at]:
            self._refuse(at, record.name, TWICE, summary)
        return bool(self.references.twice[at])

    async def _create(self, network: AnyNetwork, job: _Job, summary: Summary) -> None:
        record, limits = job.record, network.writes.limits
        try:
            member = await members.register(
                network.writes,
                record.name,
                display_name=record.display_name[: limits.display_name],
                note=record.note[: limits.note],
                created_at=record.created_at,
                reserved=True,
                record=job.name,
            )
        except Unavailable:
            # The error is not due to this record, so abort the import. The next run resumes it.
            raise
        except ShoalError as error:
            self._refuse(job.at, record.name, str(error), summary)
        else:
            self.ids[job.at] = member.id
            summary["members"].taken += 1

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
        """Write missing members directly into the store.

        `first_posts` has the time of each member's first post (Unix ms); 0 without a post.
        """
        start = 0
        for records in self._spool.blocks(_AT_ONCE):
            candidates = await asyncio.to_thread(
                partial(self._new_members, records, start, origin, since, first_posts, network.writes.limits, summary)
            )
            await self._store(network, store, candidates, summary)
            start += len(records)
            progress("members", start, len(self))

    def _new_members(
        self,
        records: Sequence[MemberRecord],
        start: int,
        origin: str,
        since: int,
        first_posts: NDArray[np.int64],
        limits: Limits,
        summary: Summary,
    ) -> dict[int, NewMember]:
        found: dict[int, NewMember] = {}
        firsts = first_posts[start : start + len(records)].tolist()
        for at, (record, first) in enumerate(zip(records, firsts, strict=True), start):
            if self._refuse_duplicate(at, record, summary):
                continue
            joined = _joined(record, first)
            name, note = record.display_name[: limits.display_name], record.note[: limits.note]
            try:
                made = members.imported(limits, _ids(at, since, record.name), record.name, name, note, joined)
            except ShoalError as error:
                self._refuse(at, record.name, str(error), summary)
                continue
            found[at] = NewMember(*made, f"member:{origin}/{record.id}")
        return found

    def _refuse(self, at: int, name: str, reason: str, summary: Summary) -> None:
        self.absent[at] = name
        summary.refuse("members", name, reason)

    async def _store(
        self, network: AnyNetwork, store: Loading, candidates: Mapping[int, NewMember], summary: Summary
    ) -> None:
        missing = candidates
        while missing:
            try:
                await store.load(await asyncio.to_thread(_part, list(missing.values())))
            except Occupied:
                known = await self._existing(network, missing, summary)
                if not known:
                    # Two records in the file have the same id, or a member who joined concurrently has the id of a record.
                    for at, (member, _, name) in missing.items():
                        record = MemberRecord("", member.name, member.display_name, member.note, member.dated)
                        await self._create(network, _Job(at, record, name), summary)
                    return
                missing = {at: new for at, new in missing.items() if at not in known}
            else:
                break
        summary["members"].taken += len(missing)
        for at, new in missing.items():
            self.ids[at] = new.member.id

    async def _existing(self, network: AnyNetwork, candidates: Mapping[int, NewMember], summary: Summary) -> set[int]:
        names = {at: user_name_key(new.member.name) for at, new in candidates.items()}
        records = {at: import_key(key.shard, candidates[at].record) for at, key in names.items()}
        owners = await bulk_keys(network, [*names.values(), *records.values()])
        known: set[int] = set()
        for at, new in candidates.items():
            named, recorded = owners.get(names[at]), owners.get(records[at])
            if named is None and recorded is None:
                continue
            known.add(at)
            if named == recorded and named is not None:
                self.ids[at] = named
                summary["members"].there += 1
            else:
                self._refuse(at, new.member.name, _TAKEN if named else _SAME_ID, summary)
        return known


def _joined(record: MemberRecord, first_post: int) -> int:
    """Return the time at which a member joined, which is not later than the first post; 0 if it is unknown."""
    return min((moment for moment in (record.created_at, first_post) if moment > 0), default=0)


def _ids(at: int, since: int, name: str) -> tuple[int, int]:
    moment, shard, sequence = since + at // PER_MS, place(name).shard, 2 * (at % PER_MS)
    return compose(moment, shard, sequence), compose(moment, shard, sequence + 1)


def _part(new_members: Sequence[NewMember]) -> LoadPart:
    nodes = [node for new in new_members for node in (new.member, new.login)]
    keys = [
        KeyRow(space, name, new.member.id, 0)
        for new in new_members
        for space, name in (("user_name", new.member.name), ("import", new.record))
    ]
    return LoadPart(sorted((node.id, node.version, encode_node(node)) for node in nodes), sorted(keys))
