"""A browser without scripts, in this process: it opens pages, follows links by their text, and submits forms by their buttons."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from functools import cache
from typing import Any, Self
from urllib.parse import urlencode, urljoin, urlsplit

import httpx
from bs4 import BeautifulSoup, Tag
from starlette.requests import Request

from shoal.commands import authentication, members, sessions
from shoal.core.model import Member
from shoal.http.routes import ANONYMOUS
from shoal.mastodon_api.context import Context, app_context_of
from shoal.web.request_context import PageContext, ctx_of
from tests.api.in_memory_network import BASE, NetworkFixture
from tests.web.link_parameters import ignored, undeclared

PASSWORD = "low tide at dawn"


class Page:
    """A response and its parsed HTML."""

    def __init__(self, visitor: Visitor, url: str, answer: httpx.Response) -> None:
        self._visitor = visitor
        self.url = url
        self.answer = answer
        is_html = "html" in answer.headers.get("content-type", "")
        self.html = BeautifulSoup(answer.text if is_html else "", "lxml")

    @property
    def status(self) -> int:
        """Return the HTTP status."""
        return self.answer.status_code

    @property
    def path(self) -> str:
        """Return the path and query of the page."""
        parts = urlsplit(self.url)
        return parts.path + (f"?{parts.query}" if parts.query else "")

    @property
    def title(self) -> str:
        """Return the title of the page."""
        return _words(self.html.title)

    @property
    def text(self) -> str:
        """Return the text of the `main` element."""
        return _words(self.html.find("main"))

    @property
    def photos(self) -> Sequence[Tag]:
        """Return the links of photo grids, in order."""
        return self.html.select(".photo-rows > a.photo")

    @property
    def posts(self) -> list[Tag]:
        """Return the posts on the page, in order."""
        return list(self.html.find_all("article"))

    def post(self, text: str) -> Tag:
        """Return the first post that contains this text."""
        found = [post for post in self.posts if text in _words(post)]
        assert found, f"no post contains {text!r}: {self.text[:400]}"
        return found[0]

    def one(self, selector: str) -> Tag:
        """Return the first element that matches a CSS selector."""
        return found_in(self.html, selector)

    def links(self, name: str = "") -> list[Tag]:
        """Return the links whose text contains `name`."""
        return [link for link in self.html.find_all("a", href=True) if not name or name in _words(link)]

    def follow(self, name: str) -> Page:
        """Follow a link by its text, and return the page."""
        found = self.links(name)
        assert found, f"no link contains {name!r} on {self.path}"
        return self._visitor.open(urljoin(self.url, str(found[0]["href"])))

    def press(self, name: str, within: Tag | None = None, files: Any = None, **fields: object) -> Page:
        """Fill in fields of a form, press its button by text or title, and return the resulting page."""
        buttons = [
            one for one in (within or self.html).find_all("button") if name in (_words(one), one.get("title", ""))
        ]
        buttons = buttons or [one for one in (within or self.html).find_all("button") if name in _words(one)]
        assert buttons, (
            f"no button is named {name!r} on {self.path}: {[_words(one) for one in self.html.find_all('button')]}"
        )
        return self._sent(buttons[0], fields, files)

    def field(self, name: str) -> Tag:
        """Return the field of the first label that contains `name`."""
        for label in self.html.find_all("label"):
            if name in _words(label):
                found = label.find(["input", "select", "textarea"]) or self.html.find(id=str(label.get("for")))
                assert isinstance(found, Tag), f"the label {name!r} has no field"
                return found
        raise AssertionError(f"no label contains {name!r} on {self.path}")

    def texts(self, name: str) -> list[str]:
        """Return the texts of the elements with this CSS class, for elements without a role or a name."""
        return [_words(one) for one in self.html.find_all(class_=name)]

    @property
    def form_token(self) -> str:
        """Return the token of the forms on the page."""
        found = self.html.find("input", attrs={"name": "form_token"})
        assert isinstance(found, Tag), "there is no form on the page"
        return str(found["value"])

    def _sent(self, button: Tag, fields: dict[str, object], files: Any) -> Page:
        form = self.html.find(id=str(button["form"])) if button.has_attr("form") else button.find_parent("form")
        assert isinstance(form, Tag), "the button belongs to no form"
        values = list(_values(self._fields(form)))
        known = {name for name, _ in values} | {str(one.get("name")) for one in self._fields(form)}
        for name, value in fields.items():
            field = name if name in known else f"{name}[]"
            assert field in known, f"the form has no field {name}: {sorted(known)}"
            values = [pair for pair in values if pair[0] != field]
            values += [
                (field, str(one))
                for one in (value if isinstance(value, Sequence) and not isinstance(value, str) else [value])
            ]
        if button.get("name"):
            values.append((str(button["name"]), str(button.get("value", ""))))
        target = urljoin(self.url, str(button.get("formaction") or form.get("action") or self.url))
        if str(form.get("method", "get")).lower() == "get":
            return self._visitor.open(f"{target}?{urlencode(values)}")
        return self._visitor.post(target, values, files, multipart="multipart" in str(form.get("enctype", "")))

    def _fields(self, form: Tag) -> list[Tag]:
        """Return the fields of a form, including fields elsewhere on the page."""
        kinds = ["input", "textarea", "select"]
        elsewhere = self.html.find_all(kinds, attrs={"form": str(form["id"])}) if form.get("id") else []
        return [*form.find_all(kinds), *elsewhere]


class Visitor:
    """A user with a separate browser that runs no scripts."""

    def __init__(self, fixture: NetworkFixture, language: str = "en") -> None:
        self._fixture = fixture
        self._client = httpx.AsyncClient(
            transport=httpx.ASGITransport(fixture.app),
            base_url=BASE,
            follow_redirects=True,
            headers={"Accept-Language": language, "Sec-Fetch-Site": "same-origin", "Accept": "text/html"},
        )

    def open(self, path: str, **headers: str) -> Page:
        """Open a page and follow redirects."""
        return self._page(self._client.get(path, headers=headers))

    def post(
        self,
        path: str,
        values: Sequence[tuple[str, str]],
        files: Any = None,
        *,
        multipart: bool = False,
        headers: dict[str, str] | None = None,
    ) -> Page:
        """Submit a form and follow redirects."""
        if not (multipart or files):
            urlencoded = {**(headers or {}), "Content-Type": "application/x-www-form-urlencoded"}
            return self._page(self._client.post(path, content=urlencode(values), headers=urlencoded))
        # Parts are in field order, as browsers send them: the server separates the items of a list by it.
        parts: list[tuple[str, Any]] = [(name, (None, value)) for name, value in values]
        sent = list(files.items()) if isinstance(files, dict) else list(files or [("", ("", b""))])
        return self._page(self._client.post(path, files=[*parts, *sent], headers=headers))

    def log_in(self, name: str, password: str = PASSWORD) -> Self:
        """Log in with the form."""
        page = self.open("/login").press("Log in", username=name, password=password)
        assert page.status == 200, page.text
        return self

    def come_in(self, name: str) -> None:
        """Log in as a member, without the form and its slow password hash."""
        found = self._fixture.run(members.find(self._fixture.network.writes, name))
        assert found is not None, name
        begun = self._fixture.run(sessions.begin(self._fixture.network.writes, found, proved=True))
        self.set_cookie("shoal_login", begun.text)

    def cookie(self, name: str) -> str:
        """Return the value of a cookie, or an empty string if the browser has none."""
        return self._client.cookies.get(name) or ""

    def set_cookie(self, name: str, value: str) -> None:
        self._client.cookies.set(name, value, domain="shoal.test", path="/")

    def _page(self, asked: Coroutine[Any, Any, httpx.Response]) -> Page:
        answer = self._fixture.run(asked)
        for redirect in answer.history:
            target = urljoin(str(redirect.url), redirect.headers["location"])
            assert not ignored(target), (
                f"{redirect.url} redirects to {target}, which does not declare all of its parameters"
            )
        page = Page(self, str(answer.url), answer)
        assert (unread := undeclared(page.url, page.html)) == [], f"{page.path} sends undeclared parameters: {unread}"
        return page


def member(fixture: NetworkFixture, name: str, **more: Any) -> Member:
    """Register a member who can log in."""
    return fixture.run(
        members.register(fixture.network.writes, name, hashed=hashed(), email=f"{name}@example.org", **more)
    )


@cache
def hashed() -> str:
    """Return the hash of `PASSWORD`, shared by all members: a hash takes a tenth of a second by design."""
    return asyncio.run(authentication.hashed(PASSWORD))


def visitor(fixture: NetworkFixture, name: str = "", language: str = "en") -> Visitor:
    """Return a visitor, logged in as the member with this name if one is given."""
    made = Visitor(fixture, language)
    if name:
        made.come_in(name)
    return made


def plain_ctx(fixture: NetworkFixture) -> PageContext:
    """Return the context of an anonymous request for the start page, for tests of views."""
    scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": []}
    return fixture.run(ctx_of(Context(ANONYMOUS, Request(scope), app_context_of(fixture.app_parts), {})))


def _values(fields: Sequence[Tag]) -> Sequence[tuple[str, str]]:
    """Return the values that these form fields send if they are left unchanged."""
    found: list[tuple[str, str]] = []
    for one in fields:
        name = str(one.get("name") or "")
        kind = str(one.get("type", "text"))
        if not name or one.has_attr("disabled") or kind in {"submit", "button", "file"}:
            continue
        if kind in {"checkbox", "radio"}:
            if one.has_attr("checked"):
                found.append((name, str(one.get("value", "on"))))
        elif one.name == "select":
            chosen = [option for option in one.find_all("option") if option.has_attr("selected")] or one.find_all(
                "option"
            )[:1]
            found += [(name, str(option.get("value", _words(option)))) for option in chosen]
        else:
            found.append((name, one.text if one.name == "textarea" else str(one.get("value", ""))))
    return found


def found_in(element: Tag, selector: str) -> Tag:
    """Return the first descendant of an element that matches a CSS selector."""
    found = element.select_one(selector)
    assert found is not None, f"no element matches {selector!r}"
    return found


def _words(element: object) -> str:
    return " ".join(element.get_text(" ").split()) if isinstance(element, Tag) else ""
