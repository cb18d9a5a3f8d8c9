"""Executes the commands and programs of the tutorial and how-to pages, and compares their output with the pages."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import expect

from shoal_devcluster.program import free_port
from tests.doc_snippets import BLOCK
from tests.engines.chromium import browser, window
from tests.sdk.package import NODE, ROOT, SDK, build, need
from tests.server_process import first_url
from tests.wheel import Installed, bare

DOCS = Path(__file__).resolve().parent.parent / "docs"
GALLERY = ROOT / "examples" / "gallery"
ADDRESS = "http://127.0.0.1:8500"
ALREADY = re.compile(r"make ready$|\. \.venv/bin/activate$|pip install |mkdir |cd recipes$|npm ")
"""Commands that prepare an environment, or run npm. Tests skip them; the test of the page does what npm would do."""


class Reader:
    """Runs the code blocks of a page in an empty folder, with an installed package."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self.folder = folder
        self._programs = programs
        self.address = ADDRESS
        self.printed: str | None = None
        self.server: subprocess.Popen[str] | None = None

    def follow(self, page: Path) -> int:
        """Run all blocks of a page; return the number of output blocks that were compared."""
        promises = 0
        for kind, title, text in BLOCK.findall(page.read_text()):
            if kind == "text":
                assert self.printed == text
                promises += 1
            elif kind == "sh":
                for line in text.splitlines():
                    self._type(line)
            elif title:
                path = self.folder / title
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text.replace(ADDRESS, self.address))
            else:
                (self.folder / "program.py").write_text(text)
                self._type("python program.py")
        return promises

    def stop(self) -> None:
        """Stop the server that the page started."""
        if self.server is not None:
            self.server.kill()
            self.server.wait(60)
            assert self.server.stdout is not None
            self.server.stdout.close()

    def _type(self, line: str) -> None:
        if ALREADY.match(line):
            return
        program, *words = shlex.split(line)
        command = [str(self._programs / program), *words]
        environment = {**bare(), "PYTHONDONTWRITEBYTECODE": "1"}
        if "serve" in words:
            self.server = subprocess.Popen(
                [*command, "--port", "0"], cwd=self.folder, env=environment, stdout=subprocess.PIPE, text=True
            )
            self.address = first_url(self.server)
            return
        done = subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
        self.printed = done.stdout


@pytest.fixture
def reader(tmp_path: Path, installed: Installed) -> Iterator[Reader]:
    """A reader in an empty folder, with the wheel installed."""
    made = Reader(tmp_path, installed.programs)
    yield made
    made.stop()


def _versions(project: Path) -> dict[str, str]:
    """Return the versions of the packages of a project, apart from the client."""
    manifest = json.loads((project / "package.json").read_text())
    return {**manifest["dependencies"], **manifest["devDependencies"], "@shoal/client": ""}


@contextmanager
def _development_server(page: Path) -> Iterator[str]:
    """Link the packages of a page, run what `npm run dev` runs until the block ends, and yield the URL."""
    need(GALLERY)
    assert _versions(page) == _versions(GALLERY)
    build(page)
    packages, client = page / "node_modules", page / "node_modules" / "@shoal" / "client"
    client.mkdir(parents=True)
    shutil.copy(SDK / "package.json", client)
    shutil.copytree(SDK / "dist", client / "dist")
    for path in (*(GALLERY / "node_modules").iterdir(), *(SDK / "node_modules").glob("openapi-*")):
        if not (packages / path.name).exists():
            (packages / path.name).symlink_to(path)
    command = [str(NODE), "node_modules/vite/bin/vite.js", "--port", str(free_port()), "--strictPort"]
    environment = {"PATH": f"{NODE.parent}:/usr/bin:/bin", "HOME": str(page), "NO_COLOR": "1"}
    # `node` is a script that starts the real one.
    with subprocess.Popen(
        command, cwd=page, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            yield first_url(process)
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def test_tutorial_commands_print_documented_output(reader: Reader) -> None:
    assert reader.follow(DOCS / "tutorial.md") == 5


@pytest.fixture(scope="module")
def recipes(tmp_path_factory: pytest.TempPathFactory, installed: Installed) -> Iterator[Reader]:
    """A reader who has followed the recipe tutorial, and whose server runs."""
    made = Reader(tmp_path_factory.mktemp("recipes"), installed.programs)
    try:
        assert made.follow(DOCS / "tutorial-recipes.md") == 4
        yield made
    finally:
        made.stop()


def test_recipe_tutorial_commands_print_documented_output(recipes: Reader) -> None:
    assert recipes.printed == "italian 2\nfrench 1\nthai 1\n"


def test_recipe_tutorial_page_shows_feed_sorts_it_and_likes_recipe(recipes: Reader) -> None:
    with _development_server(recipes.folder / "page") as url, browser() as chromium, window(chromium) as context:
        page = context.new_page()
        page.goto(url)
        cards = page.get_by_role("listitem")
        expect(cards).to_have_count(2)
        expect(cards.first).to_contain_text("Omelet10 minutes, french")
        page.get_by_role("button", name="More recipes").click()
        expect(cards).to_have_count(3)
        page.get_by_label("Sort by").select_option("most liked")
        expect(cards.first).to_contain_text("Tom yum")
        expect(cards).to_have_count(2)
        page.get_by_role("button", name="Log in").click()
        page.get_by_label("User name").fill("cyd")
        page.get_by_label("Password").fill("three cloves of garlic")
        page.get_by_role("button", name="Log in").click()
        page.get_by_role("button", name="Allow").click()
        omelet = cards.filter(has_text="Omelet")
        with page.expect_response("**/favourite"):
            omelet.get_by_role("button", name="Like 0").click()
        expect(omelet.get_by_role("button", name="Like 1", pressed=True)).to_be_visible()
        expect(omelet).to_contain_text("10 minutes, french")
        assert _likes(recipes.address) == {"Omelet": 1, "Cacio e pepe": 0, "Tom yum": 1}
        page.get_by_label("Sort by").select_option("most liked")
        expect(cards.first).to_contain_text("Omelet")


def _likes(address: str) -> dict[str, int]:
    posts = httpx.get(f"{address}/api/shoal/v1/feeds/quick", params={"with_data": "true"}).raise_for_status().json()
    return {post["shoal"]["data"]["title"]: post["favourites_count"] for post in posts}


def test_embedding_guide_programs_print_documented_output(reader: Reader) -> None:
    assert reader.follow(DOCS / "howto" / "embed.md") == 3


def test_library_guide_programs_print_documented_output(reader: Reader) -> None:
    assert reader.follow(DOCS / "howto" / "library.md") == 4
