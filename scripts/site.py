"""Hooks of mkdocs (see mkdocs.yml): put CHANGELOG.md and the reference of the TypeScript client on the site."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CHANGELOG = ROOT / "CHANGELOG.md"
CLIENT = ROOT / "sdk" / "typescript"
REFERENCE = "reference/typescript"
"""The folder of the reference on the site."""
_GUIDE = "howto/typescript.md"
_LINK = f'The <a href="../../{REFERENCE}/">reference</a> describes all functions, types and hooks.\n\n## Build and install it'


def on_page_markdown(markdown: str, *, page: Any, **_: object) -> str:
    """Return the text of a page. Links in the changelog become relative to `docs`; the site has no other files of the checkout."""
    if page.file.src_uri == "changelog.md":
        return re.sub(r"\[([^]]*)\]\(examples/[^)]*\)", r"\1", CHANGELOG.read_text("utf-8").replace("](docs/", "]("))
    if page.file.src_uri == _GUIDE and _has_tools():
        return markdown.replace("## Build and install it", _LINK)
    return markdown


def on_post_build(*, config: Any, **_: object) -> None:
    """Write the reference of the TypeScript client, with TypeDoc, if `make tools` has installed its packages."""
    if not _has_tools():
        logging.getLogger("mkdocs.hooks").info("The reference of the TypeScript client is left out: make tools")
        return
    programs = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    target = Path(config["site_dir"]).resolve() / REFERENCE
    for command in (["scripts/generate.mjs"], ["node_modules/typedoc/bin/typedoc", "--out", str(target)]):
        subprocess.run([str(programs / "node"), *command], cwd=CLIENT, env=environment, check=True, stdout=sys.stderr)


def _has_tools() -> bool:
    return (CLIENT / "node_modules").exists() and (Path(sys.executable).parent / "node").exists()
