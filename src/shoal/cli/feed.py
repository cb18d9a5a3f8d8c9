"""`shoal feed` and `shoal suggestions`: print the feed or the follow suggestions of a member, with the reasons."""

from __future__ import annotations

import click
import msgspec
from rich.console import Console
from rich.text import Text

from shoal.admin.feeds import FeedLine
from shoal.admin.operations import ShowFeed, ShowSuggestions
from shoal.cli.group import pass_settings
from shoal.cli.stores import perform
from shoal.settings import Settings

_NOTES = {
    "off": "ranking is off for this member: showing the home timeline in chronological order",
    "late": "ranking timed out: showing the home timeline in chronological order",
    "failed": "ranking failed: showing the home timeline in chronological order",
}


@click.command()
@click.argument("name")
@click.option("--for-you", is_flag=True, help="Show the ranked feed instead of the home timeline.")
@click.option(
    "--catch-up",
    is_flag=True,
    help="Show the best posts since the member's last visit, first those of friends who rarely post.",
)
@click.option("--explain", is_flag=True, help="Show the terms that add up to each post's score.")
@click.option("--limit", type=click.IntRange(1, 40), default=10, show_default=True, help="Maximum number of posts.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object with all values.")
@pass_settings
def feed(
    settings: Settings, /, name: str, limit: int, *, for_you: bool, catch_up: bool, explain: bool, as_json: bool
) -> None:
    """Show the feed of the member NAME as they see it. Works while a server is running."""
    if for_you and catch_up:
        raise click.UsageError("--for-you and --catch-up are mutually exclusive")
    if explain and not (for_you or catch_up):
        raise click.UsageError("--explain requires --for-you or --catch-up: a home timeline is chronological")
    shown = perform(settings, ShowFeed(name, limit, for_you=for_you, explain=explain, catch_up=catch_up))
    if as_json:
        click.echo(msgspec.json.encode(shown))
        return
    console = Console(highlight=False)
    if shown.by_time:
        console.print(_NOTES[shown.by_time], style="yellow")
    if not shown.lines and not shown.words:
        console.print("nothing yet")
    for position, line in enumerate(shown.lines, 1):
        if position - 1 in {0, shown.quiet} and shown.quiet:
            console.print("From friends who post rarely" if position == 1 else "The best of the others", style="bold")
        print_line(console, position, line)
    if shown.words:
        console.print(shown.words, style="green")


def print_line(console: Console, position: int, line: FeedLine) -> None:
    first = " ".join(line.text.split()) or "(no words)"
    head = Text.assemble(f"{position:3}  ", (f"@{line.author}", "bold cyan"), "  ", first)
    head.truncate(console.width, overflow="ellipsis")
    console.print(head)
    if line.score is None:
        return
    rule = f" ({line.lost_to} rule)" if line.lost_to else ""
    lost = f", {line.places_lost} places lower{rule}" if line.places_lost > 0 else ""
    console.print(Text(f"     {line.score:.2f} from {', '.join(line.sources).replace('_', ' ')}{lost}", "dim"))
    for reason in line.reasons:
        style = "green" if reason.contribution > 0 else "red"
        words = f": {reason.words}" if reason.words else ""
        console.print(Text.assemble("     ", (f"{reason.contribution:+.2f}", style), f"  {reason.name}{words}"))


@click.command()
@click.argument("name")
@click.option("--limit", type=click.IntRange(1, 80), default=10, show_default=True, help="Maximum number of members.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object with all values.")
@pass_settings
def suggestions(settings: Settings, /, name: str, limit: int, *, as_json: bool) -> None:
    """Show the follow suggestions of the member NAME, best first. Works while a server is running."""
    shown = perform(settings, ShowSuggestions(name, limit))
    if as_json:
        click.echo(msgspec.json.encode(shown))
        return
    console = Console(highlight=False)
    if not shown.lines:
        console.print("no suggestions")
    for position, line in enumerate(shown.lines, 1):
        console.print(Text.assemble(f"{position:3}  ", (f"@{line.name}", "bold cyan"), (f"  {line.score:.2f}", "dim")))
        for reason in line.reasons:
            console.print(
                Text.assemble("     ", (f"{reason.contribution:+.2f}", "green"), f"  {reason.name}: {reason.words}")
            )
