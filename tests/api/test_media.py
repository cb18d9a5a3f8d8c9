"""Video and audio uploads over the API: accepted immediately and processed in the background."""

from __future__ import annotations

import asyncio
import base64
import io
import random
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image

from shoal.core.media_files import sizes_of
from shoal.media.clips import Programs
from shoal.media.library import MediaLibrary
from tests.api.in_memory_network import NetworkFixture, Someone, picture, served
from tests.api.login.signup import signed_up
from tests.media.clips import clip, film, moving_gif, needed, silent, tone
from tests.server_process import served as served_process

FAILED = {"error": "this file is damaged: it cannot be read"}


@pytest.fixture(scope="module")
def ann(shared: NetworkFixture) -> Someone:
    needed()
    return shared.join("ann")


def upload(shoal: NetworkFixture, who: Someone, data: bytes, *, version: int = 2, **more: Any) -> httpx.Response:
    """Upload a file that is declared as a JPEG regardless of its content."""
    files = {"file": ("blob.jpg", data, "image/jpeg"), **more.pop("files", {})}
    return shoal.ask("POST", f"/api/v{version}/media", who, files=files, data=more)


def ready(shoal: NetworkFixture, who: Someone, data: bytes, **more: Any) -> Any:
    """Upload a file and return the attachment after processing."""
    made = upload(shoal, who, data, **more).json()
    shoal.settle()
    return shoal.json("GET", f"/api/v1/media/{made['id']}", who)


def file_of(shoal: NetworkFixture, url: str, **headers: str) -> httpx.Response:
    """Fetch a stored file by its URL."""
    return shoal.ask("GET", httpx.URL(url).path, headers=headers)


def test_video_upload_returns_202_and_is_processed_in_background(shared: NetworkFixture, ann: Someone) -> None:
    answer = upload(shared, ann, film(), description="a test", focus="0.5,-0.5")
    made = answer.json()
    assert answer.status_code == 202
    assert (made["type"], made["url"], made["preview_url"]) == ("video", None, None)
    waiting = shared.ask("GET", f"/api/v1/media/{made['id']}", ann)
    assert waiting.status_code in {200, 206}
    shared.settle()
    done = shared.json("GET", f"/api/v1/media/{made['id']}", ann)
    assert (done["type"], done["description"]) == ("video", "a test")
    assert done["meta"]["focus"] == {"x": 0.5, "y": -0.5}
    original = done["meta"]["original"]
    assert (original["width"], original["height"], original["frame_rate"]) == (160, 90, "30/1")
    assert original["duration"] == pytest.approx(1, abs=0.2)
    assert original["bitrate"] > 0
    assert done["meta"]["audio_encode"] == "aac"
    assert done["meta"]["small"]["size"] == "160x90"
    assert len(done["blurhash"]) > 20
    file = file_of(shared, done["url"])
    assert (file.status_code, file.headers["content-type"]) == (200, "video/mp4")
    assert b"secret" not in file.content
    assert file_of(shared, done["preview_url"]).headers["content-type"] == "image/jpeg"


