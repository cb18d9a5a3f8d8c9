"""Mails and the links in them: each works once, for a while, for one member alone."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from shoal import Shoal
from shoal.admin.consistency.check import check
from shoal.commands import credentials, members, moderation
from shoal.core.credentials import Site
from shoal.core.errors import (
    Gone,
    InvalidInput,
    NotAllowed,
    NotFound,
    TooShort,
    Unauthenticated,
    Unconfirmed,
)
from shoal.core.ids import IdMaker, now_ms
from shoal.core.model import Role
from shoal.core.placement import place
from shoal.core.signup import Invited
from shoal.graph.payloads.notifications import Kind
from tests.engines import dynamodb, postgres
from tests.engines.smtp import PostOffice
from tests.mail.people import (
    ANN,
    NEW,
    OTHER,
    PASSWORD,
    a_network,
    agenda,
    fits,
    proofs_of,
    shoal_member,
    tried,
)
from tests.running import eventually, in_loop
from tests.stores import all_objects


def later(monkeypatch: pytest.MonkeyPatch, ms: int) -> None:
    """Let so much time pass for whoever opens a link."""
    monkeypatch.setattr(IdMaker, "now", lambda _self: now_ms() + ms)


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
    async with a_network(office) as (shoal, _):
        await shoal.forgot_password("ann")
        await shoal.settle()
        proof = office.to(ANN).proof
        said = await asyncio.gather(
            *[shoal.reset_password(proof, f"the password {n}") for n in range(4)], return_exceptions=True
        )
        assert sorted(type(one).__name__ for one in said) == ["Gone", "Gone", "Gone", "Handle"]
        assert [await fits(shoal, "ann", f"the password {n}") for n in range(4)].count(True) == 1


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
        later(monkeypatch, 3_600_001)
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
async def test_who_was_invited_follows_who_invited_them_once_they_confirmed(office: PostOffice) -> None:
    async with a_network(office) as (shoal, ann):
        writes = shoal.network.writes
        invited = Invited(writes.new_id(place("ben").shard), await shoal_member(shoal, ann), follow=True)
        await members.register(writes, "ben", email="ben@example.org", unconfirmed=True, confirms=True, invited=invited)
        await shoal.settle()
        assert (await ann.profile()).followers == 0
        await shoal.confirm_email(office.to("ben@example.org").proof)
        await shoal.settle()
        assert (await ann.profile()).followers == 1
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
        await credentials.ask_confirmation(writes, made)
        await shoal.settle()
        await credentials.end(writes, first)
        assert await members.find(writes, "ben") is not None
        (second,) = await proofs_of(shoal)
        await credentials.end(writes, second)
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


class _From:
    """A client that sends a password from a network."""

    def __init__(self, address: str) -> None:
        self.address = self.network = address
        self.site = Site("https://sea.example.org", "sea.example.org", "Sea")

    async def begin(self, account: str, *, known: bool, code: bool = False) -> None:
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
        monkeypatch.setattr("shoal.consumers.mail.given_up_at", lambda _kind, at: at)
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
