"""The TypeScript client against a served Shoal, in Node and in Chromium."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path

from tests.api.in_memory_network import picture
from tests.doc_snippets import files
from tests.engines.chromium import browser, window
from tests.sdk.conftest import Product
from tests.sdk.package import ROOT, SDK, bundle, node, site

MAX_CORE_BYTES = 15 * 1024


def test_typescript_sources_tests_and_tutorial_have_no_type_errors() -> None:
    folder = SDK / "build" / "tutorial"
    for path, text in files(ROOT / "docs" / "tutorial-recipes.md").items():
        if path.startswith("page/src/"):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
    paths = {"@shoal/client": ["../../src/index.ts"], "@shoal/client/react": ["../../src/react/index.ts"]}
    options = {"paths": paths, "allowImportingTsExtensions": True, "tsBuildInfoFile": "../tutorial.tsbuildinfo"}
    sources = ["../../src", "../../test", "../../vitest.config.ts", "page"]
    configuration = {"extends": "../../tsconfig.json", "compilerOptions": options, "include": sources}
    (folder / "tsconfig.json").write_text(json.dumps(configuration))
    node("node_modules/typescript/bin/tsc", "-p", folder)


def test_client_tests_pass_against_server(product: Product, tmp_path: Path) -> None:
    image = tmp_path / "sand.png"
    image.write_bytes(picture(64, 40))
    node(
        "node_modules/vitest/vitest.mjs",
        "run",
        SHOAL_URL=product.served.url,
        SHOAL_APP_TOKEN=product.app_token,
        SHOAL_CLIENT_ID=product.served.client_id,
        SHOAL_CLIENT_SECRET=product.served.client_secret,
        SHOAL_KEY=product.key,
        SHOAL_JWT=product.jwt,
        SHOAL_PICTURE=str(image),
    )


def test_client_core_is_at_most_15_kilobytes_compressed(tmp_path: Path) -> None:
    whole = bundle(tmp_path / "whole.js", SDK / "dist/index.js", "--format=esm").read_bytes()
    assert len(gzip.compress(whole)) <= MAX_CORE_BYTES


def test_client_parts_that_are_not_imported_are_not_bundled(tmp_path: Path) -> None:
    entry = tmp_path / "entry.js"
    entry.write_text(f'export {{ createShoal }} from "{SDK / "dist/index.js"}";')
    small = bundle(tmp_path / "small.js", entry, "--format=esm").read_text()
    assert "oauth/authorize" not in small
    assert "XMLHttpRequest" not in small
    assert "api/v1/streaming" not in small


def test_client_in_browser_uploads_with_progress_streams_and_pages(product: Product, tmp_path: Path) -> None:
    script = bundle(tmp_path / "client.js", "test/browser.ts", "--format=iife", "--global-name=client").read_text()
    image = "data:image/png;base64," + base64.b64encode(picture(640, 400)).decode()
    token = product.served.join("ann").token
    (tmp_path / "index.html").write_text("<!doctype html>")
    with site(tmp_path) as url, browser() as chromium, window(chromium) as context:
        page = context.new_page()
        page.goto(url)
        page.add_script_tag(content=script)
        found = page.evaluate("given => client.play(...given)", [product.served.url, token, image])
    assert found["streamed"]
    assert found["listed"]
    assert found["sent"]["sent"] == found["sent"]["total"] >= found["size"]
    assert found["refused"].startswith("ShoalError: ")
    assert found["aborted"] == "Error: cancelled"
