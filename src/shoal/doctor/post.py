"""Mail: whether the mail server would take it, without sending any."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

from shoal.core.errors import InvalidInput, Unavailable
from shoal.doctor.findings import SECONDS, Diagnosis, bad, ok, warn
from shoal.mail.smtp import SmtpMailer
from shoal.settings import Settings
from shoal.wiring.mail import mailer_of, sender_of


async def mail(settings: Settings) -> Diagnosis:
    """Greet the mail server, and log in there."""
    if not settings.mail:
        said = "not set: members with a forgotten password must ask an operator"
        return warn("mail", said, "set mail to the URL of a mail server (docs/howto/mail.md)")
    try:
        mailer, sender = mailer_of(settings), sender_of(settings)
    except InvalidInput as error:
        return bad("mail", str(error), "put it right (docs/howto/mail.md)")
    if not isinstance(mailer, SmtpMailer):
        folder = Path(unquote(urlsplit(settings.mail).path))
        if os.access(folder, os.F_OK) and not os.access(folder, os.W_OK):
            return bad("mail", f"{folder} cannot be written to", "run this as the user of the server")
        return warn("mail", f"every mail becomes a file in {folder}", "for members, set the URL of a mail server")
    try:
        async with asyncio.timeout(SECONDS):
            said = await mailer.greet()
    except TimeoutError:
        return bad("mail", f"no answer within {SECONDS:g} s", "look at host and port; some networks block port 25")
    except Unavailable as error:
        return bad("mail", str(error), "look at mail, and at what the mail server's provider says")
    return ok("mail", f"{said}, as {sender}")
