"""Lists of members: followers, followees, members who like, share or react to a post, the member directory, and contact discovery.

The directory contains members who want to be found, ordered by their last post or by the time they joined.

Contact discovery returns members who may match an entry of an address book or of a follow list from another network. A
member matches by the hash of their e-mail address if they allow it (`email`), by an external account that their profile
names (`link`), or, as weaker evidence, by a matching user name (`name`). None of the three proves identity. The
uploaded list is not stored. Members who do not want to be found, who are silenced or suspended, whom the viewer blocks
or mutes, or who block the viewer are left out, as if they did not exist.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Literal, NamedTuple, TypeVar

from shoal.core.email import check_hashes
from shoal.core.errors import InvalidInput
from shoal.core.handles import FollowList, ForeignHandle, read_archive, read_handles
from shoal.core.ids import now_ms
from shoal.core.model import OPEN, Member, Share
from shoal.core.reactions import is_name
from shoal.core.text import check_user_name
from shoal.core.visibility import Relation, may_see_share
from shoal.graph.access import (
    access_post,
    count_of,
    declared_reactions,
    full_relations,
    members_by_id,
    prefetch,
    relation,
    relations,
)
from shoal.graph.cache.dependencies import compared, good_until
from shoal.graph.contract import Assoc, Cursor
from shoal.graph.member_lookup import declared_handles
from shoal.graph.payloads.follows import mute_terms
from shoal.graph.payloads.posts import EmojiPosition
from shoal.graph.schema import (
    DECLARED_BY,
    EMOJI_PUT_BY,
    FOLLOWED_BY,
    FOLLOWS,
    LIKED_BY,
    MEMBER_COUNTS,
    MUTES,
    POSTED_RESTRICTED,
    POSTED_TO_FOLLOWERS,
    REACTS,
    SHARED_BY,
    AnyNode,
    AssocType,
    Key,
    email_hash_id,
    handle_id,
    user_name_key,
)
from shoal.queries.context import Reads
from shoal.queries.hydration import EmojiCount, Profile, emoji_counts_by_post, profiles, profiles_by_id, viewer_counts
from shoal.queries.pagination import check_limit
from shoal.search.contract import Order
from shoal.search.indexing import is_listed

PAGE = 25
_FOLLOWEES = 5_000
_RECEIVED = (LIKED_BY, SHARED_BY)
_NOT_OPEN = (POSTED_RESTRICTED, POSTED_TO_FOLLOWERS)
_MOST_NOT_OPEN = 2_000
_FAMILIAR = 80


class MemberPage(NamedTuple):
    """A page of members, each with a cursor (the time of the association); `next` is None at the end."""

    profiles: list[Profile]
    times: list[int]
    next: int | None
    data: Sequence[bytes] = ()


class Likers(NamedTuple):
    total: int
    newest: list[Profile]


class EmojiReactors(EmojiCount, frozen=True):
    newest: tuple[Profile, ...] = ()


class Received(NamedTuple):
    likes: int
    shares: int


def read_by_page(cursor: Cursor) -> Cursor:
    """Return the range of a list that `page` reads: two pages, and one entry to see whether there are more."""
    return cursor.of(2 * cursor.limit + 1)


async def page(
    reads: Reads,
    viewer: int | None,
    of: int,
    atype: AssocType,
    cursor: Cursor,
    *,
    severed: bool = False,
    followed_by: int = 0,
) -> MemberPage:
    """Return a page of the members in a list, without members whom the viewer blocks or who block the viewer.

    With `severed` these are included, for the list of blocks. Expired mutes and sharers whose share is neither public nor
    unlisted are excluded; with `followed_by`, so is everyone except that member and their followees. The members of the next page
    are prefetched. Raises `InvalidInput` for a limit below 1.
    """
    check_limit(cursor)
    found = await reads.graph.assoc_range(of, atype, read_by_page(cursor))
    here, next_page = found[: cursor.limit], found[cursor.limit : 2 * cursor.limit]
    retained = await _retained(reads, atype, here, followed_by)
    _prefetch(reads, _ids(atype, next_page))
    counts = (([assoc.id2 for assoc in retained], MEMBER_COUNTS), *viewer_counts(viewer))
    await prefetch(reads.graph, _ids(atype, retained), counts)
    people, shown = await _people(reads, viewer, atype, retained, severed=severed)
    if cursor.oldest_first:
        people, shown = people[::-1], shown[::-1]
        after = here[0].time if here else None
    else:
        after = here[-1].time if len(found) > len(here) else None
    return MemberPage(people, [assoc.time for assoc in shown], after, [assoc.data for assoc in shown])


async def _retained(reads: Reads, atype: AssocType, found: Sequence[Assoc], followed_by: int) -> Sequence[Assoc]:
    if atype is MUTES:
        now = now_ms()
        terms = {assoc.id2: mute_terms(assoc.data) for assoc in found}
        for term in terms.values():
            good_until(term.expires_at, now)
        return [assoc for assoc in found if not terms[assoc.id2].over(now)]
    if followed_by:
        followed = (await reads.graph.assoc_get(followed_by, (FOLLOWS,), [assoc.id2 for assoc in found]))[FOLLOWS]
        return [assoc for assoc in found if assoc.id2 in followed or assoc.id2 == followed_by]
    return found


async def _people(
    reads: Reads, viewer: int | None, atype: AssocType, found: Sequence[Assoc], *, severed: bool = False
) -> tuple[list[Profile], list[Assoc]]:
    nodes = await reads.graph.obj_get(_ids(atype, found))
    members = {assoc.id2: node for assoc in found if isinstance(node := nodes.get(assoc.id2), Member)}
    relationships = await relations(reads.graph, viewer, members)
    there = [assoc for assoc in found if assoc.id2 in members and not members[assoc.id2].suspended]
    if atype is SHARED_BY:
        shown = [assoc for assoc in there if _named(viewer, assoc, nodes, members, relationships)]
    else:
        shown = [assoc for assoc in there if severed or not relationships[assoc.id2].severed]
    numbers = await profiles(reads.graph, {assoc.id2: members[assoc.id2] for assoc in shown}, viewer, relationships)
    return [numbers[assoc.id2] for assoc in shown], shown


async def familiar(reads: Reads, viewer: int, ids: Sequence[int]) -> dict[int, list[Profile]]:
    """Return for each of these members which of the viewer's followees follow them.

    For a member who hides connections there are none. Only the viewer's newest 5,000 followees are considered, and at most 80 are
    returned for each member.
    """
    followees = [assoc.id2 for assoc in await reads.graph.assoc_range(viewer, FOLLOWS, Cursor(limit=_FOLLOWEES))]
    members = await members_by_id(reads.graph, ids)
    open_ones = [id_ for id_, member in members.items() if not (member.hides_connections or member.suspended)]
    answers = await asyncio.gather(*[reads.graph.assoc_get(id_, (FOLLOWED_BY,), followees) for id_ in open_ones])
    known = {
        id_: [followee for followee in followees if followee in answer[FOLLOWED_BY]][:_FAMILIAR]
        for id_, answer in zip(open_ones, answers, strict=True)
    }
    everybody = list({followee for found in known.values() for followee in found})
    shown = {profile.member.id: profile for profile in await profiles_by_id(reads.graph, viewer, everybody)}
    return {id_: [shown[follower] for follower in known.get(id_, ()) if follower in shown] for id_ in members}


def _ids(atype: AssocType, found: Sequence[Assoc]) -> list[int]:
    """Return the ids of the listed members and, if they are sharers of a post, also of their shares."""
    shares = [_share_id(assoc) for assoc in found] if atype is SHARED_BY else []
    return [assoc.id2 for assoc in found] + shares


def _share_id(assoc: Assoc) -> int:
    return int.from_bytes(assoc.data)


def _named(
    viewer: int | None,
    assoc: Assoc,
    nodes: Mapping[int, AnyNode],
    members: Mapping[int, Member],
    relationships: Mapping[int, Relation],
) -> bool:
    """Return whether the viewer may learn that this member shared a post: the share exists, and is public or unlisted."""
    share = nodes.get(_share_id(assoc))
    if not isinstance(share, Share) or share.visibility not in OPEN:
        return False
    return may_see_share(viewer, share, members[assoc.id2], relationships[assoc.id2])


def _prefetch(reads: Reads, ids: Sequence[int]) -> None:
    if ids:
        task = asyncio.ensure_future(reads.graph.obj_get(ids))
        # Ignore an error of the prefetch: the page reports it when it reads these objects.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())


async def likers(reads: Reads, viewer: int | None, post_id: int, newest: int = 5) -> Likers:
    """Return the number of likes of a post, in O(1), and the newest likers. Raises `NotFound` for a post hidden from the viewer."""
    post = await access_post(reads.graph, viewer, post_id)
    total = await count_of(reads.graph, post.id, LIKED_BY)
    found = await reads.graph.assoc_range(post.id, LIKED_BY, Cursor(limit=newest))
    return Likers(total, (await _people(reads, viewer, LIKED_BY, found))[0])


async def emoji_reactors(reads: Reads, viewer: int | None, post_id: int, newest: int = 10) -> list[EmojiReactors]:
    """Return the emoji and declared reactions of a post, each with the newest members who added it, in a fixed number of reads.

    Raises `NotFound` if the viewer may not see the post.
    """
    found = await _emoji_counts(reads, viewer, post_id)
    lists = await reads.graph.assoc_ranges([position.id for position, _ in found], EMOJI_PUT_BY, Cursor(limit=newest))
    members = await members_by_id(reads.graph, list({assoc.id2 for listed in lists.values() for assoc in listed}))
    relationships = await relations(reads.graph, viewer, members)
    there = {
        id_: found_member
        for id_, found_member in members.items()
        if not found_member.suspended and not relationships[id_].severed
    }
    shown = await profiles(reads.graph, there, viewer, relationships)
    reactors: list[EmojiReactors] = []
    for position, counted in found:
        newest_first = tuple(
            shown[found_member.id2] for found_member in lists.get(position.id, ()) if found_member.id2 in shown
        )
        reactors.append(EmojiReactors(counted.emoji, counted.count, counted.me, newest_first))
    return reactors


async def emoji_page(
    reads: Reads, viewer: int | None, post_id: int, emoji: str, cursor: Cursor
) -> tuple[EmojiCount, MemberPage]:
    """Return an emoji or declared reaction of a post and a page of the members who added it, newest first.

    Raises `NotFound` if the viewer may not see the post and for an unknown reaction, and `InvalidInput` for a limit below 1.
    """
    for position, counted in await _emoji_counts(reads, viewer, post_id):
        if counted.emoji == emoji:
            return counted, await page(reads, viewer, position.id, EMOJI_PUT_BY, cursor)
    if is_name(emoji):
        (await declared_reactions(reads.graph)).get(emoji)
    return EmojiCount(emoji, 0, me=False), MemberPage([], [], None)


async def _emoji_counts(reads: Reads, viewer: int | None, post_id: int) -> list[tuple[EmojiPosition, EmojiCount]]:
    post = await access_post(reads.graph, viewer, post_id)
    mine = (await reads.graph.assoc_get(viewer, (REACTS,), (post.id,)))[REACTS] if viewer is not None else {}
    return (await emoji_counts_by_post(reads.graph, (post.id,), mine)).get(post.id, [])


async def received(reads: Reads, viewer: int | None, member: int) -> Received:
    """Return the total likes and shares of the member's posts that the viewer could find.

    The member sees the totals, which are two counters. For others, some posts are subtracted: direct and
    hidden posts for followers, followers-only posts too for strangers. If there are too many such posts to count, other
    viewers see no totals.
    """
    graph = reads.graph
    counts = await graph.assoc_count((member,), (*_RECEIVED, *_NOT_OPEN))
    totals = Received(*(counts[atype].get(member, 0) for atype in _RECEIVED))
    if viewer == member or not any(totals) or not any(counts[atype].get(member) for atype in _NOT_OPEN):
        return totals
    lists = (POSTED_RESTRICTED,) if (await relation(graph, viewer, member)).following else _NOT_OPEN
    if any(counts[atype].get(member, 0) > _MOST_NOT_OPEN for atype in lists):
        return Received(0, 0)
    found = await asyncio.gather(*(graph.assoc_range(member, atype, Cursor(limit=_MOST_NOT_OPEN)) for atype in lists))
    ids = {assoc.id2 for listed in found for assoc in listed}
    private = await graph.assoc_count(list(ids), _RECEIVED)
    return Received(
        *(max(0, total - sum(private[atype].values())) for atype, total in zip(_RECEIVED, totals, strict=True))
    )


async def directory_page(reads: Reads, viewer: int | None, order: Order, limit: int, offset: int = 0) -> list[Profile]:
    """Return a page of the directory, without members whom the viewer mutes or blocks, or who block the viewer. Three reads."""
    ids = await compared(partial(reads.search.directory, order, limit, offset))
    found = await members_by_id(reads.graph, ids)
    relationships = await relations(reads.graph, viewer, found)
    # Keep the order of `ids`: `found` may have another one, because some members come from a cache.
    shown = {
        id_: member
        for id_ in ids
        if (member := found.get(id_))
        and is_listed(member)
        and not relationships[id_].severed
        and not relationships[id_].muting
    }
    return list((await profiles(reads.graph, shown, viewer, relationships)).values())


T = TypeVar("T")

MOST_FOUND = 500
"""Members per response."""
_AT_ONCE = 500
_EACH = 5
"""Maximum number of members found by one external account or e-mail hash: the members who entered it first."""

MatchKind = Literal["email", "link", "name"]


class ContactMatch(NamedTuple):
    """A member who matches a `given` hash or handle, and the viewer's relation to them."""

    profile: Profile
    given: str
    match: MatchKind
    following: bool
    requested: bool


