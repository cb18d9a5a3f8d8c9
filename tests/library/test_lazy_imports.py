"""The names of the package, which are imported lazily on first access."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import shoal


def loaded(lines: str) -> set[str]:
    """Return the modules outside the standard library that a new process imports with these lines."""
    script = f"import sys\nbefore = set(sys.modules)\n{lines}\nprint(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return {name for name in done.stdout.split() if name.partition(".")[0] not in sys.stdlib_module_names}


def test_package_exports_match_type_checker_imports() -> None:
    told = {alias.name: node.module for node in _for_type_checkers() for alias in node.names}
    assert sorted(told) == sorted(shoal.__all__)
    assert {name: home for name, home in told.items() if name != "errors"} == shoal._HOMES
    for name, home in shoal._HOMES.items():
        assert getattr(shoal, name) is getattr(sys.modules[home], name)
    assert shoal.errors.Gone is sys.modules["shoal.errors"].Gone
    assert shoal.__version__ == version("shoal")
    assert {*shoal.__all__, "__version__"} <= set(dir(shoal))


def _for_type_checkers() -> list[ast.ImportFrom]:
    """Imports that only type checkers see."""
    body = ast.parse(Path(shoal.__file__).read_text()).body
    guarded = [node for node in body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    return [node for block in guarded for node in block.body if isinstance(node, ast.ImportFrom)]


def test_package_misspelt_name_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'shoal' has no attribute 'Shaol'"):
        getattr(shoal, "Shaol")  # noqa: B009  # a type checker would refuse it
    with pytest.raises(ImportError, match="cannot import name 'Shaol'"):
        exec("from shoal import Shaol")  # noqa: S102


def test_media_worker_programs_import_no_server_modules() -> None:
    assert loaded("import shoal.media.confined") == {"shoal", "shoal.media", "shoal.media.confined"}
    worker = loaded("import shoal.media.worker")
    assert {name for name in worker if name.startswith("shoal")} >= {"shoal.media.worker", "shoal.media.render"}
    assert worker.isdisjoint({"asyncio", "numpy", "shoal.library", "shoal.graph", "shoal.app"})
