"""Deleting one's account, coming back, and the receipt of what was deleted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from shoal.api import rows
from shoal.api.context import Context
from shoal.api.entities.presenter import moment
from shoal.api.listing import actor
from shoal.api.login import guesses
from shoal.commands import account_deletions
from shoal.core.model import Departure

_Secret = Annotated[str, Meta(min_length=1, max_length=2_000)]


class OwnPassword(msgspec.Struct, frozen=True):
    """The password of the account that is to be deleted."""

    password: _Secret


class NameAndPassword(msgspec.Struct, frozen=True):
    """A user name or an e-mail address, and the password."""

    username: Annotated[str, Meta(min_length=1, max_length=300)]
    password: _Secret


class ReceiptPath(msgspec.Struct, frozen=True):
    """The text that opens a receipt: a member was told it when they left."""

    receipt: Annotated[str, Meta(max_length=100)]


class DepartureEntity(msgspec.Struct, frozen=True):
    """The deletion of an account: when it was asked for, is to begin, began and was done, and how much of what there was."""

    username: str
    asked_at: str
    deletes_at: str
    begun_at: str | None
    deleted_at: str | None
    counts: Mapping[str, int]
    """Empty before it began."""


class FarewellEntity(DepartureEntity, frozen=True):
    """A deletion that was just asked for, and what opens its receipt: nobody can be told it again."""

    receipt: str


async def leave(context: Context, params: OwnPassword) -> object:
    """Delete the caller's account: hidden now, deleted when the days to come back are over. All logins end, this one too."""
    told = await guesses.leave(context, actor(context), params.password)
    return FarewellEntity(**_fields(told.departure), receipt=told.receipt)


async def come_back(context: Context, params: NameAndPassword) -> object:
    """Keep an account that was to be deleted. It is logged in to as ever, after that."""
    await guesses.come_back(context, params.username, params.password)
    return {}


async def receipt(context: Context, params: ReceiptPath) -> object:
    """The deletion of an account, for whoever has its receipt; it is kept for a year."""
    return DepartureEntity(**_fields(await account_deletions.receipt(context.deps.writes, params.receipt)))


def _fields(departure: Departure) -> dict[str, Any]:
    return {
        "username": departure.name,
        "asked_at": moment(departure.asked_at),
        "deletes_at": moment(departure.at),
        "begun_at": moment(departure.begun_at) if departure.begun_at else None,
        "deleted_at": moment(departure.done_at) if departure.done_at else None,
        "counts": departure.counts,
    }


ROUTES = (
    rows.route(
        "POST",
        "/api/shoal/v1/leave",
        leave,
        scope="write:accounts",
        limit_class="login",
        params=OwnPassword,
        answer=FarewellEntity,
    ),
    rows.route(
        "POST",
        "/api/shoal/v1/come_back",
        come_back,
        auth="public",
        limit_class="login",
        params=NameAndPassword,
        answer=dict,
        refuses=(401, 403),
    ),
    rows.route(
        "GET", "/api/shoal/v1/receipts/{receipt}", receipt, auth="public", params=ReceiptPath, answer=DepartureEntity
    ),
)
