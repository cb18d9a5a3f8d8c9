"""The shop of `examples/`: its users review products in a real browser, and never see a form of Shoal."""

from __future__ import annotations

import base64
import hmac
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from tests.engines.chromium import browser, window
from tests.server_process import first_url
from tests.test_examples import until
from tests.web.chromium.accessibility import hindrances
from tests.wheel import Installed

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
PASSWORD = "a long password"


class Shop(NamedTuple):
    url: str
    folder: Path

    @property
    def secrets(self) -> dict[str, str]:
        found: dict[str, str] = json.loads((self.folder / "secrets.json").read_text())
        return found


@contextmanager
def running(installed: Installed, folder: Path, *options: str) -> Iterator[Shop]:
    command = [installed.python, "-m", "shop", "--folder", str(folder)]
    command += ["--port", "0", "--https-port", "0", "--shoal-port", "0", *options]
    environment = {**os.environ, "PYTHONPATH": str(EXAMPLES)}
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Shop(first_url(process), folder)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, installed: Installed) -> Iterator[Shop]:
    """Run the shop and its Shoal server in processes of their own."""
    if not (EXAMPLES / "shop/node_modules/react").exists():
        if os.environ.get("CI"):
            pytest.fail("React is not installed: make setup")
        pytest.skip("React is not installed: make setup")
    folder = tmp_path_factory.mktemp("shop")
    with running(installed, folder) as started:
        yield started


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as found:
        yield found


def signed_up(context: BrowserContext, shop: Shop, name: str) -> Page:
    """Sign a user up at the shop, and return the page."""
    page = context.new_page()
    page.goto(f"{shop.url}/signup")
    page.get_by_label("Name").fill(name)
    page.get_by_label("E-mail address").fill(f"{name.split(maxsplit=1)[0].lower()}@example.org")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign up").click()
    expect(page.get_by_role("banner")).to_contain_text(name)
    return page


def opened(page: Page, shop: Shop, path: str) -> None:
    page.goto(f"{shop.url}{path}")
    expect(page.get_by_role("banner")).to_be_visible()


def opened_with(page: Page, shop: Shop, path: str, text: str) -> None:
    """Open a page until it shows a review, which enters lists with a delay. The page reads its list only once."""

    def shown() -> bool:
        opened(page, shop, path)
        try:
            page.get_by_role("article").filter(has_text=text).first.wait_for(timeout=2_000)
        except PlaywrightTimeout:
            return False
        return True

    until(shown)


_SOCKETS = """
const sockets = (window.sockets = []);
window.WebSocket = class extends WebSocket {
  constructor(...given) {
    super(...given);
    sockets.push(this);
  }
};
"""
"""Keeps the sockets of a page, to see when they are open."""


def logged_in_staff(context: BrowserContext, shop: Shop) -> Page:
    page = context.new_page()
    page.goto(f"{shop.url}/login")
    page.get_by_label("E-mail address").fill("staff@example.org")
    page.get_by_label("Password").fill(shop.secrets["staff_password"])
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("link", name="Waiting reviews").click()
    return page


def decide(chromium: Browser, shop: Shop, author: str, verb: str, reason: str = "") -> None:
    """Approve or reject the waiting review of a user, as a member of the staff."""
    with window(chromium) as context:
        page = logged_in_staff(context, shop)
        waiting = page.get_by_role("article").filter(has_text=author)
        expect(waiting).to_be_visible()
        assert hindrances(page) == []
        waiting.get_by_label("Reason").fill(reason)
        waiting.get_by_role("button", name=verb).click()
        expect(waiting).to_have_count(0)


