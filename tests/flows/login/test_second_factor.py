"""Two-factor authentication: activation, the code at every login, deactivation, and single use of codes under concurrency."""

from __future__ import annotations

import asyncio

import pytest

from shoal import Handle, Shoal
from shoal.admin.consistency.check import check
from shoal.commands import account_deletions, authentication, credentials, members, moderation, second_factor, sessions
from shoal.core.credentials import Site
from shoal.core.errors import CodeNeeded, InvalidInput, NotAllowed, SecondFactorNeeded, Unauthenticated
from shoal.core.ids import IdMaker, now_ms
from shoal.core.model import Role
from shoal.graph.access import access_member
from tests.async_runner import in_loop
from tests.engines.authenticator_app import code_of
from tests.engines.smtp import PostOffice, post_office
from tests.stores import all_objects

PASSWORD = "a long password"


async def guarded(shoal: Shoal, name: str = "ann") -> tuple[Handle, str, list[str]]:
    """Return a member who has used the code of the previous time step, with the key and the recovery codes."""
    ann = await shoal.register(name, PASSWORD, email=f"{name}@example.org")
    key = await ann.second_factor_key()
    return ann, key, await ann.turn_on_second_factor(PASSWORD, key, code_of(key, -1))


@in_loop
async def test_login_with_second_factor_requires_unused_valid_code() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, key, recovery = await guarded(shoal)
        with pytest.raises(CodeNeeded):
            await shoal.log_in("ann", PASSWORD)
        for wrong in ("000000", "nonsense", code_of(key, -1), code_of(key, 9)):
            with pytest.raises(Unauthenticated, match="the name or the password is wrong"):
                await shoal.log_in("ann", PASSWORD, wrong)
        with pytest.raises(Unauthenticated):
            await shoal.log_in("ann", "wrong", code_of(key))
        code = code_of(key)
        assert (await shoal.log_in("ann", PASSWORD, code)).id == ann.id
        with pytest.raises(Unauthenticated):
            await shoal.log_in("ann", PASSWORD, code)
        assert (await shoal.log_in("ann", PASSWORD, recovery[0])).id == ann.id
        with pytest.raises(Unauthenticated):
            await shoal.log_in("ann", PASSWORD, recovery[0])
        # A password change keeps the second factor.
        await credentials.set_password(shoal.network.writes, ann.id, "another password")
        with pytest.raises(CodeNeeded):
            await shoal.log_in("ann", "another password")


@in_loop
async def test_second_factor_on_and_off_require_password_and_code() -> None:
    async with Shoal.open("memory://") as shoal:
        ann = await shoal.register("ann", PASSWORD)
        key = await ann.second_factor_key()
        for password, wrong_key, code, field in (
            ("wrong", key, code_of(key, -1), "current_password"),
            (PASSWORD, key, "000000", "code"),
            (PASSWORD, "A" * 24, code_of("A" * 24), "code"),
            (PASSWORD, "", "", "code"),
        ):
            with pytest.raises(InvalidInput) as caught:
                await ann.turn_on_second_factor(password, wrong_key, code)
            assert caught.value.field == field
        assert (await shoal.log_in("ann", PASSWORD)).id == ann.id
        recovery = await ann.turn_on_second_factor(PASSWORD, key, code_of(key, -1))
        with pytest.raises(NotAllowed, match="already on"):
            await ann.turn_on_second_factor(PASSWORD, key, code_of(key))
        for password, code in (("wrong", recovery[0]), (PASSWORD, "000000")):
            with pytest.raises(InvalidInput):
                await ann.turn_off_second_factor(password, code)
        fresh = await ann.new_recovery_codes(recovery[1])
        for over in recovery:
            with pytest.raises(InvalidInput):
                await ann.turn_off_second_factor(PASSWORD, over)
        await ann.turn_off_second_factor(PASSWORD, fresh[0])
        assert (await shoal.log_in("ann", PASSWORD)).id == ann.id
        with pytest.raises(NotAllowed, match="is off"):
            await ann.new_recovery_codes(fresh[1])


