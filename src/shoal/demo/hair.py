"""Hair and hats, in two layers: what is behind the head and what is in front of it.

Each style is a table of shapes: the right half from top to bottom where `mirrored`, all points otherwise. The head they fit
spans x 132..268, y 92..264, eyes at y 184, ears at y 192.
"""

from __future__ import annotations

import math

from shoal.demo import hats
from shoal.demo.model import Look
from shoal.demo.sketch import Point, Sketch, mirrored, shade

CAP: tuple[Point, ...] = (
    (200, 78),
    (238, 84),
    (266, 108),
    (276, 150),
    (271, 186),
    (263, 186),
    (262, 160),
    (250, 138),
    (226, 128),
    (200, 126),
)
"""Close hair over the skull with an even hairline."""

FRINGE: tuple[Point, ...] = (
    (200, 76), (242, 84), (270, 112), (278, 160), (274, 196), (264, 190), (262, 166), (246, 150), (222, 156), (198, 150),
    (176, 156), (152, 148), (139, 166), (136, 190), (126, 196), (122, 160), (130, 112), (158, 84),
)  # fmt: skip
PARTED: tuple[Point, ...] = (
    (214, 74), (250, 86), (274, 118), (279, 168), (272, 204), (265, 188), (262, 158), (246, 134), (222, 116), (200, 134),
    (170, 146), (148, 158), (137, 184), (128, 204), (121, 168), (128, 118), (160, 84),
)  # fmt: skip
SWEPT: tuple[Point, ...] = (
    (186, 70), (228, 66), (262, 84), (276, 122), (274, 178), (265, 186), (262, 156), (254, 134), (228, 132), (196, 126),
    (166, 114), (148, 134), (140, 160), (136, 186), (127, 180), (123, 130), (146, 90),
)  # fmt: skip
QUIFF: tuple[Point, ...] = (
    (168, 72), (196, 54), (238, 58), (266, 82), (277, 128), (272, 182), (264, 184), (262, 154), (250, 132), (222, 120),
    (190, 124), (160, 122), (144, 140), (138, 162), (135, 184), (127, 180), (124, 130), (140, 92),
)  # fmt: skip

LONG: tuple[Point, ...] = (
    (200, 72),
    (250, 82),
    (284, 122),
    (292, 190),
    (296, 250),
    (300, 312),
    (276, 340),
    (240, 330),
    (200, 330),
)
BOB: tuple[Point, ...] = ((200, 72), (250, 82), (284, 124), (292, 190), (292, 244), (274, 268), (240, 262), (200, 262))
WAVES: tuple[Point, ...] = (
    (200, 70), (252, 80), (286, 118), (288, 160), (304, 196), (294, 232), (312, 268), (298, 306), (308, 340),
    (270, 352), (200, 340),
)  # fmt: skip
SHAGGY: tuple[Point, ...] = (
    (200, 72),
    (248, 80),
    (280, 116),
    (286, 170),
    (288, 214),
    (276, 238),
    (258, 244),
    (200, 244),
)

FRONTS = {
    "fringe": FRINGE,
    "long": PARTED,
    "waves": PARTED,
    "bob": FRINGE,
    "shaggy": SWEPT,
    "side": SWEPT,
    "quiff": QUIFF,
}
BACKS = {"long": LONG, "fringe": LONG, "waves": WAVES, "bob": BOB, "shaggy": SHAGGY}


