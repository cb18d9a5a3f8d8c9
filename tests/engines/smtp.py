"""A real SMTP server on a free port that stores received mail, and can refuse recipients or messages."""

from __future__ import annotations

import asyncio
import email
import email.policy
import re
import socket
import ssl
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from email.message import EmailMessage
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakSet

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

_LINK = re.compile(r"^(https?://\S+)$", re.MULTILINE)


class Mail(NamedTuple):
    """A received mail."""

    sender: str
    to: str
    message: EmailMessage
    encrypted: bool

    @property
    def subject(self) -> str:
        """Return the subject."""
        return str(self.message["Subject"])

    @property
    def text(self) -> str:
        """Return the plain text."""
        return self._part("plain")

    @property
    def html(self) -> str:
        """Return the HTML."""
        return self._part("html")

    @property
    def path(self) -> str:
        """Return the path of the only link in the mail."""
        (link,) = _LINK.findall(self.text)
        return f"/{str(link).split('/', 3)[3]}"

    @property
    def proof(self) -> str:
        """Return the proof in the link."""
        return self.path.rpartition("/")[2]

    def _part(self, kind: str) -> str:
        part = self.message.get_body((kind,))
        assert part is not None, f"there is no {kind} part"
        return str(part.get_content()).replace("\r\n", "\n")


class PostOffice:
    """The mails of a server, newest last. If set, `refuses` is the reply to each recipient, and `fails` the one to each message."""

    def __init__(self, url: str, *, wrapped: bool = False) -> None:
        self.url = url
        self.wrapped = wrapped
        self.mails: list[Mail] = []
        self.refuses = ""
        self.fails = ""
        self.tried = 0

    def to(self, address: str) -> Mail:
        """Return the newest mail to an address; fail if there is none."""
        found = [mail for mail in self.mails if mail.to == address]
        assert found, f"no mail to {address}, only to {[mail.to for mail in self.mails]}"
        return found[-1]

    def take(self) -> list[Mail]:
        """Remove and return all mails."""
        found, self.mails = self.mails, []
        return found

    def wait(self, n: int, seconds: float = 60.0) -> None:
        """Wait until `n` mails have arrived."""
        until = time.monotonic() + seconds
        while len(self.mails) < n:
            assert time.monotonic() < until, f"{len(self.mails)} of {n} mails arrived"
            time.sleep(0.01)

    # Handlers that aiosmtpd calls by name.

    async def handle_RCPT(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        """Accept or refuse a recipient."""
        self.tried += 1
        if self.refuses:
            return self.refuses
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        """Accept or refuse a mail."""
        if self.fails:
            return self.fails
        message = email.message_from_bytes(envelope.original_content or b"", policy=email.policy.default)
        assert isinstance(message, EmailMessage)
        (to,) = envelope.rcpt_tos
        self.mails.append(Mail(str(envelope.mail_from), to, message, encrypted=self.wrapped or session.ssl is not None))
        return "250 taken"


class _Server(Controller):
    """A controller that listens on an existing socket, as it cannot choose a free port itself."""

    def __init__(self, office: PostOffice, listener: socket.socket, **more: Any) -> None:
        super().__init__(office, hostname="127.0.0.1", port=listener.getsockname()[1], **more)
        self._listener = listener
        self._lines: WeakSet[SMTP] = WeakSet()

    def factory(self) -> SMTP:
        """Create the protocol of one connection."""
        made: SMTP = super().factory()  # type: ignore[no-untyped-call]
        self._lines.add(made)
        return made

    def stop(self, no_assert: bool = False) -> None:
        """Close all connections, including open sessions, and stop."""
        asyncio.run_coroutine_threadsafe(self._hang_up(), self.loop).result(60)
        super().stop(no_assert)

    async def _hang_up(self) -> None:
        for line in list(self._lines):
            if isinstance(line.transport, asyncio.WriteTransport) and not line.transport.is_closing():
                line.transport.abort()
        await asyncio.sleep(0)

    def _create_server(self) -> Coroutine[Any, Any, asyncio.AbstractServer]:
        return self.loop.create_server(self._factory_invoker, sock=self._listener, ssl=self.ssl_context)


@contextmanager
def post_office(
    *,
    certificate: tuple[Path, Path] | None = None,
    wrapped: bool = False,
    login: tuple[str, str] | None = None,
    in_ascii: bool = False,
) -> Iterator[PostOffice]:
    """Run a server.

    A `certificate` and its key enable STARTTLS, or implicit TLS if `wrapped`. A `login` makes authentication mandatory.
    """
    context = None
    if certificate is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*certificate)

    def knows(_server: SMTP, _session: Session, _envelope: Envelope, _mechanism: str, data: object) -> AuthResult:
        assert isinstance(data, LoginPassword)
        return AuthResult(success=(data.login.decode(), data.password.decode()) == login, handled=False)

    listener = socket.create_server(("127.0.0.1", 0))
    user = f"{login[0]}:{login[1]}@" if login else ""
    office = PostOffice(
        f"{'smtps' if wrapped else 'smtp'}://{user}localhost:{listener.getsockname()[1]}", wrapped=wrapped
    )
    server = _Server(
        office,
        listener,
        ssl_context=context if wrapped else None,
        tls_context=None if wrapped else context,
        require_starttls=context is not None and not wrapped,
        enable_SMTPUTF8=not in_ascii,
        authenticator=knows if login else None,
        auth_required=login is not None,
        auth_require_tls=login is not None and not wrapped,
    )
    server.start()
    try:
        yield office
    finally:
        server.stop()
