"""The npm package of the TypeScript client: its build in a clean copy, its archive, installation and reference."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tarfile
import textwrap
from pathlib import Path

import pytest

from scripts.openapi import document
from tests.doc_snippets import files
from tests.sdk.conftest import Product
from tests.sdk.package import NODE, ROOT, SDK, need, node

_PROGRAM = """
import { createShoal, items, type Status } from "@shoal/client";
import { homeFeed, useFeed, type FeedResult } from "@shoal/client/react";

const shoal = createShoal({ url: process.env["SHOAL_URL"]!, token: process.env["SHOAL_TOKEN"] });
const made: Status = await shoal.post("/api/v1/statuses", { body: { status: "Low tide" } });
for await (const status of items(shoal, "/api/v1/timelines/home")) console.log(status.id === made.id);
export const useHome = (): FeedResult => useFeed(homeFeed);
// @ts-expect-error: the id is missing
export const wrong = () => shoal.get("/api/v1/statuses/{id}");
"""
_IMPORT = re.compile(r'^import \{ (.*) \} from "(.*)";\n', re.MULTILINE)
_GUIDE_NAMES = """
declare const shoal: Shoal, file: File, signal: AbortSignal;
declare const [token, yesterday, clientId, clientSecret, redirectUri]: string[];
declare const show: (text: string) => void, retryAfter: (seconds: number) => void, bar: (part: number) => void;
declare const prepend: (status: Status) => void, remove: (id: string) => void, reload: () => void;
declare const jwtFromOurBackend: () => Promise<string>;
"""
"""Names that the guide uses without a definition."""
_COMPILER_OPTIONS = {"strict": True, "module": "nodenext", "target": "es2022", "types": ["node"], "jsx": "react-jsx"}


def npm(*arguments: str | Path, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": f"{NODE.parent}:/usr/bin:/bin", **variables}
    command = [NODE.parent / "npm", *arguments, "--no-audit", "--no-fund", "--loglevel=error"]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=600, check=False)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the package without generated files, after `npm run build`."""
    need(SDK)
    root = tmp_path_factory.mktemp("checkout")
    copied = root / "sdk" / "typescript"
    shutil.copytree(SDK, copied, ignore=shutil.ignore_patterns("node_modules", "dist", "build", "docs", "schema.ts"))
    (copied / "node_modules").symlink_to(SDK / "node_modules")
    for name in ("LICENSE", "docs/howto/typescript.md"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    (root / "openapi.json").write_text(document())
    done = npm("run", "build", cwd=copied, SHOAL_OPENAPI=str(root / "openapi.json"))
    assert done.returncode == 0, done.stdout + done.stderr
    return copied


def test_packed_client_installs_and_works_in_clean_project(copy: Path, product: Product, tmp_path: Path) -> None:
    packed = npm("pack", "--pack-destination", tmp_path, cwd=copy)
    assert packed.returncode == 0, packed.stderr
    archive = next(tmp_path.glob("*.tgz"))
    with tarfile.open(archive) as opened:
        names = {name.removeprefix("package/") for name in opened.getnames()}
    assert {
        "README.md",
        "LICENSE",
        "package.json",
        "dist/index.js",
        "dist/index.d.ts",
        "dist/react/index.d.ts",
    } <= names
    assert all(name.startswith("dist/") and name.endswith((".js", ".d.ts", ".js.map")) for name in names if "/" in name)

    project = tmp_path / "project"
    project.mkdir()
    manifest = {"name": "clean", "private": True, "type": "module"}
    (project / "package.json").write_text(json.dumps(manifest))
    (project / "tsconfig.json").write_text(json.dumps({"compilerOptions": _COMPILER_OPTIONS, "files": ["program.ts"]}))
    (project / "program.ts").write_text(_PROGRAM)
    wanted = json.loads((SDK / "package.json").read_text())["devDependencies"]
    others = ("react", "@tanstack/react-query", "@types/react", "@types/node", "typescript")
    installed = npm("install", archive, *(f"{name}@{wanted[name]}" for name in others), cwd=project)
    if installed.returncode and not os.environ.get("CI"):
        pytest.skip(f"npm cannot install packages: {installed.stderr[-200:]}")
    assert installed.returncode == 0, installed.stderr
    node("node_modules/typescript/bin/tsc", cwd=project)
    token = product.served.join("ann").token
    variables = {"SHOAL_URL": product.served.url, "SHOAL_TOKEN": token}
    assert node("program.js", cwd=project, **variables) == "true\n"


def test_page_of_recipe_tutorial_installs_and_builds_with_its_commands(copy: Path, tmp_path: Path) -> None:
    page = ROOT / "docs" / "tutorial-recipes.md"
    for path, text in files(page).items():
        if path.startswith("page/"):
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text)
    commands = [line.split()[1:] for line in page.read_text().splitlines() if line.startswith("npm ")]
    assert commands[:3] == [
        ["--prefix", "../sdk/typescript", "ci"],
        ["--prefix", "../sdk/typescript", "run", "build"],
        ["pack", "../sdk/typescript"],
    ]
    assert commands[3:] == [["--prefix", "page", "install"], ["--prefix", "page", "run", "dev"]]
    packed = npm("pack", copy, cwd=tmp_path)
    assert packed.returncode == 0, packed.stderr
    installed = npm(*commands[3], cwd=tmp_path)
    if installed.returncode and not os.environ.get("CI"):
        pytest.skip(f"npm cannot install packages: {installed.stderr[-200:]}")
    assert installed.returncode == 0, installed.stderr
    for script in ("check", "build"):
        done = npm("--prefix", "page", "run", script, cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "page" / "dist" / "index.html").exists()


