"""The address to listen on: whether it can be had, before anything is made for it."""

from __future__ import annotations

import errno
import socket

from shoal.core.errors import Unavailable

_OPTIONS = {
    errno.EADDRINUSE: "port {port} is taken: name another, with --port or as in `make demo PORT=8600`",
    errno.EACCES: "port {port} is not for everybody to listen on: name another with --port",
    errno.EADDRNOTAVAIL: "{host} is no address of this machine: name another host",
}


def check_address(host: str, port: int) -> None:
    """Raise `Unavailable`, in one line that says what to do, when nobody could listen there."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
    except (socket.gaierror, UnicodeError):
        raise Unavailable(f"the host {host!r} is not known here: name another") from None
    except OSError as error:
        words = _OPTIONS.get(error.errno or 0, "{host}:{port} cannot be listened on: {why}")
        raise Unavailable(words.format(host=host, port=port, why=error.strerror)) from None
