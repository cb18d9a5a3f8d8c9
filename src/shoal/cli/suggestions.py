"""`shoal suggestions`: whom a member is suggested to follow, in the terminal, and why."""

from __future__ import annotations

import click
import msgspec
from rich.console import Console
from rich.text import Text

from shoal.admin.operations import ShowSuggestions
from shoal.cli.group import pass_settings
from shoal.cli.stores import existing, perform
from shoal.settings import Settings


@click.command()
@click.argument("name")
@click.option("--limit", type=click.IntRange(1, 80), default=10, show_default=True, help="How many members.")
@click.option("--json", "as_json", is_flag=True, help="As one JSON object, with every number.")
@pass_settings
def suggestions(settings: Settings, /, name: str, limit: int, *, as_json: bool) -> None:
    """Show whom the member NAME is suggested to follow, the likeliest first. Works beside a running server."""
    shown = perform(existing(settings), ShowSuggestions(name, limit))
    if as_json:
        click.echo(msgspec.json.encode(shown))
        return
    console = Console(highlight=False)
    if not shown.lines:
        console.print("nobody")
    for place, line in enumerate(shown.lines, 1):
        console.print(Text.assemble(f"{place:3}  ", (f"@{line.name}", "bold cyan"), (f"  {line.score:.2f}", "dim")))
        for reason in line.reasons:
            console.print(
                Text.assemble("     ", (f"{reason.contribution:+.2f}", "green"), f"  {reason.name}: {reason.words}")
            )
