"""The configuration of a bucket."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class BucketSpec:
    """The bucket, and how to connect to it."""

    endpoint: str
    region: str
    bucket: str
    prefix: str
    access_key: str = field(repr=False)
    secret_key: str = field(repr=False)
