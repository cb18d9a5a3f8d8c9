"""`shoal serve` and `shoal worker`: server and worker processes.

The listen address and the metrics ports are checked before anything is created.
"""

from __future__ import annotations

import errno
import os
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial

import click
import uvloop
from msgspec import structs

from shoal.admin import unfinished
from shoal.admin.archives.storage import ArchiveStorage
from shoal.admin.archives.worker import ArchiveWorker
from shoal.admin.control import listening
from shoal.admin.unfinished import check_restored
from shoal.app import process
from shoal.app.network import Network, ProcessRole, open_network
from shoal.app.paths import archives_folder, base_url, control_path
from shoal.app.readers import StoreReader
from shoal.app.shared import HostProcess, open_host_process
from shoal.cli.group import pass_settings
from shoal.cli.stores import shared, shares_host
from shoal.core.errors import Unavailable
from shoal.mastodon_api.context import PhotoCredit
from shoal.monitoring.metrics_server import telling
from shoal.multiprocess import service_manager
from shoal.multiprocess.shared_memory import SharedMemory
from shoal.multiprocess.supervisor import Supervisor, beating, is_child, process_slot, wait_for_signal
from shoal.server import AppParts, listen
from shoal.server import serve as serve_http
from shoal.settings import Settings

_OPTIONS = {
    errno.EADDRINUSE: "port {port} is already in use: choose another with {taken}",
    errno.EACCES: "no permission to listen on port {port}: choose another with {option}",
    errno.EADDRNOTAVAIL: "{host} is not an address of this machine: choose another host",
}


