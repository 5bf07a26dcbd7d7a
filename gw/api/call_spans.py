"""The span of a billed request: begun when its model is found, or when it is refused before.

What it says by OpenTelemetry's names of every call is here; what its endpoint knows besides comes
with it. How it ends is told by `gw/calls/traces.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol
from uuid import UUID

from channels.registry import ModelSpec
from gw.api.services import Services
from gw.calls.outcome import shown
from gw.calls.traces import end_call, operation_of
from gw.errors.table import GatewayError
from gw.keys.principal import Principal
from metrics import genai
from metrics.spans import REQUEST_READ, Attributes, AttributeValue, CallSpan


class Traced(Protocol):
    """The handler of a request, as far as its span tells of it."""

    model_name: str | None
    span: CallSpan | None
    call_id: UUID
    services: Services

    @property
    def protocol(self) -> str: ...

    @property
    def request(self) -> Any:
        """Its headers, and when it came."""

    @property
    def known_principal(self) -> Principal | None: ...


def begin_span(handler: Traced, model: ModelSpec, attributes: Callable[[], Attributes]) -> CallSpan:
    """The span of the request's call, with these attributes beside those of every call."""
    span = handler.span = _begin(handler, model, attributes)
    if span.sampled:
        span.event(REQUEST_READ)
    return span


def end_refused(handler: Traced, error: GatewayError) -> None:
    """End the span of a request that is answered with an error, begun or not."""
    span = handler.span
    if span is None:
        named = handler.model_name
        known = None if named is None else handler.services.registry().resolve(named)
        span = handler.span = _begin(handler, known, dict)
    end_call(span, shown("rejected", error))


def _begin(
    handler: Traced, model: ModelSpec | None, attributes: Callable[[], Attributes]
) -> CallSpan:
    operation = operation_of(handler.protocol)
    return handler.services.tracing.start_call(
        name=operation if model is None else f"{operation} {model.id}",
        header=handler.request.headers.get,
        trace_id=handler.call_id.int,
        began=handler.request.submitted_at,
        attributes=lambda: {
            genai.OPERATION_NAME: operation,
            **_of_every_call(handler, model),
            **attributes(),
        },
        is_stranger=handler.known_principal is None,
    )


def _of_every_call(handler: Traced, model: ModelSpec | None) -> Attributes:
    """What is known of it: a model that is none of ours stays out, it may be anything."""
    known: dict[str, AttributeValue] = {
        "gw.protocol": handler.protocol,
        "gw.call": handler.call_id.hex,
    }
    if handler.known_principal is not None:
        known["gw.account"] = handler.known_principal.account_id
    if model is not None:
        known[genai.PROVIDER_NAME] = model.owned_by
        known[genai.REQUEST_MODEL] = model.id
    return known
