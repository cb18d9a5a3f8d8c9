"""Admin rules on tags: validated against earlier rules and applied as a separate version.

A change is decided while the lock of the cloud is held, so two admins cannot overwrite each other or create a chain of merged
tags.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress

from msgspec.structs import replace

from shoal.core.errors import InvalidInput, Unavailable
from shoal.core.ids import now_ms
from shoal.core.text import canonical_tag, check_tag
from shoal.tagcloud.contract import CloudStore, Overtaken, TagRule
from shoal.tagcloud.lease import locked
from shoal.tagcloud.merger import NOTHING, SIZES, Amendment, Merger, Sizes
from shoal.tagcloud.updates import VersionUpdates

_TRIES = 200
_RETRY_SECONDS = 0.05

Rules = Mapping[str, TagRule]


async def amend(
    store: CloudStore,
    decide: Callable[[Rules], Amendment],
    updates: VersionUpdates | None = None,
    *,
    clock: Callable[[], int] = now_ms,
    sizes: Sizes = SIZES,
) -> Amendment:
    """Call `decide` with the current rules and write the change that it returns; it may return `NOTHING`.

    Raises the errors of `decide`, and `Unavailable` if the lock cannot be taken.
    """
    for _ in range(_TRIES):
        with suppress(Overtaken):
            async with locked(store) as holder:
                if holder:
                    amendment = decide(await store.rules())
                    if amendment != NOTHING:
                        head = await store.head()
                        merger = Merger(store, clock, sizes, updates)
                        await merger.merge(head, (), holder=holder, amendment=amendment)
                    return amendment
        await asyncio.sleep(_RETRY_SECONDS)
    raise Unavailable("the tag cloud is busy: try again in a moment", retry_after=1.0)


Decide = Callable[[Rules], TagRule]


def denying(name: str) -> Decide:
    """Create a `Decide` that hides a tag and all tags merged into it."""
    name = check_tag(name)

    def decide(rules: Rules) -> TagRule:
        if target := _target(rules, name):
            raise InvalidInput(f"#{name} counts as #{target}: deny #{target}, or unmerge #{name} first", field="tag")
        return TagRule(name, denied=True)

    return decide


def allowing(name: str) -> Decide:
    """Create a `Decide` that makes a denied tag visible again; idempotent."""
    name = check_tag(name)
    return lambda rules: TagRule(name, target=_target(rules, name))


def merging(name: str, target: str) -> Decide:
    """Create a `Decide` that makes the tag `name` count as `target`.

    Neither may `target` be merged, nor may another tag be merged into `name`.
    """
    name, target = check_tag(name), check_tag(target)

    def decide(rules: Rules) -> TagRule:
        if name == target:
            raise InvalidInput(f"#{name} cannot be merged into itself", field="target")
        if beyond := _target(rules, target):
            raise InvalidInput(f"#{target} counts as #{beyond}: merge #{name} into #{beyond} instead", field="target")
        if followers := sorted(rule.name for rule in rules.values() if rule.target == name):
            few = ", ".join(f"#{each}" for each in followers[:5])
            raise InvalidInput(
                f"{few} {_count(followers)} as #{name}: unmerge {few} first, or merge #{target} into #{name} instead",
                field="tag",
            )
        if name in rules and rules[name].denied:
            raise InvalidInput(f"#{name} is denied: allow it before merging it", field="tag")
        return TagRule(name, target=target)

    return decide


def unmerging(name: str) -> Decide:
    """Create a `Decide` that makes a merged tag count by itself again; idempotent."""
    name = check_tag(name)
    return lambda rules: TagRule(name, denied=name in rules and rules[name].denied)


async def set_rule(
    store: CloudStore, decide: Decide, updates: VersionUpdates, clock: Callable[[], int], sizes: Sizes
) -> TagRule:
    """Set a tag rule, which applies from the next version of the cloud on. Idempotent.

    Raises `InvalidInput` if `decide` does, and `Unavailable` if the lock cannot be taken.
    """
    decided: list[TagRule] = []

    def amendment(rules: Rules) -> Amendment:
        decided.append(rule := decide(rules))
        return NOTHING if rule == rules.get(rule.name, TagRule(rule.name)) else Amendment(rules=(rule,))

    await amend(store, amendment, updates, clock=clock, sizes=sizes)
    return decided[-1]


async def add_folded(store: CloudStore) -> Rules:
    """Store tag rules under the canonical forms of their tags too, and return those under former spellings.

    The returned rules are needed as long as uses are counted under former spellings; `fold` deletes them. Raises `Unavailable`.
    """
    former: dict[str, TagRule] = {}

    def decide(rules: Rules) -> Amendment:
        former.clear()
        former.update(_former_rules(rules))
        return Amendment(rules=tuple(_differences(rules, {**former, **folded(rules)})))

    await amend(store, decide)
    return former


async def fold(store: CloudStore, former: Rules) -> None:
    """Delete the rules under former spellings (`former`), and store the other rules under the canonical forms of their tags.

    A rule that an admin has changed since `add_folded` is kept. Raises `Unavailable`.
    """

    def decide(rules: Rules) -> Amendment:
        others = {name: rule for name, rule in rules.items() if rule != former.get(name)}
        return Amendment(rules=tuple(_differences(rules, folded(others))))

    await amend(store, decide)


def folded(rules: Rules) -> dict[str, TagRule]:
    """Return tag rules by the canonical forms of their tags.

    Of two rules for spellings of one tag, a denial takes precedence. In the result, no merge target is merged itself.
    """
    denied = {_canonical(name) for name, rule in rules.items() if rule.denied}
    targets: dict[str, str] = {}
    for name, rule in sorted(rules.items()):
        tag, target = _canonical(name), _canonical(rule.target)
        if target not in ("", tag) and tag not in denied:
            targets.setdefault(tag, target)
    found = {name: TagRule(name, denied=True) for name in denied}
    for name, first in targets.items():
        target, passed = first, {name}
        while target in targets and target not in passed:
            passed.add(target)
            target = targets[target]
        if target not in passed:
            found[name] = TagRule(name, target=target)
    return found


def _canonical(name: str) -> str:
    return canonical_tag(name) or name


def _former_rules(rules: Rules) -> dict[str, TagRule]:
    """Return the new rules for former spellings: the rule of the canonical form, or a merge into the canonical form."""
    after = folded(rules)
    former: dict[str, TagRule] = {}
    for name, rule in rules.items():
        if (tag := _canonical(name)) == name:
            continue
        if tag in after:
            former[name] = replace(after[tag], name=name)
        elif _canonical(rule.target) == tag:
            former[name] = TagRule(name, target=tag)
    return former


def _differences(rules: Rules, after: Rules) -> list[TagRule]:
    """Return the rules that change from `rules` to `after`. A deleted rule is returned as a rule without effect."""
    return [
        after.get(name, TagRule(name)) for name in rules.keys() | after.keys() if rules.get(name) != after.get(name)
    ]


def _target(rules: Rules, name: str) -> str:
    return rules[name].target if name in rules else ""


def _count(names: list[str]) -> str:
    return "counts" if len(names) == 1 else "count"
