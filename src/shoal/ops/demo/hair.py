"""Hair and hats, in two layers: what is behind the head and what is in front of it.

Each style is a table of shapes: the right half from top to bottom where `mirrored`, all points otherwise. The head they fit
spans x 132..268, y 92..264, eyes at y 184, ears at y 192.
"""

from __future__ import annotations

import math

from shoal.ops.demo.model import Look
from shoal.ops.demo.sketch import Point, Sketch, mirrored, shade

CAP: tuple[Point, ...] = ((200, 78), (238, 84), (266, 108), (276, 150), (271, 186), (263, 186), (262, 160), (250, 138), (226, 128), (200, 126))
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

LONG: tuple[Point, ...] = ((200, 72), (250, 82), (284, 122), (292, 190), (296, 250), (300, 312), (276, 340), (240, 330), (200, 330))
BOB: tuple[Point, ...] = ((200, 72), (250, 82), (284, 124), (292, 190), (292, 244), (274, 268), (240, 262), (200, 262))
WAVES: tuple[Point, ...] = (
    (200, 70), (252, 80), (286, 118), (288, 160), (304, 196), (294, 232), (312, 268), (298, 306), (308, 340), (270, 352), (200, 340),
)  # fmt: skip
SHAGGY: tuple[Point, ...] = ((200, 72), (248, 80), (280, 116), (286, 170), (288, 214), (276, 238), (258, 244), (200, 244))

FRONTS = {"fringe": FRINGE, "long": PARTED, "waves": PARTED, "bob": FRINGE, "shaggy": SWEPT, "side": SWEPT, "quiff": QUIFF}
BACKS = {"long": LONG, "fringe": LONG, "waves": WAVES, "bob": BOB, "shaggy": SHAGGY}


def behind(sketch: Sketch, look: Look) -> None:
    """What hangs or stands behind the head."""
    dark = shade(look.hair_colour, -0.22)
    if look.hat == "scarf":
        sketch.shape(mirrored(((200, 66), (256, 78), (290, 124), (292, 200), (284, 262), (306, 330), (200, 350))), shade(look.clothing_colour, -0.2))
        return
    if look.hair in BACKS:
        sketch.shape(mirrored(BACKS[look.hair]), dark)
    if look.hair == "bun" and not look.hat:
        sketch.oval(200, 62, 36, 32, look.hair_colour)
        sketch.stroke([(176, 70), (200, 52), (222, 66)], shade(look.hair_colour, 0.14), 4, taper=True)
    if look.hair == "ponytail":
        sketch.shape(((250, 110), (300, 128), (318, 190), (306, 262), (322, 310), (288, 300), (274, 236), (280, 170)), dark)
    if look.hair == "braids":
        for side in (-1, 1):
            for at in range(9):
                sketch.oval(200 + side * (82 + 3 * math.sin(at)), 206 + at * 17, 15 - at * 0.4, 13, dark if at % 2 else look.hair_colour)
    if look.hair in {"afro", "curls"}:
        _curls(sketch, look, full=look.hair == "curls")


def _curls(sketch: Sketch, look: Look, *, full: bool) -> None:
    """A cloud of round locks about the head, down to the shoulders when `full`."""
    paint = shade(look.hair_colour, -0.12)
    reach = 92 if not full else 88
    sketch.oval(200, 150, reach, reach - 4, paint)
    for at in range(26):
        angle = math.pi * (0.92 + 1.16 * at / 25) if not full else math.pi * (0.66 + 1.68 * at / 25)
        stretch = 1.0 if math.sin(angle) < 0 or not full else 1.55
        x, y = 200 + math.cos(angle) * reach, 152 + math.sin(angle) * reach * stretch
        sketch.oval(x, y, 19 + at % 3 * 3, 19 + at % 2 * 4, paint if at % 3 else shade(look.hair_colour, -0.2))


