"""A browser without scripts, in this process: it opens pages, follows links by their words, and sends forms by their buttons."""

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
from tests.api.world import BASE, World
from tests.web.links import ignored, undeclared

PASSWORD = "low tide at dawn"


class Page:
    """A page as it came."""

    def __init__(self, visitor: Visitor, url: str, answer: httpx.Response) -> None:
        self._visitor = visitor
        self.url = url
        self.answer = answer
        is_html = "html" in answer.headers.get("content-type", "")
        self.html = BeautifulSoup(answer.text if is_html else "", "html.parser")

    @property
    def status(self) -> int:
        """Return the status of the answer."""
        return self.answer.status_code

    @property
    def path(self) -> str:
        """Return the path and query of the page."""
        parts = urlsplit(self.url)
        return parts.path + (f"?{parts.query}" if parts.query else "")

    @property
    def title(self) -> str:
        """Return the words in the tab."""
        return _words(self.html.title)

    @property
    def text(self) -> str:
        """Return all that is written on the page itself, without the frame."""
        return _words(self.html.find("main"))

    @property
    def posts(self) -> list[Tag]:
        """Return the posts on the page, in their order."""
        return list(self.html.find_all("article"))

    def post(self, text: str) -> Tag:
        """Return the post that has this text."""
        found = [post for post in self.posts if text in _words(post)]
        assert found, f"no post says {text!r}: {self.text[:400]}"
        return found[0]

    def one(self, selector: str) -> Tag:
        """Return the first element that a CSS selector finds."""
        return found_in(self.html, selector)

    def links(self, name: str = "") -> list[Tag]:
        """Return the links that say this."""
        return [link for link in self.html.find_all("a", href=True) if not name or name in _words(link)]

    def follow(self, name: str) -> Page:
        """Return the page that a link leads to, by its words."""
        found = self.links(name)
        assert found, f"no link says {name!r} on {self.path}"
        return self._visitor.open(urljoin(self.url, str(found[0]["href"])))

    def press(self, name: str, within: Tag | None = None, files: Any = None, **fields: object) -> Page:
        """Return the page that comes when a button is pressed, by its words, once fields of its form are filled in."""
        buttons = [
            one for one in (within or self.html).find_all("button") if name in (_words(one), one.get("title", ""))
        ]
        buttons = buttons or [one for one in (within or self.html).find_all("button") if name in _words(one)]
        assert buttons, (
            f"no button says {name!r} on {self.path}: {[_words(one) for one in self.html.find_all('button')]}"
        )
        return self._sent(buttons[0], fields, files)

    def field(self, name: str) -> Tag:
        """Return the field that a label names."""
        for label in self.html.find_all("label"):
            if name in _words(label):
                found = label.find(["input", "select", "textarea"]) or self.html.find(id=str(label.get("for")))
                assert isinstance(found, Tag), f"the label {name!r} is of no field"
                return found
        raise AssertionError(f"no label says {name!r} on {self.path}")

    def texts(self, name: str) -> list[str]:
        """Return what the elements say that have this class: for what has neither a role nor a name."""
        return [_words(one) for one in self.html.find_all(class_=name)]

    @property
    def form_token(self) -> str:
        """Return the token of the forms on the page."""
        found = self.html.find("input", attrs={"name": "form_token"})
        assert isinstance(found, Tag), "there is no form on the page"
        return str(found["value"])

    def _sent(self, button: Tag, fields: dict[str, object], files: Any) -> Page:
        form = self.html.find(id=str(button["form"])) if button.has_attr("form") else button.find_parent("form")
        assert isinstance(form, Tag), "the button is in no form"
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
        """Return the fields of a form, also those that stand elsewhere on the page."""
        kinds = ["input", "textarea", "select"]
        elsewhere = self.html.find_all(kinds, attrs={"form": str(form["id"])}) if form.get("id") else []
        return [*form.find_all(kinds), *elsewhere]


class Visitor:
    """Somebody with a browser of their own, which runs no scripts."""

    def __init__(self, world: World, language: str = "en") -> None:
        self._world = world
        self._client = httpx.AsyncClient(
            transport=httpx.ASGITransport(world.app),
            base_url=BASE,
            follow_redirects=True,
            headers={"Accept-Language": language, "Sec-Fetch-Site": "same-origin", "Accept": "text/html"},
        )

    def open(self, path: str, **headers: str) -> Page:
        """Open a page, and go where it sends the browser."""
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
        """Send a form, and go where its answer sends the browser."""
        if not (multipart or files):
            urlencoded = {**(headers or {}), "Content-Type": "application/x-www-form-urlencoded"}
            return self._page(self._client.post(path, content=urlencode(values), headers=urlencoded))
        # Parts in the order of the fields, as browsers send them: a list of things is told apart by it.
        parts: list[tuple[str, Any]] = [(name, (None, value)) for name, value in values]
        sent = list(files.items()) if isinstance(files, dict) else list(files or [("", ("", b""))])
        return self._page(self._client.post(path, files=[*parts, *sent], headers=headers))

    def log_in(self, name: str, password: str = PASSWORD) -> Self:
        """Log in by the form."""
        page = self.open("/login").press("Log in", username=name, password=password)
        assert page.status == 200, page.text
        return self

    def come_in(self, name: str) -> None:
        """Be logged in as a member, without the form and its slow password."""
        found = self._world.run(members.find(self._world.network.writes, name))
        assert found is not None, name
        begun = self._world.run(sessions.begin(self._world.network.writes, found, proved=True))
        self._client.cookies.set("shoal_login", begun.text, domain="shoal.test", path="/")

    def cookie(self, name: str) -> str:
        """Return the value of a cookie; empty where the browser has none."""
        return self._client.cookies.get(name) or ""

    def _page(self, asked: Coroutine[Any, Any, httpx.Response]) -> Page:
        answer = self._world.run(asked)
        for redirect in answer.history:
            target = urljoin(str(redirect.url), redirect.headers["location"])
            assert not ignored(target), f"{redirect.url} leads to {target}, which does not read all of its parameters"
        page = Page(self, str(answer.url), answer)
        assert (unread := undeclared(page.url, page.html)) == [], f"{page.path} sends {unread}"
        return page


def member(world: World, name: str, **more: Any) -> Member:
    """Return a new member who can log in."""
    return world.run(members.register(world.network.writes, name, hashed=hashed(), email=f"{name}@example.org", **more))


@cache
def hashed() -> str:
    """Return the hash of everybody's password: to make one takes a tenth of a second by design."""
    return asyncio.run(authentication.hashed(PASSWORD))


def visitor(world: World, name: str = "", language: str = "en") -> Visitor:
    """Return somebody with a browser, logged in as the member with this name if one is given."""
    made = Visitor(world, language)
    if name:
        made.come_in(name)
    return made


def plain_ctx(world: World) -> PageContext:
    """Return the visit of a stranger to the start page, for tests of views."""
    scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": []}
    return world.run(ctx_of(Context(ANONYMOUS, Request(scope), app_context_of(world.app_parts), {})))


def _values(fields: Sequence[Tag]) -> Sequence[tuple[str, str]]:
    """Return what these fields of a form send as they stand."""
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
    """Return the first element in another that a CSS selector finds."""
    found = element.select_one(selector)
    assert found is not None, f"nothing is {selector!r}"
    return found


def _words(element: object) -> str:
    return " ".join(element.get_text(" ").split()) if isinstance(element, Tag) else ""
