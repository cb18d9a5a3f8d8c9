"""Reactions that an application declares, such as `cooked` or `going`, in addition to likes and emoji.

A post stores them in the same way as emoji, by their names, which are ASCII. No emoji is.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import get_type_hints

import msgspec
from msgspec.structs import replace

from shoal.core.errors import InvalidInput, NotFound, Unfit
from shoal.core.kinds import is_kind_name
from shoal.core.model import Node
from shoal.core.text import as_text, is_blank

MAX_ACTIVE = 32
MAX_DECLARED = 100
"""Reactions with the retired ones."""
MAX_TITLE = 50
MAX_KINDS = 100
MAX_WEIGHT = 10.0
MAX_FILE_BYTES = 16 * 1024
MAX_AT_ONCE = 20
"""Reactions that are declared in one commit, which has an entry of the audit log for each."""

_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
_RESERVED = frozenset({"likes", "shares"})
"""Names of other lists of members in the web app."""


def is_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None


def is_named(text: str) -> bool:
    """Return whether a reaction of a post is a declared one, rather than an emoji."""
    return text.isascii()


class Reaction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A reaction that the application declared."""

    name: str
    """1 to 32 of the characters a-z, 0-9 and _, beginning with a letter. It never changes."""
    title: str
    """The text of its button, at most 50 characters."""
    group: str = ""
    """Of the reactions of a group, a member has at most one on a post; empty for none. It never changes."""
    kinds: tuple[str, ...] = ()
    """The kinds of posts to which it applies; empty for all posts."""
    weight: float = 0.0
    """How much it counts in rankings, relative to a like; 0 to 10."""
    retired: bool = False
    """Whether members can no longer add it. Existing reactions stay, and can be removed."""

    def checked(self) -> Reaction:
        """Return the reaction with a normalized title. Raises `InvalidInput`, which names the field and its allowed values."""
        return _typed(self)._checked()

    def _checked(self) -> Reaction:
        for field, name in (("name", self.name), ("group", self.group)):
            if not is_name(name) and (field == "name" or name):
                raise InvalidInput(
                    f"{field}: must have 1 to 32 of the characters a-z, 0-9 and _, beginning with a letter"
                    f" (got {name[:100]!r})",
                    field=field,
                )
        if self.name in _RESERVED:
            raise InvalidInput(f"name: must not be {self.name!r}, which is reserved", field="name")
        title = " ".join(as_text(self.title).split())
        if is_blank(title) or len(title) > MAX_TITLE:
            raise InvalidInput(f"title: must have 1 to {MAX_TITLE} characters (got {len(title)})", field="title")
        if len(self.kinds) > MAX_KINDS:
            raise InvalidInput(f"kinds: at most {MAX_KINDS} kinds (got {len(self.kinds)})", field="kinds")
        if wrong := [kind for kind in self.kinds if not is_kind_name(kind)]:
            raise InvalidInput(f"kinds: must be names of kinds (got {wrong[0][:100]!r})", field="kinds")
        if not 0 <= self.weight <= MAX_WEIGHT:
            raise InvalidInput(f"weight: must be from 0 to {MAX_WEIGHT:g} (got {self.weight:g})", field="weight")
        return replace(self, title=title, kinds=tuple(sorted(set(self.kinds))), weight=abs(self.weight))

    def applies_to(self, kind: str) -> bool:
        """Return whether members can add the reaction to a post of this kind (empty: a post without a kind)."""
        return not self.retired and (not self.kinds or kind in self.kinds)


def _typed(draft: Reaction) -> Reaction:
    """Return a reaction whose values have the declared types, which constructors do not check. Raises `InvalidInput`."""
    for field in Reaction.__struct_fields__:
        value = getattr(draft, field)
        try:
            converted = msgspec.convert(msgspec.to_builtins(value), _TYPES[field])
        except (msgspec.ValidationError, TypeError, OverflowError, RecursionError) as error:
            raise InvalidInput(f"{field}: {error}", field=field) from None
        draft = replace(draft, **{field: converted})
    return draft


