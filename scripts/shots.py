"""Take pictures of every page of the web app, at a desk and on a phone, in light and in dark: `make shots`.

The demo network is made in a folder of its own, served, and looked at by a stranger and by a member who is an admin too. The
pictures are in ./shots, with a page that shows all of them: `shots/index.html`.
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
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import NamedTuple
from urllib.error import URLError
from urllib.request import urlopen

from playwright.sync_api import Browser, Page, sync_playwright

from scripts.web_pages import MEMBERS, STRANGERS, Subjects, prepared
from shoal import settings as configuration
from shoal.app.network import open_network
from shoal_demo.cli import PASSWORD
from shoal_devcluster.program import free_port

HERO, AUTHOR, TAG = "mferrari", "mbanerjee", "coffee"
WIDTHS = (1_280, 390)
SECONDS = 60


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


def _taken(browser: Browser, url: str, subjects: Subjects, out: Path, only: str) -> Iterator[Shot]:
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
                wanted = {name: path for name, path in pages.items() if only in name}
                if wanted and who == "member":
                    _log_in(page, url)
                for name, path in wanted.items():
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


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("only", nargs="?", default="", help="only pages whose names have this in them")
    options.add_argument("--out", type=Path, default=Path("shots"))
    chosen = options.parse_args()
    chosen.out.mkdir(exist_ok=True)
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
        for shot in _taken(browser, url, subjects, chosen.out, chosen.only):
            shots.append(shot)
            print(shot.status, chosen.out / shot.file, flush=True)
        browser.close()
    (chosen.out / "index.html").write_text(_index(shots), "utf-8")


if __name__ == "__main__":
    main()
