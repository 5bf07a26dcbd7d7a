"""Links to films that the gateway serves itself, because their upstream has none for them.

A client with a link needs no key until it expires: the signature says that the gateway made it, and
the same secret signs it in every process (contract-media §7).
"""

from __future__ import annotations

import math

from actors.jobs.job import Job
from actors.media_store.links import LinkSigner

# Where a job keeps how its client reached the gateway, which has no `public_url`.
BASE_URL = "base_url"


class ContentLinks:
    """Makes links and tells its own from others, under keys of 32 bytes; the first signs."""

    def __init__(self, *keys: bytes, public_url: str) -> None:
        self._signer = LinkSigner(*keys)
        self._public_url = public_url

    def __repr__(self) -> str:
        return f"<ContentLinks {self._public_url}>"

    def link(self, job: Job, expires_at: float) -> str:
        """The link to a job's film until that instant (Unix seconds)."""
        base = self._public_url or job.request.get(BASE_URL, "")
        path = _path(job.id)
        return f"{base}{path}?{self._signer.query(path, math.floor(expires_at))}"

    def is_good(self, job_id: str, expires: str, signature: str, *, now: float) -> bool:
        """Whether these are of a link that was made here, and that has not expired."""
        return self._signer.is_good(_path(job_id), expires, signature, now=now)


def _path(job_id: str) -> str:
    return f"/v1/videos/generations/{job_id}/content"