def test_shop_users_review_follow_like_and_comment_and_shop_gets_webhooks(shop: Shop, chromium: Browser) -> None:
    with window(chromium) as hers, window(chromium) as his:
        ada, bo = signed_up(hers, shop, "Ada Reef"), signed_up(his, shop, "Bo Strand")
        opened(ada, shop, "/p/mug")
        ada.get_by_label("4 of 5 stars").check(force=True)
        ada.get_by_label("Review").fill("Keeps the tea warm on deck.")
        ada.get_by_label("Add a photo").set_input_files(EXAMPLES.parent / "src/shoal_demo/photos/sea_sunset.webp")
        ada.get_by_role("button", name="Post review").click()
        # The moderation hook holds the first review of a user.
        expect(ada.get_by_role("status")).to_contain_text("before we publish it")
        opened(ada, shop, "/news")
        expect(ada.get_by_role("main")).to_contain_text("Waiting for our staff. Keeps the tea warm on deck.")
        opened(bo, shop, "/p/mug")
        expect(bo.get_by_role("main")).to_contain_text("No reviews yet.")
        decide(chromium, shop, "Ada Reef", "Approve")
        opened_with(ada, shop, "/p/mug", "Keeps the tea warm on deck.")
        review = ada.get_by_role("article")
        expect(review).to_contain_text("Keeps the tea warm on deck.")
        expect(review.get_by_alt_text("Tidal mug, photo by Ada Reef")).to_have_js_property("complete", True)
        # The rating is that of the shop, which knows the review by the webhook.
        expect(ada.get_by_text("4 (1)")).to_be_visible()
        opened_with(ada, shop, "/feed", "Keeps the tea warm on deck.")
        expect(ada.get_by_role("article")).to_contain_text("Keeps the tea warm on deck.")

        opened(bo, shop, "/p/mug")
        review = bo.get_by_role("article")
        review.get_by_role("button", name="Follow").click()
        expect(review.get_by_role("button", name="Following")).to_be_visible()
        review.get_by_role("button", name="Like").click()
        expect(review.get_by_role("button", name="Like")).to_have_text("♥ Like 1")
        review.get_by_role("button", name="Comments").click()
        review.get_by_label("Comment", exact=True).fill("Mine too!")
        review.get_by_role("button", name="Send").click()
        expect(review).to_contain_text("Bo Strand Mine too!")

        opened(ada, shop, "/news")
        expect(ada.get_by_role("listitem")).to_have_text(
            ["Bo Strand likes your review of the Tidal mug+5", "Bo Strand follows you"]
        )
        expect(ada.get_by_role("heading")).to_have_text("5 points")

        bo.add_init_script(_SOCKETS)
        opened_with(bo, shop, "/feed", "Keeps the tea warm on deck.")
        expect(bo.get_by_role("article")).to_contain_text("Keeps the tea warm on deck.")
        until(lambda: bo.evaluate("sockets.some((socket) => socket.readyState === WebSocket.OPEN)"))
        opened(ada, shop, "/p/lantern")
        ada.get_by_label("Review").fill("Bright enough to read.")
        ada.get_by_role("button", name="Post review").click()
        # It arrives over the stream, without another request.
        expect(bo.get_by_role("article").first).to_contain_text("Bright enough to read.")

        for path in ("/", "/p/mug", "/feed", "/news"):
            opened(bo, shop, path)
            expect(bo.locator("main > *").first).to_be_visible()
            assert hindrances(bo) == [], path


def test_shop_staff_rejects_first_review_and_author_sees_reason(shop: Shop, chromium: Browser) -> None:
    with window(chromium) as context:
        page = signed_up(context, shop, "Dora Slick")
        opened(page, shop, "/p/flask")
        page.get_by_label("Review").fill("Buy watches at my shop.")
        page.get_by_role("button", name="Post review").click()
        expect(page.get_by_role("status")).to_contain_text("before we publish it")
        decide(chromium, shop, "Dora Slick", "Reject", "This is advertising.")
        opened(page, shop, "/news")
        expect(page.get_by_role("main")).to_contain_text("Not published. This is advertising.")
        opened(page, shop, "/p/flask")
        expect(page.get_by_role("main")).to_contain_text("No reviews yet.")
        assert page.request.get(f"{shop.url}/api/staff/held").status == 403


def test_shop_user_logs_out_and_logs_in_with_password_of_shop(shop: Shop, chromium: Browser) -> None:
    with window(chromium) as context:
        page = signed_up(context, shop, "Cleo Marsh")
        page.get_by_role("button", name="Log out").click()
        page.get_by_role("link", name="Log in").click()
        page.get_by_label("E-mail address").fill("cleo@example.org")
        page.get_by_label("Password").fill("a wrong password")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("alert")).to_have_text("The address or the password is wrong.")
        assert hindrances(page) == []
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("banner")).to_contain_text("Cleo Marsh")


def test_shop_pages_load_only_from_shop_and_shoal(shop: Shop, chromium: Browser) -> None:
    asked: set[str] = set()
    with window(chromium) as context:
        page = context.new_page()
        page.on("request", lambda request: asked.add(request.url.split("/")[2]))
        for path in ("/", "/p/mug", "/login", "/signup"):
            opened(page, shop, path)
            expect(page.locator("main > *").first).to_be_visible()
    assert {host.split(":")[0] for host in asked} == {"127.0.0.1"}


def test_shoal_server_of_shop_shows_no_password_form(shop: Shop, chromium: Browser) -> None:
    shoal = httpx.get(f"{shop.url}/api/shop").json()["shoal"]
    with window(chromium) as context:
        page = context.new_page()
        for path in ("/", "/login", "/signup"):
            page.goto(f"{shoal}{path}")
            expect(page.get_by_role("main")).to_be_visible()
            expect(page.locator("input[type=password]")).to_have_count(0)
    token = {"grant_type": "password", "username": "ada_reef", "password": PASSWORD}
    credentials = {name: shop.secrets[name] for name in ("client_id", "client_secret")}
    refused = httpx.post(f"{shoal}/oauth/token", data={**token, **credentials})
    assert refused.json()["error"] == "unsupported_grant_type"


