"""A request while it is recorded: what is sent counts its status and bytes, and what ends it writes its line."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shoal.tracing.record import SEND, Record, begin_recording, end_recording
from shoal.tracing.recorder import Recorder

SWITCHED, REFUSED = 101, 403


async def run(app: ASGIApp, recorder: Recorder, record: Record, scope: Scope, receive: Receive, send: Send) -> None:
    """Run the application, and end the record with it."""
    failure: BaseException | None = None
    token = begin_recording(record)
    try:
        await app(scope, receive, _counting(record, send))
    except BaseException as error:
        failure = error
        raise
    finally:
        end_recording(token)
        recorder.end(record, failure)


def _counting(record: Record, send: Send) -> Send:
    async def counted(message: Message) -> None:
        note = _NOTES.get(message["type"])
        if note is not None:
            note(record, message)
        await send(message)

    return counted


def _start(record: Record, message: Message) -> None:
    record.status = message["status"]
    record.enter(SEND)


def _body(record: Record, message: Message) -> None:
    if record.method != "HEAD":
        record.bytes += len(message.get("body", b""))
    record.complete = not message.get("more_body", False)


def _accept(record: Record, _message: Message) -> None:
    record.status, record.complete = SWITCHED, True
    record.enter(SEND)


def _frame(record: Record, message: Message) -> None:
    record.bytes += len((message.get("text") or "").encode()) + len(message.get("bytes") or b"")


def _close(record: Record, _message: Message) -> None:
    # Before it was accepted, this refuses the handshake.
    record.status = record.status or REFUSED
    record.complete = True


_NOTES = {
    "http.response.start": _start,
    "http.response.body": _body,
    "websocket.http.response.start": _start,
    "websocket.http.response.body": _body,
    "websocket.accept": _accept,
    "websocket.send": _frame,
    "websocket.close": _close,
}
