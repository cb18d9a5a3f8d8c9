"""Addresses of members: changed by a mail to the new one, brought back by one to the old one, freed when they are nobody's."""

from __future__ import annotations

import pytest

from shoal import Handle, Shoal
from shoal.admin.consistency.check import check
from shoal.commands import credentials, members
from shoal.commands.members import contact_salt
from shoal.consumers import mail as mails
from shoal.consumers import members as addresses
from shoal.core.email import MailKind, hash_address
from shoal.core.errors import (
    Disallowed,
    Gone,
    InvalidInput,
    NotAllowed,
    Taken,
)
from shoal.core.events import EmailChanged, MailDue
from shoal.graph.schema import email_key
from tests.engines.smtp import PostOffice
from tests.mail.people import (
    ANN,
    NEW,
    OTHER,
    PASSWORD,
    a_network,
    agenda,
    fits,
    moved,
    proofs_of,
    shoal_member,
    tried,
)
from tests.running import eventually, in_loop


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
        writes = shoal.network.writes
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
        await addresses.free_former_address(effects, freed, 0)
        await addresses.claim_address(effects, freed, 0)
        assert await mails.send(effects, lost, 0) is None
        with pytest.raises(Taken):
            await shoal.register("eve", email=ANN)
        # The new one is free, though the event kept it once more.
        await shoal.register("ben", email=NEW)
        # A second change away keeps the address for its own week, beyond the end of the first.
        await moved(shoal, office, ann, "ann@third.example.org")
        await credentials.end(writes, early)
        with pytest.raises(Taken):
            await shoal.register("eve", email=ANN)
        assert (await check(shoal.network)).clean


@in_loop
async def test_a_mail_that_is_given_up_late_takes_nothing_from_a_letter_that_arrived_or_a_later_change(
    office: PostOffice, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_network(office) as (shoal, ann):
        told = await moved(shoal, office, ann, "thief@example.org")
        (proof,) = await proofs_of(shoal)
        monkeypatch.setattr("shoal.consumers.mail.given_up_at", lambda _kind, _at: 0)
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
