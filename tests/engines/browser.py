"""A browser for tests: Debian's Chromium without a window, driven by selenium."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service


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
        driver.set_page_load_timeout(30)
        phone = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
        if dark:
            features = [{"name": "prefers-color-scheme", "value": "dark"}]
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        yield driver
    finally:
        driver.quit()
