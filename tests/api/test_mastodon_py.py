"""Mastodon.py, a third-party client, signs up, posts, follows, favourites and reads over real HTTP."""

from __future__ import annotations

import itertools
import json
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from mastodon import Mastodon, StreamListener
from mastodon.errors import (
    MastodonAPIError,
    MastodonIllegalArgumentError,
    MastodonNotFoundError,
    MastodonUnauthorizedError,
)

from tests.api.in_memory_network import picture, served

PASSWORD = "low tide at dawn"
_numbers = itertools.count()

Join = Callable[..., Any]


@pytest.fixture(scope="module")
def app(url: str) -> tuple[str, str]:
    """The id and the secret of a client."""
    client_id, secret = Mastodon.create_app("Tests", api_base_url=url, website="https://example.org")
    return client_id, secret


@pytest.fixture
def join(url: str, app: tuple[str, str]) -> Iterator[Join]:
    """Return a function that signs up a member with a unique name."""
    clients = []

    def sign_up(name: str = "member") -> Any:
        client = Mastodon(*app, api_base_url=url)
        name = f"{name}{next(_numbers)}"
        client.create_account(name, PASSWORD, f"{name}@example.org", agreement=True)
        clients.append(client)
        return client

    yield sign_up
    for client in clients:
        client.session.close()


