"""Draws a person: a face for the avatar and a wide landscape for the header, always the same for the same person."""

from __future__ import annotations

from io import BytesIO

from PIL import Image

from shoal.demo import hair
from shoal.demo.model import Look, Person
from shoal.demo.photographs import photograph
from shoal.demo.sketch import Point, Sketch, mirrored, shade, tan

HEAD: tuple[Point, ...] = ((200, 92), (238, 99), (262, 132), (267, 176), (259, 214), (238, 246), (214, 262), (200, 264))
SHOULDERS: tuple[Point, ...] = ((200, 290), (236, 296), (290, 314), (326, 350), (340, 430), (200, 440))


def portrait(person: Person) -> bytes:
    """The face of a person as a JPEG, 400 by 400 pixels."""
    look = person.look
    sketch = Sketch(*look.backdrop)
    sketch.oval(200, 205, 168, 168, "#ffffff", 46)
    hair.behind(sketch, look)
    _body(sketch, look)
    face = _head(sketch, look)
    _features(sketch, look)
    if look.beard:
        _beard(sketch, look, face)
    _mouth(sketch, look)
    hair.before(sketch, look)
    if look.glasses:
        _glasses(sketch, look)
    return _jpeg(sketch.done())


def banner(person: Person) -> bytes:
    """The header picture of a person as a JPEG, 1500 by 500 pixels."""
    return photograph(person.header)


def _jpeg(picture: Image.Image) -> bytes:
    out = BytesIO()
    picture.save(out, "JPEG", quality=90)
    return out.getvalue()


def _body(sketch: Sketch, look: Look) -> None:
    cloth = look.clothing_colour
    neck = tan(look.skin, 0.16)
    sketch.polygon([(172, 220), (228, 220), (230, 312), (170, 312)], neck)
    if look.clothing == "hood":
        sketch.shape(mirrored(((200, 268), (246, 276), (276, 306), (262, 336), (200, 348))), shade(cloth, -0.24))
    body = mirrored(SHOULDERS)
    sketch.shape(body, cloth)
    mask = sketch.mask(body)
    sketch.polygon([(262, 290), (420, 290), (420, 420), (286, 420)], shade(cloth, -0.5), 52, mask)
    if look.clothing == "turtle":
        sketch.shape(mirrored(((200, 262), (232, 264), (238, 306), (200, 316))), cloth)
        sketch.stroke([(166, 292), (200, 300), (234, 292)], shade(cloth, -0.2), 3, taper=True)
        return
    if look.clothing in {"vneck", "shirt", "blazer"}:
        sketch.polygon([(170, 288), (230, 288), (200, 346)], neck)
        sketch.oval(200, 290, 30, 17, neck)
    else:
        sketch.oval(200, 292, 38, 22, shade(cloth, -0.22))
        sketch.oval(200, 287, 33, 20, neck)
    _collar(sketch, look, cloth)


def _collar(sketch: Sketch, look: Look, cloth: str) -> None:
    if look.clothing == "shirt":
        for side in (-1, 1):
            sketch.polygon(
                [(200 + side * x, y) for x, y in ((28, 280), (40, 294), (26, 336), (0, 346))], shade(cloth, 0.3)
            )
        for y in (362, 388):
            sketch.oval(200, y, 3.4, 3.4, shade(cloth, -0.3))
    elif look.clothing == "blazer":
        sketch.polygon([(174, 300), (226, 300), (216, 420), (184, 420)], "#f4f1ea")
        for side in (-1, 1):
            sketch.polygon(
                [(200 + side * x, y) for x, y in ((30, 284), (52, 300), (40, 352), (8, 420), (2, 420))],
                shade(cloth, -0.22),
            )
    elif look.clothing == "hood":
        for side in (-1, 1):
            sketch.stroke([(200 + side * 22, 314), (200 + side * 24, 356)], shade(cloth, 0.5), 4)
    elif look.clothing == "stripes":
        mask = sketch.mask(mirrored(SHOULDERS))
        for y in (330, 356, 382):
            sketch.polygon([(60, y), (340, y), (340, y + 11), (60, y + 11)], "#f6f2e9", 235, mask)


def _head(sketch: Sketch, look: Look) -> Image.Image:
    skin, dark = look.skin, tan(look.skin, 0.15)
    outline = mirrored(HEAD)
    sketch.polygon([(172, 236), (228, 236), (229, 268), (200, 286), (171, 268)], tan(skin, 0.34), 150)
    if look.hat != "scarf":
        for side in (-1, 1):
            sketch.oval(200 + side * 68, 193, 13, 19, skin if side < 0 else dark)
            sketch.oval(200 + side * 69, 194, 6, 10, tan(skin, 0.24))
            if look.earrings:
                sketch.oval(200 + side * 70, 219, 5.5, 5.5, "#e9bf58")
                sketch.oval(200 + side * 70 - 1.5, 217.5, 1.8, 1.8, "#fff3cf")
    sketch.shape(outline, skin)
    face = sketch.mask(outline)
    sketch.shape(
        ((226, 84), (290, 90), (290, 280), (196, 276), (236, 250), (248, 190), (240, 130)), tan(skin, 0.4), 46, face
    )
    for side in (-1, 1):
        sketch.oval(200 + side * 40, 214, 17, 11, "#e8554e", 52 if look.soft else 38)
    if look.freckles:
        for x, y in ((22, 207), (31, 203), (40, 209), (28, 213), (47, 204), (36, 216)):
            for side in (-1, 1):
                sketch.oval(200 + side * x, y, 1.7, 1.7, tan(skin, 0.34), 170)
    if look.elder:
        for side in (-1, 1):
            sketch.stroke([(200 + side * 28, 222), (200 + side * 35, 232), (200 + side * 35, 240)], dark, 2, taper=True)
            sketch.stroke([(200 + side * 20, 200), (200 + side * 30, 203), (200 + side * 40, 199)], dark, 2, taper=True)
    return face


