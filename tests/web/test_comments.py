"""Comments and poll votes on the page of a post."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shoal.commands import polls, posts, reactions
from shoal.commands.polls import PollDraft
from shoal.commands.posts import Draft
from shoal.core.model import Post, Visibility
from tests.api.in_memory_network import NetworkFixture, network_fixture
from tests.web.browser import Page, Visitor, found_in, member, visitor

SCRIPT = {"HX-Request": "true"}


@pytest.fixture(scope="module")
def here() -> Iterator[NetworkFixture]:
    with network_fixture() as made:
        yield made


def a_post(here: NetworkFixture, name: str, text: str = "Low tide", **more: object) -> Post:
    author = member(here, name)
    return here.run(posts.create(here.writes, author.id, Draft(text=text, **more)))  # type: ignore[arg-type]  # of a draft


def scripted(browser: Visitor) -> Visitor:
    """Make the browser send the headers of htmx."""
    browser._client.headers.update(SCRIPT)
    return browser


def test_comment_form_creates_comment_and_reply_mentions_author(here: NetworkFixture) -> None:
    post = a_post(here, "ann")
    member(here, "ben")
    page = visitor(here, "ben").open(f"/@ann/{post.id}")
    assert page.field("Your comment").text == ""
    assert "Replying to @ann" in page.text
    done = page.press("Comment", page.html.find(class_="comment-form"), text="So low")
    assert done.path.startswith("/@ben/")
    stored = here.run(here.network.store.obj_get((int(done.path.rpartition("/")[2]),)))
    assert [node.text for node in stored.values() if isinstance(node, Post)] == ["@ann So low"]
    assert "@ann So low" not in done.text
    assert "So low" in done.text
    again = visitor(here, "ann").open(f"/@ann/{post.id}")
    assert "So low" in again.text
    assert again.field("Your comment").text == ""
    answer = again.follow("Reply")
    assert answer.path.startswith("/compose?reply_to=")
    assert answer.field("Text").text == ""
    for words in ("New comment", "So low", "Replying to @ben"):
        assert words in answer.text
    below = answer.press("Post", text="Lower tomorrow")
    here.settle()
    assert "ann replied to you" in visitor(here, "ben").open("/notifications").text
    assert ["Lower tomorrow" in below.text, "So low" in below.text] == [True, True]


def test_comment_form_htmx_response_contains_comment_and_empty_form(here: NetworkFixture) -> None:
    post = a_post(here, "cyd")
    browser = visitor(here, "cyd")
    token = browser.open(f"/@cyd/{post.id}").form_token
    scripted(browser)
    answer = browser.post(f"/posts/{post.id}/comments", [("form_token", token), ("text", "Well seen"), ("depth", "-1")])
    assert answer.status == 200
    assert len(answer.html.find_all("article")) == 1
    assert len(answer.html.find_all("form", class_="comment-form")) == 1
    counter = answer.one("[hx-swap-oob]")
    assert (counter["hx-swap-oob"], counter.text) == (f"outerHTML:#a{post.id} .comment", "Comment, 1 comment1")
    number = str(answer.html.find("article")["data-post"])  # type: ignore[index]
    form = browser.open(f"/posts/{number}/answer?depth=0")
    assert form.html.find("input", attrs={"name": "depth"})["value"] == "0"  # type: ignore[index]
    below = browser.post(f"/posts/{number}/comments", [("form_token", token), ("text", "Truly"), ("depth", "0")])
    assert "/answer?depth=1" in str(below.one("a.answer-link")["href"])
    assert below.html.find("form", class_="comment-form") is None


def test_comment_on_post_with_warning_has_the_same_warning_unless_changed(here: NetworkFixture) -> None:
    post = a_post(here, "wim_w", "It was the gardener", spoiler="The end")
    member(here, "ada_w")
    browser = visitor(here, "ada_w")

    def posted(done: Page) -> tuple[str, str]:
        id_ = int(done.path.rpartition("/")[2])
        node = here.run(here.network.store.obj_get((id_,)))[id_]
        assert isinstance(node, Post)
        return node.text, node.spoiler

    for spoiler in ("The end", "Another end", ""):
        page = browser.open(f"/@wim_w/{post.id}")
        assert page.field("Content warning")["value"] == "The end"
        done = page.press("Comment", page.html.find(class_="comment-form"), text="I knew", spoiler=spoiler)
        assert posted(done) == ("@wim_w I knew", spoiler)
    full = browser.open(f"/@wim_w/{post.id}").press("Pictures and more options", text="I knew it")
    assert (full.field("Text").text, full.field("Content warning")["value"]) == ("I knew it", "The end")
    assert posted(full.press("Post")) == ("@wim_w I knew it", "The end")
    plain = visitor(here, "ada_w").open(f"/@ada_w/{a_post(here, 'ada').id}")
    assert plain.html.find("input", attrs={"name": "spoiler"}) is None


def test_comment_form_with_empty_or_too_long_text_is_refused(here: NetworkFixture) -> None:
    post = a_post(here, "dan")
    member(here, "eve")
    browser = visitor(here, "eve")
    page = browser.open(f"/@dan/{post.id}")
    for typed in ("", "@dan "):
        refused = page.press("Comment", page.html.find(class_="comment-form"), text=typed)
        assert refused.status == 422
        assert "Write something or add a picture." in refused.text
        assert "Low tide" in refused.text
    token = page.form_token
    scripted(browser)
    answer = browser.post(f"/posts/{post.id}/comments", [("form_token", token), ("text", "x" * 5_001)])
    assert answer.status == 422
    assert answer.html.find("textarea").text == "x" * 5_001  # type: ignore[union-attr]


def test_comment_in_thread_has_one_reply_link_also_after_like(here: NetworkFixture) -> None:
    post = a_post(here, "max")
    browser = visitor(here, "max")
    page = browser.open(f"/@max/{post.id}")
    page.press("Comment", page.html.find(class_="comment-form"), text="Still low")
    comment = found_in(browser.open(f"/@max/{post.id}").html, ".comment-at article")
    path = found_in(comment, ".actions a.answer-link")["href"]
    assert [len(comment.select(kind)) for kind in ("a.answer-link", "a.comment")] == [1, 0]
    fields = [(str(one["name"]), str(one["value"])) for one in comment.select(".actions input")]
    liked = scripted(browser).post(str(found_in(comment, "form.actions")["action"]), [*fields, ("do", "like")])
    assert liked.one("a.answer-link")["href"] == path


def thread_posts(page: Page) -> list[str]:
    """Return the texts of the comments on a page, in order, each with its depth in the nested lists."""
    return [
        f"{len(one.find_parents('details', class_='replies'))} {found_in(one, '.prose').get_text(strip=True)}"
        for one in page.html.select(".comments article")
    ]


def a_thread(here: NetworkFixture, name: str) -> Post:
    """Create a post with two comments, of which the second is liked and has a chain of eight replies."""
    post = a_post(here, name)
    other = member(here, f"{name}2")

    def reply(author: int, to: int, text: str) -> Post:
        return here.run(posts.create(here.writes, author, Draft(text=text, parent_id=to)))

    reply(other.id, post.id, f"@{name} first")
    at = reply(other.id, post.id, f"@{name} second")
    here.run(reactions.like(here.writes, post.author_id, at.id))
    for number in range(8):
        author, answered = (post.author_id, f"{name}2") if number % 2 == 0 else (other.id, name)
        at = reply(author, at.id, f"@{answered} reply {number}")
    here.settle()
    return post


def test_thread_nests_replies_in_collapsible_lists_up_to_a_depth(here: NetworkFixture) -> None:
    post = a_thread(here, "pam")
    page = visitor(here).open(f"/@pam/{post.id}")
    assert thread_posts(page) == [
        "0 first",
        "0 second",
        *(f"{1 + number} reply {number}" for number in range(4)),
        *(f"4 reply {number}" for number in range(4, 8)),
    ]
    assert page.texts("replies")[0].startswith("8 replies")
    deep = page.post("reply 6")
    assert "Replying to @pam2" in deep.get_text(" ", strip=True)
    assert "Replying" not in page.post("reply 2").get_text()


def test_thread_sorted_by_likes_shows_most_liked_comment_first(here: NetworkFixture) -> None:
    post = a_thread(here, "quy")
    page = visitor(here).open(f"/@quy/{post.id}").follow("Most liked")
    assert page.path == f"/@quy/{post.id}?order=liked"
    assert [one for one in thread_posts(page) if one.startswith("0")] == ["0 second", "0 first"]
    assert page.one(".comment-order [aria-current]").text == "Most liked"
    oldest = page.follow("Oldest")
    assert [one for one in thread_posts(oldest) if one.startswith("0")] == ["0 first", "0 second"]
    assert visitor(here).open(f"/@quy/{post.id}?order=newest").status == 422


def test_reply_mentions_every_participant_except_the_author(here: NetworkFixture) -> None:
    post = a_post(here, "rob", "Who was it? @sam2 @tim2")
    for name in ("sam2", "tim2", "una2"):
        member(here, name)
    post = here.run(posts.create(here.writes, post.author_id, Draft(text="It was @sam2 or @tim2 or @una2")))
    page = visitor(here, "sam2").open(f"/@rob/{post.id}")
    assert "Replying to @rob, @tim2, @una2" in page.text
    done = page.press("Comment", page.html.find(class_="comment-form"), text="It was @Tim2")
    node = next(iter(here.run(here.network.store.obj_get((int(done.path.rpartition("/")[2]),))).values()))
    assert isinstance(node, Post)
    assert node.text == "@rob @una2 It was @Tim2"


def test_comment_that_contains_only_a_mention_shows_the_mention(here: NetworkFixture) -> None:
    post = a_post(here, "vic")
    wim = member(here, "wim")
    here.run(posts.create(here.writes, wim.id, Draft(text="@vic", parent_id=post.id)))
    assert thread_posts(visitor(here).open(f"/@vic/{post.id}")) == ["0 @vic"]


def test_anonymous_visitor_replies_in_place_and_comment_is_posted_after_login(here: NetworkFixture) -> None:
    post = a_post(here, "xia")
    yan = member(here, "yan")
    made = here.run(posts.create(here.writes, yan.id, Draft(text="@xia so low", parent_id=post.id)))
    browser = visitor(here)
    link = browser.open(f"/@xia/{post.id}").one(".comment-at a.answer-link")
    form = browser.open(str(link["href"]), **SCRIPT)
    assert form.one("form.comment-form")["action"] == f"/posts/{made.id}/comments"
    assert browser.open(str(link["href"])).path.startswith("/login?to=%2Fcompose")


def test_comment_on_direct_post_inherits_direct_visibility(here: NetworkFixture) -> None:
    gus = member(here, "gus")
    post = a_post(here, "fay", "Only @gus", visibility=Visibility.DIRECT)
    page = visitor(here, "gus").open(f"/@fay/{post.id}")
    assert "Visible to: Only people you mention" in page.text
    done = page.press("Comment", page.html.find(class_="comment-form"), text="@fay I hear you")
    id_ = int(done.path.rpartition("/")[2])
    node = here.run(here.network.store.obj_get((id_,)))[id_]
    assert isinstance(node, Post)
    assert (node.visibility, node.author_id, node.parent_id) == (Visibility.DIRECT, gus.id, post.id)


@pytest.mark.parametrize(
    ("author", "form", "button"), [("pia", "/@pia/{}", "Comment"), ("uma", "/compose?reply_to={}", "Post")]
)
def test_reply_omits_mention_that_edit_of_post_added_after_form_was_shown(
    here: NetworkFixture, author: str, form: str, button: str
) -> None:
    rex, eve = member(here, f"rex_{author}"), member(here, f"eve_{author}")
    post = a_post(here, author, f"Only @{rex.name}", visibility=Visibility.DIRECT)
    page = visitor(here, rex.name).open(form.format(post.id))
    edited = Draft(text=f"Only @{rex.name} and @{eve.name}")
    here.run(posts.update(here.writes, post.author_id, post.id, edited))
    done = page.press(button, page.html.find(class_=["comment-form", "compose"]), text="I hear you")
    reply = here.run(here.network.store.obj_get((id_ := int(done.path.rpartition("/")[2]),)))[id_]
    assert isinstance(reply, Post)
    assert [mention.name for mention in reply.mentions] == [author]


def test_comment_on_invisible_post_returns_404(here: NetworkFixture) -> None:
    post = a_post(here, "hal", visibility=Visibility.FOLLOWERS)
    member(here, "ivy")
    browser = visitor(here, "ivy")
    token = browser.open("/compose").form_token
    assert browser.open(f"/compose?reply_to={post.id}").status == 404
    assert browser.post(f"/posts/{post.id}/comments", [("form_token", token), ("text", "Psst")]).status == 404


def test_comment_form_submitted_empty_by_anonymous_visitor_redirects_to_login(here: NetworkFixture) -> None:
    post = a_post(here, "jim")
    page = visitor(here).open(f"/@jim/{post.id}")
    assert page.one("textarea").text == ""
    assert page.press("Comment", text="").path == f"/login?to=%2F%40jim%2F{post.id}"
    assert not page.links("Reply")


def test_poll_form_records_vote_and_shows_result(here: NetworkFixture) -> None:
    asked = PollDraft(options=("Tea", "Coffee"), seconds=3_600)
    post = a_post(here, "kim", "Which?", poll=asked)
    member(here, "leo")
    browser = visitor(here, "leo")
    page = browser.open(f"/@kim/{post.id}")
    voted = page.press("Vote", choices=["1"])
    assert voted.path.startswith(f"/@kim/{post.id}")
    assert "1 person voted" in voted.text
    assert "Coffee your vote 100%" in voted.text
    (end,) = voted.html.select('.poll time[data-behavior="moment"]')
    assert str(end["datetime"]).endswith("Z")
    again = browser.post(f"/polls/{post.poll_id}/vote", [("form_token", page.form_token), ("choices[]", "0")])
    assert again.status == 422
    assert "already voted" in again.text
    none = browser.post(f"/polls/{post.poll_id}/vote", [("form_token", page.form_token)])
    assert "Choose an option first." in none.text
    poll = here.run(polls.poll_of(here.network.store, post))
    assert poll is not None


def test_poll_form_htmx_response_contains_only_poll(here: NetworkFixture) -> None:
    post = a_post(here, "mia", "Which?", poll=PollDraft(options=("Tea", "Coffee"), seconds=3_600))
    member(here, "ned")
    browser = visitor(here, "ned")
    token = browser.open(f"/@mia/{post.id}").form_token
    scripted(browser)
    answer = browser.post(f"/polls/{post.poll_id}/vote", [("form_token", token), ("choices[]", "0")])
    assert answer.html.find("article") is None
    assert len(answer.html.find_all(class_="result")) == 2
