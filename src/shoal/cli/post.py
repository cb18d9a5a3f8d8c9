"""`shoal post`: take posts out of sight, and show them again."""

from __future__ import annotations

import click

from shoal.admin.operations import SetHidden
from shoal.cli.group import pass_settings
from shoal.cli.stores import existing, perform
from shoal.settings import Settings


class PostId(click.ParamType[int]):
    """The number of a post."""

    name = "post"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Click's own."""
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
