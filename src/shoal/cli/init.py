"""`shoal init`: a settings file to begin with."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import click

from shoal import private_files
from shoal.cli.group import GivenSettings
from shoal.core.errors import InvalidInput
from shoal.core.text import check_email
from shoal.settings import Settings, build, config_path
from shoal.settings_file import render
from shoal.wiring.mail import mailer_of
from shoal.wiring.places import check_base_url

_MOST_LINE = 10_000


@click.command()
@click.option(
    "--to",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("shoal.toml"),
    show_default=True,
    help="The file to write; one that exists is never replaced.",
)
@click.option("--url", metavar="URL", help="How clients will reach the server: https://social.example.org.")
@click.option("--title", help="Name of the network.")
@click.option("--contact-email", metavar="ADDRESS", help="Address for questions of members.")
@click.option(
    "--mail", metavar="URL", help='Mail server, smtps://user:password@host; "-" reads it from standard input.'
)
@click.option("--set", "others", multiple=True, metavar="NAME=VALUE", help="Any other setting, as in the environment.")
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
    """Write a settings file in which every setting is explained.

    On a terminal it asks for what no option says. Only the owner of the file may read it, since it may hold passwords.
    """
    if path.exists():
        raise InvalidInput(f"{path} exists already: name another file with --to, or move that one away")
    if mail == "-":
        mail = sys.stdin.readline(_MOST_LINE).strip()
    values: dict[str, Any] = {**given.overrides, **_named(others)}
    url, title, contact_email, mail = (
        values.get(name) if told is None else told
        for name, told in (("base_url", url), ("title", title), ("contact_email", contact_email), ("mail", mail))
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
    click.echo(f"{path} is written: `shoal {option}doctor` looks at it")


def _asked(told: str | None, question: str, default: str = "") -> str | None:
    if told is not None or not sys.stdin.isatty():
        return told
    answer: str = click.prompt(question, default=default, show_default=bool(default))
    return answer


def _named(others: tuple[str, ...]) -> dict[str, str]:
    values = {}
    for word in others:
        name, separator, text = word.partition("=")
        if not separator or name not in Settings.__struct_fields__:
            raise click.UsageError(f"--set {word}: it takes NAME=VALUE, with the name of a setting (docs/settings.md)")
        values[name] = text
    return values


def _check(chosen: Settings) -> None:
    """Raise `InvalidInput` for values that a server would find wrong only later."""
    if chosen.base_url:
        check_base_url(chosen.base_url)
    if chosen.contact_email:
        check_email(chosen.contact_email)
    if chosen.mail:
        mailer_of(chosen)