def until(question: Callable[[], Any], seconds: float = 60.0) -> Any:
    """Poll until the result is not empty: fan-out is asynchronous."""
    deadline = time.monotonic() + seconds
    while not (answer := question()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return answer


def test_mastodon_py_login_by_email_and_username_succeeds(join: Join, app: tuple[str, str], url: str) -> None:
    ann = join("ann")
    me = ann.me()
    for name in (f"{me.username}@example.org", me.username):
        again = Mastodon(*app, api_base_url=url)
        assert again.log_in(name, PASSWORD) != ann.access_token
        assert again.account_verify_credentials().id == me.id
        again.session.close()
    assert (me.display_name, me.locked, me.source.privacy) == ("", False, "public")


def test_mastodon_py_login_with_wrong_password_and_taken_username_are_refused(
    join: Join, app: tuple[str, str], url: str
) -> None:
    ann = join("ann")
    stranger = Mastodon(*app, api_base_url=url)
    with pytest.raises(MastodonIllegalArgumentError, match="invalid_grant"):
        stranger.log_in(ann.me().username, "wrong")
    token, errors = stranger.create_account(
        ann.me().username, PASSWORD, "other@example.org", agreement=True, return_detailed_error=True
    )
    assert token is None
    assert errors.details.username[0].error == "ERR_TAKEN"
    stranger.session.close()


def test_mastodon_py_revoked_token_is_rejected(join: Join) -> None:
    ann = join("ann")
    token = ann.access_token
    ann.revoke_access_token()
    ann.access_token = token
    with pytest.raises(MastodonUnauthorizedError):
        ann.me()


def test_mastodon_py_post_with_photo_reaches_follower_and_is_favourited(join: Join) -> None:
    ann, ben = join("ann"), join("ben")
    assert ben.account_follow(ann.me().id).following
    photo = ann.media_post(picture(640, 400), mime_type="image/png", description="The sea")
    assert photo.url
    assert ann.media(photo).description == "The sea"
    assert ann.media_update(photo, description="The sea at dawn", focus=(0.5, -0.25)).meta.focus.x == 0.5
    post = ann.status_post("Low tide at #dawn", media_ids=[photo])
    [seen] = until(ben.timeline_home)
    assert (seen.id, seen.media_attachments[0].description) == (post.id, "The sea at dawn")
    assert (seen.media_attachments[0].meta.original.width, seen.tags[0].name) == (640, "dawn")
    file = ben.session.get(seen.media_attachments[0].url)
    assert (file.status_code, file.headers["content-type"]) == (200, "image/png")
    assert ben.status_favourite(post).favourited
    assert ben.status_favourite(post).favourites_count == 1
    assert [account.id for account in ann.status_favourited_by(post)] == [ben.me().id]
    assert [status.id for status in ben.favourites()] == [post.id]
    assert not ben.status_unfavourite(post).favourited
    assert ben.favourites() == []


def test_mastodon_py_repeated_idempotency_key_returns_first_post(join: Join) -> None:
    ann = join("ann")
    key = str(uuid.uuid4())
    first, second = (ann.status_post("once", idempotency_key=key) for _ in range(2))
    assert first.id == second.id
    assert [status.id for status in ann.account_statuses(ann.me())] == [first.id]


def test_mastodon_py_boost_wraps_post_and_appears_in_home_timeline(join: Join) -> None:
    ann, ben, cyd = join("ann"), join("ben"), join("cyd")
    cyd.account_follow(ben.me())
    post = ann.status_post("worth reading")
    share = ben.status_reblog(post)
    assert (share.reblogged, share.reblog.id, share.reblog.reblogged) == (True, post.id, True)
    assert (share.account.id, share.reblog.account.id) == (ben.me().id, ann.me().id)
    assert ben.status_reblog(post).id == share.id
    [seen] = until(cyd.timeline_home)
    assert (seen.id, seen.reblog.id, seen.reblog.reblogs_count) == (share.id, post.id, 1)
    assert [account.id for account in cyd.status_reblogged_by(post)] == [ben.me().id]
    undone = ben.status_unreblog(post)
    assert (undone.id, undone.reblogged, undone.reblog) == (post.id, False, None)
    assert until(lambda: not cyd.timeline_home())


def test_mastodon_py_status_context_returns_ancestors_and_descendants(join: Join) -> None:
    ann, ben = join("ann"), join("ben")
    root = ann.status_post("root")
    answer = ben.status_reply(root, "answer")
    last = ann.status_post("last", in_reply_to_id=answer)
    assert answer.in_reply_to_account_id == ann.me().id
    around = ben.status_context(answer)
    assert [status.id for status in around.ancestors] == [root.id]
    assert [status.id for status in around.descendants] == [last.id]
    assert ann.status(root).replies_count == 1


def test_mastodon_py_status_edit_keeps_history(join: Join) -> None:
    ann = join("ann")
    post = ann.status_post("frist", spoiler_text="a warning")
    edited = ann.status_update(post, "first", spoiler_text="a warning")
    assert (edited.content, edited.id, edited.sensitive) == ("<p>first</p>", post.id, True)
    assert edited.edited_at > post.created_at
    assert ann.status_source(post).text == "first"
    assert [edit.content for edit in ann.status_history(post)] == ["<p>frist</p>", "<p>first</p>"]


def test_mastodon_py_status_delete_returns_source_then_404(join: Join) -> None:
    ann, ben = join("ann"), join("ben")
    post = ann.status_post("gone *soon*")
    with pytest.raises(MastodonNotFoundError):
        ben.status_delete(post)
    assert ann.status_delete(post).text == "gone *soon*"
    for client in (ann, ben):
        with pytest.raises(MastodonNotFoundError):
            client.status(post)


def test_mastodon_py_update_credentials_saves_pictures_and_fields(join: Join) -> None:
    ann = join("ann")
    assert ann.me().avatar.endswith("missing.png")
    changed = ann.account_update_credentials(
        display_name="Ann of the sea",
        note="Swims.\nEvery day.",
        avatar=picture(90, 70),
        avatar_mime_type="image/png",
        header=picture(300, 90),
        header_mime_type="image/png",
        fields=[("Web", "https://example.org"), ("Town", "Brest")],
        bot=True,
    )
    assert (changed.display_name, changed.note) == ("Ann of the sea", "<p>Swims.<br />Every day.</p>")
    assert changed.source.note == "Swims.\nEvery day."
    assert [field.name for field in changed.fields] == ["Web", "Town"]
    assert "<a href" in changed.fields[0].value
    assert changed.bot
    assert ann.session.get(changed.avatar).status_code == 200
    before = changed.avatar
    assert ann.account_update_credentials(avatar=picture(50, 50, "red"), avatar_mime_type="image/png").avatar != before
    with pytest.raises(MastodonAPIError):
        ann.account_update_credentials(fields=[(str(n), "x") for n in range(4)] + [("5", "y")])


def test_mastodon_py_home_timeline_pagination_has_no_gaps_or_duplicates(join: Join) -> None:
    ann, ben = join("ann"), join("ben")
    ben.account_follow(ann.me())
    posts = [ann.status_post(f"post {n}").id for n in range(7)]
    until(lambda: len(ben.timeline_home()) == 7)
    page, seen = ben.timeline_home(limit=3), []
    while page:
        seen += [status.id for status in page]
        page = ben.fetch_next(page)
    assert seen == posts[::-1]
    newest = ben.timeline_home(limit=3)
    assert [status.id for status in ben.fetch_previous(ben.fetch_next(newest))] == [status.id for status in newest]
    assert [status.id for status in ben.timeline_home(min_id=posts[0], limit=2)] == [posts[2], posts[1]]
    assert [status.id for status in ben.timeline_home(since_id=posts[0], limit=2)] == [posts[6], posts[5]]


def test_mastodon_py_followers_pages_are_ordered_by_follow_time(join: Join) -> None:
    ann = join("ann")
    others = [join("other") for _ in range(3)]
    for other in others:
        other.account_follow(ann.me())
    page, seen = ann.account_followers(ann.me(), limit=1), []
    while page:
        seen += [account.id for account in page]
        page = ann.fetch_next(page)
    assert seen == [other.me().id for other in reversed(others)]
    assert [account.id for account in others[0].account_following(others[0].me())] == [ann.me().id]


def test_mastodon_py_blocks_and_mutes_are_created_listed_and_removed(join: Join) -> None:
    ann, ben = join("ann"), join("ben")
    ben.account_follow(ann.me())
    assert ann.account_block(ben.me()).blocking
    assert [account.id for account in ann.blocks()] == [ben.me().id]
    [stand] = ben.account_relationships(ann.me())
    assert (stand.blocked_by, stand.following) == (True, False)
    with pytest.raises(MastodonAPIError, match="not allowed"):
        ben.account_follow(ann.me())
    assert not ann.account_unblock(ben.me()).blocking
    assert ann.account_mute(ben.me()).muting
    assert [account.id for account in ann.mutes()] == [ben.me().id]
    assert not ann.account_unmute(ben.me()).muting
    assert ann.mutes() == []


def test_mastodon_py_bookmarks_are_listed_newest_first(join: Join) -> None:
    ann = join("ann")
    first, second = ann.status_post("first"), ann.status_post("second")
    for post in (second, first):
        assert ann.status_bookmark(post).bookmarked
    assert [status.id for status in ann.bookmarks()] == [first.id, second.id]
    assert not ann.status_unbookmark(first).bookmarked
    assert [status.id for status in ann.bookmarks()] == [second.id]


def test_mastodon_py_followed_tag_adds_posts_to_home_timeline(join: Join) -> None:
    ann, ben = join("ann"), join("ben")
    assert ben.tag_follow("lowtide").following
    post = ann.status_post("see #LowTide")
    assert [status.id for status in until(ben.timeline_home)] == [post.id]
    assert ben.tag("LowTide").following
    assert not ben.tag_unfollow("lowtide").following


def test_mastodon_py_account_lookup_finds_member_and_status_filters_select_statuses(join: Join) -> None:
    ann, ben = join("ann"), join("ben")
    name, me = ann.me().username, ann.me()
    assert ben.account_lookup(f"@{name}").id == ben.account(me).id == me.id
    with pytest.raises(MastodonNotFoundError):
        ben.account_lookup("nobody_of_this_name")
    plain = ann.status_post("plain")
    photo = ann.status_post("photo", media_ids=[ann.media_post(picture(), mime_type="image/png")])
    share = ann.status_reblog(ben.status_post("hers"))
    reply = ann.status_post("a reply", in_reply_to_id=share.reblog)

    def ids(**wish: Any) -> list[int]:
        return [status.id for status in ben.account_statuses(me, **wish)]

    assert ids() == [reply.id, share.id, photo.id, plain.id]
    assert ids(exclude_replies=True) == [share.id, photo.id, plain.id]
    assert ids(exclude_reblogs=True) == [reply.id, photo.id, plain.id]
    assert ids(only_media=True) == [photo.id]
    assert ids(pinned=True) == ids(tagged="nothing") == []


def test_mastodon_py_private_post_returns_404_for_non_followers(join: Join) -> None:
    ann, ben = join("ann"), join("ben")
    post = ann.status_post("only for friends", visibility="private")
    assert post.visibility == "private"
    with pytest.raises(MastodonNotFoundError):
        ben.status(post)
    with pytest.raises(MastodonNotFoundError):
        ben.status_favourite(post)
    ben.account_follow(ann.me())
    assert ben.status(post).content == "<p>only for friends</p>"


def test_mastodon_py_instance_endpoints_are_parsed(join: Join) -> None:
    ann = join("ann")
    assert ann.instance_v1().version.startswith("4.4.0 (compatible; Shoal")
    assert ann.instance_v1().stats.user_count >= 0
    assert ann.instance_v2().configuration.statuses.max_characters == 5_000
    assert ann.instance_health()
    assert ann.instance_nodeinfo().software.name == "shoal"
    assert ann.custom_emojis() == ann.announcements() == []
    assert ann.app_verify_credentials().name == "Tests"


def test_mastodon_py_registration_and_password_grant_disabled_are_refused() -> None:
    with served(registrations=False, password_grant=False) as address:
        client = Mastodon(*Mastodon.create_app("Tests", api_base_url=address), api_base_url=address)
        with pytest.raises(MastodonIllegalArgumentError, match="not accept new members"):
            client.create_account("ann", PASSWORD, "ann@example.org", agreement=True)
        with pytest.raises(MastodonIllegalArgumentError, match="unsupported_grant_type"):
            client.log_in("ann", PASSWORD)
        client.session.close()


class _Listener(StreamListener):
    """A listener that records its calls in short form."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.beats = 0

    def on_update(self, status: Any) -> None:
        self.heard.append(f"+{status.content[3:-4]}")

    def on_status_update(self, status: Any) -> None:
        self.heard.append(f"~{status.content[3:-4]}")

    def on_delete(self, status_id: Any) -> None:
        self.heard.append(f"-{status_id}")

    def handle_heartbeat(self) -> None:
        self.beats += 1


def test_mastodon_py_sse_streams_deliver_updates_edits_and_deletes(join: Join) -> None:
    ann, ben = join("ann"), join("ben")
    tag = f"dawn{next(_numbers)}"
    ben.account_follow(ann.me())
    ears = {name: _Listener() for name in ("user", "public", "local", "hashtag", "direct")}
    handles = [
        ben.stream_user(ears["user"], run_async=True),
        ben.stream_public(ears["public"], run_async=True),
        ben.stream_public(ears["local"], local=True, run_async=True),
        ben.stream_hashtag(tag, ears["hashtag"], run_async=True),
        ben.stream_direct(ears["direct"], run_async=True),
    ]
    # The first heartbeat shows that the stream is open.
    until(lambda: all(ear.beats for ear in ears.values()))
    post = ann.status_post(f"low #{tag}")
    until(lambda: all(ears[name].heard for name in ("user", "public", "local", "hashtag")))
    ann.status_update(post, "high")
    ann.status_delete(post)
    until(lambda: all(f"-{post.id}" in ears[name].heard for name in ("user", "public", "local", "hashtag")))
    assert ears["direct"].heard == []
    for handle in handles:
        handle.close()


def test_mastodon_py_websocket_streams_deliver_updates(join: Join) -> None:
    ann, ben = join("ann"), join("ben")
    ear, own = _Listener(), _Listener()
    with ben.stream_open_websocket(listener=ear) as socket:
        socket.subscribe("public:local")
        ben.stream_hashtag("Dusk", own, websocket_handle=socket)
        until(lambda: ann.status_post("to #dusk") and ear.heard and own.heard)
        assert {said[0] for said in ear.heard + own.heard} == {"+"}


def test_mastodon_py_v1_and_v2_filters_and_report_can_be_created_and_filters_deleted(join: Join) -> None:
    ann, ben = join(), join()
    ann.account_follow(ben.me().id)
    made = ann.create_filter_v2(
        "Tea", ["home", "public"], "warn", expires_in=3600, keywords_attributes=[{"keyword": "tea", "whole_word": True}]
    )
    word = ann.add_filter_keyword_v2(made.id, "milk", whole_word=True)
    old = ann.filter_create("coffee", ["home"], irreversible=True)
    post = ben.status_post("tea with milk")
    ben.status_post("coffee")
    (seen,) = until(ann.timeline_home)
    assert [match.keyword_matches for match in seen.filtered] == [["tea", "milk"]]
    ann.delete_filter_keyword_v2(word.id)
    held = ann.add_filter_status_v2(made.id, post.id)
    assert [one.id for one in ann.filter_statuses_v2(made.id)] == [held.id]
    assert ann.filter_update(old.id, phrase="cocoa").phrase == "cocoa"
    assert {one.title for one in ann.filters_v2()} == {"Tea", "cocoa"}
    ann.filter_delete(old.id)
    ann.delete_filter_v2(made.id)
    assert ann.filters() == []
    report = ann.report(ben.me().id, [post.id], comment="too much tea", category="spam")
    assert (report.category, report.status_ids) == ("spam", [post.id])


def test_mastodon_py_instance_activity_rules_and_languages_are_parsed(join: Join) -> None:
    client = join()
    assert len(client.instance_activity()) == 12
    assert (client.instance_rules(), client.instance_peers(), client.domain_blocks()) == ([], [], [])
    assert client.instance_extended_description().content.startswith("<p>")
    assert {"de", "en"} <= {language.code for language in client.instance_languages()}
    client.domain_block("elsewhere.org")


def test_mastodon_py_reads_named_feeds_as_lists_and_pages_them(join: Join) -> None:
    ann, ben = join("ann"), join("ben")
    tag = f"bread{next(_numbers)}"
    ids = [ben.status_post(f"{number} #{tag}").id for number in range(5)]
    sources = [{"from": "tag", "tag": tag}]
    ranked = {"by": "expression", "expression": "-age_hours"}
    for title, declared in (("New", {"sources": sources}), ("Best", {"sources": sources, "order": ranked})):
        body = {"title": title, "declaration": json.dumps(declared)}
        answer = ann.session.post(
            f"{ann.api_base_url}/api/shoal/v1/feeds",
            data=body,
            headers={"Authorization": f"Bearer {ann.access_token}"},
            timeout=60,
        )
        answer.raise_for_status()
    by_title = {each.title: each for each in ann.lists()}
    assert by_title.keys() == {"New", "Best"}
    for shown in by_title.values():
        assert ann.list(shown.id).title == shown.title
        assert ann.list_accounts(shown.id) == []
        until(lambda: len(ann.timeline_list(shown.id)) == len(ids))  # noqa: B023  # called at once
        page = ann.timeline_list(shown.id, limit=2)
        found = []
        while page:
            found += [status.id for status in page]
            page = ann.fetch_next(page)
        assert found == ids[::-1]
        with pytest.raises(MastodonAPIError, match="this list is a named feed"):
            ann.list_delete(shown.id)
