"""Direct messages from all pages that offer a message form: only the recipients can read them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from shoal.commands import posts, relationships, scheduled_posts
from shoal.commands.posts import Draft
from shoal.core.model import Post, Visibility
from shoal.graph.contract import Cursor
from shoal.graph.schema import POSTED, user_name_key
from tests.api.in_memory_network import NetworkFixture, network_fixture, picture
from tests.web.browser import Page, Visitor, member, visitor

TEXT = "The key is under the mat"


@pytest.fixture(scope="module")
def here() -> Iterator[NetworkFixture]:
    with network_fixture() as made:
        for name in ("ann", "ben", "cyd"):
            member(made, name)
        yield made


def id_of(here: NetworkFixture, name: str) -> int:
    key = user_name_key(name)
    return here.run(here.network.store.key_get([key]))[key]


def direct(here: NetworkFixture, author: str, text: str, parent: int = 0) -> Post:
    draft = Draft(text=text, visibility=Visibility.DIRECT, parent_id=parent)
    made = here.run(posts.create(here.writes, id_of(here, author), draft))
    here.settle()
    return made


def newest(here: NetworkFixture, author: str) -> Post:
    """Return the last post of a member."""
    entry = here.run(here.network.store.assoc_range(id_of(here, author), POSTED, Cursor(limit=1)))[0]
    node = here.run(here.network.store.obj_get((entry.id2,)))[entry.id2]
    assert isinstance(node, Post)
    return node


def from_an_empty_list_of_messages(here: NetworkFixture, ann: Visitor) -> Page:
    member(here, "eve")
    page = visitor(here, "eve").open("/conversations")
    assert "No messages yet" in page.text
    page.follow("New message").press("Send", recipients="ben", text=TEXT)
    return visitor(here, "eve").open(f"/@eve/{newest(here, 'eve').id}")


def from_the_list_of_messages(here: NetworkFixture, ann: Visitor) -> Page:
    direct(here, "ben", "@ann hello")
    return ann.open("/conversations").follow("New message").press("Send", recipients="@ben", text=TEXT)


def from_a_profile(here: NetworkFixture, ann: Visitor) -> Page:
    return ann.open("/@ben/more").follow("Message ben").press("Send", text=TEXT)


def from_a_conversation(here: NetworkFixture, ann: Visitor) -> Page:
    talk = direct(here, "ben", "@ann hello")
    ann.open(f"/conversations/{talk.id}").press("Send", text=TEXT)
    return ann.open(f"/@ann/{newest(here, 'ann').id}")


def from_the_comment_form_of_a_message(here: NetworkFixture, ann: Visitor) -> Page:
    talk = direct(here, "ben", "@ann hello")
    page = ann.open(f"/@ben/{talk.id}")
    return page.press("Comment", page.html.find(class_="comment-form"), text=TEXT)


def from_the_link_to_the_long_form_below_a_message(here: NetworkFixture, ann: Visitor) -> Page:
    talk = direct(here, "ben", "@ann hello")
    return ann.open(f"/@ben/{talk.id}").press("Pictures and more options").press("Post", text=TEXT)


def from_an_answer_to_a_message(here: NetworkFixture, ann: Visitor) -> Page:
    talk = direct(here, "ann", "@ben hello")
    direct(here, "ben", "@ann yes?", talk.id)
    return ann.open(f"/@ann/{talk.id}").follow("Reply").press("Post", text=TEXT)


def from_a_message_that_is_deleted_and_written_again(here: NetworkFixture, ann: Visitor) -> Page:
    sent = direct(here, "ann", f"@ben {TEXT}, I think")
    return ann.open(f"/compose?again={sent.id}").press("Post", text=f"@ben {TEXT}")


def from_a_scheduled_message(here: NetworkFixture, ann: Visitor) -> Page:
    draft = Draft(text=f"@ben {TEXT}", visibility=Visibility.DIRECT)
    at = int(time.time() * 1_000) + 3_600_000
    plan = here.run(scheduled_posts.schedule(here.writes, id_of(here, "ann"), draft, at))
    return ann.open(f"/compose?scheduled={plan.id}").press("Post", at="")


@pytest.mark.parametrize(
    "sent",
    [
        from_an_empty_list_of_messages,
        from_the_list_of_messages,
        from_a_profile,
        from_a_conversation,
        from_the_comment_form_of_a_message,
        from_the_link_to_the_long_form_below_a_message,
        from_an_answer_to_a_message,
        from_a_message_that_is_deleted_and_written_again,
        from_a_scheduled_message,
    ],
)
def test_direct_message_is_visible_only_to_recipient(
    here: NetworkFixture, sent: Callable[[NetworkFixture, Visitor], Page]
) -> None:
    page = sent(here, visitor(here, "ann"))
    here.settle()
    assert TEXT in page.text
    assert TEXT in visitor(here, "ben").open(page.path).text
    assert TEXT in visitor(here, "ben").open("/conversations").follow(TEXT[:20]).text
    for other in (visitor(here, "cyd"), visitor(here)):
        refused = other.open(page.path)
        assert refused.status == 404 or refused.path.startswith("/login")
        for listed in ("/@ann", "/@ann?show=posts", "/@ann?show=replies", "/explore", "/search?q=mat&type=posts", "/"):
            assert TEXT not in other.open(listed).text, listed


@pytest.mark.parametrize(("link", "readers"), [("/compose?tag=sea", 3), ("/compose?text=Hello", 3)])
def test_compose_link_creates_post_with_displayed_visibility(here: NetworkFixture, link: str, readers: int) -> None:
    form = visitor(here, "ann").open(link)
    assert form.one("input[name=visibility][checked]")["value"] == "public"
    page = form.press("Post")
    others = [visitor(here), visitor(here, "cyd"), visitor(here, "ben")]
    assert sum(other.open(page.path).status == 200 for other in others) == readers


def test_message_form_with_public_visibility_sends_direct_message(here: NetworkFixture) -> None:
    ann = visitor(here, "ann")
    form = ann.open("/conversations/new?recipients=ben")
    assert form.html.select("[name=visibility]") == []
    fields = [("form_token", form.form_token), ("recipients", "ben"), ("text", "Hi"), ("visibility", "public")]
    assert ann.post("/conversations/new", fields, multipart=True).status == 200
    assert newest(here, "ann").visibility is Visibility.DIRECT


def test_message_form_offers_recent_and_followed_people_as_recipients(here: NetworkFixture) -> None:
    gil, hal = member(here, "gil"), member(here, "hal")
    ira = member(here, "ira")
    here.run(posts.create(here.writes, hal.id, Draft(text="@gil hello", visibility=Visibility.DIRECT)))
    here.run(relationships.follow(here.writes, gil.id, ira.id))
    here.settle()
    form = visitor(here, "gil").open("/conversations/new")
    assert [one["value"] for one in form.html.select("[name='people[]']")] == ["hal", "ira"]
    page = form.press("Send", people=["ira", "hal"], text=TEXT)
    post = newest(here, "gil")
    assert (page.path.partition("#")[0], post.text) == (f"/conversations/{post.id}", f"@ira @hal {TEXT}")
    assert post.visibility is Visibility.DIRECT
    refused = visitor(here, "gil").open("/conversations/new").press("Send", people=["ira"], text=" ")
    assert refused.field("To")["value"] == "@ira"


def test_conversation_page_shows_new_message_before_conversation_list_is_updated(here: NetworkFixture) -> None:
    jan = member(here, "jan")
    member(here, "kit")
    made = here.run(posts.create(here.writes, jan.id, Draft(text=f"@kit {TEXT}", visibility=Visibility.DIRECT)))
    assert TEXT in visitor(here, "jan").open(f"/conversations/{made.id}").text
    here.settle()
    public = here.run(posts.create(here.writes, jan.id, Draft(text="Open to all")))
    assert visitor(here, "jan").open(f"/conversations/{public.id}").status == 404
    assert visitor(here, "cyd").open(f"/conversations/{made.id}").status == 404


def test_message_to_same_people_continues_their_conversation(here: NetworkFixture) -> None:
    lou, *_ = (member(here, name) for name in ("lou", "moe", "nan"))
    first = here.run(posts.create(here.writes, lou.id, Draft(text="@moe @nan one", visibility=Visibility.DIRECT)))
    here.settle()
    browser = visitor(here, "lou")
    page = browser.open("/conversations/new").press("Send", recipients="nan moe", text="two")
    assert page.path == f"/conversations/{first.id}"
    here.settle()
    assert page.text.count("two") == 1
    only = browser.open("/conversations/new").press("Send", recipients="nan", text="three")
    assert only.path != page.path
    here.settle()
    assert len(browser.open("/conversations").html.select("a.talk")) == 2
    assert "two" in visitor(here, "nan").open(f"/conversations/{first.id}").text


def test_message_is_not_listed_on_profile_of_its_author(here: NetworkFixture) -> None:
    direct(here, "ann", f"@ben {TEXT}")
    for show in ("photos", "posts", "replies"):
        assert TEXT not in visitor(here, "ann").open(f"/@ann?show={show}").text


def test_post_page_of_direct_message_links_to_its_conversation(here: NetworkFixture) -> None:
    talk = direct(here, "ann", "@ben hello again")
    page = visitor(here, "ben").open(f"/@ann/{talk.id}").follow("Open conversation")
    assert page.path == f"/conversations/{talk.id}"


def test_message_form_sends_pictures_to_several_recipients(here: NetworkFixture) -> None:
    form = visitor(here, "ann").open("/conversations/new")
    page = form.press(
        "Send",
        recipients="@ben, cyd",
        text="Look, @ben",
        asks="",
        files=[("files[]", ("low tide.png", picture()))],
    )
    post = newest(here, "ann")
    assert (post.text, len(post.media), post.visibility) == ("@cyd Look, @ben", 1, Visibility.DIRECT)
    assert page.path == f"/conversations/{post.id}"


@pytest.mark.parametrize(
    "text", ["Write to me@ben.example", "See https://a.example/@ben", "Ask @ben@elsewhere.example"]
)
def test_message_form_with_recipient_name_only_inside_url_email_or_remote_handle_adds_mention(
    here: NetworkFixture, text: str
) -> None:
    ann = visitor(here, "ann")
    ann.open("/conversations/new").press("Send", recipients="ben", text=text)
    assert newest(here, "ann").text == f"@ben {text}"
    talk = direct(here, "ben", "@ann hello")
    ann.open(f"/conversations/{talk.id}").press("Send", text=text)
    assert newest(here, "ann").text == f"@ben {text}"


@pytest.mark.parametrize(
    ("recipients", "text", "says"),
    [
        ("", "Hello", "Add at least one recipient."),
        ("ben unknown", "Hello", "There is no member @unknown."),
        ("ben !!", "Hello", "“!!” is not a user name."),
        ("ben;cyd", "Hello", "“ben;cyd” is not a user name."),
        ("ben@elsewhere.example", "Hello", "“ben@elsewhere.example” is not a user name."),
        (" ".join(f"m{n}" for n in range(51)), "Hello", "A message can have at most 50 recipients."),
        ("ben", " ", "Write something or add a picture."),
    ],
)
def test_message_form_with_invalid_values_is_refused_with_reason(
    here: NetworkFixture, recipients: str, text: str, says: str
) -> None:
    before = direct(here, "ann", "@ben hello")
    page = visitor(here, "ann").open("/conversations/new").press("Send", recipients=recipients, text=text)
    assert (page.status, says in page.text) == (422, True)
    assert (page.field("To")["value"], page.one("textarea[name=text]").text.strip()) == (recipients, text.strip())
    assert newest(here, "ann").id == before.id
