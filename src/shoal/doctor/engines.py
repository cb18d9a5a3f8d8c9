"""Engines and stores: whether they answer, are new enough, and have the schema of this version."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterable
from contextlib import AsyncExitStack

from shoal.core.errors import ShoalError, with_cause
from shoal.core.ids import milliseconds_of
from shoal.doctor.findings import SECONDS, Diagnosis, bad, ok, warn
from shoal.graph.schema import backup_key
from shoal.graph.sharding.shard_map import shown_url
from shoal.ops.vitals.contract import EngineProbe, EngineVitals
from shoal.settings import Settings
from shoal.wiring.places import store_files, store_urls
from shoal.wiring.stores import open_mapped
from shoal.wiring.vitals import engine_probes

_SUPPORTED = {
    "PostgreSQL": ((13, 0), (15, 0)),
    "Redis": ((6, 2), (7, 0)),
    "Valkey": ((7, 2), (7, 2)),
    "RabbitMQ": ((3, 10), (3, 10)),
}
"""For each engine the oldest version that has what the statements need, and the oldest that tests run on."""
_SETTING = {"PostgreSQL": "store, tags or search", "DynamoDB": "store", "Redis": "timelines", "RabbitMQ": "broker"}
_ELSEWHERE = frozenset({"jobs_set_aside", "workers"})
"""Figures that the check of jobs looks at."""
_OLD_HOURS = 36
"""As the alert `ShoalBackupOld` has it."""
_REFUSED = re.compile(r"password|authenticat|ACCESS_REFUSED|NOAUTH|WRONGPASS|login was refused", re.IGNORECASE)


async def engines(settings: Settings) -> list[Diagnosis]:
    """Ask each engine that the settings name."""
    probes = [probe for probe in engine_probes(settings) if probe.engine != "SQLite"]
    answers = await asyncio.gather(*map(_asked, probes))
    return [finding for answer in answers for finding in answer]


async def _asked(probe: EngineProbe) -> list[Diagnosis]:
    try:
        async with asyncio.timeout(SECONDS):
            return [judged(told) for told in await probe.ask()]
    except TimeoutError:
        return [_unreached(probe, f"no answer within {SECONDS:g} s")]
    except Exception as error:  # noqa: BLE001  # whatever it is, the engine cannot be used
        return [_unreached(probe, _reason(error))]


def _unreached(probe: EngineProbe, why: str) -> Diagnosis:
    setting = _SETTING.get(probe.engine, "the settings")
    advice = f"start it, or look at the host and port in {setting}"
    if _REFUSED.search(why):
        advice = f"look at the user and password in {setting}"
    return bad("engine", f"{probe.engine} at {probe.place}: {why}", advice)


def _reason(error: BaseException) -> str:
    words = with_cause(error) if isinstance(error, Exception) else str(error)
    return " ".join(words.split()) or type(error).__name__


def judged(told: EngineVitals) -> Diagnosis:
    """Judge the version and the figures of an engine."""
    where = f"{told.engine} {told.version}".strip() + f" at {told.place}"
    if not told.reached:
        return bad("engine", f"{where} does not answer", "start it, or take it out of its cluster")
    least, tried = _SUPPORTED.get(told.engine, ((0, 0), (0, 0)))
    numbers = re.match(r"(\d+)(?:\.(\d+))?", told.version)
    version = (int(numbers[1]), int(numbers[2] or 0)) if numbers else tried
    wanted = f"use {told.engine} {'.'.join(map(str, tried))} or newer"
    if version < least:
        return bad("engine", f"{where} is too old", wanted)
    wrong = ", ".join(
        vital.name.replace("_", " ") for vital in told.vitals if vital.wrong and vital.name not in _ELSEWHERE
    )
    if wrong:
        return warn("engine", f"{where} answers; these figures want attention: {wrong}", "see /ops in the web app")
    if version < tried:
        return warn("engine", f"{where} is older than the tests run on", wanted)
    return ok("engine", where)


async def schema(settings: Settings) -> Iterable[Diagnosis]:
    """Open the stores to read: whether their schema is that of this version. What does not exist is not made."""
    urls = store_urls(settings)
    shown = ", ".join(map(shown_url, urls))
    if any(url.startswith("dynamodb:") for url in urls):
        return []
    if missing := [path for path in store_files(settings) if not path.exists()]:
        return [warn("store", f"{missing[0]} is not there yet", "the first `shoal serve` makes it; else look at store")]
    try:
        async with asyncio.timeout(SECONDS), AsyncExitStack() as stack:
            mapped = await open_mapped(settings, stack)
            newest = (await mapped.store.key_get((backup_key(),))).get(backup_key())
    except TimeoutError:
        return [bad("store", f"{shown}: no answer within {SECONDS:g} s", "look at the engine")]
    except (ShoalError, OSError) as error:
        advice = "start a server of this version, which changes the tables, or the version of Shoal that made it"
        return [bad("store", _reason(error), advice)]
    return [ok("store", f"{shown}: the schema is up to date"), _backup(newest)]


def _backup(newest: int | None) -> Diagnosis:
    """Judge the age of the newest backup, whose moment is in the id that `shoal backup` leaves in the store."""
    if not newest:
        return warn("backup", "`shoal backup` has made none yet", "have one made every night (docs/howto/backup.md)")
    hours = (time.time() - milliseconds_of(newest) / 1_000) / 3_600
    said = f"the newest is {hours:,.1f} hours old"
    if hours > _OLD_HOURS:
        return bad("backup", said, "look at the log of the nightly backup: journalctl -u shoal-backup")
    return ok("backup", said)
