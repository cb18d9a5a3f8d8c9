"""Amazon's own DynamoDB for one machine, as `scripts/dynamodb` installs it: a server of the protocol, with transactions.

It takes every credential but none at all. It is not DynamoDB: nothing is ever throttled, transactions wait for each other
instead of conflicting, and its index is never late.

It is started from `dynamodb.xml` and not by its own command line, which listens on every address of the machine.
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
    """Where `scripts/dynamodb` puts it: in the virtual environment that runs this."""
    return Path(sys.prefix) / "share" / "dynamodb"


def start(folder: Path, *options: str, port: int | None = None, durable: bool = True) -> Program:
    """A server in `folder`, answering. Raises `NotInstalled`. What is `durable` is there again at the next start there.

    `options` are given to Java as they are.
    """
    java = find("java", "default-jre-headless")
    jars = installed_at()
    if not all(any(jars.glob(name)) for name in _JARS):
        raise NotInstalled("DynamoDB Local is not installed: sh scripts/dynamodb")
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
        # As whoever starts it: others may not be able to read a virtual environment.
        answers=lambda: _answers(port),
    )
    program.start()
    return program


def _answers(port: int) -> bool:
    """Whether it speaks HTTP: what it says to a question without credentials does not matter."""
    with suppress(OSError, http.client.HTTPException), closing(http.client.HTTPConnection("127.0.0.1", port, 1)) as ask:
        ask.request("GET", "/")
        return ask.getresponse().status > 0
    return False
