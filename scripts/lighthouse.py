"""Run Lighthouse on pages of the web app, emulating a phone: `python -m scripts.lighthouse`.

The demo network is created and served as for `make shots`, and audited without a login and as a member. Lighthouse (release 12)
is fetched by npx, so this needs Node and the internet. It prints the scores, of 100 each, and fails on accessibility below 100.
For members it reports one false error: it does not send the cookie with a page's event stream.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from scripts.shots import served

SECONDS = 240
CATEGORIES = ("performance", "accessibility", "best-practices", "seo")
STRANGER = {
    "front": "/",
    "explore": "/explore",
    "post": "/@{author}/{id}",
    "profile": "/@{author}",
    "log-in": "/login",
}
MEMBER = {
    "home": "/",
    "for-you": "/for-you",
    "compose": "/compose",
    "notifications": "/notifications",
    "settings": "/settings",
}


class Found(NamedTuple):
    scores: list[int]
    complaints: list[str]
    """All accessibility and best-practice problems, with their position on the page."""


def _look(url: str, cookie: str, folder: Path) -> Found:
    npx, told = shutil.which("npx"), folder / "told.json"
    if npx is None:
        raise SystemExit("npx is not on the PATH: install Node")
    command = [npx, "--yes", "lighthouse@12", url, "--quiet", "--output=json", f"--output-path={told}"]
    command += [f"--only-categories={','.join(CATEGORIES)}", "--chrome-flags=--headless --no-sandbox"]
    if cookie:
        command.append(f"--extra-headers={json.dumps({'Cookie': cookie})}")
    environ = {**os.environ, "CHROME_PATH": shutil.which("chromium") or ""}
    subprocess.run(command, check=True, env=environ, stdout=subprocess.DEVNULL, timeout=SECONDS)
    report = json.loads(told.read_bytes())
    scored = report["categories"]
    wrong = [one for name in CATEGORIES[1:3] for one in _complaints(report, scored[name]["auditRefs"])]
    return Found([round(100 * scored[name]["score"]) for name in CATEGORIES], wrong)


def _complaints(report: dict[str, Any], audits: list[dict[str, Any]]) -> Iterator[str]:
    for audit in audits:
        found = report["audits"][audit["id"]]
        if audit["weight"] and found["score"] is not None and found["score"] < 1:
            for item in found.get("details", {}).get("items", [])[:3]:
                where = item.get("node", {}).get("snippet") or json.dumps(item)
                yield f"{audit['id']}: {found['title']} {where[:200]}"


def main() -> None:
    with tempfile.TemporaryDirectory() as made, served(Path(made)) as at:
        url, subjects, cookie = at.url, at.subjects, f"shoal_login={at.cookies['member']}"
        print(f"{'page':<16}" + "".join(f"{name:>16}" for name in CATEGORIES))
        hindered = False
        for pages, who in ((STRANGER, ""), (MEMBER, cookie)):
            for name, path in pages.items():
                found = _look(url + path.format(**subjects._asdict()), who, Path(made))
                print(f"{name:<16}" + "".join(f"{score:>16}" for score in found.scores), flush=True)
                for complaint in found.complaints:
                    print(f"    {complaint}")
                hindered |= found.scores[1] < 100
    sys.exit(hindered)


if __name__ == "__main__":
    main()
