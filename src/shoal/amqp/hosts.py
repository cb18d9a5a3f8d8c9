"""The URL of a message broker: one node, or several nodes of a cluster, any of which will do."""

from __future__ import annotations

from urllib.parse import parse_qsl

from shoal.core.errors import InvalidInput
from shoal.graph.reaching import check_file, checked_url, read_authorities

_OPTIONS = {"cafile", "certfile", "keyfile"}
"""Files in PEM, as aiormq names them: the certificates that are trusted, and our own. `amqps` only."""


def url_of_each(url: str, *, heartbeat: int) -> list[str]:
    """Return a URL for each node of `amqp(s)://user:password@host:port,host:port/vhost?cafile=FILE`, for the client library.

    Raises `InvalidInput`, without the login.
    """
    parts = checked_url(url, "broker")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    if parts.scheme not in ("amqp", "amqps") or not parts.netloc.rpartition("@")[2]:
        raise InvalidInput("broker: a message broker is named as amqp://user:password@host:port/vhost", field="broker")
    if options.keys() - _OPTIONS or (options and parts.scheme != "amqps"):
        raise InvalidInput(
            f"broker: the options of its URL are {', '.join(sorted(_OPTIONS))}, of amqps:// only", field="broker"
        )
    for name, file in options.items():
        (read_authorities if name == "cafile" else check_file)(file, "broker")
    login, at, hosts = parts.netloc.rpartition("@")
    query = f"{parts.query}{'&' if parts.query else ''}heartbeat={heartbeat}"
    return [parts._replace(netloc=f"{login}{at}{host}", query=query).geturl() for host in hosts.split(",")]
