"""Stories about timelines, search, notifications, filters and server information."""

from __future__ import annotations

from tests.clients.mastodon_py.recorded_members import Cast
from tests.clients.server import until


def timelines_are_read(cast: Cast) -> None:
    """Read the home, public, local and tag timelines, and page through them in both directions."""
    ann, ben = cast.join("ann"), cast.join("ben")
    ann.account_follow(ben.me().id)
    posts = [ben.status_post(f"Wave {number} #surf{ben.me().id}").id for number in range(7)]
    assert until(lambda: len(ann.timeline_home()) == 7)
    first = ann.timeline_home(limit=3)
    second = ann.fetch_next(first)
    assert [found.id for found in (*first, *second)] == posts[:0:-1][:6]
    assert [found.id for found in ann.fetch_previous(second)] == [found.id for found in first]
    assert [found.id for found in ann.fetch_remaining(first)] == posts[::-1]
    assert [found.id for found in ann.timeline_hashtag(f"surf{ben.me().id}", limit=2)] == posts[:4:-1]
    assert posts[-1] in {found.id for found in ann.timeline_public()}
    assert posts[-1] in {found.id for found in ann.timeline_local()}
    assert [found.id for found in ann.timeline("home", limit=1)] == posts[-1:]
    assert [found.id for found in ann.account_statuses(ben.me().id, limit=2)] == posts[:4:-1]
    assert ann.get_pagination_info(first, "next")["max_id"]
    assert [found.id for page in ann.pagination_iterator(first) for found in [page]] == posts[::-1]


def things_are_found(cast: Cast) -> None:
    """Find accounts, statuses and tags, and read and dismiss follow suggestions."""
    ann, ben, cat = cast.join("annemone"), cast.join("benthos"), cast.join("cat")
    me = ben.me()
    post = ben.status_post("Cuttlefish over #seagrass")
    assert [found.id for found in ann.account_search(me.username)] == [me.id]
    assert [found.id for found in ann.search_v2(f"@{me.username}").accounts] == [me.id]
    assert [found.id for found in until(lambda: ann.search("cuttlefish", result_type="statuses").statuses)] == [post.id]
    assert "seagrass" in until(lambda: [found.name for found in ann.search_v2("#seagr").hashtags])
    assert "seagrass" in ann.search_v1("#seagr").hashtags
    assert me.id in until(lambda: {found.id for found in ann.directory(order="new", limit=80)} & {me.id})
    ann.account_follow(cat.me().id)
    cat.account_follow(me.id)
    assert until(lambda: me.id in {found.account.id for found in ann.suggestions_v2()})
    ann.suggestion_delete(me.id)
    assert me.id not in {found.account.id for found in ann.suggestions_v2()}
    assert me.id not in {found.id for found in ann.suggestions_v1()}
    ann.suggestions()


def trends_are_read(cast: Cast) -> None:
    """Read trending tags, statuses and links."""
    ann, ben = cast.join("ann"), cast.join("ben")
    post = ben.status_post("Phosphorescence #glow")
    ann.status_favourite(post.id)
    tags = until(ann.trending_tags)
    assert all(len(tag.history or ()) == 7 for tag in tags)
    # Tag uses of other stories are still being counted, possibly between the two requests.
    assert until(lambda: [tag.name for tag in ann.trends()] == [tag.name for tag in ann.trending_tags()])
    assert until(ann.trending_statuses)
    assert list(ann.trending_links()) == []


