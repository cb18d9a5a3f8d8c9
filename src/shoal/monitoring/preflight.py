"""Checks of what a server needs: settings, host (disks, memory, limits, clock, programs), engines and mail server.

Each check returns findings: one line each, good or bad, with the fix. No check changes anything, and no wait for
another host is longer than `SECONDS`.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import difflib
import os
import re
import resource
import sqlite3
import stat
import subprocess
import tempfile
import time
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec

from shoal import gazetteer
from shoal.app.engines import engine_probes
from shoal.app.mail_and_push import mailer_of, sender_of
from shoal.app.paths import base_url, check_base_url, media_url, store_files, store_urls
from shoal.app.shared import check_timelines
from shoal.app.stores import map_of, open_mapped
from shoal.core.errors import InvalidInput, ShoalError, Unavailable, with_cause
from shoal.core.ids import milliseconds_of
from shoal.graph.schema import backup_key
from shoal.graph.shard_map import shown_url
from shoal.health.probes import EngineHealth, EngineProbe
from shoal.issuers import Issuers
from shoal.mail.mailers import SmtpMailer
from shoal.media.clips import Programs
from shoal.multiprocess.supervisor import VARIABLE
from shoal.oidc import Providers
from shoal.settings import (
    RENAMED,
    SECRET,
    Settings,
    SettingsError,
    build,
    config_path,
    secret_files,
    secret_text,
    with_new_names,
)

SECONDS = 3.0

Grade = Literal["ok", "warn", "bad"]
"""`bad`: something does not work, or secrets are exposed. `warn`: it works, but not well, or may soon fail."""


class Diagnosis(msgspec.Struct, frozen=True):
    check: str
    grade: Grade
    message: str
    """The finding in one line. It contains no password."""
    advice: str = ""
    """What the operator should do; empty if nothing."""


def ok(check: str, message: str) -> Diagnosis:
    return Diagnosis(check, "ok", message)


def warn(check: str, message: str, advice: str) -> Diagnosis:
    return Diagnosis(check, "warn", message, advice)


def bad(check: str, message: str, advice: str) -> Diagnosis:
    return Diagnosis(check, "bad", message, advice)


_PREFIX = "SHOAL_"
_NO_SETTINGS = {"SHOAL_CONFIG", VARIABLE}
_NEAR = frozenset({"localhost", "127.0.0.1", "::1"})


class ReadSettings(NamedTuple):
    """The settings, None if they cannot be read, and the problems found in them."""

    findings: list[Diagnosis]
    settings: Settings | None


def read(environ: Mapping[str, str], overrides: Mapping[str, str]) -> ReadSettings:
    """Read the settings as a server does. An unknown setting is reported and ignored, so that the rest can be checked."""
    findings: list[Diagnosis] = []
    path = config_path(environ)
    in_file = _of_file(path, bool(environ.get("SHOAL_CONFIG")), findings)
    accepted = {*Settings.__struct_fields__, *RENAMED}
    known = {name: value for name, value in in_file.items() if name in accepted}
    findings += [
        bad("settings", f"unknown setting {name}: servers do not start", _meant(name))
        for name in in_file
        if name not in known
    ]
    variables: dict[str, str] = {}
    for variable, text in environ.items():
        name = variable.removeprefix(_PREFIX).lower()
        if variable.startswith(_PREFIX) and name in accepted:
            variables[name] = text
        elif variable.startswith(_PREFIX) and variable not in _NO_SETTINGS and not _names_secret(name):
            findings.append(warn("settings", f"unknown setting in the environment: {variable}", _meant(name)))
    try:
        secrets = secret_files(environ)
        known = with_new_names(known) | with_new_names(variables)
        known.update({name: secret_text(name, file) for name, file in secrets.items()})
        settings = build(**{**known, **overrides})
        map_of(settings)
        check_timelines(settings)
    except (SettingsError, InvalidInput) as error:
        message = str(error).removeprefix("settings: ")
        return ReadSettings([*findings, bad("settings", message, "correct the value (see docs/settings.md)")], None)
    if not findings:
        findings.append(ok("settings", "all settings are valid"))
    findings += _readers("settings_file", path, [name for name, value in in_file.items() if _is_secret(name, value)])
    for name, file in secrets.items():
        findings += _readers("secret_file", file, [name])
    return ReadSettings([*findings, *_address(settings)], settings)


def _of_file(path: Path, named: bool, findings: list[Diagnosis]) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        if named:
            findings.append(
                bad("settings", f"{path} does not exist", "name the file with --config, or create it with `shoal init`")
            )
    except OSError as error:
        advice = "run this as the user of the server, and make the file readable for that user"
        findings.append(bad("settings", f"{path} cannot be read: {error.strerror}", advice))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        findings.append(bad("settings", f"{path} is not valid TOML: {error}", "correct that line"))
    return {}


def _names_secret(name: str) -> bool:
    return name.endswith("_file") and name.removesuffix("_file") in SECRET


def _meant(name: str) -> str:
    near = difflib.get_close_matches(name, Settings.__struct_fields__, 1)
    return f"did you mean {near[0]}? Otherwise remove it" if near else "remove it"


def _readers(check: str, path: Path, secrets: list[str]) -> Iterable[Diagnosis]:
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return
    if secrets and mode & stat.S_IROTH:
        message = f"{path} contains secrets ({', '.join(secrets)}) and is readable by all users of this machine"
        yield bad(check, message, f"chmod 600 {path}")
    elif mode & (stat.S_IWGRP | stat.S_IWOTH):
        yield bad(check, f"{path} is writable by other users", f"chmod go-w {path}")
    elif not os.access(path, os.R_OK):
        return
    else:
        yield ok(check, f"{path}, mode {mode:o}")


def _is_secret(name: str, value: object) -> bool:
    if name == "push_key":
        return bool(value)
    if isinstance(value, str) and value.startswith("{"):
        with contextlib.suppress(msgspec.DecodeError):
            value = msgspec.json.decode(value)
    if isinstance(value, dict):
        return any(_is_secret("", entry) for entry in value.values())
    try:
        return isinstance(value, str) and bool(urlsplit(value).password)
    except ValueError:
        return False


def _address(settings: Settings) -> Iterable[Diagnosis]:
    if not settings.base_url:
        message = f"not set, so URLs begin with {base_url(settings)}"
        yield warn("base_url", message, "set it to the URL that clients use")
        return
    try:
        check_base_url(settings.base_url)
    except InvalidInput as error:
        yield bad("base_url", str(error).removeprefix("base_url: "), "set it to the URL that clients use")
        return
    parts = urlsplit(settings.base_url)
    if parts.scheme == "http" and parts.hostname not in _NEAR:
        message = f"{settings.base_url} does not use TLS: passwords are sent in plain text"
        yield warn("base_url", message, "add a proxy with TLS, and set base_url to an https:// URL")
    if any(urlsplit(url).scheme == "memory" for url in store_urls(settings)):
        yield warn(
            "store",
            "memory:// loses all data when the server stops",
            "set store to a persistent store such as sqlite:///path",
        )


_GB = 1_000_000_000
_LITTLE_BYTES, _LITTLE_SHARE = _GB, 0.05
_NOTHING_BYTES, _NOTHING_SHARE = 100_000_000, 0.01
_FILES, _FEW_FILES = 8_192, 1_024
_BARE_BYTES = 220_000_000
"""Bytes of memory of a web process with empty caches and the maximum of request bodies."""
_UNSYNCHRONIZED = 5
"""The result of adjtimex(2) if the clock is not synchronized (TIME_ERROR)."""
_TIMEX_BYTES = 512
_LEAST_SQLITE = (3, 38)


def disks(settings: Settings) -> Iterator[Diagnosis]:
    folders: dict[int, tuple[Path, list[str]]] = {}
    for what, path in _written(settings):
        there = _existing(path)
        if not os.access(there, os.W_OK | os.X_OK):
            yield bad("disk", f"no permission to write to {there} ({what})", "run this as the user of the server")
        folders.setdefault(there.stat().st_dev, (there, []))[1].append(what)
    for path, names in folders.values():
        yield _free_space(path, " and ".join(dict.fromkeys(names)))
    temporary = Path(tempfile.gettempdir())
    if _is_in_memory(temporary):
        message = f"{temporary} is in memory, and stores incoming uploads"
        yield warn("tmp", message, "set TMPDIR to a directory on a disk")


def _written(settings: Settings) -> Iterator[tuple[str, Path]]:
    for file in store_files(settings):
        yield "store", file.absolute().parent
    media = urlsplit(media_url(settings))
    if media.scheme == "file":
        yield "media", Path(unquote(media.path))
    yield "tmp", Path(tempfile.gettempdir())


def _existing(path: Path) -> Path:
    return next(folder for folder in (path, *path.absolute().parents) if folder.is_dir())


def _free_space(path: Path, what: str) -> Diagnosis:
    reported = os.statvfs(path)
    free, total = reported.f_bavail * reported.f_frsize, reported.f_blocks * reported.f_frsize
    inodes = reported.f_favail / reported.f_files if reported.f_files else 1.0
    message = f"{what} at {path}: {free / _GB:,.1f} GB free of {total / _GB:,.1f} GB"
    if inodes < _LITTLE_SHARE:
        message = f"{what} at {path}: {inodes:.1%} of inodes free"
    if free < max(_NOTHING_BYTES, _NOTHING_SHARE * total) or inodes < _NOTHING_SHARE:
        return bad("disk", message, "free disk space: on a full disk, no member can post")
    if free < max(_LITTLE_BYTES, _LITTLE_SHARE * total) or inodes < _LITTLE_SHARE:
        return warn("disk", message, "free disk space soon")
    return ok("disk", message)


def _is_in_memory(path: Path) -> bool:
    lines = Path("/proc/mounts").read_text().splitlines()
    mounts = {Path(fields[1]): fields[2] for fields in map(str.split, lines)}
    return next((mounts[folder] for folder in (path, *path.absolute().parents) if folder in mounts), "") in {
        "tmpfs",
        "ramfs",
    }


def files(settings: Settings) -> Diagnosis:
    most, whose = _files_of_server(settings)
    if most < _FEW_FILES:
        return bad("files", f"{whose} may open {most:,} files", "raise the limit to 65,536 (LimitNOFILE in the unit)")
    if most < _FILES:
        message = f"{whose} may open {most:,} files, half of which may be connections"
        return warn("files", message, "raise the limit to 65,536 (LimitNOFILE in the unit)")
    return ok("files", f"{whose} may open {most:,} files")


def _files_of_server(settings: Settings) -> tuple[int, str]:
    for file in store_files(settings)[:1]:
        try:
            pid = int(file.with_name(f"{file.name}-lock").read_text() or 0)
            limits = Path(f"/proc/{pid}/limits").read_text()
            line = next(line for line in limits.splitlines() if line.startswith("Max open files"))
            return int(line.split()[4]), f"the server (process {pid})"
        except (OSError, ValueError, StopIteration):
            pass
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return (1 << 20 if hard == resource.RLIM_INFINITY else hard), "a process started here"


def memory(settings: Settings) -> Diagnosis:
    has = min(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), _group_bytes())
    timelines = settings.timeline_members * settings.timeline_length * 8
    most = _BARE_BYTES + 4_000 * settings.object_cache
    most += timelines if urlsplit(settings.timelines).scheme == "memory" else 0
    message = f"{has / _GB:,.1f} GB; one process needs {most / _GB:,.1f} GB with full caches"
    if has < most:
        return warn("memory", message, "lower object_cache or timeline_members, or add memory")
    return ok("memory", message)


def _group_bytes() -> int:
    try:
        group = Path("/proc/self/cgroup").read_text().rpartition("::")[2].strip()
    except OSError:
        group = "/"
    for folder in (f"/sys/fs/cgroup{group}", "/sys/fs/cgroup"):
        try:
            text = (Path(folder) / "memory.max").read_text().strip()
        except OSError:
            continue
        if text.isdecimal():
            return int(text)
    return 1 << 62


def clock() -> Diagnosis:
    state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))
    if state == _UNSYNCHRONIZED:
        advice = "install systemd-timesyncd or chrony; for a container, on its host"
        return warn("clock", "the clock of this machine is not synchronized", advice)
    if state < 0:
        return ok("clock", "the kernel does not report whether the clock is synchronized")
    return ok("clock", "the clock is synchronized")


def place_names() -> Diagnosis:
    towns = gazetteer.installed()
    if towns is None:
        message = f"{gazetteer.PACKAGE} is not installed: places are shown as coordinates, and members cannot state where they live"
        return warn("places", message, "to show the names of towns, install the extra 'places' of Shoal")
    return ok("places", f"{len(towns):,} towns")


async def programs() -> Diagnosis:
    found = Programs.found()
    if found is None:
        message = "not installed: video and audio uploads are rejected"
        return warn("ffmpeg", message, "to accept them, apt-get install ffmpeg")
    process = await asyncio.create_subprocess_exec(
        found.ffmpeg, "-version", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        async with asyncio.timeout(SECONDS):
            reported, _ = await process.communicate()
    except TimeoutError:
        advice = "run it by hand: this machine may be overloaded"
        return warn("ffmpeg", f"no response from {found.ffmpeg} within {SECONDS:g} s", advice)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        return bad("ffmpeg", f"{found.ffmpeg} exits with status {process.returncode}", "reinstall ffmpeg")
    return ok("ffmpeg", " ".join(reported.decode(errors="replace").split()[:3]))


def sqlite() -> Diagnosis:
    version = sqlite3.sqlite_version
    if sqlite3.sqlite_version_info < _LEAST_SQLITE:
        return bad(
            "sqlite", f"{version} is too old", f"use a Python with SQLite {'.'.join(map(str, _LEAST_SQLITE))} or newer"
        )
    try:
        with sqlite3.connect(":memory:") as connection:
            connection.execute("CREATE VIRTUAL TABLE words USING fts5 (text)")
    except sqlite3.OperationalError:
        return bad("sqlite", f"{version} is built without FTS5", "use a Python whose SQLite has FTS5, such as Debian's")
    return ok("sqlite", version)


_SUPPORTED = {
    "PostgreSQL": ((13, 0), (15, 0)),
    "Redis": ((6, 2), (7, 0)),
    "Valkey": ((7, 2), (7, 2)),
    "RabbitMQ": ((3, 10), (3, 10)),
}
"""For each engine, the oldest version that has the statements Shoal needs, and the oldest version that is tested."""
_SETTING = {
    "PostgreSQL": "store, tags or search",
    "DynamoDB": "store or timelines",
    "Redis": "timelines",
    "RabbitMQ": "broker",
}
_ELSEWHERE = frozenset({"jobs_set_aside", "workers"})
"""Measurements that the check of jobs reports."""
_OLD_HOURS = 36
"""Hours after which a backup is too old, as in the alert `ShoalBackupOld`."""
_REFUSED = re.compile(r"password|authenticat|ACCESS_REFUSED|NOAUTH|WRONGPASS|login was refused", re.IGNORECASE)


async def engines(settings: Settings) -> list[Diagnosis]:
    """Query each database, Redis and RabbitMQ server in the settings, and return a diagnosis of each."""
    probes = [probe for probe in engine_probes(settings) if probe.engine != "SQLite"]
    answers = await asyncio.gather(*map(_asked, probes))
    return [finding for answer in answers for finding in answer]


async def _asked(probe: EngineProbe) -> list[Diagnosis]:
    try:
        async with asyncio.timeout(SECONDS):
            return [diagnose(reported) for reported in await probe.ask()]
    except TimeoutError:
        return [_unreached(probe, f"no response within {SECONDS:g} s")]
    except Exception as error:  # noqa: BLE001  # the engine cannot be used, whatever the reason
        return [_unreached(probe, _reason(error))]


def _unreached(probe: EngineProbe, why: str) -> Diagnosis:
    setting = _SETTING.get(probe.engine, "the settings")
    advice = f"start it, or check the host and port in {setting}"
    if _REFUSED.search(why):
        advice = f"check the user and password in {setting}"
    return bad("engine", f"{probe.engine} at {probe.place}: {why}", advice)


def _reason(error: BaseException) -> str:
    words = with_cause(error) if isinstance(error, Exception) else str(error)
    return " ".join(words.split()) or type(error).__name__


def diagnose(reported: EngineHealth) -> Diagnosis:
    """Return a diagnosis of a database, Redis or RabbitMQ server from its reported version and measurements."""
    where = f"{reported.engine} {reported.version}".strip() + f" at {reported.place}"
    if not reported.reached:
        return bad("engine", f"{where} does not respond", "start it, or remove it from its cluster")
    least, tried = _SUPPORTED.get(reported.engine, ((0, 0), (0, 0)))
    numbers = re.match(r"(\d+)(?:\.(\d+))?", reported.version)
    version = (int(numbers[1]), int(numbers[2] or 0)) if numbers else tried
    upgrade = f"use {reported.engine} {'.'.join(map(str, tried))} or newer"
    if version < least:
        return bad("engine", f"{where} is too old", upgrade)
    wrong = ", ".join(
        vital.name.replace("_", " ") for vital in reported.measurements if vital.wrong and vital.name not in _ELSEWHERE
    )
    if wrong:
        return warn("engine", f"{where} responds, but needs attention: {wrong}", "see /ops in the web app")
    if version < tried:
        return warn("engine", f"{where} is older than the oldest tested version", upgrade)
    return ok("engine", where)


async def schema(settings: Settings) -> Iterable[Diagnosis]:
    """Open the stores read-only and check their schema versions. A missing store is not created."""
    urls = store_urls(settings)
    shown = ", ".join(map(shown_url, urls))
    if any(url.startswith("dynamodb:") for url in urls):
        return []
    if missing := [path for path in store_files(settings) if not path.exists()]:
        return [warn("store", f"{missing[0]} does not exist yet", "create it with `shoal serve`, or correct store")]
    try:
        async with asyncio.timeout(SECONDS), AsyncExitStack() as stack:
            mapped = await open_mapped(settings, stack)
            newest = (await mapped.store.key_get((backup_key(),))).get(backup_key())
    except TimeoutError:
        return [bad("store", f"{shown}: no response within {SECONDS:g} s", "check the database server")]
    except (ShoalError, OSError) as error:
        advice = "start a server of this version to upgrade the schema, or use the version of Shoal that created it"
        return [bad("store", _reason(error), advice)]
    return [ok("store", f"{shown}: the schema is up to date"), _backup(newest)]


def _backup(newest: int | None) -> Diagnosis:
    """Evaluate the age of the newest backup. `newest` is the id that `shoal backup` writes to the store."""
    if not newest:
        return warn("backup", "no backup yet", "schedule `shoal backup` every night (docs/howto/backup.md)")
    hours = (time.time() - milliseconds_of(newest) / 1_000) / 3_600
    message = f"the newest backup is {hours:,.1f} hours old"
    if hours > _OLD_HOURS:
        return bad("backup", message, "check the log of the nightly backup: journalctl -u shoal-backup")
    return ok("backup", message)


async def issuers(settings: Settings) -> list[Diagnosis]:
    advice = "check the jwks_url, and allow internal addresses by outgoing_networks (docs/howto/products.md)"
    return await _keys(Issuers, settings, "issuers", "docs/howto/products.md", advice)


async def providers(settings: Settings) -> list[Diagnosis]:
    advice = "check the issuer, and allow internal addresses by outgoing_networks (docs/howto/login-providers.md)"
    return await _keys(Providers, settings, "oidc_providers", "docs/howto/login-providers.md", advice)


async def _keys(
    kind: type[Issuers] | type[Providers], settings: Settings, name: str, page: str, advice: str
) -> list[Diagnosis]:
    """Report how many usable keys each issuer has."""
    try:
        opened = kind(settings)
    except InvalidInput as error:
        return [bad(name, str(error), f"correct it ({page})")]
    try:
        found = await opened.key_counts()
    finally:
        await opened.close()
    return [
        ok(name, f"{issuer}: usable keys: {count}")
        if isinstance(count, int) and count
        else bad(name, f"{issuer}: {count or 'no usable key'}", advice)
        for issuer, count in found.items()
    ]


async def mail(settings: Settings) -> Diagnosis:
    if not settings.mail:
        message = "not set: members who forget their password must contact an operator"
        return warn("mail", message, "set mail to the URL of a mail server (docs/howto/mail.md)")
    try:
        mailer, sender = mailer_of(settings), sender_of(settings)
    except InvalidInput as error:
        return bad("mail", str(error), "correct it (docs/howto/mail.md)")
    if not isinstance(mailer, SmtpMailer):
        folder = Path(unquote(urlsplit(settings.mail).path))
        if os.access(folder, os.F_OK) and not os.access(folder, os.W_OK):
            return bad("mail", f"no permission to write to {folder}", "run this as the user of the server")
        return warn("mail", f"mail is written to files in {folder}", "to send it, set mail to the URL of a mail server")
    try:
        async with asyncio.timeout(SECONDS):
            greeting = await mailer.greet()
    except TimeoutError:
        return bad("mail", f"no response within {SECONDS:g} s", "check host and port; some networks block port 25")
    except Unavailable as error:
        return bad("mail", str(error), "check mail and the provider's documentation of the mail server")
    return ok("mail", f"{greeting}, as {sender}")
