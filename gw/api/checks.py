"""What stands before every endpoint, in the order of contract §7: 401, (403), 429, 402.

Each check is one function that returns or raises GatewayError; `base.py` calls them in this order
and the body is read only after them. The later checks (body, registry, allowlist, pre-charge) are
the endpoint's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from actors.limits.accounts import LimitExceeded
from gw.api.auth import AuthMode, find_key, has_query_key
from gw.api.services import Admission, Keys, Limits, Money
from gw.errors.table import (
    INVALID_API_KEY,
    PERMISSION_DENIED,
    QUOTA_EXCEEDED,
    RATE_LIMIT_EXCEEDED,
    GatewayError,
)
from gw.keys.principal import KeyRefused, Principal

_CHALLENGE = {"WWW-Authenticate": "Bearer"}

MISSING_KEY = (
    "No API key was given. Send it as `Authorization: Bearer <API key>` or in the header"
    " `x-api-key`."
)
QUERY_KEY = (
    "This endpoint does not take the key from the query. Send it as `Authorization: Bearer <API"
    " key>` or in the header `x-api-key`."
)
OUT_OF_FUNDS = (
    "The account's balance is used up. Top up to continue; all keys of the account share this"
    " balance, so a new key does not help."
)


async def authenticate(
    keys: Keys,
    *,
    headers: Mapping[str, str],
    query: Mapping[str, Sequence[bytes]],
    mode: AuthMode,
    touch: bool,
) -> Principal:
    """401 unless a good key is given (spec: Authentication 5)."""
    key_text = find_key(headers, query, mode)
    if key_text is None:
        is_misplaced = mode == "models" and has_query_key(query)
        message = QUERY_KEY if is_misplaced else MISSING_KEY
        raise GatewayError(INVALID_API_KEY, message, headers=_CHALLENGE)
    try:
        return await keys.authenticate(key_text, touch=touch)
    except KeyRefused as refused:
        raise GatewayError(INVALID_API_KEY, str(refused), headers=_CHALLENGE) from None


def require_agent_allowed(principal: Principal, *, agent_keys_allowed: bool) -> None:
    """403 for an agent key anywhere but where agents speak (spec: Authentication 8)."""
    if principal.kind == "agent" and not agent_keys_allowed:
        raise GatewayError(
            PERMISSION_DENIED,
            "An agent key works only on POST /v1/chat/completions.",
        )


async def admit(limits: Limits, principal: Principal) -> Admission:
    """429 when the account is at one of its limits (spec: Limits, Platform account limits)."""
    try:
        return await limits.enter(
            principal.account_id,
            rpm=principal.rpm_limit,
            concurrency=principal.concurrency_limit,
        )
    except LimitExceeded as exceeded:
        raise _refused(exceeded) from None


def admit_at_once(limits: Limits, principal: Principal) -> Admission | None:
    """The same, where it needs no waiting; None where it does."""
    try:
        return limits.enter_at_once(
            principal.account_id,
            rpm=principal.rpm_limit,
            concurrency=principal.concurrency_limit,
        )
    except LimitExceeded as exceeded:
        raise _refused(exceeded) from None


def _refused(exceeded: LimitExceeded) -> GatewayError:
    return GatewayError(
        RATE_LIMIT_EXCEEDED,
        f"The account has reached its limit of {exceeded.limit} {_what(exceeded.dimension)}."
        f" Try again in {exceeded.retry_after_seconds} s.",
        headers=exceeded.headers,
    )


async def require_funds(wallets: Money, principal: Principal) -> None:
    """402 when nothing is available (spec: Authentication 6; contract §3)."""
    if await wallets.available(principal.account_id) <= 0:
        raise GatewayError(QUOTA_EXCEEDED, OUT_OF_FUNDS)


def _what(dimension: str) -> str:
    return "concurrent requests (concurrency)" if dimension == "concurrency" else dimension
