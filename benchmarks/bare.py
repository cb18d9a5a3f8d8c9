"""Servers without logic: the upper bounds that HTTP benchmarks are compared with.

`python -m benchmarks.bare asgi PORT` is an ASGI application under uvicorn, `protocol` a few lines on uvloop's sockets. Both
respond to every request with a constant JSON array of 20 objects, 25 KB long. `push PORT CERTIFICATE KEY` is a push service
with TLS that discards messages, and `hook PORT CERTIFICATE KEY` a moderation hook that allows everything.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, cast

import msgspec
import uvicorn
import uvloop

_STATUS = {"id": "112233445566778899", "content": "x" * 1_180, "account": {"id": "1", "username": "somebody"}}
BODY = msgspec.json.encode([_STATUS] * 20)
_WIRE = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(BODY), BODY)
_HEADERS = [(b"content-type", b"application/json"), (b"content-length", str(len(BODY)).encode())]

Message = MutableMapping[str, Any]


async def app(
    scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
) -> None:
    """Send the constant response to an ASGI request; ignore lifespan events."""
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        await send({"type": "http.response.body", "body": BODY})
    else:
        await receive()


def constant(status: int, body: bytes) -> Any:
    """Return an ASGI application that reads each request and sends a constant response."""
    headers = [(b"content-length", str(len(body)).encode())]

    async def respond(
        _scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
    ) -> None:
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return respond


_WITH_TLS = {"push": constant(201, b""), "hook": constant(200, b'{"action": "allow"}')}


class Bare(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Send a response for each complete request head."""
        for _ in range(data.count(b"\r\n\r\n")):
            self._transport.write(_WIRE)


async def _protocol(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Bare, "127.0.0.1", port)
    await server.serve_forever()


def main() -> None:
    kind, port = sys.argv[1], int(sys.argv[2])
    if kind == "protocol":
        uvloop.run(_protocol(port))
        return
    tls = kind in _WITH_TLS
    how = {"ssl_certfile": sys.argv[3], "ssl_keyfile": sys.argv[4], "lifespan": "off"} if tls else {}
    uvicorn.run(
        _WITH_TLS.get(kind, app),
        host="127.0.0.1",
        port=port,
        log_level="error",
        access_log=False,
        http="httptools",
        loop="uvloop",
        **cast("dict[str, Any]", how),
    )


if __name__ == "__main__":
    main()
