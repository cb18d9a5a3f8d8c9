"""Static files of the web app: checksums, size limits, caching and compression."""

from __future__ import annotations

import gzip
import re
from graphlib import TopologicalSorter
from hashlib import sha256
from importlib.resources import files

import pytest

from shoal.web.assets import assets, read_assets
from shoal.web.rendering import icon_names
from tests.api.in_memory_network import network_fixture

TOKEN = re.compile("[0-9a-f]{128}")
IMPORTED = re.compile(r"""(?:\bfrom |\bimport\()["']\./([\w-]+\.js)["']""")
STATIC = files("shoal.web") / "static"


@pytest.mark.parametrize("line", (STATIC / "vendor/checksums.txt").read_text().splitlines())
def test_vendored_assets_match_checksums(line: str) -> None:
    digest, _, name = line.partition("  ")
    assert sha256((STATIC / name).read_bytes()).hexdigest() == digest


def test_asset_scripts_and_styles_stay_within_size_limits() -> None:
    found = assets().found
    scripts = {name: one for name, one in found.items() if name.endswith(".js")}
    assert sum(len(one.packed) for one in scripts.values()) < 57_500
    assert len(found["styles/app.css"].packed) < 20_000
    assert b"/*" not in found["styles/app.css"].data
    assert not [name for name, one in scripts.items() if b"\n//" in one.data or one.data.startswith(b"//")]
    long = {name for name, one in scripts.items() if "vendor" not in name and one.data.count(b"\n") > 100}
    assert not long


def test_web_scripts_have_no_import_cycles() -> None:
    scripts = {one.name: IMPORTED.findall(one.read_text()) for one in (STATIC / "scripts").iterdir()}
    assert sum(map(len, scripts.values())) > 20
    # Raises `CycleError` for a cycle.
    assert set(TopologicalSorter(scripts).static_order()) == set(scripts)


def test_static_files_are_immutable_by_version_and_gzip_compressed() -> None:
    with network_fixture() as here:
        version = assets().version
        for name in ("styles/app.css", "icons.svg", "scripts/app.js"):
            plain = here.ask("GET", f"/static/{version}/{name}", headers={"Accept-Encoding": "identity"})
            packed = here.ask("GET", f"/static/{version}/{name}", headers={"Accept-Encoding": "gzip"})
            assert plain.content == packed.content == assets().found[name].data
            assert packed.headers["content-encoding"] == "gzip"
            assert plain.headers["cache-control"] == "public, max-age=31536000, immutable"
        old = here.ask("GET", "/static/0000/styles/app.css")
        assert old.headers["cache-control"] == "public, max-age=60"
        assert here.ask("GET", f"/static/{version}/nothing.css").status_code == 404


@pytest.mark.parametrize(
    ("accepted", "is_packed"),
    [
        ("gzip", True),
        ("deflate, GZIP;q=0.5, br", True),
        ("br,gzip;q=1.000", True),
        ("gzip;q=0", False),
        ("gzip; q=0.000, br", False),
        ("gzipped, x-gzip", False),
        ("identity", False),
        ("", False),
    ],
)
def test_page_compression_follows_accept_encoding(accepted: str, is_packed: bool) -> None:
    with network_fixture() as here:
        plain = here.ask("GET", "/about", headers={"Accept-Encoding": "identity"})
        found = here.ask("GET", "/about", headers={"Accept-Encoding": accepted})
        assert (found.headers.get("content-encoding") == "gzip") == is_packed
        assert TOKEN.sub("", found.text) == TOKEN.sub("", plain.text)
        assert "Accept-Encoding" in found.headers["vary"]
        assert (int(found.headers["content-length"]) < len(plain.content)) == is_packed


def test_asset_version_is_reproducible_and_icons_decompress() -> None:
    assert read_assets(STATIC).version == assets().version
    packed = assets().found["icons.svg"].packed
    assert gzip.decompress(packed) == (STATIC / "icons.svg").read_bytes()
    assert {"heart", "mark"} <= icon_names()


def test_web_component_gallery_is_served_only_in_development() -> None:
    with network_fixture(development=True) as here:
        page = here.ask("GET", "/dev/components")
        assert page.status_code == 200
        assert page.text.count("<article") > 15
    with network_fixture() as here:
        assert here.ask("GET", "/dev/components").status_code == 404


def test_web_manifest_icons_and_service_worker_are_served() -> None:
    with network_fixture(title="The Harbour") as here:
        told = here.ask("GET", "/manifest.webmanifest").json()
        assert told["name"] == "The Harbour"
        for icon in told["icons"]:
            assert here.ask("GET", icon["src"]).headers["content-type"] == "image/png"
        script = here.ask("GET", "/worker.js")
        assert script.headers["content-type"].startswith("text/javascript")
        assert assets().version in script.text
        assert "offline" in here.ask("GET", "/offline").text
