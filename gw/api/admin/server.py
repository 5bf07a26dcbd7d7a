"""Responds to requests to the admin API: token, rate, route, scope, body; then the use-case.

Every refusal has one shape. A change, its row in the audit trail and the response kept for an
idempotency key are one transaction.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any
from urllib.parse import parse_qsl, unquote

import msgspec
from msgspec import Raw, Struct

from actors.clock import Clock
from actors.limits.limiter import Limiter
from actors.store.errors import StoreUnavailable
from gw.admin import tokens
from gw.admin.audit import Actor
from gw.admin.refusals import refusal_of
from gw.admin.tokens import Token
from gw.api.admin import table
from gw.api.admin.idempotency import once, read_key
from gw.errors import RETRY_AFTER
from gw.http.admin_api import AdminRequest, AdminResponse, error_body
from gw.nouns.refused import Invalid, Refused
from metrics.logs import EventLog
from metrics.prometheus import Metrics

# Requests without a valid token from one address within a minute, and the addresses counted.
FAILURES_PER_MINUTE = 20
ADDRESSES_MAX = 1000
# The length of a query.
QUERY_CHARACTERS_MAX = 4096
IDEMPOTENCY_HEADER = "Idempotency-Key"
REPLAYED_HEADER = "Idempotent-Replayed"
# Of every path, as a label of the metrics.
ROUTE = "admin_api"

_PARAMETER = re.compile(r"\{(\w+)\}")


class TooMany(Refused):
    """A rate limit is exceeded."""

    def __init__(self, message: str, retry_after_seconds: int) -> None:
        super().__init__(message, "rate_limit_exceeded", http_status=429)
        self.retry_after_seconds = retry_after_seconds


class FailedAuthentications:
    """Counts requests without a valid token per address, over the last minute."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.failures: OrderedDict[str, deque[float]] = OrderedDict()

    def __repr__(self) -> str:
        return f"<FailedAuthentications of {len(self.failures)} addresses>"

    def __len__(self) -> int:
        """Return the number of counted addresses."""
        return len(self.failures)

    def add(self, address: str) -> None:
        """Count one request. Raises TooMany."""
        now = self._clock.monotonic()
        times = self.failures.setdefault(address, deque())
        self.failures.move_to_end(address)
        if len(self.failures) > ADDRESSES_MAX:
            self.failures.popitem(last=False)
        while times and times[0] <= now - 60:
            times.popleft()
        if len(times) >= FAILURES_PER_MINUTE:
            wait = max(1, round(times[0] + 60 - now))
            raise TooMany("Too many requests without a valid token from this address.", wait)
        times.append(now)


class AdminApi:
    """The admin API of one process."""

    def __init__(
        self,
        routes: Sequence[table.Route],
        services: table.AdminServices,
        *,
        limiter: Limiter,
        description: Callable[[], bytes],
        metrics: Metrics,
    ) -> None:
        self._services = services
        self._limiter = limiter
        self._metrics = metrics
        metrics.routes_served([ROUTE])
        self.failures = FailedAuthentications(services.clock)
        self._log = EventLog("gw.api.admin")
        self._paths = table.by_path([*routes, description_route(description)])

    def __repr__(self) -> str:
        return f"<AdminApi {len(self._paths)} paths {self.failures!r}>"

    async def close(self) -> None:
        """Cancel the background work."""
        await self._services.proofs.close()

    async def respond(self, request: AdminRequest) -> AdminResponse:
        """Respond to a request; no request raises."""
        response = await self._response(request)
        self._metrics.http_response(route=ROUTE, status=response.status)
        return response

    async def _response(self, request: AdminRequest) -> AdminResponse:
        try:
            return await self._respond(request)
        except Exception as error:  # noqa: BLE001 - a defect is a response, too, and logged
            refusal = refusal_of(error)
            if refusal is None or refusal.http_status >= 500:
                self._metrics.http_failure(route=ROUTE)
            if refusal is None:
                self._log.error("admin_request_failed", trace=request.trace, exc_info=True)
                body = error_body("internal_error", "The gateway failed.", request.trace)
                return AdminResponse(500, body)
            message = refusal.message
            if isinstance(error, StoreUnavailable):  # its text contains hosts
                message = "The database cannot be reached. Try again shortly."
            body = error_body(refusal.code, message, request.trace)
            return AdminResponse(refusal.http_status, body, _headers(error, refusal.http_status))

    async def _respond(self, request: AdminRequest) -> AdminResponse:
        token = await self._authenticate(request)
        status = await self._limiter.take(f"admin:{token.id}", table.REQUESTS_PER_MINUTE)
        if status.refused is not None:
            raise _too_many(table.REQUESTS_PER_MINUTE, status.retry_after_seconds)
        route, path = self._find(request)
        if status.requests > route.requests_per_minute:
            raise _too_many(route.requests_per_minute, status.reset_whole_seconds)
        if route.is_change and token.scope != "write":
            raise Refused("This token may only read.", "permission_denied", http_status=403)
        if route.body is not None and len(request.body) > route.body_bytes_max:
            message = f"The body has more than {route.body_bytes_max} bytes."
            raise Refused(message, "request_too_large", http_status=413)
        query = _read_query(request.query, route.query)
        body = None if route.body is None else _read_body(request.body, route.body)
        call = table.AdminCall(
            services=self._services,
            actor=Actor("token", f"{token.name} ({token.id})", request.address),
            path=path,
            query=query,
            body=body,
        )
        return await self._carry_out(route, call, request)

    async def _authenticate(self, request: AdminRequest) -> Token:
        scheme, _, text = request.headers.get("Authorization", "").partition(" ")
        token = None
        if scheme.lower() == "bearer":
            token = await tokens.find(self._services.database, text.strip())
        if token is None:
            self.failures.add(request.address)
            raise Refused(
                "The admin API needs `Authorization: Bearer TOKEN` with a token of"
                " `gw admin token create` that is not revoked.",
                "invalid_token",
                http_status=401,
            )
        return token

    def _find(self, request: AdminRequest) -> tuple[table.Route, Mapping[str, str]]:
        segments = request.path.split("/")
        for parts, methods in self._paths.items():
            path = _matched(parts, segments)
            if path is None:
                continue
            route = methods.get(request.method)
            if route is None:
                raise WrongMethod(methods)
            return route, path
        raise Refused("There is no such path.", "not_found", http_status=404)

    async def _carry_out(
        self, route: table.Route, call: table.AdminCall, request: AdminRequest
    ) -> AdminResponse:
        database = self._services.database
        headers: dict[str, str] = {}
        if route.read is not None:
            return AdminResponse(route.status, msgspec.json.encode(await route.read(call)))
        assert route.change is not None
        change = route.change
        key = request.headers.get(IDEMPOTENCY_HEADER)
        async with database.transaction() as session:

            async def changed() -> bytes:
                return msgspec.json.encode(await change(call, session))

            is_replayed = False
            if key is None or not route.takes_idempotency_key:
                body = await changed()
            else:
                # The parsed body: white space and the order of members do not matter.
                digest_of = msgspec.json.encode(call.body)
                scope = route.scope_of(call.path)
                body, is_replayed = await once(session, scope, read_key(key), digest_of, changed)
                if is_replayed:
                    headers[REPLAYED_HEADER] = "true"
            if route.finish is not None:
                body = msgspec.json.encode(await route.finish(call, session, body, is_replayed))
        if route.in_force:
            await self._services.in_force()
        if route.until is not None:
            await route.until(call, body)
        return AdminResponse(route.status, body, headers)


