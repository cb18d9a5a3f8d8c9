"""Mails and their links: each link works once, for a limited time and for one member."""

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
from tests.async_runner import eventually, in_loop
from tests.engines import dynamodb, postgres
from tests.engines.smtp import PostOffice
from tests.mail.mail_network import (
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
from tests.stores import all_objects


def later(monkeypatch: pytest.MonkeyPatch, ms: int) -> None:
    """Advance the clock for opened links by `ms`."""
    monkeypatch.setattr(IdMaker, "now", lambda _self: now_ms() + ms)


@in_loop
async def test_password_reset_link_works_once(office: PostOffice) -> None:
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
        # The secret is not stored.
        assert all(first.proof.encode() not in repr(node).encode() for node in await all_objects(shoal.network.store))
        with pytest.raises(TooShort):
            await shoal.reset_password(first.proof, "short")
        assert (await shoal.reset_password(first.proof, OTHER)).name == "ann"
        assert (await fits(shoal, "ann", PASSWORD), await fits(shoal, ANN, OTHER)) == (False, True)
        # Neither this link nor a link sent before the new password works again.
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
async def test_password_reset_link_used_concurrently_works_once(office: PostOffice) -> None:
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
async def test_password_reset_link_expires_after_an_hour_and_is_deleted(
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
async def test_password_reset_of_deactivated_account_allows_its_reactivation(office: PostOffice) -> None:
    async with a_network(office) as (shoal, ann):
        await ann.leave(PASSWORD)
        await shoal.forgot_password("ann")
        await shoal.settle()
        await shoal.reset_password(office.to(ANN).proof, OTHER)
        assert (await shoal.come_back("ann", OTHER)).name == "ann"


@in_loop
async def test_email_confirmation_link_confirms_the_address_once(office: PostOffice) -> None:
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
        # The address is already confirmed.
        office.take()
        await ann.ask_confirmation()
        await shoal.settle()
        assert office.mails == []


@pytest.mark.parametrize("approval", [False, True])
@in_loop
async def test_signup_with_required_confirmation_is_active_after_confirmation(
    office: PostOffice, approval: bool
) -> None:
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
async def test_invited_signup_follows_the_inviter_after_confirmation(office: PostOffice) -> None:
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
async def test_unconfirmed_signup_is_deleted_after_a_week_and_its_name_released(office: PostOffice) -> None:
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
async def test_unconfirmed_signup_approved_by_moderator_can_log_in(office: PostOffice) -> None:
    async with a_network(office) as (shoal, _):
        writes = shoal.network.writes
        made = await members.register(writes, "ben", password=PASSWORD, email="ben@example.org", unconfirmed=True)
        await moderation.approve(writes, made.id)
        assert (await members.log_in(writes, "ben", PASSWORD)).id == made.id


@in_loop
async def test_unconfirmed_signup_with_new_confirmation_mail_has_another_week(office: PostOffice) -> None:
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
async def test_unconfirmed_signup_without_mail_server_is_deleted_after_a_week() -> None:
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
async def test_unconfirmed_signup_suspended_before_confirmation_cannot_log_in(office: PostOffice) -> None:
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
        """Count no attempt."""

    async def take_back(self) -> None:
        """Revert no attempt."""


@in_loop
async def test_login_from_new_network_is_reported_by_mail(office: PostOffice) -> None:
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
async def test_mail_is_retried_while_server_is_unavailable_and_dropped_after_link_expiry(
    office: PostOffice, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_network(office) as (shoal, ann):
        office.refuses = "450 later"
        await shoal.forgot_password("ann")
        await eventually(tried(office, 3), answer=True)
        # Other events do not wait for the mail.
        await ann.create("The sea is calm")
        assert len((await ann.home()).entries) == 1
        office.refuses = ""
        await shoal.settle()
        assert [mail.to for mail in office.take()] == [ANN]
        assert any("mail delayed: " in line for line in caplog.messages)
        # A permanently refused mail is not retried.
        office.refuses = "550 no such mailbox"
        await shoal.forgot_password("ann")
        await shoal.settle()
        assert any("550 no such mailbox" in line for line in caplog.messages)
        # A mail not sent within the hour of its link's validity is dropped.
        office.refuses = "450 later"
        await shoal.forgot_password("ann")
        await eventually(tried(office, 6), answer=True)
        monkeypatch.setattr("shoal.consumers.mail.given_up_at", lambda _kind, at: at)
        await shoal.settle()
        assert any("giving up on mail" in line for line in caplog.messages)
        assert office.mails == []


@in_loop
async def test_mail_disabled_sends_no_mail_and_leaves_no_pending_events() -> None:
    async with Shoal.open("memory://", media="memory://", tags="memory://", search="memory://") as shoal:
        ann = await shoal.register("ann", password=PASSWORD, email=ANN)
        await shoal.forgot_password("ann")
        await ann.change_password(PASSWORD, OTHER)
        await shoal.settle()
        assert (await proofs_of(shoal), (await check(shoal.network)).clean) == ([], True)


class _Owner:
    """Owns the databases of a test."""


@pytest.mark.parametrize("store", ["sqlite", "postgres", "dynamodb"])
@in_loop
async def test_email_change_and_password_reset_links_are_accepted_on_every_store(
    store: str, office: PostOffice, tmp_path: Path
) -> None:
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