_TYPES = get_type_hints(Reaction)


def check_drafts(drafts: Sequence[Reaction]) -> list[Reaction]:
    """Return reactions to declare together, each `checked`. Raises `InvalidInput`."""
    if not 0 < len(drafts) <= MAX_AT_ONCE:
        raise InvalidInput(f"reactions: must be 1 to {MAX_AT_ONCE} reactions (got {len(drafts)})", field="reactions")
    checked = [draft.checked() for draft in drafts]
    if repeated := [name for name, n in Counter(each.name for each in checked).items() if n > 1]:
        raise InvalidInput(f"reactions: {repeated[0]} is declared twice", field="reactions")
    return checked


class StoredReactions(Node, frozen=True, tag="reactions", kw_only=True):
    """All declared reactions of a network, in the order of their declaration."""

    reactions: tuple[Reaction, ...] = ()

    def find(self, name: str) -> Reaction | None:
        return next((each for each in self.reactions if each.name == name), None)

    def get(self, name: str) -> Reaction:
        """Return a reaction. Raises `NotFound`."""
        found = self.find(name)
        if found is None:
            raise NotFound(f"there is no reaction {name[:100]!r}")
        return found

    def usable(self, name: str, kind: str) -> Reaction:
        """Return a reaction that members can add to a post of this kind. Raises `NotFound` and `InvalidInput`."""
        found = self.get(name)
        if found.retired:
            raise InvalidInput(f"the reaction {name} is retired", field="name")
        if not found.applies_to(kind):
            raise InvalidInput(f"the reaction {name} is for posts of the kinds {', '.join(found.kinds)}", field="name")
        return found

    def excluded_by(self, reaction: Reaction) -> frozenset[str]:
        """Return the names of the other reactions of its group."""
        return frozenset(
            each.name
            for each in self.reactions
            if reaction.group and each.group == reaction.group and each.name != reaction.name
        )

    def favor(self, texts: Iterable[str]) -> bool:
        """Return whether reactions show interest: emoji do, and declared reactions with a weight."""
        weights = self.weights
        return any(not is_named(each) or each in weights for each in texts)

    @property
    def weights(self) -> Mapping[str, float]:
        """The weights by name, without those that are 0."""
        return {each.name: each.weight for each in self.reactions if each.weight}

    def with_reaction(self, draft: Reaction) -> StoredReactions:
        """Add a reaction, or change the one with its name. Raises `InvalidInput`, and `Unfit` for another group."""
        new, old = draft.checked(), self.find(draft.name)
        if old is not None and new.group != old.group:
            raise Unfit(
                f"group: cannot be changed (from {old.group!r} to {new.group!r}); retire {new.name}, and declare"
                " a reaction with another name",
                field="group",
            )
        changed = (
            (*self.reactions, new) if old is None else tuple(new if each is old else each for each in self.reactions)
        )
        if sum(not each.retired for each in changed) > MAX_ACTIVE:
            raise Unfit(f"there are {MAX_ACTIVE} reactions already, which is the maximum: retire one first")
        if len(changed) > MAX_DECLARED:
            raise Unfit(
                f"there are {MAX_DECLARED} reactions with the retired ones already, which is the maximum:"
                " declare a retired one again, with another title"
            )
        return replace(self, reactions=changed)


def parse_reaction_file(content: bytes, *, toml: bool) -> list[Reaction]:
    """Parse and check the declaration of one reaction, or of several under `reactions`, in TOML or JSON. Raises `InvalidInput`."""
    if len(content) > MAX_FILE_BYTES:
        raise InvalidInput(f"a declaration has at most {MAX_FILE_BYTES} bytes")
    try:
        value = tomllib.loads(content.decode()) if toml else msgspec.json.decode(content)
        several = value["reactions"] if isinstance(value, dict) and value.keys() == {"reactions"} else [value]
        drafts = msgspec.convert(several, list[Reaction])
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.DecodeError, RecursionError) as error:
        raise InvalidInput(str(error)) from None
    return check_drafts(drafts)
