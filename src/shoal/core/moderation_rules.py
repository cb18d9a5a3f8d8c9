"""Moderation rules without code: conditions on new posts, edits, profiles and uploads, each rule with an action.

A rule applies if all of its conditions are met. Words and phrases are compared as in search (`core/tokenizer.py`): whole words,
without case, accents and invisible characters. In a word with Latin letters, letters of other scripts count as the Latin letters
that they look like. The rules are compiled into one index of phrases and one of domains, so checking a text takes time linear in
its length, regardless of the number of rules. Only armed rules have an effect.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Literal, get_args

import msgspec
import numpy as np
import regex
from msgspec.structs import replace

from shoal.core.blocklists import MAX_DOMAIN, ascii_domain, check_domain
from shoal.core.blurhash import components, detail
from shoal.core.errors import InvalidInput, NotFound, Unfit
from shoal.core.model import Node
from shoal.core.publishing import ALLOW, MAX_REASON, Candidate, Decision, HeldKind, strictest
from shoal.core.text import check_text, normalized, parse
from shoal.core.tokenizer import clause_of, tokens_of

MAX_RULES = 100
MAX_NAME = 100
MAX_WORDS = 200
"""Maximum words and phrases of a rule."""
MAX_PHRASE = 100
"""Maximum characters of a phrase."""
MAX_DOMAINS = 200
MAX_LINKS = 100
MAX_AGE_DAYS = 3_650
MAX_POSTS = 1_000
MAX_BURST = 100
MAX_BYTES = 200_000
"""Maximum encoded size of all rules together: they are one object, and the smallest limit of a store is 400 KB."""
DRY_RUN_VALID_DAYS = 7
"""Maximum age of the dry run of a rule that is armed."""
BURST_SECONDS = 600
DAY_SECONDS = 86_400
DAY_MS = 1_000 * DAY_SECONDS

RuleAction = Literal["hold", "reject"]
PictureMatch = Literal["", "same", "similar"]

_DISTANCES: dict[PictureMatch, float] = {"same": 0.06, "similar": 0.12}
"""Maximum distance of the blurhashes of two pictures."""
_LEAST_DETAIL = 0.06
"""Pictures with less detail, such as plain surfaces, resemble too many others. They match nothing."""


_HOST = re.compile("://([^/?#:]*)")
_IGNORED_IN_HOSTS = regex.compile(r"\p{Default_Ignorable_Code_Point}+")
_MAX_TYPED_HOST = 4 * MAX_DOMAIN
_JSON_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"')


class RuleState(StrEnum):
    OFF = "off"
    DRY_RUN = "dry_run"
    """Evaluated and counted, without effect."""
    ARMED = "armed"


class Conditions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The conditions of a rule, which apply together. Empty values, and zeros, are no condition."""

    words: tuple[str, ...] = ()
    """The text has at least one of these words or phrases."""
    domains: tuple[str, ...] = ()
    """At least one link leads to one of these domains or their subdomains."""
    more_links_than: int | None = None
    younger_than_days: int = 0
    """The member joined fewer days ago or, if `fewer_posts_than` is given too, has fewer posts."""
    fewer_posts_than: int = 0
    more_posts_than: int = 0
    """The member has posted more than this number of times in ten minutes, with this post."""
    like_removed: PictureMatch = ""
    """A picture looks like one of a post that moderators hid."""


class DryRun(msgspec.Struct, frozen=True, array_like=True):
    """The result of the last dry run of a rule, over stored posts. Times are in Unix milliseconds."""

    at: int
    since: int
    """The oldest post that was checked may be this old."""
    posts: int
    hits: int


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    id: int
    name: str
    """For moderators, and the reason of a hold."""
    action: RuleAction
    conditions: Conditions
    kinds: tuple[HeldKind, ...] = ("post", "edit")
    reason: str = ""
    """The reason that the author of rejected content reads."""
    state: RuleState = RuleState.OFF
    dry_run: DryRun | None = None
    """The last dry run of these conditions; None if there was none."""


