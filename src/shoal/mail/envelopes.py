"""Letters as messages of the Internet (RFC 5322)."""

from __future__ import annotations

from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime, localtime, make_msgid, parseaddr

from shoal.core.blocklists import ascii_domain
from shoal.mail.contract import Letter


def in_ascii(address: str) -> str:
    """Return an address with the domain as it stands in the DNS: then only a name beyond ASCII needs RFC 6531 of mail servers."""
    name, _, domain = address.rpartition("@")
    return f"{name}@{ascii_domain(domain)}"


def message_of(letter: Letter, sender: str) -> EmailMessage:
    """Return the message of a letter. `sender` is an address, with or without a name: `Shoal <post@example.org>`."""
    message = EmailMessage(policy=SMTP)
    message["From"], message["To"], message["Subject"] = sender, in_ascii(letter.to), letter.subject
    message["Date"] = format_datetime(localtime())
    message["Message-ID"] = make_msgid(domain=parseaddr(sender)[1].rpartition("@")[2])
    # RFC 3834: no answering machine is to answer it.
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(letter.text)
    message.add_alternative(letter.html, subtype="html")
    return message
