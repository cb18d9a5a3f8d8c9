"""`shoal block`: e-mail domains and addresses that nobody signs up with."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from datetime import UTC, datetime

import click

from shoal.cli.group import pass_settings
from shoal.cli.stores import existing, perform
from shoal.core.email_blocks import EmailDomainBlock
from shoal.core.ids import milliseconds_of
from shoal.ops.blocklists import AnyBlock, Blocklists
from shoal.ops.operations import BlockAddress, BlockDomain, Unblock
from shoal.settings import Settings
from shoal.wiring import open_network


@click.group()
def block() -> None:
    """Say with which e-mail addresses nobody signs up."""


@block.command()
@click.argument("name")
@pass_settings
def domain(settings: Settings, /, name: str) -> None:
    """Refuse sign-ups with e-mail addresses of the domain NAME and those below it. Works beside a running server."""
    told = perform(existing(settings), BlockDomain(name))
    click.echo(f"nobody signs up with an address of {told}")


@block.command()
@click.argument("address")
@pass_settings
def email(settings: Settings, /, address: str) -> None:
    """Refuse sign-ups with the e-mail ADDRESS, however it is written. Works beside a running server."""
    perform(existing(settings), BlockAddress(address))
    click.echo(f"nobody signs up with {address}")


@block.command()
@click.argument("what")
@pass_settings
def end(settings: Settings, /, what: str) -> None:
    """End the block of WHAT: a domain or an e-mail address. Works beside a running server."""
    perform(existing(settings), Unblock(what))
    click.echo(f"{what} is not blocked any more")


@block.command("list")
@pass_settings
def list_(settings: Settings) -> None:
    """List all blocks: kind, what is blocked, since when, and more. Works beside a running server."""
    asyncio.run(_list(existing(settings)))


async def _list(settings: Settings) -> None:
    async with open_network(settings, read_only=True) as network, aclosing(Blocklists(network.writes).blocks()) as all_:
        click.echo("kind\twhat\tsince\tmore")
        async for found in all_:
            kind, what, more = _told(found)
            since = f"{datetime.fromtimestamp(milliseconds_of(found.id) / 1000, UTC):%Y-%m-%d}"
            click.echo(f"{kind}\t{what}\t{since}\t{more}")


def _told(found: AnyBlock) -> tuple[str, str, str]:
    if isinstance(found, EmailDomainBlock):
        return "domain", found.domain, f"refused: {sum(day.uses for day in found.days)}"
    return "email", found.digest, "hash of an address"
