"""One effect for all requests under one idempotency key, in every process.

The key, the effect and the response are one transaction. A second request waits for the end of
the first one's transaction, in whichever process, and receives the same response. After
`KEPT_DAYS` the key is free.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from hashlib import sha256

from actors.store.session import Session
from gw.admin.audit import SQL
from gw.idempotency.store import KEPT_DAYS
from gw.nouns.refused import Invalid, Refused

_KEY = re.compile(r"[!-~]{1,255}")


def read_key(text: str) -> str:
    """Return a valid idempotency key: 1 to 255 visible ASCII characters. Raises Invalid."""
    if not _KEY.fullmatch(text):
        raise Invalid("Idempotency-Key: it is 1 to 255 visible ASCII characters")
    return text


async def once(
    session: Session, scope: str, key: str, body: bytes, make: Callable[[], Awaitable[bytes]]
) -> tuple[bytes, bool]:
    """Return the response of `make`, and whether it is a replay.

    `session` is the transaction of `make`; `scope` separates kinds of requests. Raises Refused if
    the key was used with another body.
    """
    digest = sha256(body).digest()
    row = {"scope": scope, "key": key}
    claim = {**row, "digest": digest, "days": KEPT_DAYS}
    if await session.execute(SQL["claim_response"], claim):
        response = await make()
        await session.execute(SQL["keep_response"], {**row, "response": response.decode()})
        return response, False
    kept = await session.fetch_one(SQL["kept_response"], row)
    assert kept is not None
    if bytes(kept[0]) != digest:
        raise Refused(
            f"the idempotency key {key} has been used with another request",
            "idempotency_key_reuse",
        )
    return kept[1].encode(), True
