"""Mail: the setting `mail` names whoever takes it."""

from __future__ import annotations

from email.headerregistry import Address
from email.utils import parseaddr
from pathlib import Path
from urllib.parse import unquote, urlsplit

from shoal.core.errors import InvalidInput
from shoal.core.text import check_email
from shoal.mail.contract import Mailer
from shoal.mail.folder import FolderMailer
from shoal.mail.letters import Stationery
from shoal.mail.postman import Postman
from shoal.mail.smtp import SmtpMailer
from shoal.settings import Settings
from shoal.wiring.places import base_url, domain_of


def open_mail(settings: Settings) -> Postman | None:
    """Return whoever sends mail; None where none is set up. Raises `InvalidInput` for a setting that cannot be."""
    if not settings.mail:
        return None
    return Postman(mailer_of(settings), stationery_of(settings))


def stationery_of(settings: Settings) -> Stationery:
    """Return what all letters of a network have in common."""
    return Stationery(settings.title, base_url(settings))


def mailer_of(settings: Settings) -> Mailer:
    """Return what the setting `mail` names. Raises `InvalidInput`."""
    sender, parts = sender_of(settings), urlsplit(settings.mail)
    if parts.scheme == "file":
        if parts.netloc or len(parts.path) < 2:
            raise InvalidInput("mail: file:///directory, with three slashes")
        return FolderMailer(Path(unquote(parts.path)), sender)
    return SmtpMailer(settings.mail, sender)


def sender_of(settings: Settings) -> str:
    """Return the sender of mail, as it stands in its head. Raises `InvalidInput` for a setting that is no address."""
    name, address = parseaddr(settings.mail_from)
    if not settings.mail_from:
        # The name of a network may have signs that no head of a mail has.
        name = "".join(sign for sign in settings.title if sign.isprintable())
        return str(Address(name, "no-reply", domain_of(settings)))
    try:
        user, _, domain = check_email(address).rpartition("@")
        return str(Address(name, user, domain))
    except (InvalidInput, ValueError) as error:
        raise InvalidInput(f"mail_from: an address such as post@example.org, not {settings.mail_from!r}") from error
