"""`shoal placement`: where a name lives."""

from __future__ import annotations

import click

from shoal.core.placement import media_path, place
from shoal.core.text import check_user_name


@click.command()
@click.argument("name")
def placement(name: str) -> None:
    """Show where the member NAME lives, or would: data source, shard, and path of pictures.

    The name need not be taken: the placement follows from its MD5 digest alone.
    """
    checked = check_user_name(name, reserved=True)
    a, b, c = place(checked)
    click.echo(f"name    {checked}")
    click.echo(f"a/b/c   {a}/{b}/{c}")
    click.echo(f"shard   {place(checked).shard}")
    click.echo(f"media   {media_path(checked)}")
