"""The address of everything that a client may open."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote, urlsplit

import msgspec

from shoal.core.media_files import MISSING_AVATAR, MISSING_HEADER
from shoal.core.model import Mention
from shoal.core.ranking.recipes import Recipe, recipe_link
from shoal.core.text import to_html


class Addresses(msgspec.Struct, frozen=True):
    """URLs below one root."""

    root: str
    """`https://example.org`, without a slash at the end."""
    domain: str
    """Our own name in `@user@domain`."""

    @property
    def netloc(self) -> str:
        """`host:port`, or the host alone where the port goes without saying."""
        return urlsplit(self.root).netloc

    @property
    def path(self) -> str:
        """The path of the root, without a slash at the end: empty where it has none."""
        return urlsplit(self.root).path

    def account(self, name: str) -> str:
        """A member's profile."""
        return f"{self.root}/@{name}"

    def status(self, name: str, id_: int) -> str:
        """A post or share of a member; the id stands last, where clients look for it."""
        return f"{self.root}/@{name}/{id_}"

    def tag(self, name: str) -> str:
        """The posts of a tag."""
        return f"{self.root}/tags/{quote(name)}"

    def recipe(self, recipe: Recipe) -> str:
        """Everything that a recipe for ranked feeds says, to be looked at and taken over."""
        return recipe_link(self.root, recipe)

    def media(self, key: str) -> str:
        """A stored file."""
        return f"{self.root}/media/{key}"

    def avatar(self, key: str) -> str:
        """A member's avatar, or the one of those who have none."""
        return self.media(key) if key else self.root + MISSING_AVATAR

    def header(self, key: str) -> str:
        """A member's header, or the one of those who have none."""
        return self.media(key) if key else self.root + MISSING_HEADER

    def html(self, text: str, mentions: Iterable[Mention] = ()) -> str:
        """Return a member's text as HTML, with links to the members, tags and URLs that it names."""
        urls = {mention.name: self.account(mention.name) for mention in mentions}
        return to_html(text, mentions=urls, tag_url=self.tag, domain=self.domain)