def description_route(description: Callable[[], bytes]) -> table.Route:
    """Return the route of the description of all others, which is made once."""
    made = cache(description)

    async def read(call: table.AdminCall) -> Raw:
        return Raw(await asyncio.to_thread(made))  # a tenth of a second of the event loop

    return table.Route(
        method="GET",
        path="openapi.json",
        name="describe",
        summary="This document.",
        response=Raw,
        read=read,
    )


def _too_many(limit: int, wait_seconds: int) -> TooMany:
    return TooMany(f"This token has made {limit} requests within a minute.", wait_seconds)


class WrongMethod(Refused):
    """The path has no such method."""

    def __init__(self, methods: Iterable[str]) -> None:
        self.allowed = ", ".join(methods)
        super().__init__(f"This path takes {self.allowed}.", "method_not_allowed", http_status=405)


def _headers(error: Exception, http_status: int) -> dict[str, str]:
    """Return the headers of a refusal."""
    if isinstance(error, TooMany):
        return {"Retry-After": str(error.retry_after_seconds)}
    if isinstance(error, WrongMethod):
        return {"Allow": error.allowed}
    if http_status == 503:
        return {"Retry-After": RETRY_AFTER}
    return {"WWW-Authenticate": "Bearer"} if http_status == 401 else {}


def _matched(parts: Sequence[str], segments: Sequence[str]) -> Mapping[str, str] | None:
    """Return the ids in a path; None if the route does not match."""
    if len(parts) != len(segments):
        return None
    found = {}
    for part, segment in zip(parts, segments, strict=True):
        parameter = _PARAMETER.fullmatch(part)
        if parameter is None:
            if part != segment:
                return None
            continue
        value = unquote(segment, errors="replace")
        if not (value and value.isprintable()) or len(value) > 300 or "\ufffd" in value:
            return None
        found[parameter[1]] = value
    return found


def _read_query(text: str, kind: type[Any]) -> Any:
    """Parse the parameters of a query. Raises Invalid."""
    if len(text) > QUERY_CHARACTERS_MAX:
        raise Invalid(f"query: it has more than {QUERY_CHARACTERS_MAX} characters")
    try:
        pairs = parse_qsl(text, keep_blank_values=True, strict_parsing=bool(text), errors="strict")
    except ValueError as error:
        raise Invalid(f"query: {error}") from None
    values = dict(pairs)
    if len(values) != len(pairs):
        raise Invalid("query: a parameter is given twice")
    if any("\0" in value for value in values.values()):
        raise Invalid("query: it has a NUL character")
    try:
        read = msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Invalid(f"query: {error}") from None
    _check_instants(read, "query")
    return read


def _read_body(body: bytes, kind: type[Any]) -> Any:
    """Parse the body of a request. Raises Invalid."""
    try:
        read = msgspec.json.decode(body or b"{}", type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Invalid(f"body: {error}") from None
    _check_instants(read, "body")
    return read


def _check_instants(read: Struct, where: str) -> None:
    """Check that times have one in UTC. Raises Invalid."""
    for name in read.__struct_fields__:
        value = getattr(read, name)
        for one in value if isinstance(value, list) else ():
            if isinstance(one, Struct):
                _check_instants(one, where)
        try:
            if isinstance(value, datetime):
                value.astimezone(UTC)
        except OverflowError:  # by its zone; what reads it from the database could not either
            raise Invalid(f"{where}: {name} is not within the years 1 to 9999 of UTC") from None
