"""A bucket as the configuration names it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class BucketSpec:
    """Which bucket, and how it is reached."""

    endpoint: str
    region: str
    bucket: str
    prefix: str
    access_key: str = field(repr=False)
    secret_key: str = field(repr=False)
