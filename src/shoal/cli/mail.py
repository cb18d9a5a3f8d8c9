"""`shoal mail`: whether mail can be sent."""

from __future__ import annotations

import asyncio
import time

import click

from shoal.cli.group import pass_settings
from shoal.core.errors import InvalidInput, ShoalError, Unavailable
from shoal.core.text import check_email
from shoal.mail.letters import trial
from shoal.settings import Settings
from shoal.wiring.mail import mailer_of, sender_of, stationery_of


@click.group()
def mail() -> None:
    """Try whether mail can be sent."""


@mail.command()
@click.argument("address")
@click.option("--language", default="en", show_default=True, help="The language of the mail, by its code.")
@pass_settings
def test(settings: Settings, /, address: str, language: str) -> None:
    """Send a mail to ADDRESS, as the settings `mail` and `mail_from` say, and tell what the mail server answers."""
    if not settings.mail:
        raise InvalidInput("no mail is set up: name an SMTP server in the setting mail (docs/howto/mail.md)")
    mailer, letter = mailer_of(settings), trial(stationery_of(settings), check_email(address), language)
    begun = time.monotonic()
    try:
        asyncio.run(mailer.send(letter))
    except Unavailable:
        raise
    except ShoalError as error:
        raise Unavailable(str(error)) from error
    click.echo(f"taken after {1_000 * (time.monotonic() - begun):.0f} ms: from {sender_of(settings)} to {letter.to}")
