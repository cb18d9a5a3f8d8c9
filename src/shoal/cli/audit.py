"""`shoal audit`: the audit log, a page of it or all of it in a file."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from shoal.admin.audit_log import MOST_LISTED, AuditRecord, ExportAudit, ListAudit
from shoal.cli.group import pass_settings
from shoal.cli.stores import existing, perform
from shoal.cli.words.bars import bars
from shoal.core.audit import AuditVerb
from shoal.settings import Settings


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
def list_(
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
