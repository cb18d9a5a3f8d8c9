"""An uploaded picture made into the sizes that are shown. The only module that imports Pillow; only `worker.py` imports it.

What comes out is upright, in sRGB, the first frame of an animation, and carries no metadata: no EXIF, GPS, XMP, IPTC, profile,
comment or text. Whatever goes in, the only errors are `InvalidInput` (with its kinds) and `MemoryError`.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager, suppress

# The codecs are named because Pillow would import them at first use, when the child has no file handles to spare.
from PIL import (
    AvifImagePlugin,
    GifImagePlugin,
    Image,
    ImageCms,
    ImageOps,
    JpegImagePlugin,
    PngImagePlugin,
    WebPImagePlugin,
)

from shoal.core.errors import InvalidInput, ShoalError, TooLarge
from shoal.media import blurhash
from shoal.media.limits import Limits
from shoal.media.protocol import Crop, Picture, Rendering
from shoal.media.sniff import AVIF, GIF, JPEG, PNG, WEBP, sniff

_FORMATS: dict[str, tuple[str, str]] = {
    JPEG: (JpegImagePlugin.JpegImageFile.format, "JPEG"),
}
