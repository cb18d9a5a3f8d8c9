"""Take pictures of 61 pages and states of the web app, each in several looks: `make shots`.

A demo network is created and served. Its pages are opened by a stranger, a newcomer, and a member who is also an admin. The
pictures are in build/shots, with a contact sheet for each look and a list of the pictures that differ from the kept ones.
`--keep` keeps the new ones, as a grid of lightness values each, in tests/web/chromium/shots.json; a test compares them. With
`--docs`, it takes the pictures of README and docs instead, which are in docs/pictures, and those of the manifest of the web
app.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.error import URLError
from urllib.request import urlopen

from PIL import Image, ImageDraw
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from scripts.web_pages import MEMBERS, STRANGERS, Subjects, prepared
from shoal import settings as configuration
from shoal.app.network import open_network
from shoal.commands import members, sessions
from shoal_demo.cli import DESCRIPTION
from shoal_devcluster.program import free_port

HERO, AUTHOR, TAG = "jonah_whitlock", "astrid_dahl", "architecture"
SECONDS = 60
OUT = Path("build/shots")
KEPT = Path(__file__).parents[1] / "tests/web/chromium/shots.json"
DOCS = Path(__file__).parents[1] / "docs/pictures"
STATIC = Path(__file__).parents[1] / "src/shoal/web/static"


class Look(NamedTuple):
    width: int = 1_280
    height: int = 900
    dark: bool = False
    zoom: int = 1
    right_to_left: bool = False
    scripts: bool = True
    bits_per_second: int = 0
    """The speed of the network; 0: unlimited. The picture is taken after 2.5 seconds."""


LOOKS = {
    "desktop": Look(),
    "phone-dark": Look(390, 844, dark=True),
    "desktop-dark": Look(dark=True),
    "phone": Look(390, 844),
    "zoom": Look(640, 450, zoom=2),
    "right-to-left": Look(right_to_left=True),
    "no-scripts": Look(scripts=False),
    "slow": Look(390, 844, bits_per_second=400_000),
}
FULL = ("desktop", "phone-dark")
"""Looks in which all pages are shown. The other looks show only the pages in `_IN_ALL_LOOKS`."""
_UNSTABLE = re.compile(r".*-slow|(new-)?for-you-.*|welcome-interests-.*")
"""Pictures that are not compared. They depend on the speed of the machine, because a late ranking is replaced by Home, or on the
time of day, which decides whether the oldest posts of the demo are among the tags of the last week."""
_IN_ALL_LOOKS = re.compile(
    "front|signup|home|for-you|post|profile|explore|search|compose|notifications|settings(-ranking)?"
)
_SHOWN = re.compile(
    """front|login|signup|invite|forgotten|stranger-.*|about|terms|embedded|recipe|offline|not-found|home|home-photos|for-you|catch-up
    |explore|people|tags|nearby|search|tag|post|photo|comments|why|more|report-form|profile|places|own-profile|album|compose|edit
    |notifications|conversations?|message|saved|list|welcome-(interests|people|first)|moderation|moderation-report|operations
    |settings(-(search|profile|privacy|ranking|filters|account))?""",
    re.VERBOSE,
)
"""Names of the pages that are shown."""
_NEWCOMER = {
    "new-home": "/",
    "new-for-you": "/for-you",
    "nothing-found": "/search?q=xylophone",
    "forbidden": "/moderation",
}


def _refused(page: Page) -> None:
    page.locator("#username").fill("a b")
    page.locator("main form").first.evaluate("(form) => { form.noValidate = true; form.requestSubmit(); }")
    page.locator(".error").first.wait_for()


STATES: Mapping[str, Callable[[Page], None]] = {"signup-refused": _refused}
"""States of pages that only an action shows; the name begins with the name of the page."""
PICTURES = {
    "front": ("front-desktop",),
    "post": ("post-desktop-dark",),
    "reasons": ("why-desktop",),
    "phone": ("profile-phone-dark", "for-you-phone", "comments-phone-dark"),
}
"""The pictures in docs/pictures, and the shots that each shows from left to right."""
SCREENSHOTS = {"screenshot-phone": "home-phone", "screenshot-desktop": "explore-desktop"}
"""The pictures of the app in its manifest (`web.pwa`), which browsers show when it is installed."""
_HEIGHTS = {1: 675, 3: 720}
_GAP = 16


def pages(who: str) -> dict[str, str]:
    if who == "newcomer":
        return _NEWCOMER
    found = {name: path for name, path in (MEMBERS if who == "member" else STRANGERS).items() if _SHOWN.fullmatch(name)}
    return found | ({} if who == "member" else {name: STRANGERS[name.partition("-")[0]] for name in STATES})


def names() -> list[str]:
    return [
        f"{name}-{look}"
        for look in LOOKS
        for who in ("stranger", "member", "newcomer")
        for name in pages(who)
        if look in FULL or _IN_ALL_LOOKS.fullmatch(name)
    ]


class Served(NamedTuple):
    """A demo network that is served: its address, the subjects of its pages, and the login cookies of the viewers."""

    url: str
    subjects: Subjects
    cookies: dict[str, str]


async def _prepared(store: str) -> tuple[Subjects, dict[str, str]]:
    async with open_network(configuration.load({}, store=store, invitations="members")) as network:
        subjects = await prepared(network.writes, HERO, AUTHOR, TAG)
        hero = await members.find(network.writes, HERO)
        assert hero is not None
        newcomer = await members.register(network.writes, "nia_newman", display_name="Nia Newman")
        await network.settle()
        viewers = {"member": hero, "newcomer": newcomer}
        return subjects, {who: (await sessions.begin(network.writes, one)).text for who, one in viewers.items()}


@contextmanager
def served(folder: Path) -> Iterator[Served]:
    """Make a demo network and serve it until the block ends."""
    shoal = [sys.executable, "-m", "shoal.cli"]
    subprocess.run([*shoal, "demo", "--folder", str(folder), "--no-serve"], check=True, stdout=subprocess.DEVNULL)
    store, port = f"sqlite:///{folder}/shoal.db", free_port()
    # In a new thread: the synchronous Playwright of a browser test runs an event loop in this one.
    with ThreadPoolExecutor(1) as thread:
        subjects, cookies = thread.submit(asyncio.run, _prepared(store)).result()
    texts = {
        "TITLE": "Shoal demo",
        "DESCRIPTION": DESCRIPTION,
        "RULES": json.dumps(["Post your own photos.", "Describe them for people who cannot see them.", "Be kind."]),
        "TERMS_OF_SERVICE": "This is a demonstration. Its members are fictional.\n\nWhat you post is deleted with the demo.",
        "PRIVACY_POLICY": "This demonstration runs on your machine and sends nothing elsewhere.",
        "CONTACT_EMAIL": "help@example.org",
        "CONTACT_ACCOUNT": HERO,
        "INVITATIONS": "members",
        "MAIL": f"file://{folder}/mail",
        "STORE": store,
        "RATE_LIMITS": "false",
    }
    environ = {**os.environ, **{f"SHOAL_{name}": text for name, text in texts.items()}}
    with subprocess.Popen([*shoal, "serve", "--port", str(port)], env=environ, stdout=subprocess.DEVNULL) as server:
        url, end = f"http://127.0.0.1:{port}", time.monotonic() + SECONDS
        while True:
            try:
                with urlopen(f"{url}/health"):  # noqa: S310 (our own server)
                    break
            except URLError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)
        try:
            yield Served(url, subjects, cookies)
        finally:
            server.terminate()


@contextmanager
def _window(browser: Browser, look: Look) -> Iterator[BrowserContext]:
    phone = look.width < 600
    context = browser.new_context(
        viewport={"width": look.width, "height": look.height},
        device_scale_factor=look.zoom,
        color_scheme="dark" if look.dark else "light",
        reduced_motion="reduce",
        java_script_enabled=look.scripts,
        is_mobile=phone,
        has_touch=phone,
        locale="en-GB",
    )
    try:
        yield context
    finally:
        context.close()


# The browser loads a picture only when it is near the window.
_SEEN = "[...document.images].every((one) => one.getBoundingClientRect().top > innerHeight || (one.complete && one.naturalWidth))"
# A loaded picture is drawn once it is decoded, which takes longer on a busy machine.
_DECODED = """Promise.all([...document.images]
  .filter((one) => one.complete && one.naturalWidth && one.getBoundingClientRect().top < innerHeight)
  .map((one) => one.decode().catch(() => {})))"""
# A picture that waits for another of its files is decoded when it is near the window only. Without scripts, no timer fires.
_DECODED_SOON = f"Promise.race([{_DECODED}, new Promise((done) => setTimeout(done, 2000))])"
_STARTED = """[...document.querySelectorAll("[data-behavior]")].every((one) => one.dataset.started !== undefined)
  && [...document.querySelectorAll(".panels")].every((one) => one.firstElementChild || !one.checkVisibility())
  && !document.querySelector(".htmx-request")"""


def _shown(page: Page, look: Look, address: str) -> None:
    """Open an address, and wait until its pictures are loaded, or for the time of a slow network."""
    if look.bits_per_second:
        speed = {
            "offline": False,
            "latency": 150,
            "downloadThroughput": look.bits_per_second / 8,
            "uploadThroughput": 50_000,
        }
        page.context.new_cdp_session(page).send("Network.emulateNetworkConditions", speed)
        page.goto(address, wait_until="commit")
        page.wait_for_timeout(2_500)
        return
    page.goto(address)
    if look.right_to_left:
        page.evaluate("document.documentElement.dir = 'rtl'")
    for _ in range(100):
        if page.evaluate(_SEEN) and (not look.scripts or page.evaluate(_STARTED)):
            break
        page.wait_for_timeout(50)
    page.evaluate(_DECODED_SOON if look.scripts else _DECODED)
    page.wait_for_timeout(100)


def taken(browser: Browser, at: Served, out: Path, wanted: Callable[[str], bool]) -> Iterator[Path]:
    """Take the selected pictures. Their names are `page-look.png`."""
    out.mkdir(parents=True, exist_ok=True)
    for title, look in LOOKS.items():
        for who in ("stranger", "member", "newcomer"):
            chosen = {name: path for name, path in pages(who).items() if wanted(f"{name}-{title}")}
            if not chosen:
                continue
            with _window(browser, look) as context:
                if who != "stranger":
                    context.add_cookies([{"name": "shoal_login", "value": at.cookies[who], "url": at.url}])
                page = context.new_page()
                for name, path in chosen.items():
                    _shown(page, look, at.url + path.format(**at.subjects._asdict()))
                    if name in STATES and look.scripts:
                        STATES[name](page)
                    file = out / f"{name}-{title}.png"
                    page.screenshot(path=file)
                    yield file


_CELLS = (24, 18)
_LEVELS = 16
_FAR = 2
"""Number of levels of lightness from which a cell counts as different."""
_MOST_DIFFERENT = 0.15
"""Fraction of the cells from which a picture counts as different.

