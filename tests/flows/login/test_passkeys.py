"""Passkeys log in, alone or besides the password; whatever does not prove that it is the member's own device does not."""

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
from tests.audit.reading import entries
from tests.engines import postgres, redis
from tests.engines.authenticator import code_of
from tests.engines.smtp import post_office
from tests.engines.soft_passkeys import SoftDevice
from tests.running import in_loop

PASSWORD = "a long password"
SITE = site_of("https://shoal.test", "Shoal")
OTHER = site_of("https://elsewhere.test", "Elsewhere")


class Browser:
    """A client that asks: it may try as often as it likes."""

    address = network = "192.0.2.7"
    site = SITE

    async def begin(self, account: str, *, known: bool, code: bool = False) -> None:
        """Nothing is counted."""

    async def take_back(self) -> None:
        """Nothing was counted."""


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
        """Return what a browser asks a device with."""
        return await authentication.passkey_options(
            self.writes, SITE, purpose, None if purpose is Purpose.LOG_IN else await self.member
        )

    async def answer(self, purpose: Purpose = Purpose.LOG_IN, **cheat: Any) -> str:
        """Return what the device answers to that."""
        return self.device.answer(await self.question(purpose), **cheat)

    async def log_in(self, **cheat: Any) -> Member:
        """Log in by the passkey alone."""
        return await members.by_passkey(self.writes, await self.answer(**cheat), HERE)

    async def second(self, **cheat: Any) -> bool:
        """Return whether the passkey counts besides the password."""
        answer = await self.answer(Purpose.SECOND, **cheat)
        return await authentication.code_counts(self.writes, await self.member, answer, HERE)


async def owner(shoal: Shoal, name: str = "ann", **how: Any) -> Owner:
    handle = await shoal.register(name, PASSWORD, email=f"{name}@example.org")
    made = Owner(handle, SoftDevice(**how), shoal.network.writes)
    await made.add()
    return made


@pytest.mark.parametrize("algorithm", ["ES256", "EdDSA", "RS256"])
@in_loop
async def test_a_passkey_is_added_and_logs_in_alone(algorithm: str) -> None:
    async with Shoal.open("memory://") as shoal:
        ann = await owner(shoal, algorithm=algorithm)
        (stored,) = await passkeys.of_member(ann.writes, ann.handle.id)
        assert (stored.name, stored.used_at) == ("Phone", 0)
        assert (await ann.log_in()).id == ann.handle.id
        (used,) = await passkeys.of_member(ann.writes, ann.handle.id)
        assert used.used_at >= used.made_at > 0
        # It is no second factor by itself: the password goes on logging in.
        assert (await shoal.log_in("ann", PASSWORD)).id == ann.handle.id
        # A new password, also a forgotten one, leaves it.
        await credentials.set_password(ann.writes, ann.handle.id, "another password")
        assert (await ann.log_in()).id == ann.handle.id
        assert (await check(shoal.network)).clean


CHEATS: dict[str, dict[str, Any]] = {
    "another site": {"origin": "https://elsewhere.test"},
    "a part of the site": {"origin": "https://shoal.test.elsewhere.test"},
    "another port": {"origin": "https://shoal.test:8443"},
    "without TLS": {"origin": "http://shoal.test"},
    "another host in what is signed": {"host": "elsewhere.test"},
    "nobody at the device": {"present": False},
    "nobody who proved to hold it": {"verified": False},
    "inside a page of another site": {"across": True},
    "made for a registration": {"kind": "webauthn.create"},
    "a challenge of its own": {"challenge": b"x" * 40},
    "another signature": {"signature": b"\x30\x06\x02\x01\x01\x02\x01\x01"},
    "no signature": {"signature": b""},
    "nobody's": {"handle": (5).to_bytes(8)},
    "without saying whose": {"handle": None},
    "a handle that is none": {"handle": b"\xff" * 64},
}


@pytest.mark.parametrize("cheat", CHEATS.values(), ids=CHEATS.keys())
@in_loop
async def test_an_answer_that_does_not_prove_it_opens_nothing(cheat: dict[str, Any]) -> None:
    async with Shoal.open("memory://") as shoal:
        ann = await owner(shoal)
        with pytest.raises(Unauthenticated, match="opens no account here"):
            await ann.log_in(**cheat)
        assert (await ann.log_in()).id == ann.handle.id


