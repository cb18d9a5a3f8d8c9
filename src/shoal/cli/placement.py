"""`shoal placement`: show where a name is placed, and how evenly this and other schemes distribute names."""

from __future__ import annotations

import click

from shoal.cli.group import plugin
from shoal.core.placement import media_path, place
from shoal.core.placement_conformance import conformance_lines
from shoal.core.text import check_user_name


class NameFirst(click.Group):
    """A group that treats an unknown command as a name: `shoal placement ann` is `shoal placement show ann`.

    The module of the command `study` is imported only when the command is run.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        return [*self.commands, "study"]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name != "study":
            return super().get_command(ctx, cmd_name)
        return plugin("placement study")

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  # the same
        """Write the list of commands to the help text. The module of the command `study` is not imported for this."""
        here = [(name, command.get_short_help_str(60)) for name, command in self.commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl([*here, ("study", "Study how evenly names are spread over machines.")])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert `show` if no command is given."""
        if args and args[0] not in self.list_commands(ctx) and args[0] not in ctx.help_option_names:
            args = ["show", *args]
        return super().parse_args(ctx, args)


@click.group(cls=NameFirst)
def placement() -> None:
    """Show the placement of a name, and study the distribution of names.

    Without a command, runs `show`.
    """


@placement.command()
@click.argument("name")
def show(name: str) -> None:
    """Show the placement of the member NAME: data source, shard, and path of pictures.

    The member need not exist: the placement follows from the MD5 digest of the name.
    """
    checked = check_user_name(name, reserved=True)
    a, b, c = place(checked)
    click.echo(f"name    {checked}")
    click.echo(f"a/b/c   {a}/{b}/{c}")
    click.echo(f"shard   {place(checked).shard}")
    click.echo(f"media   {media_path(checked)}")


@placement.command()
def conformance() -> None:
    """Print names with their placements, as test data for other implementations.

    CSV without quotation marks: name, the parts a, b and c of the placement, shard, path of pictures.
    """
    for line in conformance_lines():
        click.echo(line)
