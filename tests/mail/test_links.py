"""Mails and the links in them: each works once, for a while, for one member alone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from shoal import Handle, Shoal
from shoal.core.contacts import hash_address
from shoal.core.errors import (
    Disallowed,
    Gone,
    InvalidInput,
    NotAllowed,
    NotFound,
    Taken,
    TooShort,
    Unauthenticated,
    Unconfirmed,
)
from shoal.core.events import EmailChanged, MailDue
from shoal.core.mail import MailKind, Proof
from shoal.core.model import Member, Role
from shoal.fanout import addresses, mails
from shoal.graph.payloads.notifications import Kind
from shoal.graph.schema import email_key
from shoal.ops.agenda import Agenda
from shoal.ops.checking.check import check
from shoal.services import members, moderation
from shoal.services.login import proofs
from shoal.services.login.contact_salt import contact_salt
from tests.engines import dynamodb, postgres
from tests.engines.smtp import Mail, PostOffice, post_office
from tests.running import eventually, in_loop
from tests.stores import all_objects

DAY = 86_400_000
PASSWORD, OTHER = "a long password", "quite another one"
ANN, NEW = "ann@example.org", "ann@new.example.org"


@pytest.fixture
def office() -> Iterator[PostOffice]:
    with post_office() as made:
        yield made


@asynccontextmanager
async def a_network(office: PostOffice, url: str = "memory://", **more: str) -> AsyncIterator[tuple[Shoal, Handle]]:
    """Ann has an address, and there is a post office."""
    opened = Shoal.open(
        url,
        media="memory://",
        tags="memory://",
        search="memory://",
        mail=office.url,
        base_url="https://sea.example.org",
    )
    async with opened as shoal:
        ann = await shoal.register("ann", password=PASSWORD, email=ANN)
        yield shoal, ann


def agenda(shoal: Shoal, days: float) -> Agenda:
    """One that believes it is so many days later."""
    return Agenda(shoal.network.writes, clock=lambda: time.time_ns() // 1_000_000 + int(days * DAY))


async def fits(shoal: Shoal, name: str, password: str) -> bool:
    """Whether this is how one logs in."""
    try:
        await members.log_in(shoal.network.writes, name, password)
    except Unauthenticated:
        return False
    return True


async def proofs_of(shoal: Shoal) -> list[Proof]:
    return [node for node in await all_objects(shoal.network.store) if isinstance(node, Proof)]


async def later(monkeypatch: pytest.MonkeyPatch, shoal: Shoal, ms: int) -> None:
    """Let so much time pass for whoever opens a link."""
    real = shoal.network.writes.new_id
    monkeypatch.setattr("shoal.services.login.proofs.milliseconds_of", lambda _id: time.time_ns() // 1_000_000 + ms)
    assert real(0)


@in_loop
async def test_a_forgotten_password_is_replaced_once(office: PostOffice) -> None:
    async with a_network(office) as (shoal, ann):
        await shoal.forgot_password("ann", "de")
        await shoal.settle()
        await shoal.forgot_password("Ann@Example.org")
        for nobody in ("nobody", "nobody@example.org", "no name at all", "@", "a" * 300):
            await shoal.forgot_password(nobody)
        await shoal.settle()
        first, second = office.take()
        assert (first.to, first.sender, second.to) == (ANN, "no-reply@sea.example.org", ANN)
        assert first.text.startswith("Jemand")
        assert first.path.startswith("/reset/")
        # The secret is in the mail alone.
        assert all(first.proof.encode() not in repr(node).encode() for node in await all_objects(shoal.network.store))
        with pytest.raises(TooShort):
            await shoal.reset_password(first.proof, "short")
        assert (await shoal.reset_password(first.proof, OTHER)).name == "ann"
        assert (await fits(shoal, "ann", PASSWORD), await fits(shoal, ANN, OTHER)) == (False, True)
        # Neither it nor one that was sent before the new password works again.
        for used in (first.proof, second.proof, first.proof.swapcase(), "", "x" * 100):
            with pytest.raises(Gone):
                await shoal.reset_password(used, "yet another one")
        await shoal.settle()
        (told,) = office.take()
        assert told.subject == "The password of @ann was changed"
        with pytest.raises(InvalidInput):
            await shoal.forgot_password("  ")
        assert ann.id


@in_loop
async def test_of_two_who_use_one_link_at_once_one_does(office: PostOffice) -> None:
    async with a_network(office) as (shoal, ann):
        await shoal.forgot_password("ann")
        await shoal.settle()
        proof = office.to(ANN).proof
        said = await asyncio.gather(
            *[shoal.reset_password(proof, f"the password {n}") for n in range(4)], return_exceptions=True
        )
        assert sorted(type(one).__name__ for one in said) == ["Gone", "Gone", "Gone", "Handle"]
        await ann.change_email("the password 0", NEW) if await fits(shoal, "ann", "the password 0") else None
        await shoal.network.runner.drain()


@in_loop
async def test_a_link_is_over_after_an_hour_and_gone_soon_after(
    office: PostOffice, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_network(office) as (shoal, _):
        await shoal.forgot_password("ann")
        await shoal.settle()
        assert len(await proofs_of(shoal)) == 1
        await agenda(shoal, 0.9 / 24).once()
        assert len(await proofs_of(shoal)) == 1
        await later(monkeypatch, shoal, 3_600_001)
        with pytest.raises(Gone):
            await shoal.reset_password(office.to(ANN).proof, OTHER)
        monkeypatch.undo()
        await agenda(shoal, 1.1 / 24).once()
        assert await proofs_of(shoal) == []
        assert await fits(shoal, "ann", PASSWORD)


@in_loop
async def test_who_leaves_or_is_suspended_may_still_choose_a_password(office: PostOffice) -> None:
    async with a_network(office) as (shoal, ann):
        await ann.leave(PASSWORD)
        await shoal.forgot_password("ann")
        await shoal.settle()
        await shoal.reset_password(office.to(ANN).proof, OTHER)
        assert (await shoal.come_back("ann", OTHER)).name == "ann"


@in_loop
async def test_an_address_is_confirmed_by_its_mail(office: PostOffice) -> None:
    async with a_network(office) as (shoal, ann):
        writes = shoal.network.writes
        assert office.mails == []
        await ann.ask_confirmation()
        await shoal.settle()
        mail = office.to(ANN)
        assert (await shoal.confirm_email(mail.proof)).name == "ann"
        login = await members.login_of(writes, await shoal_member(shoal, ann))
        assert login is not None
        assert login.confirmed
        with pytest.raises(Gone):
            await shoal.confirm_email(mail.proof)
        # There is nothing to confirm any more.
        office.take()
        await ann.ask_confirmation()
        await shoal.settle()
        assert office.mails == []


async def shoal_member(shoal: Shoal, who: Handle) -> Member:
    found = await members.find(shoal.network.writes, who.name)
    assert found is not None
    return found


@pytest.mark.parametrize("approval", [False, True])
@in_loop
async def test_who_must_confirm_first_is_in_once_they_did(office: PostOffice, approval: bool) -> None:
    async with a_network(office) as (shoal, ann):
        writes = shoal.network.writes
        await moderation.set_role(writes, ann.id, Role.MODERATOR)
        made = await members.register(
            writes, "ben", password=PASSWORD, email="ben@example.org", unconfirmed=True, confirms=True, pending=approval
        )
        await shoal.settle()
        with pytest.raises(Unconfirmed, match="missing a confirmed e-mail address"):
            await members.log_in(writes, "ben", PASSWORD)
        with pytest.raises(NotFound):
            await shoal.member(made.id)
        assert (await ann.notifications.page()).items == []
        await shoal.confirm_email(office.to("ben@example.org").proof)
        if approval:
            with pytest.raises(NotAllowed, match="pending approval"):
                await members.log_in(writes, "ben", PASSWORD)
            office.take()
            await moderation.approve(writes, made.id)
            await shoal.settle()
            assert office.to("ben@example.org").subject == "Welcome to Shoal"
        await shoal.settle()
        assert [one.notice.kind for one in (await ann.notifications.page()).items] == [Kind.REGISTRATION]
        assert (await members.log_in(writes, "ben", PASSWORD)).id == made.id
        assert (await shoal.member(made.id)).name == "ben"
        assert (await check(shoal.network)).clean


@in_loop
async def test_who_never_confirms_is_gone_after_a_week_and_their_name_free(office: PostOffice) -> None:
    async with a_network(office) as (shoal, _):
        writes = shoal.network.writes
        await members.register(
            writes, "ben", password=PASSWORD, email="ben@example.org", unconfirmed=True, confirms=True
        )
        await shoal.settle()
        await agenda(shoal, 6.9).once()
        await shoal.settle()
        assert await members.find(writes, "ben") is not None
        await agenda(shoal, 7.1).once()
        await shoal.settle()
        assert await members.find(writes, "ben") is None
        assert await members.find(writes, "ben@example.org") is None
        await shoal.register("ben", email="ben@example.org")


@in_loop
async def test_a_moderator_lets_in_whose_mail_never_came(office: PostOffice) -> None:
    async with a_network(office) as (shoal, _):
        writes = shoal.network.writes
        made = await members.register(writes, "ben", password=PASSWORD, email="ben@example.org", unconfirmed=True)
        await moderation.approve(writes, made.id)
        assert (await members.log_in(writes, "ben", PASSWORD)).id == made.id


async def found_by_email(shoal: Shoal, by: Handle, address: str) -> bool:
    """Whether one finds somebody who has this address."""
    hashed = hash_address(await contact_salt(shoal.network.writes), address)
    return len((await by.find_contacts([hashed])).matches) == 1


@in_loop
async def test_an_address_is_changed_by_a_mail_to_the_new_one_and_the_old_one_is_told(office: PostOffice) -> None:
    async with a_network(office) as (shoal, ann):
        ben = await shoal.register("ben", password=PASSWORD, email="ben@example.org")
        await ann.update_profile(findable_by_email=True)
        for password, address, wrong in (
            ("not it", NEW, InvalidInput),
            (PASSWORD, "no address", InvalidInput),
            (PASSWORD, "ben@example.org", Taken),
        ):
            with pytest.raises(wrong):
                await ann.change_email(password, address)
        await ann.change_email(PASSWORD, NEW)
        await shoal.settle()
        (asked,) = office.take()
        assert (asked.to, asked.path.partition("/")[0], await fits(shoal, NEW, PASSWORD)) == (NEW, "", False)
        await shoal.confirm_email(asked.proof)
        await shoal.settle()
        assert (await fits(shoal, NEW, PASSWORD), await found_by_email(shoal, ben, NEW)) == (True, True)
        (told,) = office.take()
        assert (told.to, NEW in told.text, told.path.startswith("/undo/")) == (ANN, True, True)
        assert (await check(shoal.network)).clean
        # For a week nobody else can have it; then everybody can.
        with pytest.raises(Taken):
            await shoal.register("eve", email=ANN)
        await agenda(shoal, 7.1).once()
        await shoal.register("eve", email=ANN)
        with pytest.raises(Gone):
            await shoal.undo_email_change(told.proof)
        assert (await check(shoal.network)).clean


@in_loop
async def test_a_thief_is_thrown_out_by_the_link_that_the_old_address_has(office: PostOffice) -> None:
    async with a_network(office) as (shoal, ann):
        # They know the password, change the address twice, and the password.
        await ann.change_email(PASSWORD, "thief@example.org")
        await shoal.settle()
        await shoal.confirm_email(office.take()[0].proof)
        await shoal.settle()
        undo = office.to(ANN)
        await ann.change_email(PASSWORD, "thief@elsewhere.example.org")
        await shoal.settle()
        await shoal.confirm_email(office.to("thief@elsewhere.example.org").proof)
        await ann.change_password(PASSWORD, "stolen password")
        await shoal.settle()
        theirs = office.to("thief@example.org")
        assert theirs.path.startswith("/undo/")
        # The owner brings the address back, and chooses a password.
        office.take()
        await shoal.undo_email_change(undo.proof)
        await shoal.settle()
        (reset,) = office.take()
        assert (reset.to, reset.path.startswith("/reset/")) == (ANN, True)
        # The thief cannot do the same, and their last address is free.
        for again in (theirs.proof, undo.proof):
            with pytest.raises(Gone):
                await shoal.undo_email_change(again)
        await shoal.register("thief", email="thief@elsewhere.example.org")
        # Nor can they log in, and so end the owner's link by another password of theirs.
        assert not await fits(shoal, ANN, "stolen password")
        await shoal.reset_password(reset.proof, OTHER)
        assert (await fits(shoal, ANN, OTHER), await fits(shoal, ANN, "stolen password")) == (True, False)
        # A change that the owner makes later can be undone.
        await ann.change_email(OTHER, NEW)
        await shoal.settle()
        await shoal.confirm_email(office.to(NEW).proof)
        await shoal.settle()
        told = office.mails[-1]
        office.take()
        await shoal.undo_email_change(told.proof)
        await shoal.settle()
        await shoal.reset_password(office.to(ANN).proof, PASSWORD)
        assert await fits(shoal, ANN, PASSWORD)
        assert (await check(shoal.network)).clean


async def moved(shoal: Shoal, office: PostOffice, ann: Handle, address: str) -> Mail:
    """Have Ann reached elsewhere, by the mail; what her address before is told."""
    before = await members.login_of(shoal.network.writes, await shoal_member(shoal, ann))
    assert before is not None
    await ann.change_email(PASSWORD, address)
    await shoal.settle()
    await shoal.confirm_email(office.to(address).proof)
    await shoal.settle()
    return office.to(before.email)


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Letters that were not taken are tried again soon."""
    monkeypatch.setattr("shoal.mail.postman._FIRST_REST", 0.05)
    monkeypatch.setattr("shoal.mail.postman._LONGEST_REST", 0.05)


