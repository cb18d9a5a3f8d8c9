"""Passkeys log in, alone or as a second factor; answers that do not prove possession of the member's device are refused."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from fido2.utils import websafe_decode, websafe_encode
from hypothesis import given
from hypothesis import strategies as st

from shoal import Handle, Shoal
from shoal.admin.consistency.check import check
from shoal.commands import authentication, credentials, members, moderation, passkeys, second_factor
from shoal.commands.context import Writes
from shoal.core import credentials as challenge_rules
from shoal.core.audit import AuditVerb
from shoal.core.credentials import (
    GOOD_MS,
    BadAnswer,
    Passkey,
    Purpose,
    is_good,
    new_challenge,
    read_assertion,
    read_new_key,
    site_of,
)
from shoal.core.errors import InvalidInput, NotAllowed, NotFound, Unauthenticated
from shoal.core.ids import IdMaker, shard_of
from shoal.core.model import Member
from shoal.graph.access import access_member
from shoal.graph.schema import used_challenge_key
from shoal.scheduler import Agenda
from tests.async_runner import in_loop
from tests.audit.log_reader import entries
from tests.engines import postgres, redis
from tests.engines.authenticator_app import code_of
from tests.engines.smtp import post_office
from tests.engines.virtual_authenticator import SoftDevice

PASSWORD = "a long password"
SITE = site_of("https://shoal.test", "Shoal")
OTHER = site_of("https://elsewhere.test", "Elsewhere")


class Browser:
    """A client without a rate limit."""

    address = network = "192.0.2.7"
    site = SITE

    async def begin(self, account: str, *, known: bool, code: bool = False) -> None:
        """Count nothing."""

    async def take_back(self) -> None:
        """Take nothing back."""


HERE = Browser()


@dataclass
class Owner:
    """A member with a device."""

    handle: Handle
    device: SoftDevice
    writes: Writes

    @property
    async def member(self) -> Member:
        return await access_member(self.writes.graph, self.handle.id)

    async def add(self, name: str = "Phone", code: str = "", device: SoftDevice | None = None, **cheat: Any) -> Passkey:
        """Add a passkey of the device."""
        asked: Any = await passkeys.options(self.writes, SITE, await self.member)
        answer = (device or self.device).make(asked, **cheat)
        return await passkeys.add(self.writes, self.handle.id, name, answer, PASSWORD, code, HERE)

    async def question(self, purpose: Purpose = Purpose.LOG_IN) -> Any:
        """Return the options that a browser passes to a device."""
        return await authentication.passkey_options(
            self.writes, SITE, purpose, None if purpose is Purpose.LOG_IN else await self.member
        )

    async def answer(self, purpose: Purpose = Purpose.LOG_IN, **cheat: Any) -> str:
        """Return the answer of the device to these options."""
        return self.device.answer(await self.question(purpose), **cheat)

    async def log_in(self, **cheat: Any) -> Member:
        """Log in by the passkey alone."""
        return await members.by_passkey(self.writes, await self.answer(**cheat), HERE)

    async def second(self, **cheat: Any) -> bool:
        """Return whether the passkey is accepted as a second factor."""
        answer = await self.answer(Purpose.SECOND, **cheat)
        return await authentication.code_counts(self.writes, await self.member, answer, HERE)


async def owner(shoal: Shoal, name: str = "ann", **how: Any) -> Owner:
    handle = await shoal.register(name, PASSWORD, email=f"{name}@example.org")
    made = Owner(handle, SoftDevice(**how), shoal.network.writes)
    await made.add()
    return made


@pytest.mark.parametrize("algorithm", ["ES256", "EdDSA", "RS256"])
@in_loop
async def test_passkey_login_works_after_registration_with_each_algorithm(algorithm: str) -> None:
    async with Shoal.open("memory://") as shoal:
        ann = await owner(shoal, algorithm=algorithm)
        (stored,) = await passkeys.of_member(ann.writes, ann.handle.id)
        assert (stored.name, stored.used_at) == ("Phone", 0)
        assert (await ann.log_in()).id == ann.handle.id
        (used,) = await passkeys.of_member(ann.writes, ann.handle.id)
        assert used.used_at >= used.made_at > 0
        # A passkey alone does not turn on two-factor authentication: the password still logs in.
        assert (await shoal.log_in("ann", PASSWORD)).id == ann.handle.id
        # A password change or reset keeps the passkey.
        await credentials.set_password(ann.writes, ann.handle.id, "another password")
        assert (await ann.log_in()).id == ann.handle.id
        assert (await check(shoal.network)).clean


CHEATS: dict[str, dict[str, Any]] = {
    "another site": {"origin": "https://elsewhere.test"},
    "a host that starts with the site": {"origin": "https://shoal.test.elsewhere.test"},
    "another port": {"origin": "https://shoal.test:8443"},
    "without TLS": {"origin": "http://shoal.test"},
    "another host in the signed data": {"host": "elsewhere.test"},
    "user not present": {"present": False},
    "user not verified": {"verified": False},
    "cross-origin iframe": {"across": True},
    "made for a registration": {"kind": "webauthn.create"},
    "a challenge of its own": {"challenge": b"x" * 40},
    "another signature": {"signature": b"\x30\x06\x02\x01\x01\x02\x01\x01"},
    "no signature": {"signature": b""},
    "handle of no member": {"handle": (5).to_bytes(8)},
    "without a handle": {"handle": None},
    "malformed handle": {"handle": b"\xff" * 64},
}


@pytest.mark.parametrize("cheat", CHEATS.values(), ids=CHEATS.keys())
@in_loop
async def test_passkey_login_with_invalid_assertion_is_refused(cheat: dict[str, Any]) -> None:
    async with Shoal.open("memory://") as shoal:
        ann = await owner(shoal)
        with pytest.raises(Unauthenticated, match="unknown passkey"):
            await ann.log_in(**cheat)
        assert (await ann.log_in()).id == ann.handle.id


@pytest.mark.parametrize("cheat", [*list(CHEATS.items())[:5], *list(CHEATS.items())[7:12]], ids=lambda one: one[0])
@in_loop
async def test_passkey_second_factor_and_registration_with_invalid_answer_are_refused(
    cheat: tuple[str, dict[str, Any]],
) -> None:
    async with Shoal.open("memory://") as shoal:
        ann = await owner(shoal)
        asked: Any = await passkeys.options(ann.writes, SITE, await ann.member)
        await second_factor.turn_on_by_passkey(
            ann.writes, ann.handle.id, PASSWORD, await ann.answer(Purpose.CONFIRM), HERE
        )
        assert not await ann.second(**cheat[1])
        assert await ann.second()
        made = {**cheat[1], "kind": "webauthn.get"} if "kind" in cheat[1] else cheat[1]
        if "signature" not in made:
            answer = SoftDevice().make({**asked, "excludeCredentials": []}, **made)
            with pytest.raises(InvalidInput, match="did not make a passkey"):
                await passkeys.add(ann.writes, ann.handle.id, "x", answer, PASSWORD, "", HERE)


@in_loop
async def test_passkey_without_user_verification_is_second_factor_but_no_login() -> None:
    async with Shoal.open("memory://") as shoal:
        ann = await owner(shoal, verifies=False)
        codes = await second_factor.turn_on_by_passkey(
            ann.writes, ann.handle.id, PASSWORD, await ann.answer(Purpose.CONFIRM), HERE
        )
        assert len(codes) == 10
        with pytest.raises(Unauthenticated):
            await ann.log_in()
        assert await ann.second()
        assert await authentication.code_counts(ann.writes, await ann.member, codes[0], HERE)
        # Without an authenticator app there are no codes to guess.
        assert not await authentication.code_counts(ann.writes, await ann.member, "000000", HERE)


@in_loop
async def test_passkey_assertion_sent_concurrently_is_accepted_once() -> None:
    async with Shoal.open("memory://") as shoal:
        ann = await owner(shoal, counts=True)
        for purpose in (Purpose.LOG_IN, Purpose.SECOND):
            answer = await ann.answer(purpose)

            async def sent(answer: str = answer, purpose: Purpose = purpose) -> bool:
                if purpose is Purpose.SECOND:
                    return (
                        await authentication.use_passkey(ann.writes, SITE, await ann.member, answer, purpose)
                        is not None
                    )
                try:
                    return (await members.by_passkey(ann.writes, answer, HERE)).id == ann.handle.id
                except Unauthenticated:
                    return False

            assert [*await asyncio.gather(*(sent() for _ in range(6)))].count(True) == 1
            assert not await sent()


@in_loop
async def test_passkey_challenge_is_valid_for_one_purpose_one_member_and_five_minutes() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await owner(shoal), await owner(shoal, "ben")
        for asked in (Purpose.SECOND, Purpose.CONFIRM, Purpose.ADD):
            question = {**await ann.question(Purpose.LOG_IN), **(await ann.question(asked)), "allowCredentials": []}
            with pytest.raises(Unauthenticated):
                await members.by_passkey(ann.writes, ann.device.answer(question), HERE)
        question = {**await ben.question(Purpose.SECOND), "allowCredentials": []}
        member = await ann.member
        assert (
            await authentication.use_passkey(ann.writes, SITE, member, ann.device.answer(question), Purpose.SECOND)
            is None
        )
        late = await ann.answer()
        now = ann.writes.new_id.now()
        for after, good in ((GOOD_MS, False), (GOOD_MS - 10_000, True)):
            moved = replace(ann.writes, new_id=IdMaker(lambda after=after: now + after))  # type: ignore[misc]
            if good:
                assert (await members.by_passkey(moved, late, HERE)).id == ann.handle.id
            else:
                with pytest.raises(Unauthenticated):
                    await members.by_passkey(moved, late, HERE)


@in_loop
async def test_passkey_used_challenge_is_remembered_until_it_expires() -> None:
    async with Shoal.open("memory://") as shoal:
        ann = await owner(shoal)
        answer = await ann.answer()
        await members.by_passkey(ann.writes, answer, HERE)
        now = ann.writes.new_id.now()
        await shoal.network.store.sweep(0, now + GOOD_MS)
        with pytest.raises(Unauthenticated):
            await members.by_passkey(ann.writes, answer, HERE)
        challenge = read_assertion(answer).challenge
        key = used_challenge_key(shard_of(ann.handle.id), challenge)
        assert await ann.writes.graph.key_get((key,))
        late = replace(ann.writes, new_id=IdMaker(lambda: now + 3 * GOOD_MS))
        with pytest.raises(Unauthenticated):
            await members.by_passkey(late, answer, HERE)


@in_loop
async def test_passkey_login_with_passkey_of_other_member_is_refused() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await owner(shoal), await owner(shoal, "ben")
        # Ben's device sends Ann's handle, then another key under Ann's credential id, then answers Ann's challenge.
        handle = ann.device.held[0].handle
        with pytest.raises(Unauthenticated):
            await ben.log_in(handle=handle)
        ben.device.held[0].credential = ann.device.held[0].credential
        with pytest.raises(Unauthenticated):
            await ben.log_in(handle=handle)
        question = await ann.question(Purpose.SECOND)
        answer = ben.device.answer({**question, "allowCredentials": []})
        assert await authentication.use_passkey(ann.writes, SITE, await ann.member, answer, Purpose.SECOND) is None
        assert (await ann.log_in()).id == ann.handle.id


@in_loop
async def test_passkey_login_with_cloned_authenticator_is_refused_and_mailed() -> None:
    with post_office() as office:
        async with Shoal.open("memory://", mail=office.url) as shoal:
            ann = await owner(shoal, counts=True)
            await ann.log_in()
            await shoal.settle()
            office.take()
            for count in (2, 1, 0):
                with pytest.raises(Unauthenticated):
                    await ann.log_in(count=count)
            await shoal.settle()
            told = office.take()
            assert [mail.subject for mail in told] == ["A copied passkey of @ann was rejected"] * 3
            assert "“Phone”" in told[0].text
            # When one answer is sent several times concurrently, the repeats count as used answers, not as clones.
            answer = await ann.answer()
            sent = [members.by_passkey(ann.writes, answer, HERE) for _ in range(4)]
            done = await asyncio.gather(*sent, return_exceptions=True)
            assert [isinstance(one, Member) for one in done].count(True) == 1
            assert ann.device.held[0].count > 2
            assert (await ann.log_in()).id == ann.handle.id
            await shoal.settle()
            assert office.take() == []


@in_loop
async def test_passkey_change_mails_are_sent_in_member_language() -> None:
    with post_office() as office:
        async with Shoal.open("memory://", mail=office.url) as shoal:
            ann = await owner(shoal)
            await shoal.settle()
            assert [mail.subject for mail in office.take()] == ["New passkey for @ann"]
            await ann.handle.update_profile(default_language="de")
            added = await ann.add("Schlüssel", device=SoftDevice())
            await shoal.settle()
            (mail,) = office.take()
            assert mail.subject == "Neuer Passkey für @ann"
            assert "„Schlüssel“" in mail.text
            assert "„Schlüssel“" in mail.html
            await passkeys.remove(ann.writes, ann.handle.id, added.id, PASSWORD, "", HERE)
            await passkeys.rename(
                ann.writes, ann.handle.id, (await passkeys.of_member(ann.writes, ann.handle.id))[0].id, "x"
            )
            await shoal.settle()
            assert [mail.subject for mail in office.take()] == ["Ein Passkey von @ann wurde entfernt"]


@in_loop
async def test_passkey_add_and_remove_require_password_and_second_factor() -> None:
    async with Shoal.open("memory://") as shoal:
        ann = await owner(shoal)
        (first,) = await passkeys.of_member(ann.writes, ann.handle.id)
        key = await ann.handle.second_factor_key()
        codes = await ann.handle.turn_on_second_factor(PASSWORD, key, code_of(key, -1))
        asked: Any = await passkeys.options(ann.writes, SITE, await ann.member)
        made = SoftDevice().make(asked)
        for password, code, field in (
            ("wrong", codes[0], "current_password"),
            (PASSWORD, "", "code"),
            (PASSWORD, "1", "code"),
        ):
            with pytest.raises(InvalidInput) as caught:
                await passkeys.add(ann.writes, ann.handle.id, "x", made, password, code, HERE)
            assert caught.value.field == field
            with pytest.raises(InvalidInput) as caught:
                await passkeys.remove(ann.writes, ann.handle.id, first.id, password, code, HERE)
            assert caught.value.field == field
        # A code or an answer of an existing passkey is accepted, but not an answer to a login challenge.
        with pytest.raises(InvalidInput):
            await ann.add("Key", await ann.answer(Purpose.SECOND), SoftDevice())
        second = await ann.add("Key", await ann.answer(Purpose.CONFIRM), SoftDevice())
        await passkeys.remove(ann.writes, ann.handle.id, first.id, PASSWORD, codes[1], HERE)
        assert [one.id for one in await passkeys.of_member(ann.writes, ann.handle.id)] == [second.id]
        with pytest.raises(Unauthenticated):
            await ann.log_in()
        with pytest.raises(NotFound):
            await passkeys.remove(ann.writes, ann.handle.id, first.id, PASSWORD, codes[2], HERE)


@in_loop
async def test_passkey_removal_of_last_second_factor_is_refused() -> None:
    async with Shoal.open("memory://") as shoal:
        ann = await owner(shoal)
        (first,) = await passkeys.of_member(ann.writes, ann.handle.id)
        codes = await second_factor.turn_on_by_passkey(
            ann.writes, ann.handle.id, PASSWORD, await ann.answer(Purpose.CONFIRM), HERE
        )
        assert (await ann.member).second_factor
        with pytest.raises(NotAllowed, match="is your second factor"):
            await passkeys.remove(ann.writes, ann.handle.id, first.id, PASSWORD, codes[0], HERE)
        answer = await ann.answer(Purpose.CONFIRM)
        await second_factor.turn_off(ann.writes, ann.handle.id, PASSWORD, answer, HERE)
        await passkeys.remove(ann.writes, ann.handle.id, first.id, PASSWORD, "", HERE)
        assert await passkeys.of_member(ann.writes, ann.handle.id) == ()


@in_loop
async def test_passkey_registration_answer_sent_concurrently_is_accepted_once() -> None:
    async with Shoal.open("memory://") as shoal:
        ann = await owner(shoal)
        asked: Any = await passkeys.options(ann.writes, SITE, await ann.member)
        assert [websafe_decode(one["id"]) for one in asked["excludeCredentials"]] == [ann.device.held[0].credential]
        answer = SoftDevice().make(asked)

        async def sent() -> bool:
            try:
                await passkeys.add(ann.writes, ann.handle.id, "Key", answer, PASSWORD, "", HERE)
            except InvalidInput:
                return False
            return True

        assert [*await asyncio.gather(*(sent() for _ in range(4)))].count(True) == 1
        added = (await passkeys.of_member(ann.writes, ann.handle.id))[1]
        await passkeys.remove(ann.writes, ann.handle.id, added.id, PASSWORD, "", HERE)
        assert not await sent(), "a removed passkey does not return when its registration answer is sent again"


@in_loop
async def test_passkeys_are_exported_by_name_and_deleted_with_account(tmp_path: Path) -> None:
    async with Shoal.open("memory://", leaving_days=0) as shoal:
        ann = await owner(shoal)
        await ann.log_in()
        assert await ann.handle.export(tmp_path / "ann") == 0
        (told,) = json.loads((tmp_path / "ann" / "passkeys.json").read_text())
        assert (told.pop("name"), sorted(told)) == ("Phone", ["last_used", "made"])
        answer = await ann.answer()
        await ann.handle.leave(PASSWORD)
        with pytest.raises((NotAllowed, Unauthenticated)):
            await members.by_passkey(ann.writes, answer, HERE)
        await cleared(shoal, ann.handle.id)
        with pytest.raises(Unauthenticated):
            await ann.log_in()


async def cleared(shoal: Shoal, member_id: int) -> None:
    """Run the agenda until all data of a member is deleted."""
    agenda = Agenda(shoal.network.writes, clock=lambda: time.time_ns() // 1_000_000 + 60_000)
    for _ in range(200):
        await agenda.once()
        if member_id not in await shoal.network.store.obj_get((member_id,)):
            return
    pytest.fail("the member was not deleted")


@in_loop
async def test_email_change_undo_removes_all_passkeys_and_passkey_second_factor() -> None:
    with post_office() as office:
        async with Shoal.open("memory://", mail=office.url, base_url="https://shoal.test") as shoal:
            ann = await owner(shoal)
            before, after = SoftDevice(), SoftDevice()
            await ann.add("Thief's, before", device=before)
            await second_factor.turn_on_by_passkey(
                ann.writes, ann.handle.id, PASSWORD, await ann.answer(Purpose.CONFIRM), HERE
            )
            await ann.handle.change_email(PASSWORD, "ann@thief.example.org")
            await shoal.settle()
            await shoal.confirm_email(office.to("ann@thief.example.org").proof)
            await shoal.settle()
            await ann.add("Thief's, after", await ann.answer(Purpose.CONFIRM), device=after)
            await shoal.settle()
            await shoal.undo_email_change(next(mail for mail in office.mails if mail.path.startswith("/undo")).proof)
            assert await passkeys.of_member(ann.writes, ann.handle.id) == ()
            for device in (before, after, ann.device):
                with pytest.raises(Unauthenticated):
                    await members.by_passkey(ann.writes, device.answer(await ann.question()), HERE)
            assert not (await ann.member).second_factor
            await shoal.settle()
            await shoal.reset_password(office.to("ann@example.org").proof, "the owner's own")
            assert (await shoal.log_in("ann", "the owner's own")).id == ann.handle.id
            assert (await check(shoal.network)).clean


class _Owner:
    """Owns a database for its lifetime."""


@in_loop
async def test_passkey_assertion_sent_to_two_processes_is_accepted_once() -> None:
    kept = _Owner()
    url = await postgres.database(kept)
    how: Any = {"timelines": redis.server().url, "media": "memory://", "tags": "memory://", "search": "memory://"}
    async with Shoal.open(url, **how) as one, Shoal.open(url, **how) as two:
        ann = await owner(one)
        for _ in range(3):
            answer = await ann.answer()
            sent = [members.by_passkey(shoal.network.writes, answer, HERE) for shoal in (one, two, one, two)]
            done = await asyncio.gather(*sent, return_exceptions=True)
            assert [isinstance(found, Member) for found in done].count(True) == 1, done
            assert all(isinstance(found, Member | Unauthenticated) for found in done), done


@in_loop
async def test_passkeys_per_member_are_limited_for_concurrent_additions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passkeys, "MOST", 3)
    async with Shoal.open("memory://") as shoal:
        ann = await owner(shoal)
        done = await asyncio.gather(
            *(ann.add(str(number), device=SoftDevice()) for number in range(5)), return_exceptions=True
        )
        assert [isinstance(one, Passkey) for one in done].count(True) == 2
        assert [isinstance(one, NotAllowed) for one in done].count(True) == 3
        await passkeys.rename(
            ann.writes, ann.handle.id, (await passkeys.of_member(ann.writes, ann.handle.id))[0].id, "Old phone"
        )
        assert (await passkeys.of_member(ann.writes, ann.handle.id))[0].name == "Old phone"
        with pytest.raises(InvalidInput):
            await passkeys.rename(
                ann.writes,
                ann.handle.id,
                added_id := (await passkeys.of_member(ann.writes, ann.handle.id))[0].id,
                "x" * 51,
            )
        with pytest.raises(NotFound):
            await passkeys.rename(ann.writes, ann.handle.id, added_id[::-1] + "0", "x")


@in_loop
async def test_passkey_login_of_suspended_member_is_refused_and_audited() -> None:
    async with Shoal.open("memory://") as shoal:
        ann = await owner(shoal)
        await moderation.suspend(ann.writes, ann.handle.id)
        with pytest.raises(NotAllowed, match="disabled"):
            await ann.log_in()
        (failed,) = await entries(shoal.network.store, AuditVerb.LOGIN_FAILED)
        assert (failed.entry.target_name, failed.entry.details["why"]) == ("ann", "not allowed in")
        await moderation.restore(ann.writes, ann.handle.id)
        assert (await ann.log_in()).id == ann.handle.id


@in_loop
async def test_passkey_challenge_key_is_created_once_for_concurrent_requests() -> None:
    async with Shoal.open("memory://") as shoal:
        ann = Owner(await shoal.register("ann", PASSWORD), SoftDevice(), shoal.network.writes)
        asked = await asyncio.gather(*(ann.question() for _ in range(5)))
        for one in asked:
            challenge = websafe_decode(one["challenge"])
            assert await authentication.challenge_fits(ann.writes, challenge, Purpose.LOG_IN)
        assert (await check(shoal.network)).clean


@given(st.binary(max_size=64), st.sampled_from(Purpose), st.integers(0, 2**63 - 1))
def test_passkey_challenge_with_altered_bytes_purpose_member_or_time_is_invalid(
    other: bytes, purpose: Purpose, member: int
) -> None:
    secret, now = b"k" * 32, 1_800_000_000_000
    challenge = new_challenge(secret, purpose, member, now)
    assert is_good(secret, challenge, purpose, member, now)
    assert not is_good(secret, other, purpose, member, now)
    assert not is_good(b"o" * 32, challenge, purpose, member, now)
    assert not is_good(secret, challenge[:-1] + bytes([challenge[-1] ^ 1]), purpose, member, now)
    assert not is_good(secret, challenge, purpose, member ^ 1, now)
    assert not any(is_good(secret, challenge, one, member, now) for one in Purpose if one is not purpose)
    assert not is_good(secret, challenge, purpose, member, now + GOOD_MS)
    assert not is_good(secret, challenge, purpose, member, now - challenge_rules._SKEW_MS - 1)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)
_PARTS = ("id", "rawId", "type", "response", "clientDataJSON", "authenticatorData", "attestationObject", "signature")


@given(st.text(max_size=200) | st.dictionaries(st.sampled_from(_PARTS), _JSON).map(json.dumps))
def test_passkey_answer_parser_rejects_malformed_input(text: str) -> None:
    for read in (read_assertion, read_new_key):
        with pytest.raises(BadAnswer):
            read(text)


def test_passkey_answer_parser_rejects_deeply_nested_and_long_input() -> None:
    client = websafe_encode(json.dumps({"type": "webauthn.create", "challenge": "eHg", "origin": "x"}).encode())
    deep = {"clientDataJSON": client, "attestationObject": websafe_encode(b"\x81" * 5_000)}
    for response in (deep, {"clientDataJSON": "x" * 9_000}):
        with pytest.raises(BadAnswer):
            read_new_key(json.dumps({"id": "eHg", "rawId": "eHg", "type": "public-key", "response": response}))
