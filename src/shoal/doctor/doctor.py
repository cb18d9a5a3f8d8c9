"""All checks, side by side."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping

from shoal.core.errors import in_words
from shoal.doctor import given, machine
from shoal.doctor.engines import engines, schema
from shoal.doctor.findings import SECONDS, Diagnosis, bad
from shoal.doctor.front import front
from shoal.doctor.post import mail
from shoal.doctor.running import find, metrics, push_key, server, work
from shoal.settings import Settings

_RESOLVER = ("RES_OPTIONS", f"timeout:1 attempts:{int(SECONDS)}")
"""The C library otherwise waits ten seconds for name servers that do not answer, and no thread of it can be called back."""


async def examine(environ: Mapping[str, str], overrides: Mapping[str, str]) -> list[Diagnosis]:
    """Return the findings of all checks, in the order of the checks. Nothing is changed."""
    os.environ.setdefault(*_RESOLVER)
    found, settings = given.read(environ, overrides)
    if settings is None:
        return [*found, machine.clock(), machine.sqlite(), await machine.programs()]
    running = await find(settings)
    parts = await asyncio.gather(
        _told("server", server(settings, running)),
        _told("engine", engines(settings)),
        _told("store", schema(settings)),
        _told("jobs", work(settings)),
        _told("proxy", front(settings, running)),
        _told("mail", _one(mail(settings))),
        _told("metrics", metrics(settings, running)),
        _told("disk", _beside(machine.disks, settings)),
        _told("ffmpeg", _one(machine.programs())),
    )
    found += [finding for part in parts for finding in part]
    for check, look in (
        ("push_key", push_key),
        ("memory", machine.memory),
        ("files", machine.files),
        ("clock", lambda _settings: machine.clock()),
        ("sqlite", lambda _settings: machine.sqlite()),
    ):
        found += await _told(check, _one(_now(look, settings)))
    return found


async def _told(check: str, look: Awaitable[Iterable[Diagnosis]]) -> list[Diagnosis]:
    """A check that fails itself is a finding too: the others are told all the same."""
    try:
        return list(await look)
    except PermissionError as error:
        return [bad(check, in_words(error), "run this as the user of the server")]
    except Exception as error:  # noqa: BLE001  # whatever it is, the operator is to see it
        return [bad(check, f"this check failed: {error!r}", "tell the developers of Shoal")]


async def _one(look: Awaitable[Diagnosis]) -> Iterable[Diagnosis]:
    return [await look]


async def _now(look: Callable[[Settings], Diagnosis], settings: Settings) -> Diagnosis:
    return look(settings)


async def _beside(look: Callable[[Settings], Iterable[Diagnosis]], settings: Settings) -> Iterable[Diagnosis]:
    return look(settings)
