"""Web Push encryption: the RFC 8291 example byte for byte, and decryption by an independent library."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import http_ece
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.errors import InvalidInput
from shoal.push.encryption import (
    MAX_PLAIN,
    ServerKey,
    check_key,
    in_url,
    load_or_create_key,
    new_key,
    public_bytes,
    read_key,
    seal,
    sealed_with,
)
from shoal.push.messages import check_bytes, check_endpoint


def unquoted(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def private(text: str) -> ec.EllipticCurvePrivateKey:
    return ec.derive_private_key(int.from_bytes(unquoted(text)), ec.SECP256R1())


def test_web_push_encryption_matches_rfc_8291_section_5_example() -> None:
    sealed = sealed_with(
        b"When I grow up, I want to be a watermelon",
        unquoted("BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"),
        unquoted("BTBZMqHH6r4Tts7J_aSIgg"),
        private("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"),
        unquoted("DGv6ra1nlYgDCS1FRnbzlw"),
        standard=True,
    )
    assert in_url(sealed.body) == (
        "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27ml"
        "mlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPT"
        "pK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
    )
    assert sealed.headers == {"Content-Encoding": "aes128gcm"}


APP = ec.generate_private_key(ec.SECP256R1())
SECRET = bytes(16)


@given(st.binary(min_size=1, max_size=MAX_PLAIN), st.booleans())
def test_web_push_message_is_decrypted_by_app_and_each_ciphertext_differs(plain: bytes, standard: bool) -> None:
    key = public_bytes(APP.public_key())
    sealed, again = (seal(plain, key, SECRET, standard=standard) for _ in range(2))
    assert sealed.body != again.body
    assert len(sealed.body) <= 4_096
    more = {}
    if not standard:
        more = {
            "salt": unquoted(sealed.headers["Encryption"].removeprefix("salt=")),
            "dh": unquoted(sealed.crypto_key.removeprefix("dh=")),
        }
    found = http_ece.decrypt(
        sealed.body, private_key=APP, auth_secret=SECRET, version=sealed.headers["Content-Encoding"], **more
    )
    assert found == plain


def test_vapid_token_is_signed_by_server_key() -> None:
    text = new_key()
    key = ServerKey(read_key(text), "mailto:ann@example.org")
    token = key.token_for("https://push.example")
    head, claims, signature = token.split(".")
    assert json.loads(unquoted(head)) == {"typ": "JWT", "alg": "ES256"}
    said = json.loads(unquoted(claims))
    assert said["aud"] == "https://push.example"
    assert said["sub"] == "mailto:ann@example.org"
    r, s = (int.from_bytes(part) for part in (unquoted(signature)[:32], unquoted(signature)[32:]))
    point = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), unquoted(key.public))
    point.verify(encode_dss_signature(r, s), f"{head}.{claims}".encode(), ec.ECDSA(SHA256()))
    assert key.token_for("https://push.example") == token
    assert key.token_for("https://other.example") != token


def test_sealed_push_token_opens_only_with_its_key() -> None:
    key, other = (ServerKey(read_key(new_key()), "mailto:ann@example.org") for _ in range(2))
    sealed = key.seal("the text of a token")
    assert key.open(sealed) == "the text of a token"
    assert other.open(sealed) == key.open(sealed[:-1]) == key.open(b"") == ""
    assert b"token" not in sealed


def test_push_key_file_is_created_once_with_owner_only_permissions(tmp_path: Path) -> None:
    path = tmp_path / "shoal.db.push-key"
    first = load_or_create_key(path)
    assert load_or_create_key(path) == first
    assert path.stat().st_mode & 0o777 == 0o600
    assert [one.name for one in tmp_path.iterdir()] == [path.name]
    path.write_text("something else")
    with pytest.raises(InvalidInput):
        load_or_create_key(path)


@pytest.mark.parametrize("text", ["", "AAAA", "!" * 43, in_url(bytes(32)), in_url(b"\xff" * 32), "A" * 45])
def test_push_server_key_with_invalid_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="shoal push key"):
        read_key(text)


@pytest.mark.parametrize("point", [bytes(65), b"\x04" + bytes(64), b"\x04" + b"\xff" * 64, b"\x02" + bytes(32)])
def test_push_subscription_key_not_on_curve_is_refused(point: bytes) -> None:
    with pytest.raises(InvalidInput):
        check_key(point)


@pytest.mark.parametrize(
    "endpoint",
    [
        "",
        "http://push.example/1",
        "https:///1",
        "https://ann:secret@push.example/1",
        "https://push.example/1#here",
        "https://push.example:99999/1",
        "https://push.example/a b",
        "https://push.example/\x7f",
        "https://push.example/ä",
        "https://[push.example/1",
        "https://push.example/" + "x" * 2_048,
        "ftp://push.example/1",
    ],
)
def test_push_subscription_with_invalid_endpoint_is_refused(endpoint: str) -> None:
    with pytest.raises(InvalidInput, match=r"subscription\[endpoint\]"):
        check_endpoint(endpoint)


def test_push_subscription_keys_are_accepted_in_any_base64_variant_and_only_at_correct_length() -> None:
    data = b"\xfb\xff" + bytes(14)
    for text in (in_url(data), base64.b64encode(data).decode(), base64.urlsafe_b64encode(data).decode()):
        assert check_bytes(text, 16, "auth") == data
    for text in ("", "AAAA", "!" * 22, in_url(bytes(17)), "ä" * 22):
        with pytest.raises(InvalidInput, match=r"subscription\[keys\]\[auth\] must be 16 bytes"):
            check_bytes(text, 16, "auth")
