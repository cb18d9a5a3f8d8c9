"""The pages of a member: profile, connections, places, albums, and the options of other members."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shoal.commands import members, moderation, reactions, relationships, tags
from shoal.commands.members import ProfileChange
from shoal.core.model import Visibility
from tests.api.in_memory_network import NetworkFixture, network_fixture
from tests.web.browser import Page, found_in, member, visitor
from tests.web.pictures import posted


@pytest.fixture(scope="module")
def here() -> Iterator[NetworkFixture]:
    with network_fixture() as made:
        yield made


def handles(page: Page) -> list[str]:
    return [one.get_text(strip=True).removeprefix("@") for one in page.html.select(".people .handle")]


def test_profile_shows_totals_tags_featured_members_and_familiar_followers(here: NetworkFixture) -> None:
    ann, ben, cyd = (member(here, name) for name in ("ann", "ben", "cyd"))
    post = posted(here, ann, "Low tide #dawn", 1)
    for other in (ben, cyd):
        here.run(reactions.like(here.writes, other.id, post.id))
        here.run(relationships.follow(here.writes, other.id, ann.id))
    here.run(reactions.share(here.writes, ben.id, post.id))
    here.run(relationships.follow(here.writes, cyd.id, ben.id))
    here.run(relationships.follow(here.writes, ann.id, ben.id))
    here.run(relationships.endorse(here.writes, ann.id, ben.id))
    here.run(tags.feature(here.writes, ann.id, "dawn"))
    here.settle()
    page = visitor(here, "cyd").open("/@ann").follow("About")
    numbers = [" ".join(one.get_text(" ").split()) for one in page.html.select(".numbers li")]
    assert numbers == ["1 post", "2 followers", "1 following", "2 likes received", "1 share received"]
    assert "Followed by ben, whom you know" in page.text
    assert handles(page.follow("Followed by ben")) == ["ben"]
    assert [link["href"] for link in page.links("#dawn")][:1] == ["/tags/dawn"]
    assert page.one(".names a")["href"] == "/@ben"
    own = visitor(here, "ann").open("/@ann")
    assert "you know" not in own.text
    assert {"Messages", "Saved", "Lists", "Settings"} <= {
        one.get_text(strip=True) for one in own.html.select(".own-links a")
    }


def test_followers_page_is_paginated_with_follow_buttons(here: NetworkFixture) -> None:
    dee = member(here, "dee")
    for n in range(27):
        here.run(relationships.follow(here.writes, member(here, f"fan{n:02}").id, dee.id))
    here.settle()
    browser = visitor(here, "fan00")
    page = browser.open("/@dee").follow("27 followers")
    assert handles(page) == [f"fan{n:02}" for n in range(26, 1, -1)]
    assert handles(page.follow("More people")) == ["fan01", "fan00"]
    followed = page.press("Follow fan26")
    assert followed.path == "/@dee/followers"
    assert "Unfollow fan26" in followed.text
    assert "isn't following anyone yet" in page.follow("Following").text


def test_followers_page_when_hidden_is_visible_only_to_owner(here: NetworkFixture) -> None:
    eve, fay = member(here, "eve"), member(here, "fay")
    here.run(members.update_profile(here.writes, eve.id, ProfileChange(hides_connections=True)))
    here.run(relationships.follow(here.writes, fay.id, eve.id))
    here.settle()
    assert "keeps this list private" in visitor(here, "fay").open("/@eve/followers").text
    assert not visitor(here, "fay").open("/@eve").links("follower")
    assert handles(visitor(here, "eve").open("/@eve/followers")) == ["fay"]


def test_locked_profile_offers_follow_request(here: NetworkFixture) -> None:
    gil = member(here, "gil")
    member(here, "hal")
    here.run(members.update_profile(here.writes, gil.id, ProfileChange(locked=True)))
    page = visitor(here, "hal").open("/@gil")
    assert "approves followers" in page.text
    assert "Requested" in page.press("Request to follow").text


def test_profile_mute_button_supports_duration_and_undo(here: NetworkFixture) -> None:
    member(here, "ida")
    member(here, "jon")
    browser = visitor(here, "ida")
    page = browser.open("/@jon").follow("More options")
    done = page.press("Mute jon", seconds="86400")
    assert "You muted jon. They won't be notified." in done.text
    assert "Muted until " in done.text
    assert "muted" in browser.open("/@jon").text
    undone = done.press("Undo")
    assert "You unmuted jon" in undone.text
    forever = undone.press("Mute jon")
    assert "indefinitely" in forever.text


def test_profile_block_button_hides_posts_and_can_be_undone(here: NetworkFixture) -> None:
    member(here, "kim")
    lea = member(here, "lea")
    posted(here, lea, "a secret pier", 1)
    browser = visitor(here, "kim")
    done = browser.open("/@lea/more").press("Block lea")
    assert "Neither of you can see" in done.text
    profile = browser.open("/@lea")
    assert "You blocked lea" in profile.text
    assert not profile.html.select(".photo-rows a")
    assert "You unblocked lea" in done.press("Undo").text
    assert browser.open("/@lea").html.select(".photo-rows a")


def test_profile_options_page_saves_note_follow_settings_lists_and_featured_member(here: NetworkFixture) -> None:
    max_, ned = member(here, "max"), member(here, "ned")
    here.run(relationships.follow(here.writes, max_.id, ned.id))
    here.run(relationships.follow(here.writes, ned.id, max_.id))
    here.settle()
    browser = visitor(here, "max")
    for title in ("Sailors", "Cooks"):
        browser.open("/lists").press("Create list", title=title)
    page = browser.open("/@ned/more").press("Save note", note="owes me a boat")
    assert "owes me a boat" in browser.open("/@ned").text
    page = page.press("Save", page.one('form[action$="/terms"]'), notify="true", shares=())
    assert page.field("Notify me").has_attr("checked")
    assert not page.field("Show their shares").has_attr("checked")
    lists = [str(one["value"]) for one in page.html.select('input[name="lists[]"]')]
    page = page.press("Save", page.one('form[action$="/lists"]'), lists=lists)
    assert len(page.html.select('input[name="lists[]"][checked]')) == 2
    page = page.press("Save", page.one('form[action$="/lists"]'), lists=lists[:1])
    assert len(page.html.select('input[name="lists[]"][checked]')) == 1
    page = page.press("Feature on profile")
    assert browser.open("/@max?show=about").one(".names a")["href"] == "/@ned"
    page = page.press("Don't feature on profile")
    page = page.press("Remove follower")
    assert "ned no longer follows you" in page.text
    too_long = page.press("Save note", note="x" * 2_001)
    assert too_long.status == 422
    assert too_long.one("#note").text == "x" * 2_001


def test_profile_map_shows_places_of_visible_posts(here: NetworkFixture) -> None:
    olga, pit = member(here, "olga"), member(here, "pit")
    posted(here, olga, "Venice", 1, place=(45.43, 12.33))
    posted(here, olga, "Venice again", place=(45.43, 12.34))
    rome = posted(here, olga, "Rome", 1, place=(41.9, 12.5))
    posted(here, olga, "Genoa", 1, place=(44.4, 8.9), visibility=Visibility.FOLLOWERS)
    posted(here, olga, "nowhere", 1)
    here.settle()
    page = visitor(here, "pit").open("/@olga").follow("About").follow("Map")
    spots = page.html.select("svg.map a.spot")
    assert rome.place is not None
    where = f"{rome.place.latitude:.2f}° N, {rome.place.longitude:.2f}° E"
    assert {one["aria-label"] for one in spots} == {"45.43° N, 12.34° E: 2 posts", f"{where}: one post"}
    assert f"/@olga/{rome.id}" in {one["href"] for one in spots}
    assert [section["id"] for section in page.html.select(".spot-posts")] == ["place-1", "place-2"]
    here.run(relationships.follow(here.writes, pit.id, olga.id))
    here.settle()
    assert len(visitor(here, "pit").open("/@olga/places").html.select("svg.map a.spot")) == 3
    assert "No places yet" in visitor(here, "pit").open("/@pit/places").text


def test_album_is_created_filled_reordered_and_deleted(here: NetworkFixture) -> None:
    quin = member(here, "quin")
    first, second = posted(here, quin, "first", 1), posted(here, quin, "second", 2)
    browser = visitor(here, "quin")
    page = browser.open("/@quin").follow("Albums").press("Choose photos", title="Tides", description="Low and high")
    assert "Photos for Tides" in page.title
    values = [str(box["value"]) for box in page.html.select('input[name="photos[]"]')]
    assert len(values) == 3
    album = page.press("Add to album", photos=[values[2], values[0]])
    assert "Low and high" in album.text
    assert "2 photos" in album.text
    shown = [str(link["href"]).partition("?")[0] for link in album.html.select(".photo-rows a")]
    assert shown == [f"/@quin/{first.id}", f"/@quin/{second.id}"]
    again = album.follow("Add photos")
    assert len(again.html.select('input[name="photos[]"]')) == 1
    edit = album.follow("Edit")
    moved = edit.press("Move later", edit.html.select(".arrange li")[0])
    assert [one["data-media"] for one in moved.html.select(".arrange li")] == [
        one["data-media"] for one in edit.html.select(".arrange li")
    ][::-1]
    kept = moved.press("Save", title="Ebb and flow", description="")
    assert kept.one("h1").get_text(strip=True) == "Ebb and flow"
    refused = kept.follow("Edit").press("Save", title="  ")
    assert (refused.status, refused.one("#title")["aria-invalid"]) == (422, "true")
    smaller = kept.follow("Edit").press("Remove", kept.follow("Edit").html.select(".arrange li")[0])
    assert len(smaller.html.select(".arrange li")) == 1
    covers = browser.open("/@quin/albums")
    assert "1 photo" in covers.text
    gone = smaller.press("Delete")
    assert gone.path == "/@quin/albums"
    assert "Ebb and flow" not in gone.text


def test_album_order_by_script_is_saved(here: NetworkFixture) -> None:
    ray = member(here, "ray")
    post = posted(here, ray, "three", 3)
    browser = visitor(here, "ray")
    browser.open(f"/posts/{post.id}/albums").press("Create", title="Three")
    edit = browser.open("/@ray/albums").follow("Three").follow("Edit")
    ids = [str(one["data-media"]) for one in edit.html.select(".arrange li")]
    token = str(edit.one("input[name=form_token]")["value"])
    path = str(edit.one(".arrange")["data-order"])
    fields = [("form_token", token), *(("media[]", id_) for id_ in reversed(ids))]
    assert browser.post(path, fields, headers={"HX-Request": "true"}).status == 204
    edit = browser.open("/@ray/albums").follow("Three").follow("Edit")
    assert [one["data-media"] for one in edit.html.select(".arrange li")] == ids[::-1]


def test_post_photos_are_added_to_and_removed_from_albums(here: NetworkFixture) -> None:
    sue = member(here, "sue")
    post = posted(here, sue, "two", 2)
    browser = visitor(here, "sue")
    page = browser.open(f"/posts/{post.id}/more").follow("Add to album")
    boxes = [str(box["value"]) for box in page.html.select('input[name="media[]"]')]
    page = page.press("Create", title="Half", media=boxes[:1])
    assert "1 photo" in page.text
    page = page.press("Add Half")
    assert "2 photos" in page.text
    page = page.press("Remove from Half")
    assert "0 photos" in page.text
    refused = page.press("Create", title="x" * 200)
    assert refused.status == 422


def test_albums_of_other_member_show_visible_photos_and_are_read_only(here: NetworkFixture) -> None:
    tom = member(here, "tom")
    member(here, "una")
    open_one, quiet = posted(here, tom, "open", 1), posted(here, tom, "quiet", 1, visibility=Visibility.FOLLOWERS)
    browser, other = visitor(here, "tom"), visitor(here, "una")
    for post, title in ((open_one, "Open"), (quiet, "Quiet")):
        browser.open(f"/posts/{post.id}/albums").press("Create", title=title)
    paths = {
        found_in(link, "b").text: str(link["href"]) for link in browser.open("/@tom/albums").html.select(".album-cover")
    }
    page = other.open("/@tom/albums")
    assert [found_in(link, "b").text for link in page.html.select(".album-cover")] == ["Open"]
    assert not page.html.select("form input[name=title]")
    assert other.open(paths["Open"]).html.select(".photo-rows a")
    assert not other.open(paths["Open"]).links("Edit")
    assert [other.open(path).status for path in (paths["Quiet"], f"{paths['Open']}/edit", f"{paths['Open']}/add")] == [
        404,
        404,
        404,
    ]
    assert visitor(here).open(f"{paths['Open'].replace('@tom', '@una')}").status == 404
    assert other.open(f"/posts/{open_one.id}/albums").status == 404
    assert "No albums yet" in browser.open("/@una/albums").text


def test_profile_pages_of_suspended_member_return_410(here: NetworkFixture) -> None:
    vic = member(here, "vic")
    here.run(moderation.suspend(here.writes, vic.id))
    for path in ("", "/followers", "/places", "/albums", ".atom"):
        assert visitor(here).open(f"/@vic{path}").status == 410, path
        assert visitor(here).open(f"/@nobody{path}").status == 404, path


def test_phone_navigation_has_five_links_and_profile_page_links_to_other_pages(here: NetworkFixture) -> None:
    member(here, "ulla")
    own = visitor(here, "ulla").open("/@ulla")
    bar = [link.get_text(strip=True) for link in own.html.select(".main-links a")]
    assert bar == ["Home", "Explore", "New post", "Notifications", "Profile"]
    assert own.one("main .own-links form")["action"] == "/logout"
    assert own.one("main .profile a[aria-label=Search]")["href"] == "/search"


def test_profile_menu_opened_by_script_lists_message_mute_block_and_report_actions(here: NetworkFixture) -> None:
    vilma = member(here, "vilma")
    member(here, "wanda")
    browser = visitor(here, "wanda")
    token = browser.open("/@vilma/more").form_token
    browser._client.headers["HX-Request"] = "true"
    menu = browser.open("/@vilma/more")
    shown = [" ".join(one.get_text(" ").split()) for one in menu.html.select("a, button:not([hidden])")]
    assert shown == [
        "Message vilma",
        "Portfolio",
        "Notifications, lists and note",
        "RSS feed",
        "Mute vilma",
        "Block vilma",
        "Report vilma",
    ]
    del browser._client.headers["HX-Request"]
    done = browser.post(f"/members/{vilma.id}/mute", [("form_token", token), ("to", "/@vilma/more?done=muted")])
    assert "You muted vilma" in done.text


def test_album_list_of_owner_shows_creation_form_only_on_request_or_after_error(here: NetworkFixture) -> None:
    member(here, "xenia")
    page = visitor(here, "xenia").open("/@xenia/albums")
    assert "No albums yet" in page.text
    assert not page.one("details.new-album").has_attr("open")
    assert page.press("Choose photos", title=" ").one("details.new-album").has_attr("open")
