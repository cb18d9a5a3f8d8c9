"""Users and reviews to look at. They are made by requests to the shop and to Shoal, as browsers send them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx

import shoal_demo.photos

PASSWORD = "driftwood"  # noqa: S105
STAFF = "staff@example.org"
_PHOTOS = Path(shoal_demo.photos.__file__).parent
_REVIEWS = (
    (
        "Mara Lind",
        "lantern",
        5,
        "Three nights on the ridge and still half full. The glow is warm, not hospital white.",
        "desert_hike",
    ),
    (
        "Tom Okoro",
        "mug",
        4,
        "Dropped it down the whole slipway. One chip, and coffee still tastes of coffee.",
        "sea_sunset",
    ),
    (
        "Ines Duarte",
        "drybag",
        5,
        "Tipped the canoe twice. Camera, bread, dignity: two of three stayed dry.",
        "lake_sherburne",
    ),
    ("Yuki Tanabe", "beanie", 4, "Warm without the itch. Runs a bit large, so I fold it twice.", "snowy_forest_aerial"),
    ("Tom Okoro", "flask", 5, "Poured tea at dawn that I had made at dusk. Wizardry.", "dandelion_evening"),
    ("Ines Duarte", "mug", 5, "The only thing in my kitchen that likes the beach as much as I do.", "citrus_slices"),
    ("Mara Lind", "knife", 4, "Opens with gloves on, as promised. The wood has darkened nicely.", "perched_osprey"),
)


async def add_demo(url: str, staff_password: str) -> None:
    """Add the users, unless they exist. Each follows the one before, and likes the reviews of the others."""
    browsers: dict[str, httpx.AsyncClient] = {}
    try:
        for name in dict.fromkeys(review[0] for review in _REVIEWS):
            browsers[name] = httpx.AsyncClient(base_url=url, timeout=60.0)
            email = f"{name.split()[0].lower()}@example.org"
            new = {"name": name, "email": email, "password": PASSWORD}
            if (await browsers[name].post("/api/signup", json=new)).is_error:
                return
        for review in _REVIEWS:
            await _post(browsers[review[0]], *review[1:])
        async with httpx.AsyncClient(base_url=url, timeout=60.0) as staff:
            await staff.post("/api/login", json={"email": STAFF, "password": staff_password})
            posted = [
                await _approved(staff, held["id"]) for held in reversed((await staff.get("/api/staff/held")).json())
            ]
        await asyncio.gather(*(_react(browser, posted) for browser in browsers.values()))
    finally:
        for browser in browsers.values():
            await browser.aclose()


async def _post(browser: httpx.AsyncClient, product: str, stars: int, text: str, photo: str) -> None:
    """Post a review. It is held, because the user is new."""
    files = {"photo": (f"{photo}.webp", (_PHOTOS / f"{photo}.webp").read_bytes(), "image/webp")}
    form = {"text": text, "stars": stars}
    (await browser.post(f"/api/products/{product}/reviews", data=form, files=files)).raise_for_status()


async def _approved(staff: httpx.AsyncClient, held_id: str) -> dict[str, str]:
    """Approve a review, and return its id and that of its author."""
    decided = (await staff.post(f"/api/staff/held/{held_id}", json={"action": "approve"})).raise_for_status().json()
    shoal = (await staff.get("/api/shop")).json()["shoal"]
    status = (await staff.get(f"{shoal}/api/v1/statuses/{decided['published_id']}")).raise_for_status().json()
    return {"id": status["id"], "author": status["account"]["id"]}


async def _react(browser: httpx.AsyncClient, posted: list[dict[str, str]]) -> None:
    shop = (await browser.get("/api/shop")).json()
    token = (await browser.post("/api/token", json={})).raise_for_status().json()["token"]
    own_id, authors = shop["user"]["member_id"], list(dict.fromkeys(review["author"] for review in posted))
    paths = [f"statuses/{review['id']}/favourite" for review in posted if review["author"] != own_id]
    paths.append(f"accounts/{authors[authors.index(own_id) - 1]}/follow")
    for path in paths:
        headers = {"Authorization": f"Bearer {token}"}
        (await browser.post(f"{shop['shoal']}/api/v1/{path}", headers=headers)).raise_for_status()
