"""The address to listen on: whether it can be had, before anything is made for it."""

from __future__ import annotations

import errno
import socket

from shoal.core.errors import Unavailable
from shoal.settings import Settings

_OPTIONS = {
    errno.EADDRINUSE: "port {port} is taken: name another, with {taken}",
    errno.EACCES: "port {port} is not for everybody to listen on: name another with {option}",
    errno.EADDRNOTAVAIL: "{host} is no address of this machine: name another host",
}


def check_address(
    host: str, port: int, option: str = "--port", taken: str = "--port or as in `make demo PORT=8600`"
) -> None:
    """Raise `Unavailable`, in one line that says what to do, when nobody could listen there.

    `option` names whatever sets the port, `taken` does so where the port is taken.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
    except (socket.gaierror, UnicodeError):
        raise Unavailable(f"the host {host!r} is not known here: name another") from None
    except OSError as error:
        words = _OPTIONS.get(error.errno or 0, "{host}:{port} cannot be listened on: {why}")
        raise Unavailable(words.format(host=host, port=port, why=error.strerror, option=option, taken=taken)) from None


def check_metrics(settings: Settings, processes: int) -> None:
    """Raise `Unavailable` when one of these processes could not tell its metrics; each has a port of its own."""
    first = settings.metrics_port
    if not first:
        return
    if first + processes > 65_536:
        raise Unavailable(f"metrics_port: {processes} processes have no ports from {first} on: name a lower one")
    for port in range(first, first + processes):
        check_address(settings.metrics_host, port, "the setting metrics_port", "the setting metrics_port")
