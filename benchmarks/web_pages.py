"""The web app: the cost of its pages on the server, their size, and the time until a slow browser shows them.

The network is made up and has photos. In the process, each page is rendered repeatedly and its processor time measured, home
compared with these posts as JSON; then it is requested with the response cache. Over HTTP, `shoal serve` serves home pages of
members in turn. Then Chromium, with its processor throttled to a quarter of its speed, opens pages: Largest Contentful Paint,
layout shift, and the time from a button press to the next frame, as reported by its observers. Last, a slow phone (390 px at two
pixels each, the same processor, 400 kbit/s with 150 ms to the server, nothing cached) opens pages: the bytes before their photos as
sent, and the time until a photo is on the screen. The raw engine is an ASGI server with a ready body.
"""

from __future__ import annotations

import gzip
import shutil
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import uvloop
from playwright.async_api import Browser, Page, async_playwright

from benchmarks.child import bare_server, serving
from benchmarks.http_client import Server, load, until
from benchmarks.http_load import homes
from benchmarks.in_process import Ask, Headers, asking, front_in
from benchmarks.measure import Report, parser, spread, workplace
from benchmarks.stores import url_of
from shoal import settings as configuration
from shoal.app import process
from shoal.app.network import open_network
from shoal.commands import members, oauth, sessions
from shoal.core.model import Member, Post
from shoal.graph.contract import Cursor
from shoal.graph.schema import POSTED
from shoal.web.assets import assets
from shoal_demo.plan import plan
from shoal_demo.populate import Stage
from shoal_devcluster.program import free_port

_SLOWER = 4
_SLOW_NETWORK = {"offline": False, "latency": 150, "downloadThroughput": 50_000, "uploadThroughput": 50_000}
"""A network of 400 kbit/s: milliseconds, and bytes per second."""
_PHOTO_MS = 60_000
_FIRST_PHOTO = """() => {
  window.photo = 0;
  const isNear = (one) => one.checkVisibility() && one.getBoundingClientRect().top < innerHeight;
  const isShown = (one) => one.complete && one.naturalWidth && isNear(one);
  const look = () => {
    if ([...document.querySelectorAll(".photo > img")].some(isShown)) photo = performance.now();
    else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
}"""
_OBSERVED = """() => {
  window.seen = { lcp: 0, shift: 0, press: 0 };
  const watch = (type, take, more) =>
    new PerformanceObserver((list) => list.getEntries().forEach(take)).observe({ type, buffered: true, ...more });
  watch("largest-contentful-paint", (entry) => (seen.lcp = entry.startTime));
  watch("layout-shift", (entry) => entry.hadRecentInput || (seen.shift += entry.value));
  watch("event", (entry) => entry.interactionId && (seen.press = Math.max(seen.press, entry.duration)), { durationThreshold: 16 });
}"""


class Cast(NamedTuple):
    hero: Member
    cookie: str
    bearer: str
    cookies: list[str]
    post: str
    photo: str
    """A post with a photo."""
    tag: str


