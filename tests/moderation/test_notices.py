"""Authors and moderators are notified of held content, and the author finds it in the menu and the data export."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from shoal import Handle, Shoal
from shoal.admin.export import export
from shoal.commands import moderation
from shoal.core.errors import Held
from shoal.core.model import Role
from shoal.graph.access import count_of
from shoal.graph.contract import Reader
from shoal.graph.payloads.notifications import Kind
from shoal.graph.schema import AssocType
from shoal.web import layout
from tests.api.in_memory_network import Someone, network_fixture, picture
from tests.async_runner import in_loop
from tests.moderation.checks import WordCheck, network
from tests.moderation.test_held_content import hold, is_clean
from tests.web.browser import member, visitor

EMBEDDED = ("memory", "sqlite")


async def notices(shoal: Shoal, who: Handle) -> list[tuple[Kind, int, str]]:
    await shoal.settle()
    return [(one.notice.kind, one.notice.about, one.refusal) for one in (await who.notifications.page()).items]


@pytest.mark.parametrize("store", EMBEDDED)
@in_loop
async def test_decision_about_held_content_notifies_its_author_only(store: str, tmp_path: Path) -> None:
    async with network(store, tmp_path, WordCheck()) as shoal:
        ann, ben, mo = [await shoal.register(name) for name in ("ann", "ben", "mo")]
        await moderation.set_role(shoal.network.writes, mo.id, Role.MODERATOR)
        await ben.follow(ann)
        approved, rejected = await hold(ann, "hold this @ben"), await hold(ann, "hold that @ben")
        assert await notices(shoal, ann) == [(Kind.FOLLOW, 0, "")]
        await ann.notifications.clear()
        # One for both.
        assert await notices(shoal, mo) == [(Kind.HELD, 0, "")]
        assert await notices(shoal, ben) == []
        await shoal.moderation.reject_held(rejected, "off topic")
        published = await shoal.moderation.approve_held(approved)
        assert await notices(shoal, ann) == [(Kind.APPROVED, published, ""), (Kind.REJECTED, rejected, "off topic")]
        assert [kind for kind, *_ in await notices(shoal, ben)] == [Kind.MENTION]
        await ann.held.withdraw(rejected)
        await ann.delete(published)
        assert await notices(shoal, ann) == []
        assert await is_clean(shoal)


@pytest.mark.parametrize("kind", ["edit", "profile", "media"])
@in_loop
async def test_approval_of_a_change_notifies_its_author(kind: str, tmp_path: Path) -> None:
    async with network("memory", tmp_path, WordCheck()) as shoal:
        ann = await shoal.register("ann")
        file = await ann.upload(picture())
        post = await ann.create("a boat", media=[file])
        acts: dict[str, Callable[[], Awaitable[object]]] = {
            "edit": lambda: ann.update(post, "hold new", media=[file]),
            "profile": lambda: ann.update_profile(note="hold new"),
            "media": lambda: ann.describe(file, description="hold new"),
        }
        for _repetition in range(2):
            with pytest.raises(Held) as raised:
                await acts[kind]()
            await shoal.moderation.approve_held(raised.value.held_id)
            assert await notices(shoal, ann) == [(Kind.APPROVED, post.id if kind == "edit" else 0, "")]
            await ann.update(post, "a boat", media=[file])
            await ann.update_profile(note="")
            await ann.describe(file, description="")
            await ann.notifications.clear()


@in_loop
async def test_deletion_of_a_post_deletes_its_held_edit_and_descriptions(tmp_path: Path) -> None:
    async with network("memory", tmp_path, WordCheck()) as shoal:
        ann = await shoal.register("ann")
        file = await ann.upload(picture())
        post, other = await ann.create("a boat", media=[file]), await ann.create("another")
        for act in (
            ann.update(post, "hold new", media=[file]),
            ann.describe(file, description="hold new"),
            ann.update(other, "hold other"),
        ):
            with pytest.raises(Held):
                await act
        await ann.delete(post)
        assert [held.text for held in (await shoal.moderation.held()).items] == ["hold other"]
        assert [held.text for held in (await ann.held.page()).items] == ["hold other"]
        assert await is_clean(shoal)


@in_loop
async def test_member_export_contains_held_and_rejected_content(tmp_path: Path) -> None:
    async with network("sqlite", tmp_path, WordCheck()) as shoal:
        ann, ben = await shoal.register("ann"), await shoal.register("ben")
        file = await ann.upload(picture(), description="two pelicans")
        held = await hold(ann, "hold this", media=[file], data={"a": 1})
        rejected = await hold(ann, "hold that")
        await shoal.moderation.reject_held(rejected, "off topic")
        with pytest.raises(Held):
            await ann.update_profile(note="hold new", avatar=picture())
        for name in ("ann", "ben"):
            await export(shoal.network, name, tmp_path / name)
        profile, second, first = json.loads((tmp_path / "ann" / "held.json").read_bytes())
        assert (profile["kind"], profile["text"]) == ("profile", "hold new")
        assert (tmp_path / "ann" / profile["pictures"][0]).is_file()
        assert (second["id"], second["refusal"], bool(second["rejected"])) == (str(rejected), "off topic", True)
        assert (first["id"], first["data"], first["descriptions"]) == (str(held), {"a": 1}, ["two pelicans"])
        assert first["media"]
        assert "reason" not in first
        assert json.loads((tmp_path / "ben" / "held.json").read_bytes()) == []
        assert "has_held" not in json.loads((tmp_path / "ann" / "profile.json").read_bytes())
        assert ben.name == "ben"


def test_menu_entry_of_held_content_costs_a_read_only_after_content_was_held(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []

    async def count(graph: Reader, id_: int, atype: AssocType) -> int:
        counted.append(id_)
        return await count_of(graph, id_, atype)

    monkeypatch.setattr(layout, "count_of", count)
    with network_fixture(moderation=WordCheck()) as here:
        author, other = member(here, "ann"), member(here, "ben")
        ann, ben = visitor(here, "ann"), visitor(here, "ben")
        for browser in (ann, ben):
            assert browser.open("/compose").press("Post", text="a boat").status == 200
        assert not counted
        assert ann.open("/compose").press("Post", text="hold this").path == "/pending"
        for browser in (ann, ben):
            browser.open("/")
        assert set(counted) == {author.id} != {other.id}


def test_menu_leads_the_author_to_held_content_while_there_is_any() -> None:
    with network_fixture(moderation=WordCheck()) as here:
        author = member(here, "ann")
        member(here, "ben")
        ann, ben = visitor(here, "ann"), visitor(here, "ben")
        assert not ann.open("/").links("Waiting for approval")
        assert ann.open("/compose").press("Post", text="hold this").path == "/pending"
        assert ann.open("/").follow("Waiting for approval").path == "/pending"
        assert ann.open(f"/@{author.name}").links("Waiting for approval")
        assert not ben.open("/").links("Waiting for approval")
        assert not ben.open(f"/@{author.name}").links("Waiting for approval")
        ann.open("/pending").press("Delete")
        assert not ann.open("/").links("Waiting for approval")


def test_notifications_of_held_content_lead_to_its_pages() -> None:
    with network_fixture(moderation=WordCheck()) as here:
        author, chief = member(here, "ann"), member(here, "chief")
        here.run(moderation.set_role(here.writes, chief.id, Role.MODERATOR))
        ann = Someone(author, here.token(here.join("other").app_id, author.id), 0)
        for number in (1, 2):
            assert here.ask("POST", "/api/v1/statuses", ann, json={"status": f"hold {number}"}).status_code == 422
        here.settle()
        browser = visitor(here, "chief")
        listed = browser.open("/notifications?kind=staff")
        assert "Content by ann was held for approval" in listed.text
        assert listed.follow("Open").path == "/moderation/held"
        page = browser.open("/moderation/held").press("Reject", reason="off topic")
        page.press("Approve")
        here.settle()
        shown = visitor(here, "ann").open("/notifications")
        assert {"A moderator rejected your content", "A moderator approved your content"} <= set(
            shown.html.select_one("main").stripped_strings  # type: ignore[union-attr]  # every page has it
        )
        assert "off topic" in shown.text
        approved, rejected = [str(link["href"]) for link in shown.links("Open")]
        assert rejected.endswith("/pending")
        assert "hold 1" in visitor(here).open(approved).text
        listed = here.json("GET", "/api/v1/notifications", ann)
        assert [(one["type"], one.get("refusal")) for one in listed] == [
            ("shoal:held_approved", None),
            ("shoal:held_rejected", "off topic"),
        ]
        assert {one["account"]["id"] for one in listed} == {str(author.id)}
        groups = here.json("GET", "/api/v2/notifications", ann)["notification_groups"]
        assert [(one["type"], one.get("refusal")) for one in groups] == [
            ("shoal:held_approved", None),
            ("shoal:held_rejected", "off topic"),
        ]
        assert here.json("GET", "/api/v1/notifications?types[]=mention", ann) == []
