"""`shoal bench`: runs the benchmarks of the repository and prints their figures."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parents[3]


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def bench(arguments: tuple[str, ...]) -> None:
    """Measure. NAME runs one benchmark, --quick a short round of it; without a name, all run.

    The benchmarks are part of the repository: see docs/performance.md for what each one measures.
    """
    if not (ROOT / "benchmarks" / "__main__.py").exists():
        raise click.ClickException(
            "the benchmarks are in Shoal's repository, not in the installed package: run this there"
        )
    known = _known()
    chosen = [word for word in arguments if word.replace("-", "_") in known]
    if not chosen and (unknown := [word for word in arguments if not word.startswith("-")]):
        raise click.ClickException(f"there is no benchmark {unknown[0]}; there are {', '.join(known)}")
    module = f"benchmarks.{chosen[0].replace('-', '_')}" if chosen else "benchmarks"
    # Its own options may stand before the name or after it.
    rest = [word for word in arguments if word not in chosen[:1]]
    done = subprocess.run([sys.executable, "-m", module, *rest], cwd=ROOT, check=False)  # noqa: S603  # our own
    raise SystemExit(done.returncode)


def _known() -> list[str]:
    """The benchmarks, by the rule of `benchmarks.measure`; other modules there are what these share, or run beside them."""
    modules = sorted((ROOT / "benchmarks").glob("[a-z]*.py"))
    return [path.stem for path in modules if re.search(r"= parser\(\s*__doc__", path.read_text("utf-8"))]
