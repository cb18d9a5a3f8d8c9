"""Mail and web push as the settings configure them."""

from __future__ import annotations

from email.headerregistry import Address
from email.utils import parseaddr
from pathlib import Path
from urllib.parse import unquote, urlsplit

from shoal.app.paths import base_url, domain_of, push_key_path
from shoal.core.errors import InvalidInput
from shoal.core.text import check_email
from shoal.mail.mailers import FolderMailer, Mailer, SmtpMailer
from shoal.mail.messages import Stationery
from shoal.mail.sender import MailSender
from shoal.outgoing import networks_of
from shoal.push.encryption import ServerKey, load_or_create_key, read_key
from shoal.push.sender import PushSender
from shoal.settings import Settings


def open_mail(settings: Settings) -> MailSender | None:
    """Return the mail sender, or None if mail is not configured. Raises `InvalidInput` for invalid settings."""
    if not settings.mail:
        return None
    return MailSender(mailer_of(settings), stationery_of(settings))


def stationery_of(settings: Settings) -> Stationery:
    return Stationery(settings.title, base_url(settings))


def mailer_of(settings: Settings) -> Mailer:
    """Return the mail transport for the URL in the setting `mail`. Raises `InvalidInput` if the URL is invalid."""
    sender, parts = sender_of(settings), urlsplit(settings.mail)
    if parts.scheme == "file":
        if parts.netloc or len(parts.path) < 2:
            raise InvalidInput("mail: expected file:///directory, with three slashes")
        return FolderMailer(Path(unquote(parts.path)), sender)
    return SmtpMailer(settings.mail, sender)


def sender_of(settings: Settings) -> str:
    """Return the sender address of mails. Raises `InvalidInput` if the setting is not an address."""
    name, address = parseaddr(settings.mail_from)
    if not settings.mail_from:
        # The title may contain characters that are not allowed in a header.
        name = "".join(sign for sign in settings.title if sign.isprintable())
        return str(Address(name, "no-reply", domain_of(settings)))
    try:
        user, _, domain = check_email(address).rpartition("@")
        return str(Address(name, user, domain))
    except (InvalidInput, ValueError) as error:
        raise InvalidInput(
            f"mail_from: expected an address such as post@example.org (got {settings.mail_from!r})"
        ) from error


def open_key(settings: Settings) -> ServerKey | None:
    """Return the web push key: from the settings, or from a file next to the store, created if necessary.

    Returns None if the setting is empty and the store has no files. Raises `InvalidInput` for an invalid key.
    """
    path = push_key_path(settings)
    if settings.push_key:
        private = read_key(settings.push_key)
    elif path is not None:
        private = load_or_create_key(path)
    else:
        return None
    contact = f"mailto:{settings.contact_email}" if settings.contact_email else base_url(settings)
    return ServerKey(private, contact)


def open_push_sender(settings: Settings, key: ServerKey) -> PushSender:
    return PushSender(key, base_url(settings), networks_of(settings.push_networks, "push_networks"))
