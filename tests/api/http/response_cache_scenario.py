"""Random actions of members in a network, and a comparison of cached pages with fresh ones after each action."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx
from msgspec import structs

from shoal.app.network import Network
from shoal.core.model import Role
from shoal.mastodon_api.context import app_context_of
from shoal.queries.context import ExpiringCache, Reads, Renewed
from shoal.server import AppParts, application
from shoal.tagcloud.reader import TagCloud
from tests.api.in_memory_network import BASE, NetworkFixture, Someone, picture

NAMES = ("ann", "ben", "cleo", "dan", "eva")
HOME = "/api/v1/timelines/home"
WORDS = ("tide", "boat", "gull", "#harbour", "#Morning", "@ann", "@cleo")


def never_old(network: Network, reads: Reads) -> Reads:
    """Return reads that load the tag cloud and compute rankings for every request, so that no result is stale."""
    tags = TagCloud(network.tag_store, seconds=0)
    return replace(
        reads, tags=tags, trending=Renewed(0, 0), popular=Renewed(0, 0), related=ExpiringCache[Any, Any](keep_ms=0)
    )


class FrontEnd:
    """A front end of a network with a response cache of `answer_cache` kilobytes."""

    def __init__(self, here: NetworkFixture, answer_cache: int, app_parts: AppParts | None = None) -> None:
        """Create a front end. `app_parts` defaults to the parts of `here` with `never_old` reads."""
        app_parts = app_parts or replace(here.app_parts, reads=never_old(here.network, here.app_parts.reads))
        settings = structs.replace(app_parts.settings, answer_cache=answer_cache)
        self.app_context = app_context_of(replace(app_parts, settings=settings))
        self._here = here
        transport = httpx.ASGITransport(application(self.app_context, https=False))
        self._client = httpx.AsyncClient(transport=transport, base_url=BASE)

    def ask(self, path: str, token: str = "", **headers: str) -> httpx.Response:
        return self._here.run(self.request(path, token, **headers))

    async def request(self, path: str, token: str = "", **headers: str) -> httpx.Response:
        if token:
            headers["Authorization"] = f"Bearer {token}"
        # One client simulates many browsers, so it keeps no cookies.
        self._client.cookies.clear()
        return await self._client.get(path, headers=headers)

    def send(self, path: str, form: dict[str, str], cookie: str) -> httpx.Response:
        """Send a form as a browser does."""
        self._client.cookies.clear()
        headers = {"Cookie": cookie, "Sec-Fetch-Site": "same-origin"}
        return self._here.run(self._client.post(path, data=form, headers=headers))

    def close(self) -> None:
        self._here.run(self._client.aclose())


class Story:
    """Members who perform random actions one after another, and a random choice of pages to read between them."""

    def __init__(self, here: NetworkFixture, seed: int) -> None:
        self.here = here
        self.dice = random.Random(seed)
        self.people = [here.join(name) for name in NAMES]
        self.boss = here.staff("boss", Role.ADMIN)
        self.posts: list[tuple[Someone, str]] = []
        self.lists: list[tuple[Someone, str]] = []
        self.filters: list[tuple[Someone, str]] = []
        self.polls: list[str] = []
        self.acts: list[Callable[[], None]] = [
            *[self.post] * 6,
            *[self.react] * 6,
            *[self.relate] * 5,
            self.comment,
            self.edit,
            self.delete,
            self.vote,
            self.profile,
            self.listing,
            self.filtering,
            self.tag,
            self.judge,
            self.trend,
            self.report,
            self.tidy,
        ]

    def someone(self) -> Someone:
        return self.dice.choice(self.people)

    def say(self, who: Someone | None = None, method: str = "POST", path: str = "", **form: Any) -> Any:
        """Send a request that the server may refuse: not every action is possible at any time."""
        answer = self.here.ask(method, path, who or self.someone(), json=form)
        assert answer.status_code < 500, (path, answer.text)
        return answer.json() if answer.status_code == 200 else {}

    def post(self, **more: Any) -> None:
        who = self.someone()
        text = " ".join(self.dice.sample(WORDS, 3))
        form: dict[str, Any] = {
            "status": text,
            "visibility": self.dice.choice(("public", "public", "unlisted", "private", "direct")),
            **more,
        }
        if self.dice.random() < 0.15:
            form["poll"] = {"options": ["yes", "no"], "expires_in": self.dice.choice((300, 3_600))}
        elif self.dice.random() < 0.25:
            files = {"file": ("a.png", picture(), "image/png")}
            made = self.here.ask("POST", "/api/v2/media", who, files=files).json()
            form["media_ids"] = [made["id"]] if "id" in made else []
        found = self.say(who, path="/api/v1/statuses", **form)
        if found:
            self.posts.append((who, found["id"]))
            if found["poll"]:
                self.polls.append(found["poll"]["id"])

    def comment(self) -> None:
        if self.posts:
            self.post(in_reply_to_id=self.dice.choice(self.posts)[1])

    def edit(self) -> None:
        if self.posts:
            who, id_ = self.dice.choice(self.posts)
            self.say(
                who, "PUT", f"/api/v1/statuses/{id_}", status="other words #harbour", sensitive=self.dice.random() < 0.5
            )

    def delete(self) -> None:
        if len(self.posts) > 5:
            who, id_ = self.posts.pop(self.dice.randrange(len(self.posts)))
            self.say(who, "DELETE", f"/api/v1/statuses/{id_}")

    def react(self) -> None:
        if not self.posts:
            return
        verbs = (
            "favourite",
            "unfavourite",
            "reblog",
            "unreblog",
            "bookmark",
            "unbookmark",
            "mute",
            "unmute",
            "pin",
            "unpin",
        )
        owner, id_ = self.dice.choice(self.posts)
        verb = self.dice.choice(verbs)
        who = owner if verb in {"pin", "unpin"} else self.someone()
        if self.dice.random() < 0.1:
            self.say(who, "PUT", f"/api/v1/pleroma/statuses/{id_}/reactions/\N{SPARKLES}")
        else:
            self.say(who, path=f"/api/v1/statuses/{id_}/{verb}")

    def relate(self) -> None:
        verbs = ("follow", "follow", "follow", "unfollow", "block", "unblock", "unblock", "mute", "unmute", "unmute")
        verb = self.dice.choice((*verbs, "remove_from_followers"))
        form: dict[str, Any] = {}
        if verb == "follow":
            form = {"reblogs": self.dice.random() < 0.7, "languages": self.dice.choice(([], ["en"]))}
        self.say(path=f"/api/v1/accounts/{self.someone().id}/{verb}", **form)

    def vote(self) -> None:
        if self.polls:
            self.say(path=f"/api/v1/polls/{self.dice.choice(self.polls)}/votes", choices=[self.dice.randrange(2)])

    def profile(self) -> None:
        form: dict[str, Any] = self.dice.choice(
            (
                {"discoverable": self.dice.random() < 0.7},
                {"display_name": self.dice.choice(WORDS)},
                {"note": self.dice.choice(WORDS)},
                {"locked": self.dice.random() < 0.3},
                {"hide_collections": self.dice.random() < 0.5},
            )
        )
        self.say(method="PATCH", path="/api/v1/accounts/update_credentials", **form)

    def listing(self) -> None:
        if not self.lists or self.dice.random() < 0.3:
            who = self.someone()
            made = self.say(who, path="/api/v1/lists", title="friends", exclusive=self.dice.random() < 0.5)
            if made:
                self.lists.append((who, made["id"]))
            return
        who, id_ = self.dice.choice(self.lists)
        method = self.dice.choice(("POST", "POST", "DELETE"))
        self.say(who, method, f"/api/v1/lists/{id_}/accounts", account_ids=[self.someone().id])

    def filtering(self) -> None:
        if not self.filters or self.dice.random() < 0.6:
            who = self.someone()
            form: dict[str, Any] = {
                "title": "no boats",
                "context": ["home", "public", "thread", "account", "notifications"],
                "filter_action": self.dice.choice(("hide", "warn")),
                "keywords_attributes": [{"keyword": self.dice.choice(WORDS[:3])}],
            }
            if made := self.say(who, path="/api/v2/filters", **form):
                self.filters.append((who, made["id"]))
        else:
            who, id_ = self.filters.pop()
            self.say(who, "DELETE", f"/api/v2/filters/{id_}")

    def tag(self) -> None:
        self.say(path=f"/api/v1/tags/harbour/{self.dice.choice(('follow', 'unfollow'))}")

    def judge(self) -> None:
        whom = self.someone().id
        verb = self.dice.choice(
            ("silence", "unsilence", "sensitive", "unsensitive", "suspend", "unsuspend", "unsuspend")
        )
        if verb in {"silence", "sensitive", "suspend"}:
            self.say(self.boss, path=f"/api/v1/admin/accounts/{whom}/action", type=verb)
        else:
            self.say(self.boss, path=f"/api/v1/admin/accounts/{whom}/{verb}")

    def trend(self) -> None:
        trends = "/api/v1/admin/trends"
        if self.posts and self.dice.random() < 0.5:
            _, id_ = self.dice.choice(self.posts)
            self.say(self.boss, path=f"{trends}/statuses/{id_}/{self.dice.choice(('reject', 'approve'))}")
        else:
            tag = self.dice.choice(("harbour", "morning"))
            self.say(self.boss, path=f"{trends}/tags/{tag}/{self.dice.choice(('reject', 'approve'))}")

    def report(self) -> None:
        if self.posts:
            owner, id_ = self.dice.choice(self.posts)
            self.say(path="/api/v1/reports", account_id=owner.id, status_ids=[id_])

    def tidy(self) -> None:
        self.say(path=self.dice.choice(("/api/v1/notifications/clear", "/api/v1/markers")), home={"last_read_id": "1"})

    def step(self) -> None:
        self.dice.choice(self.acts)()
        if self.dice.random() < 0.7:
            self.here.settle()

    def pages(self) -> list[tuple[str, str]]:
        """Return seven cacheable paths, each with the token of its viewer, empty for an anonymous one."""
        of, who = self.someone().id, self.someone()
        anybody = self.dice.choice((who.token, ""))
        chosen = [
            (HOME, who.token),
            (HOME, self.someone().token),
            (f"{HOME}?limit=5", self.someone().token),
            ("/api/v1/timelines/public", anybody),
            ("/api/v1/timelines/tag/harbour", anybody),
            (f"/api/v1/accounts/{of}", anybody),
            (f"/api/v1/accounts/{of}/statuses", anybody),
            (f"/api/v1/accounts/{of}/statuses?pinned=true", anybody),
            (f"/api/v1/accounts/{of}/followers", anybody),
            (f"/api/v1/accounts/{of}/following", anybody),
            ("/api/v1/notifications", who.token),
            ("/api/v1/trends/tags", anybody),
            ("/api/v1/trends/statuses", anybody),
            ("/api/v1/tags/harbour", anybody),
            ("/api/shoal/v1/tags/harbour/related", ""),
        ]
        if self.posts:
            _, id_ = self.dice.choice(self.posts)
            chosen += [(f"/api/v1/statuses/{id_}", anybody), (f"/api/v1/statuses/{id_}/context", anybody)]
        if self.lists:
            owner, id_ = self.dice.choice(self.lists)
            chosen.append((f"/api/v1/timelines/list/{id_}", owner.token))
        return self.dice.sample(chosen, 7)


def told(story: Story, steps: int, ours: FrontEnd, look: Callable[[], str]) -> str:
    """Perform random actions and call `look` after each; return the first difference that it finds, or an empty string."""
    for _ in range(steps):
        story.step()
        if wrong := look():
            return wrong
    response_cache = ours.app_context.response_cache
    assert response_cache is not None
    assert response_cache.missed < response_cache.asked - steps, "the response cache had too few hits"
    return ""


def differs(story: Story, ours: FrontEnd, fresh: FrontEnd) -> str:
    """Read some pages twice; return the first difference from a fresh page, or an empty string."""
    return next(filter(None, (_differs(story, ours, fresh, *page) for page in story.pages())), "")


def _differs(story: Story, ours: FrontEnd, fresh: FrontEnd, path: str, token: str) -> str:
    def looked() -> str:
        wanted = fresh.ask(path, token)
        for found in (ours.ask(path, token), ours.ask(path, token)):
            said = [(one.status_code, one.content, one.headers.get("link", "")) for one in (found, wanted)]
            if said[0] != said[1]:
                return f"{path}: {said[0]}, fresh: {said[1]}"
        return ""

    return looked() and at_rest(story, looked)


def at_rest(story: Story, looked: Callable[[], str]) -> str:
    """Settle the network and return any remaining difference: tags may have been counted between two reads."""
    story.here.settle()
    return looked()
