"""Friends from elsewhere: the members whom an address book or a follow list of another network may mean.

A member is found by the hash of their e-mail address, if they allow it (`email`), by an account elsewhere that their profile
names (`link`), or, which says less, because their user name is the same (`name`). None of the three is proved. Nothing of a list
is kept. Members who do not want to be found, whom moderators silenced or suspended, whom the viewer blocks or mutes and who block
the viewer are not in the answer, as if they were not here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Literal, NamedTuple, TypeVar

from shoal.core.email import check_hashes
from shoal.core.errors import InvalidInput
from shoal.core.handles import FollowList, ForeignHandle, read_archive, read_handles
from shoal.core.model import Member
from shoal.core.text import check_user_name
from shoal.core.visibility import Relation
from shoal.discovery.rows import is_listed
from shoal.feeds.hydrate import Profile, profiles
from shoal.feeds.reads import Reads
from shoal.graph.access import full_relations, members_by_id
from shoal.graph.contract import Cursor
from shoal.graph.member_lookup import declared_handles
from shoal.graph.schema import DECLARED_BY, Key, email_hash_id, handle_id, user_name_key

T = TypeVar("T")

MOST_FOUND = 500
"""Members of one answer."""
_AT_ONCE = 500
"""Accounts that are looked up together."""
_EACH = 5
"""Members who may declare one account and be found by it: those who declared it first."""

MatchKind = Literal["email", "link", "name"]


class ContactMatch(NamedTuple):
    """A member who may be meant by what was `given`, a hash or a handle in its one form, and how the viewer stands to them."""

    profile: Profile
    given: str
    match: MatchKind
    following: bool
    requested: bool


class ContactsFound(NamedTuple):
    """Members who were found: those whom the viewer does not follow first, and of these the surer ones first."""

    matches: list[ContactMatch]
    asked: int
    """Different accounts or hashes that were looked for."""
    unreadable: int
    """Entries of the list that name nobody, such as the numbers of X."""
    more: bool
    """Whether more members were found than an answer has room for. Lists may be sent in parts."""


class _Claim(NamedTuple):
    """A possible match, before the member is looked at."""

    member_id: int
    given: ForeignHandle | str
    match: MatchKind

    def holds(self, member: Member) -> bool:
        """Return whether the member, as they are now, is meant: what led to them may be of a moment ago."""
        if isinstance(self.given, str):
            return member.email_hash == self.given
        if self.match == "name":
            return member.name == self.given.user_name
        return self.given in declared_handles(member)


async def contacts_by_hash(reads: Reads, viewer: int, hashes: Sequence[str]) -> ContactsFound:
    """Find members by hashes of their e-mail addresses, those who allow it. Raises as `check_hashes`."""
    asked = check_hashes(hashes)

    async def claims(part: Sequence[str]) -> list[_Claim]:
        by_id = {email_hash_id(digest): digest for digest in part}
        lists = await reads.lasting.assoc_ranges(list(by_id), DECLARED_BY, Cursor(limit=_EACH, oldest_first=True))
        return [_Claim(row.id2, by_id[id_], "email") for id_, rows in lists.items() for row in rows]

    return await _found(reads, viewer, asked, claims)


async def followees_in_archive(reads: Reads, viewer: int, archive: bytes) -> ContactsFound:
    """Find members by the follow list in a file of another network's archive. Raises as `read_archive`."""
    # In a thread: four megabytes would hold up whoever is served meanwhile.
    return await _followees(reads, viewer, await asyncio.to_thread(read_archive, archive))


async def followees_by_handle(reads: Reads, viewer: int, handles: Sequence[str]) -> ContactsFound:
    """Find members by handles, addresses and links of accounts elsewhere. Raises `TooLarge` past 10,000."""
    return await _followees(reads, viewer, read_handles(handles))


async def _followees(reads: Reads, viewer: int, listed: FollowList) -> ContactsFound:
    found = await _found(reads, viewer, listed.handles, lambda part: _claims(reads, part))
    return found._replace(unreadable=listed.unreadable)


async def _found(
    reads: Reads, viewer: int, asked: Sequence[T], claims: Callable[[Sequence[T]], Awaitable[list[_Claim]]]
) -> ContactsFound:
    """Six reads at most for every 500; past the cache, which would have to forget what others need."""
    matches: dict[int, ContactMatch] = {}
    for start in range(0, len(asked), _AT_ONCE):
        for match in await _shown(reads, viewer, await claims(asked[start : start + _AT_ONCE])):
            known = matches.get(match.profile.member.id)
            if known is None or (known.match, match.match) == ("name", "link"):
                matches[match.profile.member.id] = match
    ordered = sorted(matches.values(), key=lambda one: (one.following, one.requested, one.match == "name"))
    return ContactsFound(ordered[:MOST_FOUND], len(asked), unreadable=0, more=len(ordered) > MOST_FOUND)


async def _claims(reads: Reads, handles: Sequence[ForeignHandle]) -> list[_Claim]:
    """Return who may be meant by these accounts, those who declare them first; two reads."""
    by_id = {handle_id(str(handle)): handle for handle in handles if handle.site}
    lists = await reads.lasting.assoc_ranges(list(by_id), DECLARED_BY, Cursor(limit=_EACH, oldest_first=True))
    declared = [_Claim(row.id2, by_id[id_], "link") for id_, rows in lists.items() for row in rows]
    keys = dict(_user_names(handles))
    owners = await reads.lasting.key_get(list(keys))
    return [*declared, *(_Claim(owner, keys[key], "name") for key, owner in owners.items())]


def _user_names(handles: Sequence[ForeignHandle]) -> Iterator[tuple[Key, ForeignHandle]]:
    """Yield the keys of members who would have the same user name here."""
    for handle in handles:
        try:
            yield user_name_key(check_user_name(handle.user_name)), handle
        except InvalidInput:
            continue


async def _shown(reads: Reads, viewer: int, claims: Sequence[_Claim]) -> list[ContactMatch]:
    """Return the claims that hold, of members whom the viewer may be shown; each member once."""
    members = await members_by_id(reads.lasting, list({claim.member_id for claim in claims} - {viewer}))
    held: dict[int, _Claim] = {}
    for claim in claims:
        member = members.get(claim.member_id)
        if member is not None and is_listed(member) and claim.holds(member):
            held.setdefault(claim.member_id, claim)
    if not held:
        return []
    stands = await full_relations(reads.graph, viewer, held)
    listed = {id_: members[id_] for id_ in held if _may_be_shown(stands[id_])}
    known = await profiles(reads.graph, listed, viewer, stands)
    return [
        ContactMatch(known[id_], str(held[id_].given), held[id_].match, stands[id_].following, stands[id_].requested)
        for id_ in listed
    ]


def _may_be_shown(stand: Relation) -> bool:
    return not stand.severed and not stand.muting
