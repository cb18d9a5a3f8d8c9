"""Stories about accounts and their relationships."""

from __future__ import annotations

import io

import pytest
from mastodon.errors import MastodonAPIError, MastodonNotFoundError

from tests.api.in_memory_network import picture
from tests.clients.mastodon_py.recorded_members import Cast
from tests.clients.server import PASSWORD, until


def a_profile_is_changed_and_looked_at(cast: Cast) -> None:
    """Change the text, fields, pictures and defaults of a profile; read accounts by id, by name and in bulk."""
    ann, ben = cast.join("ann"), cast.join("ben")
    me = ann.account_update_credentials(
        display_name="Ann",
        note="Tides and #dawn",
        bot=False,
        discoverable=True,
        indexable=True,
        fields=[("Home", "https://example.org"), ("Sea", "North")],
        avatar=io.BytesIO(picture(120, 120, "teal")),
        avatar_mime_type="image/png",
        header=io.BytesIO(picture(300, 100, "navy")),
        header_mime_type="image/png",
        default_privacy="unlisted",
        default_language="en",
    )
    assert (me.display_name, me.source.note, me.source.privacy) == ("Ann", "Tides and #dawn", "unlisted")
    assert [field.name for field in me.fields] == ["Home", "Sea"]
    assert not me.avatar.endswith("missing.png")
    assert ann.account_verify_credentials().id == ann.me().id == me.id
    assert ann.preferences()["posting:default:visibility"] == "unlisted"
    assert ben.account(me.id).display_name == "Ann"
    assert ben.account_lookup(me.acct).id == me.id
    assert [found.id for found in ben.accounts([me.id, ben.me().id])] == [me.id, ben.me().id]
    assert ann.account_delete_avatar().avatar.endswith("missing.png")
    assert ann.account_delete_header().header.endswith("missing.png")
    assert ann.oauth_userinfo().sub


def members_follow_each_other(cast: Cast) -> None:
    """Follow with options, notes and endorsements; list and remove followers."""
    ann, ben, cat = cast.join("ann"), cast.join("ben"), cast.join("cat")
    ann_id, ben_id, cat_id = (player.me().id for player in (ann, ben, cat))
    stand = ann.account_follow(ben_id, reblogs=False, notify=True)
    assert (stand.following, stand.showing_reblogs, stand.notifying) == (True, False, True)
    cat.account_follow(ben_id)
    ann.account_follow(cat_id)
    assert {found.id for found in ben.account_followers(ben_id)} == {ann_id, cat_id}
    assert [found.id for found in ann.account_following(ann_id)] == [cat_id, ben_id]
    (familiar,) = ann.account_familiar_followers(ben_id)
    assert [found.id for found in familiar.accounts] == [cat_id]
    assert ann.account_note_set(ben_id, "met at the pier").note == "met at the pier"
    assert ann.account_endorse(ben_id).endorsed
    assert [found.id for found in ann.endorsements()] == [ben_id]
    assert not ann.account_unendorse(ben_id).endorsed
    assert ann.account_pin(ben_id).endorsed
    assert not ann.account_unpin(ben_id).endorsed
    assert not ben.account_remove_from_followers(cat_id).followed_by
    assert not cat.account_relationships(ben_id)[0].following
    assert not ann.account_unfollow(ben_id).following


def a_locked_member_is_asked_first(cast: Cast) -> None:
    """Send two follow requests to a locked account, which accepts one and rejects the other."""
    ann, ben, cat = cast.join("ann"), cast.join("ben"), cast.join("cat")
    ann.account_update_credentials(locked=True)
    me = ann.me()
    assert me.locked
    assert ben.account_follow(me.id).requested
    assert cat.account_follow(me.id).requested
    asking = ann.follow_requests()
    assert {found.id for found in asking} == {ben.me().id, cat.me().id}
    assert ann.follow_request_authorize(ben.me().id).followed_by
    assert not ann.follow_request_reject(cat.me().id).followed_by
    assert until(lambda: ben.account_relationships(me.id)[0].following)
    assert not cat.account_relationships(me.id)[0].requested