@in_loop
async def test_second_factor_code_sent_concurrently_is_accepted_once() -> None:
    async with Shoal.open("memory://") as shoal:
        _, key, recovery = await guarded(shoal)
        for code in (code_of(key), recovery[4]):
            answers = await asyncio.gather(
                *(shoal.log_in("ann", PASSWORD, code) for _ in range(6)), return_exceptions=True
            )
            assert [isinstance(answer, Handle) for answer in answers].count(True) == 1


@in_loop
async def test_second_factor_recovery_codes_are_not_stored_in_clear_text() -> None:
    async with Shoal.open("memory://") as shoal:
        _, _, recovery = await guarded(shoal)
        stored = repr(await all_objects(shoal.network.store))
        assert not any(code in stored or code.replace("-", "") in stored for code in recovery)


@in_loop
async def test_half_authenticated_session_is_valid_for_ten_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Shoal.open("memory://") as shoal:
        ann, _, _ = await guarded(shoal)
        writes = shoal.network.writes
        member = await access_member(writes.graph, ann.id)
        half = (await sessions.begin(writes, member)).text
        assert (await check(shoal.network, repair=True)).clean, (
            "a half-authenticated session is not reported as damaged"
        )
        assert await sessions.of_browser(writes, half) is None
        found = await sessions.halfway(writes, half)
        assert found is not None
        assert found.member.id == ann.id
        assert (await ann.sessions()).sessions == [], "a half-authenticated session is not listed"
        whole = (await sessions.begin(writes, member, proved=True)).text
        assert await sessions.halfway(writes, whole) is None
        assert await sessions.of_browser(writes, whole) is not None
        monkeypatch.setattr(IdMaker, "now", lambda _self: now_ms() + 660_000)
        assert await sessions.halfway(writes, half) is None
        assert await sessions.of_browser(writes, whole) is not None


@in_loop
async def test_half_authenticated_session_is_revoked_by_password_change() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, _, _ = await guarded(shoal)
        writes = shoal.network.writes
        half = (await sessions.begin(writes, await access_member(writes.graph, ann.id))).text
        await credentials.set_password(writes, ann.id, "another password")
        assert await sessions.halfway(writes, half) is None


@in_loop
async def test_second_factor_changes_are_mailed_to_member() -> None:
    with post_office() as office:
        async with Shoal.open("memory://", mail=office.url, base_url="https://sea.example.org") as shoal:
            ann, _, recovery = await guarded(shoal)
            await shoal.settle()
            assert _subjects(office) == ["Two-factor authentication is on for @ann"]
            await ann.turn_off_second_factor(PASSWORD, recovery[0])
            await shoal.settle()
            assert _subjects(office) == ["Two-factor authentication is off for @ann"]


def _subjects(office: PostOffice) -> list[str]:
    return [mail.subject for mail in office.take() if "factor" in mail.subject]


@in_loop
async def test_second_factor_reset_by_operator_turns_it_off() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, _, _ = await guarded(shoal)
        await second_factor.reset(shoal.network.writes, ann.id)
        assert (await shoal.log_in("ann", PASSWORD)).id == ann.id
        with pytest.raises(NotAllowed, match="is off"):
            await second_factor.reset(shoal.network.writes, ann.id)


@in_loop
async def test_half_authenticated_session_expired_is_deleted_behind_many_sessions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with Shoal.open("memory://") as shoal:
        ann, _, _ = await guarded(shoal)
        writes = shoal.network.writes
        member = await access_member(writes.graph, ann.id)
        for _ in range(25):
            await sessions.begin(writes, member, proved=True)
        half = (await sessions.begin(writes, member)).token.id
        monkeypatch.setattr(IdMaker, "now", lambda _self: now_ms() + 660_000)
        await sessions.begin(writes, member, proved=True)
        assert half not in await writes.graph.obj_get((half,))


@in_loop
async def test_second_factor_activation_revokes_sessions_of_staff_only() -> None:
    async with Shoal.open("memory://") as shoal:
        writes = shoal.network.writes
        for name, role, ended in (("ann", Role.ADMIN, True), ("ben", Role.NONE, False)):
            handle = await shoal.register(name, PASSWORD)
            await moderation.set_role(writes, handle.id, role)
            before = (await sessions.begin(writes, await access_member(writes.graph, handle.id))).text
            key = await handle.second_factor_key()
            await handle.turn_on_second_factor(PASSWORD, key, code_of(key, -1))
            assert (await sessions.of_browser(writes, before) is None) == ended


