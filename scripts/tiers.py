"""Write the list of the second tier of tests into CONTRIBUTING.md."""

from __future__ import annotations

from pathlib import Path

from tests.tiers import COMBINATIONS, DEEP

PAGE = Path(__file__).resolve().parent.parent / "CONTRIBUTING.md"
_BEGIN, _END = "<!-- tiers -->\n", "<!-- /tiers -->"


def page(text: str) -> str:
    before, _, rest = text.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    backends = ", ".join(f"`{name}`" for name in sorted(COMBINATIONS))
    rows = [f"| `{name}` | {reason} |" for name, reason in sorted(DEEP.items())]
    table = [
        "| tests | reason |",
        "|---|---|",
        f"| with the backends {backends} | repeat other tests on combinations of backends |",
        *rows,
    ]
    return f"{before}{_BEGIN}\n" + "\n".join(table) + f"\n\n{_END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
