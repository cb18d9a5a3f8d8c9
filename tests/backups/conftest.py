"""The S3 server of the media tests, for backups in buckets."""

from __future__ import annotations

from tests.media.conftest import s3_url

__all__ = ["s3_url"]
