"""Albums over HTTP."""

from __future__ import annotations

from typing import Any

from tests.api.in_memory_network import NetworkFixture, Someone, picture


def posted(shoal: NetworkFixture, who: Someone, photos: int = 1, **more: Any) -> Any:
    """Return a new status with the given number of photos."""
    media = [
        shoal.json("POST", "/api/v2/media", who, files={"file": ("a.png", picture(), "image/png")})
        for _ in range(photos)
    ]
    body = {"status": "low tide", "media_ids": [one["id"] for one in media], **more}
    return shoal.json("POST", "/api/v1/statuses", who, json=body)


def order(shoal: NetworkFixture, path: str, who: Someone | str = "", **part: int) -> list[str]:
    return [one["media_attachment"]["id"] for one in shoal.json("GET", path, who, params=part)["photos"]]


def test_album_can_be_created_filled_reordered_edited_and_deleted(shoal: NetworkFixture) -> None:
    ann, ben = map(shoal.join, ("ann", "ben"))
    made = shoal.json("POST", "/api/shoal/v1/albums", ann, json={"title": "Tides", "description": "Low water"})
    about = {"title": "Tides", "description": "Low water", "account_id": ann.id, "photos_count": 0, "covers": []}
    assert made == {**about, "id": made["id"], "created_at": made["created_at"]}
    path = f"/api/shoal/v1/albums/{made['id']}"
    first, second = posted(shoal, ann, 2), posted(shoal, ann)
    ids = [one["id"] for status in (first, second) for one in status["media_attachments"]]
    filled = shoal.json("POST", f"{path}/photos", ann, json={"status_id": first["id"]})
    assert (filled["photos_count"], [one["id"] for one in filled["covers"]]) == (2, ids[:2])
    shoal.json("POST", f"{path}/photos", ann, json={"status_id": second["id"], "media_ids": ids[2:]})
    assert order(shoal, path) == order(shoal, path, ben) == ids
    assert shoal.json("PUT", f"{path}/order", ann, json={"media_ids": [ids[2], ids[0]]})["photos_count"] == 3
    assert order(shoal, path, ben) == [ids[2], ids[0], ids[1]]
    shown = shoal.json("GET", path, ben)
    assert (shown["account"]["username"], shown["photos"][0]["status"]["id"]) == ("ann", second["id"])
    assert shoal.json("PUT", path, ann, json={"title": "Low tides"})["description"] == "Low water"
    assert shoal.json("DELETE", f"{path}/photos", ann, json={"media_ids": [ids[0]]})["photos_count"] == 2
    listed = shoal.json("GET", f"/api/shoal/v1/accounts/{ann.id}/albums")
    assert [(one["title"], one["photos_count"]) for one in listed] == [("Low tides", 2)]
    assert shoal.json("DELETE", path, ann) == {}
    assert shoal.ask("GET", path, ann).status_code == 404


def test_album_pagination_returns_next_links(shoal: NetworkFixture) -> None:
    dee = shoal.join("dee")
    path = f"/api/shoal/v1/albums/{shoal.json('POST', '/api/shoal/v1/albums', dee, json={'title': 'Four'})['id']}"
    status = posted(shoal, dee, 4)
    shoal.json("POST", f"{path}/photos", dee, json={"status_id": status["id"]})
    ids = [one["id"] for one in status["media_attachments"]]
    answer = shoal.ask("GET", path, params={"limit": 3})
    assert [one["media_attachment"]["id"] for one in answer.json()["photos"]] == ids[:3]
    assert 'offset=3>; rel="next"' in answer.headers["link"]
    assert order(shoal, path, offset=3, limit=3) == ids[3:]
    again = [shoal.json("POST", "/api/shoal/v1/albums", dee, json={"title": f"{n}"})["id"] for n in range(3)]
    answer = shoal.ask("GET", f"/api/shoal/v1/accounts/{dee.id}/albums", dee, params={"limit": 2})
    assert [one["id"] for one in answer.json()] == again[:0:-1]
    assert f"max_id={again[1]}" in answer.headers["link"]


def test_album_with_ineligible_status_or_long_title_is_refused(shoal: NetworkFixture) -> None:
    eve, fay = map(shoal.join, ("eve", "fay"))
    path = f"/api/shoal/v1/albums/{shoal.json('POST', '/api/shoal/v1/albums', eve, json={'title': 'Eve'})['id']}"
    words = shoal.json("POST", "/api/v1/statuses", eve, json={"status": "words"})
    direct = posted(shoal, eve, visibility="direct")
    theirs = posted(shoal, fay)
    for status, expected in ((words, 422), (direct, 422), (theirs, 404)):
        assert shoal.ask("POST", f"{path}/photos", eve, json={"status_id": status["id"]}).status_code == expected
    refused = shoal.ask("POST", "/api/shoal/v1/albums", eve, json={"title": "x" * 101})
    assert (refused.status_code, "maximum is 100" in refused.text) == (422, True)
    assert shoal.ask("GET", path).status_code == shoal.ask("GET", path, fay).status_code == 404