@pytest.mark.usefixtures("hurried")
@in_loop
async def test_a_letter_that_is_written_late_carries_what_was_true_when_it_was_asked_for(office: PostOffice) -> None:
    async with a_network(office) as (shoal, ann):
        # A thief's link to their own address, which the owner's new password ends before it is sent.
        office.refuses = "450 later"
        await ann.change_email(PASSWORD, "thief@example.org")
        await eventually(tried(office, 1), answer=True)
        await ann.change_password(PASSWORD, OTHER)
        office.refuses = ""
        await shoal.settle()
        assert [mail.to for mail in office.take()] == [ANN]
        await shoal.set_password(ann, PASSWORD)
        # The undo to a thief's first address, which the owner's undo voids before it is sent.
        mine = await moved(shoal, office, ann, "thief@example.org")
        await ann.change_email(PASSWORD, "thief@elsewhere.example.org")
        await shoal.settle()
        before = office.tried
        office.refuses = "450 later"
        await shoal.confirm_email(office.to("thief@elsewhere.example.org").proof)
        await eventually(tried(office, before + 1), answer=True)
        await shoal.undo_email_change(mine.proof)
        office.refuses = ""
        await shoal.settle()
        with pytest.raises(Gone):
            await shoal.undo_email_change(office.to("thief@example.org").proof)
        assert office.mails[-1].to in (ANN, "thief@example.org")
        await shoal.reset_password(office.to(ANN).proof, OTHER)


