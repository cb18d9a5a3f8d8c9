"""An app that asks to be let in, as its page shows it."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlsplit

from shoal.http.authentication import in_words
from shoal.mastodon_api.oauth import OUT_OF_BAND, AuthorizeRequest
from shoal.web.visit import Visit


class AskingApp(NamedTuple):
    """An app that asks."""

    name: str
    letter: str
    """Stands for it, as it has no picture."""
    site: str
    """Host of its website; empty where it has none."""
    website: str


def app_of(asked: AuthorizeRequest) -> AskingApp:
    """Return the app of a request."""
    app = asked.app
    letter = next((character for character in app.name.upper() if character.isalnum()), "?")
    parts = urlsplit(app.website)
    shown = parts.scheme in {"http", "https"}
    return AskingApp(app.name, letter, parts.netloc if shown else "", app.website if shown else "")


def permissions_of(visit: Visit, asked: AuthorizeRequest) -> list[str]:
    """Return what the app may do once it is let in, a line each."""
    return [visit.words.text(line) for line in in_words(asked.scopes)]


def whither(asked: AuthorizeRequest) -> str:
    """Return where the browser goes next. An app may call itself what it likes; its address is where the code goes."""
    if asked.redirect_uri == OUT_OF_BAND:
        return ""
    parts = urlsplit(asked.redirect_uri)
    return parts.netloc if parts.scheme in {"http", "https"} else f"{parts.scheme}:"
