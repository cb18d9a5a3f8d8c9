"""All pages of the web app, each with content, for screenshots (`scripts.shots`) and for tests that check every page.

Paths have the fields of `Subjects` as placeholders.
"""

from __future__ import annotations

from typing import NamedTuple

from shoal.commands import (
    account_deletions,
    albums,
    bulk_moderation,
    feeds,
    filters,
    invitations,
    lists,
    members,
    moderation,
    moderation_rules,
    notifications,
    posts,
    relationships,
    reports,
)
from shoal.commands.context import Writes, add_node
from shoal.commands.posts import Draft
from shoal.commands.reports import Complaint
from shoal.consumers import mail
from shoal.consumers.mail import Whom
from shoal.core.bulk_moderation import BulkQuery
from shoal.core.email import MailKind
from shoal.core.events import MailDue
from shoal.core.filters import FilterContext
from shoal.core.ids import now_ms, shard_of
from shoal.core.model import Member, Post, Role, Treatment, Visibility
from shoal.core.moderation_rules import Conditions, RuleDraft
from shoal.core.ranking.recipes import BALANCED, recipe_link
from shoal.core.webhooks import Delivery, Pause, Webhook, WebhookLog, WebhookSecret, new_secret
from shoal.graph.contract import Batch, Cursor
from shoal.graph.schema import EVERYBODY, POSTED, WEBHOOKS

STRANGERS = {
    "front": "/",
    "login": "/login",
    "forgotten": "/forgotten",
    "forgotten-sent": "/forgotten?sent=1",
    "reset": "/reset/{reset}",
    "confirm": "/confirm/{confirm}",
    "undo": "/undo/{undo}",
    "link-over": "/reset/over",
    "come-back": "/comeback",
    "goodbye": "/goodbye/{receipt}",
    "signup": "/signup",
    "invite": "/invite/{invite}",
    "invitation-over": "/invite/over",
    "signup-waiting": "/signup/waiting",
    "signup-confirm": "/signup/confirm",
    "stranger-explore": "/explore",
    "about": "/about",
    "terms": "/about/terms",
    "privacy": "/about/privacy",
    "stranger-post": "/@{author}/{id}",
    "stranger-profile": "/@{author}",
    "portfolio": "/@{author}/portfolio",
    "embedded": "/embed/@{author}/{id}",
    "recipe": "/recipe?{recipe}",
    "stranger-feed": "/feeds/{feed}",
    "offline": "/offline",
    "not-found": "/nothing/here",
}
MEMBERS = {
    "home": "/",
    "home-photos": "/?show=photos",
    "for-you": "/for-you",
    "catch-up": "/catch-up",
    "explore": "/explore",
    "people": "/explore/people",
    "tags": "/explore/tags",
    "nearby": "/explore/nearby",
    "search": "/search?q={word}",
    "tag": "/tags/{word}",
    "tag-posts": "/tags/{word}?show=posts",
    "post": "/@{author}/{id}",
    "photo": "/@{author}/{id}/photos/1",
    "likes": "/posts/{id}/likes",
    "comments": "/posts/{id}/comments",
    "answer": "/posts/{id}/answer",
    "why": "/posts/{id}/why",
    "more": "/posts/{id}/more",
    "embed": "/posts/{id}/embed",
    "report-form": "/report?post={id}",
    "reported": "/report/done?member={author_id}",
    "profile": "/@{author}",
    "profile-posts": "/@{author}?show=posts",
    "profile-replies": "/@{author}?show=replies",
    "profile-about": "/@{author}?show=about",
    "places": "/@{author}/places",
    "followers": "/@{author}/followers",
    "following": "/@{author}/following",
    "known": "/@{author}/known",
    "profile-more": "/@{author}/more",
    "own-profile": "/@{hero}",
    "own-profile-more": "/@{hero}/more",
    "albums": "/@{hero}/albums",
    "album": "/@{hero}/albums/{album}",
    "album-edit": "/@{hero}/albums/{album}/edit",
    "album-add": "/@{hero}/albums/{album}/add",
    "own-post-albums": "/posts/{own}/albums",
    "compose": "/compose",
    "edit": "/posts/{own}/edit",
    "history": "/posts/{own}/history",
    "own-history": "/@{hero}/{own}/history",
    "delete": "/posts/{own}/delete",
    "scheduled": "/scheduled",
    "pending": "/pending",
    "notifications": "/notifications",
    "held-back": "/notifications/requests",
    "held-back-sender": "/notifications/requests/{sender}",
    "requests": "/requests",
    "conversations": "/conversations",
    "conversation": "/conversations/{talk}",
    "message": "/conversations/new?recipients={author}",
    "saved": "/saved",
    "liked": "/liked",
    "lists": "/lists",
    "list": "/lists/{list}",
    "list-edit": "/lists/{list}/edit",
    "feeds": "/feeds",
    "feed": "/feeds/{feed}",
    "feed-new": "/feeds/new",
    "feed-edit": "/feeds/{feed}/edit",
    "welcome": "/welcome",
    "welcome-interests": "/welcome/interests",
    "welcome-people": "/welcome/people",
    "welcome-profile": "/welcome/profile",
    "welcome-first": "/welcome/first",
    "settings": "/settings",
    "settings-search": "/settings?q=password",
    "settings-profile": "/settings/profile",
    "settings-privacy": "/settings/privacy",
    "settings-posting": "/settings/posting",
    "settings-ranking": "/settings/ranking",
    "settings-feedback": "/settings/feedback",
    "settings-filters": "/settings/filters",
    "settings-filter-new": "/settings/filters/new",
    "settings-filter": "/settings/filters/{filter}",
    "settings-people": "/settings/people",
    "settings-notifications": "/settings/notifications",
    "settings-appearance": "/settings/appearance",
    "settings-password": "/settings/password",
    "settings-passkeys": "/settings/passkeys",
    "settings-second-factor": "/settings/second_factor",
    "settings-email": "/settings/email",
    "settings-sessions": "/settings/sessions",
    "settings-contacts": "/settings/contacts",
    "settings-import": "/settings/import",
    "settings-invitations": "/settings/invitations",
    "settings-archive": "/settings/archive",
    "settings-account": "/settings/account",
    "keys": "/keys",
    "moderation": "/moderation",
    "moderation-report": "/moderation/reports/{report}",
    "moderation-held": "/moderation/held",
    "moderation-members": "/moderation/members",
    "moderation-rules": "/moderation/rules",
    "moderation-rule-new": "/moderation/rules/new",
    "moderation-rule": "/moderation/rules/{rule}",
    "bulk-actions": "/moderation/bulk",
    "bulk-action": "/moderation/bulk/{bulk}",
    "audit-log": "/moderation/audit",
    "moderation-member": "/moderation/members/{author_id}",
    "operations": "/ops",
    "data-sources": "/ops/shards",
    "webhooks": "/ops/webhooks",
    "webhook": "/ops/webhooks/{webhook}",
    "offline-home": "/offline/home",
}
"""Pages for members; the viewer is an admin."""


