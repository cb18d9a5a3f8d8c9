"""Mail transports: an SMTP server, or a folder of `.eml` files for development.

Messages follow RFC 5322. Files in the folder are named like `0001-ann@example.org.eml`, which mail programs open.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime, localtime, make_msgid, parseaddr
from pathlib import Path
from typing import NamedTuple, Protocol
from urllib.parse import parse_qs, unquote, urlsplit

import aiosmtplib

from shoal.core.blocklists import ascii_domain
from shoal.core.errors import InvalidInput, ShoalError, Unavailable


class Letter(NamedTuple):
    to: str
    subject: str
    text: str
    html: str


class Undeliverable(ShoalError):
    pass


class NotNow(Unavailable):
    """The mail server temporarily rejects this mail, but may accept others."""


class Mailer(Protocol):
    async def send(self, letter: Letter) -> None:
        """Hand a mail over. When this returns, the transport is responsible for it.

        Raises `Unavailable` if the transport accepts no mail for now, `NotNow` if it temporarily rejects this mail, and
        `Undeliverable` if it rejects this mail permanently.
        """


def in_ascii(address: str) -> str:
    """Return an email address with its domain in ASCII, so that only a non-ASCII local part requires SMTPUTF8 (RFC 6531)."""
    name, _, domain = address.rpartition("@")
    return f"{name}@{ascii_domain(domain)}"


def message_of(letter: Letter, sender: str) -> EmailMessage:
    """Return the message of a mail. `sender` is an address, which may have a name: `Shoal <post@example.org>`."""
    message = EmailMessage(policy=SMTP)
    message["From"], message["To"], message["Subject"] = sender, in_ascii(letter.to), letter.subject
    message["Date"] = format_datetime(localtime())
    message["Message-ID"] = make_msgid(domain=parseaddr(sender)[1].rpartition("@")[2])
    # RFC 3834: prevent automatic replies.
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(letter.text)
    message.add_alternative(letter.html, subtype="html")
    return message


_SECONDS = 20.0
_ALLOWED = "smtp://user:password@host:587 (with ?tls=required, offered or never, and ca=FILE) or smtps://user:password@host:465"
_FOR_GOOD, _CLOSING = 500, 421
_TLS = {"required": True, "offered": None, "never": False}


class SmtpServer(NamedTuple):
    host: str
    port: int
    user: str
    password: str
    wrapped: bool
    """TLS from the first byte on (RFC 8314)."""
    upgraded: bool | None
    """STARTTLS: always, never, or (None) if the server offers it."""
    ca: str
    """A file of trusted certificates; empty: the system's certificates."""


def smtp_server(url: str) -> SmtpServer:
    """Parse the URL of an SMTP server.

    Raises `InvalidInput` for an invalid URL, and for a URL with which a password would be sent unencrypted to another
    machine.
    """
    parts = urlsplit(url)
    more = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    tls = more.pop("tls", "")
    ca = more.pop("ca", "")
    try:
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port = "", None
    if parts.scheme not in ("smtp", "smtps") or not host or more or parts.path.strip("/") or (tls and tls not in _TLS):
        raise InvalidInput(f"mail: expected {_ALLOWED} (got {_without_password(url)!r})")
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    near = host in ("localhost", "127.0.0.1", "::1")
    wrapped = parts.scheme == "smtps"
    upgraded = False if wrapped else _TLS[tls or ("offered" if near or not user else "required")]
    if user and not (wrapped or upgraded or near):
        raise InvalidInput("mail: a password requires TLS: use smtps://, or smtp:// with ?tls=required")
    return SmtpServer(host, port or (465 if wrapped else 587 if user else 25), user, password, wrapped, upgraded, ca)


def _without_password(url: str) -> str:
    head, at, tail = url.rpartition("@")
    return f"{head.partition('://')[0]}://…@{tail}" if at else url


