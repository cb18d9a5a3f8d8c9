"""Follows of an archive: the members of this network who are certainly meant are followed, and the others counted.

Somebody is meant who is named by an address of ours, or whose profile names the account elsewhere, or whom one of our own exports
names by id and name. A name alone may be somebody else's: for those there is "Find friends", where one chooses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from shoal.archives.plan import ArchivePlan
from shoal.archives.records import Omission
from shoal.archives.report import ArchiveReport
from shoal.commands import relationships
from shoal.core.errors import Gone, InvalidInput, NotAllowed, NotFound
from shoal.core.handles import ForeignHandle
from shoal.core.model import Member
from shoal.graph.access import members_by_id
from shoal.graph.schema import FOLLOWS, REQUESTS, Key, user_name_key
from shoal.ops.network import AnyNetwork
from shoal.queries.members import ContactMatch, followees_by_handle

T = TypeVar("T")

_AT_ONCE = 400
"""Accounts that are looked up together: fewer than an answer has room for."""


async def matched(network: AnyNetwork, member_id: int, plan: ArchivePlan, report: ArchiveReport) -> list[int]:
    """Return the members whom the archive's owner follows, and count the others in the report."""
    found = dict.fromkeys(await _known(network, member_id, plan, report))
    ours = [handle for handle in plan.handles if handle.site == network.writes.domain]
    others = [handle for handle in plan.handles if handle.site != network.writes.domain]
    found.update(dict.fromkeys(await _addressed(network, member_id, ours, report)))
    for part in _parts(others):
        answer = await followees_by_handle(network.reads, member_id, [str(handle) for handle in part])
        found.update(dict.fromkeys(_certain(part, answer.matches, report)))
    report.found.follows = len(found)
    return list(found)


async def follow_all(network: AnyNetwork, member_id: int, followees: Sequence[int], report: ArchiveReport) -> None:
    """Follow them, as the member would by hand: who is locked is asked."""
    new: list[int] = []
    for part in _parts(followees):
        held = await network.writes.graph.assoc_get(member_id, (FOLLOWS, REQUESTS), part)
        new.extend(followee for followee in part if followee not in held[FOLLOWS] and followee not in held[REQUESTS])
    report.there.follows += len(followees) - len(new)
    for done, followee in enumerate(new):
        try:
            await relationships.follow(network.writes, member_id, followee)
        except InvalidInput as error:
            # The member follows as many as one may.
            report.omit("follows", Omission.REFUSED, str(error), len(new) - done)
            return
        except (Gone, NotAllowed, NotFound) as error:
            report.omit("follows", Omission.REFUSED, str(error))
        else:
            report.taken.follows += 1


async def _known(network: AnyNetwork, member_id: int, plan: ArchivePlan, report: ArchiveReport) -> list[int]:
    members: dict[int, Member] = {}
    for part in _parts(list(plan.followees)):
        members.update(await members_by_id(network.writes.graph, part))
    found = []
    for id_, name in plan.followees.items():
        if id_ in members and members[id_].name == name and id_ != member_id:
            found.append(id_)
        else:
            report.omit("follows", Omission.ELSEWHERE, name)
    return found


async def _addressed(
    network: AnyNetwork, member_id: int, handles: Sequence[ForeignHandle], report: ArchiveReport
) -> list[int]:
    """Return the members whom addresses of ours name."""
    keys = {handle: user_name_key(handle.name) for handle in handles}
    owners: dict[Key, int] = {}
    for part in _parts(list(keys.values())):
        owners.update(await network.writes.graph.key_get(part))
    found = []
    for handle, key in keys.items():
        if owners.get(key, member_id) != member_id:
            found.append(owners[key])
        else:
            report.omit("follows", Omission.ELSEWHERE, str(handle))
    return found


def _parts(all_: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(all_), _AT_ONCE):
        yield all_[start : start + _AT_ONCE]


def _certain(handles: Sequence[ForeignHandle], matches: Sequence[ContactMatch], report: ArchiveReport) -> list[int]:
    """Return the members whose profiles name these accounts."""
    sure = {one.given: one.profile.member.id for one in matches if one.match == "link"}
    like = {one.given for one in matches} - sure.keys()
    for handle in map(str, handles):
        if handle not in sure:
            report.omit("follows", Omission.UNSURE if handle in like else Omission.ELSEWHERE, handle)
    return list(sure.values())