Two runs without a change differ by up to 0.03, because times pass.
"""


def grid_of(file: Path) -> str:
    """Return the lightness of a picture in 24 by 18 cells, from 0 (black) to f (white)."""
    with Image.open(file) as picture:
        cells = picture.convert("L").resize(_CELLS, Image.Resampling.BOX)
    return "".join(f"{value * _LEVELS // 256:x}" for value in cells.tobytes())


def difference(one: str, other: str) -> float:
    """Return the fraction of the cells that differ visibly."""
    return sum(abs(int(a, 16) - int(b, 16)) >= _FAR for a, b in zip(one, other, strict=True)) / len(one)


def kept() -> dict[str, str]:
    """Return the grids of the kept pictures by name."""
    return dict(json.loads(KEPT.read_text("utf-8"))) if KEPT.exists() else {}


def keep(files: list[Path]) -> None:
    """Save the grids of pictures.

    They replace earlier ones with equal names. Grids of pictures that are no longer taken are removed.
    """
    grids = {**kept(), **{file.stem: grid_of(file) for file in files if is_compared(file.stem)}}
    current = sorted(grids.keys() & set(names()))
    KEPT.write_text(json.dumps({name: grids[name] for name in current}, indent=0) + "\n", "utf-8")


def changed(files: list[Path]) -> dict[str, float]:
    """Return the pictures that differ from the saved ones, with the fraction that differs. It is 1 for a new picture."""
    before = kept()
    found = {
        file.stem: difference(before[file.stem], grid_of(file)) if file.stem in before else 1.0
        for file in files
        if is_compared(file.stem)
    }
    return {name: part for name, part in found.items() if part > _MOST_DIFFERENT}


def is_compared(name: str) -> bool:
    return not _UNSTABLE.fullmatch(name)


def sheet(files: list[Path], out: Path, columns: int = 6, width: int = 300) -> None:
    """Write a contact sheet: small pictures with their names."""
    small = []
    for file in files:
        with Image.open(file) as picture:
            small.append(picture.convert("RGB").resize((width, round(picture.height * width / picture.width))))
    height = max(one.height for one in small) + _GAP
    rows = -(-len(small) // columns)
    joined = Image.new("RGB", (columns * (width + _GAP), rows * (height + _GAP)), "#8a9399")
    for n, (file, one) in enumerate(zip(files, small, strict=True)):
        left, top = n % columns * (width + _GAP), n // columns * (height + _GAP)
        joined.paste(one, (left, top + _GAP))
        ImageDraw.Draw(joined).text((left + 2, top + 2), file.stem, "black")
    joined.save(out, quality=80)


def _join(parts: list[Path], picture: Path) -> None:
    height = _HEIGHTS[len(parts)]
    shots = [Image.open(part).convert("RGB") for part in parts]
    shots = [
        shot.resize((round(shot.width * height / shot.height), height), Image.Resampling.LANCZOS) for shot in shots
    ]
    joined = Image.new("RGB", (sum(shot.width + _GAP for shot in shots) - _GAP, height), "#8a9399")
    left = 0
    for shot in shots:
        joined.paste(shot, (left, 0))
        left += shot.width + _GAP
    joined.save(picture, quality=80, method=6)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("only", nargs="?", default="", help="take only pictures whose names contain this text")
    options.add_argument("--out", type=Path, default=OUT)
    options.add_argument(
        "--keep", action="store_true", help="keep the pictures of this run as the reference for later comparisons"
    )
    options.add_argument(
        "--docs", action="store_true", help="take only the pictures for README, docs and the manifest of the web app"
    )
    chosen = options.parse_args()
    for_docs = {*SCREENSHOTS.values(), *(name for parts in PICTURES.values() for name in parts)}
    all_names = set(names())
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("chromium is not installed: scripts/engines installs it")

    def wanted(name: str) -> bool:
        return name in for_docs if chosen.docs else name in all_names and chosen.only in name

    with (
        tempfile.TemporaryDirectory() as folder,
        served(Path(folder)) as at,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        files = list(taken(browser, at, chosen.out, wanted))
        browser.close()
    if chosen.docs:
        for name, parts in PICTURES.items():
            _join([chosen.out / f"{part}.png" for part in parts], DOCS / f"{name}.webp")
        for name, shot in SCREENSHOTS.items():
            with Image.open(chosen.out / f"{shot}.png") as picture:
                picture.convert("RGB").save(STATIC / f"{name}.webp", quality=70, method=6)
        return
    for title, look in LOOKS.items():
        if shown := [file for file in files if file.stem.endswith(f"-{title}")]:
            sheet(shown, chosen.out / f"sheet-{title}.webp", columns=6 if look.width > 600 else 10)
    print(f"{len(files)} pictures in {chosen.out}; sheet-*.webp shows them")
    for name, part in sorted(changed(files).items(), key=lambda one: -one[1]):
        print(f"{name}: {part:.0%} changed")
    if chosen.keep:
        keep(files)


if __name__ == "__main__":
    main()