@pytest.mark.parametrize("cheat", [*list(CHEATS.items())[:5], *list(CHEATS.items())[7:12]], ids=lambda one: one[0])
@in_loop
async def test_nor_does_it_count_as_a_second_factor_or_become_a_passkey(cheat: tuple[str, dict[str, Any]]) -> None:
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
async def test_without_a_pin_a_passkey_counts_besides_the_password_and_not_alone() -> None:
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
        # There is no app whose codes could be guessed.
        assert not await authentication.code_counts(ann.writes, await ann.member, "000000", HERE)


@in_loop
async def test_an_answer_counts_once_whoever_sends_it_at_once() -> None:
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
async def test_a_challenge_is_for_one_purpose_one_member_and_five_minutes() -> None:
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
async def test_a_used_challenge_is_remembered_for_as_long_as_it_is_good() -> None:
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
async def test_a_passkey_of_somebody_else_is_no_passkey_of_mine() -> None:
    async with Shoal.open("memory://") as shoal:
        ann, ben = await owner(shoal), await owner(shoal, "ben")
        # Ben's device says that it is ann's; it holds another key under the id of hers; it answers ann's question.
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
async def test_a_copy_of_a_passkey_is_refused_and_told() -> None:
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
            # Of one answer that is sent several times at once, the others are used up, and no copies.
            answer = await ann.answer()
            sent = [members.by_passkey(ann.writes, answer, HERE) for _ in range(4)]
            done = await asyncio.gather(*sent, return_exceptions=True)
            assert [isinstance(one, Member) for one in done].count(True) == 1
            assert ann.device.held[0].count > 2
            assert (await ann.log_in()).id == ann.handle.id
            await shoal.settle()
            assert office.take() == []


@in_loop
async def test_members_are_told_of_each_change_in_their_language() -> None:
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
async def test_adding_and_removing_take_the_password_and_the_second_factor() -> None:
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
        # A code, or the answer of a passkey that one has; neither counts for a log-in's question.
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
async def test_the_last_passkey_stays_while_it_is_the_second_factor() -> None:
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
async def test_a_registration_counts_once_and_a_device_is_added_once() -> None:
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
        assert not await sent(), "what was removed does not come back by what was said before"


@in_loop
async def test_passkeys_are_exported_by_name_and_go_with_their_member(tmp_path: Path) -> None:
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
    """Return once everything of a member is deleted."""
    agenda = Agenda(shoal.network.writes, clock=lambda: time.time_ns() // 1_000_000 + 60_000)
    for _ in range(200):
        await agenda.once()
        if member_id not in await shoal.network.store.obj_get((member_id,)):
            return
    pytest.fail("the member was not deleted")


@in_loop
async def test_bringing_an_address_back_removes_all_passkeys_and_a_second_factor_that_only_they_show() -> None:
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
    """Keeps a database for as long as it lives."""


@in_loop
async def test_an_answer_counts_once_in_two_processes_and_each_knows_the_questions_of_the_other() -> None:
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
async def test_there_are_twenty_passkeys_at_most_also_of_those_added_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
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
async def test_who_may_not_come_in_does_not_by_a_passkey_either() -> None:
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
async def test_the_network_makes_one_key_for_challenges_also_when_several_ask_first() -> None:
    async with Shoal.open("memory://") as shoal:
        ann = Owner(await shoal.register("ann", PASSWORD), SoftDevice(), shoal.network.writes)
        asked = await asyncio.gather(*(ann.question() for _ in range(5)))
        for one in asked:
            challenge = websafe_decode(one["challenge"])
            assert await authentication.challenge_fits(ann.writes, challenge, Purpose.LOG_IN)
        assert (await check(shoal.network)).clean


@given(st.binary(max_size=64), st.sampled_from(Purpose), st.integers(0, 2**63 - 1))
def test_no_other_bytes_are_a_challenge(other: bytes, purpose: Purpose, member: int) -> None:
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
def test_whatever_is_no_answer_of_a_device_is_refused(text: str) -> None:
    for read in (read_assertion, read_new_key):
        with pytest.raises(BadAnswer):
            read(text)


def test_deep_and_long_answers_are_refused() -> None:
    client = websafe_encode(json.dumps({"type": "webauthn.create", "challenge": "eHg", "origin": "x"}).encode())
    deep = {"clientDataJSON": client, "attestationObject": websafe_encode(b"\x81" * 5_000)}
    for response in (deep, {"clientDataJSON": "x" * 9_000}):
        with pytest.raises(BadAnswer):
            read_new_key(json.dumps({"id": "eHg", "rawId": "eHg", "type": "public-key", "response": response}))
