"""Copy third-party files of the web app from npm: htmx, and icons of Lucide, combined into one file.

Run `npm pack htmx.org@2.0.11 lucide-static@1.62.0`, unpack both, and pass the folders: `python -m scripts.web_files HTMX LUCIDE`.
Files and checksums are written; `tests/web/test_assets.py` verifies the files against the checksums.
"""

from __future__ import annotations

import re
import shutil
import sys
from hashlib import sha256
from pathlib import Path

STATIC = Path(__file__).parents[1] / "src/shoal/web/static"
VENDOR = STATIC / "vendor"
ICONS = Path(__file__).with_name("icons.txt")
"""Icons of Lucide that templates may use, one per line; `icon()` refuses others."""


def main() -> None:
    htmx, lucide = (Path(one) for one in sys.argv[1:3])
    VENDOR.mkdir(parents=True, exist_ok=True)
    shutil.copy(htmx / "dist/htmx.min.js", VENDOR / "htmx.min.js")
    shutil.copy(htmx / "LICENSE", VENDOR / "htmx.LICENSE.txt")
    shutil.copy(lucide / "LICENSE", VENDOR / "lucide.LICENSE.txt")
    (STATIC / "icons.svg").write_text(sprite(lucide / "icons"))
    checked = sorted([*VENDOR.glob("*.js"), *VENDOR.glob("*.LICENSE.txt"), STATIC / "icons.svg"])
    lines = [f"{sha256(path.read_bytes()).hexdigest()}  {path.relative_to(STATIC).as_posix()}" for path in checked]
    (VENDOR / "checksums.txt").write_text("\n".join(lines) + "\n")


def mark() -> str:
    """Return our logo, a fish, in the color of the surrounding text."""
    body = re.sub("<style>.*</style>", "", _inner((STATIC / "mark.svg").read_text()))
    body = body.replace("<path ", '<path fill="currentColor" stroke="none" ').replace(
        "<circle ", '<circle fill="var(--card)" stroke="none" '
    )
    return f'<symbol id="mark" viewBox="0 0 28 28">{body}</symbol>'


def _inner(svg: str) -> str:
    found = re.search(r"<svg[^>]*>(.*)</svg>", svg, re.DOTALL)
    return re.sub(r"\s+", " ", found[1] if found else "").strip().replace("> <", "><")


def sprite(folder: Path) -> str:
    """Return one SVG with a symbol for each icon."""
    symbols = [mark()]
    for name in ICONS.read_text().split():
        body = _inner((folder / f"{name}.svg").read_text())
        symbols.append(f'<symbol id="{name}" viewBox="0 0 24 24">{body}</symbol>')
    return '<svg xmlns="http://www.w3.org/2000/svg">\n' + "\n".join(symbols) + "\n</svg>\n"


if __name__ == "__main__":
    main()
