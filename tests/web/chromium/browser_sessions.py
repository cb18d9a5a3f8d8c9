"""A server of a network with members, and real browsers that open its pages."""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
import tempfile
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    FilePayload,
    Locator,
    Page,
    Response,
    Route,
    expect,
)

from shoal import settings as configuration
from shoal.admin.archives.storage import ArchiveStorage
from shoal.admin.archives.worker import ArchiveWorker
from shoal.app.network import Network, open_network
from shoal.app.paths import archives_folder
from shoal.commands import members
from shoal.core.model import Member
from shoal.server import AppParts, listen, serve
from tests.api.in_memory_network import picture
from tests.engines.chromium import browser as chromium
from tests.engines.chromium import window
from tests.web.browser import PASSWORD, hashed

T = TypeVar("T")

SECONDS = 60.0

UNREADY_BUTTONS = "form.actions.htmx-request, form.actions:not([data-started])"
"""Buttons of posts that wait for a response, which replaces them, or whose script has not started."""

# A repeated import returns the loaded module, so these imports wait until the page's own imports have finished.
_STARTED = """async () => {
  const app = document.querySelector('script[type=module]')?.src;
  const named = [...document.querySelectorAll("[data-behavior]")].flatMap((one) => one.dataset.behavior.split(" "));
  if (app) await Promise.all(["app", ...named].map((name) => import(new URL(`${name}.js`, app))));
}"""


class LiveServer:
    """A network in memory whose server runs in another thread."""

    def __init__(self, network: Network, loop: asyncio.AbstractEventLoop, url: str) -> None:
        self.network = network
        self.url = url
        self._loop = loop

    def run(self, what: Coroutine[Any, Any, T], /, seconds: float = SECONDS) -> T:
        """Run a coroutine in the event loop of the server, and return its result."""
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(seconds)

    def join(self, name: str, **more: Any) -> Member:
        """Register a member who can log in."""
        return self.run(
            members.register(self.network.writes, name, hashed=hashed(), email=f"{name}@example.org", **more)
        )

    def settle(self) -> None:
        """Wait until all jobs are done."""
        self.run(self.network.settle())


@contextmanager
def live_server(**settings: Any) -> Iterator[LiveServer]:
    """Run a server of a new network in memory."""
    made: list[LiveServer] = []
    ready = threading.Event()
    ending: list[asyncio.Task[None]] = []

    async def main() -> None:
        archives = tempfile.mkdtemp()
        chosen = configuration.load(
            {}, **{"store": "memory://", "rate_limits": False, "port": 0, "archives": archives, **settings}
        )
        async with open_network(chosen) as network:
            archive_worker = ArchiveWorker(network, ArchiveStorage(archives_folder(chosen), chosen.max_archive_bytes))
            archive_worker.start()
            parts = (network.settings, network.store, network.writes, network.reads, network.media, network.hub)

            def tell(url: str) -> None:
                made.append(LiveServer(network, asyncio.get_running_loop(), url))
                ready.set()

            ending.append(
                asyncio.create_task(
                    serve(
                        AppParts(
                            *parts,
                            engines=network.engines,
                            server_key=network.server_key,
                            archives=archive_worker.archive_storage,
                        ),
                        listener=listen("127.0.0.1", 0),
                        ready=tell,
                    )
                )
            )
            with contextlib.suppress(asyncio.CancelledError):
                await ending[0]
            await archive_worker.stop()
        shutil.rmtree(archives)

    thread = threading.Thread(target=lambda: asyncio.run(main()), name="shoal")
    thread.start()
    try:
        assert ready.wait(SECONDS), "the server did not start"
        yield made[0]
    finally:
        made[0]._loop.call_soon_threadsafe(ending[0].cancel)
        thread.join(SECONDS)
        assert not thread.is_alive()


@contextmanager
def browser(*, whole: bool = False) -> Iterator[Browser]:
    """Run Chromium's headless shell, or the `whole` browser, until the block ends."""
    # The cached hash needs an event loop, and none can start in this thread while Playwright's runs.
    hashed()
    with chromium(whole=whole) as found:
        yield found