def members_are_notified(cast: Cast) -> None:
    """List, count, group, dismiss and clear notifications of several kinds."""
    ann, ben = cast.join("ann"), cast.join("ben")
    me = ann.me()
    post = ann.status_post("Tell me")
    ben.account_follow(me.id)
    ben.status_favourite(post.id)
    ben.status_reblog(post.id)
    answer = ben.status_post(f"@{me.username} I tell", in_reply_to_id=post.id)
    found = until(lambda: found if len(found := list(ann.notifications())) == 4 else [])
    assert {one.type for one in found} == {"follow", "favourite", "reblog", "mention"}
    (mention,) = list(ann.notifications(types=["mention"]))
    assert mention.status.id == answer.id
    assert "follow" not in {one.type for one in ann.notifications(exclude_types=["follow"])}
    assert ann.notifications(id=mention.id).id == mention.id
    assert ann.notifications_unread_count().count == 4
    marked = ann.markers_set("notifications", mention.id)
    assert marked["notifications"].last_read_id == mention.id
    assert ann.markers_get("notifications")["notifications"].version == 1
    assert ann.notifications_unread_count().count < 4
    grouped = ann.grouped_notifications()
    assert {group.type for group in grouped.notification_groups} == {"follow", "favourite", "reblog", "mention"}
    key = next(group.group_key for group in grouped.notification_groups if group.type == "favourite")
    assert ann.grouped_notification(key).notification_groups[0].group_key == key
    assert [one.id for one in ann.grouped_notification_accounts(key)] == [ben.me().id]
    ann.unread_grouped_notifications_count()
    ann.dismiss_grouped_notification(key)
    assert "favourite" not in {one.type for one in ann.notifications()}
    assert ann.notifications_policy().for_not_following == "accept"
    assert ann.update_notifications_policy(for_not_following="accept").for_not_following == "accept"
    assert list(ann.notification_requests()) == []
    ann.notifications_dismiss(mention.id)
    assert mention.id not in {one.id for one in ann.notifications()}
    ann.notifications_clear()
    assert list(ann.notifications()) == []


def members_write_in_private(cast: Cast) -> None:
    """Send a direct status, and read its conversation as the recipient."""
    ann, ben = cast.join("ann"), cast.join("ben")
    post = ben.status_post(f"@{ann.me().username} a secret", visibility="direct")
    (talk,) = until(ann.conversations)
    assert (talk.unread, talk.last_status.id) == (True, post.id)
    assert [found.id for found in talk.accounts] == [ben.me().id]
    assert not ann.conversations_read(talk.id).unread


def words_are_filtered(cast: Cast) -> None:
    """Filter by keyword and by status, with both versions of the API."""
    ann, ben = cast.join("ann"), cast.join("ben")
    made = ann.create_filter_v2(
        "Spoilers", ["home", "public"], "warn", expires_in=3600, keywords_attributes=[{"keyword": "kraken"}]
    )
    post = ben.status_post("The KRAKEN wakes")
    ann.account_follow(ben.me().id)
    seen = until(lambda: [found for found in ann.timeline_home() if found.id == post.id])[0]
    assert [match.filter.id for match in seen.filtered] == [made.id]
    word = ann.add_filter_keyword_v2(made.id, "leviathan", whole_word=True)
    assert {found.keyword for found in ann.filter_keywords_v2(made.id)} == {"kraken", "leviathan"}
    ann.delete_filter_keyword_v2(word.id)
    other = ben.status_post("Calm")
    held = ann.add_filter_status_v2(made.id, other.id)
    assert [found.status_id for found in ann.filter_statuses_v2(made.id)] == [other.id]
    assert ann.filter_status_v2(held.id).status_id == other.id
    ann.delete_filter_status_v2(held.id)
    assert ann.update_filter_v2(made.id, title="Monsters").title == "Monsters"
    assert [found.id for found in ann.filters_v2()] == [ann.filter_v2(made.id).id]
    ann.delete_filter_v2(made.id)
    old = ann.filter_create("squid", ["home"], whole_word=False)
    assert [found.phrase for found in ann.filters()] == [ann.filter(old.id).phrase] == ["squid"]
    assert ann.filter_update(old.id, phrase="octopus", context=["home"]).phrase == "octopus"
    ann.filter_delete(old.id)


def the_server_says_what_it_is(cast: Cast) -> None:
    """Read server information without a token, from every API version."""
    nobody = cast.player()
    assert nobody.instance_v1().uri in cast.shoal.url
    assert nobody.instance_v2().domain == nobody.instance_v1().uri
    assert nobody.instance().title == "Shoal"
    assert nobody.instance_health()
    assert nobody.stream_healthy()
    assert nobody.instance_nodeinfo().software.name == "shoal"
    assert len(nobody.instance_activity()) == 12
    assert list(nobody.instance_peers()) == []
    assert list(nobody.custom_emojis()) == []
    nobody.instance_rules()
    nobody.instance_extended_description()
    nobody.instance_languages()
    nobody.instance_translation_languages()
    nobody.retrieve_mastodon_version()
    assert nobody.get_approx_server_time()
    assert list(cast.join("ann").announcements()) == []


STORIES = (
    timelines_are_read,
    things_are_found,
    trends_are_read,
    members_are_notified,
    members_write_in_private,
    words_are_filtered,
    the_server_says_what_it_is,
)
