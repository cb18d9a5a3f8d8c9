"""Hats, caps, scarves and turbans, drawn over the hair; they fit the head of `hair`."""

from __future__ import annotations

from shoal.demo.model import Look
from shoal.demo.sketch import Sketch, mirrored, shade


def wrapped(sketch: Sketch, look: Look) -> None:
    """Cloth that covers the hair: a scarf, or else a turban."""
    cloth = look.clothing_colour
    if look.hat == "scarf":
        sketch.shape(
            mirrored(
                (
                    (200, 68),
                    (250, 78),
                    (282, 120),
                    (284, 190),
                    (268, 250),
                    (232, 290),
                    (252, 244),
                    (262, 200),
                    (258, 150),
                    (236, 122),
                    (200, 114),
                )
            ),
            cloth,
        )
        sketch.shape(
            (
                (136, 236),
                (168, 266),
                (200, 276),
                (234, 266),
                (266, 236),
                (286, 290),
                (268, 336),
                (200, 350),
                (130, 336),
                (114, 290),
            ),
            cloth,
        )
        for bend in (0, 18, 36):
            sketch.stroke([(140, 262 + bend), (196, 294 + bend), (262, 262 + bend)], shade(cloth, -0.16), 3, taper=True)
        sketch.stroke([(150, 118), (188, 88), (240, 92)], shade(cloth, 0.2), 4, taper=True)
        return
    sketch.shape(
        (
            (128, 150),
            (118, 110),
            (150, 66),
            (206, 52),
            (258, 70),
            (284, 112),
            (272, 150),
            (236, 124),
            (200, 112),
            (162, 126),
        ),
        cloth,
    )
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
    """A beanie, a cap or a straw hat."""
    paint = shade(look.clothing_colour, -0.08)
    if look.hat == "beanie":
        sketch.shape(mirrored(((200, 50), (244, 60), (272, 96), (278, 134), (200, 132))), paint)
        sketch.polygon([(122, 118), (278, 118), (281, 146), (119, 146)], shade(paint, -0.14))
        for x in range(128, 280, 12):
            sketch.stroke([(x, 121), (x - 1, 143)], shade(paint, -0.28), 2.2)
        sketch.oval(200, 48, 17, 16, shade(paint, 0.3))
    elif look.hat == "cap":
        sketch.shape(mirrored(((200, 58), (244, 66), (272, 100), (276, 136), (200, 128))), paint)
        sketch.shape(
            ((126, 128), (200, 116), (274, 128), (296, 150), (262, 150), (200, 140), (140, 148), (108, 152)),
            shade(paint, -0.2),
        )
        sketch.oval(200, 60, 6, 4, shade(paint, -0.2))
    elif look.hat == "straw":
        straw = "#e3bf7d"
        sketch.oval(200, 128, 122, 25, shade(straw, -0.1))
        sketch.shape(mirrored(((200, 52), (240, 58), (262, 88), (268, 128), (200, 134))), straw)
        sketch.shape(mirrored(((200, 108), (266, 104), (269, 126), (200, 132))), shade(look.clothing_colour, -0.1))
        sketch.stroke([(82, 132), (140, 148), (200, 152), (260, 148), (318, 132)], shade(straw, -0.22), 3, taper=True)
