"""The checks before every endpoint: ONE list, in the order of reference 1.2.

The order is 401, 403, 429, 402, then 404 or 400 for text that no id may have.

A check decides from memory where it can, at once; where it cannot, it returns a coroutine that
waits, so that a plain call needs neither a task nor a coroutine for what stands before it. The
endpoint checks the body (registry, allowlist, pre-charge).
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any, ClassVar, Protocol

from actors.limits.accounts import LimitExceeded, Permit
from channels.storable_text import are_storable, is_storable
from gw import errors
from gw.api.credentials import AuthMode, find_key, has_query_key
from gw.api.services import Services
from gw.http.tornado.request import TornadoRequest
from gw.keys.principal import AGENT, KeyRefused, Principal

SHOWN_CHARACTERS_MAX = 60
LOG_REQUESTS_PER_MINUTE = 60
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


class Guarded(Protocol):
    """What checks read of an endpoint's row."""

    @property
    def auth(self) -> AuthMode: ...

    @property
    def challenge(self) -> str: ...

    @property
    def agent_keys_allowed(self) -> bool: ...

    @property
    def touches_key(self) -> bool: ...

    @property
    def limited(self) -> bool: ...

    @property
    def log_rate(self) -> bool: ...

    @property
    def billed(self) -> bool: ...


class Checked(Protocol):
    """The request under check, and the results of checks."""

    @property
    def services(self) -> Services: ...

    @property
    def request(self) -> TornadoRequest: ...

    @property
    def path_args(self) -> Sequence[str]:
        """The groups of the path."""

    @property
    def idempotency_keys(self) -> list[str]: ...

    @property
    def principal(self) -> Principal: ...

    @principal.setter
    def principal(self, principal: Principal) -> None: ...

    admission: Permit | None

    @property
    def endpoint(self) -> Guarded: ...

    def keep_header(self, name: str, value: str) -> None:
        """Set a header of the response, an error's too."""

    def unknown_path(self) -> errors.GatewayError:
        """Return the error for an invalid id in the path."""


Waiting = Coroutine[Any, Any, None]


class Check:
    """One reason to refuse a request.

    `is_of_money`: it applies only to requests that cost money. `refuses`: its errors, beside that
    of an invalid path, which is the endpoint's own.
    """

    is_of_money: ClassVar[bool] = False
    refuses: ClassVar[Sequence[errors.ErrorKind]]

    def applies(self, endpoint: Guarded) -> bool:
        """Whether the check applies to an endpoint."""
        return True

    def check(self, checked: Checked) -> Waiting | None:
        """Check at once, or return what checks when awaited. Raises GatewayError, as that does."""
        raise NotImplementedError


class KeyCheck(Check):
    """401 unless a good key is given (reference 1.1)."""

    refuses = (errors.INVALID_API_KEY,)

    def applies(self, endpoint: Guarded) -> bool:
        return endpoint.auth != "none"

    def check(self, checked: Checked) -> Waiting | None:
        headers = checked.request.headers
        keys = checked.services.keys
        if headers.key_hash is None:
            if headers.key_text is None:
                headers.key_text, headers.key_field = _key_of(checked)
            headers.key_hash = keys.lookup_hash(headers.key_text)
        assert headers.key_text is not None
        try:
            found = keys.authenticate(
                headers.key_hash, headers.key_text, touch=checked.endpoint.touches_key
            )
        except KeyRefused as refused:
            raise _bad_key(checked, str(refused)) from None
        if isinstance(found, Principal):
            checked.principal = found
            return None
        return self._read(checked, found)

    async def _read(self, checked: Checked, reading: Coroutine[Any, Any, Principal]) -> None:
        try:
            checked.principal = await reading
        except KeyRefused as refused:
            raise _bad_key(checked, str(refused)) from None


class LogRateCheck(Check):
    """429 when the key exceeds the rate of the call log (reference 6.1).

    A request counts once its key is valid, whatever its result; an agent key is refused for what it
    is. The keeper of limits is always asked, because the count may include other processes.
    """

    refuses = (errors.LOGS_RATE_LIMITED,)

    def applies(self, endpoint: Guarded) -> bool:
        return endpoint.log_rate

    def check(self, checked: Checked) -> Waiting:
        return self._count(checked)

    async def _count(self, checked: Checked) -> None:
        principal = checked.principal
        rates = checked.services.logs.rates
        status = await rates.take(f"logs:{principal.key_id}", LOG_REQUESTS_PER_MINUTE)
        checked.keep_header("x-ratelimit-limit", str(LOG_REQUESTS_PER_MINUTE))
        left = max(0, LOG_REQUESTS_PER_MINUTE - status.requests)
        checked.keep_header("x-ratelimit-remaining", str(left))
        checked.keep_header("x-ratelimit-reset", str(status.reset_whole_seconds))
        if status.refused is not None and principal.kind != AGENT:
            wait_seconds = status.retry_after_seconds
            raise errors.GatewayError(
                errors.LOGS_RATE_LIMITED,
                f"This key has made {LOG_REQUESTS_PER_MINUTE} requests to the call logs within a"
                f" minute. Try again in {wait_seconds} s.",
                headers={"Retry-After": str(wait_seconds)},
            )