def test_v1_media_upload_of_audio_waits_for_processing(
    shared: NetworkFixture, ann: Someone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.mastodon_api.media._WAIT_SECONDS", 600.0)
    answer = upload(shared, ann, tone(".ogg"), version=1)
    made = answer.json()
    assert (answer.status_code, made["type"], made["preview_url"]) == (200, "audio", None)
    assert made["meta"]["original"]["audio_encode"] == "mp3"
    assert "width" not in made["meta"]["original"]
    assert file_of(shared, made["url"]).headers["content-type"] == "audio/mpeg"


def test_media_upload_of_animated_gif_and_silent_video_becomes_gifv(shared: NetworkFixture, ann: Someone) -> None:
    assert ready(shared, ann, moving_gif())["type"] == "gifv"
    assert ready(shared, ann, silent())["type"] == "gifv"


def test_image_upload_is_ready_immediately(shared: NetworkFixture, ann: Someone) -> None:
    answer = upload(shared, ann, picture())
    assert (answer.status_code, answer.json()["type"]) == (200, "image")
    assert answer.json()["url"]


def photograph() -> bytes:
    """Return a JPEG with photo-like noise."""
    file = io.BytesIO()
    small = Image.frombytes("RGB", (90, 60), random.Random(5).randbytes(90 * 60 * 3))
    small.resize((900, 600), Image.Resampling.BICUBIC).save(file, "JPEG")
    return file.getvalue()


def test_media_file_with_accept_avif_is_served_as_smaller_avif(shared: NetworkFixture, ann: Someone) -> None:
    url = upload(shared, ann, photograph()).json()["url"]
    assert url.endswith(".jpg")
    plain = file_of(shared, url)
    assert (plain.headers["content-type"], plain.headers["vary"]) == ("image/jpeg", "Accept")
    browser = file_of(shared, url, Accept="image/avif,image/webp,image/png,*/*;q=0.8")
    assert (browser.headers["content-type"], browser.headers["vary"]) == ("image/avif", "Accept")
    assert browser.headers["cache-control"] == plain.headers["cache-control"]
    assert len(browser.content) < len(plain.content)
    assert Image.open(io.BytesIO(browser.content)).size == (900, 600)
    part = file_of(shared, url, Accept="image/avif", Range="bytes=0-9")
    assert (part.status_code, part.content) == (206, browser.content[:10])
    for other in ("*/*", "image/*", "image/webp", "image/avif;q=0, image/jpeg", "image/avif; q=0.0"):
        assert file_of(shared, url, Accept=other).content == plain.content


def test_media_file_in_smaller_size_is_served_only_to_clients_that_accept_its_format(
    shared: NetworkFixture, ann: Someone
) -> None:
    url = upload(shared, ann, photograph()).json()["preview_url"]

    def size(edge: str, accept: str) -> httpx.Response:
        return shared.ask("GET", f"{httpx.URL(url).path}?{edge}", headers={"Accept": accept})

    browser, older = size("320", "image/avif,*/*"), size("320", "*/*")
    assert Image.open(io.BytesIO(browser.content)).size == (320, 214)
    assert (browser.headers["content-type"], browser.headers["vary"]) == ("image/avif", "Accept")
    assert browser.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert len(size("160", "image/avif").content) < len(browser.content)
    assert (older.headers["content-type"], older.headers["vary"]) == ("image/jpeg", "Accept")
    assert older.content == file_of(shared, url).content
    whole = file_of(shared, url, Accept="image/avif")
    assert whole.headers["etag"] != browser.headers["etag"]
    for other in ("321", "99999", "small", ""):
        assert size(other, "image/avif").content == whole.content


def test_media_file_without_its_smaller_size_is_served_in_full_size(shared: NetworkFixture, ann: Someone) -> None:
    url = httpx.URL(upload(shared, ann, photograph()).json()["preview_url"])
    key = url.path.removeprefix("/media/")
    whole = shared.ask("GET", url.path, headers={"Accept": "image/avif"})
    shared.run(shared.network.media._store.delete([sizes_of(key)[160]]))
    answer = shared.ask("GET", f"{url.path}?160", headers={"Accept": "image/avif"})
    assert (answer.status_code, answer.content) == (200, whole.content)


def test_media_file_png_is_served_unchanged_despite_accept_avif(shared: NetworkFixture, ann: Someone) -> None:
    made = upload(shared, ann, picture()).json()
    assert made["preview_url"].endswith(".png")
    answer = file_of(shared, made["url"], Accept="image/avif,*/*")
    assert answer.headers["content-type"] == "image/png"
    assert "vary" not in answer.headers


def test_media_upload_with_malformed_part_content_type_is_accepted(shared: NetworkFixture, ann: Someone) -> None:
    nonsense = {"thumbnail": ("thumb", picture(color="red"), "('image/png', None)")}
    made = ready(shared, ann, tone(), files=nonsense)
    assert made["type"] == "audio"
    assert made["preview_url"].endswith(".png")


def test_video_custom_thumbnail_is_set_and_replaced(shared: NetworkFixture, ann: Someone) -> None:
    made = ready(shared, ann, film(), files={"thumbnail": ("a.png", picture(64, 64, "red"), "image/png")})
    assert made["meta"]["small"]["size"] == "64x64"
    path = f"/api/v1/media/{made['id']}"
    changed = shared.json("PUT", path, ann, files={"thumbnail": ("b.png", picture(48, 48, "blue"), "image/png")})
    assert changed["meta"]["small"]["size"] == "48x48"
    shared.settle()
    assert file_of(shared, made["preview_url"]).status_code == 404
    assert file_of(shared, changed["preview_url"]).status_code == 200
    assert changed["url"] == made["url"]


def test_status_edit_replaces_video_thumbnail(shared: NetworkFixture, ann: Someone) -> None:
    made = ready(shared, ann, film())
    status = shared.json("POST", "/api/v1/statuses", ann, json={"status": "look", "media_ids": [made["id"]]})
    path = f"/api/v1/statuses/{status['id']}"
    inline = "data:image/png;base64," + base64.b64encode(picture(48, 48, "blue")).decode()
    said = {"id": made["id"], "thumbnail": inline, "description": "a blue square", "focus": "0.5,0.5"}
    (edited,) = shared.json("PUT", path, ann, json={"media_attributes": [said]})["media_attachments"]
    assert (edited["meta"]["small"]["size"], edited["description"]) == ("48x48", "a blue square")
    assert edited["meta"]["focus"] == {"x": 0.5, "y": 0.5}
    form = {"media_attributes[][id]": made["id"]}
    files = {"media_attributes[][thumbnail]": ("b.png", picture(40, 40, "red"), "image/png")}
    (edited,) = shared.json("PUT", path, ann, data=form, files=files)["media_attachments"]
    assert edited["meta"]["small"]["size"] == "40x40"
    for wrong in ("data:image/png;base64,???", "no file"):
        refused = shared.ask("PUT", path, ann, json={"media_attributes": [{"id": made["id"], "thumbnail": wrong}]})
        assert refused.status_code == 422


def test_image_custom_thumbnail_is_refused(shared: NetworkFixture, ann: Someone) -> None:
    files = {"thumbnail": ("b.png", picture(40, 40, "red"), "image/png")}
    assert upload(shared, ann, picture(), files=files).status_code == 422
    made = upload(shared, ann, picture()).json()
    refused = shared.ask("PUT", f"/api/v1/media/{made['id']}", ann, files=files)
    assert (refused.status_code, refused.json()["error"].partition(": ")[2]) == (
        422,
        "thumbnail: only video and audio can have a thumbnail",
    )
    status = shared.json("POST", "/api/v1/statuses", ann, json={"status": "look", "media_ids": [made["id"]]})
    inline = "data:image/png;base64," + base64.b64encode(picture()).decode()
    said = {"status": "new", "media_attributes": [{"id": made["id"], "thumbnail": inline}]}
    assert shared.ask("PUT", f"/api/v1/statuses/{status['id']}", ann, json=said).status_code == 422
    assert "look" in shared.json("GET", f"/api/v1/statuses/{status['id']}", ann)["content"]


def test_media_file_range_request_returns_206(shared: NetworkFixture, ann: Someone) -> None:
    url = ready(shared, ann, film(".webm"))["url"]
    whole = file_of(shared, url)
    size = len(whole.content)
    assert whole.headers["accept-ranges"] == "bytes"
    assert int(whole.headers["content-length"]) == size
    for asked, first, last in (
        ("0-1", 0, 1),
        ("100-", 100, size - 1),
        ("-7", size - 7, size - 1),
        ("0-999999999", 0, size - 1),
    ):
        part = file_of(shared, url, Range=f"bytes={asked}")
        assert part.status_code == 206
        assert part.headers["content-range"] == f"bytes {first}-{last}/{size}"
        assert part.content == whole.content[first : last + 1]
        assert part.headers["access-control-allow-origin"] == "*"
    behind = file_of(shared, url, Range=f"bytes={size}-")
    assert (behind.status_code, behind.headers["content-range"]) == (416, f"bytes */{size}")
    for nonsense in ("bytes=5-2", "bytes=-", "lines=1-2", "bytes=0-1,3-4"):
        assert file_of(shared, url, Range=nonsense).content == whole.content


def test_media_file_request_with_outdated_if_range_header_returns_whole_file(
    shared: NetworkFixture, ann: Someone
) -> None:
    for data in (photograph(), film()):
        made = ready(shared, ann, data)
        whole = file_of(shared, made["url"])
        tag = whole.headers["etag"]
        assert tag.startswith('"')
        part = file_of(shared, made["url"], Range="bytes=2-5", **{"If-Range": tag})
        assert (part.status_code, part.content, part.headers["etag"]) == (206, whole.content[2:6], tag)
        for other in ('"another"', f"W/{tag}", "Wed, 21 Oct 2015 07:28:00 GMT"):
            answer = file_of(shared, made["url"], Range="bytes=2-5", **{"If-Range": other})
            assert (answer.status_code, answer.content) == (200, whole.content)


def test_media_file_avif_variant_has_separate_etag(shared: NetworkFixture, ann: Someone) -> None:
    url = upload(shared, ann, photograph()).json()["url"]
    plain, copy = file_of(shared, url), file_of(shared, url, Accept="image/avif")
    assert plain.headers["etag"] != copy.headers["etag"]
    mixed = file_of(shared, url, Accept="image/avif", Range="bytes=0-9", **{"If-Range": plain.headers["etag"]})
    assert (mixed.status_code, mixed.content) == (200, copy.content)


@pytest.mark.parametrize("kind", ["GIF", "PNG", "WEBP", "AVIF"])
def test_animated_image_keeps_frames_and_avatar_has_static_version(
    shared: NetworkFixture, ann: Someone, kind: str
) -> None:
    file, frames = io.BytesIO(), [Image.new("RGB", (60, 60), each) for each in ("red", "green", "blue")]
    frames[0].save(file, kind, save_all=True, append_images=frames[1:], duration=100)
    made = ready(shared, ann, file.getvalue())
    if kind == "GIF":
        assert made["type"] == "gifv"
    else:
        assert made["type"] == "image"
        assert frames_in(file_of(shared, made["url"]).content) == 3
        assert frames_in(file_of(shared, made["preview_url"]).content) == 1
    pictures = {name: ("a", file.getvalue(), "image/png") for name in ("avatar", "header")}
    account = shared.json("PATCH", "/api/v1/accounts/update_credentials", ann, files=pictures)
    for name in pictures:
        assert frames_in(file_of(shared, account[name]).content) == 3
        assert frames_in(file_of(shared, account[f"{name}_static"]).content) == 1
    still = {name: ("a", picture(), "image/png") for name in ("avatar", "header")}
    before, account = account, shared.json("PATCH", "/api/v1/accounts/update_credentials", ann, files=still)
    assert account["avatar"] == account["avatar_static"]
    shared.settle()
    for name in ("avatar", "avatar_static", "header", "header_static"):
        assert shared.ask("GET", httpx.URL(before[name]).path).status_code == 404


def frames_in(data: bytes) -> int:
    """Return how many frames a picture has."""
    with Image.open(io.BytesIO(data)) as image:
        return getattr(image, "n_frames", 1)


def test_v1_media_upload_failed_conversion_returns_reason(shared: NetworkFixture, ann: Someone) -> None:
    fast = clip(".mp4", "-f", "lavfi", "-i", "testsrc=size=160x90:rate=240:duration=1")
    answer = upload(shared, ann, fast, version=1)
    assert (answer.status_code, answer.json()) == (
        422,
        {"error": "a video of 240 frames per second is too fast: the maximum is 120"},
    )


def test_media_upload_of_unsupported_type_error_lists_accepted_types(shared: NetworkFixture, ann: Someone) -> None:
    answer = upload(shared, ann, b"RIFF\x00\x10\x00\x00AVI LIST" + b"x" * 400)
    assert answer.status_code == 422
    assert "JPEG, PNG" in answer.json()["error"]
    assert "MP4, QuickTime, WebM" in answer.json()["error"]


def test_media_file_of_unconverted_upload_returns_404(shared: NetworkFixture, ann: Someone) -> None:
    upload(shared, ann, film())
    kept = [path for path in shared.files() if path.endswith(".raw")]
    assert kept
    for path in kept:
        assert shared.ask("GET", f"/media/{path}").status_code == 404
        assert shared.ask("GET", f"/media/{path}", headers={"Range": "bytes=0-9"}).status_code == 404
    shared.settle()
    assert not [path for path in shared.files() if path.endswith(".raw")]


def test_media_upload_of_damaged_video_fails_and_deletes_files(shared: NetworkFixture, ann: Someone) -> None:
    before = shared.files()
    made = upload(shared, ann, b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom" + b"noise" * 1000).json()
    shared.settle()
    answer = shared.ask("GET", f"/api/v1/media/{made['id']}", ann)
    assert (answer.status_code, answer.json()) == (422, FAILED)
    assert sorted(shared.files()) == sorted(before)
    late = upload(shared, ann, b"OggS" + b"noise" * 1000, version=1)
    assert (late.status_code, late.json()) == (422, FAILED)


def test_status_with_unprocessed_media_is_refused(shared: NetworkFixture, ann: Someone) -> None:
    made = upload(shared, ann, film()).json()
    early = shared.ask("POST", "/api/v1/statuses", ann, json={"status": "look", "media_ids": [made["id"]]})
    assert early.status_code == 422
    assert early.json()["error"] == "Cannot attach files that have not finished processing. Try again in a moment!"
    shared.settle()
    posted = shared.json("POST", "/api/v1/statuses", ann, json={"status": "look", "media_ids": [made["id"]]})
    assert [item["type"] for item in posted["media_attachments"]] == ["video"]


def test_status_with_video_and_other_media_is_refused(shared: NetworkFixture, ann: Someone) -> None:
    one, other, still = (ready(shared, ann, data)["id"] for data in (film(), tone(), picture()))
    for ids in ([one, still], [one, other], [still, other]):
        answer = shared.ask("POST", "/api/v1/statuses", ann, json={"media_ids": ids})
        assert answer.status_code == 422
        assert answer.json()["error"].startswith("Cannot attach a video")
    twice = shared.json("POST", "/api/v1/statuses", ann, json={"media_ids": [one, one]})
    assert len(twice["media_attachments"]) == 1


def test_media_deletion_is_refused_while_attached_to_status(shared: NetworkFixture, ann: Someone) -> None:
    ben = shared.join("ben")
    made = ready(shared, ann, film())
    path = f"/api/v1/media/{made['id']}"
    assert shared.ask("DELETE", path, ben).status_code == 404
    posted = shared.json("POST", "/api/v1/statuses", ann, json={"media_ids": [made["id"]]})
    used = shared.ask("DELETE", path, ann)
    assert (used.status_code, used.json()) == (422, {"error": "Media attachment is currently used by a status"})
    shared.json("DELETE", f"/api/v1/statuses/{posted['id']}", ann)
    assert shared.json("DELETE", path, ann) == {}
    assert shared.ask("GET", path, ann).status_code == 404
    shared.settle()
    assert file_of(shared, made["url"]).status_code == 404


def test_media_deletion_during_processing_removes_all_files(shared: NetworkFixture, ann: Someone) -> None:
    before = shared.files()
    made = upload(shared, ann, film()).json()
    assert shared.json("DELETE", f"/api/v1/media/{made['id']}", ann) == {}
    shared.settle()
    assert sorted(shared.files()) == sorted(before)


def test_media_description_set_during_processing_is_kept(shared: NetworkFixture, ann: Someone) -> None:
    made = upload(shared, ann, film()).json()
    shared.json("PUT", f"/api/v1/media/{made['id']}", ann, json={"description": "said meanwhile"})
    shared.settle()
    done = shared.json("GET", f"/api/v1/media/{made['id']}", ann)
    assert (done["description"], bool(done["url"])) == ("said meanwhile", True)


def test_video_processing_does_not_delay_fan_out(
    shared: NetworkFixture, ann: Someone, monkeypatch: pytest.MonkeyPatch
) -> None:
    convert, released = Programs.convert, asyncio.Event()

    async def held(*arguments: Any) -> None:
        await released.wait()
        await convert(*arguments)

    monkeypatch.setattr(Programs, "convert", held)
    ids = [upload(shared, ann, film()).json()["id"] for _ in range(3)]
    ben = shared.join("bea")
    shared.json("POST", f"/api/v1/accounts/{ann.id}/follow", ben)
    posted = shared.json("POST", "/api/v1/statuses", ann, json={"status": "meanwhile"})["id"]
    until = time.monotonic() + 60
    while posted not in [item["id"] for item in shared.json("GET", "/api/v1/timelines/home", ben)]:
        assert time.monotonic() < until
    assert all(shared.ask("GET", f"/api/v1/media/{id_}", ann).status_code == 206 for id_ in ids)
    released.set()
    shared.settle()
    assert all(shared.json("GET", f"/api/v1/media/{id_}", ann)["url"] for id_ in ids)


def test_video_upload_above_size_limit_returns_413() -> None:
    needed()
    with served(max_video_bytes=1_000) as url, httpx.Client(base_url=url) as client:
        token = signed_up(client)
        answer = client.post("/api/v2/media", files={"file": film()}, headers=token)
        assert answer.status_code == 413
        assert "too large" in answer.json()["error"]


def test_video_upload_without_ffmpeg_is_refused_and_not_advertised(shoal: NetworkFixture) -> None:
    needed()
    library = shoal.network.media
    announced = shoal.json("GET", "/api/v2/instance")["configuration"]["media_attachments"]
    assert "video/mp4" in announced["supported_mime_types"]
    assert announced["video_size_limit"] == 40 * 1024 * 1024
    carol = shoal.join("carol")
    library.clips = None
    answer = upload(shoal, carol, film())
    assert answer.status_code == 422
    assert "accepts no video or audio" in answer.json()["error"]
    assert upload(shoal, carol, moving_gif()).json()["type"] == "image"
    announced = shoal.json("GET", "/api/v2/instance")["configuration"]["media_attachments"]
    assert "video/mp4" not in announced["supported_mime_types"]
    assert announced["video_size_limit"] == 0
    assert isinstance(library, MediaLibrary)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "shoal.db"


def test_video_processing_resumes_after_server_is_killed(store: Path) -> None:
    long = film_of_a_while()
    with served_process(store) as server, httpx.Client(base_url=server.url, timeout=60) as client:
        token = signed_up(client)
        answer = client.post("/api/v2/media", files={"file": long}, headers=token)
        assert answer.status_code == 202
        id_ = answer.json()["id"]
        assert client.get(f"/api/v1/media/{id_}", headers=token).status_code == 206
        server.kill()
    with served_process(store) as server, httpx.Client(base_url=server.url, timeout=60) as client:
        until = time.monotonic() + 300
        while (answer := client.get(f"/api/v1/media/{id_}", headers=token)).status_code == 206:
            assert time.monotonic() < until
            time.sleep(0.2)
        assert answer.status_code == 200
        assert client.get(httpx.URL(answer.json()["url"]).path).headers["content-type"] == "video/mp4"
        assert server.stop() == 0


def test_v1_media_upload_does_not_hold_request_slot_during_processing(tmp_path: Path) -> None:
    store = tmp_path / "shoal.db"
    with (
        served_process(store, SHOAL_REQUESTS_AT_WORK="1") as server,
        httpx.Client(base_url=server.url, timeout=60) as client,
        ThreadPoolExecutor() as aside,
    ):
        token = signed_up(client)
        files = {"file": ("a.mp4", film_of_a_while())}
        old = aside.submit(httpx.post, f"{server.url}/api/v1/media", headers=token, files=files, timeout=60)
        until = time.monotonic() + 60
        while not [*Path(f"{store}.media").rglob("*.raw")]:
            assert time.monotonic() < until
            time.sleep(0.02)
        assert client.get("/api/v1/timelines/public").status_code == 200
        assert not old.done()
        server.kill()
        assert isinstance(old.exception(), httpx.HTTPError)


def film_of_a_while() -> bytes:
    """Return a video that takes several seconds to process."""
    return clip(".mp4", "-f", "lavfi", "-i", "testsrc2=size=1400x800:rate=30:duration=8", "-preset", "ultrafast")
