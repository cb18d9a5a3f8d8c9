"""Texts drawn from the tables of sentences: no sentence comes back before its table is used up."""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from shoal.demo import abroad, captions, musings, replies

_EITHER = re.compile(r"\{([^{}]*)\}")


def expand(dice: Random, text: str) -> str:
    """Replace every `{a|b}` by one of its words."""
    return _EITHER.sub(lambda found: dice.choice(found[1].split("|")), text)


class Said(NamedTuple):
    """A text, its language, and the answers that fit this one text."""

    text: str
    language: str = "en"
    answers: tuple[str, ...] = ()


class PlanWriter:
    """Writes everything of one plan, and remembers what was said."""

    def __init__(self, dice: Random) -> None:
        self._dice = dice
        self._decks: dict[str, list[str]] = {}
        self._rounds: dict[str, int] = {}

    def freshest(self, tables: Sequence[str]) -> str:
        """Choose one of the tables that were used up least often; the fuller ones are likelier."""
        rounds = [self._rounds.get(name, 0) for name in tables]
        least = [name for name, count in zip(tables, rounds, strict=True) if count == min(rounds)]
        return self._dice.choices(least, [1 + len(self._deck(name)) for name in least])[0]

    def is_fresh(self, table: str) -> bool:
        """Return whether some of the table was never used."""
        return not self._rounds.get(table)

    def draw(self, table: str) -> Said:
        """Draw a text from a table: `text/<interest>`, `photo/<kind>`, `photo/<kind>/<mood>`, `abroad/<language>` or a
        reply's.
        """
        deck = self._deck(table)
        text, *answers = expand(self._dice, deck.pop()).split(" >> ")
        if not deck:
            del self._decks[table]
            self._rounds[table] = self._rounds.get(table, 0) + 1
        return Said(text, answers=tuple(answers))

    def abroad(self, language: str) -> tuple[str, Said] | None:
        """Draw a post in another language and its subject (`kind/mood` or an interest); None when all were used."""
        if language not in abroad.POSTS or self._rounds.get(f"abroad/{language}"):
            return None
        about, _, text = self.draw(f"abroad/{language}").text.partition("\n")
        return about, Said(text, language)

    def reply(self, language: str, fitting: list[str], kind: str, spoken: str) -> Said:
        """Write the answer of somebody whose language is `spoken`; it takes one that fits the text, or the kind of
        photo.
        """
        if language == spoken != "en" and self._dice.random() < 0.8:
            return Said(self.draw(f"reply/{spoken}").text, spoken)
        if fitting and self._dice.random() < 0.75:
            return Said(fitting.pop())
        if language == "en" and kind and self._dice.random() < 0.7:
            return self.draw(f"reply/{kind}")
        return self.draw("reply/anything")

    def onward(self, before: str, *, author: bool) -> Said:
        """Write the answer of a post's author, or of a third person, to a comment."""
        asked = before.rstrip().endswith(("?", "？", "؟"))
        return self.draw(f"reply/{'author' if author else 'onward'}{'_asked' if asked else ''}")

    def _deck(self, table: str) -> list[str]:
        if table not in self._decks:
            pool = _table(table)
            self._decks[table] = self._dice.sample(pool, len(pool))
        return self._decks[table]


_REPLIES = {
    "anything": replies.TO_ANYTHING,
    "author": replies.FROM_AUTHOR,
    "author_asked": replies.AUTHOR_ON_QUESTION,
    "onward": replies.ONWARD,
    "onward_asked": replies.ONWARD_ON_QUESTION,
    **replies.TO_PHOTO,
    **abroad.REPLIES,
}


def _table(name: str) -> tuple[str, ...]:
    family, _, rest = name.partition("/")
    if family == "text":
        return musings.MUSINGS[rest]
    if family == "photo":
        return captions.CAPTIONS[rest] if rest in captions.CAPTIONS else captions.MOOD_CAPTIONS[rest]
    if family == "abroad":
        return tuple(f"{about}\n{text}" for about, text in abroad.POSTS[rest])
    return _REPLIES[rest]
