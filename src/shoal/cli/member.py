"""`shoal member`: make members, set their passwords, list them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing

import click

from shoal.cli.group import pass_settings
from shoal.cli.stores import existing
from shoal.core.errors import NotFound
from shoal.core.ids import moment_of
from shoal.core.model import Member
from shoal.graph.contract import Scanner
from shoal.services import members
from shoal.settings import Settings
from shoal.wiring import open_network

_PAGE = 1_000

_password = click.option(
    "--password-stdin", "piped", is_flag=True, help="Read the password from standard input instead of asking for it."
)


@click.group()
def member() -> None:
    """Make members, set their passwords, list them."""


@member.command()
@click.argument("name")
@click.option("--email", default="", help="An address to log in with, besides the name.")
@click.option("--display-name", default="", help="The name that others see.")
@click.option("--reserved", is_flag=True, help="Allow a name that is kept for whoever runs the place, such as admin.")
@_password
@pass_settings
def add(settings: Settings, /, name: str, email: str, display_name: str, reserved: bool, piped: bool) -> None:
    """Make the member NAME, with a password. The server must not be running."""
    secret = _ask(piped=piped)
    made = asyncio.run(_add(settings, name, secret, email=email, display_name=display_name, reserved=reserved))
    click.echo(f"{made.name} is a member now: id {made.id}")


async def _add(settings: Settings, name: str, secret: str, *, email: str, display_name: str, reserved: bool) -> Member:
    async with open_network(settings, background=False) as network:
        return await members.register(
            network.writes, name, password=secret, email=email, display_name=display_name, reserved=reserved
        )


@member.command()
@click.argument("name")
@_password
@pass_settings
def password(settings: Settings, /, name: str, piped: bool) -> None:
    """Give the member NAME another password. The server must not be running."""
    asyncio.run(_set_password(existing(settings), name, _ask(piped=piped)))
    click.echo(f"{name} has a new password")


async def _set_password(settings: Settings, name: str, secret: str) -> None:
    async with open_network(settings, background=False) as network:
        found = await members.find(network.writes, name)
        if found is None:
            raise NotFound(f"there is no member {name!r}")
        await members.set_password(network.writes, found.id, secret)


@member.command("list")
@pass_settings
def list_(settings: Settings) -> None:
    """List all members: name, id, when they joined, display name. Works beside a running server."""
    asyncio.run(_list(existing(settings)))


async def _list(settings: Settings) -> None:
    async with open_network(settings, read_only=True) as network, aclosing(_everybody(network.store)) as everybody:
        async for found in everybody:
            joined = f"{moment_of(found.id):%Y-%m-%d}"
            click.echo(f"{found.name}\t{found.id}\t{joined}\t{found.display_name}")


async def _everybody(store: Scanner) -> AsyncGenerator[Member, None]:
    after = -(2**63)
    while page := await store.obj_scan(after, _PAGE):
        for node in page:
            if isinstance(node, Member):
                yield node
        after = page[-1].id


def _ask(*, piped: bool) -> str:
    if piped:
        return sys.stdin.readline().rstrip("\n")
    answer: str = click.prompt("Password", hide_input=True, confirmation_prompt=True)
    return answer
