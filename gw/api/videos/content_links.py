"""Links to films served by the gateway itself, whose upstream has none.

A client with a link needs no key until the link expires: the signature proves that the gateway
made it, and every process signs with the same secret (reference 7.4).
"""

from __future__ import annotations

import math

from actors.jobs.job import Job
from actors.media_store.links import LinkSigner

# The job's field with the client's URL of the gateway, used without a `public_url`.
BASE_URL = "base_url"


class ContentLinks:
    """Makes links and validates them, with keys of 32 bytes; the first one signs."""

    def __init__(self, *keys: bytes, public_url: str) -> None:
        self._signer = LinkSigner(*keys)
        self._public_url = public_url

    def link(self, job: Job, expires_at: float) -> str:
        """Return the link to a job's film, valid until `expires_at` (Unix seconds)."""
        base = self._public_url or job.request.get(BASE_URL, "")
        path = _path(job.id)
        return f"{base}{path}?{self._signer.query(path, math.floor(expires_at))}"

    def is_good(self, job_id: str, expires: str, signature: str, *, now: float) -> bool:
        """Whether the signature is valid and the link has not expired."""
        return self._signer.is_good(_path(job_id), expires, signature, now=now)


def _path(job_id: str) -> str:
    return f"/v1/videos/generations/{job_id}/content"