@in_loop
async def test_email_change_undo_turns_off_second_factor_only_if_set_after_the_change() -> None:
    with post_office() as office:
        async with Shoal.open("memory://", mail=office.url, base_url="https://sea.example.org") as shoal:
            for name, first in (("ann", False), ("ben", True)):
                handle = await shoal.register(name, PASSWORD, email=f"{name}@example.org")
                if first:
                    await _turn_on(handle)
                await handle.change_email(PASSWORD, f"{name}@thief.example.org")
                await shoal.settle()
                await shoal.confirm_email(office.to(f"{name}@thief.example.org").proof)
                await shoal.settle()
                if not first:
                    await _turn_on(handle)
                await shoal.undo_email_change(office.to(f"{name}@example.org").proof)
                await shoal.settle()
                await shoal.reset_password(office.to(f"{name}@example.org").proof, "the owner's own")
                if first:
                    with pytest.raises(CodeNeeded):
                        await shoal.log_in(name, "the owner's own")
                else:
                    assert (await shoal.log_in(name, "the owner's own")).id == handle.id
            assert (await check(shoal.network)).clean


async def _turn_on(handle: Handle) -> None:
    key = await handle.second_factor_key()
    await handle.turn_on_second_factor(PASSWORD, key, code_of(key, -1))


@in_loop
async def test_second_factor_deactivation_by_staff_is_refused_when_required() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, _, recovery = await guarded(shoal)
        writes = shoal.network.writes
        await moderation.set_role(writes, ann.id, Role.MODERATOR)
        with pytest.raises(SecondFactorNeeded):
            await second_factor.turn_off(writes, ann.id, PASSWORD, recovery[0], required=True)
        await second_factor.turn_off(writes, ann.id, PASSWORD, recovery[0])
        member = await access_member(writes.graph, ann.id)
        second_factor.check_staff(member, required=False)
        with pytest.raises(SecondFactorNeeded):
            second_factor.check_staff(member, required=True)


class Asker:
    """A client at an address, without a rate limit."""

    def __init__(self, address: str) -> None:
        self.address = self.network = address
        self.site = Site("https://shoal.test", "shoal.test", "Shoal")
        self.known: list[bool] = []
        self.accounts: list[tuple[str, bool]] = []

    async def begin(self, account: str, *, known: bool, code: bool = False) -> None:
        """Record the account key, and whether the network is known."""
        self.known.append(known)
        self.accounts.append((account, code))

    async def take_back(self) -> None:
        """Do nothing: only calls of `begin` are recorded."""


@in_loop
async def test_login_address_range_is_trusted_only_after_correct_second_factor() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, key, _ = await guarded(shoal)
        writes = shoal.network.writes
        thief, owner = Asker("192.0.2.1"), Asker("198.51.100.1")
        for _ in range(2):
            await members.knows_password(writes, "ann", PASSWORD, thief)
        assert thief.known == [False, False], "the password alone does not make a network known"
        member = await access_member(writes.graph, ann.id)
        assert await authentication.code_counts(writes, member, code_of(key), owner)
        await members.knows_password(writes, "ann", PASSWORD, owner)
        assert owner.known == [False, True]
        assert owner.accounts == [(str(ann.id), True), (authentication.account_key("ann"), False)]
        # A password change does not make a network known, nor does a refused request for recovery codes.
        await credentials.change_password(writes, ann.id, PASSWORD, "another password", thief)
        await members.knows_password(writes, "ann", "another password", thief)
        assert not any(thief.known)
        ben = await shoal.register("ben", PASSWORD)
        with pytest.raises(NotAllowed, match="is off"):
            await second_factor.new_codes(writes, ben.id, "000000", thief)
        await members.knows_password(writes, "ben", PASSWORD, Asker("203.0.113.1"))
        await members.knows_password(writes, "ben", PASSWORD, thief)
        assert not any(thief.known)


@in_loop
async def test_second_factor_is_kept_when_account_deletion_is_cancelled() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, _, _ = await guarded(shoal)
        await ann.leave(PASSWORD)
        await account_deletions.come_back(shoal.network.writes, "ann", PASSWORD)
        with pytest.raises(CodeNeeded):
            await shoal.log_in("ann", PASSWORD)