def sent(
    shop: Shop, event: dict[str, Any], *, secret: str = "", age: int = 0, path: str = "webhooks/shoal"
) -> httpx.Response:
    """Send an event to the webhook of the shop, signed with its secret or another one."""
    body = json.dumps(event).encode()
    headers = {"webhook-id": event["id"], "webhook-timestamp": str(int(time.time()) - age)}
    key = base64.b64decode((secret or shop.secrets["webhook_secret"]).removeprefix("whsec_"))
    signed = b".".join((headers["webhook-id"].encode(), headers["webhook-timestamp"].encode(), body))
    headers["webhook-signature"] = "v1," + base64.b64encode(hmac.digest(key, signed, "sha256")).decode()
    return httpx.post(f"{shop.url}/{path}", content=body, headers=headers)


def rating(shop: Shop, slug: str) -> dict[str, Any]:
    found: dict[str, Any] = next(
        one for one in httpx.get(f"{shop.url}/api/shop").json()["products"] if one["slug"] == slug
    )
    return {name: found.get(name) for name in ("reviews", "stars")}


def test_shop_webhook_applies_signed_event_once_and_refuses_others(shop: Shop) -> None:
    post = {"id": "1", "author_id": "7", "in_reply_to_id": None, "data": {"product": "knife", "stars": 2}}
    event = {"id": "e1", "type": "post.created", "data": post}
    assert sent(shop, event, secret="whsec_" + base64.b64encode(b"wrong").decode()).status_code == 401
    assert sent(shop, event, age=301).status_code == 401
    assert httpx.post(f"{shop.url}/webhooks/shoal", json=event).status_code == 401
    assert rating(shop, "knife") == {"reviews": 0, "stars": None}
    assert sent(shop, event).status_code == 200
    assert rating(shop, "knife") == {"reviews": 1, "stars": 2}
    assert sent(shop, {"id": "e2", "type": "post.deleted", "data": {"id": "1"}}).status_code == 200
    # A repeat of the first event is ignored.
    assert sent(shop, event).status_code == 200
    assert rating(shop, "knife") == {"reviews": 0, "stars": None}
    for number, data in enumerate(
        [*({"product": "knife", "stars": stars} for stars in (0, 6, "5", True)), {"product": []}, 1]
    ):
        forged = {**post, "id": f"2-{number}", "data": data}
        assert sent(shop, {"id": f"f-{number}", "type": "post.created", "data": forged}).status_code == 200
    assert rating(shop, "knife")["reviews"] == 0


def test_shop_moderation_hook_holds_first_review_only_and_refuses_wrong_signature(shop: Shop) -> None:
    review = {"kind": "post", "member_id": 71, "tags": ["deckknife"]}

    def decision(**changes: object) -> httpx.Response:
        event = {"id": "check", "data": {**review, **changes}}
        return sent(shop, event, secret=shop.secrets["hook_secret"], path="hooks/moderation")

    assert decision().json()["action"] == "hold"
    others: tuple[dict[str, object], ...] = ({"tags": []}, {"kind": "edit"}, {"kind": "media"})
    for changes in others:
        assert decision(**changes).json() == {"action": "allow"}
    assert sent(shop, {"id": "check", "data": review}, path="hooks/moderation").status_code == 401
    post = {"id": "71", "author_id": "71", "in_reply_to_id": None, "data": {"product": "beanie", "stars": 3}}
    assert sent(shop, {"id": "e71", "type": "post.created", "data": post}).status_code == 200
    assert decision().json() == {"action": "allow"}


def test_shop_refuses_changes_from_other_sites_and_publishes_only_public_keys(shop: Shop) -> None:
    new = {"name": "Eve", "email": "eve@example.org", "password": PASSWORD}
    refused = httpx.post(f"{shop.url}/api/signup", json=new, headers={"Origin": "https://evil.example"})
    assert (refused.status_code, dict(refused.cookies)) == (403, {})
    (key,) = httpx.get(f"{shop.url}/.well-known/jwks.json").json()["keys"]
    assert set(key) == {"kty", "crv", "x", "y", "use", "kid"}
    assert re.fullmatch(
        r"-rw-------.*", subprocess.check_output(["ls", "-l", shop.folder / "signing-key.pem"], text=True).strip()
    )
    assert httpx.post(f"{shop.url}/api/token", json={}).status_code == 401


def test_shop_demo_has_reviews_with_photos_ratings_and_points(tmp_path: Path, installed: Installed) -> None:
    with running(installed, tmp_path, "--demo") as shop, httpx.Client(base_url=shop.url, timeout=60) as client:
        shoal = client.get("/api/shop").json()["shoal"]
        reviews = httpx.get(f"{shoal}/api/v1/timelines/public", params={"limit": 40}).json()
        assert sum(bool(one["media_attachments"]) for one in reviews) == len(reviews) > 4
        client.post("/api/login", json={"email": "mara@example.org", "password": "driftwood"}).raise_for_status()
        until(lambda: client.get("/api/shop").json()["user"]["points"] > 0)
        assert client.get("/api/feed").json()