class KeyKindCheck(Check):
    """403 for an agent key on endpoints that accept none (reference 1.3)."""

    refuses = (errors.PERMISSION_DENIED,)

    def applies(self, endpoint: Guarded) -> bool:
        return endpoint.auth != "none" and not endpoint.agent_keys_allowed

    def check(self, checked: Checked) -> None:
        if checked.principal.kind == AGENT:
            raise errors.GatewayError(
                errors.PERMISSION_DENIED, "An agent key works only on POST /v1/chat/completions."
            )


class LimitsCheck(Check):
    """429 when the account is at one of its limits (reference 1.4)."""

    refuses = (errors.RATE_LIMIT_EXCEEDED,)

    def applies(self, endpoint: Guarded) -> bool:
        return endpoint.limited

    def check(self, checked: Checked) -> Waiting | None:
        payer = checked.principal
        try:
            entered = checked.services.limits.enter(
                payer.account_id, rpm=payer.rpm_limit, concurrency=payer.concurrency_limit
            )
        except LimitExceeded as exceeded:
            raise _over_limit(exceeded) from None
        if isinstance(entered, Permit):
            checked.admission = entered
            return None
        return self._enter(checked, entered)

    async def _enter(self, checked: Checked, entering: Coroutine[Any, Any, Permit]) -> None:
        try:
            checked.admission = await entering
        except LimitExceeded as exceeded:
            raise _over_limit(exceeded) from None


class FundsCheck(Check):
    """402 when nothing is available (reference 5.3).

    A repeated request under an idempotency key needs no money; its hold decides the rest.
    """

    is_of_money = True
    refuses = (errors.QUOTA_EXCEEDED,)

    def applies(self, endpoint: Guarded) -> bool:
        return endpoint.billed

    def check(self, checked: Checked) -> Waiting | None:
        available = checked.services.wallets.available(checked.principal.account_id)
        return None if isinstance(available, int) else self._read(checked, available)

    async def _read(self, checked: Checked, reading: Coroutine[Any, Any, int]) -> None:
        if await reading > 0:
            return
        services, account_id = checked.services, checked.principal.account_id
        if not await services.idempotency.is_known(checked.idempotency_keys, account_id=account_id):
            raise errors.GatewayError(errors.QUOTA_EXCEEDED, OUT_OF_FUNDS)


class TextCheck(Check):
    """404 for an id in the path that nothing can be called, 400 for such a value of the query.

    Other bytes that are no UTF-8 are refused by those who read the value. Text of the body is the
    protocols' business (reference 1.5).
    """

    refuses = (errors.INVALID_REQUEST,)

    def check(self, checked: Checked) -> None:
        if checked.path_args:
            if not all(map(is_storable, checked.path_args)):
                raise checked.unknown_path()
            if checked.endpoint.auth == "none":
                return  # a signed link, whose signature is judged first, as a key is
        query = checked.request.query_arguments
        for name in query:
            for value in query[name]:
                if not are_storable(value):
                    shown = ascii(name)[1:-1][:SHOWN_CHARACTERS_MAX]
                    message = f"`{shown}` has a NUL or half a character (a lone surrogate)."
                    raise errors.GatewayError(errors.INVALID_REQUEST, message, param=shown)


# The rate of the call log counts before the 403, whose response has its headers.
CHECKS: Sequence[Check] = (
    KeyCheck(),
    LogRateCheck(),
    KeyKindCheck(),
    LimitsCheck(),
    FundsCheck(),
    TextCheck(),
)


def _key_of(checked: Checked) -> tuple[str, str | None]:
    """Return what `find_key` finds in a request. Raises GatewayError when there is no key."""
    head, auth = checked.request, checked.endpoint.auth
    found = find_key(head.headers, head.query_arguments, auth)
    if found is None:
        is_misplaced = auth == "two_headers" and has_query_key(head.query_arguments)
        message = QUERY_KEY if is_misplaced else MISSING_KEY
        raise _bad_key(checked, message)
    return found


def _bad_key(checked: Checked, message: str) -> errors.GatewayError:
    headers = {"WWW-Authenticate": checked.endpoint.challenge}
    return errors.GatewayError(errors.INVALID_API_KEY, message, headers=headers)


def _over_limit(exceeded: LimitExceeded) -> errors.GatewayError:
    is_concurrency = exceeded.dimension == "concurrency"
    what = "concurrent requests (concurrency)" if is_concurrency else exceeded.dimension
    return errors.GatewayError(
        errors.RATE_LIMIT_EXCEEDED,
        f"The account has reached its limit of {exceeded.limit} {what}."
        f" Try again in {exceeded.retry_after_seconds} s.",
        headers=exceeded.headers,
    )