@in_loop
async def test_what_an_operator_sets_and_the_way_back_cannot_be_undone(office: PostOffice) -> None:
    async with a_network(office) as (shoal, ann):
        await moved(shoal, office, ann, "thief@example.org")
        theirs = await moved(shoal, office, ann, "thief@elsewhere.example.org")
        assert theirs.to == "thief@example.org"
        await shoal.set_email(ann, ANN)
        await shoal.settle()
        with pytest.raises(Gone):
            await shoal.undo_email_change(theirs.proof)
        for free in ("thief@example.org", "thief@elsewhere.example.org"):
            await shoal.register(f"x{free.count('e')}", email=free)
        # By a mail to the address that is still kept.
        await moved(shoal, office, ann, NEW)
        office.take()
        await ann.change_email(PASSWORD, ANN)
        await shoal.settle()
        await shoal.confirm_email(office.to(ANN).proof)
        await shoal.settle()
        assert [mail.to for mail in office.mails] == [ANN]
        await shoal.register("eve", email=NEW)
        assert (await fits(shoal, ANN, PASSWORD), (await check(shoal.network)).clean) == (True, True)


@in_loop
async def test_an_address_that_is_a_members_again_is_not_freed_by_what_comes_late(office: PostOffice) -> None:
    async with a_network(office) as (shoal, ann):
        writes, graph = shoal.network.writes, shoal.network.store
        await moved(shoal, office, ann, NEW)
        (early,) = await proofs_of(shoal)
        await ann.change_email(PASSWORD, ANN)
        await shoal.settle()
        await shoal.confirm_email(office.to(ANN).proof)
        await shoal.settle()
        # What freed an address before comes once more, and a mail is given up that would have brought it back.
        freed = EmailChanged(member_id=ann.id, address=NEW, freed=(ANN,))
        lost = MailDue(kind=MailKind.UNDO, asked=1, member_id=ann.id, address=ANN)
        effects = shoal.network.effects
        assert await addresses.free_former(effects, freed, 0) is None
        assert await addresses.keep(effects, freed, 0) is None
        assert await mails.send(effects, lost, 0) is None
        with pytest.raises(Taken):
            await shoal.register("eve", email=ANN)
        # The new one is free, though the event kept it once more.
        await shoal.register("ben", email=NEW)
        # A second change away keeps the address for its own week, beyond the end of the first.
        await moved(shoal, office, ann, "ann@third.example.org")
        await proofs.end(writes, early)
        with pytest.raises(Taken):
            await shoal.register("eve", email=ANN)
        assert (await check(shoal.network)).clean
        assert graph is not None


