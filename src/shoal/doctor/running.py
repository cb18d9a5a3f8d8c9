"""The server that runs: whether it answers its operator, its clients and Prometheus, and the work that was set aside."""

from __future__ import annotations

import asyncio
import ipaddress
import stat
from collections.abc import Iterable
from typing import NamedTuple

from shoal.core.errors import ShoalError, Unavailable, in_words
from shoal.doctor.answers import Answer, Destination, ask
from shoal.doctor.findings import SECONDS, Diagnosis, bad, ok, warn
from shoal.ops import jobs
from shoal.ops.socket_files import at
from shoal.push.server_key import read_key
from shoal.settings import Settings
from shoal.wiring import control_path
from shoal.wiring.outboxes import open_outboxes
from shoal.wiring.places import push_key_path, store_files
from shoal.wiring.small_parts import refusal_limit
from shoal.wiring.vitals import engine_probes

_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  # hosts of settings, to be asked at the loopback


class RunningServer(NamedTuple):
    """Where the server listens, and what `GET /ready` answered there; None where nobody answers."""

    place: Destination
    ready: Answer | None


def local(settings: Settings) -> Destination:
    """Return where the settings say that a server listens."""
    return Destination(_EVERYWHERE.get(settings.host, settings.host), settings.port)


async def find(settings: Settings) -> RunningServer:
    """Ask the server at the address of the settings whether it is ready."""
    place = local(settings)
    try:
        async with asyncio.timeout(SECONDS):
            return RunningServer(place, await ask(place, "/ready"))
    except (OSError, ValueError, TimeoutError):
        return RunningServer(place, None)


async def server(settings: Settings, found: RunningServer) -> Iterable[Diagnosis]:
    """Whether a server runs, here and ready."""
    where = f"{found.place.host}:{found.place.port}"
    door = await _door(settings)
    if found.ready is None:
        if door:
            said = f"a server has the store, but nobody answers at {where}"
            return [bad("server", said, "look at its log; if it was started with --port, put that into the settings")]
        return [warn("server", f"nobody answers at {where}", "start it: `shoal serve`, or its unit")]
    if door is False:
        said = f"who answers at {where} does not have this store open"
        return [bad("server", said, "look at store and port: is it another server, or another user's?")]
    if found.ready.status != 200:
        told = found.ready.body.decode(errors="replace").strip()[:200]
        return [bad("server", f"it is not ready: {told}", "look at the engines, and at its log")]
    return [ok("server", f"it answers at {where}, and is ready")]


async def _door(settings: Settings) -> bool | None:
    """Whether somebody listens to operators beside the store; None for a store without files."""
    path = control_path(settings)
    if path is None:
        return None
    try:
        async with asyncio.timeout(SECONDS):
            with at(path) as address:
                _, writer = await asyncio.open_unix_connection(address)
            writer.close()
    except (OSError, TimeoutError):
        return False
    return True


async def work(settings: Settings) -> Iterable[Diagnosis]:
    """Look at the jobs that were set aside."""
    if any(not path.exists() for path in store_files(settings)):
        return []
    try:
        async with asyncio.timeout(SECONDS):
            if await _broker_is_empty(settings):
                return [ok("jobs", "the broker has no queues yet: the first server or worker makes them")]
        async with asyncio.timeout(SECONDS), open_outboxes(settings, read_only=True) as outboxes:
            standing = await jobs.survey(outboxes, refusal_limit(settings))
    except (ShoalError, OSError, TimeoutError):
        return []
    found = []
    if standing.buried:
        said = f"{len(standing.buried):,} jobs were set aside, the first with: {standing.buried[0].error}"
        found.append(warn("jobs", said, "mend the cause, then `shoal jobs replay --all`"))
    silent = standing.silent_workers or 0
    if standing.workers is not None and standing.workers <= silent:
        found.append(bad("workers", "no worker answers: posts do not reach followers", "start `shoal worker`"))
    elif silent:
        said = f"{silent} of {standing.workers} do not answer"
        found.append(warn("workers", said, "look at their logs: they are busy, stopped or stuck"))
    return found or [ok("jobs", f"none was set aside, {standing.waiting:,} wait")]


async def _broker_is_empty(settings: Settings) -> bool:
    """Whether there is a broker without our queues, which whoever opens the outboxes would make."""
    for probe in engine_probes(settings):
        if probe.engine == "RabbitMQ":
            try:
                return not any(told.vitals for told in await probe.ask())
            except Exception as error:
                raise Unavailable("the broker does not answer") from error
    return False


async def metrics(settings: Settings, found: RunningServer) -> Iterable[Diagnosis]:
    """Ask for the metrics as Prometheus does."""
    if not settings.metrics_port:
        return [warn("metrics", "metrics_port is not set, so nobody is alerted", "set it (docs/metrics.md)")]
    place = Destination(_EVERYWHERE.get(settings.metrics_host, settings.metrics_host), settings.metrics_port)
    where = f"{settings.metrics_host}:{settings.metrics_port}"
    try:
        async with asyncio.timeout(SECONDS):
            told = await ask(place, "/metrics")
    except (OSError, ValueError, TimeoutError) as error:
        if found.ready is None:
            return []
        return [bad("metrics", f"{where}: {in_words(error) or 'no answer'}", "look at the log of the server")]
    if told.status != 200 or b"shoal_" not in told.body:
        return [bad("metrics", f"{where} is taken by something else", "set metrics_port to a free port")]
    if _is_public(settings.metrics_host):
        said = f"{where} can be reached by everybody"
        return [warn("metrics", said, "set metrics_host to an address of your own network")]
    return [ok("metrics", f"they are told at {where}")]


def _is_public(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_global or address.is_unspecified


def push_key(settings: Settings) -> Diagnosis:
    """Look at the key for web push, which is never made here."""
    if settings.push_key:
        try:
            read_key(settings.push_key)
        except ShoalError as error:
            return bad("push_key", str(error).removeprefix("push_key: "), "set what `shoal push key` prints")
        return ok("push_key", "set")
    path = push_key_path(settings)
    if path is None:
        advice = "set push_key to what `shoal push key` prints, in all processes"
        return warn("push_key", "not set, so there is no web push with this store", advice)
    if not path.exists():
        return ok("push_key", "the first server makes one beside the store")
    try:
        read_key(path.read_text())
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as error:
        return bad("push_key", in_words(error), "run this as the user of the server")
    except (ShoalError, ValueError):
        return bad("push_key", f"{path} holds no key", "bring it back from a backup; a new one ends all subscriptions")
    if mode & 0o077:
        return bad("push_key", f"others can read {path}", f"chmod 600 {path}")
    return ok("push_key", f"beside the store, {path.name}")
