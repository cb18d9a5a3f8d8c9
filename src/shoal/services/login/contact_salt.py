"""The salt under which e-mail addresses are hashed, by those who look for members and for members who may be found."""

from __future__ import annotations

import secrets

from shoal.core.email import SALT_BYTES, ContactSalt
from shoal.graph.schema import contact_salt_key
from shoal.services.writes import Writes, made_once


async def contact_salt(writes: Writes) -> str:
    """Return the salt of the network, in hexadecimal digits. Whoever asks first makes it."""

    def make(id_: int) -> ContactSalt:
        return ContactSalt(id=id_, salt=secrets.token_bytes(SALT_BYTES))

    return (await made_once(writes, contact_salt_key(), ContactSalt, make)).salt.hex()
