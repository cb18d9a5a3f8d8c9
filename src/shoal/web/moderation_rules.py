"""Pages of moderation rules and bulk moderation: rules with their dry runs for admins, bulk actions for moderators."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from starlette.responses import Response

from shoal.admin import bulk_moderation as bulk
from shoal.admin.moderation_rules import try_rules
from shoal.commands import bulk_moderation, moderation_rules
from shoal.core.bulk_moderation import BulkAction, BulkQuery, BulkState, Verb
from shoal.core.errors import Gone, InvalidInput, Unfit
from shoal.core.ids import MAX_ID, milliseconds_of
from shoal.core.model import Member, Role
from shoal.core.moderation_rules import (
    MAX_DOMAINS,
    MAX_NAME,
    MAX_PHRASE,
    MAX_WORDS,
    Conditions,
    PictureMatch,
    Rule,
    RuleAction,
    RuleDraft,
    RuleState,
)
from shoal.core.publishing import MAX_REASON, HeldKind
from shoal.graph.access import get_object
from shoal.graph.contract import MAX_TIME
from shoal.graph.member_lookup import id_called
from shoal.http.params import Id
from shoal.i18n import Translated, When
from shoal.queries.moderation_rules import DryRunReport, RuleHit
from shoal.web import routing
from shoal.web.form_errors import RIGHT, Wrong, error_text, wrong_of
from shoal.web.rendering import page
from shoal.web.request_context import Form, Handle, IdForm, IdPath, Line, PageContext

_log = logging.getLogger("shoal.moderation")

_Words = Annotated[str, Meta(max_length=(MAX_PHRASE + 2) * MAX_WORDS)]
_Domains = Annotated[str, Meta(max_length=300 * MAX_DOMAINS)]
_Number = Annotated[str, Meta(max_length=10)]
_FORM = 1 << 18
"""Maximum size of the form in bytes, enough for 200 phrases and 200 domains."""
_NOT_A_NUMBER = -1
_DAY_CHOICES = (1, 7, 30, 90)


class RuleRow(msgspec.Struct, frozen=True):
    path: str
    name: str
    state: str
    action: str
    conditions: tuple[str, ...]
    dry_run: str
    """The result of the last dry run as a sentence; empty if there was none."""


class HitRow(msgspec.Struct, frozen=True):
    what: str
    path: str
    name: str
    text: str
    when: When
    trusted: bool
    hidden: bool


class ActionRow(msgspec.Struct, frozen=True):
    path: str
    verb: str
    state: str
    posts: str
    when: When
    actor: str


class RuleForm(Form, frozen=True, kw_only=True):
    title: Line = ""
    action: RuleAction = "hold"
    reason: Annotated[str, Meta(max_length=10 * MAX_REASON)] = ""
    kinds: Annotated[tuple[HeldKind, ...], Meta(max_length=4)] = ()
    words: _Words = ""
    """Words and phrases, one per line."""
    domains: _Domains = ""
    more_links_than: _Number = ""
    younger_than_days: _Number = ""
    fewer_posts_than: _Number = ""
    more_posts_than: _Number = ""
    like_removed: PictureMatch = ""

    def draft(self) -> RuleDraft:
        conditions = Conditions(
            words=tuple(self.words.splitlines()),
            domains=tuple(self.domains.split()),
            more_links_than=_number(self.more_links_than) if self.more_links_than.strip() else None,
            younger_than_days=_number(self.younger_than_days),
            fewer_posts_than=_number(self.fewer_posts_than),
            more_posts_than=_number(self.more_posts_than),
            like_removed=self.like_removed,
        )
        return RuleDraft(
            name=self.title, action=self.action, conditions=conditions, kinds=self.kinds, reason=self.reason
        )


class ChangedRuleForm(RuleForm, frozen=True, kw_only=True):
    id: Id


class StateForm(IdForm, frozen=True, kw_only=True):
    state: RuleState


class TryForm(IdForm, frozen=True, kw_only=True):
    days: Literal["1", "7", "30", "90"] = "7"


class BulkForm(Form, frozen=True, kw_only=True):
    action: Verb = "hide"
    words: _Words = ""
    domains: _Domains = ""
    tag: Line = ""
    member: Handle = ""
    since: Annotated[str, Meta(max_length=10)] = ""
    until: Annotated[str, Meta(max_length=10)] = ""
    media: Annotated[str, Meta(max_length=20)] = ""


class BulkActForm(IdForm, frozen=True, kw_only=True):
    do: Literal["apply", "undo"]
    why: Annotated[str, Meta(max_length=1_000)] = ""


_EMPTY_RULE = RuleForm(kinds=("post", "edit"))
_EMPTY_QUERY = BulkForm()


def _number(text: str) -> int:
    """Return the number that was entered, 0 for none; -1 for anything else, which the rules refuse."""
    bare = text.strip()
    if not bare:
        return 0
    return int(bare) if bare.isascii() and bare.isdigit() else _NOT_A_NUMBER


def _states(words: Translated) -> dict[RuleState, str]:
    _ = words.text
    return {RuleState.OFF: _("Off"), RuleState.DRY_RUN: _("Dry run"), RuleState.ARMED: _("Armed")}


def _kinds(words: Translated) -> dict[HeldKind, str]:
    _ = words.text
    return {"post": _("Posts"), "edit": _("Edits of posts"), "profile": _("Profiles"), "media": _("Uploads")}


def _actions(words: Translated) -> list[tuple[RuleAction, str, str]]:
    _ = words.text
    return [
        ("hold", _("Hold for review"), _("Moderators decide whether it becomes public.")),
        ("reject", _("Reject"), _("The author sees the reason.")),
    ]


def _matches(words: Translated) -> list[tuple[PictureMatch, str]]:
    _ = words.text
    return [("", _("No condition")), ("same", _("The same picture")), ("similar", _("A similar picture"))]


def _verbs(words: Translated) -> dict[Verb, str]:
    _ = words.text
    return {
        "hide": _("Hide posts"),
        "mark_sensitive": _("Mark as sensitive"),
        "keep_from_trends": _("Keep out of trends"),
    }


def _progress(words: Translated) -> dict[BulkState, str]:
    _ = words.text
    return {
        BulkState.PREVIEW: _("Preview"),
        BulkState.APPLYING: _("Being applied"),
        BulkState.APPLIED: _("Applied"),
        BulkState.UNDOING: _("Being undone"),
        BulkState.UNDONE: _("Undone"),
        BulkState.DELETING: _("Being deleted"),
    }


def _row(ctx: PageContext, rule: Rule) -> RuleRow:
    words = ctx.words
    return RuleRow(
        path=ctx.url(f"/moderation/rules/{rule.id}"),
        name=rule.name,
        state=_states(words)[rule.state],
        action=next(label for action, label, _hint in _actions(words) if action == rule.action),
        conditions=tuple(_conditions(words, rule.conditions)),
        dry_run=_last_run(ctx, rule),
    )


def _last_run(ctx: PageContext, rule: Rule) -> str:
    words, run = ctx.words, rule.dry_run
    if run is None:
        return ""
    hits = words.counted("%(n)s hit", "%(n)s hits", run.hits)
    posts = words.counted("%(n)s post", "%(n)s posts", run.posts)
    return words.text("Last dry run on %(day)s: %(hits)s among %(posts)s") % {
        "day": words.full(run.at),
        "hits": hits,
        "posts": posts,
    }


def _conditions(words: Translated, conditions: Conditions) -> list[str]:
    _ = words.text
    found = [_few(conditions.words), _few(conditions.domains)]
    if conditions.more_links_than is not None:
        found.append(words.counted("more than %(n)s link", "more than %(n)s links", conditions.more_links_than))
    new = [
        *(
            [words.counted("joined less than %(n)s day ago", "joined less than %(n)s days ago", days)]
            if (days := conditions.younger_than_days)
            else []
        ),
        *(
            [words.counted("fewer than %(n)s post", "fewer than %(n)s posts", posts)]
            if (posts := conditions.fewer_posts_than)
            else []
        ),
    ]
    found.append(_(" or ").join(new))
    if burst := conditions.more_posts_than:
        found.append(
            words.counted("more than %(n)s post in ten minutes", "more than %(n)s posts in ten minutes", burst)
        )
    found += [label for match, label in _matches(words) if match and match == conditions.like_removed]
    return [each for each in found if each]


_FEW = 5


def _few(values: tuple[str, ...]) -> str:
    return ", ".join(values[:_FEW]) + (f" +{len(values) - _FEW}" if len(values) > _FEW else "")


async def rules(ctx: PageContext, _params: None) -> Response:
    ctx.staff(Role.ADMIN)
    stored = await moderation_rules.stored(ctx.graph)
    return await page(
        ctx,
        "moderation_rules",
        title=ctx.words.text("Moderation rules"),
        admin=True,
        rules=[_row(ctx, rule) for rule in stored.rules],
    )


async def new_rule(ctx: PageContext, _params: None) -> Response:
    ctx.staff(Role.ADMIN)
    return await _rule_page(ctx, _EMPTY_RULE)


async def create_rule(ctx: PageContext, asked: RuleForm) -> Response:
    me = _acting(ctx, asked, Role.ADMIN)
    try:
        made = await moderation_rules.create(ctx.writes, asked.draft())
    except InvalidInput as error:
        return await _rule_page(ctx, asked, wrong=_wrong(ctx, error))
    _log.info("moderator %s: create moderation rule %d", me.id, made.id)
    return ctx.go(f"/moderation/rules/{made.id}")


async def rule(ctx: PageContext, path: IdPath) -> Response:
    ctx.staff(Role.ADMIN)
    stored = await _stored(ctx, path.id)
    return await _rule_page(ctx, _typed(stored), stored)


async def change_rule(ctx: PageContext, asked: ChangedRuleForm) -> Response:
    me = _acting(ctx, asked, Role.ADMIN)
    stored = await _stored(ctx, asked.id)
    try:
        await moderation_rules.update(ctx.writes, stored.id, asked.draft())
    except InvalidInput as error:
        return await _rule_page(ctx, asked, stored, wrong=_wrong(ctx, error))
    _log.info("moderator %s: change moderation rule %d", me.id, stored.id)
    return ctx.go(f"/moderation/rules/{stored.id}")


async def set_state(ctx: PageContext, asked: StateForm) -> Response:
    me = _acting(ctx, asked, Role.ADMIN)
    stored = await _stored(ctx, asked.id)
    try:
        await moderation_rules.set_state(ctx.writes, stored.id, asked.state)
    except Unfit as error:
        return await _rule_page(ctx, _typed(stored), stored, wrong=_wrong(ctx, error))
    _log.info("moderator %s: moderation rule %d is %s", me.id, stored.id, asked.state.value)
    return ctx.go(f"/moderation/rules/{stored.id}")


async def try_rule(ctx: PageContext, asked: TryForm) -> Response:
    """Do a dry run of a rule, and show what it would have matched."""
    _acting(ctx, asked, Role.ADMIN)
    stored = await _stored(ctx, asked.id)
    report = await try_rules(ctx.app.store, ctx.writes, (stored.id,), int(asked.days))
    tested = await _stored(ctx, asked.id)
    return await _rule_page(ctx, _typed(tested), tested, report=report, days=asked.days)


async def delete_rule(ctx: PageContext, asked: IdForm) -> Response:
    me = _acting(ctx, asked, Role.ADMIN)
    await moderation_rules.delete(ctx.writes, asked.id)
    _log.info("moderator %s: delete moderation rule %d", me.id, asked.id)
    return ctx.go("/moderation/rules")


async def _stored(ctx: PageContext, rule_id: int) -> Rule:
    return (await moderation_rules.stored(ctx.graph)).rule(rule_id)


def _typed(stored: Rule) -> RuleForm:
    conditions = stored.conditions
    return RuleForm(
        title=stored.name,
        action=stored.action,
        reason=stored.reason,
        kinds=stored.kinds,
        words="\n".join(conditions.words),
        domains="\n".join(conditions.domains),
        more_links_than="" if conditions.more_links_than is None else str(conditions.more_links_than),
        younger_than_days=str(conditions.younger_than_days or ""),
        fewer_posts_than=str(conditions.fewer_posts_than or ""),
        more_posts_than=str(conditions.more_posts_than or ""),
        like_removed=conditions.like_removed,
    )


async def _rule_page(
    ctx: PageContext,
    typed: RuleForm,
    stored: Rule | None = None,
    *,
    wrong: Wrong = RIGHT,
    report: DryRunReport | None = None,
    days: str = "7",
) -> Response:
    words = ctx.words
    hits = report.rules[0] if report else None
    return await page(
        ctx,
        "moderation_rule",
        title=stored.name if stored else words.text("New rule"),
        admin=True,
        wrong=wrong,
        typed=typed,
        id=stored.id if stored else 0,
        row=_row(ctx, stored) if stored else None,
        state=stored.state.value if stored else "",
        states=[(state.value, label) for state, label in _states(words).items()],
        kinds=_kinds(words),
        actions=_actions(words),
        matches=_matches(words),
        days=days,
        day_choices=[
            (str(number), words.counted("Last %(n)s day", "Last %(n)s days", number)) for number in _DAY_CHOICES
        ],
        report=report,
        since=ctx.when(report.since) if report else None,
        found=hits,
        hits=[_hit(ctx, hit) for hit in hits.newest] if hits else [],
        most_name=MAX_NAME,
        most_reason=MAX_REASON,
    )


def _hit(ctx: PageContext, hit: RuleHit) -> HitRow:
    paths = {"profile": f"/moderation/members/{hit.member_id}", "media": ""}
    path = paths.get(hit.kind, f"/@{hit.member_name}/{hit.id}")
    return HitRow(
        what=ctx.words.text("View post") if hit.kind == "post" else _kinds(ctx.words)[hit.kind],
        path=ctx.url(path) if path else "",
        name=hit.member_name,
        text=hit.text,
        when=ctx.when(hit.at),
        trusted=hit.trusted,
        hidden=hit.hidden,
    )


def _wrong(ctx: PageContext, error: InvalidInput) -> Wrong:
    return {"title" if field == "name" else field: text for field, text in wrong_of(ctx.words, error).items()}


async def bulk_actions(
    ctx: PageContext, _params: None = None, *, typed: BulkForm = _EMPTY_QUERY, wrong: Wrong = RIGHT
) -> Response:
    me = ctx.staff(Role.MODERATOR)
    stored = await bulk_moderation.stored(ctx.graph)
    return await page(
        ctx,
        "bulk_actions",
        title=ctx.words.text("Bulk actions"),
        admin=me.role is Role.ADMIN,
        wrong=wrong,
        typed=typed,
        verbs=list(_verbs(ctx.words).items()),
        actions=[_action_row(ctx, action) for action in stored],
    )


async def preview(ctx: PageContext, asked: BulkForm) -> Response:
    me = _acting(ctx, asked, Role.MODERATOR)
    try:
        made = await bulk.preview(ctx.app.store, ctx.writes, await _query(ctx, asked), asked.action)
    except InvalidInput as error:
        found = wrong_of(ctx.words, error)
        names = {"query": "", "media_id": "media"}
        return await bulk_actions(ctx, typed=asked, wrong={names.get(name, name): text for name, text in found.items()})
    _log.info("moderator %s: preview bulk action %d", me.id, made.action.id)
    return ctx.go(f"/moderation/bulk/{made.action.id}")


async def _query(ctx: PageContext, asked: BulkForm) -> BulkQuery:
    _ = ctx.words.text
    member_id = media_id = 0
    if name := asked.member.strip():
        found = await id_called(ctx.graph, name.removeprefix("@"))
        if found is None:
            raise InvalidInput(_("There is no such member"), field="member")
        member_id = found
    if number := asked.media.strip():
        if not (number.isascii() and number.isdigit() and int(number) <= MAX_ID):
            raise InvalidInput(_("Enter the id of an uploaded file."), field="media")
        media_id = int(number)
    return BulkQuery(
        words=tuple(asked.words.splitlines()),
        domains=tuple(asked.domains.split()),
        tag=asked.tag.strip(),
        member_id=member_id,
        since=_day(ctx, asked.since, "since"),
        until=_day(ctx, asked.until, "until"),
        media_id=media_id,
    )


def _day(ctx: PageContext, text: str, field: str) -> int:
    """Return the beginning (UTC) of a day such as 2026-05-31, in Unix milliseconds; 0 for none."""
    if not text.strip():
        return 0
    try:
        return int(datetime.strptime(text.strip(), "%Y-%m-%d").replace(tzinfo=UTC).timestamp() * 1_000)
    except ValueError:
        raise InvalidInput(ctx.words.text("Enter a day, such as 2026-05-31."), field=field) from None


class BulkPath(IdPath, frozen=True):
    before: Id | None = None


async def bulk_action(ctx: PageContext, path: BulkPath, *, wrong: str = "") -> Response:
    me = ctx.staff(Role.MODERATOR)
    shown = await bulk.shown(ctx.graph, await get_object(ctx.graph, BulkAction, path.id), path.before or MAX_TIME)
    action = shown.action
    return await page(
        ctx,
        "bulk_action",
        title=ctx.words.text("Bulk action"),
        admin=me.role is Role.ADMIN,
        wrong=wrong,
        row=_action_row(ctx, action),
        action=action,
        number=len(action.post_ids),
        reached=ctx.when(action.reached) if action.reached else None,
        examples=[
            HitRow(
                what=ctx.words.text("View post"),
                path=ctx.url(f"/@{each.author_name}/{each.post_id}"),
                name=each.author_name,
                text=each.text,
                when=ctx.when(each.created_at),
                trusted=False,
                hidden=False,
            )
            for each in shown.examples
        ],
        next=ctx.url(f"/moderation/bulk/{action.id}", before=shown.next) if shown.next else "",
    )


def _action_row(ctx: PageContext, action: BulkAction) -> ActionRow:
    words = ctx.words
    return ActionRow(
        path=ctx.url(f"/moderation/bulk/{action.id}"),
        verb=_verbs(words)[action.verb],
        state=_progress(words)[action.state],
        posts=words.counted("%(n)s post", "%(n)s posts", len(action.post_ids)),
        when=ctx.when(milliseconds_of(action.id)),
        actor=action.actor_name,
    )


async def act(ctx: PageContext, asked: BulkActForm) -> Response:
    """Apply a preview, or undo an action."""
    me = _acting(ctx, asked, Role.MODERATOR)
    try:
        if asked.do == "apply":
            await bulk_moderation.apply(ctx.writes.because(asked.why), asked.id)
        else:
            await bulk_moderation.undo(ctx.writes, asked.id)
    except (Unfit, Gone) as error:
        return await bulk_action(ctx, BulkPath(asked.id), wrong=error_text(ctx.words, error))
    _log.info("moderator %s: %s bulk action %d", me.id, asked.do, asked.id)
    return ctx.go(f"/moderation/bulk/{asked.id}")


def _acting(ctx: PageContext, asked: Form, role: Role) -> Member:
    me = ctx.staff(role)
    ctx.check_sent(asked)
    return me


ROUTES = (
    routing.page("/moderation/rules", rules),
    routing.page("/moderation/rules/new", new_rule),
    routing.form("/moderation/rules/new", create_rule, RuleForm, max_body=_FORM),
    routing.page("/moderation/rules/{id}", rule, IdPath),
    routing.form("/moderation/rules/{id}", change_rule, ChangedRuleForm, max_body=_FORM),
    routing.form("/moderation/rules/{id}/state", set_state, StateForm),
    routing.form("/moderation/rules/{id}/dry_run", try_rule, TryForm),
    routing.form("/moderation/rules/{id}/delete", delete_rule, IdForm),
    routing.page("/moderation/bulk", bulk_actions),
    routing.form("/moderation/bulk", preview, BulkForm, max_body=_FORM),
    routing.page("/moderation/bulk/{id}", bulk_action, BulkPath),
    routing.form("/moderation/bulk/{id}", act, BulkActForm),
)