def members_mute_and_block(cast: Cast) -> None:
    """Mute with a duration, block an account and a domain, and undo each."""
    ann, ben = cast.join("ann"), cast.join("ben")
    other = ben.me().id
    assert ann.account_mute(other, notifications=False, duration=3600).muting
    (muted,) = ann.mutes()
    assert muted.id == other
    assert muted.mute_expires_at is not None
    assert not ann.account_unmute(other).muting
    assert ann.account_block(other).blocking
    assert [found.id for found in ann.blocks()] == [other]
    with pytest.raises(MastodonAPIError):
        ben.account_follow(ann.me().id)
    assert not ann.account_unblock(other).blocking
    assert list(ann.domain_blocks()) == []
    ann.domain_block("example.net")
    ann.domain_unblock("example.net")


def lists_are_kept(cast: Cast) -> None:
    """Create, fill, read, rename, empty and delete a list."""
    ann, ben = cast.join("ann"), cast.join("ben")
    other = ben.me().id
    ann.account_follow(other)
    made = ann.list_create("Harbour", replies_policy="none")
    assert (made.title, made.replies_policy, made.exclusive) == ("Harbour", "none", False)
    ann.list_accounts_add(made.id, [other])
    assert [found.id for found in ann.list_accounts(made.id)] == [other]
    assert [found.id for found in ann.account_lists(other)] == [made.id]
    post = ben.status_post("Boats go out")
    assert until(lambda: [status.id for status in ann.timeline_list(made.id)]) == [post.id]
    assert ann.list_update(made.id, "Pier").title == "Pier"
    assert [found.title for found in ann.lists()] == [ann.list(made.id).title] == ["Pier"]
    ann.list_accounts_delete(made.id, [other])
    assert list(ann.list_accounts(made.id)) == []
    ann.list_delete(made.id)
    with pytest.raises(MastodonNotFoundError):
        ann.list(made.id)


def tags_are_followed_and_featured(cast: Cast) -> None:
    """Read posts with a followed tag in the home timeline, and feature tags on a profile."""
    ann, ben = cast.join("ann"), cast.join("ben")
    assert ann.tag_follow("lowtide").following
    assert [found.name for found in ann.followed_tags()] == ["lowtide"]
    post = ben.status_post("Mud at #lowtide")
    assert until(lambda: [status.id for status in ann.timeline_home()]) == [post.id]
    assert not ann.tag_unfollow("lowtide").following
    made = ben.featured_tag_create("lowtide")
    assert made.name == "lowtide"
    assert [found.name for found in ann.account_featured_tags(ben.me().id)] == ["lowtide"]
    assert [found.id for found in ben.featured_tags()] == [made.id]
    ben.featured_tag_delete(made.id)
    assert ben.tag_feature("lowtide").name == "lowtide"
    assert ben.tag_unfeature("lowtide").name == "lowtide"
    ben.featured_tag_suggestions()
    assert ann.tag("lowtide").name == "lowtide"


def tokens_begin_and_end(cast: Cast) -> None:
    """Log in twice for two different tokens, and revoke one without an effect on the other."""
    account = cast.shoal.join("ann")
    ann = cast.player()
    first = ann.log_in(account.address, PASSWORD)
    assert ann.app_verify_credentials().name == "Tests"
    again = cast.player()
    assert again.log_in(account.name, PASSWORD) != first
    assert ann.auth_request_url(scopes=["read"]).startswith(cast.shoal.url)
    ann.revoke_access_token()
    assert again.me().username == account.name


STORIES = (
    a_profile_is_changed_and_looked_at,
    members_follow_each_other,
    a_locked_member_is_asked_first,
    members_mute_and_block,
    lists_are_kept,
    tags_are_followed_and_featured,
    tokens_begin_and_end,
)