def check_address(
    host: str, port: int, option: str = "--port", taken: str = "--port or as in `make demo PORT=8600`"
) -> None:
    """Raise `Unavailable` if a server cannot listen on the address. The message has one line and says how to solve the problem.

    `option` is the command-line option for the port. `taken` says how to choose another port if the port is in use.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
    except (socket.gaierror, UnicodeError):
        raise Unavailable(f"unknown host {host!r}: choose another") from None
    except OSError as error:
        words = _OPTIONS.get(error.errno or 0, "cannot listen on {host}:{port}: {why}")
        raise Unavailable(words.format(host=host, port=port, why=error.strerror, option=option, taken=taken)) from None


def check_metrics(settings: Settings, processes: int) -> None:
    """Raise `Unavailable` if the metrics port of a process cannot be opened. Process n uses `metrics_port` + n."""
    first = settings.metrics_port
    if not first:
        return
    if first + processes > 65_536:
        raise Unavailable(
            f"metrics_port: {processes} processes need ports from {first} to {first + processes - 1}, above 65535: set a lower port"
        )
    for port in range(first, first + processes):
        check_address(settings.metrics_host, port, "the setting metrics_port", "the setting metrics_port")


@click.command()
@click.option("--host", help="Address to listen on.  [default: 127.0.0.1]")
@click.option(
    "--port", type=click.IntRange(0, 65_535), help="Port to listen on; 0 selects a free port.  [default: 8500]"
)
@click.option(
    "--base-url", metavar="URL", help="Public URL of the server, if it differs from the address to listen on."
)
@click.option(
    "--workers",
    type=click.IntRange(1, 256),
    default=1,
    show_default=True,
    help="Number of processes.",
)
@click.option("--listener", type=int, hidden=True, help="Descriptor of the inherited socket to listen on.")
@click.option("--memory", type=int, hidden=True, help="Descriptor of the inherited memory that processes share.")
@pass_settings
def serve(
    settings: Settings,
    host: str | None,
    port: int | None,
    base_url: str | None,
    workers: int,
    listener: int | None,
    memory: int | None,
) -> None:
    """Serve the network over HTTP until Ctrl-C."""
    given = {
        name: value for name, value in (("host", host), ("port", port), ("base_url", base_url)) if value is not None
    }
    chosen = structs.replace(settings, **given)
    if listener is not None:
        uvloop.run(_serve_with_owner(chosen, socket.socket(fileno=listener), memory))
        return
    check_address(chosen.host, chosen.port)
    check_metrics(chosen, workers)
    if workers == 1:
        uvloop.run(run(chosen, _ready))
    else:
        _serve_together(chosen, workers)


def _serve_together(settings: Settings, workers: int) -> None:
    """Run several processes that accept connections from one socket. A process that dies is restarted.

    On an SQLite file they have shared memory: the first process owns the file, and the others read it.
    """
    shared_host = shares_host(settings)
    if not shared_host:
        shared(settings, "several processes")
    with listen(settings.host, settings.port) as listener:
        chosen = structs.replace(settings, port=listener.getsockname()[1])
        command = [sys.executable, "-m", "shoal.cli", *sys.argv[1:]]
        command += ["--port", str(chosen.port), "--listener", str(listener.fileno())]
        inherited = [listener.fileno()]
        if shared_host:
            memory = SharedMemory.create(workers, settings.timeline_members, settings.timeline_length)
            inherited.append(memory.number)
            command += ["--memory", str(memory.number)]
        for number in inherited:
            os.set_inheritable(number, True)
        _say_where(base_url(chosen))
        Supervisor(command, workers, pass_fds=inherited).run()


async def _serve_with_owner(settings: Settings, listener: socket.socket, memory: int | None) -> None:
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(beating())
        host_process = None
        if memory is not None:
            host_process = open_host_process(settings, SharedMemory.attach(memory), process_slot())
        if host_process is None or host_process.reader is None:
            await run(settings, lambda _url: None, listener, host_process=host_process)
        else:
            await _read(settings, listener, host_process, host_process.reader)


async def _read(settings: Settings, listener: socket.socket, host_process: HostProcess, reader: StoreReader) -> None:
    """Run a reader process, which serves read requests while the owner process makes all changes."""
    process.prepare()
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(process.giving_back())
        await stack.enter_async_context(reader.opened())
        network = await stack.enter_async_context(open_network(settings, read_only=True, host_process=host_process))
        process.settle()
        app_parts = replace(_app_parts(network), tell_use=reader.used)
        await serve_http(
            app_parts,
            listener=listener,
            ready=lambda _url: None,
            companion=partial(telling, network),
            process_group=reader,
        )


def _ready(url: str) -> None:
    _say_where(url)
    service_manager.ready()


def _say_where(url: str) -> None:
    click.echo(f"Shoal is running at {url}")
    sys.stdout.flush()


async def run(
    settings: Settings,
    ready: Callable[[str], None],
    listener: socket.socket | None = None,
    *,
    demo_member: int = 0,
    photo_credits: Sequence[PhotoCredit] = (),
    host_process: HostProcess | None = None,
) -> None:
    """Open the network and serve it until a signal stops the server. `listener`, if given, is the listening socket.

    Any visitor can log in as the `demo_member`. The about page lists the `photo_credits`. The owner process has a
    `host_process` if several processes serve its store.
    """
    process.prepare()
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(service_manager.watched())
        await stack.enter_async_context(process.giving_back())
        network = await stack.enter_async_context(open_network(settings, host_process=host_process))
        await unfinished.check_none(network.store)
        await check_restored(network.store)
        if (path := control_path(settings)) is not None:
            await stack.enter_async_context(listening(network, path))
        archive_worker = ArchiveWorker(network, ArchiveStorage(archives_folder(settings), settings.max_archive_bytes))
        archive_worker.start()
        stack.push_async_callback(archive_worker.stop)
        process.settle()
        app_parts = replace(
            _app_parts(network),
            demo_member=demo_member,
            photo_credits=photo_credits,
            archives=archive_worker.archive_storage,
        )
        taking = listener or listen(settings.host, settings.port)
        await serve_http(
            app_parts,
            listener=taking,
            ready=ready,
            companion=partial(telling, network),
            process_group=host_process.owner if host_process else None,
        )


def _app_parts(network: Network) -> AppParts:
    parts = (network.settings, network.store, network.writes, network.reads, network.media, network.hub)
    return AppParts(
        *parts,
        network.limiter,
        probes=network.probes,
        engines=network.engines,
        server_key=network.server_key,
        recorder=network.recorder,
    )


@click.command()
@click.option("--processes", type=click.IntRange(1, 256), default=1, show_default=True, help="Number of processes.")
@click.option(
    "--limit",
    type=click.FloatRange(1.0),
    default=30.0,
    show_default=True,
    help="Seconds after which a hanging process is killed and restarted.",
)
@pass_settings
def worker(settings: Settings, processes: int, limit: float) -> None:
    """Process events: deliver posts to followers, send notifications, and so on.

    Requires a store that several processes share; on SQLite, `shoal serve` processes events itself. Events come from the broker of
    the settings, or from the store. Ctrl-C stops the worker after its running jobs.
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
            await wait_for_signal()
