"""Take pictures of every page of the web app, at a desk and on a phone, in light and in dark: `make shots`.

The demo network is made in a folder of its own, served, and looked at by a stranger and by a member who is an admin too. The
pictures are in ./shots, with a page that shows all of them: `shots/index.html`. With `--docs`, it takes the pictures of README and
docs instead, which are in docs/pictures.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import NamedTuple
from urllib.error import URLError
from urllib.request import urlopen

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from scripts.web_pages import MEMBERS, STRANGERS, Subjects, prepared
from shoal import settings as configuration
from shoal.app.network import open_network
from shoal_demo.cli import DESCRIPTION, PASSWORD
from shoal_devcluster.program import free_port

HERO, AUTHOR, TAG = "jonah_whitlock", "astrid_dahl", "architecture"
WIDTHS = (1_280, 390)
SECONDS = 60
DOCS = Path(__file__).parent.parent / "docs" / "pictures"
PICTURES = {
    "front": ("front-1280-light",),
    "post": ("post-1280-dark",),
    "reasons": ("why-1280-light",),
    "phone": ("profile-390-dark", "for-you-390-light", "comments-390-dark"),
}
"""The pictures in docs/pictures, and the shots that each shows from left to right."""
_HEIGHTS = {1: 675, 3: 720}
"""Height in pixels of a picture, by its number of screenshots."""
_GAP = 16


class Shot(NamedTuple):
    name: str
    status: int
    file: str


async def _prepared(store: str) -> Subjects:
    async with open_network(configuration.load({}, store=store, invitations="members")) as network:
        subjects = await prepared(network.writes, HERO, AUTHOR, TAG)
        await network.settle()
        return subjects


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, Subjects]]:
    """A demo network and a server of it."""
    shoal = [sys.executable, "-m", "shoal.cli"]
    subprocess.run([*shoal, "demo", "--folder", str(folder), "--no-serve"], check=True, stdout=subprocess.DEVNULL)
    store, port = f"sqlite:///{folder}/shoal.db", free_port()
    subjects = asyncio.run(_prepared(store))
    environ = {**os.environ, "SHOAL_STORE": store, "SHOAL_RATE_LIMITS": "false", "SHOAL_TITLE": "Shoal demo"}
    environ["SHOAL_DESCRIPTION"] = DESCRIPTION
    environ["SHOAL_INVITATIONS"] = "members"
    environ["SHOAL_MAIL"] = f"file://{folder}/mail"
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
            yield url, subjects
        finally:
            server.terminate()


def _log_in(page: Page, url: str) -> None:
    page.goto(f"{url}/login")
    page.locator("#username").fill(HERO)
    page.locator("#password").fill(PASSWORD)
    with page.expect_navigation():
        page.locator("main form button").first.click()


def _taken(browser: Browser, url: str, subjects: Subjects, out: Path, wanted: Callable[[str], bool]) -> Iterator[Shot]:
    """Take the wanted shots. They are named `page-width-scheme`."""
    for scheme in ("light", "dark"):
        for width in WIDTHS:
            phone = width < WIDTHS[0]
            context = browser.new_context(
                viewport={"width": width, "height": 844 if phone else 900},
                color_scheme=scheme,
                is_mobile=phone,
                has_touch=phone,
                locale="en-GB",
            )
            page = context.new_page()
            for who, pages in (("stranger", STRANGERS), ("member", MEMBERS)):
                chosen = {name: path for name, path in pages.items() if wanted(f"{name}-{width}-{scheme}")}
                if chosen and who == "member":
                    _log_in(page, url)
                for name, path in chosen.items():
                    answer = page.goto(url + path.format(**subjects._asdict()))
                    page.wait_for_timeout(700)
                    file = f"{name}-{width}-{scheme}.png"
                    page.screenshot(path=out / file)
                    yield Shot(name, answer.status if answer else 0, file)
            context.close()


def _index(shots: list[Shot]) -> str:
    rows = "".join(
        f'<figure><img src="{escape(shot.file)}" loading="lazy"><figcaption>{escape(shot.file)} {shot.status}</figcaption></figure>'
        for shot in sorted(shots)
    )
    style = "body{font:14px system-ui;display:flex;flex-wrap:wrap;gap:16px;background:#888}figure{margin:0}img{height:560px}"
    return f'<!doctype html><meta charset="utf-8"><title>Shoal</title><style>{style}</style>{rows}'


def _join(parts: list[Path], picture: Path) -> None:
    """Write shots next to each other into one picture."""
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
    options.add_argument("only", nargs="?", default="", help="only pages whose names have this in them")
    options.add_argument("--out", type=Path, default=Path("shots"))
    options.add_argument("--docs", action="store_true", help="take the pictures in docs/pictures instead")
    chosen = options.parse_args()
    chosen.out.mkdir(exist_ok=True)
    for_docs = {name for parts in PICTURES.values() for name in parts}
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("chromium is not installed: scripts/engines installs it")
    with (
        tempfile.TemporaryDirectory() as folder,
        served(Path(folder)) as (url, subjects),
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        shots = []
        wanted = for_docs.__contains__ if chosen.docs else lambda name: chosen.only in name.rsplit("-", 2)[0]
        for shot in _taken(browser, url, subjects, chosen.out, wanted):
            shots.append(shot)
            print(shot.status, chosen.out / shot.file, flush=True)
        browser.close()
    (chosen.out / "index.html").write_text(_index(shots), "utf-8")
    if chosen.docs:
        for name, parts in PICTURES.items():
            _join([chosen.out / f"{part}.png" for part in parts], DOCS / f"{name}.webp")


if __name__ == "__main__":
    main()