async def _network(path: Path, people: int, days: int) -> Cast:
    written = plan(1, people, days, now_ms=time.time_ns() // 1_000_000)
    async with open_network(configuration.load({}, store=url_of(path))) as network:
        await Stage(network.writes, written, "low-tide-at-dawn", lambda _noun: None).run()
        await network.settle()
        writes = network.writes
        found = [await members.find(writes, person.name) for person in written.people]
        everybody = [one for one in found if one is not None]
        # Browser sessions are created as by a login, without hashing a password.
        cookies = [(await sessions.begin(writes, one)).text for one in everybody]
        newest = {one.id: await writes.graph.assoc_range(one.id, POSTED, Cursor(limit=20)) for one in everybody}
        hero = next(one for one in everybody if newest[one.id])
        app = await oauth.register(writes, "Benchmark", scopes=("read",))
        bearer = (await oauth.issue_token(writes, app.app.id, hero.id, ("read",))).text
        hers = cookies[everybody.index(hero)]
        nodes = await writes.graph.obj_get([one.id2 for found in newest.values() for one in found])
        shown = [post for post in nodes.values() if isinstance(post, Post) and post.media]
        tags = Counter(tag for post in shown for tag in post.tags)
        names = {one.id: one.name for one in everybody}
        post, photo = newest[hero.id][0].id2, shown[0]
        tag = next(iter(dict(tags.most_common(1))), "")
        pages = (f"/@{hero.name}/{post}", f"/@{names[photo.author_id]}/{photo.id}", f"/tags/{tag}")
        return Cast(hero, hers, bearer, cookies, *pages)


async def in_process(path: Path, cast: Cast, calls: int, report: Report) -> None:
    async with open_network(configuration.load({}, store=url_of(path), rate_limits=False)) as network:
        ask, ask_again = asking(front_in(network, answer_cache=0)), asking(front_in(network))
        process.settle()
        member = ((b"cookie", f"shoal_login={cast.cookie}; shoal_form={'a' * 43}".encode()),)
        token = ((b"authorization", f"Bearer {cast.bearer}".encode()),)
        json = await _cost(ask, "/api/v1/timelines/home?limit=20", token, calls)
        pages = {
            "home": ("/", member),
            "a profile, for a visitor": (f"/@{cast.hero.name}?show=posts", ()),
            "a post, for a visitor": (cast.post, ()),
            "the front page": ("/", ()),
            "explore": ("/explore", ()),
        }
        good = 0
        for name, (address, headers) in pages.items():
            status, body = await ask(address, headers)
            good += status == 200
            raw = json if name == "home" else None
            report.add(f"{name}: processor time", await _cost(ask, address, headers, calls), "ms", raw=raw)
            report.add(
                f"{name}, requested again: processor time", await _cost(ask_again, address, headers, calls), "ms"
            )
            report.add(f"{name}: HTML, compressed", len(gzip.compress(body)) / 1e3, "KB")
        report.check("pages that were answered well", good, len(pages))
    files = assets().found
    scripts = [one for name, one in files.items() if name.endswith(".js") and "worker" not in name]
    report.add("all scripts, compressed", sum(len(one.packed) for one in scripts) / 1e3, "KB")
    report.add("all styles, compressed", len(files["styles/app.css"].packed) / 1e3, "KB")


async def _cost(ask: Ask, path: str, headers: Headers, calls: int) -> float:
    """Return the median processor time of a page in milliseconds."""
    times = []
    for _ in range(calls):
        began = time.process_time()
        await ask(path, headers)
        times.append(time.process_time() - began)
    return spread(times).median * 1e3


def _is_html(status: int, body: bytes) -> str:
    # In the smallest network some members follow no author; they see photos and suggestions, or an empty page.
    whole = any(part in body for part in (b"<article", b'class="empty', b'class="home-beginning'))
    return "" if status == 200 and whole else f"status {status}, or no post on it"


async def over_http(store: Path, cast: Cast, seconds: float, browsing: bool, report: Report) -> None:
    """Serve the network and read home pages of members in turn; then open pages in a slow browser."""
    port = free_port()
    command = [sys.executable, "-m", "shoal.cli", "--store", url_of(store), "serve", "--port", str(port)]
    async with serving(command, port, "/health", {"SHOAL_RATE_LIMITS": "false"}) as child:
        wanted = [_request(child.server, cookie) for cookie in cast.cookies]
        pages = (wanted[n % len(wanted)] for n in range(1 << 40))
        await load(child.server, (next(pages) for _ in wanted), _is_html, 4)
        outcome = await load(child.server, until(pages, seconds), _is_html, 16)
        latencies = spread(outcome.latencies)
        async with bare_server("asgi") as bare:
            plain = await load(bare.server, until(homes(bare.server, ["none"]), seconds), lambda *_: "", 16)
        report.add("home pages", outcome.right / outcome.seconds, "1/s", raw=plain.right / plain.seconds)
        report.add("home pages: p99", latencies.p99 * 1e3, "ms")
        report.check("home pages that were wrong", outcome.wrong.total(), 0)
        if browsing and (chromium := shutil.which("chromium")):
            await _browse(chromium, f"http://127.0.0.1:{port}", cast, report)


def _request(server: Server, cookie: str) -> bytes:
    plain = server.request("GET", "/").removesuffix(b"\r\n\r\n")
    return plain + f"\r\nCookie: shoal_login={cookie}; shoal_form={'a' * 43}\r\n\r\n".encode()


async def _browse(chromium: str, url: str, cast: Cast, report: Report) -> None:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        for name, path in (("home", "/"), ("explore", "/explore"), ("a post", cast.post)):
            for width in (1_280, 390):
                seen = await _seen(browser, url, path, cast, width)
                report.add(f"{name}, {width} px: Largest Contentful Paint", seen["lcp"], "ms")
                report.add(f"{name}, {width} px: layout shift", seen["shift"])
                if seen["press"]:
                    report.add(f"{name}, {width} px: interaction to next paint", seen["press"], "ms")
        profile = cast.photo.rpartition("/")[0]
        pages = {"front page": "/", "explore": "/explore", "profile": profile, "post": cast.photo, "tag": cast.tag}
        for name, path in pages.items():
            await _on_slow_phone(browser, url, name, path, "", report)
        # With text posts, the first photo may be below the first screen.
        await _on_slow_phone(browser, url, "home", "/?show=photos", cast.cookie, report)
        await browser.close()


async def _on_slow_phone(browser: Browser, url: str, name: str, path: str, cookie: str, report: Report) -> None:
    """Open a page with an empty cache over a slow network, until all of it is loaded."""
    context = await browser.new_context(
        viewport={"width": 390, "height": 844}, device_scale_factor=2, is_mobile=True, has_touch=True
    )
    if cookie:
        await context.add_cookies([{"name": "shoal_login", "value": cookie, "url": url}])
    page = await context.new_page()
    session = await context.new_cdp_session(page)
    urls, sizes = dict[str, str](), dict[str, float]()
    session.on("Network.responseReceived", lambda event: urls.update({event["requestId"]: event["response"]["url"]}))
    session.on("Network.loadingFinished", lambda event: sizes.update({event["requestId"]: event["encodedDataLength"]}))
    await session.send("Network.enable")
    await session.send("Network.emulateNetworkConditions", _SLOW_NETWORK)
    await session.send("Emulation.setCPUThrottlingRate", {"rate": _SLOWER})
    await page.add_init_script(f"({_FIRST_PHOTO})()")
    await page.goto(url + path, wait_until="load", timeout=_PHOTO_MS)
    await page.wait_for_function("() => photo > 0", timeout=_PHOTO_MS)
    report.add(f"{name}, slow phone: first photo", await page.evaluate("photo"), "ms")
    before = sum(size for id_, size in sizes.items() if "/media/" not in urls[id_])
    report.add(f"{name}, slow phone: bytes before photos", before / 1e3, "KB")
    await context.close()


async def _seen(browser: Browser, url: str, path: str, cast: Cast, width: int) -> dict[str, float]:
    """Open a page with an empty cache, wait until it is stable, scroll, and press the first like button."""
    context = await browser.new_context(
        viewport={"width": width, "height": 900}, is_mobile=width < 500, has_touch=width < 500
    )
    await context.add_cookies([{"name": "shoal_login", "value": cast.cookie, "url": url}])
    page = await context.new_page()
    await (await context.new_cdp_session(page)).send("Emulation.setCPUThrottlingRate", {"rate": _SLOWER})
    await page.add_init_script(f"({_OBSERVED})()")
    await page.goto(url + path, wait_until="load")
    await page.wait_for_timeout(1_500)
    await _press(page)
    seen: dict[str, float] = await page.evaluate("seen")
    await context.close()
    return seen


async def _press(page: Page) -> None:
    await page.mouse.wheel(0, 1_200)
    await page.wait_for_timeout(300)
    hearts = page.locator("button.like")
    if await hearts.count():
        await hearts.first.click()
        await page.wait_for_timeout(800)


async def _run(folder: Path, chosen: Any, report: Report) -> None:
    store = folder / "shoal.db"
    cast = await _network(store, chosen.people, chosen.days)
    await in_process(store, cast, chosen.calls, report)
    await over_http(store, cast, chosen.seconds, chosen.browsing, report)


def main() -> None:
    options = parser(
        __doc__,
        quick={"people": 40, "days": 10, "seconds": 3.0, "calls": 60},
        smallest={"people": 10, "days": 3, "seconds": 0.3, "calls": 5, "browsing": 0},
    )
    options.add_argument("--people", type=int, default=120, help="number of members of the generated network")
    options.add_argument("--days", type=int, default=28, help="days of posts in the generated network")
    options.add_argument("--seconds", type=float, default=15.0, help="seconds for which home pages are read")
    options.add_argument(
        "--calls", type=int, default=300, help="number of times a page is requested within the process, without HTTP"
    )
    options.add_argument("--browsing", type=int, default=1, help="1: also measure in a browser; 0: do not")
    chosen = options.parse_args()
    report = Report("web_pages", chosen.size)
    with workplace(None) as folder:
        uvloop.run(_run(folder, chosen, report))
    report.show()


if __name__ == "__main__":
    main()