class StoredRules(Node, frozen=True, tag="moderation_rules"):
    """All rules of a network, in the order in which they were created."""

    rules: tuple[Rule, ...] = ()
    last_id: int = 0

    def rule(self, rule_id: int) -> Rule:
        """Return the rule with this id. Raises `NotFound`."""
        for rule in self.rules:
            if rule.id == rule_id:
                return rule
        raise NotFound(f"there is no moderation rule {rule_id}")

    def with_rule(self, rule: Rule) -> StoredRules:
        """Return the rules with a new or changed rule. Raises `Unfit` if there are too many, or if they are too large."""
        if any(rule.id == each.id for each in self.rules):
            rules = tuple(rule if rule.id == each.id else each for each in self.rules)
        elif len(self.rules) >= MAX_RULES:
            raise Unfit(f"there are {MAX_RULES} moderation rules already, which is the maximum")
        else:
            rules = (*self.rules, rule)
        size = len(msgspec.msgpack.encode(rules))
        if size > MAX_BYTES:
            raise Unfit(f"all moderation rules together have at most {MAX_BYTES} bytes (got {size}): use fewer words")
        return replace(self, rules=rules, last_id=max(self.last_id, rule.id))

    def without(self, rule_id: int) -> StoredRules:
        return replace(self, rules=tuple(rule for rule in self.rules if rule.id != rule_id))


class RuleDraft(msgspec.Struct, frozen=True, kw_only=True):
    """A new or changed rule, as given by an admin."""

    name: str
    action: RuleAction = "hold"
    conditions: Conditions = Conditions()
    kinds: tuple[HeldKind, ...] = ("post", "edit")
    reason: str = ""

    def checked(self) -> RuleDraft:
        """Return the draft in normalized form. Raises `InvalidInput`, which names the field and its allowed values."""
        name = check_text(self.name, field="name", maximum=MAX_NAME)
        reason = check_text(self.reason, field="reason", maximum=MAX_REASON)
        if not name:
            raise InvalidInput("name: this must not be empty", field="name")
        if self.action not in get_args(RuleAction):
            raise InvalidInput(f"action: must be hold or reject (got {self.action!r})", field="action")
        if self.action == "reject" and not reason:
            raise InvalidInput("reason: a rule that rejects needs a reason for the author", field="reason")
        known = get_args(HeldKind)
        if not self.kinds or not set(self.kinds) <= set(known):
            raise InvalidInput(f"kinds: at least one of {', '.join(known)}", field="kinds")
        kinds: tuple[HeldKind, ...] = tuple(kind for kind in known if kind in self.kinds)
        return replace(self, name=name, reason=reason, kinds=kinds, conditions=checked_conditions(self.conditions))


def checked_conditions(given: Conditions) -> Conditions:
    """Return conditions in normalized form. Raises `InvalidInput` if there is none, or if one is invalid."""
    found = replace(given, words=checked_words(given.words), domains=checked_domains(given.domains))
    for name, value, most in (
        ("more_links_than", given.more_links_than or 0, MAX_LINKS),
        ("younger_than_days", given.younger_than_days, MAX_AGE_DAYS),
        ("fewer_posts_than", given.fewer_posts_than, MAX_POSTS),
        ("more_posts_than", given.more_posts_than, MAX_BURST),
    ):
        if not 0 <= value <= most:
            raise InvalidInput(f"{name}: must be 0 to {most} (got {value})", field=name)
    if given.like_removed not in get_args(PictureMatch):
        raise InvalidInput(f"like_removed: must be same or similar (got {given.like_removed!r})", field="like_removed")
    if found == Conditions():
        raise InvalidInput(f"conditions: at least one of {', '.join(Conditions.__struct_fields__)}", field="conditions")
    return found


def checked_words(given: Iterable[str]) -> tuple[str, ...]:
    """Return distinct words and phrases without surrounding spaces. Raises `InvalidInput`."""
    typed = (check_text(" ".join(word.split()), field="words", maximum=MAX_PHRASE) for word in given)
    words = tuple(dict.fromkeys(filter(None, typed)))
    _check_number("words", words, MAX_WORDS)
    for word in words:
        if clause_of(_plain(word)) is None:
            raise InvalidInput(f"words: {word!r} has neither letters nor digits", field="words")
    return words


def checked_domains(given: Iterable[str]) -> tuple[str, ...]:
    """Return distinct domains in ASCII. Raises `InvalidInput`."""
    found: dict[str, None] = {}
    for text in filter(None, map(str.strip, given)):
        try:
            found[check_domain(text)] = None
        except InvalidInput:
            raise InvalidInput(f"domains: {text!r} is not a domain, such as example.org", field="domains") from None
    _check_number("domains", tuple(found), MAX_DOMAINS)
    return tuple(found)


def _check_number(field: str, values: Sequence[str], most: int) -> None:
    if len(values) > most:
        raise InvalidInput(f"{field}: at most {most} (got {len(values)})", field=field)


def changed(rule: Rule, draft: RuleDraft) -> Rule:
    """Return the rule with the values of a checked draft.

    Its dry run belongs to the former conditions, so other conditions need another one. Until then, an armed rule has no effect.
    """
    same = (draft.conditions, draft.kinds) == (rule.conditions, rule.kinds)
    return replace(
        rule,
        name=draft.name,
        action=draft.action,
        reason=draft.reason,
        conditions=draft.conditions,
        kinds=draft.kinds,
        dry_run=rule.dry_run if same else None,
        state=rule.state if same or rule.state is not RuleState.ARMED else RuleState.DRY_RUN,
    )


