"""`/admin/v1/…` on the admin listener: what is passed on, and its response.

The response is made by the API itself (`gw/api/admin/`) or, in the parent of several processes, by
one of these (`gw/processes/`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from gw.error_bodies import dumps

PREFIX = "/admin/v1/"
# A system prompt of 64 KiB, each character escaped, and the other members. A route may take less.
BODY_BYTES_MAX = 512 * 1024
# In which a parent forwards the client's address, with the proof that it is the parent.
PEER_HEADER = "X-Gateway-Admin-Peer"
PROOF_VARIABLE = "GW_ADMIN_PEER_PROOF"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminRequest:
    """A request. `path` is below the prefix, still encoded; `address` is the client's."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes
    address: str
    trace: str


@dataclass(frozen=True, slots=True)
class AdminResponse:
    """A response in JSON."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


Respond = Callable[[AdminRequest], Awaitable[AdminResponse]]


def error_body(code: str, message: str, trace: str) -> bytes:
    """Return the body of an error, which has one shape."""
    return dumps({"error": {"code": code, "message": message, "trace_id": trace}})