def _features(sketch: Sketch, look: Look) -> None:
    brow = shade(look.hair_colour, -0.25) if look.hair_colour > "#7" else look.hair_colour
    happy = look.mouth == "laugh"
    for side in (-1, 1):
        x = 200 + side * 29
        if happy:
            sketch.stroke([(x - 11, 189), (x, 180), (x + 11, 189)], "#2a1a20", 5, taper=True)
        else:
            sketch.oval(x, 185, 10.5, 9.5, "#fffaf3")
            sketch.oval(x, 185, 7.6, 8.6, "#2e1c1c")
            sketch.oval(x - 2.6, 181.6, 2.7, 2.7, "#ffffff")
            sketch.stroke([(x - 12, 184), (x, 175.5), (x + 12, 184)], "#2a1a20", 3.4, taper=True)
        if look.soft:
            sketch.stroke([(x + side * 10, 182), (x + side * 16, 176)], "#2a1a20", 3, taper=True)
        sketch.stroke(
            [(x - side * 14, 165), (x + side * 2, 158), (x + side * 17, 164)], brow, 4.6 if look.soft else 7, taper=True
        )
    sketch.stroke([(203, 192), (208, 212), (198, 215)], tan(look.skin, 0.26), 3.6, taper=True)


def _mouth(sketch: Sketch, look: Look) -> None:
    lip = "#b8434c" if look.soft else tan(look.skin, 0.42)
    if look.mouth in {"grin", "laugh"}:
        wide = 27 if look.mouth == "laugh" else 23
        sketch.polygon(_bowl(wide, 17 if look.mouth == "laugh" else 13), "#6e2230")
        sketch.polygon(_bowl(wide - 4, 6), "#fffaf4")
        sketch.stroke([(200 - wide, 228), (200, 231), (200 + wide, 228)], lip, 3, taper=True)
    elif look.soft:
        sketch.shape(
            ((180, 231), (192, 227), (200, 229), (208, 227), (220, 231), (209, 240), (200, 242), (191, 240)), "#c9545a"
        )
        sketch.stroke([(178, 230), (200, 234), (222, 230)], "#8d2f3c", 2.4, taper=True)
    else:
        sketch.stroke([(178, 230), (189, 237), (201, 239), (213, 236), (223, 229)], lip, 4.2, taper=True)


def _bowl(wide: float, deep: float) -> list[Point]:
    return [(200 + wide * (at / 10 - 1), 229 + deep * (1 - (at / 10 - 1) ** 2) ** 0.8) for at in range(21)]


def _beard(sketch: Sketch, look: Look, face: Image.Image) -> None:
    paint = look.hair_colour
    if look.beard == "stubble":
        sketch.shape(
            mirrored(((200, 214), (232, 218), (264, 192), (272, 240), (240, 270), (200, 274))), paint, 46, face
        )
        return
    if look.beard in {"full", "long"}:
        drop = 34 if look.beard == "long" else 12
        shape = (
            (200, 219),
            (226, 217),
            (248, 208),
            (266, 186),
            (270, 222),
            (250, 256),
            (222, 268 + drop),
            (200, 272 + drop),
        )
        sketch.shape(mirrored(shape), paint)
        sketch.shape(mirrored(((200, 226), (222, 226), (228, 236), (216, 250), (200, 252))), tan(look.skin, 0.08))
    if look.beard == "goatee":
        sketch.shape(mirrored(((200, 246), (216, 248), (220, 262), (200, 276))), paint)
    sketch.shape(
        ((166, 232), (180, 220), (200, 218), (220, 220), (234, 232), (218, 229), (200, 227), (182, 229)), paint
    )


def _glasses(sketch: Sketch, look: Look) -> None:
    frame = {"round": "#2b2430", "square": "#3a2a24", "gold": "#b98a3a", "red": "#a8323e"}[look.glasses]
    width = 3.0 if look.glasses == "gold" else 4.2
    for side in (-1, 1):
        x = 200 + side * 30
        sketch.oval(x, 187, 22, 21, "#ffffff", 40)
        if look.glasses in {"round", "gold"}:
            sketch.ring(x, 187, 24, 23, frame, width)
        else:
            box = [(x - 25) * 3, 168 * 3, (x + 25) * 3, 206 * 3]
            sketch.pen.rounded_rectangle(box, radius=33, outline=frame, width=round(width * 3))
        sketch.stroke([(200 + side * 54, 184), (200 + side * 67, 182)], frame, width)
    sketch.stroke([(194, 184), (200, 181), (206, 184)], frame, width)
