"""Photo details, licenses and downloads over the API."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image

from shoal.admin.archives.importer import import_archive
from shoal.admin.export import export
from shoal.core.model import Media
from tests.api.in_memory_network import NetworkFixture, Someone, network_fixture
from tests.media.photos import SECRETS, taken
from tests.web.browser import visitor

DETAILS = {
    "camera": "FUJIFILM X100V",
    "lens": "23mm f/2",
    "exposure_time": 0.004,
    "aperture": 2.0,
    "iso": 400,
    "focal_length": 23.0,
    "taken_at": "2026-11-24T18:30:00",
}
MARKS = (*SECRETS, "FUJIFILM", "X100V", "23mm f/2", "2026-11-24", "November 24")
"""Texts of the EXIF data."""


def upload(shoal: NetworkFixture, who: Someone, data: bytes = b"", form: dict[str, str] | None = None) -> Any:
    files = {"file": ("blob.jpg", data or taken(), "image/jpeg")}
    return shoal.json("POST", "/api/v2/media", who, files=files, data=form)


def post(at: NetworkFixture, who: Someone, media: Any, **more: Any) -> Any:
    return at.json("POST", "/api/v1/statuses", who, json={"status": "", "media_ids": [media["id"]], **more})


def test_photo_details_turned_off_by_default_appear_in_no_response_or_page(shared: NetworkFixture) -> None:
    ann, ben = shared.join("quiet_ann"), shared.join("quiet_ben")
    media = upload(shared, ann)
    status = post(shared, ann, media)
    shared.json("POST", f"/api/v1/statuses/{status['id']}/reblog", ben)
    shared.settle()
    id_, own = status["id"], shared.json("GET", "/api/v1/accounts/verify_credentials", ann)["id"]
    apis = (f"statuses/{id_}", f"statuses/{id_}/history", f"accounts/{own}/statuses", "timelines/public")
    mine = (f"media/{media['id']}", "accounts/verify_credentials")
    pages = ("", "?show=posts", "?show=about", "/portfolio", ".atom", f"/{id_}", f"/{id_}/photos/1", f"/{id_}/history")
    found = {
        **{path: shared.ask("GET", f"/api/v1/{path}").text for path in apis},
        **{f"{path} as ben": shared.ask("GET", f"/api/v1/{path}", ben).text for path in (*apis, "timelines/home")},
        **{f"{path} as ann": shared.ask("GET", f"/api/v1/{path}", ann).text for path in (*apis, *mine)},
    }
    for name in ("", "quiet_ben", "quiet_ann"):
        browser = visitor(shared, name)
        for path in (
            *(f"/@quiet_ann{page}" for page in pages),
            f"/posts/{id_}/embed",
            f"/embed/{id_}",
            "/explore",
            "/",
        ):
            found[f"{path} for {name}"] = browser.open(path).answer.text
    assert {name for name, text in found.items() if any(mark in text for mark in MARKS)} == set()
    assert all(
        "quiet_ann" in found[f"{path} for "] for path in ("/@quiet_ann", f"/@quiet_ann/{id_}", "/@quiet_ann.atom")
    )
    for url in (media["url"], media["preview_url"]):
        for accept in ("*/*", "image/avif"):
            stored = shared.ask("GET", httpx.URL(url).path, headers={"Accept": accept}).content
            assert not [mark for mark in MARKS if mark.encode() in stored]


def test_photo_details_setting_applies_to_new_uploads(shared: NetworkFixture) -> None:
    ann = shared.join("open_ann")
    before = upload(shared, ann)
    account = shared.json(
        "PATCH", "/api/v1/accounts/update_credentials", ann, json={"shoal": {"shows_photo_details": True}}
    )
    assert account["shoal"]["shows_photo_details"] is True
    made = upload(shared, ann)
    assert made["shoal"] == {"details": DETAILS}
    assert "shoal" not in before
    status = post(shared, ann, made)
    seen = shared.json("GET", f"/api/v1/statuses/{status['id']}")
    assert seen["media_attachments"][0]["shoal"]["details"] == DETAILS
    assert not [secret for secret in SECRETS if secret in str(seen)]


def test_photo_details_option_of_upload_or_edit_overrides_setting_of_member(shared: NetworkFixture) -> None:
    ann = shared.join("choosy_ann")
    made = upload(shared, ann, form={"shoal[shows_details]": "true"})
    assert made["shoal"]["details"] == DETAILS
    path = f"/api/v1/media/{made['id']}"
    assert "shoal" not in shared.json("PUT", path, ann, json={"shoal": {"shows_details": False}})
    assert "shoal" not in shared.json("PUT", path, ann, json={"description": "A quay"})
    status = post(shared, ann, made)
    attributes = [{"id": made["id"], "shoal": {"shows_details": True}}]
    edited = shared.json("PUT", f"/api/v1/statuses/{status['id']}", ann, json={"media_attributes": attributes})
    assert edited["media_attachments"][0]["shoal"]["details"] == DETAILS
    again = shared.json("PUT", f"/api/v1/statuses/{status['id']}", ann, json={"status": "with words"})
    assert again["media_attachments"][0]["shoal"]["details"] == DETAILS
    assert again["media_attachments"][0]["description"] == "A quay"


def test_status_license_defaults_to_setting_and_survives_edits(shared: NetworkFixture) -> None:
    ann = shared.join("free_ann")
    plain = post(shared, ann, upload(shared, ann))
    assert "shoal" not in plain
    change = {"shoal": {"default_license": "CC-BY-4.0", "allows_downloads": True}}
    account = shared.json("PATCH", "/api/v1/accounts/update_credentials", ann, json=change)
    assert (account["shoal"]["default_license"], account["shoal"]["allows_downloads"]) == ("CC-BY-4.0", True)
    status = post(shared, ann, upload(shared, ann))
    terms = {
        "license": "CC-BY-4.0",
        "license_url": "https://creativecommons.org/licenses/by/4.0/",
        "downloads": True,
    }
    assert status["shoal"] == terms
    path = f"/api/v1/statuses/{status['id']}"
    assert shared.json("PUT", path, ann, json={"status": "reworded"})["shoal"] == terms
    freed = shared.json("PUT", path, ann, json={"shoal": {"license": "CC0-1.0", "downloads": False}})
    assert freed["shoal"] == {"license": "CC0-1.0", "license_url": "https://creativecommons.org/publicdomain/zero/1.0/"}
    assert "shoal" not in shared.json("PUT", path, ann, json={"shoal": {"license": "all-rights-reserved"}})
    assert "shoal" not in shared.json("POST", "/api/v1/statuses", ann, json={"status": "only words"})


@pytest.mark.parametrize(("name", "license_"), [("wrong_ann", "CC-BY-NC-4.0"), ("wrong_ben", 7)])
def test_status_with_unknown_license_is_refused_without_effect(
    shared: NetworkFixture, name: str, license_: object
) -> None:
    ann = shared.join(name)
    media = upload(shared, ann)
    refused = shared.ask(
        "POST",
        "/api/v1/statuses",
        ann,
        json={"status": "x", "media_ids": [media["id"]], "shoal": {"license": license_}},
    )
    assert refused.status_code == 422
    assert "license" in refused.json()["error"]
    assert shared.json("GET", f"/api/v1/accounts/{ann.member.id}/statuses", ann) == []


def test_image_original_is_only_served_while_a_status_allows_downloads() -> None:
    with network_fixture(feed_edge=640, keep_originals=True) as shoal:
        bea = shoal.join("bea")
        media = upload(shoal, bea, taken(size=(900, 600)))
        assert "shoal" not in media
        status = post(shoal, bea, media)
        node = shoal.run(shoal.network.store.obj_get((int(media["id"]),)))[int(media["id"])]
        assert isinstance(node, Media)
        hidden = f"/media/{node.original_key}"
        assert shoal.ask("GET", hidden).status_code == 404
        path = f"/api/v1/statuses/{status['id']}"
        shown = shoal.json("PUT", path, bea, json={"shoal": {"downloads": True}})
        url = httpx.URL(shown["media_attachments"][0]["shoal"]["original_url"])
        answer = shoal.ask("GET", f"{url.path}?download")
        assert (url.path, url.query) == (hidden, b"download")
        assert answer.headers["cache-control"] == "private, max-age=30"
        assert answer.headers["content-disposition"] == "attachment"
        assert Image.open(io.BytesIO(answer.content)).size == (900, 600)
        assert not [mark for mark in MARKS if mark.encode() in answer.content]
        shoal.json("DELETE", path, bea)
        shoal.settle()


def test_photo_download_without_stored_original_serves_largest_stored_size(shared: NetworkFixture) -> None:
    ann = shared.join("load_ann")
    media = upload(shared, ann, taken(size=(900, 600)))
    status = post(shared, ann, media, shoal={"downloads": True})
    url = httpx.URL(status["media_attachments"][0]["shoal"]["original_url"])
    answer = shared.ask("GET", f"{url.path}?download", headers={"Accept": "image/avif,*/*"})
    assert answer.headers["content-type"] == "image/jpeg"
    assert answer.headers["content-disposition"] == "attachment"
    assert shared.ask("GET", f"{url.path}?download=1").headers.get("content-disposition") is None


def test_member_export_and_import_keep_photo_details_license_and_download(tmp_path: Path) -> None:
    with network_fixture() as shoal:
        ann = shoal.join("ann")
        shown = post(
            shoal,
            ann,
            upload(shoal, ann, form={"shoal[shows_details]": "true"}),
            shoal={"license": "CC0-1.0", "downloads": True},
        )
        post(shoal, ann, upload(shoal, ann))
        shoal.settle()
        archive = tmp_path / "ann.zip"
        shoal.run(export(shoal.network, "ann", archive))
        assert "SN-4711" not in zipfile.ZipFile(archive).read("media.json").decode()
        assert shown["shoal"]["license"] == "CC0-1.0"
    with network_fixture() as other:
        ann = other.join("ann")
        other.run(import_archive(other.network, ann.member.id, archive, dry_run=False))
        other.settle()
        found = other.json("GET", f"/api/v1/accounts/{ann.member.id}/statuses", ann)
        assert [one.get("shoal", {}).get("license") for one in found] == [None, "CC0-1.0"]
        free = found[1]
        assert free["shoal"]["downloads"] is True
        assert free["media_attachments"][0]["shoal"]["details"] == DETAILS
        assert "shoal" not in found[0]["media_attachments"][0]
        nodes = other.run(other.network.store.obj_get((int(found[0]["media_attachments"][0]["id"]),)))
        (media,) = nodes.values()
        assert isinstance(media, Media)
        assert (media.details is not None, media.shows_details) == (True, False)
