"""The errors of a request to an endpoint, by what its row and its operation state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from channels.family import ErrorShape
from gw import errors
from gw.api.checks import TextCheck
from gw.api.endpoint import Endpoint
from gw.api.reference.operation import Operation
from gw.api.reference.schemas import Undescribed
from gw.error_bodies import render
from gw.errors import ERROR_TABLE, ErrorKind
from gw.upstream_errors import from_upstream

# The statuses of upstreams that are named one by one; any other is passed on as well.
UPSTREAM_STATUSES = (400, 401, 402, 403, 404, 408, 409, 413, 422, 429, 500, 502, 503, 504, 529)
OF_UPSTREAM = "an upstream refused the request, or failed"
_OF_IDEMPOTENCY = (
    errors.INVALID_IDEMPOTENCY_KEY,
    errors.IDEMPOTENCY_KEY_REUSE,
    errors.IDEMPOTENCY_IN_FLIGHT,
    errors.IDEMPOTENCY_NOT_CACHED,
)
# Errors of calls that have been admitted.
AFTER_HOLDS = (errors.UPSTREAM_UNREACHABLE, errors.UPSTREAM_TIMEOUT, errors.NO_CHANNEL_AVAILABLE)


@dataclass(frozen=True, slots=True)
class Refusal:
    """One error: its status, its names, and when a client gets it."""

    kind: ErrorKind
    http_status: int
    cause: str

    def example(self, shape: ErrorShape) -> bytes:
        """Return a body of it."""
        message = f"{self.cause[0].upper()}{self.cause[1:]}."
        error = errors.GatewayError(self.kind, message, http_status=self.http_status)
        return render(shape, error)

    def name(self, shape: ErrorShape) -> str:
        """Return what programs tell it by."""
        if shape is ErrorShape.MESSAGES:
            return self.kind.messages_type
        return self.kind.gemini_status if shape is ErrorShape.GEMINI else self.kind.code


def refusals_of(row: Endpoint, operation: Operation) -> list[Refusal]:
    """Return the errors of a method, each once, those of the gateway first. Raises Undescribed."""
    found = {(one.kind.code, one.http_status): one for one in _own(row, operation)}
    if operation.timeout is not None:
        for status in UPSTREAM_STATUSES:
            kind = from_upstream(status, "").kind
            found.setdefault((kind.code, status), Refusal(kind, status, OF_UPSTREAM))
    return list(found.values())


def _own(row: Endpoint, operation: Operation) -> Iterator[Refusal]:
    is_post = operation.method == "POST"
    yield _refusal(errors.INTERNAL_ERROR)
    yield _refusal(errors.NO_CHANNEL_AVAILABLE)
    for check in row.checks if is_post else row.free_checks:
        if not isinstance(check, TextCheck) or row.auth != "none" or not _has_parts(operation):
            yield from map(_refusal, check.refuses)
    if _has_parts(operation):
        handler: Any = row.handler
        unfit: errors.GatewayError = handler.unknown_path(None)
        yield _refusal(unfit.kind, unfit.http_status)
    if is_post:
        yield _refusal(errors.INVALID_REQUEST)
        yield _refusal(errors.REQUEST_TOO_LARGE)
    if row.idempotent and is_post:
        yield from map(_refusal, _OF_IDEMPOTENCY)
    if operation.timeout is not None:
        yield from map(_refusal, AFTER_HOLDS)
    for one in operation.raises:
        yield _refusal(one) if isinstance(one, ErrorKind) else _refusal(*one)


def _has_parts(operation: Operation) -> bool:
    return any(one.place == "path" for one in operation.parameters)


def _refusal(kind: ErrorKind, http_status: int | None = None) -> Refusal:
    cause = ERROR_TABLE.get(kind)
    if not cause:
        raise Undescribed(f"the error {kind.code} has no cause in the table of errors")
    return Refusal(kind, kind.http_status if http_status is None else http_status, cause)
