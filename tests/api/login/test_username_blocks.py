"""Username blocks refuse sign-ups; existing members and operators are not affected."""

from __future__ import annotations

import pytest

from shoal.admin.blocklists import Blocklists
from shoal.admin.consistency.check import check
from shoal.commands import members
from shoal.core.blocklists import NameBlock
from shoal.core.errors import NotFound, Taken
from tests.api.in_memory_network import network_fixture
from tests.api.login.test_signup import GOOD, codes, sign_up
from tests.web.browser import visitor


def test_sign_up_with_blocked_username_or_name_containing_blocked_word_is_refused_until_unblocked() -> None:
    with network_fixture() as shoal:
        lists = Blocklists(shoal.network.writes)
        shoal.run(lists.block_name("Boss"))
        shoal.run(lists.block_name("hate", part=True))
        for name in ("boss", "B_055", "hate", "i_h4te_you"):
            assert codes(sign_up(shoal, **{**GOOD, "username": name})) == {"username": ["ERR_RESERVED"]}
        page = (
            visitor(shoal)
            .open("/signup")
            .press("Sign up", username="hateful", email="h@example.org", password="a long password", agreement="true")
        )
        assert (page.status, "This name is reserved" in page.text) == (422, True)
        for name in ("bosses", "harmless"):
            assert sign_up(shoal, **{**GOOD, "username": name, "email": f"{name}@example.org"}).status_code == 200
        assert shoal.run(members.register(shoal.network.writes, "boss")).name == "boss"
        with pytest.raises(Taken):
            shoal.run(lists.block_name("b0ss"))
        shoal.run(lists.block_name("boss", part=True))
        assert [(one.word, one.part) for one in shoal.run(_all(lists))] == [
            ("boss", True),
            ("hate", True),
            ("boss", False),
        ]
        shoal.settle()
        assert shoal.run(check(shoal.network)).clean
        shoal.run(lists.unblock_name("BOSS"))
        assert [one.word for one in shoal.run(_all(lists))] == ["hate"]
        assert sign_up(shoal, **{**GOOD, "username": "my_boss"}).status_code == 200
        with pytest.raises(NotFound, match="boss is not blocked"):
            shoal.run(lists.unblock_name("boss"))


async def _all(lists: Blocklists) -> list[NameBlock]:
    return [one async for one in lists.blocks() if isinstance(one, NameBlock)]
