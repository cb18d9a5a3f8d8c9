"""`shoal cluster`: run a small cluster on this machine, to try out."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from shoal_devcluster import cluster as clusters
from shoal_devcluster.cluster import end, held

_LOOK_SECONDS = 0.5

_folder = click.option(
    "--folder",
    type=click.Path(path_type=Path),
    default=Path("cluster"),
    show_default=True,
    help="Folder of the cluster.",
)


@click.group()
def cluster() -> None:
    """Run a small cluster on this machine."""


@cluster.command()
@_folder
@click.option("--web", type=click.IntRange(1, 16), default=2, show_default=True, help="Number of web processes.")
@click.option("--workers", type=click.IntRange(1, 16), default=2, show_default=True, help="Number of workers.")
def up(folder: Path, web: int, workers: int) -> None:
    """Start two PostgreSQL servers, a Redis Cluster, RabbitMQ, web processes and workers, and keep them running.

    Ctrl-C stops all of them. The folder keeps the data for the next run.
    """
    with held(folder) as locked_folder, _stop_event() as over:
        running = clusters.start(locked_folder, web=web, workers=workers)
        try:
            _tell(folder, running)
            while not over.wait(_LOOK_SECONDS):
                for name in running.tend():
                    click.echo(f"{name} exited and was restarted", err=True)
        finally:
            click.echo("stopping", err=True)
            running.stop()


@cluster.command()
@_folder
def down(folder: Path) -> None:
    """Stop the cluster in a folder, even if the process that started it was killed."""
    click.echo(f"stopped the cluster in {folder}" if end(folder) else f"no cluster is running in {folder}")


@contextmanager
def _stop_event() -> Iterator[threading.Event]:
    """Yield an event that SIGTERM, Ctrl-C or SIGHUP sets. A cluster that is still starting is stopped after its start."""
    over = threading.Event()

    def tell(_number: int, _frame: object) -> None:
        over.set()

    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = {number: signal.signal(number, tell) for number in numbers}
    try:
        yield over
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _tell(folder: Path, running: clusters.Cluster) -> None:
    settings = f"shoal --config {folder / clusters.SETTINGS_FILE}"
    stores = running.settings.store
    rows = [("web", program.url) for program in running.web]
    rows += [(f"sources {share}", url) for share, url in stores.items()] if isinstance(stores, dict) else []
    rows += [("timelines", running.settings.timelines), ("broker", running.settings.broker)]
    rows += [("workers", str(len(running.workers))), ("pictures", running.settings.media)]
    rows += [("settings", str(folder / clusters.SETTINGS_FILE)), ("logs", str(folder / "*" / "*.log"))]
    click.echo(f"A cluster is running in {folder}\n")
    for name, value in rows:
        click.echo(f"  {name:14} {value}")
    click.echo(f"""
  create member  echo "a long password" | {settings} member add ann --password-stdin
  log in         as ann, with a Mastodon client that asks for name and password, at {running.web[0].url}
  check it       {settings} check
                 {settings} jobs

  Press Ctrl-C to stop.""")
