"""A Python client that is generated from the API description uses a served Shoal. `tests/sdk` does the same in TypeScript."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import openapi
from tests.clients.client_programs import python_generator
from tests.clients.server import Served

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The OpenAPI document as a file."""
    path = tmp_path_factory.mktemp("openapi") / "openapi.json"
    path.write_text(openapi.document())
    return path


def run(*command: str | Path, cwd: Path, **variables: str) -> str:
    """Run a command and return its output. Fail the test if the command fails."""
    ended = subprocess.run(
        command,
        cwd=cwd,
        env={"PATH": os.environ["PATH"], **variables},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def test_openapi_python_client_generates_working_client(shoal: Served, document: Path, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("post_hooks: []\n")
    command: list[str | Path] = [python_generator(), "generate", "--path", document, "--meta", "none"]
    run(*command, "--output-path", tmp_path / "generated", "--config", config, cwd=tmp_path)
    described = json.loads(document.read_text())["paths"].values()
    operations = {operation["operationId"] for path in described for operation in path.values()}
    assert operations <= {module.stem for module in (tmp_path / "generated" / "api").rglob("*.py")}
    shutil.copy(HERE / "generated_client_script.py", tmp_path)
    variables = {"SHOAL_URL": shoal.url, "SHOAL_TOKEN": shoal.join().token}
    assert run(sys.executable, "generated_client_script.py", cwd=tmp_path, **variables) == "done\n"
