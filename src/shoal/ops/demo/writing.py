"""Turns the tables of sentences into what one person says: no sentence comes back before its table is used up."""

from __future__ import annotations

import re
from random import Random

from shoal.ops.demo import abroad, captions, musings, replies

_EITHER = re.compile(r"\{([^{}]*)\}")


def expand(dice: Random, text: str) -> str:
    """The text with one of the words of every `{a|b}`."""
    return _EITHER.sub(lambda found: dice.choice(found[1].split("|")), text)


class Writer:
    """Writes everything of one plan, and remembers what was said."""

    def __init__(self, dice: Random) -> None:
        self._dice = dice
        self._decks: dict[str, list[str]] = {}

    def caption(self, kind: str, mood: str) -> str:
        """What goes under a photo."""
        own = captions.MOOD_CAPTIONS.get(f"{kind}/{mood}", ())
        if own and self._dice.random() < 0.4:
            return self._draw(f"{kind}/{mood}", own)
        return self._draw(kind, captions.CAPTIONS[kind])

    def musing(self, interest: str) -> str:
        """A post without a photo."""
        return self._draw(interest, musings.MUSINGS[interest])

    def abroad(self, language: str) -> tuple[str, str] | None:
        """A post in another language: what it is about (`kind/mood` or an interest) and its text; none when all were used."""
        pool = [f"{about}\n{text}" for about, text in abroad.POSTS.get(language, ())]
        if not pool or self._decks.get(f"abroad/{language}") == []:
            return None
        about, text = self._draw(f"abroad/{language}", tuple(pool)).split("\n")
        return about, text

    def reply(self, about: str, language: str) -> tuple[str, str]:
        """An answer to a post about a kind of photo or an interest, and its language."""
        if language != "en" and self._dice.random() < 0.8:
            return self._draw(f"reply/{language}", replies_abroad(language)), language
        fitting = replies.TO_PHOTO.get(about) or replies.TO_TEXT.get(about, ())
        if language == "en" and fitting and self._dice.random() < 0.68:
            return self._draw(f"to/{about}", fitting), "en"
        return self._draw("anything", replies.TO_ANYTHING), "en"

    def thanks(self) -> str:
        """What the author of a post answers to a comment."""
        return self._draw("author", replies.FROM_AUTHOR)

    def onward(self) -> str:
        """What a third person says to a comment."""
        return self._draw("onward", replies.ONWARD)

    def _draw(self, name: str, pool: tuple[str, ...]) -> str:
        deck = self._decks.get(name) or self._dice.sample(pool, len(pool))
        text = deck.pop()
        self._decks[name] = deck
        return expand(self._dice, text)


def replies_abroad(language: str) -> tuple[str, ...]:
    """Answers in a language that `abroad.POSTS` has."""
    return abroad.REPLIES[language]
