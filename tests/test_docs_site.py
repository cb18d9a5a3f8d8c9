"""The documentation site builds in strict mode: broken links and missing library references are errors."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.sdk.package import SDK, need

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    if find_spec("mkdocs_click") is None:
        if os.environ.get("CI"):
            pytest.fail("mkdocs is not installed")
        pytest.skip("mkdocs is not installed: make docs")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_documentation_site_contains_library_reference_from_docstrings(site: Path) -> None:
    page = (site / "reference" / "library" / "index.html").read_text()
    for name in ("shoal.Shoal.open", "shoal.Shoal.settle", "shoal.core.errors.NotFound"):
        assert f'id="{name}"' in page


def test_documentation_site_lists_commands_and_options(site: Path) -> None:
    page = (site / "reference" / "command-line" / "index.html").read_text()
    for words in ("shoal block network", "shoal shards rollback", "--severity"):
        assert words in page


def test_documentation_site_contains_reference_of_typescript_client(site: Path) -> None:
    need(SDK)
    reference = site / "reference" / "typescript"
    assert (reference / "functions" / "react.useFeed.html").exists()
    assert (reference / "functions" / "index.createShoal.html").exists()
    page = site / "howto" / "typescript" / "index.html"
    (link,) = re.findall(r'href="([^"]*reference/typescript/)"', page.read_text())
    assert (page.parent / link / "index.html").resolve() == reference / "index.html"


def test_documentation_site_loads_no_external_scripts_or_stylesheets(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text()
        assert 'src="http' not in text, page
        assert '<link rel="stylesheet" href="http' not in text, page
