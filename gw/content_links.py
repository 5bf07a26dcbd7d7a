"""Links to films that the gateway serves itself, because their upstream has none for them.

Whoever has a link needs no key until it expires: the signature says that the gateway made it, and
the same secret signs it in every process (contract-media §7).
"""

from __future__ import annotations

import hmac
import math

from actors.jobs.job import Job

# Where a job keeps how its client reached the gateway, which has no `public_url`.
BASE_URL = "base_url"


class ContentLinks:
    """Makes links and tells its own from others, under a key of 32 bytes."""

    def __init__(self, key: bytes, *, public_url: str) -> None:
        self._key = key
        self._public_url = public_url

    def __repr__(self) -> str:
        return f"<ContentLinks {self._public_url}>"

    def link(self, job: Job, expires_at: float) -> str:
        """The link to a job's film until that instant (Unix seconds)."""
        base = self._public_url or job.request.get(BASE_URL, "")
        expires = math.floor(expires_at)
        query = f"expires={expires}&signature={self._signature(job.id, str(expires))}"
        return f"{base}/v1/videos/generations/{job.id}/content?{query}"

    def is_good(self, job_id: str, expires: str, signature: str, *, now: float) -> bool:
        """Whether these are of a link that was made here, and that has not expired."""
        expected = self._signature(job_id, expires)
        if not hmac.compare_digest(expected.encode(), signature.encode("utf-8", "replace")):
            return False
        return now < int(expires)

    def _signature(self, job_id: str, expires: str) -> str:
        said = f"{job_id}\n{expires}".encode("utf-8", "replace")
        return hmac.digest(self._key, said, "sha256").hex()