class ContactsFound(NamedTuple):
    """The found members: first those whom the viewer does not follow. In each group, matches by user name alone come last."""

    matches: list[ContactMatch]
    asked: int
    """Distinct accounts or hashes searched."""
    unreadable: int
    """Entries of the list that identify no account, such as the numeric ids of X."""
    more: bool
    """Whether the response was truncated. Lists may be sent in parts."""


class _Claim(NamedTuple):
    """A possible match of a hash or handle, before its member is read."""

    member_id: int
    given: ForeignHandle | str
    match: MatchKind

    def holds(self, member: Member) -> bool:
        """Return whether the member's current data confirm the match, which an outdated index may have returned."""
        if isinstance(self.given, str):
            return member.email_hash == self.given
        if self.match == "name":
            return member.name == self.given.user_name
        return self.given in declared_handles(member)


async def contacts_by_hash(reads: Reads, viewer: int, hashes: Sequence[str]) -> ContactsFound:
    """Find members by hashes of their email addresses, if they allow this. Raises the errors of `check_hashes`."""
    asked = check_hashes(hashes)

    async def claims(part: Sequence[str]) -> list[_Claim]:
        by_id = {email_hash_id(digest): digest for digest in part}
        lists = await reads.lasting.assoc_ranges(list(by_id), DECLARED_BY, Cursor(limit=_EACH, oldest_first=True))
        return [_Claim(row.id2, by_id[id_], "email") for id_, rows in lists.items() for row in rows]

    return await _found(reads, viewer, asked, claims)


