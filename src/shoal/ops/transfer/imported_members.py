"""Members of an import: registered under their names, found again by their records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from shoal.commands import members
from shoal.core.errors import InvalidInput, ShoalError, Unavailable
from shoal.core.placement import place
from shoal.core.text import check_user_name
from shoal.graph.schema import Key, import_key, user_name_key
from shoal.ops.bounded_tasks import run_bounded
from shoal.ops.checking.report import Progress
from shoal.ops.network import AnyNetwork
from shoal.ops.transfer.records import Fields, MemberRecord, NumberedRow, member_record
from shoal.ops.transfer.summary import Summary

TWICE = "an earlier record has this name"
_KEYS_AT_ONCE = 256
_REGISTERED_AT_ONCE = 256


class ImportedMembers:
    """The members that an import is about. Other records name them by their id in the file, or else by user name."""

    def __init__(self, records: Sequence[MemberRecord]) -> None:
        self.records = records
        self.ids = [0] * len(records)
        """The member of each record; 0 as long as there is none."""
        self._by_id = {record.id: at for at, record in enumerate(records)}
        self._by_name = {record.name: at for at, record in enumerate(records)}

    def __len__(self) -> int:
        return len(self.records)

    def find(self, reference: str) -> int | None:
        """The position of whom a record means."""
        found = self._by_id.get(reference)
        return found if found is not None else self._by_name.get(as_name(reference))


def as_name(reference: str) -> str:
    """Return the user name that a reference means when it is no id."""
    return reference.lower().replace("-", "_")


class _Job(NamedTuple):
    at: int
    record: MemberRecord
    name: str


def read_members(lines: Iterable[NumberedRow], named: Mapping[str, str], summary: Summary) -> ImportedMembers:
    """The records that may become members, in the order of the file."""
    taken: dict[str, MemberRecord] = {}
    for record in member_records(lines, named, summary):
        if record.name in taken:
            summary.refuse("members", record.name, TWICE)
        else:
            taken[record.name] = record
    return ImportedMembers(list(taken.values()))


def member_records(lines: Iterable[NumberedRow], named: Mapping[str, str], summary: Summary) -> Iterator[MemberRecord]:
    """The records with names that members may have, in the order of the file; names may come twice."""
    fields: Fields | None = None
    for line in lines:
        if line.error:
            summary.refuse("members", f"line {line.number}", line.error)
            continue
        fields = fields or Fields("members", line.row, named)
        try:
            record = member_record(fields, line)
            check_user_name(record.name, reserved=True)
        except InvalidInput as error:
            summary.refuse("members", fields.text(line.row, "name") or f"line {line.number}", str(error))
            continue
        yield record


async def take_members(
    network: AnyNetwork,
    people: ImportedMembers,
    origin: str,
    first_posts: Mapping[int, int],
    summary: Summary,
    progress: Progress,
    patience: float,
) -> None:
    """Register those who are not there. `first_posts` says when somebody first posted: nobody joined after that.

    `patience` is that of `run_bounded`.
    """
    keys = {at: import_key(place(r.name).shard, f"member:{origin}/{r.id}") for at, r in enumerate(people.records)}
    known = await bulk_keys(network, list(keys.values()))
    missing = []
    for at, key in keys.items():
        if found := known.get(key):
            people.ids[at] = found
            summary["members"].there += 1
        else:
            missing.append(_Job(at, people.records[at], key.name))

    async def register(job: _Job) -> None:
        people.ids[job.at] = await _registered(network, job, _joined(job, first_posts), summary)

    await run_bounded(
        missing, register, _REGISTERED_AT_ONCE, _watched(progress, "members", len(missing)), patience=patience
    )


def _joined(job: _Job, first_posts: Mapping[int, int]) -> int:
    times = [moment for moment in (job.record.created_at, first_posts.get(job.at, 0)) if moment > 0]
    return min(times, default=0)


async def _registered(network: AnyNetwork, job: _Job, joined: int, summary: Summary) -> int:
    """The id of the new member, or 0."""
    record, limits = job.record, network.writes.limits
    try:
        member = await members.register(
            network.writes,
            record.name,
            display_name=record.display_name[: limits.display_name],
            note=record.note[: limits.note],
            created_at=joined,
            reserved=True,
            record=job.name,
        )
    except Unavailable:
        # No fault of the record: the import ends here, and goes on when it is run again.
        raise
    except ShoalError as error:
        summary.refuse("members", record.name, str(error))
        return 0
    summary["members"].taken += 1
    return member.id


async def members_there(network: AnyNetwork, names: Iterable[str]) -> ImportedMembers:
    """Return the names that are members already. An import without a file of members is about them."""
    wanted = {name: name.lower().replace("-", "_") for name in dict.fromkeys(names)}
    keys = {user_name_key(name): name for name in wanted.values()}
    found = await bulk_keys(network, list(keys))
    people = ImportedMembers([MemberRecord(name, name, name, "", 0) for key, name in keys.items() if key in found])
    people.ids[:] = [found[key] for key in keys if key in found]
    return people


async def bulk_keys(network: AnyNetwork, keys: Sequence[Key]) -> dict[Key, int]:
    """Owners of many keys."""
    found: dict[Key, int] = {}
    for start in range(0, len(keys), _KEYS_AT_ONCE):
        found |= await network.store.key_get(keys[start : start + _KEYS_AT_ONCE])
    return found


def _watched(progress: Progress, phase: str, total: int) -> Callable[[int], None]:
    return lambda done: progress(phase, done, total)
