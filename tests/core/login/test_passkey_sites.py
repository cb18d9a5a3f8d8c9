"""The site of passkeys is normalized as in browsers; otherwise every assertion would be refused."""

from __future__ import annotations

import pytest

from shoal.core.credentials import site_of

SPELLINGS = {
    "https://shoal.test": ("https://shoal.test", "shoal.test"),
    "https://Shoal.TEST": ("https://shoal.test", "shoal.test"),
    "https://shoal.test:443": ("https://shoal.test", "shoal.test"),
    "http://localhost:80": ("http://localhost", "localhost"),
    "https://shoal.test:80": ("https://shoal.test:80", "shoal.test"),
    "http://localhost:3000": ("http://localhost:3000", "localhost"),
    "https://Bücher.example": ("https://xn--bcher-kva.example", "xn--bcher-kva.example"),
    "https://straße.example:8443": ("https://xn--strae-oqa.example:8443", "xn--strae-oqa.example"),
    "https://例え.example": ("https://xn--r8jz45g.example", "xn--r8jz45g.example"),
    "http://[2001:DB8::1]:3000": ("http://[2001:db8::1]:3000", "2001:db8::1"),
    "https://❤.example": ("https://❤.example", "❤.example"),
}


@pytest.mark.parametrize(("root", "spelled"), SPELLINGS.items())
def test_passkey_site_origin_and_host_are_normalized_as_in_browsers(root: str, spelled: tuple[str, str]) -> None:
    site = site_of(root, "The Shoal")
    assert (site.origin, site.host) == spelled
