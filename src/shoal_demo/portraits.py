"""Generated portraits for avatars, deterministic for a person.

Shapes are in units of 0..400, drawn three times as large and then reduced. A hair style consists of shapes behind and in front of
the head. A shape that is passed to `mirrored` lists only its right half, from top to bottom. The head spans x 132..268,
y 92..264, with eyes at y 184 and ears at y 192.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from io import BytesIO

from PIL import Image, ImageChops, ImageColor, ImageDraw, ImageFilter

from shoal_demo.model import Look, Person

SIZE = 400
ZOOM = 3
FRAME = (32, 18, 336)
"""The square that the finished drawing shows: left, top and side."""
SHARPEN = ImageFilter.UnsharpMask(1.2, 40, 0)

Point = tuple[float, float]


def curve(points: Sequence[Point], *, closed: bool = True, steps: int = 7) -> list[Point]:
    """Return a smooth line through all points (Catmull-Rom spline)."""
    count = len(points)
    out: list[Point] = []
    for at in range(count if closed else count - 1):
        if closed:
            p0, p1, p2, p3 = (points[(at + k) % count] for k in (-1, 0, 1, 2))
        else:
            p0, p1, p2, p3 = (points[min(max(at + k, 0), count - 1)] for k in (-1, 0, 1, 2))
        for step in range(steps):
            t = step / steps
            out.append((_between(p0[0], p1[0], p2[0], p3[0], t), _between(p0[1], p1[1], p2[1], p3[1], t)))
    if not closed:
        out.append(points[-1])
    return out


def _between(a: float, b: float, c: float, d: float, t: float) -> float:
    return 0.5 * (2 * b + (c - a) * t + (2 * a - 5 * b + 4 * c - d) * t * t + (3 * b - a - 3 * c + d) * t**3)


def points(text: str) -> list[Point]:
    """Parse a list of points as in the `points` attribute of SVG: `x,y x,y`."""
    return [(float(x), float(y)) for x, _, y in (pair.partition(",") for pair in text.split())]


def mirrored(points: Sequence[Point]) -> list[Point]:
    return [*points, *((SIZE - x, y) for x, y in reversed(points) if x != SIZE / 2)]


def shade(code: str, share: float) -> str:
    """Return a color made darker (`share` from -1) or lighter (`share` up to 1). Shadows tend to violet, as in daylight."""
    goal = (255, 248, 236) if share > 0 else (38, 14, 42)
    mixed = (round(a + (b - a) * abs(share)) for a, b in zip(ImageColor.getrgb(code), goal, strict=False))
    return "#" + "".join(f"{value:02x}" for value in mixed)


def tan(code: str, share: float) -> str:
    """Return a skin color in shadow, which is warmer and not grayer."""
    mixed = (round(a + (b - a) * share) for a, b in zip(ImageColor.getrgb(code), (112, 38, 34), strict=False))
    return "#" + "".join(f"{value:02x}" for value in mixed)


class Sketch:
    """A drawing. `alpha` of a shape is 0 to 255. `inside` is a mask that clips the shape."""

    def __init__(self, top: str, bottom: str) -> None:
        ends = Image.new("RGB", (2, 2))
        ends.putdata([ImageColor.getrgb(code) for code in (top, shade(top, 0.08), shade(bottom, 0.06), bottom)])
        side = SIZE * ZOOM
        self.image = ends.resize((side, side), Image.Resampling.BILINEAR, box=(0.5, 0.5, 1.5, 1.5))
        self.pen = ImageDraw.Draw(self.image, "RGBA")

    def shape(self, points: Sequence[Point], paint: str, alpha: int = 255, inside: Image.Image | None = None) -> None:
        self.polygon(curve(points), paint, alpha, inside)

    def polygon(self, points: Sequence[Point], paint: str, alpha: int = 255, inside: Image.Image | None = None) -> None:
        big = [(x * ZOOM, y * ZOOM) for x, y in points]
        if inside is None:
            self.pen.polygon(big, fill=(*ImageColor.getrgb(paint)[:3], alpha))
            return
        side = SIZE * ZOOM
        left, top = (max(0, int(min(point[axis] for point in big))) for axis in (0, 1))
        right, foot = (min(side, int(max(point[axis] for point in big)) + 1) for axis in (0, 1))
        sheet = Image.new("L", (right - left, foot - top))
        ImageDraw.Draw(sheet).polygon([(x - left, y - top) for x, y in big], fill=alpha)
        self.image.paste(paint, (left, top), ImageChops.multiply(sheet, inside.crop((left, top, right, foot))))

    def mask(self, points: Sequence[Point]) -> Image.Image:
        sheet = Image.new("L", self.image.size)
        ImageDraw.Draw(sheet).polygon([(x * ZOOM, y * ZOOM) for x, y in curve(points)], fill=255)
        return sheet

    def oval(self, x: float, y: float, rx: float, ry: float, paint: str, alpha: int = 255) -> None:
        box = [(x - rx) * ZOOM, (y - ry) * ZOOM, (x + rx) * ZOOM, (y + ry) * ZOOM]
        self.pen.ellipse(box, fill=(*ImageColor.getrgb(paint)[:3], alpha))

    def ring(self, x: float, y: float, rx: float, ry: float, paint: str, width: float) -> None:
        box = [(x - rx) * ZOOM, (y - ry) * ZOOM, (x + rx) * ZOOM, (y + ry) * ZOOM]
        self.pen.ellipse(box, outline=paint, width=round(width * ZOOM))

    def stroke(self, points: Sequence[Point], paint: str, width: float, *, taper: bool = False) -> None:
        """Draw a smooth line with round ends. With `taper`, it is thickest in the middle."""
        path = curve(points, closed=False, steps=9)
        last = len(path) - 1
        for at, (x, y) in enumerate(path):
            half = width / 2 * (0.45 + 0.55 * (1 - abs(2 * at / last - 1)) if taper else 1)
            if not taper and at not in {0, last}:
                continue
            self.oval(x, y, half, half, paint)
            if taper and at:
                ends = [(px * ZOOM, py * ZOOM) for px, py in path[at - 1 : at + 1]]
                self.pen.line(ends, fill=paint, width=max(1, round(half * 2 * ZOOM) - 1))
        if not taper:
            self.pen.line([(x * ZOOM, y * ZOOM) for x, y in path], fill=paint, width=round(width * ZOOM), joint="curve")

    def done(self) -> Image.Image:
        """Return the drawing in its final size, cropped around the head."""
        left, top, side = (value * ZOOM for value in FRAME)
        box = (left, top, left + side, top + side)
        return self.image.resize((SIZE, SIZE), Image.Resampling.BOX, box=box).filter(SHARPEN)


def wrapped(sketch: Sketch, look: Look) -> None:
    """Draw cloth that covers the hair: a scarf or a turban."""
    cloth = look.clothing_color
    if look.hat == "scarf":
        sketch.shape(
            mirrored(points("200,68 250,78 282,120 284,190 268,250 232,290 252,244 262,200 258,150 236,122 200,114")),
            cloth,
        )
        sketch.shape(points("136,236 168,266 200,276 234,266 266,236 286,290 268,336 200,350 130,336 114,290"), cloth)
        for bend in (0, 18, 36):
            sketch.stroke([(140, 262 + bend), (196, 294 + bend), (262, 262 + bend)], shade(cloth, -0.16), 3, taper=True)
        sketch.stroke([(150, 118), (188, 88), (240, 92)], shade(cloth, 0.2), 4, taper=True)
        return
    sketch.shape(points("128,150 118,110 150,66 206,52 258,70 284,112 272,150 236,124 200,112 162,126"), cloth)
    for bend in (0, 14, 28):
        sketch.stroke(
            [(130 + bend * 0.6, 136 - bend), (186, 98 - bend), (258 - bend * 0.4, 82 - bend * 0.2)],
            shade(cloth, -0.17),
            3.5,
            taper=True,
        )
        sketch.stroke(
            [(270 - bend * 0.6, 136 - bend), (222, 104 - bend), (196, 100 - bend)], shade(cloth, -0.17), 3.5, taper=True
        )


def hat(sketch: Sketch, look: Look) -> None:
    paint = shade(look.clothing_color, -0.08)
    if look.hat == "beanie":
        sketch.shape(mirrored(points("200,50 244,60 272,96 278,134 200,132")), paint)
        sketch.polygon([(122, 118), (278, 118), (281, 146), (119, 146)], shade(paint, -0.14))
        for x in range(128, 280, 12):
            sketch.stroke([(x, 121), (x - 1, 143)], shade(paint, -0.28), 2.2)
        sketch.oval(200, 48, 17, 16, shade(paint, 0.3))
    elif look.hat == "cap":
        sketch.shape(mirrored(points("200,58 244,66 272,100 276,136 200,128")), paint)
        sketch.shape(points("126,128 200,116 274,128 296,150 262,150 200,140 140,148 108,152"), shade(paint, -0.2))
        sketch.oval(200, 60, 6, 4, shade(paint, -0.2))
    elif look.hat == "straw":
        straw = "#e3bf7d"
        sketch.oval(200, 128, 122, 25, shade(straw, -0.1))
        sketch.shape(mirrored(points("200,52 240,58 262,88 268,128 200,134")), straw)
        sketch.shape(mirrored(((200, 108), (266, 104), (269, 126), (200, 132))), shade(look.clothing_color, -0.1))
        sketch.stroke(points("82,132 140,148 200,152 260,148 318,132"), shade(straw, -0.22), 3, taper=True)


CAP = points("200,78 238,84 266,108 276,150 271,186 263,186 262,160 250,138 226,128 200,126")

FRINGE = points(
    "200,76 242,84 270,112 278,160 274,196 264,190 262,166 246,150 222,156 198,150 176,156 "
    "152,148 139,166 136,190 126,196 122,160 130,112 158,84"
)
PARTED = points(
    "214,74 250,86 274,118 279,168 272,204 265,188 262,158 246,134 222,116 200,134 170,146 "
    "148,158 137,184 128,204 121,168 128,118 160,84"
)
SWEPT = points(
    "186,70 228,66 262,84 276,122 274,178 265,186 262,156 254,134 228,132 196,126 166,114 "
    "148,134 140,160 136,186 127,180 123,130 146,90"
)
QUIFF = points(
    "168,72 196,54 238,58 266,82 277,128 272,182 264,184 262,154 250,132 222,120 190,124 "
    "160,122 144,140 138,162 135,184 127,180 124,130 140,92"
)

LONG = points("200,72 250,82 284,122 292,190 296,250 300,312 276,340 240,330 200,330")
BOB = points("200,72 250,82 284,124 292,190 292,244 274,268 240,262 200,262")
WAVES = points("200,70 252,80 286,118 288,160 304,196 294,232 312,268 298,306 308,340 270,352 200,340")
SHAGGY = points("200,72 248,80 280,116 286,170 288,214 276,238 258,244 200,244")

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
    dark = shade(look.hair_color, -0.22)
    if look.hat == "scarf":
        sketch.shape(
            mirrored(points("200,66 256,78 290,124 292,200 284,262 306,330 200,350")), shade(look.clothing_color, -0.2)
        )
        return
    if look.hair in BACKS:
        sketch.shape(mirrored(BACKS[look.hair]), dark)
    if look.hair == "bun" and not look.hat:
        sketch.oval(200, 62, 36, 32, look.hair_color)
        sketch.stroke([(176, 70), (200, 52), (222, 66)], shade(look.hair_color, 0.14), 4, taper=True)
    if look.hair == "ponytail":
        sketch.shape(points("250,110 300,128 318,190 306,262 322,310 288,300 274,236 280,170"), dark)
    if look.hair == "braids":
        for side in (-1, 1):
            for at in range(9):
                sketch.oval(
                    200 + side * (82 + 3 * math.sin(at)),
                    206 + at * 17,
                    15 - at * 0.4,
                    13,
                    dark if at % 2 else look.hair_color,
                )
    if look.hair in {"afro", "curls"}:
        _curls(sketch, look, full=look.hair == "curls")


def _curls(sketch: Sketch, look: Look, *, full: bool) -> None:
    """Draw round curls around the head, down to the shoulders if `full`."""
    paint = shade(look.hair_color, -0.12)
    reach = 92 if not full else 88
    sketch.oval(200, 150, reach, reach - 4, paint)
    if full:
        sketch.oval(200, 215, 80, 82, paint)
    for at in range(26):
        angle = math.pi * (0.92 + 1.16 * at / 25) if not full else math.pi * (0.66 + 1.68 * at / 25)
        stretch = 1.0 if math.sin(angle) < 0 or not full else 1.55
        x, y = 200 + math.cos(angle) * reach, 152 + math.sin(angle) * reach * stretch
        sketch.oval(x, y, 19 + at % 3 * 3, 19 + at % 2 * 4, paint if at % 3 else shade(look.hair_color, -0.2))


def before(sketch: Sketch, look: Look) -> None:
    paint, light = look.hair_color, shade(look.hair_color, 0.16)
    if look.hat in {"scarf", "turban"}:
        wrapped(sketch, look)
        return
    if look.hair in FRONTS:
        sketch.shape(FRONTS[look.hair], paint)
        sketch.stroke([(160, 112), (190, 92), (228, 92)], light, 5, taper=True)
        sketch.stroke([(176, 120), (204, 104), (240, 108)], light, 3.5, taper=True)
    elif look.hair in {"bun", "ponytail", "braids"}:
        sketch.shape(
            mirrored(points("200,76 242,84 268,112 277,156 272,190 264,182 258,150 236,126 206,116 200,114")), paint
        )
        for x in (-36, -14, 14, 36):
            sketch.stroke([(200 + x * 0.5, 84), (200 + x * 1.1, 112)], shade(paint, -0.16), 2.4, taper=True)
    elif look.hair in {"crop", "afro"}:
        sketch.shape(mirrored(CAP), paint)
    elif look.hair in {"curls", "curly"}:
        _ringlets(sketch, look)
    elif look.hair == "balding":
        for side in (-1, 1):
            sketch.shape([(200 + side * x, y) for x, y in points("58,128 72,146 77,180 70,200 64,182 64,156")], paint)
    if look.hat:
        hat(sketch, look)


def _ringlets(sketch: Sketch, look: Look) -> None:
    paint = look.hair_color
    sketch.shape(mirrored(points("200,70 242,78 272,108 280,150 272,182 264,176 258,146 232,128 200,130")), paint)
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


HEAD = points("200,92 238,99 262,132 267,176 259,214 238,246 214,262 200,264")
SHOULDERS = points("200,290 236,296 290,314 326,350 340,430 200,440")


def portrait(person: Person) -> bytes:
    """Return a portrait as a JPEG of 400 by 400 pixels."""
    look = person.look
    sketch = Sketch(*look.backdrop)
    sketch.oval(200, 205, 168, 168, "#ffffff", 46)
    behind(sketch, look)
    _body(sketch, look)
    face = _head(sketch, look)
    _features(sketch, look)
    if look.beard:
        _beard(sketch, look, face)
    _mouth(sketch, look)
    before(sketch, look)
    if look.glasses:
        _glasses(sketch, look)
    return _jpeg(sketch.done())


def _jpeg(picture: Image.Image) -> bytes:
    out = BytesIO()
    picture.save(out, "JPEG", quality=90)
    return out.getvalue()


def _body(sketch: Sketch, look: Look) -> None:
    cloth = look.clothing_color
    neck = tan(look.skin, 0.16)
    sketch.polygon([(172, 220), (228, 220), (230, 312), (170, 312)], neck)
    if look.clothing == "hood":
        sketch.shape(mirrored(points("200,268 246,276 276,306 262,336 200,348")), shade(cloth, -0.24))
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
                [(200 + side * x, y) for x, y in points("30,284 52,300 40,352 8,420 2,420")],
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
    sketch.polygon(points("172,236 228,236 229,268 200,286 171,268"), tan(skin, 0.34), 150)
    if look.hat != "scarf":
        for side in (-1, 1):
            sketch.oval(200 + side * 68, 193, 13, 19, skin if side < 0 else dark)
            sketch.oval(200 + side * 69, 194, 6, 10, tan(skin, 0.24))
            if look.earrings:
                sketch.oval(200 + side * 70, 219, 5.5, 5.5, "#e9bf58")
                sketch.oval(200 + side * 70 - 1.5, 217.5, 1.8, 1.8, "#fff3cf")
    sketch.shape(outline, skin)
    face = sketch.mask(outline)
    sketch.shape(points("226,84 290,90 290,280 196,276 236,250 248,190 240,130"), tan(skin, 0.4), 46, face)
    for side in (-1, 1):
        sketch.oval(200 + side * 40, 214, 17, 11, "#e8554e", 52 if look.soft else 38)
    if look.freckles:
        for x, y in points("22,207 31,203 40,209 28,213 47,204 36,216"):
            for side in (-1, 1):
                sketch.oval(200 + side * x, y, 1.7, 1.7, tan(skin, 0.34), 170)
    if look.elder:
        for side in (-1, 1):
            sketch.stroke([(200 + side * 28, 222), (200 + side * 35, 232), (200 + side * 35, 240)], dark, 2, taper=True)
            sketch.stroke([(200 + side * 20, 200), (200 + side * 30, 203), (200 + side * 40, 199)], dark, 2, taper=True)
    return face


def _features(sketch: Sketch, look: Look) -> None:
    brow = shade(look.hair_color, -0.25) if look.hair_color > "#7" else look.hair_color
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
        sketch.shape(points("180,231 192,227 200,229 208,227 220,231 209,240 200,242 191,240"), "#c9545a")
        sketch.stroke([(178, 230), (200, 234), (222, 230)], "#8d2f3c", 2.4, taper=True)
    else:
        sketch.stroke(points("178,230 189,237 201,239 213,236 223,229"), lip, 4.2, taper=True)


def _bowl(wide: float, deep: float) -> list[Point]:
    return [(200 + wide * (at / 10 - 1), 229 + deep * (1 - (at / 10 - 1) ** 2) ** 0.8) for at in range(21)]


def _beard(sketch: Sketch, look: Look, face: Image.Image) -> None:
    paint = look.hair_color
    if look.beard == "stubble":
        sketch.shape(mirrored(points("200,214 232,218 264,192 272,240 240,270 200,274")), paint, 46, face)
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
        sketch.shape(mirrored(points("200,226 222,226 228,236 216,250 200,252")), tan(look.skin, 0.08))
    if look.beard == "goatee":
        sketch.shape(mirrored(((200, 246), (216, 248), (220, 262), (200, 276))), paint)
    sketch.shape(points("166,232 180,220 200,218 220,220 234,232 218,229 200,227 182,229"), paint)


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
