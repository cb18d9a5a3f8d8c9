"""Invitation use counts are exact on every store, across processes and when commit replies are lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal import Handle, Shoal
from shoal.admin.consistency.check import check
from shoal.commands import invitations, members, moderation
from shoal.commands.context import Writes
from shoal.core.errors import (
    InvalidInput,
    NotAllowed,
    NotFound,
    OutcomeUnknown,
    ShoalError,
    Taken,
    Unavailable,
)
from shoal.core.ids import IdMaker, milliseconds_of
from shoal.core.model import Member, Role
from shoal.core.signup import HOLD_MS, Invitation
from shoal.graph.contract import Batch, Graph
from shoal.graph.schema import FOLLOWS, OWNS_INVITATION, REQUESTS
from tests.async_runner import in_loop
from tests.example_counts import examples
from tests.flows.test_limits import STORES, aggregate_id, networks
from tests.stores import Forgetful, all_objects

_HOUR, _DAY = 3_600, 86_400


def _nothing() -> None:
    pass


def _die() -> None:
    raise RuntimeError("the process died")


async def joined(writes: Writes, code: str, name: str, before: Callable[[], None] = _nothing) -> Member:
    """Sign up with an invitation; `before` runs before the member is created."""
    async with invitations.held(writes, code, name) as invited:
        before()
        return await members.register(writes, name, invited=invited)


def later(writes: Writes, milliseconds: int) -> Writes:
    """Return the bundle with its clock moved forward by `milliseconds`."""
    now = milliseconds_of(writes.new_id(0))
    return replace(writes, new_id=IdMaker(lambda: now + milliseconds))


async def stored(writes: Writes, invitation: Invitation) -> Invitation:
    node = (await writes.graph.obj_get((invitation.id,)))[invitation.id]
    assert isinstance(node, Invitation)
    return node


@pytest.mark.parametrize("store", STORES)
@in_loop
async def test_invitation_with_five_uses_admits_five_of_sixteen_concurrent_signups(store: str, tmp_path: Path) -> None:
    async with networks(store, tmp_path) as found:
        all_writes = [replace(network.writes, inviters="members") for network in found]
        writes = all_writes[0]
        ann = (await members.register(writes, "ann")).id
        made = await invitations.create(writes, ann, uses=5)
        work = [joined(all_writes[n % len(found)], made.code, f"member{n}") for n in range(16)]
        assert await aggregate_id(work) == (5, 11)
        (now,) = await invitations.of_member(writes, ann)
        assert (now.used, now.holds) == (5, ())
        nodes = [node for node in await all_objects(found[0].store) if isinstance(node, Member)]
        assert sorted(node.invited_by for node in nodes) == [0, *[ann] * 5]


@in_loop
async def test_invitation_last_use_admits_one_of_two_concurrent_signups() -> None:
    async with Shoal.open("memory://", invitations="members") as shoal:
        ann = await shoal.register("ann")
        made = await ann.invite()
        first, second = await asyncio.gather(
            *(shoal.register(name, invite_code=made.code) for name in ("ben", "cyd")), return_exceptions=True
        )
        assert isinstance(first, Handle)
        assert isinstance(second, InvalidInput)
        assert (str(second), second.field) == ("This invitation is used up", "invite_code")
        assert (await first.profile()).member.invited_by == ann.id


@in_loop
async def test_invitation_signup_repeated_or_refused_takes_no_extra_use() -> None:
    async with Shoal.open("memory://", invitations="members") as shoal:
        ann = await shoal.register("ann")
        made = await ann.invite(2)
        twice = await asyncio.gather(
            *(shoal.register("ben", invite_code=made.code) for _ in range(2)), return_exceptions=True
        )
        assert {type(one) for one in twice} == {Handle, Taken}
        assert [(one.used, one.holds) for one in await ann.invitations()] == [(1, ())]
        with pytest.raises(InvalidInput, match="maximum is 500"):
            await shoal.register("cyd", note="n" * 501, invite_code=made.code)
        assert [(one.used, one.holds) for one in await ann.invitations()] == [(1, ())]
        await shoal.register("cyd", invite_code=made.code)
        with pytest.raises(InvalidInput, match="used up"):
            await shoal.register("dee", invite_code=made.code)


@in_loop
async def test_invitation_code_invalid_expired_or_revoked_is_refused() -> None:
    async with Shoal.open("memory://", invitations="members") as shoal:
        writes = shoal.network.writes
        ann, eve = await shoal.register("ann"), await shoal.register("eve")
        made = await ann.invite(3, days=1 / 24)
        for code in ("", "x", made.code[:-1], made.code[:-2] + "AA", "🌊"):
            with pytest.raises(InvalidInput, match="There is no such invitation"):
                await joined(writes, code, "ben")
        await joined(later(writes, (_HOUR - 1) * 1_000), made.code, "ben")
        with pytest.raises(InvalidInput, match="This invitation has expired"):
            await joined(later(writes, (_HOUR + 1) * 1_000), made.code, "cyd")
        with pytest.raises(NotFound):
            await eve.end_invitation(made)
        await ann.end_invitation(made)
        with pytest.raises(InvalidInput, match="There is no such invitation"):
            await joined(writes, made.code, "cyd")
        with pytest.raises(NotFound):
            await ann.end_invitation(made.id)
        assert await ann.invitations() == []
        assert (await check(shoal.network)).clean


@in_loop
async def test_invitation_uses_and_lifetime_are_limited_except_for_staff() -> None:
    async with Shoal.open("memory://", invitations="members") as shoal:
        ann, mod = await shoal.register("ann"), await shoal.register("max")
        await shoal.moderation.set_role(mod, Role.MODERATOR)
        for values in ({"uses": 0}, {"uses": 101}, {"uses": -1}, {"days": 0}, {"days": 0.04}, {"days": 31}):
            with pytest.raises(InvalidInput):
                await ann.invite(**values)
        await ann.invite(100, days=30)
        made = await mod.invite(0, days=0)
        far = later(shoal.network.writes, 400 * _DAY * 1_000)
        for n in range(103):
            await joined(far, made.code, f"member{n}")
        assert [one.used for one in await mod.invitations()] == [103]
        with pytest.raises(InvalidInput, match="1 to 100"):
            await mod.invite(101)


@in_loop
async def test_invitations_per_member_are_limited_to_fifty_open_and_old_ones_are_pruned() -> None:
    async with Shoal.open("memory://", invitations="members") as shoal:
        writes = shoal.network.writes
        ann = await shoal.register("ann")
        assert await aggregate_id([ann.invite(days=1) for _ in range(60)]) == (50, 10)
        before = {one.id for one in await ann.invitations()}
        for days in (2, 20, 38):
            for _ in range(50):
                await invitations.create(later(writes, days * _DAY * 1_000), ann.id)
        kept = await ann.invitations()
        assert len(kept) == 100
        assert not before & {one.id for one in kept}
        assert (await check(shoal.network)).clean


@in_loop
async def test_invitations_setting_limits_inviters_and_valid_links() -> None:
    async with Shoal.open("memory://", invitations="members") as shoal:
        writes = shoal.network.writes
        ann, mod = await shoal.register("ann"), await shoal.register("max")
        await shoal.moderation.set_role(mod, Role.MODERATOR)
        hers, theirs = await ann.invite(), await mod.invite()
        staff, off = replace(writes, inviters="staff"), replace(writes, inviters="off")
        with pytest.raises(NotAllowed):
            await invitations.create(staff, ann.id)
        with pytest.raises(NotAllowed):
            await invitations.create(off, mod.id)
        await invitations.create(staff, mod.id)
        for refusing, code in ((staff, hers.code), (off, theirs.code)):
            with pytest.raises(InvalidInput, match="This invitation has expired"):
                await invitations.offered(refusing, code)
        assert (await invitations.offered(staff, theirs.code)).inviter.id == mod.id
        assert (await invitations.offered(writes, hers.code)).invitation.id == hers.id


@in_loop
async def test_invitations_are_deleted_on_suspension_and_paused_during_account_deletion() -> None:
    async with Shoal.open("memory://", invitations="members") as shoal:
        writes, store = shoal.network.writes, shoal.network.store
        ann, ben = await shoal.register("ann", "a long password"), await shoal.register("ben", "a long password")
        hers, his = await ann.invite(), [await ben.invite() for _ in range(25)]
        await shoal.suspend(ben)
        with pytest.raises(InvalidInput, match="This invitation has expired"):
            await invitations.offered(writes, his[0].code)
        await shoal.settle()
        await shoal.restore(ben)
        assert await ben.invitations() == []
        assert (await store.assoc_count((ben.id,), (OWNS_INVITATION,)))[OWNS_INVITATION] == {}
        await ann.leave("a long password")
        await shoal.settle()
        with pytest.raises(InvalidInput, match="This invitation has expired"):
            await invitations.offered(writes, hers.code)
        await shoal.come_back("ann", "a long password")
        assert (await invitations.offered(writes, hers.code)).invitation.id == hers.id


@in_loop
async def test_invitation_revocation_by_staff_is_refused_for_higher_roles() -> None:
    async with Shoal.open("memory://", invitations="members") as shoal:
        writes = shoal.network.writes
        ann, mod, boss = [await shoal.register(name) for name in ("ann", "max", "bob")]
        await shoal.moderation.set_role(mod, Role.MODERATOR)
        await shoal.moderation.set_role(boss, Role.ADMIN)
        hers, own, highest = await ann.invite(), await mod.invite(), await boss.invite()
        await invitations.end_as_staff(writes, mod.id, hers.id)
        await invitations.end_as_staff(writes, mod.id, own.id)
        with pytest.raises(NotAllowed):
            await invitations.end_as_staff(writes, mod.id, highest.id)
        with pytest.raises(NotFound):
            await invitations.end_as_staff(writes, mod.id, hers.id)
        assert [await one.invitations() for one in (ann, mod, boss)] == [[], [], [highest]]


@in_loop
async def test_invitation_with_follow_makes_new_member_follow_inviter() -> None:
    async with Shoal.open("memory://", invitations="members") as shoal:
        store, writes = shoal.network.store, shoal.network.writes
        ann = await shoal.register("ann")
        made = await ann.invite(5, follow=True)
        ben = await shoal.register("ben", invite_code=made.code)
        cyd = await shoal.register("cyd", invite_code=(await ann.invite()).code)
        await shoal.settle()
        assert [one.member.id for one in (await ann.followers_of(ann)).profiles] == [ben.id]
        assert not (await cyd.relations(ann))[ann.id].following
        await ann.create("hello")
        await shoal.settle()
        assert [entry.post.text for entry in (await ben.home()).entries] == ["hello"]

        waits = await shoal.register("dee", pending=True, invite_code=made.code)
        await shoal.settle()
        assert (await store.assoc_count((waits.id,), (FOLLOWS,)))[FOLLOWS] == {}
        await moderation.approve(writes, waits.id)
        await ann.update_profile(locked=True)
        fay = await shoal.register("fay", invite_code=made.code)
        await shoal.settle()
        counts = await store.assoc_count((waits.id, fay.id), (FOLLOWS, REQUESTS))
        assert counts == {FOLLOWS: {waits.id: 1}, REQUESTS: {fay.id: 1}}
        assert (await check(shoal.network)).clean


@in_loop
async def test_invitation_follow_is_skipped_when_inviter_is_suspended() -> None:
    async with Shoal.open("memory://", invitations="members") as shoal:
        ann = await shoal.register("ann")
        waits = await shoal.register("dee", pending=True, invite_code=(await ann.invite(follow=True)).code)
        await shoal.suspend(ann)
        await moderation.approve(shoal.network.writes, waits.id)
        await shoal.settle()
        assert (await shoal.network.store.assoc_count((waits.id,), (FOLLOWS,)))[FOLLOWS] == {}


@in_loop
async def test_invitation_use_with_lost_commit_reply_is_counted_once() -> None:
    async with Shoal.open("memory://", invitations="members") as shoal:
        ann = await shoal.register("ann")
        graph = Forgetful(shoal.network.store)
        writes = replace(shoal.network.writes, graph=cast("Graph", graph))
        made = await ann.invite(3)
        # The reply to the commit that holds the use is lost.
        graph.losses = 1
        await joined(writes, made.code, "ben")
        assert ((await stored(writes, made)).used, (await stored(writes, made)).holds) == (1, ())
        # The reply to the commit that creates the member is lost: the outcome is known when the hold expires.
        with pytest.raises(OutcomeUnknown):
            await joined(writes, made.code, "cyd", before=lambda: setattr(graph, "losses", 1))
        assert [hold.name for hold in (await stored(writes, made)).holds] == ["cyd"]
        # The process dies before it creates the member.
        with pytest.raises(RuntimeError):
            await joined(writes, made.code, "dee", before=_die)
        assert (await stored(writes, made)).is_used_up()
        with pytest.raises(InvalidInput, match="used up"):
            await joined(writes, made.code, "eve")
        after = later(writes, HOLD_MS + 1)
        assert [one.used for one in await invitations.of_member(after, ann.id)] == [2]
        await joined(after, made.code, "eve")
        with pytest.raises(InvalidInput, match="used up"):
            await joined(after, made.code, "fay")
        assert ((await stored(writes, made)).used, (await stored(writes, made)).holds) == (3, ())


@in_loop
async def test_invitation_signup_retried_after_crash_takes_no_second_use() -> None:
    async with Shoal.open("memory://", invitations="members") as shoal:
        ann, writes = await shoal.register("ann"), shoal.network.writes
        made = await ann.invite()
        with pytest.raises(RuntimeError):
            await joined(writes, made.code, "ben", before=_die)
        with pytest.raises(InvalidInput, match="used up"):
            await joined(writes, made.code, "cyd")
        ben = await joined(writes, made.code, "ben")
        assert ben.invited_by == ann.id
        (now,) = await invitations.of_member(later(writes, HOLD_MS + 1), ann.id)
        assert (now.used, now.holds) == (1, ())


class Unreliable:
    """A store whose commits are stored, refused or stored without a reply, as a list prescribes."""

    def __init__(self, store: Graph, fates: list[str]) -> None:
        self._store = store
        self._fates = fates

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def commit(self, batch: Batch) -> None:
        """Commit with the next outcome in the list."""
        fate = self._fates.pop() if self._fates else "stored"
        await asyncio.sleep(0)
        if fate == "refused":
            raise Unavailable("the store is away")
        await self._store.commit(batch)
        if fate == "lost":
            raise OutcomeUnknown("the answer is lost")


@settings(max_examples=examples(30, full=60), deadline=None)
@given(
    uses=st.integers(1, 3),
    names=st.lists(st.sampled_from(["ben", "cyd", "dee", "eve", "fay"]), max_size=8),
    fates=st.lists(st.sampled_from(["stored", "stored", "stored", "refused", "lost"]), max_size=30),
    at_once=st.booleans(),
)
def test_invitation_use_count_equals_invited_members_under_commit_failures(
    uses: int, names: list[str], fates: list[str], at_once: bool
) -> None:
    async def story() -> None:
        async with Shoal.open("memory://", invitations="members") as shoal:
            ann = await shoal.register("ann")
            made = await ann.invite(uses)
            graph = cast("Graph", Unreliable(shoal.network.store, fates))
            writes = replace(shoal.network.writes, graph=graph)

            async def attempt(name: str) -> Member | ShoalError:
                try:
                    return await joined(writes, made.code, name)
                except ShoalError as error:
                    return error

            work = [attempt(name) for name in names]
            answers = await asyncio.gather(*work) if at_once else [await one for one in work]
            there = {
                node.id
                for node in await all_objects(shoal.network.store)
                if isinstance(node, Member) and node.invited_by == ann.id
            }
            assert {one.id for one in answers if isinstance(one, Member)} <= there
            after = later(shoal.network.writes, HOLD_MS + 1)
            (now,) = await invitations.of_member(after, ann.id)
            assert (now.used, now.holds) == (len(there), ())
            assert now.used <= uses
            # The remaining uses are available after any failure.
            for n in range(uses - now.used):
                await joined(after, made.code, f"last{n}")
            with pytest.raises(InvalidInput, match="used up"):
                await joined(after, made.code, "zoe")

    asyncio.run(story())
