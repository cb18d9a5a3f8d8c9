"""Photo details, license and download in the web app, without scripts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from shoal.commands import media, members, posts
from shoal.commands.members import ProfileChange
from shoal.commands.posts import Draft
from shoal.core.licenses import License
from shoal.core.model import Member, Post
from shoal.core.photo_details import PhotoDetails
from shoal.graph.access import access_member
from tests.api.in_memory_network import NetworkFixture, network_fixture
from tests.media.photos import taken
from tests.web.browser import member, visitor


@pytest.fixture(scope="module")
def here() -> Iterator[NetworkFixture]:
    with network_fixture() as made:
        yield made


def shot(here: NetworkFixture, author: Member, text: str = "", **more: Any) -> Post:
    """Post a photo with EXIF data that is shown."""
    made = here.run(media.upload(here.writes, author.id, taken(), shows_details=True))
    return here.run(posts.create(here.writes, author.id, Draft(text=text, media=(made.id,), **more)))


def test_post_and_photo_page_show_details_license_and_download(here: NetworkFixture) -> None:
    ann = member(here, "ann")
    post = shot(here, ann, license=License.CC_BY, downloads=True)
    for path in (f"/@ann/{post.id}", f"/@ann/{post.id}/photos/1"):
        page = visitor(here).open(path)
        notes = page.one(".photo-notes")
        words = " ".join(notes.get_text(" ").split())
        assert "FUJIFILM X100V 23mm f/2" in words
        assert [one.text for one in notes.select(".exposure li")] == [
            "23\u00a0mm",
            "f/2",
            "1/250\u00a0s",
            "ISO\u00a0400",
        ]
        assert "Taken on November 24, 2026" in words
        (license_,) = notes.select("a[rel~=license]")
        assert (license_.text, license_["href"]) == ("CC BY 4.0", "https://creativecommons.org/licenses/by/4.0/")
        download = page.links("Download")[0]
        assert download.has_attr("download")
        assert visitor(here).open(str(download["href"])).answer.headers["content-disposition"].startswith("attachment")
    assert (
        '"license": "https://creativecommons.org/licenses/by/4.0/"'
        in visitor(here).open(f"/@ann/{post.id}").answer.text
    )
    assert 'rel="license"' in visitor(here).open("/@ann.atom").answer.text


def test_post_with_many_photos_folds_their_details(here: NetworkFixture) -> None:
    ivo = member(here, "ivo")
    for count, folds in ((2, 0), (3, 1)):
        files = [here.run(media.upload(here.writes, ivo.id, taken())).id for _ in range(count)]
        post = here.run(posts.create(here.writes, ivo.id, Draft(media=files, downloads=True)))
        notes = visitor(here).open(f"/@ivo/{post.id}").one(".photo-notes")
        assert (len(notes.select("details")), len(notes.select("a[download]"))) == (folds, count)


def test_post_with_defaults_reserves_all_rights_and_offers_no_download(here: NetworkFixture) -> None:
    ben = member(here, "ben")
    made = here.run(media.upload(here.writes, ben.id, taken()))
    post = here.run(posts.create(here.writes, ben.id, Draft(media=(made.id,))))
    page = visitor(here, "ben").open(f"/@ben/{post.id}/photos/1")
    assert "All rights reserved" in page.text
    assert "X100V" not in page.text
    assert not page.links("Download")
    text_only = here.run(posts.create(here.writes, ben.id, Draft(text="words")))
    assert "All rights reserved" not in visitor(here).open(f"/@ben/{text_only.id}").text


def test_posting_settings_store_details_license_and_download(here: NetworkFixture) -> None:
    cyd = member(here, "cyd")
    page = visitor(here, "cyd").open("/settings/posting")
    assert not page.one("#shows_photo_details").has_attr("checked")
    saved = page.press("Save", default_license="CC0-1.0", shows_photo_details="true", allows_downloads="true")
    assert saved.one("input[name=default_license][checked]")["value"] == "CC0-1.0"
    stored = here.run(access_member(here.network.store, cyd.id))
    assert (stored.default_license, stored.shows_photo_details, stored.allows_downloads) == (License.CC0, True, True)
    form = visitor(here, "cyd").open("/compose")
    assert form.one("select[name=license] [selected]")["value"] == "CC0-1.0"
    assert form.field("Allow downloads").has_attr("checked")


def test_compose_form_chooses_details_license_and_download(here: NetworkFixture) -> None:
    member(here, "dee")
    browser = visitor(here, "dee")
    sent = browser.open("/compose").press("Upload", files=[("files[]", ("a.jpg", taken(), "image/jpeg"))])
    choice = sent.field("Show camera, exposure and date")
    assert not choice.has_attr("checked")
    assert "FUJIFILM X100V · 23mm f/2 · 23 mm" in sent.text
    page = sent.press(
        "Post without descriptions" if "without descriptions" in sent.text else "Post",
        text="Quay",
        license="CC-BY-4.0",
        downloads="true",
        asks=(),
        **dict[str, Any]({"pictures[][shows_details]": "true"}),
    )
    assert "X100V" in page.text
    assert "CC BY 4.0" in page.text
    edit = browser.open(f"/posts/{page.path.rpartition('/')[2]}/edit")
    assert edit.field("Show camera, exposure and date").has_attr("checked")
    assert edit.one("select[name=license] [selected]")["value"] == "CC-BY-4.0"
    kept = edit.press("Save", text="Quay at dawn")
    assert "X100V" in kept.text
    assert "CC BY 4.0" in kept.text
    edit = browser.open(f"/posts/{page.path.rpartition('/')[2]}/edit")
    hidden = edit.press(
        "Save", license="all-rights-reserved", downloads=(), **dict[str, Any]({"pictures[][shows_details]": ()})
    )
    assert "X100V" not in hidden.text
    assert "All rights reserved" in hidden.text
    assert not hidden.links("Download")


def test_stale_edit_form_does_not_show_photo_details_that_were_hidden_since(here: NetworkFixture) -> None:
    gus = member(here, "gus")
    post = shot(here, gus, "Harbor")
    form = visitor(here, "gus").open(f"/posts/{post.id}/edit")
    visitor(here, "gus").open(f"/posts/{post.id}/edit").press(
        "Save", asks=(), **dict[str, Any]({"pictures[][shows_details]": ()})
    )
    assert "FUJIFILM" not in visitor(here).open(f"/@gus/{post.id}").answer.text
    form.press("Save", text="Harbor at dawn", asks=())
    page = visitor(here).open(f"/@gus/{post.id}")
    assert "Harbor at dawn" in page.text
    assert "FUJIFILM" not in page.answer.text


def test_stale_edit_form_that_enables_photo_details_shows_them_and_keeps_newer_description(
    here: NetworkFixture,
) -> None:
    hal = member(here, "hal")
    made = here.run(media.upload(here.writes, hal.id, taken(), shows_details=False))
    post = here.run(posts.create(here.writes, hal.id, Draft(text="Harbor", media=(made.id,))))
    form = visitor(here, "hal").open(f"/posts/{post.id}/edit")
    here.run(media.describe(here.writes, hal.id, made.id, description="boats"))
    form.press("Save", asks=(), **dict[str, Any]({"pictures[][shows_details]": "true"}))
    page = visitor(here).open(f"/@hal/{post.id}")
    assert "FUJIFILM" in page.answer.text
    assert page.one(".photos img")["alt"] == "boats"


def test_photo_details_are_escaped_and_isolated_from_text_direction(here: NetworkFixture) -> None:
    eve = member(here, "eve")
    hostile = PhotoDetails(camera="<hostile>\u05e9\u05dc\u202e", lens="</bdi>\u05e9\u05dc")
    made = here.run(media.upload(here.writes, eve.id, taken(), shows_details=True, details=hostile))
    post = here.run(posts.create(here.writes, eve.id, Draft(media=(made.id,))))
    for page in (visitor(here).open(f"/@eve/{post.id}"), visitor(here, "eve").open(f"/posts/{post.id}/edit")):
        assert "<hostile>\u05e9\u05dc" in page.text
        assert not page.html.select("hostile")
        assert "\u202e" not in page.answer.text
        assert all(text.find_parent("bdi") for text in page.html.find_all(string=re.compile("\u05e9")))


def test_posting_settings_with_unknown_license_change_nothing(here: NetworkFixture) -> None:
    fay = member(here, "fay")
    here.run(members.update_profile(here.writes, fay.id, ProfileChange(default_license=License.CC_BY)))
    refused = (
        visitor(here, "fay").open("/settings/posting").press("Save", default_license="GPL-3.0", allows_downloads="true")
    )
    assert refused.status == 422
    stored = here.run(access_member(here.network.store, fay.id))
    assert (stored.default_license, stored.allows_downloads) == (License.CC_BY, False)
