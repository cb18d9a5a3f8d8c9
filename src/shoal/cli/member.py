"""`shoal member`: make and invite members, set passwords, let in those who wait, suspend, give roles, list."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, datetime

import click

from shoal.admin.operations import (
    AddMember,
    CheckFree,
    CheckThere,
    DeleteMember,
    EndSessions,
    Invite,
    Judge,
    KeepMember,
    ListSessions,
    ResetSecondFactor,
    SetEmail,
    SetPassword,
    SetRole,
    SetSuspended,
)
from shoal.app.network import open_network
from shoal.app.paths import base_url
from shoal.cli.group import pass_settings
from shoal.cli.stores import existing, perform
from shoal.cli.transfer import import_archive
from shoal.core.errors import InvalidInput
from shoal.core.ids import MAX_ID
from shoal.core.model import Member, Role
from shoal.core.text import check_user_name
from shoal.graph.contract import Scanner
from shoal.settings import Settings

_PAGE = 1_000
_NO_ROLE = "none"
_ROLES = {Role.MODERATOR: "a moderator", Role.ADMIN: "an admin"}

_password = click.option(
    "--password-stdin", "piped", is_flag=True, help="Read the password from standard input instead of asking for it."
)


@click.group()
def member() -> None:
    """Make and invite members, set their passwords, suspend them, give them roles, list them."""


member.add_command(import_archive)


@member.command()
@click.argument("name")
@click.option("--email", default="", help="An address to log in with, besides the name.")
@click.option("--display-name", default="", help="The name that others see.")
@click.option("--reserved", is_flag=True, help="Allow a name that is kept for whoever runs the place, such as admin.")
@_password
@pass_settings
def add(settings: Settings, /, name: str, email: str, display_name: str, reserved: bool, piped: bool) -> None:
    """Make the member NAME, with a password. Works beside a running server."""
    if not piped:
        _need_terminal()
        # Check first, before asking for a password.
        perform(settings, CheckFree(check_user_name(name, reserved=reserved), email))
    secret = _ask(piped=piped)
    made = perform(settings, AddMember(name, secret, email, display_name, reserved))
    click.echo(f"{made.name} is a member now: id {made.id}")


@member.command()
@click.argument("name")
@_password
@pass_settings
def password(settings: Settings, /, name: str, piped: bool) -> None:
    """Give the member NAME another password. Works beside a running server."""
    existing(settings)
    if not piped:
        _need_terminal()
        perform(settings, CheckThere(name))
    perform(settings, SetPassword(name, _ask(piped=piped)))
    click.echo(f"{name} has a new password")


@member.command()
@click.argument("name")
@click.argument("address")
@pass_settings
def email(settings: Settings, /, name: str, address: str) -> None:
    """Give the member NAME another e-mail ADDRESS ("" for none). No mail is sent. Works beside a running server."""
    existing(settings)
    perform(settings, SetEmail(name, address))
    click.echo(f"{name} is reached at {address} now" if address else f"{name} has no e-mail address now")


@member.command("second-factor-off")
@click.argument("name")
@pass_settings
def second_factor_off(settings: Settings, /, name: str) -> None:
    """Let the member NAME log in without a code, who lost their app and recovery codes. Works beside a running server."""
    existing(settings)
    perform(settings, ResetSecondFactor(name))
    click.echo(f"{name} logs in by the password alone now")


@member.command()
@click.argument("name")
@pass_settings
def suspend(settings: Settings, /, name: str) -> None:
    """Take the member NAME out of sight, with all they posted. Works beside a running server."""
    perform(existing(settings), SetSuspended(name, suspended=True))
    click.echo(f"{name} is suspended")


@member.command()
@click.argument("name")
@pass_settings
def restore(settings: Settings, /, name: str) -> None:
    """Undo the suspension of the member NAME. Works beside a running server."""
    perform(existing(settings), SetSuspended(name, suspended=False))
    click.echo(f"{name} is back")


@member.command()
@click.argument("name")
@pass_settings
def approve(settings: Settings, /, name: str) -> None:
    """Let the member NAME in, who waits for approval. Works beside a running server."""
    perform(existing(settings), Judge(name, approved=True))
    click.echo(f"{name} is let in")


@member.command()
@click.argument("name")
@pass_settings
def reject(settings: Settings, /, name: str) -> None:
    """Delete the member NAME, who waits for approval. Works beside a running server."""
    perform(existing(settings), Judge(name, approved=False))
    click.echo(f"{name} is not let in, and deleted")


@member.command()
@click.argument("name")
@click.option("--uses", type=click.IntRange(0, 100), default=1, show_default=True, help="How many may sign up by it.")
@click.option("--days", type=click.IntRange(0, 30), default=7, show_default=True, help="Days for which it is good.")
@click.option("--follow", is_flag=True, help="Whoever signs up by it follows NAME.")
@pass_settings
def invite(settings: Settings, /, name: str, uses: int, days: int, follow: bool) -> None:
    """Make a link by which others sign up, in the name of the member NAME. Works beside a running server.

    The setting `invitations` says who may invite. For moderators and admins 0 stands for any number of uses, and for no end.
    """
    code = perform(existing(settings), Invite(name, uses, days, follow))
    click.echo(f"{base_url(settings)}/invite/{code}")


@member.command()
@click.argument("name")
@click.option(
    "--days", type=click.IntRange(0, 365), default=0, show_default=True, help="Days in which the member may come back."
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_settings
def delete(settings: Settings, /, name: str, days: int, yes: bool) -> None:
    """Delete the member NAME with everything of theirs, after --days; hidden they are now. Works beside a running server."""
    existing(settings)
    perform(settings, CheckThere(name))
    if not yes:
        click.confirm(f"delete {name} with everything of theirs?", abort=True)
    receipt = perform(settings, DeleteMember(name, days))
    click.echo(f"{name} is hidden, and is deleted {f'in {days} days' if days else 'now'} by a running server")
    click.echo(f"what is deleted can be seen at /goodbye/{receipt}")


@member.command()
@click.argument("name")
@pass_settings
def keep(settings: Settings, /, name: str) -> None:
    """Keep the member NAME, who is to be deleted. Works beside a running server."""
    perform(existing(settings), KeepMember(name))
    click.echo(f"{name} stays")


@member.command()
@click.argument("name")
@click.argument("role", type=click.Choice([*(role.value for role in _ROLES), _NO_ROLE]))
@pass_settings
def role(settings: Settings, /, name: str, role: str) -> None:
    """Let the member NAME look after the network, or not any more. Works beside a running server."""
    given = Role.NONE if role == _NO_ROLE else Role(role)
    perform(existing(settings), SetRole(name, given))
    click.echo(f"{name} has no role" if given is Role.NONE else f"{name} is {_ROLES[given]}")


@member.command()
@click.argument("name")
@click.option("--end", "ended", metavar="ID|all", help="End the one with this id, or all of them.")
@pass_settings
def sessions(settings: Settings, /, name: str, ended: str | None) -> None:
    """List where the member NAME is logged in, or end that with --end. Works beside a running server.

    A line each: id, app or browser, when it was made and last used, and the address it was used from.
    """
    existing(settings)
    if ended is not None:
        if ended != "all" and not (ended.isascii() and ended.isdigit() and 0 < int(ended) <= MAX_ID):
            raise InvalidInput("--end: the id of a login, as the list has it, or all")
        count = perform(settings, EndSessions(name, 0 if ended == "all" else int(ended)))
        click.echo(f"{count} {'login' if count == 1 else 'logins'} of {name} ended")
        return
    found = perform(settings, ListSessions(name))
    click.echo("id\twhat\tmade\tlast used\tfrom")
    for one in found:
        program = f"{one.program} on {one.system}" if one.program and one.system else one.program or one.system
        what = f"{one.app} ({program})" if one.app and program else one.app or program or "-"
        click.echo(f"{one.id}\t{what}\t{_day(one.made_at)}\t{_day(one.used_at)}\t{one.used_from or '-'}")


def _day(moment: int) -> str:
    return f"{datetime.fromtimestamp(moment / 1000, UTC):%Y-%m-%d}" if moment else "-"


@member.command("list")
@click.option("--pending", is_flag=True, help="Only those who wait for approval.")
@pass_settings
def list_(settings: Settings, /, pending: bool) -> None:
    """List all members: name, id, when they joined, display name. Works beside a running server."""
    asyncio.run(_list(existing(settings), pending=pending))


async def _list(settings: Settings, *, pending: bool) -> None:
    async with open_network(settings, read_only=True) as network, aclosing(_everybody(network.store)) as everybody:
        click.echo("name\tid\tjoined\tdisplay name")
        async for found in everybody:
            if pending and not found.pending:
                continue
            click.echo(f"{found.name}\t{found.id}\t{_day(found.created_at)}\t{found.display_name}")


async def _everybody(store: Scanner) -> AsyncGenerator[Member, None]:
    after = -(2**63)
    while page := await store.obj_scan(after, _PAGE):
        for node in page:
            if isinstance(node, Member):
                yield node
        after = page[-1].id


def _need_terminal() -> None:
    if not _at_terminal():
        raise InvalidInput("there is no terminal to ask for a password at: use --password-stdin")


def _at_terminal() -> bool:
    return sys.stdin.isatty()


def _ask(*, piped: bool) -> str:
    if piped:
        return sys.stdin.readline().rstrip("\n")
    answer: str = click.prompt("Password", hide_input=True, confirmation_prompt=True)
    return answer