async def followees_in_archive(reads: Reads, viewer: int, archive: bytes) -> ContactsFound:
    """Find members by the follow list in a file of another network's archive. Raises the errors of `read_archive`."""
    # Parse in a thread, because parsing four megabytes would block other requests.
    return await _followees(reads, viewer, await asyncio.to_thread(read_archive, archive))


async def followees_by_handle(reads: Reads, viewer: int, handles: Sequence[str]) -> ContactsFound:
    """Find members by handles, addresses or links of their accounts elsewhere. Raises `TooLarge` for more than 10,000 accounts."""
    return await _followees(reads, viewer, read_handles(handles))


async def _followees(reads: Reads, viewer: int, listed: FollowList) -> ContactsFound:
    found = await _found(reads, viewer, listed.handles, lambda part: _claims(reads, part))
    return found._replace(unreadable=listed.unreadable)


async def _found(
    reads: Reads, viewer: int, asked: Sequence[T], claims: Callable[[Sequence[T]], Awaitable[list[_Claim]]]
) -> ContactsFound:
    """Look up handles or hashes in groups of 500, with at most six reads each. `claims` returns the possible matches of a group.

    The reads bypass the cache, so that they evict no hot entries.
    """
    matches: dict[int, ContactMatch] = {}
    for start in range(0, len(asked), _AT_ONCE):
        for match in await _shown(reads, viewer, await claims(asked[start : start + _AT_ONCE])):
            known = matches.get(match.profile.member.id)
            if known is None or (known.match, match.match) == ("name", "link"):
                matches[match.profile.member.id] = match
    ordered = sorted(
        matches.values(),
        key=lambda found_match: (found_match.following, found_match.requested, found_match.match == "name"),
    )
    return ContactsFound(ordered[:MOST_FOUND], len(asked), unreadable=0, more=len(ordered) > MOST_FOUND)