@in_loop
async def test_a_mail_that_is_given_up_late_takes_nothing_from_a_letter_that_arrived_or_a_later_change(
    office: PostOffice, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_network(office) as (shoal, ann):
        told = await moved(shoal, office, ann, "thief@example.org")
        (proof,) = await proofs_of(shoal)
        monkeypatch.setattr("shoal.fanout.mails.given_up_at", lambda _kind, _at: 0)
        for asked in (proof.id, proof.id - (1 << 30)):
            late = MailDue(kind=MailKind.UNDO, asked=asked, member_id=ann.id, address=ANN)
            assert await mails.send(shoal.network.effects, late, 0) is None
            with pytest.raises(Taken):
                await shoal.register("eve", email=ANN)
        monkeypatch.undo()
        await shoal.undo_email_change(told.proof)
        await shoal.settle()
        await shoal.reset_password(office.to(ANN).proof, OTHER)


@in_loop
async def test_what_an_operator_sets_ends_links_that_were_asked_for_before(office: PostOffice) -> None:
    async with a_network(office) as (shoal, ann):
        await moved(shoal, office, ann, "thief@example.org")
        await shoal.forgot_password("ann")
        await ann.change_email(PASSWORD, "thief@elsewhere.example.org")
        await shoal.settle()
        await shoal.set_email(ann, ANN)
        with pytest.raises(Gone):
            await shoal.reset_password(office.to("thief@example.org").proof, OTHER)
        with pytest.raises(Gone):
            await shoal.confirm_email(office.to("thief@elsewhere.example.org").proof)


@in_loop
async def test_changes_in_one_moment_follow_each_other(office: PostOffice, monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_network(office) as (shoal, ann):
        await ann.change_email(PASSWORD, "one@thief.example.org")
        await ann.change_email(PASSWORD, "two@thief.example.org")
        await shoal.settle()
        links = {mail.to: mail.proof for mail in office.mails}
        for address in ("one@thief.example.org", "two@thief.example.org"):
            await shoal.confirm_email(links[address])
        login = await members.login_of(shoal.network.writes, await shoal_member(shoal, ann))
        assert login is not None
        (first, early), (second, late) = login.kept
        assert (first, second, early < late) == (ANN, "one@thief.example.org", True)


@in_loop
async def test_a_thief_who_goes_to_and_fro_does_not_end_the_owners_way_back(office: PostOffice) -> None:
    async with a_network(office) as (shoal, ann):
        # An undo of last week, whose span must not grow over what comes now.
        first = await moved(shoal, office, ann, NEW)
        await shoal.undo_email_change(first.proof)
        await shoal.settle()
        await shoal.reset_password(office.to(ANN).proof, PASSWORD)
        await shoal.settle()
        mine = await moved(shoal, office, ann, "one@thief.example.org")
        await moved(shoal, office, ann, "two@thief.example.org")
        await ann.change_email(PASSWORD, "one@thief.example.org")
        await shoal.settle()
        await shoal.confirm_email(office.to("one@thief.example.org").proof)
        await shoal.settle()
        with pytest.raises(Taken):
            await shoal.register("eve", email=ANN)
        # Nor do many more changes: there is an end to them.
        for name in ("three", "four", "five"):
            await moved(shoal, office, ann, f"{name}@thief.example.org")
        with pytest.raises(NotAllowed, match="too often"):
            await ann.change_email(PASSWORD, "six@thief.example.org")
        await shoal.undo_email_change(mine.proof)
        await shoal.settle()
        await shoal.reset_password(office.to(ANN).proof, OTHER)
        assert await fits(shoal, ANN, OTHER)
        for n, name in enumerate(("one", "two", "three", "four", "five")):
            await shoal.register(f"other{n}", email=f"{name}@thief.example.org")
        assert (await check(shoal.network)).clean


@in_loop
async def test_without_an_address_no_key_is_taken(office: PostOffice) -> None:
    async with a_network(office) as (shoal, ann):
        await shoal.set_email(ann, "")
        await shoal.settle()
        assert await shoal.network.store.key_get([email_key("")]) == {}


@in_loop
async def test_who_asks_for_the_mail_again_has_another_week(office: PostOffice) -> None:
    async with a_network(office) as (shoal, _):
        writes = shoal.network.writes
        made = await members.register(
            writes, "ben", password=PASSWORD, email="ben@example.org", unconfirmed=True, confirms=True
        )
        await shoal.settle()
        (first,) = await proofs_of(shoal)
        await asyncio.sleep(0.01)
        await proofs.ask_confirmation(writes, made)
        await shoal.settle()
        await proofs.end(writes, first)
        assert await members.find(writes, "ben") is not None
        (second,) = await proofs_of(shoal)
        await proofs.end(writes, second)
        assert await members.find(writes, "ben") is None


@in_loop
async def test_who_must_confirm_and_is_sent_no_mail_goes_after_a_week_all_the_same() -> None:
    async with Shoal.open("memory://", media="memory://", tags="memory://", search="memory://") as shoal:
        writes = shoal.network.writes
        await members.register(
            writes, "ben", password=PASSWORD, email="ben@example.org", unconfirmed=True, confirms=True
        )
        await shoal.settle()
        await agenda(shoal, 6.9).once()
        assert await members.find(writes, "ben") is not None
        await agenda(shoal, 7.1).once()
        assert await members.find(writes, "ben") is None


@in_loop
async def test_who_is_suspended_before_they_confirm_stays_out(office: PostOffice) -> None:
    async with a_network(office) as (shoal, _):
        writes = shoal.network.writes
        made = await members.register(
            writes, "ben", password=PASSWORD, email="ben@example.org", unconfirmed=True, confirms=True
        )
        await shoal.settle()
        await moderation.suspend(writes, made.id)
        await shoal.confirm_email(office.to("ben@example.org").proof)
        with pytest.raises(NotAllowed, match="disabled"):
            await members.log_in(writes, "ben", PASSWORD)


@in_loop
async def test_nobody_moves_to_an_address_that_nobody_may_sign_up_with(office: PostOffice) -> None:
    async with a_network(office) as (shoal, ann):
        await shoal.blocklists.block_domain("spam.example")
        with pytest.raises(Disallowed):
            await ann.change_email(PASSWORD, "ann@mail.spam.example")


@in_loop
async def test_an_address_that_somebody_else_took_meanwhile_stays_theirs(office: PostOffice) -> None:
    async with a_network(office) as (shoal, ann):
        await ann.change_email(PASSWORD, NEW)
        await shoal.settle()
        await shoal.register("eve", email=NEW)
        with pytest.raises(Taken):
            await shoal.confirm_email(office.to(NEW).proof)
        assert await fits(shoal, ANN, PASSWORD)


@in_loop
async def test_operators_set_addresses_without_a_mail(office: PostOffice) -> None:
    async with a_network(office) as (shoal, ann):
        await shoal.set_email(ann, NEW)
        await shoal.settle()
        assert (await fits(shoal, NEW, PASSWORD), await fits(shoal, ANN, PASSWORD), office.mails) == (True, False, [])
        await shoal.register("eve", email=ANN)
        with pytest.raises(Taken):
            await shoal.set_email(ann, ANN)
        await shoal.set_email(ann, "")
        assert not await fits(shoal, NEW, PASSWORD)
        with pytest.raises(InvalidInput):
            await shoal.set_email(ann, "no address")


class _From:
    """A client that sends a password from a network."""

    def __init__(self, address: str) -> None:
        self.address = self.network = address

    async def begin(self, account: str, *, known: bool) -> None:
        """Nothing is counted."""

    async def take_back(self) -> None:
        """Nothing was counted."""


@in_loop
async def test_a_log_in_from_a_new_place_is_told(office: PostOffice) -> None:
    async with a_network(office) as (shoal, _):
        writes = shoal.network.writes
        await members.register(writes, "ben", password=PASSWORD, email="ben@example.org", network="192.0.2.1")
        await members.log_in(writes, "ben", PASSWORD, _From("203.0.113.9"))
        await shoal.settle()
        assert [mail.to for mail in office.take()] == ["ben@example.org"]
        for place in ("192.0.2.1", "192.0.2.1", "198.51.100.7", "192.0.2.1"):
            await members.log_in(writes, "ann", PASSWORD, _From(place))
        with pytest.raises(Unauthenticated):
            await members.log_in(writes, "ann", "not it", _From("203.0.113.9"))
        await shoal.settle()
        (told,) = office.take()
        assert (told.to, "198.51.100.7" in told.text) == (ANN, True)


def tried(office: PostOffice, times: int) -> Callable[[], Awaitable[bool]]:
    """Whether somebody tried so often to hand a mail over."""

    async def ask() -> bool:
        return office.tried >= times

    return ask


@pytest.mark.usefixtures("hurried")
@in_loop
async def test_mail_waits_while_its_server_is_away_and_is_given_up_when_it_is_too_late(
    office: PostOffice, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_network(office) as (shoal, ann):
        office.refuses = "450 later"
        await shoal.forgot_password("ann")
        await eventually(tried(office, 3), answer=True)
        # Nothing else waits for it.
        await ann.create("The sea is calm")
        assert len((await ann.home()).entries) == 1
        office.refuses = ""
        await shoal.settle()
        assert [mail.to for mail in office.take()] == [ANN]
        assert any("a mail waits: " in line for line in caplog.messages)
        # What the server will never take is not tried again.
        office.refuses = "550 no such mailbox"
        await shoal.forgot_password("ann")
        await shoal.settle()
        assert any("550 no such mailbox" in line for line in caplog.messages)
        # And what could not be sent within the hour that its link is good for is not sent.
        office.refuses = "450 later"
        await shoal.forgot_password("ann")
        await eventually(tried(office, 6), answer=True)
        monkeypatch.setattr("shoal.fanout.mails.given_up_at", lambda _kind, at: at)
        await shoal.settle()
        assert any("is given up" in line for line in caplog.messages)
        assert office.mails == []


@in_loop
async def test_without_mail_nothing_is_sent_and_nothing_waits() -> None:
    async with Shoal.open("memory://", media="memory://", tags="memory://", search="memory://") as shoal:
        ann = await shoal.register("ann", password=PASSWORD, email=ANN)
        await shoal.forgot_password("ann")
        await ann.change_password(PASSWORD, OTHER)
        await shoal.settle()
        assert (await proofs_of(shoal), (await check(shoal.network)).clean) == ([], True)


class _Owner:
    """Whose databases they are."""


@pytest.mark.parametrize("store", ["sqlite", "postgres", "dynamodb"])
@in_loop
async def test_on_every_store(store: str, office: PostOffice, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'shoal.db'}"
    if store == "postgres":
        url = await postgres.database(_Owner())
    elif store == "dynamodb":
        url = dynamodb.new_table()
    async with a_network(office, url) as (shoal, ann):
        await ann.change_email(PASSWORD, NEW)
        await shoal.settle()
        await shoal.confirm_email(office.to(NEW).proof)
        await shoal.settle()
        await shoal.undo_email_change(office.to(ANN).proof)
        await shoal.settle()
        said = await asyncio.gather(
            *[shoal.reset_password(office.to(ANN).proof, OTHER) for _ in range(3)], return_exceptions=True
        )
        assert sorted(type(one).__name__ for one in said) == ["Gone", "Gone", "Handle"]
        assert await fits(shoal, ANN, OTHER)
        await shoal.forgot_password("ann")
        await shoal.settle()
        assert len(await proofs_of(shoal)) == 1
        for _ in range(3):
            await agenda(shoal, 8).once()
            await shoal.settle()
        assert await proofs_of(shoal) == []
        assert (await check(shoal.network)).clean
