"""DynamoDB Local, as installed by `scripts/dynamodb`: an implementation of the protocol, with transactions.

It accepts any credentials but requires some. It differs from DynamoDB: nothing is throttled, transactions wait for each
other instead of conflicting, and its index is never stale.

It is started from `dynamodb.xml`, because its own command line listens on every address of the machine.
"""

from __future__ import annotations

import http.client
import sys
from contextlib import closing, suppress
from pathlib import Path

from shoal_devcluster.program import NotInstalled, Program, find, free_port

_MAIN = "org.eclipse.jetty.xml.XmlConfiguration"
_SERVER = Path(__file__).with_name("dynamodb.xml")
_JARS = ("DynamoDBLocal-*.jar", "jetty-xml-*.jar")
_HEAP = "-Xmx512m"


def installed_at() -> Path:
    """Return the folder that `scripts/dynamodb` installs to, in the current virtual environment."""
    return Path(sys.prefix) / "share" / "dynamodb"


def start(folder: Path, *options: str, port: int | None = None, durable: bool = True) -> Program:
    """Start a server in `folder` and wait until it answers. Raises `NotInstalled`.

    With `durable`, a later start in this folder finds the data. `options` are passed to Java.
    """
    java = find("java", "default-jre-headless")
    jars = installed_at()
    if not all(any(jars.glob(name)) for name in _JARS):
        raise NotInstalled("DynamoDB Local is not installed: install it with `sh scripts/dynamodb`")
    port = port or free_port()
    folder.mkdir(parents=True, exist_ok=True)
    program = Program(
        "dynamodb",
        [
            java,
            _HEAP,
            *options,
            f"-Djava.library.path={jars}",
            "-cp",
            f"{jars}/*",
            _MAIN,
            f"port={port}",
            f"folder={folder}" if durable else "memory=true",
            str(_SERVER),
        ],
        folder,
        url=f"http://127.0.0.1:{port}",
        # The server runs as the current operating-system user, because another user might be unable to read the virtual
        # environment.
        answers=lambda: _answers(port),
    )
    program.start()
    return program


def _answers(port: int) -> bool:
    """Return whether the server answers over HTTP. Its status does not matter, because the request has no credentials."""
    with suppress(OSError, http.client.HTTPException), closing(http.client.HTTPConnection("127.0.0.1", port, 1)) as ask:
        ask.request("GET", "/")
        return ask.getresponse().status > 0
    return False
