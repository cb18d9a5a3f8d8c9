"""Contact discovery: lookup of members by e-mail address or by accounts elsewhere, match quality, and privacy rules."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from shoal import Handle, Shoal, hash_address
from shoal.core.errors import InvalidInput, TooLarge, Unfit
from shoal.core.handles import MOST_HANDLES
from shoal.graph.contract import Batch
from shoal.graph.schema import DECLARES, contact_salt_key, handle_id
from shoal.queries import members
from shoal.queries.context import Reads
from shoal.queries.members import ContactsFound
from tests.async_runner import in_loop
from tests.flows.members import register
from tests.flows.query_counts import calls
from tests.stores import FIRST


def matched(found: ContactsFound) -> list[tuple[str, str, str]]:
    """Return names, given handles and kinds of match, in order."""
    return [(one.profile.member.name, one.given, one.match) for one in found.matches]


async def declare(who: Handle, *values: str) -> None:
    """Set these profile fields."""
    await who.update_profile(fields=[("Elsewhere", value) for value in values])


@in_loop
async def test_follow_list_archive_matches_members_by_profile_link_before_user_name() -> None:
    async with Shoal.open("memory://") as shoal:
        me, ann, ben, cyd = await register(shoal, "me", "ann", "ben", "cyd")
        await declare(cyd, "https://mastodon.social/@harbour", "instagram.com/Cyd.B and @cyd@pixelfed.social")
        await declare(ann, "https://bsky.app/profile/ann.example.org")
        await me.follow(ben)
        archive = (
            b"Account address,Show boosts\nharbour@mastodon.social,true\nben@x.org,true\nann@y.org,true\nno one,\n"
        )
        found = await me.find_followees(archive)
        assert matched(found) == [
            ("cyd", "harbour@mastodon.social", "link"),
            ("ann", "ann@y.org", "name"),
            ("ben", "ben@x.org", "name"),
        ]
        assert [one.following for one in found.matches] == [False, False, True]
        assert (found.asked, found.unreadable, found.more) == (3, 1, False)
        # The strongest match is reported, independent of the order.
        assert matched(await me.find_handles(["cyd@elsewhere.org", "https://www.instagram.com/cyd.b/"])) == [
            ("cyd", "cyd.b@instagram.com", "link")
        ]
        follows = [{"did": "did:plc:1", "handle": "ann.example.org"}, {"handle": "cyd.bsky.social"}]
        assert matched(await me.find_followees(json.dumps(follows).encode())) == [
            ("ann", "ann.example.org@bsky.app", "link"),
            ("cyd", "cyd.bsky.social@bsky.app", "name"),
        ]
        await cyd.update_profile(locked=True)
        await me.follow(cyd)
        (asked,) = (await me.find_handles(["harbour@mastodon.social"])).matches
        assert (asked.following, asked.requested) == (False, True)


async def by_email(who: Handle, *addresses: str) -> list[str]:
    """Return the names of members found by these addresses."""
    salt = await who.contact_salt()
    found = await who.find_contacts([hash_address(salt, address) for address in addresses])
    assert {one.match for one in found.matches} <= {"email"}
    return [one.profile.member.name for one in found.matches]


@in_loop
async def test_find_contacts_by_email_requires_opt_in() -> None:
    async with Shoal.open("memory://") as shoal:
        me = await shoal.register("me")
        ann, ben = [await shoal.register(name, email=f"{name}@example.org") for name in ("ann", "ben")]
        addresses = ("ben@example.org", "ann@example.org", "nobody@example.org")
        assert await by_email(me, *addresses) == []
        await ann.update_profile(findable_by_email=True)
        assert await by_email(me, *addresses) == ["ann"]
        assert await by_email(me, "Ann@Example.org") == ["ann"]
        # Updates of other fields keep the setting.
        assert (await ann.update_profile(note="By the sea")).findable_by_email
        await ben.update_profile(findable_by_email=True)
        assert set(await by_email(me, *addresses)) == {"ann", "ben"}
        assert await by_email(ann, "ann@example.org") == []
        await ann.update_profile(findable_by_email=False)
        assert await by_email(me, *addresses) == ["ben"]
        with pytest.raises(Unfit):
            await me.update_profile(findable_by_email=True)


@in_loop
async def test_find_contacts_by_email_respects_block_discoverability_and_suspension() -> None:
    async with Shoal.open("memory://") as shoal:
        me = await shoal.register("me")
        ann = await shoal.register("ann", email="ann@example.org")
        await ann.update_profile(findable_by_email=True)
        await ann.block(me)
        assert await by_email(me, "ann@example.org") == []
        await ann.unblock(me)
        await me.block(ann)
        assert await by_email(me, "ann@example.org") == []
        await me.unblock(ann)
        assert await by_email(me, "ann@example.org") == ["ann"]
        await ann.update_profile(discoverable=False)
        assert await by_email(me, "ann@example.org") == []
        await ann.update_profile(discoverable=True)
        await shoal.moderation.suspend(ann)
        await shoal.settle()
        assert await by_email(me, "ann@example.org") == []


@in_loop
async def test_contact_salt_is_the_same_for_concurrent_and_later_requests(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shoal.db"
    async with Shoal.open(url) as shoal:
        me = await shoal.register("me")
        salts = await asyncio.gather(*(me.contact_salt() for _ in range(5)))
        assert len(set(salts)) == 1
        assert len(bytes.fromhex(salts[0])) == 16
    async with Shoal.open(url) as shoal:
        assert await (await shoal.member("me")).contact_salt() == salts[0]
        assert len(await shoal.network.store.key_get([contact_salt_key()])) == 1
    async with Shoal.open("memory://") as other:
        assert await (await other.register("me")).contact_salt() != salts[0]


@in_loop
async def test_contact_lookup_stores_no_data() -> None:
    async with Shoal.open("memory://") as shoal:
        me = await shoal.register("me")
        hashes = [hash_address(await me.contact_salt(), "friend@example.org")]
        await shoal.settle()
        before = await everything(shoal)
        await me.find_contacts(hashes)
        await me.find_handles(["friend@mastodon.social"])
        await me.find_followees(b"Account address\nfriend@mastodon.social\n")
        await shoal.settle()
        assert await everything(shoal) == before


async def everything(shoal: Shoal) -> tuple[object, ...]:
    """Return all objects and associations."""
    store = shoal.network.store
    return await store.obj_scan(FIRST, 100_000), await store.assoc_scan((FIRST, 0, FIRST), 100_000)


@in_loop
async def test_find_handles_matches_only_current_profile_fields() -> None:
    async with Shoal.open("memory://") as shoal:
        me, ann = await register(shoal, "me", "ann")
        old, new = "harbour@mastodon.social", "lighthouse@mastodon.social"
        for n in range(3):
            await declare(ann, f"@{(old, new)[n % 2]}")
            await shoal.settle()
            found = matched(await me.find_handles([old, new]))
            assert found == [("ann", (old, new)[n % 2], "link")]
        await ann.update_profile(fields=[])
        assert matched(await me.find_handles([old, new])) == []


@in_loop
async def test_find_handles_ignores_account_that_member_has_removed_from_profile() -> None:
    async with Shoal.open("memory://") as shoal:
        me, ann = await register(shoal, "me", "ann")
        # Simulate a store in which the removal of an old `DECLARES` association is pending.
        new_id = shoal.network.writes.new_id
        batch = Batch(0)
        batch.assoc_add(ann.id, DECLARES, handle_id("harbour@mastodon.social"), new_id(0))
        await shoal.network.store.commit(batch)
        assert matched(await me.find_handles(["harbour@mastodon.social"])) == []


@in_loop
async def test_find_handles_excludes_undiscoverable_moderated_blocked_and_muted_members() -> None:
    async with Shoal.open("memory://") as shoal:
        names = ("shy", "silent", "gone", "blocked", "blocking", "muted", "ann")
        me, *others = await register(shoal, "me", *names)
        shy, silent, gone, blocked, blocking, muted, _ = others
        for one in (me, *others):
            await declare(one, f"https://mastodon.social/@the_{one.name}")
        await shy.update_profile(discoverable=False)
        await shoal.moderation.silence(silent)
        await shoal.moderation.suspend(gone)
        await me.block(blocked)
        await blocking.block(me)
        await me.mute(muted)
        await shoal.settle()
        links = [f"the_{name}@mastodon.social" for name in ("me", *names)]
        assert matched(await me.find_handles(links)) == [("ann", "the_ann@mastodon.social", "link")]
        assert matched(await me.find_handles([f"{name}@x.org" for name in ("me", *names)])) == [
            ("ann", "ann@x.org", "name")
        ]


@in_loop
async def test_find_handles_of_account_claimed_by_many_members_returns_first_five() -> None:
    async with Shoal.open("memory://") as shoal:
        me, *many = await register(shoal, "me", *(f"m{n}" for n in range(9)))
        for one in many:
            await declare(one, "https://mastodon.social/@ann")
        found = await me.find_handles(["ann@mastodon.social"])
        assert {one.profile.member.name for one in found.matches} == {f"m{n}" for n in range(5)}


@in_loop
async def test_find_handles_limits_results_and_reports_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members, "MOST_FOUND", 3)
    monkeypatch.setattr(members, "_AT_ONCE", 2)
    async with Shoal.open("memory://") as shoal:
        me, *many = await register(shoal, "me", *(f"m{n}" for n in range(5)))
        await me.follow(many[0])
        await declare(many[4], "@m4@mastodon.social")
        found = await me.find_handles([f"m{n}@mastodon.social" for n in range(5)])
        assert [name for name, _, _ in matched(found)] == ["m4", "m1", "m2"]
        assert found.more
        with pytest.raises(TooLarge):
            await me.find_handles(["ann"] * (MOST_HANDLES + 1))
        with pytest.raises(InvalidInput):
            await me.find_followees(b"{}")


@in_loop
async def test_find_handles_read_count_is_independent_of_list_length() -> None:
    async with Shoal.open("memory://") as shoal:
        me, *_ = await register(shoal, "me", *(f"m{n}" for n in range(40)))
        costs = []
        for n in (1, 40):
            handles = [f"m{at}@mastodon.social" for at in range(n)]
            costs.append(await calls(shoal.network, partial(found_by, me, handles)))
        assert costs[0] == costs[1]
        assert costs[0].total() == 5


async def found_by(me: Handle, handles: list[str], reads: Reads) -> None:
    """Look up the handles with counted reads."""
    counted = replace(reads, lasting=reads.graph)
    assert len((await members.followees_by_handle(counted, me.id, handles)).matches) == len(handles)
