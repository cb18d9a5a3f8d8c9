"""The licenses of posts."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

LicenseName = Literal["all-rights-reserved", "CC-BY-4.0", "CC0-1.0"]


class License(StrEnum):
    """The license of the photos of a post, by its SPDX identifier (https://spdx.org/licenses), or `all-rights-reserved`."""

    RESERVED = "all-rights-reserved"
    CC_BY = "CC-BY-4.0"
    CC0 = "CC0-1.0"

    @property
    def url(self) -> str:
        """The address of the license; empty for `RESERVED`."""
        return _URLS.get(self, "")


_URLS = {
    License.CC_BY: "https://creativecommons.org/licenses/by/4.0/",
    License.CC0: "https://creativecommons.org/publicdomain/zero/1.0/",
}
