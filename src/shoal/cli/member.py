"""`shoal member`: create, invite, approve, suspend and list members, and set their passwords and roles."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, datetime

import click

from shoal.admin.external_ids import LinkExternalId, ListExternalIds, UnlinkExternalId
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
    """Create, invite, list and suspend members, and set their passwords and roles."""


member.add_command(import_archive)


@member.command()
@click.argument("name")
@click.option("--email", default="", help="E-mail address, which can also be used to log in.")
@click.option("--display-name", default="", help="Display name.")
@click.option("--reserved", is_flag=True, help="Allow a reserved name, such as admin.")
@_password
@pass_settings
def add(settings: Settings, /, name: str, email: str, display_name: str, reserved: bool, piped: bool) -> None:
    """Create the member NAME with a password. Works while a server is running."""
    if not piped:
        _need_terminal()
        # Check the name and the address before the command asks for a password.
        perform(settings, CheckFree(check_user_name(name, reserved=reserved), email), create=True)
    secret = _ask(piped=piped)
    made = perform(settings, AddMember(name, secret, email, display_name, reserved), create=True)
    click.echo(f"created {made.name}, id {made.id}")


@member.command()
@click.argument("name")
@_password
@pass_settings
def password(settings: Settings, /, name: str, piped: bool) -> None:
    """Set the password of the member NAME. Works while a server is running."""
    if not piped:
        _need_terminal()
        perform(settings, CheckThere(name))
    perform(settings, SetPassword(name, _ask(piped=piped)))
    click.echo(f"changed the password of {name}")


@member.command()
@click.argument("name")
@click.argument("address")
@pass_settings
def email(settings: Settings, /, name: str, address: str) -> None:
    """Set the e-mail ADDRESS of the member NAME ("" for none), without sending a mail. Works while a server is running."""
    perform(settings, SetEmail(name, address))
    click.echo(
        f"changed the e-mail address of {name} to {address}" if address else f"removed the e-mail address of {name}"
    )


@member.command("second-factor-off")
@click.argument("name")
@pass_settings
def second_factor_off(settings: Settings, /, name: str) -> None:
    """Turn off the second factor of the member NAME, who lost the app and the recovery codes. Works while a server is running."""
    perform(settings, ResetSecondFactor(name))
    click.echo(f"turned off two-factor authentication for {name}")


@member.command()
@click.argument("name")
@pass_settings
def suspend(settings: Settings, /, name: str) -> None:
    """Suspend the member NAME, which hides them and their posts. Works while a server is running."""
    perform(settings, SetSuspended(name, suspended=True))
    click.echo(f"suspended {name}")


@member.command()
@click.argument("name")
@pass_settings
def restore(settings: Settings, /, name: str) -> None:
    """Unsuspend the member NAME. Works while a server is running."""
    perform(settings, SetSuspended(name, suspended=False))
    click.echo(f"unsuspended {name}")


@member.command()
@click.argument("name")
@pass_settings
def approve(settings: Settings, /, name: str) -> None:
    """Approve the pending member NAME. Works while a server is running."""
    perform(settings, Judge(name, approved=True))
    click.echo(f"approved {name}")


@member.command()
@click.argument("name")
@pass_settings
def reject(settings: Settings, /, name: str) -> None:
    """Reject and delete the pending member NAME. Works while a server is running."""
    perform(settings, Judge(name, approved=False))
    click.echo(f"rejected and deleted {name}")


@member.command()
@click.argument("name")
@click.option("--uses", type=click.IntRange(0, 100), default=1, show_default=True, help="Maximum number of sign-ups.")
@click.option("--days", type=click.IntRange(0, 30), default=7, show_default=True, help="Days until the link expires.")
@click.option("--follow", is_flag=True, help="Members who sign up with the link follow NAME.")
@pass_settings
def invite(settings: Settings, /, name: str, uses: int, days: int, follow: bool) -> None:
    """Create an invitation link on behalf of the member NAME. Works while a server is running.

    The setting `invitations` controls who may invite. For moderators and admins, 0 means unlimited uses or days.
    """
    code = perform(settings, Invite(name, uses, days, follow))
    click.echo(f"{base_url(settings)}/invite/{code}")


@member.command()
@click.argument("name")
@click.option(
    "--days",
    type=click.IntRange(0, 365),
    default=0,
    show_default=True,
    help="Days in which the member may cancel the deletion.",
)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@pass_settings
def delete(settings: Settings, /, name: str, days: int, yes: bool) -> None:
    """Hide the member NAME now, and delete them with all their data after --days. Works while a server is running."""
    perform(settings, CheckThere(name))
    if not yes:
        click.confirm(f"Delete {name} and all their data?", abort=True)
    receipt = perform(settings, DeleteMember(name, days))
    click.echo(f"{name} is hidden and will be deleted {f'in {days} days' if days else 'now'} by a running server")
    click.echo(f"the deletion report is at /goodbye/{receipt}")


@member.command()
@click.argument("name")
@pass_settings
def keep(settings: Settings, /, name: str) -> None:
    """Cancel the deletion of the member NAME. Works while a server is running."""
    perform(settings, KeepMember(name))
    click.echo(f"canceled the deletion of {name}")


@member.command()
@click.argument("name")
@click.argument("role", type=click.Choice([*(role.value for role in _ROLES), _NO_ROLE]))
@pass_settings
def role(settings: Settings, /, name: str, role: str) -> None:
    """Set the role of the member NAME. Works while a server is running."""
    given = Role.NONE if role == _NO_ROLE else Role(role)
    perform(settings, SetRole(name, given))
    click.echo(f"removed the role of {name}" if given is Role.NONE else f"{name} is now {_ROLES[given]}")


@member.command()
@click.argument("name")
@click.option("--end", "ended", metavar="ID|all", help="End the session with this id, or all sessions.")
@pass_settings
def sessions(settings: Settings, /, name: str, ended: str | None) -> None:
    """List the sessions of the member NAME, or end them with --end. Works while a server is running.

    Columns: id, app or browser, dates of creation and last use, and the address of the last use.
    """
    if ended is not None:
        if ended != "all" and not (ended.isascii() and ended.isdigit() and 0 < int(ended) <= MAX_ID):
            raise InvalidInput(f"--end: expected a session id from the list, or all (got {ended!r})")
        count = perform(settings, EndSessions(name, 0 if ended == "all" else int(ended)))
        click.echo(f"logged out {count} {'session' if count == 1 else 'sessions'} of {name}")
        return
    found = perform(settings, ListSessions(name))
    click.echo("id\tapp\tcreated\tlast used\taddress")
    for session in found:
        program = (
            f"{session.program} on {session.system}"
            if session.program and session.system
            else session.program or session.system
        )
        what = f"{session.app} ({program})" if session.app and program else session.app or program or "-"
        click.echo(
            f"{session.id}\t{what}\t{_day(session.made_at)}\t{_day(session.used_at)}\t{session.used_from or '-'}"
        )


@member.command("external-ids")
@click.argument("name")
@click.option("--add", "added", nargs=2, metavar="ISSUER ID", help="Link this external id to the member.")
@click.option("--remove", "removed", nargs=2, metavar="ISSUER ID", help="Unlink this external id from the member.")
@pass_settings
def external_ids(
    settings: Settings, /, name: str, added: tuple[str, str] | None, removed: tuple[str, str] | None
) -> None:
    """List the ids of the member NAME in other products, or change them. Works while a server is running."""
    if added:
        perform(settings, LinkExternalId(name, *added))
    if removed:
        perform(settings, UnlinkExternalId(name, *removed))
    found = perform(settings, ListExternalIds(name))
    click.echo("issuer\tid")
    for external in found:
        click.echo(f"{external.issuer}\t{external.id}")


def _day(moment: int) -> str:
    return f"{datetime.fromtimestamp(moment / 1000, UTC):%Y-%m-%d}" if moment else "-"


@member.command("list")
@click.option("--pending", is_flag=True, help="List only members pending approval.")
@pass_settings
def list_(settings: Settings, /, pending: bool) -> None:
    """List all members: name, id, date of joining, display name. Works while a server is running."""
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
        raise InvalidInput("no terminal to prompt for the password: use --password-stdin")


def _at_terminal() -> bool:
    return sys.stdin.isatty()


def _ask(*, piped: bool) -> str:
    if piped:
        return sys.stdin.readline().rstrip("\n")
    answer: str = click.prompt("Password", hide_input=True, confirmation_prompt=True)
    return answer