class Complaint(NamedTuple):
    """An error that a page reported: a failed script, a policy violation or a missing file."""

    where: str
    what: str


_LISTENING = """document.addEventListener("securitypolicyviolation", (event) => console.error(
    `${event.effectiveDirective} violated by ${event.blockedURI} in ${event.sourceFile}:${event.lineNumber} ${event.sample}`
));"""
"""Logs each violation of a page's content security policy to the console, where `Screen` reads it."""


class Screen:
    """A browser window that records the errors of its pages."""

    def __init__(self, at: LiveServer, context: BrowserContext, scripts: bool = True) -> None:
        self.at = at
        self.scripts = scripts
        self.context = context
        context.add_init_script(_LISTENING)
        self.page = context.new_page()
        self.complaints: list[Complaint] = []
        context.on("weberror", lambda error: self._note(str(error.error)))
        context.on("console", self._heard)
        context.on("response", self._answered)

    def open(self, path: str) -> Page:
        """Open a page, and wait until its scripts are loaded."""
        self.page.goto(self.at.url + path)
        if self.scripts:
            self.page.evaluate(_STARTED)
        return self.page

    def log_in(self, name: str, password: str = PASSWORD) -> Page:
        """Log in with the form."""
        page = self.open("/login")
        page.get_by_label("User name or e-mail address").fill(name)
        page.get_by_label("Password").fill(password)
        with page.expect_navigation():
            page.get_by_role("main").get_by_role("button", name="Log in").click()
        return page

    def _heard(self, message: ConsoleMessage) -> None:
        # `_answered` records responses with an error status.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self._note(message.text)

    def _answered(self, response: Response) -> None:
        if response.status >= 500:
            self._note(f"{response.status} {response.url}")

    def _note(self, what: str) -> None:
        self.complaints.append(Complaint(self.page.url, what))


@contextmanager
def screen(
    at: LiveServer, of: Browser, width: int = 1_280, *, dark: bool = False, scripts: bool = True, touch: bool = False
) -> Iterator[Screen]:
    """Open a browser window on a network, and assert at the end that its pages reported no errors."""
    with window(of, width, 844 if touch else 900, dark=dark, scripts=scripts, touch=touch) as context:
        made = Screen(at, context, scripts)
        yield made
        assert not made.complaints, made.complaints


def until(page: Page, condition: str, seconds: float = 60) -> None:
    """Wait until an expression is true in a page.

    Playwright's `wait_for_function` evaluates strings, which the content security policy forbids.
    """
    for _ in range(int(seconds * 20)):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"condition is false after {seconds:g} s: {condition}")


def click_at(target: Locator, across: float, down: float) -> None:
    """Click an element at fractions of its width and height, once the behavior that handles the click has started."""
    expect(target.locator("xpath=ancestor-or-self::*[@data-behavior][1]")).to_have_attribute("data-started", "")
    target.scroll_into_view_if_needed()
    box = target.bounding_box()
    assert box is not None
    target.click(position={"x": box["width"] * across, "y": box["height"] * down})


def file(name: str, width: int = 60, height: int = 40, data: bytes = b"") -> FilePayload:
    """Return a file for an upload field: a picture of this size, or other bytes with the name of a picture."""
    return {"name": name, "mimeType": "image/png", "buffer": data or picture(width, height)}


@contextmanager
def held(page: Page, script: str) -> Iterator[None]:
    """Delay the response to requests for a script of the pages until the block ends."""
    waiting: list[Route] = []

    def hold(route: Route) -> None:
        waiting.append(route)

    pattern = re.compile(rf"/{script}(-\w+)?\.js")
    page.context.route(pattern, hold)
    yield
    # Playwright receives the requests while it waits.
    for _ in range(int(SECONDS * 20)):
        if waiting:
            break
        page.wait_for_timeout(50)
    assert waiting, f"no page requested {script}.js"
    for route in waiting:
        route.continue_()
    page.context.unroute(pattern)


__all__ = [
    "UNREADY_BUTTONS",
    "LiveServer",
    "Screen",
    "browser",
    "click_at",
    "file",
    "held",
    "live_server",
    "screen",
    "until",
]