def behind(sketch: Sketch, look: Look) -> None:
    """Draw the hair and cloth behind the head."""
    dark = shade(look.hair_colour, -0.22)
    if look.hat == "scarf":
        sketch.shape(
            mirrored(((200, 66), (256, 78), (290, 124), (292, 200), (284, 262), (306, 330), (200, 350))),
            shade(look.clothing_colour, -0.2),
        )
        return
    if look.hair in BACKS:
        sketch.shape(mirrored(BACKS[look.hair]), dark)
    if look.hair == "bun" and not look.hat:
        sketch.oval(200, 62, 36, 32, look.hair_colour)
        sketch.stroke([(176, 70), (200, 52), (222, 66)], shade(look.hair_colour, 0.14), 4, taper=True)
    if look.hair == "ponytail":
        sketch.shape(
            ((250, 110), (300, 128), (318, 190), (306, 262), (322, 310), (288, 300), (274, 236), (280, 170)), dark
        )
    if look.hair == "braids":
        for side in (-1, 1):
            for at in range(9):
                sketch.oval(
                    200 + side * (82 + 3 * math.sin(at)),
                    206 + at * 17,
                    15 - at * 0.4,
                    13,
                    dark if at % 2 else look.hair_colour,
                )
    if look.hair in {"afro", "curls"}:
        _curls(sketch, look, full=look.hair == "curls")


def _curls(sketch: Sketch, look: Look, *, full: bool) -> None:
    """A cloud of round locks about the head, down to the shoulders when `full`."""
    paint = shade(look.hair_colour, -0.12)
    reach = 92 if not full else 88
    sketch.oval(200, 150, reach, reach - 4, paint)
    if full:
        sketch.oval(200, 215, 80, 82, paint)
    for at in range(26):
        angle = math.pi * (0.92 + 1.16 * at / 25) if not full else math.pi * (0.66 + 1.68 * at / 25)
        stretch = 1.0 if math.sin(angle) < 0 or not full else 1.55
        x, y = 200 + math.cos(angle) * reach, 152 + math.sin(angle) * reach * stretch
        sketch.oval(x, y, 19 + at % 3 * 3, 19 + at % 2 * 4, paint if at % 3 else shade(look.hair_colour, -0.2))


def before(sketch: Sketch, look: Look) -> None:
    """Draw the hair over the forehead, and the hat."""
    paint, light = look.hair_colour, shade(look.hair_colour, 0.16)
    if look.hat in {"scarf", "turban"}:
        hats.wrapped(sketch, look)
        return
    if look.hair in FRONTS:
        sketch.shape(FRONTS[look.hair], paint)
        sketch.stroke([(160, 112), (190, 92), (228, 92)], light, 5, taper=True)
        sketch.stroke([(176, 120), (204, 104), (240, 108)], light, 3.5, taper=True)
    elif look.hair in {"bun", "ponytail", "braids"}:
        sketch.shape(
            mirrored(
                (
                    (200, 76),
                    (242, 84),
                    (268, 112),
                    (277, 156),
                    (272, 190),
                    (264, 182),
                    (258, 150),
                    (236, 126),
                    (206, 116),
                    (200, 114),
                )
            ),
            paint,
        )
        for x in (-36, -14, 14, 36):
            sketch.stroke([(200 + x * 0.5, 84), (200 + x * 1.1, 112)], shade(paint, -0.16), 2.4, taper=True)
    elif look.hair in {"crop", "afro"}:
        sketch.shape(mirrored(CAP), paint)
    elif look.hair in {"curls", "curly"}:
        _ringlets(sketch, look)
    elif look.hair == "balding":
        for side in (-1, 1):
            sketch.shape(
                [(200 + side * x, y) for x, y in ((58, 128), (72, 146), (77, 180), (70, 200), (64, 182), (64, 156))],
                paint,
            )
    if look.hat:
        hats.hat(sketch, look)


def _ringlets(sketch: Sketch, look: Look) -> None:
    paint = look.hair_colour
    sketch.shape(
        mirrored(
            ((200, 70), (242, 78), (272, 108), (280, 150), (272, 182), (264, 176), (258, 146), (232, 128), (200, 130))
        ),
        paint,
    )
    for at in range(15):
        angle = math.pi * (0.98 + 1.04 * at / 14)
        x, y = 200 + math.cos(angle) * 70, 150 + math.sin(angle) * 70
        sketch.oval(x, y, 17, 17, paint if at % 2 else shade(paint, 0.07))
    for at in range(8):
        sketch.oval(
            152 + at * 14,
            122 + 8 * abs(at - 3.5) ** 0.8 - 4 * (at % 2),
            14,
            13,
            shade(paint, 0.09) if at % 2 else paint,
        )
