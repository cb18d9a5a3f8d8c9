"""The pages of notifications, follow requests and direct conversations."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shoal.commands import members, notifications, posts, reactions, relationships, reports
from shoal.commands.members import ProfileChange
from shoal.commands.posts import Draft
from shoal.commands.reports import Complaint
from shoal.core.model import Treatment, Visibility
from tests.api.in_memory_network import NetworkFixture, network_fixture
from tests.web.browser import Page, found_in, member, visitor
from tests.web.pictures import posted


@pytest.fixture(scope="module")
def here() -> Iterator[NetworkFixture]:
    with network_fixture() as made:
        yield made


def notices(page: Page) -> list[str]:
    """Return the texts of the notifications on a page, in order."""
    return [" ".join(one.get_text(" ").split()) for one in page.html.select("ul.notices > li p.line")]


def test_notifications_of_likes_are_grouped_with_post_picture(here: NetworkFixture) -> None:
    ann, ben, cyd, dee = (member(here, name) for name in ("ann", "ben", "cyd", "dee"))
    post = posted(here, ann, "Low tide", 1)
    for other in (ben, cyd, dee):
        here.run(reactions.like(here.writes, other.id, post.id))
    here.run(relationships.follow(here.writes, ben.id, ann.id))
    here.settle()
    page = visitor(here, "ann").open("/notifications")
    assert [line.rsplit(" ", 1)[0] for line in notices(page)] == [
        "New: ben follows you",
        "New: dee and 2 others like your post",
    ]
    like = page.html.select("li.like")[0]
    assert found_in(like, ".about-post")["href"] == f"/@ann/{post.id}"
    assert "small.jpg" in found_in(like, ".about-post img")["src"]
    assert "ben follows you" in page.follow("Follows").text
    assert "like your post" not in page.follow("Follows").text
    assert "like your post" in page.follow("Likes and shares").text


def test_notifications_page_marks_notifications_read_and_clears_badge(here: NetworkFixture) -> None:
    eve, fay = member(here, "eve"), member(here, "fay")
    here.run(relationships.follow(here.writes, fay.id, eve.id))
    here.settle()
    browser = visitor(here, "eve")
    assert browser.open("/explore").one("#bell .badge")
    assert "New:" in browser.open("/notifications?kind=follows").text
    opened = browser.open("/notifications")
    assert "New:" in opened.text
    assert opened.html.select_one("#bell .badge") is None
    assert "New:" not in browser.open("/notifications").text


def unread(page: Page) -> tuple[str, str, str]:
    """Return the badges of notifications and messages, and the number on the icon of the app."""
    badges = [page.html.select_one(f"{link} .badge") for link in ("#bell", "#messages")]
    bell, messages = ["" if one is None else one.get_text(" ").split()[-1] for one in badges]
    return bell, messages, str(page.one("#bell")["data-unread"])


def test_unread_message_has_badge_in_navigation_and_counts_once_on_icon(here: NetworkFixture) -> None:
    mona, nils = member(here, "mona_u"), member(here, "nils_u")
    browser = visitor(here, "mona_u")
    assert unread(browser.open("/explore")) == ("", "", "0")
    sent = here.run(posts.create(here.writes, nils.id, Draft(text="@mona_u the key", visibility=Visibility.DIRECT)))
    here.run(relationships.follow(here.writes, nils.id, mona.id))
    here.settle()
    assert unread(browser.open("/explore")) == ("2", "1", "2")
    assert "Messages unread: 1" in " ".join(browser.open("/@mona_u").one(".own-links").get_text(" ").split())
    assert browser.open("/notifications/unread").answer.json() == {"unread": 2}
    browser.open("/notifications")
    assert unread(browser.open("/explore")) == ("", "1", "1")
    browser.open(f"/conversations/{sent.id}")
    assert unread(browser.open("/explore")) == ("", "", "0")
    assert visitor(here).open("/notifications/unread").answer.json() == {"unread": 0}


def test_like_of_own_message_increments_badge_on_app_icon(here: NetworkFixture) -> None:
    quin, rosa = member(here, "quin_u"), member(here, "rosa_u")
    sent = here.run(posts.create(here.writes, quin.id, Draft(text="@rosa_u hello", visibility=Visibility.DIRECT)))
    here.run(reactions.like(here.writes, rosa.id, sent.id))
    here.settle()
    assert unread(visitor(here, "quin_u").open("/explore")) == ("1", "", "1")


def test_unread_message_that_was_deleted_has_no_badge(here: NetworkFixture) -> None:
    pavel, _ = member(here, "pavel_u"), member(here, "olga_u")
    sent = here.run(posts.create(here.writes, pavel.id, Draft(text="@olga_u never mind", visibility=Visibility.DIRECT)))
    here.settle()
    browser = visitor(here, "olga_u")
    assert unread(browser.open("/explore"))[1] == "1"
    here.run(posts.delete(here.writes, pavel.id, sent.id))
    here.settle()
    assert unread(browser.open("/explore")) == ("", "", "0")


def test_notifications_are_dismissed_individually_and_all_at_once(here: NetworkFixture) -> None:
    gil, hal, ida = (member(here, name) for name in ("gil", "hal", "ida"))
    post = posted(here, gil, "Harbour")
    for other in (hal, ida):
        here.run(reactions.like(here.writes, other.id, post.id))
        here.run(relationships.follow(here.writes, other.id, gil.id))
    here.run(reactions.share(here.writes, hal.id, post.id))
    here.settle()
    browser = visitor(here, "gil")
    page = browser.open("/notifications")
    assert len(notices(page)) == 3
    like = page.html.select("li.like")[0]
    page = page.press("Dismiss: ida and hal like your post", like)
    assert [line.split()[1] for line in notices(page)] == ["shared", "and"]
    share = page.html.select("li.share")[0]
    page = page.press("Dismiss", share)
    assert len(notices(page)) == 1
    page = page.press("Dismiss all")
    assert page.path == "/notifications"
    assert "No notifications yet" in page.text


def test_notification_dismissal_by_script_returns_empty_response(here: NetworkFixture) -> None:
    jon, kim = member(here, "jon"), member(here, "kim")
    here.run(relationships.follow(here.writes, kim.id, jon.id))
    here.settle()
    browser = visitor(here, "jon")
    page = browser.open("/notifications")
    key = page.one(".notices input[name=key]")["value"]
    token = page.form_token
    fields = [("key", str(key)), ("form_token", str(token))]
    answer = browser.post("/notifications/dismiss", fields, headers={"HX-Request": "true"})
    assert (answer.status, answer.answer.text) == (200, "")
    assert browser.post("/notifications/dismiss", [("key", "no-key"), ("form_token", str(token))]).status == 404


def test_notifications_of_mentions_and_replies_show_full_post(here: NetworkFixture) -> None:
    lea, max_ = member(here, "lea"), member(here, "max")
    mine = posted(here, lea, "Who is at the pier?")
    here.run(posts.create(here.writes, max_.id, Draft(text="@lea I am", parent_id=mine.id)))
    here.run(posts.create(here.writes, max_.id, Draft(text="Tell it to @lea")))
    direct = here.run(posts.create(here.writes, max_.id, Draft(text="@lea psst", visibility=Visibility.DIRECT)))
    here.settle()
    page = visitor(here, "lea").open("/notifications?kind=mentions")
    assert page.follow("Open conversation").path == f"/conversations/{direct.id}"
    assert [line.removeprefix("New: ").rsplit(" ", 1)[0] for line in notices(page)] == [
        "max sent you a message",
        "max mentions you",
        "max replied to you",
    ]
    assert "Tell it to" in page.post("Tell it to").text
    assert page.press("Like", page.post("I am")).status == 200


def test_follow_requests_are_accepted_and_rejected_on_page(here: NetworkFixture) -> None:
    ned, olga, pit = (member(here, name) for name in ("ned", "olga", "pit"))
    here.run(members.update_profile(here.writes, ned.id, ProfileChange(locked=True)))
    for other in (olga, pit):
        here.run(relationships.follow(here.writes, other.id, ned.id))
    here.settle()
    browser = visitor(here, "ned")
    page = browser.open("/notifications")
    assert "pit requested to follow you" in page.text
    page = page.press("Accept", page.html.select("li.request")[0])
    assert page.path == "/notifications"
    page = browser.open("/requests")
    assert "olga" in page.text
    assert "pit" not in page.text
    page = page.press("Reject")
    assert "No follow requests" in page.text
    followers = browser.open("/@ned/followers").text
    assert "pit" in followers
    assert "olga" not in followers


def test_notification_requests_page_lists_filtered_senders(here: NetworkFixture) -> None:
    quin, ray, sue = (member(here, name) for name in ("quin", "ray", "sue"))
    here.run(notifications.set_policy(here.writes, quin.id, {"not_following": Treatment.FILTER}))
    for other in (ray, sue):
        here.run(posts.create(here.writes, other.id, Draft(text=f"@quin hello from {other.name}")))
    here.settle()
    browser = visitor(here, "quin")
    page = browser.open("/notifications")
    assert notices(page) == []
    page = page.follow("Filtered notifications from 2 people")
    assert "hello from ray" in page.text
    inside = page.follow("sue")
    assert "hello from sue" in inside.text
    page = inside.press("Accept")
    assert "sue" not in page.text
    page = page.press("Dismiss")
    assert "No filtered notifications" in page.text
    assert "sue mentions you" in browser.open("/notifications").text
    assert browser.open(f"/notifications/requests/{ray.id}").status == 404


def test_notification_of_upheld_report_is_shown_to_reporter(here: NetworkFixture) -> None:
    tom, una = member(here, "tom"), member(here, "una")
    bad = posted(here, una, "Buy this")
    filed = here.run(reports.file(here.writes, tom.id, una.id, Complaint(post_ids=(bad.id,))))
    here.run(reports.resolve(here.writes, filed.id, una.id, upheld=True))
    here.settle()
    assert "Your report was upheld" in visitor(here, "tom").open("/notifications").text


def test_notification_and_message_pages_redirect_anonymous_visitors_to_login(here: NetworkFixture) -> None:
    for path in ("/notifications", "/notifications/requests", "/requests", "/conversations"):
        assert visitor(here).open(path).path.startswith("/login")


def test_conversation_is_read_answered_and_archived(here: NetworkFixture) -> None:
    member(here, "vic")
    wim = member(here, "wim")
    first = posted(here, wim, "@vic are you there?", visibility=Visibility.DIRECT)
    here.settle()
    browser, other = visitor(here, "vic"), visitor(here, "wim")
    page = browser.open("/conversations")
    assert "unread" in page.text
    assert "are you there?" in page.text
    assert "@vic" not in page.text
    inside = page.follow("wim")
    assert "unread" not in browser.open("/conversations").text
    assert [one.get_text(" ", strip=True) for one in inside.html.select(".bubble .prose")] == ["are you there?"]
    sent = inside.press("Send", text="yes, at the pier")
    assert sent.path.split("#")[0] == f"/conversations/{first.id}"
    here.settle()
    theirs = other.open("/conversations").follow("vic")
    assert [one.get_text(" ", strip=True) for one in theirs.html.select(".bubble .prose")] == [
        "are you there?",
        "yes, at the pier",
    ]
    refused = theirs.press("Send", text="   ")
    assert refused.status == 422
    assert "Write a message first" in refused.text
    assert "unread" in inside.press("Mark as unread").text
    assert "No messages yet" in browser.open(f"/conversations/{first.id}").press("Archive conversation").text


def test_conversation_message_too_long_is_refused_and_kept_in_field(here: NetworkFixture) -> None:
    member(here, "xan")
    yve = member(here, "yve")
    post = posted(here, yve, "@xan hi", visibility=Visibility.DIRECT)
    here.settle()
    page = visitor(here, "xan").open(f"/conversations/{post.id}").press("Send", text="x" * 6_000)
    assert page.status == 422
    assert page.one("textarea").text == "x" * 6_000


def test_conversation_message_form_sent_twice_creates_one_message(here: NetworkFixture) -> None:
    member(here, "eli")
    flo = member(here, "flo")
    post = posted(here, flo, "@eli hi", visibility=Visibility.DIRECT)
    here.settle()
    page = visitor(here, "eli").open(f"/conversations/{post.id}")
    page.press("Send", text="once")
    again = page.press("Send", text="once")
    assert again.html.select(".bubble .prose")[-1].get_text(" ", strip=True) == "once"
    assert len(again.html.select(".bubble .prose")) == 2
    assert len(again.press("Send", text="once").html.select(".bubble .prose")) == 3


def test_conversation_of_other_members_returns_404(here: NetworkFixture) -> None:
    zoe, abe, bea = (member(here, name) for name in ("zoe", "abe", "bea"))
    post = posted(here, zoe, "@abe secret", visibility=Visibility.DIRECT)
    here.settle()
    assert visitor(here, "bea").open(f"/conversations/{post.id}").status == 404
    assert "No messages yet" in visitor(here, "bea").open("/conversations").text
    assert bea.id
    assert abe.id


def test_conversation_page_with_deleted_first_message_shows_remaining_messages(here: NetworkFixture) -> None:
    cal, dot = member(here, "cal"), member(here, "dot")
    first = posted(here, cal, "@dot one", visibility=Visibility.DIRECT)
    second = here.run(
        posts.create(here.writes, dot.id, Draft(text="@cal two", visibility=Visibility.DIRECT, parent_id=first.id))
    )
    here.run(
        posts.create(here.writes, cal.id, Draft(text="@dot three", visibility=Visibility.DIRECT, parent_id=second.id))
    )
    here.settle()
    here.run(posts.delete(here.writes, cal.id, first.id))
    here.settle()
    page = visitor(here, "dot").open(f"/conversations/{first.id}")
    assert [one.get_text(" ", strip=True) for one in page.html.select(".bubble .prose")] == ["two", "three"]
