"""A browser for tests: Debian's Chromium without a window, driven by selenium."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from selenium.common.exceptions import TimeoutException, WebDriverException
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

_PATIENCE = 60.0
_LOADED = "return document.readyState == 'complete' && performance.timeOrigin"


def installed() -> None:
    """Skip the test where the browser is missing; in CI it must not be."""
    for program in ("chromium", "chromedriver"):
        if shutil.which(program) is None:
            if os.environ.get("CI"):
                raise FileNotFoundError(program)
            pytest.skip(f"{program} is not installed: scripts/engines installs it")


@contextmanager
def browser(width: int = 1_100, height: int = 800, *, dark: bool = False, scripts: bool = True) -> Iterator[Chrome]:
    """A browser with nothing in it."""
    installed()
    options = ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    # In a container there are no rights for its sandbox, and little shared memory; the pages are our own.
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", f"--window-size={width},{height}"):
        options.add_argument(argument)
    if not scripts:
        options.add_experimental_option("prefs", {"profile.managed_default_content_settings.javascript": 2})
    driver = Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        driver.set_page_load_timeout(_PATIENCE)
        phone = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
        if dark:
            features = [{"name": "prefers-color-scheme", "value": "dark"}]
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        yield driver
    finally:
        driver.quit()


def leave(driver: Chrome, do: Callable[[], None], *, patience: float = _PATIENCE) -> None:
    """Do what leads to another page, and return when that page is loaded.

    The driver may answer with an error of any kind while a page is replaced, even when the click succeeded. So the page
    that follows decides: each has a time of origin of its own. Where none follows, the error of the click is raised.
    """
    before = _loaded(driver)
    refused: WebDriverException | None = None
    try:
        do()
    except WebDriverException as error:
        refused = error
    try:
        # Nothing of either page is touched before the next one is whole.
        WebDriverWait(driver, patience, ignored_exceptions=[WebDriverException]).until(
            lambda _: _loaded(driver) not in (before, False)
        )
    except TimeoutException as error:
        raise refused or error from error


def _loaded(driver: Chrome) -> float | bool:
    """The time at which the page began to be; False while it is not loaded."""
    origin: float | bool = driver.execute_script(_LOADED)
    return origin
