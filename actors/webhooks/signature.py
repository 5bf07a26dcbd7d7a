"""Signatures of Standard Webhooks 1.0: an HMAC of the id, the second and the bytes that are sent.

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode
from collections.abc import Sequence

PREFIX = "whsec_"
SECRET_BYTES = 32
VERSION = "v1"


def new_secret() -> str:
    """Return the text of a new secret."""
    return PREFIX + b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def signature(secrets_: Sequence[str], *, event_id: str, timestamp: int, body: bytes) -> str:
    """Return the value of `webhook-signature`: one signature of each secret, in their order."""
    signed = b"%b.%d.%b" % (event_id.encode(), timestamp, body)
    return " ".join(f"{VERSION},{_sign(one, signed)}" for one in secrets_)


def header_lines(secrets_: Sequence[str], *, event_id: str, timestamp: int, body: bytes) -> bytes:
    """Return the lines of a request's head that prove who sent it, each with its line end."""
    signed = signature(secrets_, event_id=event_id, timestamp=timestamp, body=body)
    return (
        f"webhook-id: {event_id}\r\n"
        f"webhook-timestamp: {timestamp}\r\n"
        f"webhook-signature: {signed}\r\n"
    ).encode()


def _sign(secret: str, signed: bytes) -> str:
    key = b64decode(secret.removeprefix(PREFIX), validate=True)
    return b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