class Subjects(NamedTuple):
    """Objects that pages are about."""

    hero: str
    author: str
    author_id: int
    word: str
    """A tag."""
    id: int
    """The author's newest post with pictures."""
    own: int
    """A post with pictures by the viewer."""
    talk: int
    report: int
    album: int
    list: int
    feed: int
    """A shared feed of the hero, ranked by an expression with a parameter."""
    filter: int
    sender: int
    """A member whose notifications are held back."""
    rule: int
    """A moderation rule."""
    bulk: int
    """A preview of a bulk action."""
    webhook: int
    recipe: str
    """The query of a link to a recipe."""
    receipt: str
    """Receipt of a deleted member."""
    invite: str
    """The code of an invitation."""
    reset: str
    """Tokens of e-mail links: to reset a password, to confirm an address, and to restore one."""
    confirm: str
    undo: str


async def prepared(writes: Writes, hero_name: str, author_name: str, word: str) -> Subjects:
    """Make one member an admin with one object of every kind of page; another is the author of the posts that they view."""
    hero, author = await _member(writes, hero_name), await _member(writes, author_name)
    await moderation.set_role(writes, hero.id, Role.ADMIN)
    await relationships.follow(writes, hero.id, author.id)
    photo, own = await _newest(writes, author), await _newest(writes, hero)
    complaint = Complaint(post_ids=(photo,), comment="This is my photo, taken last spring.", category="legal")
    report = await reports.file(writes, author.id, author.id, complaint)
    talk = await posts.create(
        writes, author.id, Draft(text=f"@{hero.name} are you there on Sunday?", visibility=Visibility.DIRECT)
    )
    album = await albums.create(writes, hero.id, "Boston, on foot", "From one corner to the next")
    await albums.put_in(writes, hero.id, album.id, own)
    chosen = await lists.create(writes, hero.id, "Friends")
    await lists.put_on(writes, hero.id, chosen.id, (author.id,))
    change = filters.FilterChange(title="Spiders", contexts=(FilterContext.HOME,))
    held = await filters.create(writes, hero.id, change)
    await notifications.set_policy(writes, hero.id, {"new_accounts": Treatment.FILTER})
    sender = await members.register(writes, "just_arrived")
    await posts.create(writes, sender.id, Draft(text=f"@{hero.name} buy my boat"))
    rule = await moderation_rules.create(
        writes, RuleDraft(name="Boats", conditions=Conditions(words=("buy my boat",), younger_than_days=7))
    )
    bulk = await bulk_moderation.create(writes, BulkQuery(member_id=author.id), "mark_sensitive", [photo])
    recipe = recipe_link("", BALANCED).partition("?")[2]
    moved_on = await members.register(writes, "moved_on")
    gone = await account_deletions.dismiss(writes, moved_on.id, writes.limits.leaving_days)
    invite = await invitations.create(writes, hero.id, uses=5, follow=True)
    return Subjects(
        hero.name,
        author.name,
        author.id,
        word,
        photo,
        own,
        talk.id,
        report.id,
        album.id,
        chosen.id,
        (await feeds.create(writes, hero.id, "Best of the week", _feed(word), shared=True)).id,
        held.id,
        sender.id,
        rule.id,
        bulk.id,
        (await _webhook(writes)).id,
        recipe,
        gone.receipt,
        invite.code,
        *[await _proof(writes, author, kind) for kind in (MailKind.RESET, MailKind.CONFIRM, MailKind.UNDO)],
    )


