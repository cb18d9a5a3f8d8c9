"""First steps: `shoal init` writes a settings file, `shoal mail test` sends a test message, `shoal push key` creates a key."""

from __future__ import annotations

import asyncio
import shlex
import sys
import time
from pathlib import Path
from typing import Any

import click

from shoal import private_files
from shoal.app.mail_and_push import mailer_of, sender_of, stationery_of
from shoal.app.paths import check_base_url
from shoal.app.shared import check_timelines
from shoal.cli.group import GivenSettings, pass_settings
from shoal.core.errors import InvalidInput, ShoalError, Unavailable
from shoal.core.text import check_email
from shoal.mail.messages import trial
from shoal.push.encryption import new_key
from shoal.settings import Settings, build, config_path
from shoal.settings_file import render

_MOST_LINE = 10_000


@click.command()
@click.option(
    "--to",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("shoal.toml"),
    show_default=True,
    help="File to write. An existing file is never replaced.",
)
@click.option("--url", metavar="URL", help="Public URL of the server, such as https://social.example.org.")
@click.option("--title", help="Name of the network.")
@click.option("--contact-email", metavar="ADDRESS", help="Contact address for members.")
@click.option(
    "--mail", metavar="URL", help='Mail server, smtps://user:password@host; "-" reads it from standard input.'
)
@click.option(
    "--set", "others", multiple=True, metavar="NAME=VALUE", help="Any other setting, by its name in docs/settings.md."
)
@click.pass_obj
def init(
    given: GivenSettings,
    path: Path,
    url: str | None,
    title: str | None,
    contact_email: str | None,
    mail: str | None,
    others: tuple[str, ...],
) -> None:
    """Write a settings file that explains every setting.

    On a terminal, asks for values that are not given as options. Only the owner may read the file, because it may
    contain passwords.
    """
    if path.exists():
        raise InvalidInput(f"{path} already exists: name another file with --to, or move the existing file")
    if mail == "-":
        mail = sys.stdin.readline(_MOST_LINE).strip()
    values: dict[str, Any] = {**given.overrides, **_named(others)}
    url, title, contact_email, mail = (
        values.get(name) if provided is None else provided
        for name, provided in (("base_url", url), ("title", title), ("contact_email", contact_email), ("mail", mail))
    )
    values |= {
        "base_url": _asked(url, "Address of the server, such as https://social.example.org"),
        "title": _asked(title, "Name of the network", Settings().title),
        "contact_email": _asked(contact_email, "E-mail address for questions of members (empty: none)"),
        "mail": _asked(mail, "Mail server, smtps://user:password@host (empty: no mail)"),
    }
    chosen = build(**values)
    _check(chosen)
    private_files.write_new(path, render(chosen).encode())
    option = "" if path.absolute() == config_path().absolute() else f"--config {shlex.quote(str(path))} "
    click.echo(f"wrote {path}: check it with `shoal {option}doctor`")


def _asked(provided: str | None, question: str, default: str = "") -> str | None:
    if provided is not None or not sys.stdin.isatty():
        return provided
    answer: str = click.prompt(question, default=default, show_default=bool(default))
    return answer


def _named(others: tuple[str, ...]) -> dict[str, str]:
    values = {}
    for word in others:
        name, separator, text = word.partition("=")
        if not separator or name not in Settings.__struct_fields__:
            raise click.UsageError(
                f"--set {word}: expected NAME=VALUE with the name of a setting (see docs/settings.md)"
            )
        values[name] = text
    return values


def _check(chosen: Settings) -> None:
    """Raise `InvalidInput` for an invalid setting that would otherwise be noticed only when a server starts."""
    if chosen.base_url:
        check_base_url(chosen.base_url)
    if chosen.contact_email:
        check_email(chosen.contact_email)
    if chosen.mail:
        mailer_of(chosen)
    check_timelines(chosen)


@click.group()
def mail() -> None:
    """Test the mail settings."""


@mail.command()
@click.argument("address")
@click.option("--language", default="en", show_default=True, help="Language code of the mail.")
@pass_settings
def test(settings: Settings, /, address: str, language: str) -> None:
    """Send a test mail to ADDRESS with the settings `mail` and `mail_from`, and show the reply of the mail server."""
    if not settings.mail:
        raise InvalidInput("mail is not configured: set mail to the URL of an SMTP server (docs/howto/mail.md)")
    mailer, letter = mailer_of(settings), trial(stationery_of(settings), check_email(address), language)
    begun = time.monotonic()
    try:
        asyncio.run(mailer.send(letter))
    except Unavailable:
        raise
    except ShoalError as error:
        raise Unavailable(str(error)) from error
    ms = 1_000 * (time.monotonic() - begun)
    click.echo(f"mail accepted after {ms:.0f} ms: from {sender_of(settings)} to {letter.to}")


@click.group()
def push() -> None:
    """Generate a key for web push."""


@push.command()
def key() -> None:
    """Print a new private key, for the setting `push_key` of all processes of a network.

    Keep it, and keep it secret: a new key invalidates all subscriptions of apps and browsers.
    """
    click.echo(new_key())
