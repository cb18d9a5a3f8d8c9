"""Parameters of links and forms that the target page does not declare and would ignore."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from urllib.parse import parse_qsl, urljoin, urlsplit

import msgspec
from bs4 import BeautifulSoup, Tag

from shoal import settings
from shoal.http.application import Trie
from shoal.http.routes import Route
from shoal.web.request_context import LANGUAGE_PARAMETER
from shoal.web.routes import pages

_LINKS = {
    "href": "GET",
    "hx-get": "GET",
    "hx-post": "POST",
    "formaction": "POST",
    "data-ask": "GET",
    "data-make": "GET",
    "data-offers": "GET",
    "data-words": "GET",
    "data-files": "POST",
}
"""Attributes with the address of a page, and the method of the request."""


def undeclared(url: str, html: BeautifulSoup) -> list[str]:
    """Return the parameters of the links and forms of a page that their targets do not declare."""
    sent = [*_linked(html), *_submitted(url, html)]
    return [
        f"{method} {path}: {name}"
        for method, path, names in sent
        for name in names
        if _is_unknown(method, urljoin(url, path), urlsplit(url).netloc, name)
    ]


def ignored(url: str) -> list[str]:
    """Return the query parameters of an address that its page does not declare."""
    return [name for name in _names(url) if _is_unknown("GET", url, urlsplit(url).netloc, name)]


def _linked(html: BeautifulSoup) -> Iterator[tuple[str, str, list[str]]]:
    for element in html.find_all(True):
        for attribute in _LINKS.keys() & element.attrs.keys():
            if names := _names(str(element[attribute])):
                yield _LINKS[attribute], str(element[attribute]), names


def _submitted(url: str, html: BeautifulSoup) -> Iterator[tuple[str, str, list[str]]]:
    for form in html.find_all("form"):
        path, method = str(form.get("action") or url), str(form.get("method", "get")).upper()
        fields = form.find_all(["input", "select", "textarea", "button"])
        # A GET form replaces the query of its action.
        query = _names(path) if method == "POST" else []
        yield method, path, [*query, *(str(field["name"]) for field in fields if _is_sent(field))]


def _is_sent(field: Tag) -> bool:
    # Password managers read the user name from a read-only field, which the server does not need.
    return bool(field.get("name")) and not (field.get("autocomplete") == "username" and field.has_attr("readonly"))


def _names(url: str) -> list[str]:
    return [name for name, _ in parse_qsl(urlsplit(url).query, keep_blank_values=True)]


def _is_unknown(method: str, url: str, host: str, name: str) -> bool:
    if urlsplit(url).netloc != host:
        return False
    found = _routes().find(urlsplit(url).path)
    if found is None or method not in found[0]:
        return False
    # Every page reads the language.
    if name == LANGUAGE_PARAMETER and method == "GET":
        return False
    return name.partition("[")[0] not in _declared(found[0][method].params)


@cache
def _declared(params: type[msgspec.Struct] | None) -> frozenset[str]:
    return frozenset(one.encode_name for one in msgspec.structs.fields(params)) if params else frozenset()


@cache
def _routes() -> Trie[Route]:
    trie: Trie[Route] = Trie()
    for route in pages(settings.load({})):
        trie.add(route.method, route.path, route)
    return trie
