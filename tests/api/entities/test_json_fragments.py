"""The JSON of statuses assembled from cached fragments equals the JSON serialized key by key."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.ids import EPOCH_MS, compose
from shoal.core.model import App, Media, Member, Mention, Post, ProfileField, Role, Share, Visibility
from shoal.core.places import Place
from shoal.core.visibility import STRANGER
from shoal.graph.contract import Batch
from shoal.graph.memory import MemoryGraph
from shoal.mastodon_api.entities.presenter import Presenter
from shoal.mastodon_api.entities.serializers import Addresses
from shoal.queries.hydration import Entry, Profile
from tests.api.in_memory_network import BASE
from tests.async_runner import run

AT = Addresses(BASE, "shoal.test")
ROLES = {Role.MODERATOR: ("1", "Moderator"), Role.ADMIN: ("2", "Admin")}


def plain_account(profile: Profile) -> dict[str, Any]:
    """Return the expected JSON of an account."""
    member = profile.member
    avatar = f"{BASE}/media/{member.avatar}" if member.avatar else f"{BASE}/avatars/original/missing.png"
    header = f"{BASE}/media/{member.header}" if member.header else f"{BASE}/headers/original/missing.png"
    address = f"{BASE}/@{member.name}"
    return {
        "id": str(member.id),
        "username": member.name,
        "acct": member.name,
        "url": address,
        "uri": address,
        "display_name": member.display_name,
        "note": AT.html(member.note),
        "emojis": [],
        "roles": [{"id": ROLES[member.role][0], "name": ROLES[member.role][1], "color": ""}] if member.role else [],
        "avatar": avatar,
        "avatar_static": avatar,
        "header": header,
        "header_static": header,
        "locked": member.locked,
        "group": False,
        "hide_collections": member.hides_connections,
        "bot": member.bot,
        "last_status_at": None,
        "discoverable": member.discoverable,
        "indexable": member.indexable,
        "noindex": not member.indexable,
        "created_at": "2024-01-01T00:00:00.007Z",
        "fields": [
            {"name": field.name, "value": AT.html(field.value)[3:-4], "verified_at": None} for field in member.fields
        ],
        "statuses_count": profile.posts,
        "followers_count": profile.followers,
        "following_count": profile.following,
    }


def plain_picture(media: Media) -> dict[str, Any]:
    """Return the expected JSON of a media attachment."""

    def size(width: int, height: int) -> dict[str, Any]:
        return {"width": width, "height": height, "size": f"{width}x{height}", "aspect": width / height}

    return {
        "id": str(media.id),
        "type": "image",
        "url": f"{BASE}/media/{media.key}",
        "preview_url": f"{BASE}/media/{media.preview_key}",
        "remote_url": None,
        "preview_remote_url": None,
        "text_url": None,
        "description": media.description or None,
        "blurhash": media.blurhash or None,
        "meta": {
            "original": size(media.width, media.height),
            "small": size(media.preview_width, media.preview_height),
            "focus": {"x": media.focus[0], "y": media.focus[1]},
        },
    }


def plain_status(viewer: int | None, entry: Entry, app: App | None, *, data: int = 0) -> dict[str, Any]:
    """Return the expected JSON of a status; the data of another member is included up to `data` bytes."""
    post, author = entry.post, entry.author.member
    wire = {"public": "public", "unlisted": "unlisted", "followers": "private", "direct": "direct"}
    address = f"{BASE}/@{author.name}/{post.id}"
    status: dict[str, Any] = {
        "id": str(post.id),
        "uri": address,
        "url": address,
        "created_at": "2024-01-01T00:00:01.000Z",
        "edited_at": "2024-02-29T12:00:00.005Z" if post.edited_at else None,
        "content": AT.html(post.text, post.mentions),
        "visibility": wire[post.visibility],
        "sensitive": post.sensitive,
        "spoiler_text": post.spoiler,
        "language": post.language or None,
        "emojis": [],
        "poll": None,
        "card": None,
        "quote": None,
        "quotes_count": 0,
        "in_reply_to_id": str(post.parent_id) if post.parent_id else None,
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
    extra: dict[str, Any] = {}
    size = len(post.json.encode())
    if post.json and (size <= data or viewer == post.author_id):
        extra["data"] = post.data
    elif post.json:
        extra["data_bytes"] = size
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
        "id": str(share.id),
        "uri": address,
        "url": address,
        "created_at": "2024-01-01T00:00:02.000Z",
        "edited_at": None,
        "content": "",
        "visibility": wire[share.visibility],
        "sensitive": False,
        "spoiler_text": "",
        "language": None,
        "media_attachments": [],
        "mentions": [],
        "tags": [],
        "emojis": [],
        "application": None,
        "in_reply_to_id": None,
        "in_reply_to_account_id": None,
        "poll": None,
        "card": None,
        "quote": None,
        "quotes_count": 0,
        "account": plain_account(entry.sharer),
        "reblog": status,
        **live,
        **(own if viewer == share.author_id else {}),
    }


ids = st.integers(0, 1023).map(lambda n: compose(EPOCH_MS + 7, 5, n))
# Text with special cases for JSON and HTML: quotes, direction controls, multi-character emoji, line separators.
texts = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30),
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
    locked=st.booleans(),
    hides_connections=st.booleans(),
    indexable=st.booleans(),
    role=st.sampled_from(Role),
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
    json=st.sampled_from(["", "null", '{"a": ["\\u00e9", {"b\\"": 1.5}]}']),
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
    """Return the profile with this member id and the name that belongs to it."""
    member = msgspec.structs.replace(profile.member, id=id_, name=("ann", "ben", "cyd")[id_ % 3])
    return msgspec.structs.replace(profile, member=member)


def consistent(entry: Entry) -> Entry:
    """Return the entry with author and sharer profiles that match the ids of the post and the share."""
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
    marks=st.integers(0, 1),
    share=st.none() | shares,
    sharer=profiles,
).map(consistent)


async def presenter() -> Presenter:
    """Return a presenter with a small cache, so that fragments are evicted and ids return with other values."""
    graph = MemoryGraph()
    batch = Batch(9)
    batch.obj_add(APP)
    await graph.commit(batch)
    return Presenter(graph, AT, 4)


@given(st.lists(entries, max_size=4), st.none() | ids, st.sampled_from([0, 4, 28, 4_096]))
def test_status_json_from_cached_fragments_equals_uncached_serialization(
    page: list[Entry], viewer: int | None, data: int
) -> None:
    async def story() -> None:
        made = await presenter()
        # In both orders: not cached, cached, and cached with other values under equal ids.
        for run_once in (page, page[::-1], page):
            for most in (data, 0):
                shown = msgspec.json.decode(await made.page(viewer, run_once, most))
                assert shown == [plain_status(viewer, entry, APP, data=most) for entry in run_once]

    run(story())


@given(st.lists(entries, min_size=1, max_size=1), st.lists(posts, min_size=1, max_size=1))
def test_status_json_from_cached_fragments_shows_edit(page: list[Entry], edits: list[Post]) -> None:
    async def story() -> None:
        made, [entry] = await presenter(), page
        await made.page(None, page)
        post = msgspec.structs.replace(edits[0], id=entry.post.id, author_id=entry.post.author_id)
        edited = msgspec.structs.replace(entry, post=post)
        assert msgspec.json.decode(await made.status(None, edited)) == plain_status(None, edited, APP, data=4_096)

    run(story())


def test_status_of_deleted_app_has_null_application() -> None:
    post = Post(id=compose(EPOCH_MS + 1000, 5), author_id=1, app_id=77)
    entry = Entry(id=post.id, post=post, author=Profile(Member(id=1, name="ann")), relation=STRANGER)
    shown = run(Presenter(MemoryGraph(), AT).status(None, entry))
    assert msgspec.json.decode(shown)["application"] is None


def test_status_json_cache_size_is_bounded_in_bytes() -> None:
    presenter = Presenter(MemoryGraph(), AT, size=100)
    author = Profile(Member(id=1, name="ann"))
    for n in range(50):
        post = Post(id=100 + n, author_id=1, text="x" * 20_000)
        presenter.present_page(None, [Entry(id=post.id, post=post, author=author, relation=STRANGER)])
        presenter.account(Profile(Member(id=1_000 + n, name="ben", note="y" * 20_000)))
    assert 1 <= len(presenter._posts) <= 8
    assert 1 <= len(presenter._accounts) <= 8
