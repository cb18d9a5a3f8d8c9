"""A network that sends mail, with a member Ann and her address, and helpers for its tests."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from shoal import Handle, Shoal
from shoal.commands import members
from shoal.core.email import EmailToken
from shoal.core.errors import (
    Unauthenticated,
)
from shoal.core.model import Member
from shoal.scheduler import Agenda
from tests.async_runner import eventually
from tests.engines.smtp import Mail, PostOffice
from tests.stores import all_objects

DAY = 86_400_000
PASSWORD, OTHER = "a long password", "quite another one"
ANN, NEW = "ann@example.org", "ann@new.example.org"


@asynccontextmanager
async def a_network(office: PostOffice, url: str = "memory://") -> AsyncIterator[tuple[Shoal, Handle]]:
    """Open a network that sends mail to `office`, and register Ann with an address."""
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
    """Return an agenda whose clock is `days` days ahead."""
    return Agenda(shoal.network.writes, clock=lambda: time.time_ns() // 1_000_000 + int(days * DAY))


async def fits(shoal: Shoal, name: str, password: str) -> bool:
    """Return whether a member can log in with this password."""
    try:
        await members.log_in(shoal.network.writes, name, password)
    except Unauthenticated:
        return False
    return True


async def proofs_of(shoal: Shoal) -> list[EmailToken]:
    return [node for node in await all_objects(shoal.network.store) if isinstance(node, EmailToken)]


async def shoal_member(shoal: Shoal, who: Handle) -> Member:
    found = await members.find(shoal.network.writes, who.name)
    assert found is not None
    return found


async def moved(shoal: Shoal, office: PostOffice, ann: Handle, address: str) -> Mail:
    """Change Ann's address, confirm it by mail, and return the mail to her previous address."""
    before = await members.login_of(shoal.network.writes, await shoal_member(shoal, ann))
    assert before is not None
    await ann.change_email(PASSWORD, address)
    await shoal.settle()
    await shoal.confirm_email(office.to(address).proof)
    await shoal.settle()
    return office.to(before.email)


def tried(office: PostOffice, times: int) -> Callable[[], Awaitable[bool]]:
    """Return a condition: at least `times` attempts to deliver a mail were made."""

    async def ask() -> bool:
        return office.tried >= times

    return ask


async def no_mail_under_way(shoal: Shoal) -> None:
    """Wait until no earlier mail is being sent, while the mail server refuses mails."""
    sender = shoal.network.effects.mail_sender
    assert sender is not None

    async def under_way() -> int:
        return sender.in_flight

    await eventually(under_way, 0, pause=0.001)
