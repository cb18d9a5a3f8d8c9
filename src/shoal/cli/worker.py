"""`shoal worker`: processes that work off events, beside the servers or on other machines."""

from __future__ import annotations

import sys

import click
import uvloop

from shoal.cli.address import check_metrics
from shoal.cli.group import pass_settings
from shoal.cli.stores import shared
from shoal.multiprocess.supervisor import Supervisor, beating, is_child, until_told
from shoal.observability.metrics_server import telling
from shoal.settings import Settings
from shoal.wiring import ProcessRole, open_network, process


@click.command()
@click.option("--processes", type=click.IntRange(1, 256), default=1, show_default=True, help="How many work.")
@click.option(
    "--limit",
    type=click.FloatRange(1.0),
    default=30.0,
    show_default=True,
    help="Seconds after which a process that hangs is killed and started again.",
)
@pass_settings
def worker(settings: Settings, processes: int, limit: float) -> None:
    """Work off events: push posts to followers, and whatever else follows from what members do.

    It needs a store that several processes share: on SQLite `shoal serve` does all of it. The events come from the broker of
    the settings, or from the store itself. Ctrl-C ends it: what is in hand is finished.
    """
    shared(settings, "workers")
    if is_child():
        uvloop.run(_work(settings))
        return
    check_metrics(settings, processes)
    Supervisor([sys.executable, "-m", "shoal.cli", *sys.argv[1:]], processes, limit=limit).run()


async def _work(settings: Settings) -> None:
    process.prepare()
    async with beating(), process.giving_back(), open_network(settings, role=ProcessRole.WORKER) as network:
        process.settle()
        async with telling(network):
            await until_told()
