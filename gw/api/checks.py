"""What stands before every endpoint: ONE list, in the order of contract §7: 401, 403, 429, 402.

A check has two forms. `try_now` answers in the loop's turn in which the head came, where memory
knows enough: True lets the request pass, an error refuses it, False leaves it to `ask`, which may
wait. Both are members of one class, so that none can be added in one form and forgotten in the
other; both refuse with the same error. What is checked of the body (registry, allowlist,
pre-charge) is the endpoint's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol

from actors.limits.accounts import LimitExceeded
from gw.api.auth import AuthMode, find_key, has_query_key
from gw.api.services import LimitLease, Services
from gw.errors.table import (
    INVALID_API_KEY,
    PERMISSION_DENIED,
    QUOTA_EXCEEDED,
    RATE_LIMIT_EXCEEDED,
    GatewayError,
)
from gw.keys.principal import AGENT, KeyRefused, Principal

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


class Head(Protocol):
    """The head of a request, as a check reads it."""

    @property
    def headers(self) -> Mapping[str, str]: ...

    @property
    def query_arguments(self) -> Mapping[str, Sequence[bytes]]: ...


class Checked(Protocol):
    """The request that is checked: its endpoint's attributes, and what a check finds out."""

    @property
    def services(self) -> Services: ...

    @property
    def request(self) -> Any:
        """A `Head`."""

    @property
    def idempotency_keys(self) -> list[str]: ...

    @property
    def principal(self) -> Principal: ...

    @principal.setter
    def principal(self, principal: Principal) -> None: ...

    auth: ClassVar[AuthMode]
    challenge: ClassVar[str]
    touches_key: ClassVar[bool]

    def admitted(self, admission: LimitLease) -> None:
        """Keep what the account's limits have given it."""


class Check:
    """One thing that a request may be refused for.

    `is_of_money`: it concerns only requests that cost something.
    """

    is_of_money: ClassVar[bool] = False

    def applies(self, endpoint: type[Any]) -> bool:
        """Whether requests to the endpoint are checked for it."""
        return True

    def try_now(self, checked: Checked) -> bool:
        """Check without waiting; False leaves it to `ask`. Raises what `ask` would raise."""
        raise NotImplementedError

    async def ask(self, checked: Checked) -> None:
        """Check, whatever that takes. Raises GatewayError."""
        raise NotImplementedError


class KeyCheck(Check):
    """401 unless a good key is given (spec: Authentication 5)."""

    def applies(self, endpoint: type[Any]) -> bool:
        return bool(endpoint.auth != "none")

    def try_now(self, checked: Checked) -> bool:
        key_text = _key_of(checked)
        keys = checked.services.keys
        principal = keys.try_authenticate(key_text, touch=checked.touches_key)
        if principal is None:
            return False
        checked.principal = principal
        return True

    async def ask(self, checked: Checked) -> None:
        keys = checked.services.keys
        try:
            checked.principal = await keys.authenticate(_key_of(checked), touch=checked.touches_key)
        except KeyRefused as refused:
            raise _bad_key(checked, str(refused)) from None


class KeyKindCheck(Check):
    """403 for an agent key anywhere but where agents speak (spec: Authentication 8)."""

    def applies(self, endpoint: type[Any]) -> bool:
        return bool(endpoint.auth != "none") and not endpoint.agent_keys_allowed

    def try_now(self, checked: Checked) -> bool:
        if checked.principal.kind == AGENT:
            raise GatewayError(
                PERMISSION_DENIED, "An agent key works only on POST /v1/chat/completions."
            )
        return True

    async def ask(self, checked: Checked) -> None:
        self.try_now(checked)


class LimitsCheck(Check):
    """429 when the account is at one of its limits (spec: Limits, Platform account limits)."""

    def applies(self, endpoint: type[Any]) -> bool:
        return bool(endpoint.limited)

    def try_now(self, checked: Checked) -> bool:
        principal = checked.principal
        try:
            admission = checked.services.limits.try_enter(
                principal.account_id,
                rpm=principal.rpm_limit,
                concurrency=principal.concurrency_limit,
            )
        except LimitExceeded as exceeded:
            raise _over_limit(exceeded) from None
        if admission is None:
            return False
        checked.admitted(admission)
        return True

    async def ask(self, checked: Checked) -> None:
        principal = checked.principal
        try:
            admission = await checked.services.limits.enter(
                principal.account_id,
                rpm=principal.rpm_limit,
                concurrency=principal.concurrency_limit,
            )
        except LimitExceeded as exceeded:
            raise _over_limit(exceeded) from None
        checked.admitted(admission)


class FundsCheck(Check):
    """402 when nothing is available (spec: Authentication 6; contract §3).

    To ask again for what has been paid for needs no money; the rest the hold will tell.
    """

    is_of_money = True

    def applies(self, endpoint: type[Any]) -> bool:
        return bool(endpoint.billed)

    def try_now(self, checked: Checked) -> bool:
        return checked.services.wallets.is_funded(checked.principal.account_id)

    async def ask(self, checked: Checked) -> None:
        services, account_id = checked.services, checked.principal.account_id
        if await services.wallets.available(account_id) > 0:
            return
        if not await services.idempotency.is_known(checked.idempotency_keys, account_id=account_id):
            raise GatewayError(QUOTA_EXCEEDED, OUT_OF_FUNDS)


GOOD_KEY, KIND_OF_KEY = KeyCheck(), KeyKindCheck()

CHECKS: Sequence[Check] = (GOOD_KEY, KIND_OF_KEY, LimitsCheck(), FundsCheck())


def _key_of(checked: Checked) -> str:
    """Return the key that a request names. Raises GatewayError when there is none."""
    head: Head = checked.request
    key_text = find_key(head.headers, head.query_arguments, checked.auth)
    if key_text is None:
        is_misplaced = checked.auth == "models" and has_query_key(head.query_arguments)
        message = QUERY_KEY if is_misplaced else MISSING_KEY
        raise _bad_key(checked, message)
    return key_text


def _bad_key(checked: Checked, message: str) -> GatewayError:
    headers = {"WWW-Authenticate": checked.challenge}
    return GatewayError(INVALID_API_KEY, message, headers=headers)


def _over_limit(exceeded: LimitExceeded) -> GatewayError:
    is_concurrency = exceeded.dimension == "concurrency"
    what = "concurrent requests (concurrency)" if is_concurrency else exceeded.dimension
    return GatewayError(
        RATE_LIMIT_EXCEEDED,
        f"The account has reached its limit of {exceeded.limit} {what}."
        f" Try again in {exceeded.retry_after_seconds} s.",
        headers=exceeded.headers,
    )
