"""Clients in Python and TypeScript that are generated from the API description use a served Shoal."""

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
from tests.sdk.package import SDK, need, node

HERE = Path(__file__).resolve().parent
_TYPESCRIPT = """
import createClient from "openapi-fetch";
import type { paths } from "./generated.js";

const headers = { Authorization: `Bearer ${process.env["SHOAL_TOKEN"]}` };
const client = createClient<paths>({ baseUrl: process.env["SHOAL_URL"]!, headers });
const { data: made } = await client.POST("/api/v1/statuses", { body: { status: "Low tide at #dawn" } });
const id: string = made!.id;
const { data: shown } = await client.GET("/api/v1/statuses/{id}", { params: { path: { id } } });
const { error } = await client.GET("/api/v1/statuses/{id}", { params: { path: { id: "1" } } });
console.log(shown!.content === made!.content, error!.error);
// @ts-expect-error: the id is missing
export const wrong = () => client.GET("/api/v1/statuses/{id}");
"""


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


def test_openapi_typescript_generates_working_client(shoal: Served, document: Path, tmp_path: Path) -> None:
    need(SDK)
    (tmp_path / "node_modules").symlink_to(SDK / "node_modules")
    (tmp_path / "package.json").write_text('{"type": "module"}')
    node("node_modules/openapi-typescript/bin/cli.js", document, "--output", "generated.ts", cwd=tmp_path)
    (tmp_path / "program.ts").write_text(_TYPESCRIPT)
    options = ("--module", "nodenext", "--target", "es2022", "--strict", "--types", "node", "program.ts")
    node("node_modules/typescript/bin/tsc", *options, cwd=tmp_path)
    variables = {"SHOAL_URL": shoal.url, "SHOAL_TOKEN": shoal.join().token}
    assert node("program.js", cwd=tmp_path, **variables) == "true Record not found\n"
