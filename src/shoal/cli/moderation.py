"""Moderation commands: `shoal post`, `shoal block` and `shoal audit`."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec

from shoal.admin.audit_log import MOST_LISTED, AuditRecord, ExportAudit, ListAudit
from shoal.admin.blocklists import AnyBlock, Blocklists
from shoal.admin.operations import BlockAddress, BlockDomain, BlockName, BlockNetwork, SetHidden, Unblock, UnblockName
from shoal.app.network import open_network
from shoal.cli.group import pass_settings
from shoal.cli.progress import bars
from shoal.cli.stores import existing, perform
from shoal.commands.blocklists import MAX_IP_BLOCK_SECONDS
from shoal.core.audit import AuditVerb
from shoal.core.blocklists import EmailDomainBlock, IpBlock, IpSeverity, NameBlock
from shoal.core.ids import milliseconds_of
from shoal.settings import Settings


class PostId(click.ParamType[int]):
    name = "post"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value)
        if not text.isascii() or not text.isdigit() or not 0 < int(text) < 2**63:
            self.fail(f"{text!r} is not a post id: use the number in the post's URL", param, ctx)
        return int(text)


_post_id = click.argument("post_id", type=PostId())


@click.group()
def post() -> None:
    """Hide and unhide posts."""


@post.command()
@_post_id
@pass_settings
def hide(settings: Settings, /, post_id: int) -> None:
    """Hide the post POST_ID from everyone except its author. Works while a server is running."""
    perform(settings, SetHidden(post_id, hidden=True))
    click.echo(f"hid post {post_id}")


@post.command()
@_post_id
@pass_settings
def reveal(settings: Settings, /, post_id: int) -> None:
    """Unhide the post POST_ID. Works while a server is running."""
    perform(settings, SetHidden(post_id, hidden=False))
    click.echo(f"unhid post {post_id}")


_DAY = 86_400


@click.group()
def block() -> None:
    """Block e-mail addresses and names at sign-up, and IP address ranges."""


@block.command()
@click.argument("name")
@pass_settings
def domain(settings: Settings, /, name: str) -> None:
    """Refuse sign-ups with e-mail addresses of the domain NAME and its subdomains. Works while a server is running."""
    blocked = perform(settings, BlockDomain(name))
    click.echo(f"blocked the e-mail addresses of {blocked} at sign-up")


@block.command()
@click.argument("address")
@pass_settings
def email(settings: Settings, /, address: str) -> None:
    """Refuse sign-ups with the e-mail ADDRESS in any spelling. Works while a server is running."""
    perform(settings, BlockAddress(address))
    click.echo(f"blocked {address} at sign-up")


@block.command()
@click.argument("address")
@click.option(
    "--severity",
    type=click.Choice([severity.value for severity in IpSeverity]),
    default=IpSeverity.NO_ACCESS.value,
    show_default=True,
    help="What to refuse: sign-up without approval, any sign-up, or all access.",
)
@click.option("--comment", default="", help="Reason, shown to moderators.")
@click.option(
    "--days",
    type=click.IntRange(0, MAX_IP_BLOCK_SECONDS // _DAY),
    default=0,
    help="Days until the block expires.  [0: never]",
)
@pass_settings
def network(settings: Settings, /, address: str, severity: str, comment: str, days: int) -> None:
    """Block an IP ADDRESS or an address range such as 203.0.113.0/24. A running server applies the block within seconds.

    You may also block your own address by mistake; `shoal block end` removes a block.
    """
    blocked = perform(settings, BlockNetwork(address, IpSeverity(severity), comment, days * _DAY))
    click.echo(f"blocked {blocked}: {severity}")


@block.command()
@click.argument("word")
@click.option("--part", is_flag=True, help="Also refuse names that contain WORD.")
@pass_settings
def name(settings: Settings, /, word: str, part: bool) -> None:
    """Refuse sign-ups with the user name WORD. Members keep their names. Works while a server is running.

    Digits match the letters that they resemble, and underscores are ignored: "hate" refuses h4_te.
    """
    perform(settings, BlockName(word, part=part))
    click.echo(f"user names {'containing' if part else 'equal to'} {word} are now refused at sign-up")


@block.command()
@click.argument("what")
@click.option("--name", "is_name", is_flag=True, help="Treat WHAT as a user name.")
@pass_settings
def end(settings: Settings, /, what: str, is_name: bool) -> None:
    """End the block of WHAT: a domain, an e-mail address, an address range or a name. Works while a server is running."""
    perform(settings, UnblockName(what) if is_name else Unblock(what))
    click.echo(f"unblocked {what}")


@block.command("list")
@pass_settings
def list_blocks(settings: Settings) -> None:
    """List all blocks: kind, value, start and details. Works while a server is running."""
    asyncio.run(_list_blocks(existing(settings)))


async def _list_blocks(settings: Settings) -> None:
    async with open_network(settings, read_only=True) as network, aclosing(Blocklists(network.writes).blocks()) as all_:
        click.echo("kind\twhat\tsince\tmore")
        async for found in all_:
            kind, what, more = _describe(found)
            since = f"{datetime.fromtimestamp(milliseconds_of(found.id) / 1000, UTC):%Y-%m-%d}"
            click.echo(f"{kind}\t{what}\t{since}\t{more}")


def _describe(found: AnyBlock) -> tuple[str, str, str]:
    if isinstance(found, EmailDomainBlock):
        return "domain", found.domain, f"refused: {sum(day.uses for day in found.days)}"
    if isinstance(found, IpBlock):
        until = f"{datetime.fromtimestamp(found.expires_at / 1000, UTC):%Y-%m-%d}" if found.expires_at else ""
        return (
            "network",
            found.network,
            " ".join(filter(None, (found.severity, until and f"until {until}", found.comment))),
        )
    if isinstance(found, NameBlock):
        return "name", f"*{found.word}*" if found.part else found.word, ""
    return "email", found.digest, "hash of an address"


@click.group()
def audit() -> None:
    """List and export the audit log."""


@audit.command("list")
@click.option("--actor", default="", metavar="NAME", help="List only actions by this member: a user name or an id.")
@click.option(
    "--target", default="", metavar="NAME", help="List only actions on this member, or on the object with this id."
)
@click.option(
    "--verb",
    type=click.Choice([verb.value for verb in AuditVerb]),
    metavar="ACT",
    help="List only this action, such as login.failed.",
)
@click.option("--before", type=click.IntRange(1), help="List only entries older than the entry with this id.")
@click.option(
    "--limit", type=click.IntRange(1, MOST_LISTED), default=20, show_default=True, help="Maximum number of entries."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines with all fields.")
@pass_settings
def list_entries(
    settings: Settings,
    /,
    actor: str,
    target: str,
    verb: str | None,
    before: int | None,
    limit: int,
    as_json: bool,
) -> None:
    """List entries of the audit log, newest first. Works while a server is running."""
    operation = ListAudit(actor, target, verb or "", before or 0, limit)
    for record in perform(settings, operation):
        click.echo(msgspec.json.encode(record) if as_json else _line(record))


def _line(record: AuditRecord) -> str:
    target = record.target.name or record.target.id
    words = [record.id, record.created_at, record.actor.name if record.actor else "-", record.verb]
    words += [f"{record.target.kind}:{target}" if target else record.target.kind, record.address or "-"]
    details = [f"{name}={value}" for name, value in record.details.items()]
    return "\t".join([*words, *details, *([repr(record.reason)] if record.reason else [])])


@audit.command()
@click.option("--to", required=True, type=click.Path(path_type=Path), help="New file, readable only by its owner.")
@pass_settings
def export(settings: Settings, to: Path) -> None:
    """Export the whole audit log as lines of JSON, oldest first. Works while a server is running."""
    with bars() as progress:
        written = perform(settings, ExportAudit(to.absolute()), progress)
    click.echo(f"wrote {written:,} {'entry' if written == 1 else 'entries'} to {to}")
