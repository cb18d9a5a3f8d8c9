"""`shoal moderation`: rules that hold or reject content, and bulk actions on posts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar, get_args

import click

from shoal.admin.bulk_moderation import ApplyBulk, BulkPreview, ListBulk, PreviewBulk, ShowBulk, UndoBulk
from shoal.admin.moderation_rules import DeleteRule, ListRules, PutRule, SetRuleState, TryRules
from shoal.cli.group import pass_settings
from shoal.cli.stores import perform
from shoal.core.bulk_moderation import VERBS, BulkAction, BulkQuery, BulkState, Verb
from shoal.core.moderation_rules import (
    MAX_AGE_DAYS,
    MAX_BURST,
    MAX_LINKS,
    MAX_POSTS,
    Conditions,
    PictureMatch,
    Rule,
    RuleDraft,
    RuleState,
)
from shoal.core.publishing import HeldKind
from shoal.graph.contract import MAX_TIME
from shoal.queries.moderation_rules import MAX_DAYS, DryRunReport
from shoal.settings import Settings

F = TypeVar("F", bound=Callable[..., Any])

_KINDS: tuple[HeldKind, ...] = get_args(HeldKind)


@click.group()
def moderation() -> None:
    """Manage moderation rules, and change many posts at once."""


@moderation.group()
def rules() -> None:
    """Manage rules that hold or reject new content."""


_word = click.option(
    "--word", "words", multiple=True, help="Match this word or phrase, in any case. May be given several times."
)
_domain = click.option(
    "--domain", "domains", multiple=True, help="Match links to this domain or below. May be given several times."
)


def _conditions(command: F) -> F:
    for option in (
        click.option(
            "--reject",
            "reason",
            default="",
            metavar="REASON",
            help="Reject, and show REASON to the author.  [default: hold]",
        ),
        click.option(
            "--applies-to",
            "kinds",
            multiple=True,
            type=click.Choice(_KINDS),
            default=("post", "edit"),
            show_default=True,
            help="HeldKind of content. May be given several times.",
        ),
        click.option(
            "--like-removed",
            type=click.Choice([each for each in get_args(PictureMatch) if each]),
            default=None,
            help="Match pictures that look like pictures of hidden posts.",
        ),
        click.option(
            "--more-posts-than",
            type=click.IntRange(1, MAX_BURST),
            help="Match more posts than this in ten minutes.",
        ),
        click.option("--fewer-posts-than", type=click.IntRange(1, MAX_POSTS), help="Match members with fewer posts."),
        click.option(
            "--younger-than-days",
            type=click.IntRange(1, MAX_AGE_DAYS),
            help="Match members who joined later.",
        ),
        click.option("--more-links-than", type=click.IntRange(0, MAX_LINKS), help="Match more links than this."),
        _domain,
        _word,
    ):
        command = option(command)
    return command


@rules.command()
@click.argument("name")
@_conditions
@pass_settings
def add(settings: Settings, /, name: str, **values: Any) -> None:
    """Create the rule NAME, which is off. All given conditions must be met. Works while a server is running."""
    made = perform(settings, PutRule(_draft(name, values)))
    click.echo(f"created rule {made.id}: try it with `shoal moderation rules try {made.id}`")


@rules.command()
@click.argument("rule_id", type=click.IntRange(1))
@click.argument("name")
@_conditions
@pass_settings
def change(settings: Settings, /, rule_id: int, name: str, **values: Any) -> None:
    """Replace all values of the rule RULE_ID. Works while a server is running.

    With other conditions, an armed rule has no effect until you try it and arm it again.
    """
    made = perform(settings, PutRule(_draft(name, values), rule_id))
    click.echo(f"changed rule {made.id}, which is {_state(made)} now")


def _draft(name: str, values: dict[str, Any]) -> RuleDraft:
    reason, kinds = values.pop("reason"), values.pop("kinds")
    conditions = Conditions(**{name: value for name, value in values.items() if value is not None})
    return RuleDraft(
        name=name, action="reject" if reason else "hold", conditions=conditions, kinds=kinds, reason=reason
    )


@rules.command("list")
@pass_settings
def list_rules(settings: Settings) -> None:
    """List all rules: id, state, action, last dry run, name and conditions. Works while a server is running."""
    click.echo("id\tstate\taction\tdry run\tname\tconditions")
    for rule in perform(settings, ListRules()):
        run = f"{_day(rule.dry_run.at)}: {rule.dry_run.hits} of {rule.dry_run.posts}" if rule.dry_run else "-"
        click.echo("\t".join((str(rule.id), _state(rule), rule.action, run, rule.name, _words(rule.conditions))))


def _words(conditions: Conditions) -> str:
    parts = [
        f"{name}: {', '.join(getattr(conditions, name))}" for name in ("words", "domains") if getattr(conditions, name)
    ]
    if conditions.more_links_than is not None:
        parts.append(f"more links than {conditions.more_links_than}")
    names = ("younger_than_days", "fewer_posts_than", "more_posts_than", "like_removed")
    parts += [f"{name.replace('_', ' ')} {value}" for name in names if (value := getattr(conditions, name))]
    return "; ".join(parts)


def _state(rule: Rule) -> str:
    return rule.state.value.replace("_", " ")


@rules.command("try")
@click.argument("rule_ids", nargs=-1, type=click.IntRange(1))
@click.option(
    "--days", type=click.IntRange(1, MAX_DAYS), default=7, show_default=True, help="Age of the oldest content."
)
@pass_settings
def try_(settings: Settings, /, rule_ids: tuple[int, ...], days: int) -> None:
    """Show what rules would have matched in the last days, all rules by default. Works while a server is running.

    Nothing is held or rejected. A rule can be armed within a week after it was tried.
    """
    _print_report(perform(settings, TryRules(list(rule_ids), days)))


def _print_report(report: DryRunReport) -> None:
    since = f"since {_minute(report.since)}" + ("" if report.complete else ", where the limit of a dry run was reached")
    click.echo(f"checked {report.posts} posts, {report.profiles} profiles and {report.uploads} uploads {since}")
    for found in report.rules:
        click.echo(
            f"rule {found.rule.id} ({found.rule.name}): {found.hits} hits by {found.members} members; "
            f"{found.trusted} by trusted members, {found.hidden} hidden by moderators since"
        )
        for hit in found.newest:
            signs = "".join((" trusted" if hit.trusted else "", " hidden" if hit.hidden else ""))
            text = " ".join(hit.text.split())
            click.echo(f"  {_minute(hit.at)}\t{hit.kind} {hit.id}\t@{hit.member_name}{signs}\t{text}")


@rules.command()
@click.argument("rule_id", type=click.IntRange(1))
@click.argument("state", type=click.Choice([state.value for state in RuleState]))
@pass_settings
def state(settings: Settings, /, rule_id: int, state: str) -> None:
    """Set the state of the rule RULE_ID. Works while a server is running.

    off: not evaluated. dry_run: matches are logged and counted, without effect. armed: matching content is held or rejected.
    """
    changed = perform(settings, SetRuleState(rule_id, RuleState(state)))
    click.echo(f"rule {rule_id} is {_state(changed)} now")


@rules.command()
@click.argument("rule_id", type=click.IntRange(1))
@pass_settings
def delete(settings: Settings, /, rule_id: int) -> None:
    """Delete the rule RULE_ID. Works while a server is running."""
    perform(settings, DeleteRule(rule_id))
    click.echo(f"deleted rule {rule_id}")


@moderation.group()
def bulk() -> None:
    """Change many posts at once, and undo it."""


_action_id = click.argument("action_id", type=click.IntRange(1))


@bulk.command()
@click.argument("action", type=click.Choice([verb.replace("_", "-") for verb in VERBS]))
@_word
@_domain
@click.option("--tag", default="", help="Select posts with this tag.")
@click.option("--member", default="", metavar="NAME", help="Select posts by this member.")
@click.option("--since", type=click.DateTime(), help="Select posts from this time (UTC) on.")
@click.option("--until", type=click.DateTime(), help="Select posts before this time (UTC).")
@click.option("--like", type=click.IntRange(1), metavar="MEDIA_ID", help="Select posts with a picture like this one.")
@click.option("--similar", is_flag=True, help="Accept pictures that are less like it.")
@pass_settings
def preview(
    settings: Settings,
    /,
    action: str,
    words: tuple[str, ...],
    domains: tuple[str, ...],
    tag: str,
    member: str,
    since: datetime | None,
    until: datetime | None,
    like: int | None,
    similar: bool,
) -> None:
    """Select posts for ACTION, and show how many there are. Nothing changes. Works while a server is running.

    A post is selected if it meets all conditions, is public or unlisted, and would be changed by the action.
    """
    query = BulkQuery(
        words=words,
        domains=domains,
        tag=tag,
        since=_milliseconds(since),
        until=_milliseconds(until),
        media_id=like or 0,
        likeness="similar" if similar else "same",
    )
    _print_preview(perform(settings, PreviewBulk(query, _verb(action), member)))


def _verb(text: str) -> Verb:
    return next(verb for verb in VERBS if verb == text.replace("-", "_"))


def _print_preview(shown: BulkPreview) -> None:
    action = shown.action
    # Round up, so that a further query with `--until` continues without a gap.
    since = datetime.fromtimestamp(-(-action.reached // 1_000), UTC)
    covered = f"all posts since {since:%Y-%m-%d %H:%M:%S}" if action.reached else "all posts"
    click.echo(
        f"{len(action.post_ids)} posts; {action.read} posts were read, which are {covered} that the query may match"
    )
    for example in shown.examples:
        text = " ".join(example.text.split())
        click.echo(f"  {_minute(example.created_at)}\t{example.post_id}\t@{example.author_name}\t{text}")
    if shown.next:
        click.echo(f"more with `shoal moderation bulk show {action.id} --before {shown.next}`")
    if action.state is BulkState.PREVIEW and action.post_ids:
        click.echo(f"apply with `shoal moderation bulk apply {action.id}`")


@bulk.command()
@_action_id
@click.option("--reason", default="", help="Reason for the audit log.")
@pass_settings
def apply(settings: Settings, /, action_id: int, reason: str) -> None:
    """Apply the preview ACTION_ID to its posts. Works while a server is running."""
    action = perform(settings, ApplyBulk(action_id, reason))
    click.echo(f"changing {len(action.post_ids)} posts; undo with `shoal moderation bulk undo {action_id}`")


@bulk.command()
@_action_id
@pass_settings
def undo(settings: Settings, /, action_id: int) -> None:
    """Change back all posts that the action ACTION_ID changed. Works while a server is running."""
    perform(settings, UndoBulk(action_id))
    click.echo(f"undoing action {action_id}")


@bulk.command()
@_action_id
@click.option(
    "--before", type=click.IntRange(1, MAX_TIME), default=MAX_TIME, help="Show posts with ids below this one."
)
@pass_settings
def show(settings: Settings, /, action_id: int, before: int) -> None:
    """Show the preview or action ACTION_ID, with 20 of its posts, newest first. Works while a server is running."""
    shown = perform(settings, ShowBulk(action_id, before))
    click.echo(_line(shown.action))
    _print_preview(shown)


@bulk.command("list")
@pass_settings
def list_actions(settings: Settings) -> None:
    """List previews and actions, newest first: id, action, state, posts, changed posts, actor. Works while a server is running."""
    click.echo("id\taction\tstate\tposts\tchanged\tby")
    for action in perform(settings, ListBulk()):
        click.echo(_line(action))


def _line(action: BulkAction) -> str:
    cells = (action.id, action.verb.replace("_", "-"), action.state.value, len(action.post_ids), action.changed)
    return "\t".join((*map(str, cells), action.actor_name or "-"))


def _milliseconds(moment: datetime | None) -> int:
    return int(moment.replace(tzinfo=UTC).timestamp() * 1_000) if moment else 0


def _day(moment: int) -> str:
    return f"{datetime.fromtimestamp(moment / 1_000, UTC):%Y-%m-%d}"


def _minute(moment: int) -> str:
    return f"{datetime.fromtimestamp(moment / 1_000, UTC):%Y-%m-%d %H:%M}"
