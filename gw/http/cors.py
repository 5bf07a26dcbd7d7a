"""Cross-origin resource sharing: the origins whose pages may read responses (Fetch, 3.3).

A browser sends a preflight before a request that a plain form could not make, and hides a response
from its page unless the response allows the page's origin. Credentials of the browser (cookies,
certificates) are never allowed: only the key in the request authenticates.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from gw.http.endpoint import HttpEndpoint
from gw.http.response import WholeResponse
from gw.http.tornado.headers import RequestHeaders
from gw.http.tornado.request import TornadoRequest

ANY: Final = "*"
# How long a browser may cache a preflight: a restart may change the configuration.
MAX_AGE_SECONDS = 600
# Headers that a page may read besides the safelisted ones.
EXPOSED: Final = (
    "X-Gateway-Trace",
    "Retry-After",
    "X-Should-Retry",
    *("X-Ratelimit-Limit-Requests", "X-Ratelimit-Remaining-Requests"),
    "X-Ratelimit-Reset-Requests",
    *("X-Ratelimit-Limit-Concurrency", "X-Ratelimit-Remaining-Concurrency"),
    *("X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"),
    *("X-Protocol-Translation", "X-Protocol-Warning", "X-Token-Count", "Idempotency-Replayed"),
    *("Allow", "Location", "WWW-Authenticate"),
    *("X-Gateway-Model", "X-Gateway-Budget", "X-Gateway-Budget-Warning"),
    *("Accept-Ranges", "Content-Disposition", "Content-Length", "Content-Range", "ETag"),
)
_EXPOSED = ", ".join(EXPOSED)
# Header names separated by commas.
_NAMES = re.compile(r"[\w!#$%&'*+.^`|~-]+(?:[ \t]*,[ \t]*[\w!#$%&'*+.^`|~-]+)*", re.ASCII)


class Cors:
    """The headers of responses to pages of these origins; ANY allows all."""

    def __init__(self, origins: Iterable[str]) -> None:
        self._origins = frozenset(origins)

    def headers(self, received: RequestHeaders, headers: Mapping[str, str]) -> dict[str, str]:
        """Return the headers of a response with the permissions of its page."""
        vary = headers.get("Vary")
        found = {**headers, "Vary": f"{vary}, Origin" if vary else "Origin"}
        allowed = self._allowed(received.get("Origin"))
        if allowed is not None:
            found["Access-Control-Allow-Origin"] = allowed
            found["Access-Control-Expose-Headers"] = _EXPOSED
        return found

    def preflight(self, request: TornadoRequest, endpoint: HttpEndpoint) -> WholeResponse | None:
        """Return the response to a preflight; None for any other request or origin."""
        received = request.headers
        if request.method != "OPTIONS" or "Access-Control-Request-Method" not in received:
            return None
        methods = endpoint.methods
        if not methods or self._allowed(received.get("Origin")) is None:
            return None
        headers = {
            "Access-Control-Allow-Methods": ", ".join(methods),
            "Access-Control-Max-Age": str(MAX_AGE_SECONDS),
            "Vary": "Access-Control-Request-Method, Access-Control-Request-Headers",
        }
        names = received.get("Access-Control-Request-Headers", "").strip()
        if _NAMES.fullmatch(names):
            headers["Access-Control-Allow-Headers"] = names
        return WholeResponse(204, headers, b"")

    def _allowed(self, origin: str | None) -> str | None:
        if not origin:
            return None
        if ANY in self._origins:
            return ANY
        return origin if origin in self._origins else None
