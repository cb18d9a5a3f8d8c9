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
    """The id of a post."""

    name = "post"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value)
        if not text.isascii() or not text.isdigit() or not 0 < int(text) < 2**63:
            self.fail(f"{text!r} is no post: it is named by its number, which stands in its address", param, ctx)
        return int(text)


_post_id = click.argument("post_id", type=PostId())


@click.group()
def post() -> None:
    """Take posts out of sight, and show them again."""


@post.command()
@_post_id
@pass_settings
def hide(settings: Settings, /, post_id: int) -> None:
    """Nobody but its author sees the post POST_ID any more. Works beside a running server."""
    perform(existing(settings), SetHidden(post_id, hidden=True))
    click.echo(f"{post_id} is out of sight")


@post.command()
@_post_id
@pass_settings
def reveal(settings: Settings, /, post_id: int) -> None:
    """Show the post POST_ID again. Works beside a running server."""
    perform(existing(settings), SetHidden(post_id, hidden=False))
    click.echo(f"{post_id} is in sight")


_DAY = 86_400


@click.group()
def block() -> None:
    """Say with which e-mail addresses and names nobody signs up, and which networks are kept out."""


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
@click.argument("address")
@click.option(
    "--severity",
    type=click.Choice([severity.value for severity in IpSeverity]),
    default=IpSeverity.NO_ACCESS.value,
    show_default=True,
    help="What is refused.",
)
@click.option("--comment", default="", help="Why, for those who look after the network.")
@click.option(
    "--days", type=click.IntRange(0, MAX_IP_BLOCK_SECONDS // _DAY), default=0, help="Until it expires.  [0: never]"
)
@pass_settings
def network(settings: Settings, /, address: str, severity: str, comment: str, days: int) -> None:
    """Keep out the ADDRESS or network, as 203.0.113.0/24. Works beside a running server, which knows it within seconds.

    It is not asked whether your own address is among them: `shoal block end` takes it back.
    """
    told = perform(existing(settings), BlockNetwork(address, IpSeverity(severity), comment, days * _DAY))
    click.echo(f"{told} is blocked: {severity}")


@block.command()
@click.argument("word")
@click.option("--part", is_flag=True, help="Also names that have it in them.")
@pass_settings
def name(settings: Settings, /, word: str, part: bool) -> None:
    """Refuse sign-ups with the user name WORD. Members keep their names. Works beside a running server.

    Digits count as the letters that they are written for, and underscores not at all: "hate" refuses h4_te.
    """
    perform(existing(settings), BlockName(word, part=part))
    click.echo(f"nobody signs up with a name that {'has' if part else 'is'} {word}{' in it' if part else ''}")


@block.command()
@click.argument("what")
@click.option("--name", "is_name", is_flag=True, help="WHAT is a user name.")
@pass_settings
def end(settings: Settings, /, what: str, is_name: bool) -> None:
    """End the block of WHAT: a domain, an e-mail address, a network or a name. Works beside a running server."""
    perform(existing(settings), UnblockName(what) if is_name else Unblock(what))
    click.echo(f"{what} is not blocked any more")


@block.command("list")
@pass_settings
def list_blocks(settings: Settings) -> None:
    """List all blocks: kind, what is blocked, since when, and more. Works beside a running server."""
    asyncio.run(_list_blocks(existing(settings)))


async def _list_blocks(settings: Settings) -> None:
    async with open_network(settings, read_only=True) as network, aclosing(Blocklists(network.writes).blocks()) as all_:
        click.echo("kind\twhat\tsince\tmore")
        async for found in all_:
            kind, what, more = _told(found)
            since = f"{datetime.fromtimestamp(milliseconds_of(found.id) / 1000, UTC):%Y-%m-%d}"
            click.echo(f"{kind}\t{what}\t{since}\t{more}")


def _told(found: AnyBlock) -> tuple[str, str, str]:
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
    """Show who did what to whom, when, why and from where, or write all of it into a file."""


@audit.command("list")
@click.option("--actor", default="", metavar="NAME", help="Only acts of this member: a user name, or an id.")
@click.option("--target", default="", metavar="NAME", help="Only acts about this member, or whatever has this id.")
@click.option(
    "--verb", type=click.Choice([verb.value for verb in AuditVerb]), metavar="ACT", help="Only this act: login.failed."
)
@click.option("--before", type=click.IntRange(1), help="Only entries older than the one with this id.")
@click.option("--limit", type=click.IntRange(1, MOST_LISTED), default=20, show_default=True, help="How many.")
@click.option("--json", "as_json", is_flag=True, help="As lines of JSON, with everything.")
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
    """List entries of the audit log, newest first. Works beside a running server."""
    wanted = ListAudit(actor, target, verb or "", before or 0, limit)
    for record in perform(existing(settings), wanted):
        click.echo(msgspec.json.encode(record) if as_json else _line(record))


def _line(record: AuditRecord) -> str:
    target = record.target.name or record.target.id
    words = [record.id, record.created_at, record.actor.name if record.actor else "-", record.verb]
    words += [f"{record.target.kind}:{target}" if target else record.target.kind, record.address or "-"]
    details = [f"{name}={value}" for name, value in record.details.items()]
    return "\t".join([*words, *details, *([repr(record.reason)] if record.reason else [])])


@audit.command()
@click.option("--to", required=True, type=click.Path(path_type=Path), help="A new file. Only its owner may read it.")
@pass_settings
def export(settings: Settings, to: Path) -> None:
    """Write all of the audit log into a file, a line of JSON for each entry, oldest first. Works beside a running server."""
    with bars() as progress:
        written = perform(existing(settings), ExportAudit(to.absolute()), progress)
    click.echo(f"{written:,} {'entry is' if written == 1 else 'entries are'} in {to}")