def with_state(rule: Rule, state: RuleState, now: int) -> Rule:
    """Return the rule in another state. Raises `Unfit` for arming it without a recent dry run. `now` is in Unix milliseconds."""
    if state is RuleState.ARMED and rule.state is not RuleState.ARMED:
        if rule.dry_run is None:
            raise Unfit(f"do a dry run of rule {rule.id} before you arm it: there is none of its current conditions")
        if rule.dry_run.at < now - DRY_RUN_VALID_DAYS * DAY_MS:
            raise Unfit(f"do a dry run of rule {rule.id} again: the last one is older than {DRY_RUN_VALID_DAYS} days")
    return replace(rule, state=state)


# Combining marks that any letter may have (Inherited) are accents, except the voiced sound marks of kana. Characters that are never
# displayed (Default_Ignorable_Code_Point, Cf) could otherwise divide a word. The tokenizer, by which search indexes are stored,
# removes only the usual ones.
_UNSEEN = regex.compile(r"(?![\u3099\u309a])[\p{Default_Ignorable_Code_Point}\p{Cf}\p{Script=Inherited}]")


def _plain(text: str) -> str:
    return text if text.isascii() else _UNSEEN.sub("", text)


_SMALL_CAPITALS = str.maketrans("ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢ", "abcdefghijklmnoprstuvwyz")
_LOOK_ALIKES = str.maketrans("авьсԁеһніјкӏмпорԛгѕтѵԝхуαβεηικμνορτυχγζ", "abbcdehhijklmnopqrstvwxyabenikmvoptuxyz")
"""Cyrillic and Greek letters, and the Latin letters that they look like in a word of Latin letters."""
_LATIN = re.compile("[a-z]")


def _latin(word: str) -> str:
    if word.isascii():
        return word
    word = word.translate(_SMALL_CAPITALS)
    return word.translate(_LOOK_ALIKES) if _LATIN.search(word) else word


class _PhraseNode:
    __slots__ = ("found", "next", "opens")

    def __init__(self) -> None:
        self.next: dict[str, _PhraseNode] = {}
        self.found: set[int] = set()
        """Owners of the phrases that end here."""
        self.opens: dict[str, set[int]] = {}
        """Owners of the phrases that end with the beginning of the next word: a single character of a script without spaces."""


class PhraseIndex:
    """An index of words and phrases, each with the number of its owner."""

    def __init__(self) -> None:
        self._root = _PhraseNode()

    def add(self, phrase: str, owner: int) -> None:
        clause = clause_of(_plain(phrase))
        if clause is None:
            return
        node = self._root
        for word in clause.words[:-1] if clause.open else clause.words:
            node = node.next.setdefault(_latin(word), _PhraseNode())
        if clause.open:
            node.opens.setdefault(clause.words[-1], set()).add(owner)
        else:
            node.found.add(owner)

    def owners(self, text: str) -> set[int]:
        """Return the owners of the phrases in a text. Each word of the text takes at most as many steps as a phrase has words."""
        found: set[int] = set()
        if not (self._root.next or self._root.opens):
            return found
        words = [_latin(word) for word in tokens_of(_plain(text))]
        for start in range(len(words)):
            node: _PhraseNode | None = self._root
            at = start
            while node is not None and at < len(words):
                if node.opens:
                    found |= node.opens.get(words[at][0], set())
                node = node.next.get(words[at])
                if node is not None:
                    found |= node.found
                at += 1
        return found


class DomainIndex:
    """An index of domains, each with the number of its owner."""

    def __init__(self) -> None:
        self._owners: dict[str, set[int]] = {}

    def add(self, domain: str, owner: int) -> None:
        self._owners.setdefault(domain, set()).add(owner)

    def owners(self, links: Iterable[str]) -> set[int]:
        """Return the owners of the domains to which the links lead, or below which they lead."""
        found: set[int] = set()
        if not self._owners:
            return found
        for host in set(map(host_of, links)):
            labels = host.split(".")
            for start in range(len(labels)):
                found |= self._owners.get(".".join(labels[start:]), set())
        return found


def host_of(link: str) -> str:
    """Return the host of a link in a text, in lower case and ASCII, as browsers read it; empty for one that DNS cannot have."""
    found = _HOST.search(link)
    host = _IGNORED_IN_HOSTS.sub("", found[1] if found else "")
    # Limit the length before and after each step, whose time may be quadratic.
    host = normalized("NFKC", host).rstrip(".") if len(host) <= _MAX_TYPED_HOST else ""
    return ascii_domain(host) if len(host) <= MAX_DOMAIN else ""


