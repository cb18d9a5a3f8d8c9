"""The JSON of every entity: its shape as clients know it, and the spliced form equal to one that is written out plainly."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.api.addresses import Addresses
from shoal.api.entity_json import Presenter
from shoal.core.ids import EPOCH_MS, compose
from shoal.core.model import App, Media, Member, Mention, Place, Post, ProfileField, Share, Visibility
from shoal.core.visibility import STRANGER
from shoal.feeds.hydrate import Entry, Profile
from shoal.graph.contract import Batch
from shoal.graph.memory import MemoryGraph
from tests.api.world import BASE, Someone, World, picture
from tests.running import run

AT = Addresses(BASE, "shoal.test")

TEXT, FLAG, NUMBER, MOMENT = str, bool, int, "moment"
MAYBE_TEXT = (str, type(None))
MOMENT_FORM = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")

ACCOUNT = {
    **dict.fromkeys(("id", "username", "acct", "url", "uri", "display_name", "note"), TEXT),
    **dict.fromkeys(("avatar", "avatar_static", "header", "header_static"), TEXT),
    **dict.fromkeys(("locked", "bot", "group", "discoverable", "indexable", "noindex", "hide_collections"), FLAG),
    **dict.fromkeys(("statuses_count", "followers_count", "following_count"), NUMBER),
    **dict.fromkeys(("fields", "emojis", "roles"), list),
    "created_at": MOMENT,
    "last_status_at": type(None),
}
CREDENTIALS = {**ACCOUNT, "source": dict, "role": dict}
SOURCE = {
    **dict.fromkeys(("privacy", "language", "note", "quote_policy"), TEXT),
    **dict.fromkeys(("sensitive", "hide_collections", "discoverable", "indexable"), FLAG),
    **dict.fromkeys(("fields", "attribution_domains"), list),
    "follow_requests_count": NUMBER,
}
ROLE = {**dict.fromkeys(("id", "name", "permissions", "color"), TEXT), "highlighted": FLAG}
STATUS = {
    **dict.fromkeys(("id", "uri", "url", "content", "visibility", "spoiler_text"), TEXT),
    **dict.fromkeys(("replies_count", "reblogs_count", "favourites_count", "quotes_count"), NUMBER),
    **dict.fromkeys(("media_attachments", "mentions", "tags", "emojis"), list),
    **dict.fromkeys(("in_reply_to_id", "in_reply_to_account_id", "language"), MAYBE_TEXT),
    **dict.fromkeys(("poll", "card", "quote", "reblog"), type(None)),
    "created_at": MOMENT,
    "edited_at": MAYBE_TEXT,
    "account": dict,
    "sensitive": FLAG,
    "application": (dict, type(None)),
}
SEEN = {**dict.fromkeys(("favourited", "reblogged", "muted", "bookmarked"), FLAG), "filtered": list}
OWN = {**STATUS, **SEEN, "pinned": FLAG}
ATTACHMENT = {
    **dict.fromkeys(("id", "type", "url", "preview_url"), TEXT),
    **dict.fromkeys(("remote_url", "preview_remote_url", "text_url"), type(None)),
    **dict.fromkeys(("description", "blurhash"), MAYBE_TEXT),
    "meta": dict,
}
RELATIONSHIP = {
    **dict.fromkeys(("following", "showing_reblogs", "notifying", "followed_by", "blocking", "blocked_by"), FLAG),
    **dict.fromkeys(("muting", "muting_notifications", "requested", "requested_by", "domain_blocking"), FLAG),
    **dict.fromkeys(("id", "note"), TEXT),
    **dict.fromkeys(("languages", "muting_expires_at"), type(None)),
    "endorsed": FLAG,
}
APPLICATION = {
    **dict.fromkeys(("id", "name", "redirect_uri", "vapid_key"), TEXT),
    **dict.fromkeys(("scopes", "redirect_uris"), list),
    "website": MAYBE_TEXT,
}
CREDENTIAL_APPLICATION = {
    **APPLICATION,
    "client_id": TEXT,
    "client_secret": TEXT,
    "client_secret_expires_at": NUMBER,
}
TOKEN = {**dict.fromkeys(("access_token", "token_type", "scope"), TEXT), "created_at": NUMBER}
INSTANCE_1 = {
    **dict.fromkeys(("uri", "title", "short_description", "description", "email", "version", "thumbnail"), TEXT),
    **dict.fromkeys(("registrations", "approval_required", "invites_enabled"), FLAG),
    **dict.fromkeys(("urls", "stats", "configuration"), dict),
    **dict.fromkeys(("languages", "rules"), list),
    "contact_account": type(None),
}
INSTANCE_2 = {
    **dict.fromkeys(("domain", "title", "version", "source_url", "description"), TEXT),
    **dict.fromkeys(("usage", "thumbnail", "configuration", "registrations", "api_versions", "contact"), dict),
    **dict.fromkeys(("icon", "languages", "rules"), list),
}


def fits(value: Any, shape: dict[str, Any]) -> None:
    """The value has exactly the keys of the shape, with values of their kinds."""
    assert set(value) == set(shape)
    for key, kind in shape.items():
        if kind == MOMENT:
            assert MOMENT_FORM.fullmatch(value[key]), key
        elif kind is NUMBER:
            assert type(value[key]) is int, key
        else:
            assert isinstance(value[key], kind), (key, value[key])


@pytest.fixture(scope="module")
def ann(shared: World) -> Someone:
    """Somebody."""
    return shared.join("ann")


def test_an_account(shared: World, ann: Someone) -> None:
    account = shared.json("GET", f"/api/v1/accounts/{ann.id}")
    fits(account, ACCOUNT)
    assert account["display_name"] == ""
    assert account["avatar"] == f"{BASE}/avatars/original/missing.png"
    assert account["url"] == account["uri"] == f"{BASE}/@ann"


def test_an_account_as_its_member_sees_it(shared: World, ann: Someone) -> None:
    form = {"fields_attributes[0][name]": "Web", "fields_attributes[0][value]": "https://example.org", "note": "a < b"}
    form |= {"source[privacy]": "private", "source[language]": "fr"}
    account = shared.json("PATCH", "/api/v1/accounts/update_credentials", ann, data=form)
    fits(account, CREDENTIALS)
    fits(account["source"], SOURCE)
    fits(account["role"], ROLE)
    assert (account["note"], account["source"]["note"]) == ("<p>a &lt; b</p>", "a < b")
    assert account["source"]["fields"] == [{"name": "Web", "value": "https://example.org", "verified_at": None}]
    assert account["fields"][0]["value"].startswith('<a href="https://example.org"')
    assert (account["source"]["privacy"], account["source"]["language"]) == ("private", "fr")


def test_a_status_with_everything(shared: World) -> None:
    cyd, ben = shared.join("cyd"), shared.join("ben")
    photo = shared.json("POST", "/api/v2/media", cyd, files={"file": ("x", picture())}, data={"description": "sea"})
    fits(photo, ATTACHMENT)
    assert set(photo["meta"]) == {"original", "small", "focus"}
    assert photo["meta"]["original"] == {"width": 32, "height": 20, "size": "32x20", "aspect": 1.6}
    parent = shared.json("POST", "/api/v1/statuses", ben, json={"status": "parent"})
    body = {
        "status": 'Hello @ben, #Dawn "quoted"',
        "spoiler_text": "sea",
        "language": "en",
        "media_ids": [photo["id"]],
        "in_reply_to_id": parent["id"],
        "shoal": {"data": {"camera": [1, 2.5, None, "é"]}, "place": {"latitude": 48.4, "longitude": "-4.5"}},
    }
    status = shared.json("POST", "/api/v1/statuses", cyd, json=body)
    assert status.pop("shoal") == {
        "data": {"camera": [1, 2.5, None, "é"]},
        "place": {"latitude": 48.4, "longitude": -4.5},
    }
    fits(status, OWN)
    fits(status["account"], ACCOUNT)
    fits(status["media_attachments"][0], ATTACHMENT)
    assert status["url"] == f"{BASE}/@cyd/{status['id']}"
    assert status["mentions"] == [{"id": ben.id, "username": "ben", "url": f"{BASE}/@ben", "acct": "ben"}]
    assert status["tags"] == [{"name": "dawn", "url": f"{BASE}/tags/dawn"}]
    assert status["application"] == {"name": "Test", "website": None}
    assert (status["in_reply_to_id"], status["in_reply_to_account_id"]) == (parent["id"], ben.id)
    assert status["sensitive"] is True


def test_a_status_for_its_author_for_another_and_for_nobody(shared: World, ann: Someone) -> None:
    dan = shared.join("dan")
    form = {"status": "hello", "visibility": "public", "shoal[data]": '{"n": 1}', "shoal[place][latitude]": "1"}
    form["shoal[place][longitude]"] = "2"
    made = shared.json("POST", "/api/v1/statuses", ann, data=form)
    assert made.pop("shoal") == {"data": {"n": 1}, "place": {"latitude": 1.0, "longitude": 2.0}}
    fits(made, OWN)
    for token, shape in ((dan, {**STATUS, **SEEN}), ("", STATUS)):
        status = shared.json("GET", f"/api/v1/statuses/{made['id']}", token)
        del status["shoal"]
        fits(status, shape)


def test_a_share(shared: World, ann: Someone) -> None:
    fay = shared.join("fay")
    post = shared.json("POST", "/api/v1/statuses", ann, json={"status": "share me", "visibility": "public"})
    share = shared.json("POST", f"/api/v1/statuses/{post['id']}/reblog", fay)
    fits(share, {**OWN, "reblog": dict})
    fits(share["reblog"], {**STATUS, **SEEN})
    assert (share["account"]["id"], share["reblog"]["account"]["id"]) == (fay.id, ann.id)
    assert (share["reblogged"], share["reblog"]["reblogged"], share["reblog"]["reblogs_count"]) == (True, True, 1)
    again = shared.json("GET", f"/api/v1/statuses/{share['id']}")
    assert again["reblog"]["id"] == post["id"]
    original = shared.json("POST", f"/api/v1/statuses/{post['id']}/unreblog", fay)
    assert (original["id"], original["reblogged"], original["reblog"]) == (post["id"], False, None)


def test_a_deleted_status_carries_its_text(shared: World, ann: Someone) -> None:
    post = shared.json("POST", "/api/v1/statuses", ann, json={"status": 'say "no"\nmore'})
    fits(shared.json("DELETE", f"/api/v1/statuses/{post['id']}", ann), {**OWN, "text": TEXT})


def test_the_rest_of_a_status(shared: World, ann: Someone) -> None:
    post = shared.json("POST", "/api/v1/statuses", ann, json={"status": "one"})
    address = f"/api/v1/statuses/{post['id']}"
    edited = shared.json("PUT", address, ann, json={"status": "two"})
    assert edited["edited_at"].endswith("Z")
    fits(shared.json("GET", f"{address}/source", ann), {"id": TEXT, "text": TEXT, "spoiler_text": TEXT})
    for edit in shared.json("GET", f"{address}/history", ann):
        fits(
            edit,
            {
                **dict.fromkeys(("content", "spoiler_text"), TEXT),
                **dict.fromkeys(("media_attachments", "emojis"), list),
                "created_at": MOMENT,
                "sensitive": FLAG,
                "account": dict,
            },
        )
    fits(shared.json("GET", f"{address}/context", ann), {"ancestors": list, "descendants": list})
    shared.json("POST", f"{address}/favourite", ann)
    assert shared.json("GET", f"/api/shoal/v1/statuses/{post['id']}/likers", ann)["count"] == 1
    likers = shared.json("GET", f"/api/shoal/v1/statuses/{post['id']}/likers", ann)["newest"]
    assert [liker["id"] for liker in likers] == [ann.id]
    assert shared.json("GET", f"/api/shoal/v1/accounts/{ann.id}/received", ann) == {"likes": 1, "shares": 0}


def test_a_relationship(shared: World, ann: Someone) -> None:
    gus = shared.join("gus")
    fits(shared.json("POST", f"/api/v1/accounts/{gus.id}/follow", ann), RELATIONSHIP)
    for query in (f"id[]={gus.id}", f"id={gus.id}"):
        [stand] = shared.json("GET", f"/api/v1/accounts/relationships?{query}", ann)
        fits(stand, RELATIONSHIP)
        assert (stand["following"], stand["showing_reblogs"], stand["followed_by"]) == (True, True, False)
    strangers = shared.json("GET", f"/api/v1/accounts/relationships?id[]=77&id[]={gus.id}", ann)
    assert [stand["id"] for stand in strangers] == ["77", gus.id]


def test_a_tag(shared: World, ann: Someone) -> None:
    tag = shared.json("POST", "/api/v1/tags/Dawn/follow", ann)
    fits(tag, {"id": TEXT, "name": TEXT, "url": TEXT, "history": list, "following": FLAG, "featuring": FLAG})
    assert (tag["name"], tag["following"]) == ("dawn", True)
    fits(shared.json("GET", "/api/v1/tags/dawn"), {"id": TEXT, "name": TEXT, "url": TEXT, "history": list})


def test_an_app_and_its_tokens(shared: World) -> None:
    body = {"client_name": "C", "redirect_uris": "urn:a\nhttps://b.example/c", "scopes": "read write:statuses"}
    app = shared.json("POST", "/api/v1/apps", json=body)
    fits(app, CREDENTIAL_APPLICATION)
    assert (app["redirect_uris"], app["scopes"]) == (["urn:a", "https://b.example/c"], ["read", "write:statuses"])
    ask = {key: app[key] for key in ("client_id", "client_secret")} | {"grant_type": "client_credentials"}
    token = shared.json("POST", "/oauth/token", json=ask | {"scope": "write:statuses"})
    fits(token, TOKEN)
    assert (token["token_type"], token["scope"]) == ("Bearer", "write:statuses")
    fits(shared.json("GET", "/api/v1/apps/verify_credentials", token["access_token"]), APPLICATION)
    basic = {"grant_type": "client_credentials"}
    answer = shared.run(shared._client.post("/oauth/token", data=basic, auth=(app["client_id"], app["client_secret"])))
    assert answer.json()["scope"] == "read"


def test_the_instance_in_both_shapes(shared: World) -> None:
    fits(shared.json("GET", "/api/v1/instance"), INSTANCE_1)
    second = shared.json("GET", "/api/v2/instance/")
    fits(second, INSTANCE_2)
    assert set(second["configuration"]) == {
        *("accounts", "statuses", "media_attachments", "polls", "urls", "vapid"),
        *("translation", "timelines_access", "limited_federation"),
    }
    assert shared.json("GET", "/api/v1/instance/")["uri"] == "shoal.test"


def test_an_error(shared: World) -> None:
    answer = shared.ask("GET", "/api/v1/statuses/1")
    assert (answer.status_code, answer.json()) == (404, {"error": "Record not found"})
    assert answer.headers["content-type"] == "application/json"


# The spliced form against one that is written out


def plain_account(profile: Profile) -> dict[str, Any]:
    """An account, key by key."""
    member = profile.member
    avatar = f"{BASE}/media/{member.avatar}" if member.avatar else f"{BASE}/avatars/original/missing.png"
    header = f"{BASE}/media/{member.header}" if member.header else f"{BASE}/headers/original/missing.png"
    address = f"{BASE}/@{member.name}"
    return {
        **{"id": str(member.id), "username": member.name, "acct": member.name, "url": address, "uri": address},
        **{"display_name": member.display_name, "note": AT.html(member.note), "emojis": [], "roles": []},
        **{"avatar": avatar, "avatar_static": avatar, "header": header, "header_static": header},
        **{"locked": False, "group": False, "hide_collections": False, "bot": member.bot, "last_status_at": None},
        **{"discoverable": member.discoverable, "indexable": member.discoverable},
        "noindex": not member.discoverable,
        "created_at": "2024-01-01T00:00:00.007Z",
        "fields": [
            {"name": field.name, "value": AT.html(field.value)[3:-4], "verified_at": None} for field in member.fields
        ],
        "statuses_count": profile.posts,
        "followers_count": profile.followers,
        "following_count": profile.following,
    }


def plain_picture(media: Media) -> dict[str, Any]:
    """An attachment, key by key."""

    def size(width: int, height: int) -> dict[str, Any]:
        return {"width": width, "height": height, "size": f"{width}x{height}", "aspect": width / height}

    return {
        **{"id": str(media.id), "type": "image", "url": f"{BASE}/media/{media.key}"},
        **{"preview_url": f"{BASE}/media/{media.preview_key}", "remote_url": None, "preview_remote_url": None},
        **{"text_url": None, "description": media.description or None, "blurhash": media.blurhash or None},
        "meta": {
            "original": size(media.width, media.height),
            "small": size(media.preview_width, media.preview_height),
            "focus": {"x": media.focus[0], "y": media.focus[1]},
        },
    }


def plain_status(viewer: int | None, entry: Entry, app: App | None) -> dict[str, Any]:
    """A status, key by key."""
    post, author = entry.post, entry.author.member
    wire = {"public": "public", "unlisted": "unlisted", "followers": "private", "direct": "direct"}
    address = f"{BASE}/@{author.name}/{post.id}"
    status: dict[str, Any] = {
        **{"id": str(post.id), "uri": address, "url": address, "created_at": "2024-01-01T00:00:01.000Z"},
        **{
            "edited_at": "2024-02-29T12:00:00.005Z" if post.edited_at else None,
            "content": AT.html(post.text, post.mentions),
        },
        **{"visibility": wire[post.visibility], "sensitive": post.sensitive, "spoiler_text": post.spoiler},
        **{"language": post.language or None, "emojis": [], "poll": None, "card": None, "quote": None},
        **{"quotes_count": 0, "in_reply_to_id": str(post.parent_id) if post.parent_id else None},
        "in_reply_to_account_id": str(post.parent_author_id) if post.parent_author_id else None,
        "media_attachments": [plain_picture(media) for media in entry.media],
        "mentions": [
            {"id": str(id_), "username": name, "acct": name, "url": f"{BASE}/@{name}"} for id_, name in post.mentions
        ],
        "tags": [{"name": tag, "url": AT.tag(tag)} for tag in post.tags],
        "application": {"name": app.name, "website": None} if app and post.app_id else None,
        "account": plain_account(entry.author),
        "reblog": None,
    }
    extra: dict[str, Any] = {"data": msgspec.json.decode(post.data)} if post.data else {}
    if post.place:
        extra["place"] = {"latitude": post.place.latitude, "longitude": post.place.longitude}
    if extra:
        status["shoal"] = extra
    live = {"replies_count": entry.comments, "reblogs_count": entry.shares, "favourites_count": entry.likes}
    if viewer is not None:
        live |= {"favourited": entry.liked, "reblogged": entry.shared, "bookmarked": entry.bookmarked, "muted": False}
        live |= {"filtered": []}  # type: ignore[dict-item]  # one list among numbers
    own = {"pinned": False} if viewer is not None else {}
    status |= live | (own if viewer == post.author_id else {})
    if entry.share is None or entry.sharer is None:
        return status
    share, sharer = entry.share, entry.sharer.member
    address = f"{BASE}/@{sharer.name}/{share.id}"
    return {
        **{"id": str(share.id), "uri": address, "url": address, "created_at": "2024-01-01T00:00:02.000Z"},
        **{"edited_at": None, "content": "", "visibility": wire[share.visibility], "sensitive": False},
        **{"spoiler_text": "", "language": None, "media_attachments": [], "mentions": [], "tags": [], "emojis": []},
        **{"application": None, "in_reply_to_id": None, "in_reply_to_account_id": None, "poll": None, "card": None},
        **{"quote": None, "quotes_count": 0, "account": plain_account(entry.sharer), "reblog": status},
        **live,
        **(own if viewer == share.author_id else {}),
    }


ids = st.integers(0, 1023).map(lambda n: compose(EPOCH_MS + 7, 5, n))
# Text that is hard on JSON and on HTML: quotes, controls of direction, emoji of several characters, separators of lines.
texts = st.one_of(
    st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=30),
    st.lists(
        st.sampled_from(
            [
                '"',
                "\\",
                "'",
                "<b>",
                "&amp;",
                "\n",
                "\u2028",
                "\u202e",
                "שלום",
                "👩‍👩‍👧",
                "🏳️‍🌈",
                "#tag",
                "@ann",
                "https://x.yz/?a=1&b=2",
                "%d%s%b",
                "{}",
                " ",
            ]
        ),
        max_size=8,
    ).map("".join),
)
names = st.sampled_from(["ann", "ben", "cyd"])
members = st.builds(
    Member,
    id=ids,
    name=names,
    display_name=texts,
    note=texts,
    avatar=st.sampled_from(["", "1/2/3/ann/avatar-ab.jpg"]),
    header=st.sampled_from(["", "1/2/3/ann/header-ab.jpg"]),
    fields=st.lists(st.builds(ProfileField, name=texts, value=st.sampled_from(["a", 'b "c"'])), max_size=2).map(tuple),
    bot=st.booleans(),
    discoverable=st.booleans(),
)
counts = st.integers(0, 10**9)
profiles = st.builds(Profile, members, counts, counts, counts)
pictures = st.builds(
    Media,
    id=ids,
    owner_id=ids,
    key=st.just("1/2/3/ann/7-ab.jpg"),
    preview_key=st.just("1/2/3/ann/7-ab-small.jpg"),
    width=st.integers(1, 9999),
    height=st.integers(1, 9999),
    preview_width=st.integers(1, 480),
    preview_height=st.integers(1, 480),
    blurhash=texts,
    description=texts,
    focus=st.tuples(st.floats(-1, 1), st.floats(-1, 1)),
)
APP = App(id=compose(EPOCH_MS, 9), name='An "app" \\ <é>')
posts = st.builds(
    Post,
    id=st.integers(0, 1023).map(lambda n: compose(EPOCH_MS + 1000, 5, n)),
    version=st.integers(1, 3),
    author_id=ids,
    text=texts,
    spoiler=texts,
    sensitive=st.booleans(),
    visibility=st.sampled_from(Visibility),
    language=st.sampled_from(["", "en", "pt-BR"]),
    tags=st.lists(st.sampled_from(["dawn", "été", "日本"]), unique=True, max_size=3).map(tuple),
    mentions=st.lists(st.builds(Mention, ids, names), max_size=2).map(tuple),
    parent_id=st.sampled_from([0, compose(EPOCH_MS, 1)]),
    parent_author_id=st.sampled_from([0, compose(EPOCH_MS, 2)]),
    place=st.none() | st.builds(Place, st.floats(-90, 90), st.floats(-180, 180)),
    data=st.sampled_from(["", "null", '{"a": ["\\u00e9", {"b\\"": 1.5}]}']),
    edited_at=st.sampled_from([0, 1_709_208_000_005]),
    app_id=st.sampled_from([0, APP.id]),
)
shares = st.builds(
    Share,
    id=st.integers(0, 1023).map(lambda n: compose(EPOCH_MS + 2000, 5, n)),
    author_id=ids,
    post_id=ids,
    post_author_id=ids,
    visibility=st.sampled_from(Visibility),
)


def named(profile: Profile, id_: int) -> Profile:
    """The profile as that of the member with this id, whose name never changes."""
    member = msgspec.structs.replace(profile.member, id=id_, name=("ann", "ben", "cyd")[id_ % 3])
    return msgspec.structs.replace(profile, member=member)


def consistent(entry: Entry) -> Entry:
    """The entry with the post written, and the share made, by those whose profiles stand there."""
    entry = msgspec.structs.replace(entry, author=named(entry.author, entry.post.author_id))
    if entry.share is None or entry.sharer is None:
        return entry
    return msgspec.structs.replace(entry, sharer=named(entry.sharer, entry.share.author_id))


entries = st.builds(
    Entry,
    id=ids,
    post=posts,
    author=profiles,
    relation=st.just(STRANGER),
    media=st.lists(pictures, max_size=2).map(tuple),
    likes=counts,
    shares=counts,
    comments=counts,
    liked=st.booleans(),
    shared=st.booleans(),
    bookmarked=st.booleans(),
    share=st.none() | shares,
    sharer=profiles,
).map(consistent)


async def presenter() -> Presenter:
    """One that keeps few fragments, so that the same ids come with other values and fragments fall away."""
    graph = MemoryGraph()
    batch = Batch(9)
    batch.obj_add(APP)
    await graph.commit(batch)
    return Presenter(graph, AT, 4)


@given(st.lists(entries, max_size=4), st.none() | ids)
def test_a_page_is_the_json_that_would_be_written_out(page: list[Entry], viewer: int | None) -> None:
    async def story() -> None:
        made = await presenter()
        # Twice in both orders: fresh, remembered, and remembered of other values of the same ids.
        for turn in (page, page[::-1], page):
            shown = msgspec.json.decode(await made.page(viewer, turn))
            assert shown == [plain_status(viewer, entry, APP) for entry in turn]

    run(story())


@given(st.lists(entries, min_size=1, max_size=1), st.lists(posts, min_size=1, max_size=1))
def test_an_edit_is_shown_at_once(page: list[Entry], edits: list[Post]) -> None:
    async def story() -> None:
        made, [entry] = await presenter(), page
        await made.page(None, page)
        post = msgspec.structs.replace(edits[0], id=entry.post.id, author_id=entry.post.author_id)
        edited = msgspec.structs.replace(entry, post=post)
        assert msgspec.json.decode(await made.status(None, edited)) == plain_status(None, edited, APP)

    run(story())


def test_an_app_that_is_gone_is_left_out() -> None:
    post = Post(id=compose(EPOCH_MS + 1000, 5), author_id=1, app_id=77)
    entry = Entry(id=post.id, post=post, author=Profile(Member(id=1, name="ann")), relation=STRANGER)
    shown = run(Presenter(MemoryGraph(), AT).status(None, entry))
    assert msgspec.json.decode(shown)["application"] is None
