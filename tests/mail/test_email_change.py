"""E-mail changes: confirmation by the new address, undo by the old address, and release of unused addresses."""

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
from tests.async_runner import eventually, in_loop
from tests.engines.smtp import PostOffice
from tests.mail.mail_network import (
    ANN,
    NEW,
    OTHER,
    PASSWORD,
    a_network,
    agenda,
    fits,
    moved,
    no_mail_under_way,
    proofs_of,
    shoal_member,
    tried,
)


async def found_by_email(shoal: Shoal, by: Handle, address: str) -> bool:
    """Return whether `by` finds a member with this address."""
    hashed = hash_address(await contact_salt(shoal.network.writes), address)
    return len((await by.find_contacts([hashed])).matches) == 1


@in_loop
async def test_email_change_is_confirmed_by_new_address_and_reported_to_old_one(office: PostOffice) -> None:
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
        # The old address is reserved for a week, then available to other members.
        with pytest.raises(Taken):
            await shoal.register("eve", email=ANN)
        await agenda(shoal, 7.1).once()
        await shoal.register("eve", email=ANN)
        with pytest.raises(Gone):
            await shoal.undo_email_change(told.proof)
        assert (await check(shoal.network)).clean


@in_loop
async def test_email_change_undo_link_restores_hijacked_account(office: PostOffice) -> None:
    async with a_network(office) as (shoal, ann):
        # The hijacker knows the password, and changes the address twice and the password.
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
        # The owner restores the address and sets a password.
        office.take()
        await shoal.undo_email_change(undo.proof)
        await shoal.settle()
        (reset,) = office.take()
        assert (reset.to, reset.path.startswith("/reset/")) == (ANN, True)
        # The hijacker cannot undo the change, and the last address of the hijacker is free.
        for again in (theirs.proof, undo.proof):
            with pytest.raises(Gone):
                await shoal.undo_email_change(again)
        await shoal.register("thief", email="thief@elsewhere.example.org")
        # The hijacker cannot log in, and so cannot invalidate the owner's link with another password change.
        assert not await fits(shoal, ANN, "stolen password")
        await shoal.reset_password(reset.proof, OTHER)
        assert (await fits(shoal, ANN, OTHER), await fits(shoal, ANN, "stolen password")) == (True, False)
        # A later change by the owner can be undone.
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
async def test_mail_sent_late_omits_link_that_was_invalidated(office: PostOffice) -> None:
    async with a_network(office) as (shoal, ann):
        # A link to the hijacker's address, invalidated by the owner's new password before it is sent.
        office.refuses = "450 later"
        await ann.change_email(PASSWORD, "thief@example.org")
        await eventually(tried(office, 1), answer=True)
        await ann.change_password(PASSWORD, OTHER)
        await no_mail_under_way(shoal)
        office.refuses = ""
        await shoal.settle()
        assert [mail.to for mail in office.take()] == [ANN]
        await shoal.set_password(ann, PASSWORD)
        # The undo link to the hijacker's first address, invalidated by the owner's undo before it is sent.
        mine = await moved(shoal, office, ann, "thief@example.org")
        await ann.change_email(PASSWORD, "thief@elsewhere.example.org")
        await shoal.settle()
        before = office.tried
        office.refuses = "450 later"
        await shoal.confirm_email(office.to("thief@elsewhere.example.org").proof)
        await eventually(tried(office, before + 1), answer=True)
        await shoal.undo_email_change(mine.proof)
        await no_mail_under_way(shoal)
        office.refuses = ""
        await shoal.settle()
        with pytest.raises(Gone):
            await shoal.undo_email_change(office.to("thief@example.org").proof)
        assert office.mails[-1].to in (ANN, "thief@example.org")
        await shoal.reset_password(office.to(ANN).proof, OTHER)


@in_loop
async def test_email_change_by_operator_or_back_to_old_address_cannot_be_undone(office: PostOffice) -> None:
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
        # By a mail to the address that is still reserved.
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
async def test_email_address_used_again_by_its_member_is_not_freed_by_late_events(office: PostOffice) -> None:
    async with a_network(office) as (shoal, ann):
        writes = shoal.network.writes
        await moved(shoal, office, ann, NEW)
        (early,) = await proofs_of(shoal)
        await ann.change_email(PASSWORD, ANN)
        await shoal.settle()
        await shoal.confirm_email(office.to(ANN).proof)
        await shoal.settle()
        # The event that freed an address is delivered again, and the undo mail for that address is given up.
        freed = EmailChanged(member_id=ann.id, address=NEW, freed=(ANN,))
        lost = MailDue(kind=MailKind.UNDO, asked=1, member_id=ann.id, address=ANN)
        effects = shoal.network.effects
        await addresses.free_former_address(effects, freed, 0)
        await addresses.claim_address(effects, freed, 0)
        assert await mails.send(effects, lost, 0) is None
        with pytest.raises(Taken):
            await shoal.register("eve", email=ANN)
        # The new address is free, although the repeated event reserved it again.
        await shoal.register("ben", email=NEW)
        # A second change reserves the address for its own week, beyond the end of the first reservation.
        await moved(shoal, office, ann, "ann@third.example.org")
        await credentials.end(writes, early)
        with pytest.raises(Taken):
            await shoal.register("eve", email=ANN)
        assert (await check(shoal.network)).clean


@in_loop
async def test_email_change_expired_undo_mail_keeps_earlier_undo_link_and_reserved_address(
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
async def test_email_change_by_operator_invalidates_earlier_links(office: PostOffice) -> None:
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
async def test_email_changes_confirmed_in_quick_succession_keep_their_order(
    office: PostOffice, monkeypatch: pytest.MonkeyPatch
) -> None:
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
async def test_email_change_undo_link_survives_repeated_changes_by_hijacker(office: PostOffice) -> None:
    async with a_network(office) as (shoal, ann):
        # An earlier undo, which must not extend over later changes.
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
        # More changes do not free it either, and their number is limited.
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
async def test_member_without_email_address_claims_no_key_for_empty_address(office: PostOffice) -> None:
    async with a_network(office) as (shoal, ann):
        await shoal.set_email(ann, "")
        await shoal.settle()
        assert await shoal.network.store.key_get([email_key("")]) == {}


@in_loop
async def test_email_change_to_blocked_domain_is_refused(office: PostOffice) -> None:
    async with a_network(office) as (shoal, ann):
        await shoal.blocklists.block_domain("spam.example")
        with pytest.raises(Disallowed):
            await ann.change_email(PASSWORD, "ann@mail.spam.example")


@in_loop
async def test_email_change_to_address_taken_before_confirmation_is_refused(office: PostOffice) -> None:
    async with a_network(office) as (shoal, ann):
        await ann.change_email(PASSWORD, NEW)
        await shoal.settle()
        await shoal.register("eve", email=NEW)
        with pytest.raises(Taken):
            await shoal.confirm_email(office.to(NEW).proof)
        assert await fits(shoal, ANN, PASSWORD)


@in_loop
async def test_operator_email_change_sends_no_mail(office: PostOffice) -> None:
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
