"""Web push subscriptions of sessions."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from shoal import Shoal
from shoal.commands import push_subscriptions
from shoal.core.errors import NotFound
from shoal.push.encryption import public_bytes
from shoal.push.messages import PushSubscription
from tests.async_runner import in_loop
from tests.flows.members import register


@in_loop
async def test_push_subscription_for_ended_session_returns_not_found() -> None:
    async with Shoal.open("memory://") as shoal:
        (ann,) = await register(shoal, "ann")
        key = public_bytes(ec.generate_private_key(ec.SECP256R1()).public_key())
        wanted = PushSubscription("https://push.example/1", key, bytes(16))
        with pytest.raises(NotFound):
            await push_subscriptions.subscribe(shoal.network.writes, ann.id, ann.id + 1, wanted)