def before(sketch: Sketch, look: Look) -> None:
    """What falls over the forehead, and the hat."""
    paint, light = look.hair_colour, shade(look.hair_colour, 0.16)
    if look.hat in {"scarf", "turban"}:
        _wrapped(sketch, look)
        return
    if look.hair in FRONTS:
        sketch.shape(FRONTS[look.hair], paint)
        sketch.stroke([(160, 112), (190, 92), (228, 92)], light, 5, taper=True)
        sketch.stroke([(176, 120), (204, 104), (240, 108)], light, 3.5, taper=True)
    elif look.hair in {"bun", "ponytail", "braids"}:
        sketch.shape(mirrored(((200, 76), (242, 84), (268, 112), (277, 156), (272, 190), (264, 182), (258, 150), (236, 126), (206, 116), (200, 114))), paint)
        for x in (-36, -14, 14, 36):
            sketch.stroke([(200 + x * 0.5, 84), (200 + x * 1.1, 112)], shade(paint, -0.16), 2.4, taper=True)
    elif look.hair in {"crop", "afro"}:
        sketch.shape(mirrored(CAP), paint)
    elif look.hair in {"curls", "curly"}:
        _ringlets(sketch, look)
    elif look.hair == "balding":
        for side in (-1, 1):
            sketch.shape([(200 + side * x, y) for x, y in ((58, 128), (72, 146), (77, 180), (70, 200), (64, 182), (64, 156))], paint)
    if look.hat:
        _hat(sketch, look)


def _ringlets(sketch: Sketch, look: Look) -> None:
    paint = look.hair_colour
    sketch.shape(mirrored(((200, 70), (242, 78), (272, 108), (280, 150), (272, 182), (264, 176), (258, 146), (232, 128), (200, 130))), paint)
    for at in range(15):
        angle = math.pi * (0.98 + 1.04 * at / 14)
        x, y = 200 + math.cos(angle) * 70, 150 + math.sin(angle) * 70
        sketch.oval(x, y, 17, 17, paint if at % 2 else shade(paint, 0.07))
    for at in range(8):
        sketch.oval(152 + at * 14, 122 + 8 * abs(at - 3.5) ** 0.8 - 4 * (at % 2), 14, 13, shade(paint, 0.09) if at % 2 else paint)


def _wrapped(sketch: Sketch, look: Look) -> None:
    cloth = look.clothing_colour
    if look.hat == "scarf":
        sketch.shape(mirrored(((200, 68), (250, 78), (282, 120), (284, 190), (268, 250), (232, 290), (252, 244), (262, 200), (258, 150), (236, 122), (200, 114))), cloth)
        sketch.shape(((136, 236), (168, 266), (200, 276), (234, 266), (266, 236), (286, 290), (268, 336), (200, 350), (130, 336), (114, 290)), cloth)
        for bend in (0, 18, 36):
            sketch.stroke([(140, 262 + bend), (196, 294 + bend), (262, 262 + bend)], shade(cloth, -0.16), 3, taper=True)
        sketch.stroke([(150, 118), (188, 88), (240, 92)], shade(cloth, 0.2), 4, taper=True)
        return
    sketch.shape(((128, 150), (118, 110), (150, 66), (206, 52), (258, 70), (284, 112), (272, 150), (236, 124), (200, 112), (162, 126)), cloth)
    for bend in (0, 14, 28):
        sketch.stroke([(130 + bend * 0.6, 136 - bend), (186, 98 - bend), (258 - bend * 0.4, 82 - bend * 0.2)], shade(cloth, -0.17), 3.5, taper=True)
        sketch.stroke([(270 - bend * 0.6, 136 - bend), (222, 104 - bend), (196, 100 - bend)], shade(cloth, -0.17), 3.5, taper=True)


def _hat(sketch: Sketch, look: Look) -> None:
    paint = shade(look.clothing_colour, -0.08)
    if look.hat == "beanie":
        sketch.shape(mirrored(((200, 50), (244, 60), (272, 96), (278, 134), (200, 132))), paint)
        sketch.polygon([(122, 118), (278, 118), (281, 146), (119, 146)], shade(paint, -0.14))
        for x in range(128, 280, 12):
            sketch.stroke([(x, 121), (x - 1, 143)], shade(paint, -0.28), 2.2)
        sketch.oval(200, 48, 17, 16, shade(paint, 0.3))
    elif look.hat == "cap":
        sketch.shape(mirrored(((200, 58), (244, 66), (272, 100), (276, 136), (200, 128))), paint)
        sketch.shape(((126, 128), (200, 116), (274, 128), (296, 150), (262, 150), (200, 140), (140, 148), (108, 152)), shade(paint, -0.2))
        sketch.oval(200, 60, 6, 4, shade(paint, -0.2))
    elif look.hat == "straw":
        straw = "#e3bf7d"
        sketch.oval(200, 128, 122, 25, shade(straw, -0.1))
        sketch.shape(mirrored(((200, 52), (240, 58), (262, 88), (268, 128), (200, 134))), straw)
        sketch.shape(mirrored(((200, 108), (266, 104), (269, 126), (200, 132))), shade(look.clothing_colour, -0.1))
        sketch.stroke([(82, 132), (140, 148), (200, 152), (260, 148), (318, 132)], shade(straw, -0.22), 3, taper=True)
