"""Compiled templates and TLS contexts that all servers and clients of the tests share, because each takes long to make."""

from __future__ import annotations

import functools
import os
import ssl
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import certifi
import httpx
from jinja2 import Environment, FileSystemBytecodeCache

from shoal import outgoing
from shoal.mail import mailers
from shoal.web import rendering

_COMPILED = Path(__file__).resolve().parent.parent / ".pytest_cache" / "templates"


def make_starts_cheap() -> None:
    """Share compiled templates and TLS contexts in this process."""
    _COMPILED.mkdir(parents=True, exist_ok=True)
    # Each language and each base path has an environment, which compiles all templates that it shows.
    cache = FileSystemBytecodeCache(str(_COMPILED))
    vars(rendering)["Environment"] = functools.partial(Environment, bytecode_cache=cache)
    # The certificates of the system take 0.03 seconds of processor time for each client, and for each network that sends mail.
    vars(outgoing)["ssl"] = SimpleNamespace(create_default_context=of_system, SSLError=ssl.SSLError)
    vars(mailers)["ssl"] = SimpleNamespace(create_default_context=of_system)
    made = vars(httpx._transports.default)["create_ssl_context"]
    vars(httpx._transports.default)["create_ssl_context"] = functools.partial(_of_client, made)


def of_system(cafile: str | None = None) -> ssl.SSLContext:
    """Return the context that trusts the certificates of the system, or a new one for this file."""
    return ssl.create_default_context(cafile=cafile) if cafile else _trusting(os.environ.get("SSL_CERT_FILE"))


@functools.cache
def _trusting(file: str | None) -> ssl.SSLContext:
    """Return the context for the value of `SSL_CERT_FILE`, which some tests set."""
    return ssl.create_default_context(cafile=file)


def _of_client(made: Any, verify: Any = True, **more: Any) -> Any:
    return (
        _trusting(os.environ.get("SSL_CERT_FILE") or certifi.where()) if verify is True else made(verify=verify, **more)
    )
