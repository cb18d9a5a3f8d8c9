"""Remembered answers are as fresh ones would be, whatever was done a moment ago, and clients that have them are told so."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx
import pytest
from msgspec import structs

from shoal.api.context import front_of
from shoal.core.login.bearer import opened
from shoal.core.model import Role
from shoal.feeds import home
from shoal.graph.cache.read_sets import ChangeLog, ReadSet
from shoal.server import application
from shoal.services.login import sessions
from tests.api.world import BASE, Someone, World, picture, world
from tests.examples import examples

NAMES = ("ann", "ben", "cleo", "dan", "eva")
STEPS = 120
HOME = "/api/v1/timelines/home"
WORDS = ("tide", "boat", "gull", "#harbour", "#Morning", "@ann", "@cleo")


class FrontEnd:
    """A front end of a network, which remembers so many kilobytes of answers."""

    def __init__(self, here: World, answer_cache: int) -> None:
        settings = structs.replace(here.deps.settings, answer_cache=answer_cache)
        self.front = front_of(replace(here.deps, settings=settings))
        self._here = here
        transport = httpx.ASGITransport(application(self.front, https=False))
        self._client = httpx.AsyncClient(transport=transport, base_url=BASE)

    def ask(self, path: str, token: str = "", **headers: str) -> httpx.Response:
        if token:
            headers["Authorization"] = f"Bearer {token}"
        return self._here.run(self._client.get(path, headers=headers))

    def close(self) -> None:
        self._here.run(self._client.aclose())


class Story:
    """People who do everything, one act after the other, and pages of theirs that are looked at in between."""

    def __init__(self, here: World, seed: int) -> None:
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
            self.report,
            self.tidy,
        ]

    def someone(self) -> Someone:
        return self.dice.choice(self.people)

    def say(self, who: Someone | None = None, method: str = "POST", path: str = "", **form: Any) -> Any:
        """Do something that may be refused: not every act is possible at any time."""
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
        elif self.dice.random() < 0.15:
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
        """Paths that are remembered, each with the token of whoever looks."""
        of, who = self.someone().id, self.someone()
        anybody = self.dice.choice((who.token, ""))
        chosen = [
            (HOME, who.token),
            (f"{HOME}?limit=5", self.someone().token),
            ("/api/v1/timelines/public", anybody),
            ("/api/v1/timelines/tag/harbour", anybody),
            (f"/api/v1/accounts/{of}", anybody),
            (f"/api/v1/accounts/{of}/statuses", anybody),
            (f"/api/v1/accounts/{of}/statuses?pinned=true", anybody),
            (f"/api/v1/accounts/{of}/followers", anybody),
            (f"/api/v1/accounts/{of}/following", anybody),
            ("/api/v1/notifications", who.token),
        ]
        if self.posts:
            _, id_ = self.dice.choice(self.posts)
            chosen += [(f"/api/v1/statuses/{id_}", anybody), (f"/api/v1/statuses/{id_}/context", anybody)]
        if self.lists:
            owner, id_ = self.dice.choice(self.lists)
            chosen.append((f"/api/v1/timelines/list/{id_}", owner.token))
        return self.dice.sample(chosen, 5)


def differs(story: Story, ours: FrontEnd, fresh: FrontEnd) -> str:
    """Look at some pages twice; return the first that is not as a fresh one, empty for none."""
    for path, token in story.pages():
        wanted = fresh.ask(path, token)
        for found in (ours.ask(path, token), ours.ask(path, token)):
            said = [(one.status_code, one.content, one.headers.get("link", "")) for one in (found, wanted)]
            if said[0] != said[1]:
                return f"{path}: {said[0]}, fresh: {said[1]}"
    return ""


def played(seed: int, steps: int) -> str:
    """Return what differed in a story; empty for nothing."""
    with world() as here:
        story = Story(here, seed)
        ours, fresh = FrontEnd(here, 64_000), FrontEnd(here, 0)
        with contextlib.closing(ours), contextlib.closing(fresh):
            for _ in range(steps):
                story.step()
                if wrong := differs(story, ours, fresh):
                    return wrong
            answers = ours.front.answers
            assert answers is not None
            assert answers.missed < answers.asked - steps, "hardly anything was remembered"
    return ""


@pytest.mark.parametrize("seed", range(examples(3)))
def test_a_remembered_page_is_as_a_fresh_one(seed: int) -> None:
    assert played(seed, STEPS) == ""


@pytest.mark.parametrize(
    ("where", "what"),
    [
        (ReadSet, "note_objects"),
        (ReadSet, "note_lists"),
        (home, "depends_on"),
        (ChangeLog, "add"),
        (ChangeLog, "unchanged"),
    ],
)
def test_that_would_fail_if_anything_was_not_noted(monkeypatch: pytest.MonkeyPatch, where: object, what: str) -> None:
    monkeypatch.setattr(where, what, lambda *_: what == "unchanged")
    assert any(played(seed, STEPS) for seed in range(3))


def test_a_client_that_has_a_page_is_told_that_it_is_still_the_same() -> None:
    with world() as here:
        ann, ben = here.join("ann"), here.join("ben")
        here.json("POST", f"/api/v1/accounts/{ben.id}/follow", ann)
        ours = FrontEnd(here, 64_000)
        with contextlib.closing(ours):
            assert "etag" not in ours.ask(HOME, ann.token).headers
            tag = ours.ask(HOME, ann.token).headers["etag"]
            had = ours.ask(HOME, ann.token, **{"If-None-Match": tag})
            assert (had.status_code, had.content, had.headers["etag"]) == (304, b"", tag)
            assert had.headers["cache-control"] == "private, no-cache"
            assert "content-length" not in had.headers
            assert "content-type" not in had.headers
            assert ours.ask(HOME, ben.token, **{"If-None-Match": tag}).status_code == 200
            here.json("POST", "/api/v1/statuses", ben, json={"status": "Low tide"})
            here.settle()
            first, again = (ours.ask(HOME, ann.token, **{"If-None-Match": tag}) for _ in range(2))
            assert first.status_code == again.status_code == 200
            assert [one["content"] for one in first.json()] == ["<p>Low tide</p>"]
            assert first.headers["etag"] == again.headers["etag"] != tag


def test_nobody_is_given_the_answer_of_another_and_a_token_that_ended_gets_none() -> None:
    with world() as here:
        ann, ben = here.join("ann"), here.join("ben")
        private = here.json("POST", "/api/v1/statuses", ann, json={"status": "secret", "visibility": "direct"})
        path = f"/api/v1/statuses/{private['id']}"
        ours = FrontEnd(here, 64_000)
        with contextlib.closing(ours):
            assert [ours.ask(path, ann.token).status_code for _ in range(3)] == [200] * 3
            assert [ours.ask(path, token).status_code for token in (ben.token, "")] == [404, 404]
            here.run(sessions.end(here.writes, ann.member.id, opened(ann.token).id))
            assert ours.ask(path, ann.token).status_code == 401


def test_what_ends_by_the_clock_ends_in_a_remembered_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mute, a filter and a poll."""
    ahead = 0
    real = time.time_ns
    monkeypatch.setattr("time.time_ns", lambda: real() + ahead)
    with world() as here:
        ann, ben, cleo = here.join("ann"), here.join("ben"), here.join("cleo")
        for other in (ben, cleo):
            here.json("POST", f"/api/v1/accounts/{other.id}/follow", ann)
        poll = {"options": ["yes", "no"], "expires_in": 3_600}
        here.json("POST", "/api/v1/statuses", ben, json={"status": "A tide?", "poll": poll})
        here.json("POST", "/api/v1/statuses", cleo, json={"status": "A boat"})
        here.settle()
        ours, fresh = FrontEnd(here, 64_000), FrontEnd(here, 0)
        path = f"/api/v1/accounts/{ben.id}/statuses"
        terms = {"keyword": "boat", "title": "boats", "context": ["home"], "filter_action": "hide", "expires_in": 1_800}
        with contextlib.closing(ours), contextlib.closing(fresh):
            here.json("POST", "/api/v2/filters", ann, json={**terms, "keywords_attributes": [{"keyword": "boat"}]})
            here.json("POST", f"/api/v1/accounts/{ben.id}/mute", ann, json={"duration": 900})
            here.settle()
            shown = []
            for minutes in (0, 16, 31, 61):
                ahead = minutes * 60 * 1_000_000_000
                pages = [(HOME, ann.token), (path, ""), (path, ""), (HOME, ann.token), (HOME, ann.token)]
                found = [ours.ask(*page).json() for page in pages]
                assert found == [fresh.ask(*page).json() for page in pages]
                shown.append((sum(not one["filtered"] for one in found[-1]), found[1][0]["poll"]["expired"]))
            assert shown == [(0, False), (1, False), (2, False), (2, True)]