def _feed(word: str) -> dict[str, object]:
    return {
        "sources": [{"from": "followees"}, {"from": "tag", "tag": word}, {"from": "everybody"}],
        "filters": {"media": "with"},
        "order": {"by": "expression", "expression": "log(1 + likes) - age_hours / $half_life"},
        "parameters": {"half_life": {"type": "number", "default": 24, "minimum": 1, "maximum": 720}},
        "diversity": {"author_most": 3},
    }


async def _webhook(writes: Writes) -> Webhook:
    """Store a paused webhook with a failed delivery, also in a network without an event log."""
    shard = shard_of(EVERYBODY)

    def build(id_: int) -> tuple[Webhook, Batch]:
        webhook = Webhook(
            id=id_,
            url="https://shop.example/hook",
            log_id=writes.new_id(shard),
            position="",
            secrets=(WebhookSecret(new_secret()),),
            paused=Pause.MANUAL,
        )
        delivery = Delivery(now_ms(), "1e4b7f0c2a9d-1-19c0e2", "post.created", 500, 31, "Internal Server Error")
        batch = Batch(shard)
        batch.obj_add(webhook)
        batch.obj_add(WebhookLog(id=webhook.log_id, deliveries=(delivery,)))
        batch.assoc_add(EVERYBODY, WEBHOOKS, id_, id_)
        return webhook, batch

    return await add_node(writes, shard, build)


async def _proof(writes: Writes, member: Member, kind: MailKind) -> str:
    """Return the token of an e-mail link to a member, as if it had been sent."""
    login = await members.login_of(writes, member)
    assert login is not None
    asked = writes.new_id(shard_of(member.id))
    event = MailDue(kind=kind, asked=asked, member_id=member.id, generation=member.generation)
    # Members of the demo have no e-mail address, so theirs are only displayed.
    to = login.email if kind is MailKind.RESET else login.email or f"{member.name}@example.org"
    return await mail.prove(writes.graph, writes.new_id, event, Whom(member, login, to))


async def _member(writes: Writes, name: str) -> Member:
    found = await members.find(writes, name)
    if found is None:
        raise LookupError(name)
    return found


async def _newest(writes: Writes, member: Member) -> int:
    """Return a member's newest post with pictures."""
    posted = await writes.graph.assoc_range(member.id, POSTED, Cursor(limit=100))
    nodes = await writes.graph.obj_get([one.id2 for one in posted])
    found = (nodes.get(one.id2) for one in posted)
    return next(one.id for one in found if isinstance(one, Post) and one.media)