def test_code_of_typescript_guide_has_no_type_errors(copy: Path, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "howto" / "typescript.md").read_text()
    imports = {"@shoal/client": {"type Shoal", "type Status", "createShoal"}}
    parts = []
    for block in re.findall(r"^(?:    .*\n|\n)+", page, re.MULTILINE):
        code = textwrap.dedent(block)
        for names, module in _IMPORT.findall(code):
            imports.setdefault(module, set()).update(names.split(", "))
        code = _IMPORT.sub("", code).strip()
        if code and not code.startswith(("make ready", "npm ")):
            parts.append(code if code.startswith("function") else f"{{\n{code}\n}}")
    assert len(parts) >= 9
    lines = [f'import {{ {", ".join(sorted(names))} }} from "{module}";' for module, names in imports.items()]
    (tmp_path / "guide.tsx").write_text("\n".join([*lines, _GUIDE_NAMES, *parts]))
    (tmp_path / "node_modules").symlink_to(SDK / "node_modules")
    paths = {"@shoal/client": [f"{copy}/dist/index.d.ts"], "@shoal/client/react": [f"{copy}/dist/react/index.d.ts"]}
    # The code of the guide is without types, such as those of the properties of components.
    options = {**_COMPILER_OPTIONS, "strict": False, "paths": paths, "noEmit": True, "skipLibCheck": True}
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "tsconfig.json").write_text(json.dumps({"compilerOptions": options, "files": ["guide.tsx"]}))
    node("node_modules/typescript/bin/tsc", cwd=tmp_path)


def test_reference_of_client_has_a_page_for_each_function_and_no_broken_link(copy: Path) -> None:
    done = npm("run", "docs", cwd=copy)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = {path.stem for path in (copy / "docs" / "functions").glob("*.html")}
    expected = ("index.createShoal", "index.items", "index.stream", "index.upload", "index.exchangedTokens")
    assert {*expected, "react.useFeed", "react.useLike"} <= pages


def test_gallery_sources_have_no_type_errors(copy: Path, tmp_path: Path) -> None:
    gallery = ROOT / "examples" / "gallery"
    need(gallery)
    paths = {"@shoal/client": [f"{copy}/dist/index.d.ts"], "@shoal/client/react": [f"{copy}/dist/react/index.d.ts"]}
    settings = {
        "paths": paths,
        "typeRoots": [f"{gallery}/node_modules"],
        "types": [f"{gallery}/node_modules/vite/client"],
    }
    (tmp_path / "tsconfig.json").write_text(
        json.dumps({"extends": f"{gallery}/tsconfig.json", "compilerOptions": settings, "include": [f"{gallery}/src"]})
    )
    node(gallery / "node_modules/typescript/bin/tsc", "-p", tmp_path)
