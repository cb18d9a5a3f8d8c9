"""One-line explanations for operators of why an engine cannot be reached. They contain no passwords."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from shoal.core.errors import InvalidInput, Unavailable, in_words

_EXPIRED, _NOT_YET, _OTHER_NAME = {10}, {9}, {62, 64}
"""OpenSSL error codes (`X509_V_ERR_...`): expired, not valid yet, issued for another name or address."""
_NO_TLS = {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNEXPECTED_MESSAGE", "HTTP_REQUEST"}
_PROBE_SECONDS = 1.0


class MisconfiguredEngine(Unavailable):
    """A connection to an external service failed because of the settings, such as wrong credentials or TLS options.

    Retrying does not help.
    """


class UnreachableEngine(ConnectionError):
    """The cause of an `Unavailable`: names the external service that cannot be reached, and why, for operators."""


def checked_url(url: str, field: str) -> SplitResult:
    """Parse a URL. Raises `InvalidInput`, which shows no part of the URL, if it is unclear where its user name and password end."""
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    hosts = parts.netloc.rpartition("@")[2].split(",")
    if not parts.scheme or not all(map(_is_host, hosts)) or "@" in parts.path + parts.query or parts.fragment:
        raise InvalidInput(
            f"{field}: invalid URL: percent-encode characters other than letters, digits and -._~ in the user name and "
            "password (%2F for a slash), and use a numeric port",
            field=field,
        )
    return parts


def _is_host(text: str) -> bool:
    _, colon, port = text.rpartition(":")
    return not colon or text.endswith("]") or port.isdecimal()


def read_authorities(file: str, field: str) -> str:
    """Return the text of a PEM file of certificates. Raises `InvalidInput` for any other file."""
    check_file(file, field)
    try:
        text = Path(file).read_text("ascii")
        ssl.create_default_context(cadata=text)
    except (UnicodeDecodeError, ssl.SSLError) as error:
        raise InvalidInput(f"{field}: {file} contains no PEM certificates", field=field) from error
    return text


def check_file(file: str, field: str) -> None:
    """Raise `InvalidInput` with the file name if a file cannot be read. The errors of some client libraries omit the name."""
    try:
        Path(file).open("rb").close()
    except OSError as error:
        raise InvalidInput(f"{field}: {in_words(error)}", field=field) from error


def address_of(url: str) -> str:
    """Return the hosts and the path of a URL for messages, without user name, password and options."""
    parts = urlsplit(url)
    return parts.netloc.rpartition("@")[2] + parts.path


def why(error: BaseException) -> str:
    for cause in chain(error):
        # Check the module of the class too: client libraries have their own classes named SSLError, which lack the OpenSSL
        # reason.
        if isinstance(cause, ssl.SSLError) and type(cause).__module__ == ssl.__name__:
            return _of_tls(cause)
    first = next((cause for cause in chain(error) if isinstance(cause, Exception) and str(cause)), None)
    if first is not None:
        return " ".join(in_words(first).split())
    return "timeout" if isinstance(error, TimeoutError) else type(error).__name__


def is_lasting(error: BaseException) -> bool:
    """Return whether an error persists until the settings or the service change: it was caused by TLS or a certificate file."""
    return any(
        isinstance(cause, ssl.SSLError | FileNotFoundError | PermissionError | IsADirectoryError)
        for cause in chain(error)
    )


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and its causes, the outermost first."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


async def speaks_tls(host: str, port: int) -> bool:
    """Return whether a server that rejected a plaintext connection accepts TLS. Verifies no certificate and sends no data."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        async with asyncio.timeout(_PROBE_SECONDS):
            _, writer = await asyncio.open_connection(host, port, ssl=context)
    except (OSError, TimeoutError):
        return False
    writer.transport.abort()
    return True


def _of_tls(error: ssl.SSLError) -> str:
    if not isinstance(error, ssl.SSLCertVerificationError):
        reason = str(getattr(error, "reason", None) or error.strerror or error)
        if reason in _NO_TLS:
            return "the server does not support TLS on this port"
        message = reason.replace("_", " ").lower()
        return f"the server aborted the TLS handshake ({message})" if "ALERT" in reason else f"TLS: {message}"
    if error.verify_code in _EXPIRED:
        return "the server's certificate has expired"
    if error.verify_code in _NOT_YET:
        return "the server's certificate is not valid yet"
    if error.verify_code in _OTHER_NAME:
        return f"the server's certificate is for another name: {error.verify_message.rstrip('.')}"
    return f"the server's certificate is not trusted: {error.verify_message}"
