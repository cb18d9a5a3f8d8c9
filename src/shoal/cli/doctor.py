"""`shoal doctor`: everything that a server needs, looked at."""

from __future__ import annotations

import asyncio
import logging

import click
import msgspec

from shoal.cli.group import GivenSettings
from shoal.observability.doctor import examine
from shoal.observability.preflight import Diagnosis

_STATUS = {"ok": 0, "warn": 1, "bad": 2}
_COLOURS = {"ok": "green", "warn": "yellow", "bad": "red"}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="As one JSON array, for programs.")
@click.pass_context
def doctor(ctx: click.Context, as_json: bool) -> None:
    """Look at settings, engines, disks, limits, proxy, TLS, mail and the running server: a line each, with what to do.

    Nothing is changed, and no check waits longer than some seconds. Run it as the user of the server. Exit status 0: all is
    well; 1: there are warnings; 2: something is bad.
    """
    given: GivenSettings = ctx.obj
    # Engines that cannot be reached are findings, and need not be logged as well.
    logging.basicConfig(level=logging.CRITICAL)
    found = asyncio.run(examine(given.environ, given.overrides))
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(found)))
    else:
        _tell(found)
    ctx.exit(max(_STATUS[one.grade] for one in found))


def _tell(found: list[Diagnosis]) -> None:
    width = max(len(one.check) for one in found)
    for one in found:
        grade = click.style(f"{one.grade:4}", fg=_COLOURS[one.grade])
        advice = f": {one.advice}" if one.advice else ""
        click.echo(f"{grade}  {one.check:{width}}  {one.said}{advice}")