class PictureIndex:
    """The blurhashes of pictures, for finding look-alikes."""

    def __init__(self, blurhashes: Iterable[str]) -> None:
        rows: dict[int, list[tuple[float, ...]]] = {}
        for blurhash in dict.fromkeys(blurhashes):
            if (found := components(blurhash)) and detail(blurhash) >= _LEAST_DETAIL:
                rows.setdefault(len(found), []).append(found)
        self._rows = {length: np.array(found) for length, found in rows.items()}

    def has(self, blurhash: str, how: PictureMatch) -> bool:
        """Return whether a picture with this blurhash looks like one of the pictures."""
        return is_alike(self.nearest(blurhash), how)

    def nearest(self, blurhash: str) -> float:
        """Return the distance to the nearest picture; infinite if there is none, and for a picture without detail."""
        found = components(blurhash)
        rows = self._rows.get(len(found))
        if rows is None or detail(blurhash) < _LEAST_DETAIL:
            return math.inf
        apart = np.linalg.norm(rows[:, 1:] - np.array(found[1:]), axis=1)
        apart[rows[:, 0] != found[0]] = np.inf
        return float(apart.min())


def is_alike(distance: float, how: PictureMatch) -> bool:
    return distance <= _DISTANCES.get(how, -1.0)


class CompiledRules:
    """Rules prepared for checking content.

    Args:
        rules: The rules. Rules that are off are ignored.
        removed: The blurhashes of pictures that moderators removed.
    """

    def __init__(self, rules: Sequence[Rule], removed: Iterable[str] = ()) -> None:
        self.rules = tuple(rule for rule in rules if rule.state is not RuleState.OFF)
        self._phrases = PhraseIndex()
        self._domains = DomainIndex()
        self._removed = PictureIndex(removed)
        for number, rule in enumerate(self.rules):
            for word in rule.conditions.words:
                self._phrases.add(word, number)
            for domain in rule.conditions.domains:
                self._domains.add(domain, number)

    def matching(self, candidate: Candidate, now: float) -> list[Rule]:
        """Return the rules that match, armed or not, in order. `now` is in Unix seconds."""
        if not self.rules:
            return []
        candidate = _with_data(candidate)
        with_words = self._phrases.owners(candidate.text)
        with_domains = self._domains.owners(candidate.links)
        nearest = min((self._removed.nearest(media.blurhash) for media in candidate.media), default=math.inf)
        return [
            rule
            for number, rule in enumerate(self.rules)
            if (candidate.kind in rule.kinds or (candidate.in_post and "edit" in rule.kinds))
            and (not rule.conditions.words or number in with_words)
            and (not rule.conditions.domains or number in with_domains)
            and _fits(rule.conditions, candidate, now)
            and (not rule.conditions.like_removed or is_alike(nearest, rule.conditions.like_removed))
        ]


def texts_in(json: str) -> str:
    """Return the strings in a JSON text, including the names of properties, one on each line."""
    # Find the strings without decoding the whole, which may be deeply nested.
    return "\n".join(msgspec.json.decode(each, type=str) for each in _JSON_STRING.findall(json))


def _with_data(candidate: Candidate) -> Candidate:
    """Return a candidate whose texts and links include those of its data: apps may show them."""
    if not candidate.data:
        return candidate
    text = texts_in(candidate.data)
    links = [span.value for span in parse(text) if span.kind == "link"]
    return replace(candidate, text=f"{candidate.text}\n{text}", links=tuple(dict.fromkeys((*candidate.links, *links))))


def _fits(conditions: Conditions, candidate: Candidate, now: float) -> bool:
    """Return whether a candidate meets the conditions on numbers."""
    if conditions.more_links_than is not None and len(candidate.links) <= conditions.more_links_than:
        return False
    if conditions.more_posts_than and candidate.recent_posts + (candidate.kind == "post") <= conditions.more_posts_than:
        return False
    days, posts = conditions.younger_than_days, conditions.fewer_posts_than
    if not days and not posts:
        return True
    young = now - candidate.member_created_at < days * DAY_SECONDS
    return (bool(days) and young) or (bool(posts) and candidate.member_posts < posts)


def decision(matching: Iterable[Rule]) -> Decision:
    """Return what the armed ones of the matching rules decide together."""
    decisions = [
        Decision(rule.action, rule.reason if rule.action == "reject" else rule.name, rule.name)
        for rule in matching
        if rule.state is RuleState.ARMED
    ]
    return strictest(decisions) if decisions else ALLOW
