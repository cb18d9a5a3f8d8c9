"""The products of the shop. The reviews of a product are the posts with its tag."""

from __future__ import annotations

from typing import NamedTuple


class Product(NamedTuple):
    slug: str
    name: str
    price: str
    tag: str
    text: str


PRODUCTS = {
    product.slug: product
    for product in (
        Product("mug", "Tidal mug", "€18", "TidalMug", "Enamel, 350 ml. Survives rocks, campfires and Mondays."),
        Product("lantern", "Storm lantern", "€64", "StormLantern", "Forty hours of warm light from one charge."),
        Product("beanie", "Harbor beanie", "€32", "HarborBeanie", "Merino wool, knitted in one piece."),
        Product("drybag", "Dry bag 20 l", "€45", "DryBag20", "Rolls shut, floats, and fits a towel and a tent."),
        Product("flask", "Swell flask", "€38", "SwellFlask", "Steel. Tea stays hot from first to last light."),
        Product("knife", "Deck knife", "€52", "DeckKnife", "Folds, floats, and opens with a glove on."),
    )
}
