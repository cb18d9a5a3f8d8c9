"""Proof of work: whoever signs up has a machine count for a while, which costs a person a moment and a program its pace.

A proof is a number that makes a hash begin with so many zero bits; it is found by trying, and checked by hashing once
(Back, "Hashcash", 2002). The hash is PBKDF2-HMAC-SHA256, of which browsers have a native one (`crypto.subtle`), so that a page
in a browser is hardly slower than a program.

    PBKDF2(password="4711", salt="shoal:social.example.org:ann:1764086400", 5,000 rounds) = 00 2f c1 …  worth 10 bits
    the proof as text:      "1764086400:4711"

It holds for one user name on one server, which is free only once: so it needs no memory to count once, and no secret either.
"""

from __future__ import annotations

import hashlib
import re

ROUNDS = 5_000
MAX_BITS = 20
"""Bits that may be asked for: a million tries on average."""
GOOD_SECONDS = 3_600
"""Seconds for which a proof is good, from when its work was given out."""
_AHEAD_SECONDS = 120
"""How much later than ours another process's clock may be."""
_PROOF = re.compile(r"([0-9]{1,12}):([0-9]{1,10})", re.ASCII)


def is_proof(proof: str, domain: str, name: str, bits: int, now: int) -> bool:
    """Return whether a text proves work of so many bits for a user name on the server `domain`; `now` is in Unix seconds.

    It hashes once, some 2 ms, unless the text is malformed or too old.
    """
    found = _PROOF.fullmatch(proof)
    if found is None:
        return False
    since, number = int(found[1]), found[2]
    if not now - GOOD_SECONDS <= since <= now + _AHEAD_SECONDS:
        return False
    salt = f"shoal:{domain}:{name.strip().lower()}:{since}"
    hashed = hashlib.pbkdf2_hmac("sha256", number.encode(), salt.encode(), ROUNDS, 4)
    return int.from_bytes(hashed) >> (32 - bits) == 0


def find_proof(domain: str, name: str, bits: int, now: int) -> str:
    """Return a proof, after 2 to the power of `bits` tries on average: for programs that sign up, and for tests."""
    number = 0
    while not is_proof(proof := f"{now}:{number}", domain, name, bits, now):
        number += 1
    return proof
