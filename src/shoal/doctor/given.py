"""The settings themselves: whether they can be read, by whom, and whether each exists."""

from __future__ import annotations

import contextlib
import difflib
import os
import stat
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from shoal.core.errors import InvalidInput
from shoal.doctor.findings import Diagnosis, bad, ok, warn
from shoal.ops.cluster.heartbeat import VARIABLE
from shoal.settings import SECRET, Settings, SettingsError, build, config_path, secret_files, secret_text
from shoal.wiring.places import base_url, check_base_url, store_urls
from shoal.wiring.stores import map_of

_PREFIX = "SHOAL_"
_NO_SETTINGS = {"SHOAL_CONFIG", VARIABLE}
_NEAR = frozenset({"localhost", "127.0.0.1", "::1"})


class ReadSettings(NamedTuple):
    """Findings about the settings, and the settings themselves; None where they cannot be read."""

    findings: list[Diagnosis]
    settings: Settings | None


def read(environ: Mapping[str, str], overrides: Mapping[str, str]) -> ReadSettings:
    """Read the settings as a server would. What does not exist is told and left out, so that the rest can be looked at."""
    findings: list[Diagnosis] = []
    path = config_path(environ)
    in_file = _of_file(path, bool(environ.get("SHOAL_CONFIG")), findings)
    known = {name: value for name, value in in_file.items() if name in Settings.__struct_fields__}
    findings += [_unknown(name) for name in in_file if name not in known]
    for variable, text in environ.items():
        name = variable.removeprefix(_PREFIX).lower()
        if variable.startswith(_PREFIX) and name in Settings.__struct_fields__:
            known[name] = text
        elif variable.startswith(_PREFIX) and variable not in _NO_SETTINGS and not _names_secret(name):
            findings.append(_unknown_variable(variable, name))
    try:
        secrets = secret_files(environ)
        known.update({name: secret_text(name, file) for name, file in secrets.items()})
        settings = build(**{**known, **overrides})
        map_of(settings)
    except (SettingsError, InvalidInput) as error:
        said = str(error).removeprefix("settings: ")
        return ReadSettings([*findings, bad("settings", said, "put it right; docs/settings.md lists all")], None)
    if not findings:
        findings.append(ok("settings", "every setting exists and takes its value"))
    findings += _readers("settings_file", path, [name for name, value in in_file.items() if _is_secret(name, value)])
    for name, file in secrets.items():
        findings += _readers("secret_file", file, [name])
    return ReadSettings([*findings, *_address(settings)], settings)


def _of_file(path: Path, named: bool, findings: list[Diagnosis]) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        if named:
            findings.append(bad("settings", f"{path} is not there", "name the file with --config, or `shoal init`"))
    except OSError as error:
        advice = "run this as the user of the server, who must be able to read it"
        findings.append(bad("settings", f"{path} cannot be read: {error.strerror}", advice))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        findings.append(bad("settings", f"{path} is not TOML: {error}", "put that line right"))
    return {}


def _names_secret(name: str) -> bool:
    return name.endswith("_file") and name.removesuffix("_file") in SECRET


def _unknown(name: str) -> Diagnosis:
    return bad("settings", f"there is no setting {name}, and servers do not start", _meant(name))


def _unknown_variable(variable: str, name: str) -> Diagnosis:
    return warn("settings", f"{variable} in the environment is no setting", _meant(name))


def _meant(name: str) -> str:
    near = difflib.get_close_matches(name, Settings.__struct_fields__, 1)
    return f"is {near[0]} meant? Else take it out" if near else "take it out"


def _readers(check: str, path: Path, secrets: list[str]) -> Iterable[Diagnosis]:
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return
    if secrets and mode & stat.S_IROTH:
        said = f"everybody on this machine can read {path}, with secrets in it ({', '.join(secrets)})"
        yield bad(check, said, f"chmod 600 {path}")
    elif mode & (stat.S_IWGRP | stat.S_IWOTH):
        yield bad(check, f"others can write to {path}", f"chmod go-w {path}")
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
        said = f"not set, so addresses begin with {base_url(settings)}"
        yield warn("base_url", said, "set it to the address that clients use")
        return
    try:
        check_base_url(settings.base_url)
    except InvalidInput as error:
        yield bad("base_url", str(error).removeprefix("base_url: "), "set it to the address that clients use")
        return
    parts = urlsplit(settings.base_url)
    if parts.scheme == "http" and parts.hostname not in _NEAR:
        said = f"{settings.base_url} is without TLS: passwords travel in clear"
        yield warn("base_url", said, "put a proxy with TLS in front, and set base_url to https://")
    if any(urlsplit(url).scheme == "memory" for url in store_urls(settings)):
        yield warn("store", "memory:// forgets everything at the end", "set store to sqlite:///path or another")