async def _claims(reads: Reads, handles: Sequence[ForeignHandle]) -> list[_Claim]:
    """Return the members who may be the owners of these handles; two reads.

    Members who entered the handle as their account elsewhere come first, in this order; members with its user name follow.
    """
    by_id = {handle_id(str(handle)): handle for handle in handles if handle.site}
    lists = await reads.lasting.assoc_ranges(list(by_id), DECLARED_BY, Cursor(limit=_EACH, oldest_first=True))
    declared = [_Claim(row.id2, by_id[id_], "link") for id_, rows in lists.items() for row in rows]
    keys = dict(_user_names(handles))
    owners = await reads.lasting.key_get(list(keys))
    return [*declared, *(_Claim(owner, keys[key], "name") for key, owner in owners.items())]


def _user_names(handles: Sequence[ForeignHandle]) -> Iterator[tuple[Key, ForeignHandle]]:
    """Yield the keys of the user names in these handles, because their owners may have the same names on this server."""
    for handle in handles:
        try:
            yield user_name_key(check_user_name(handle.user_name)), handle
        except InvalidInput:
            continue


async def _shown(reads: Reads, viewer: int, claims: Sequence[_Claim]) -> list[ContactMatch]:
    """Return the matches that are confirmed by the members' current data, if the viewer may see them; each member once."""
    members = await members_by_id(reads.lasting, list({claim.member_id for claim in claims} - {viewer}))
    by_member: dict[int, _Claim] = {}
    for claim in claims:
        member = members.get(claim.member_id)
        if member is not None and is_listed(member) and claim.holds(member):
            by_member.setdefault(claim.member_id, claim)
    if not by_member:
        return []
    relationships = await full_relations(reads.graph, viewer, by_member)
    listed = {
        id_: members[id_] for id_ in by_member if not relationships[id_].severed and not relationships[id_].muting
    }
    known = await profiles(reads.graph, listed, viewer, relationships)
    return [
        ContactMatch(
            known[id_],
            str(by_member[id_].given),
            by_member[id_].match,
            relationships[id_].following,
            relationships[id_].requested,
        )
        for id_ in listed
    ]