class SmtpMailer:
    def __init__(self, url: str, sender: str) -> None:
        self._server = smtp_server(url)
        self._sender = sender
        try:
            self._tls = ssl.create_default_context(cafile=self._server.ca or None)
        except OSError as error:
            raise InvalidInput(f"mail: cannot read the certificates in {self._server.ca}: {error}") from error

    async def send(self, letter: Letter) -> None:
        try:
            async with self._client() as client:
                await client.send_message(message_of(letter, self._sender))
        except (aiosmtplib.SMTPException, OSError) as error:
            raise self._failure(error, letter) from error

    async def greet(self) -> str:
        """Connect, log in and disconnect without sending mail.

        Return a one-line description of the server. Raises `Unavailable`.
        """
        at = self._server
        try:
            async with self._client() as client:
                tls = "with TLS" if client.get_transport_info("sslcontext") else "without TLS"
        except (aiosmtplib.SMTPException, OSError) as error:
            raise self._failure(error) from error
        return f"{at.host}:{at.port} responds {tls}" + (" and accepts the password" if at.user else "")

    def _client(self) -> aiosmtplib.SMTP:
        at = self._server
        return aiosmtplib.SMTP(
            hostname=at.host,
            port=at.port,
            username=at.user or None,
            password=at.password or None,
            use_tls=at.wrapped,
            start_tls=at.upgraded,
            tls_context=self._tls,
            timeout=_SECONDS,
        )

    def _failure(self, error: Exception, letter: Letter | None = None) -> ShoalError:
        at = self._server
        if isinstance(error, aiosmtplib.SMTPAuthenticationError):
            return Unavailable(f"the mail server rejected the user or password: {error.code}")
        if isinstance(error, aiosmtplib.SMTPRecipientsRefused | aiosmtplib.SMTPResponseException):
            return _refusal(error)
        if isinstance(error, aiosmtplib.SMTPNotSupported):
            if letter is not None and not in_ascii(letter.to).isascii():
                return Undeliverable("the mail server does not support non-ASCII addresses")
            return Unavailable(f"the mail server lacks a required feature: {error}")
        return Unavailable(f"the mail server {at.host}:{at.port} is unreachable: {error}")


def _refusal(error: aiosmtplib.SMTPRecipientsRefused | aiosmtplib.SMTPResponseException) -> Unavailable | Undeliverable:
    """Return the error for a response of the mail server: codes from 500 on are permanent (RFC 5321, 4.2.1)."""
    if isinstance(error, aiosmtplib.SMTPRecipientsRefused):
        refused = error.recipients[0]
        code, reply = refused.code, refused.message
    else:
        code, reply = error.code, error.message
    # An error response before a mail is sent does not concern that mail. For example, a server that greets with 554 may
    # recover.
    about_letter = not isinstance(error, aiosmtplib.SMTPConnectResponseError | aiosmtplib.SMTPHeloError)
    if not about_letter or code == _CLOSING:
        return Unavailable(f"the mail server is not accepting mail: {code} {reply}")
    if code >= _FOR_GOOD:
        return Undeliverable(f"the mail server rejected the mail: {code} {reply}")
    return NotNow(f"the mail server temporarily rejected the mail: {code} {reply}")


_ODD = re.compile(r"[^A-Za-z0-9@._+-]")
_MOST = 1_000_000


class FolderMailer:
    def __init__(self, folder: Path, sender: str) -> None:
        self._folder = folder
        self._sender = sender

    async def send(self, letter: Letter) -> None:
        try:
            await asyncio.to_thread(self._write, letter)
        except OSError as error:
            raise Unavailable(f"cannot write mail to {self._folder}: {error}") from error

    def _write(self, letter: Letter) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        data = message_of(letter, self._sender).as_bytes()
        numbers = [int(path.name[:4]) for path in self._folder.glob("[0-9][0-9][0-9][0-9]-*")]
        for number in range(max(numbers, default=0) + 1, _MOST):
            path = self._folder / f"{number:04}-{_ODD.sub('_', letter.to)[:100]}.eml"
            try:
                # The links in the mail give access to accounts, so only the owner of the folder may read the file.
                path.touch(0o600, exist_ok=False)
            except FileExistsError:
                continue
            path.write_bytes(data)
            return
