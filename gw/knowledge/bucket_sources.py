"""Source documents in a bucket, fetched by presigned links of the storage."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Final

from actors.media_store.bucket import BucketFault, S3Client
from actors.media_store.specs import BucketSpec
from gw.knowledge.sources import ROOT, disposition

CONNECTIONS: Final = 4
CHUNK_BYTES: Final = 1024 * 1024
ABSENT = frozenset(("404", "NoSuchKey", "NotFound"))


class BucketSources:
    """The objects of a bucket, by the names of sources. Every method blocks and raises OSError."""

    def __init__(self, spec: BucketSpec) -> None:
        self._client = S3Client(spec, connections=CONNECTIONS)

    def put(self, name: str, file: Path, sha256: str) -> None:
        """Store a file under a name with its hash, unless it exists."""
        if self._is_there(name):
            return
        with file.open("rb") as body:
            self._client.ask("put_object", name, Body=body, ContentType="application/octet-stream")

    def fetch(self, name: str, target: Path) -> None:
        """Write a source into a file."""
        body = self._client.ask("get_object", name)["Body"]
        with target.open("wb") as file:
            for chunk in body.iter_chunks(CHUNK_BYTES):
                file.write(chunk)

    def keep_only(self, account_id: str, names: Collection[str]) -> None:
        """Delete every other object of an account."""
        for name in list(self._client.keys(f"{ROOT}/{account_id}/")):
            if name not in names:
                self._client.ask("delete_object", name)

    def link(self, name: str, *, seconds: int) -> str:
        """Return a link to a source, valid for `seconds`; the object may be missing."""
        return self._client.link(
            name, seconds=seconds, ResponseContentDisposition=disposition(name)
        )

    def _is_there(self, name: str) -> bool:
        try:
            self._client.ask("head_object", name)
        except BucketFault as fault:
            if fault.code in ABSENT:
                return False
            raise
        return True
