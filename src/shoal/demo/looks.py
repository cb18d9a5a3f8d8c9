"""The looks of people, as tables and a draw: skin, hair, clothes and backdrops that go together."""

from __future__ import annotations

from random import Random

from shoal.demo.model import Look

SKINS = ("#fbdcc4", "#f6cba8", "#eab98f", "#d9a06f", "#c08552", "#9c6440", "#7a4a30", "#5a3524")
"""Skin tones from the lightest to the darkest; each culture has a range of them."""

DARK_HAIR = ("#17141a", "#241a1c", "#33221d", "#1d1a24")
FAIR_HAIR = ("#5b3a24", "#7c4f2a", "#a5682f", "#c98f4a", "#e0b86e", "#b4502a", "#3b2820")
GREY_HAIR = ("#b9b4b1", "#d8d4d0", "#8e8a8c")
DYED_HAIR = ("#c9577f", "#3f8f8c", "#7a5cc0", "#d97b3a")

SOFT_STYLES = ("long", "waves", "bob", "fringe", "bun", "ponytail", "braids", "curls", "side", "curly")
SHORT_STYLES = (
    "crop",
    "side",
    "quiff",
    "curly",
    "shaggy",
    "crop",
    "side",
    "quiff",
    "shaggy",
    "curly",
    "balding",
    "bun",
)
TIGHT_STYLES = ("afro", "curls", "crop", "braids", "bun")
CLOTHES = ("crew", "vneck", "shirt", "hood", "turtle", "stripes", "blazer", "crew")
CLOTH_COLOURS = (
    "#2f5d73",
    "#d9653b",
    "#3f7d5c",
    "#8a3f5f",
    "#e2a83c",
    "#4b4f8f",
    "#c94f4f",
    "#2b3a4f",
    "#6a8f9e",
    "#7d5a8c",
    "#e8e1d3",
    "#b5714a",
)
BACKDROPS = (
    ("#fde2c8", "#f3a98c"), ("#cfe8ea", "#86b9c9"), ("#fbe8a8", "#f2b866"), ("#dcd6f2", "#a79bd6"), ("#d6ecd0", "#8dbf98"),
    ("#fbd3dc", "#e794aa"), ("#cfdcf3", "#8aa6d8"), ("#f1e6d6", "#cdb291"), ("#2f4a68", "#1d2c48"), ("#c9f0e2", "#6cc0aa"),
)  # fmt: skip


def cast(dice: Random, tones: tuple[int, int], *, soft: bool, fair: bool = False, wrapped: str = "") -> Look:
    """A look for somebody whose skin is between two rows of `SKINS`; `fair` if their hair may be,
    and `wrapped` a scarf or a turban they wear.
    """
    tone = dice.randint(*tones)
    elder = dice.random() < 0.14
    tight = tone >= 6 and dice.random() < 0.8
    styles = TIGHT_STYLES if tight else SOFT_STYLES if soft else SHORT_STYLES
    style = dice.choice(styles[:3] if tight and not soft else styles)
    hat = wrapped or (
        dice.choice(("beanie", "cap", "straw"))
        if dice.random() < 0.13 and style not in {"bun", "afro", "quiff"}
        else ""
    )
    beard = "full" if wrapped == "turban" else ""
    if not soft and not beard and dice.random() < 0.5:
        beard = dice.choice(("stubble", "full", "goatee", "full", "stubble", "long"))
    return Look(
        skin=SKINS[tone],
        hair=style,
        hair_colour=_hair_colour(dice, fair=fair, elder=elder, soft=soft),
        beard=beard,
        glasses=dice.choice(("round", "square", "gold", "red")) if dice.random() < 0.3 else "",
        earrings=soft and dice.random() < 0.5,
        hat=hat,
        clothing=dice.choice(CLOTHES),
        clothing_colour=dice.choice(CLOTH_COLOURS),
        backdrop=dice.choice(BACKDROPS),
        mouth=dice.choice(("smile", "smile", "grin", "grin", "laugh" if tone < 7 else "grin")),
        soft=soft,
        freckles=fair and dice.random() < 0.2,
        elder=elder,
    )


def _hair_colour(dice: Random, *, fair: bool, elder: bool, soft: bool) -> str:
    if elder:
        return dice.choice(GREY_HAIR)
    if soft and dice.random() < 0.07:
        return dice.choice(DYED_HAIR)
    return dice.choice(FAIR_HAIR if fair else DARK_HAIR)
