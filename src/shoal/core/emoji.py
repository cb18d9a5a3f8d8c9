"""Normalization of emoji to the one form that Shoal stores.

An emoji is what Unicode recommends for general interchange (RGI): a single character or a sequence, such as a flag, a keycap, an
emoji with a skin tone or several joined emoji. Senders may leave out variation selectors, so several texts represent one emoji:

    "❤"  U+2764          -> "❤️"  U+2764 U+FE0F
    "❤️"  U+2764 U+FE0F   -> unchanged
"""

from __future__ import annotations

from emoji import EMOJI_DATA, STATUS

from shoal.core.errors import InvalidInput

_SELECTOR = "\ufe0f"
"""VARIATION SELECTOR-16: the preceding character is displayed as an emoji rather than as text."""
_WHOLE = {
    text.replace(_SELECTOR, ""): text
    for text, facts in EMOJI_DATA.items()
    if facts["status"] == STATUS["fully_qualified"]
}


def checked_emoji(text: str) -> str:
    """Return the fully qualified form of an emoji. Raises `InvalidInput` unless the text is exactly one emoji."""
    found = _WHOLE.get(text.replace(_SELECTOR, ""))
    if found is None:
        raise InvalidInput("must be a single emoji", field="emoji")
    return found
