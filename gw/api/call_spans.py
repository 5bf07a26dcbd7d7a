"""The span of a billed request, begun when its model is found, or when it is refused before that.

It has the attributes of every call, and those that its endpoint adds. `gw/calls/call_spans.py` ends
it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol
from uuid import UUID

from channels.registry import ModelSpec
from gw.api.endpoint import Endpoint
from gw.api.services import Services
from gw.calls.call_spans import end_call, operation_of
from gw.calls.endings import shown
from gw.errors import GatewayError
from gw.http.tornado.request import TornadoRequest
from gw.keys.principal import Principal
from metrics import genai, spans


class TracedRequest(Protocol):
    """The request of a call, as far as its span needs it."""

    endpoint: Endpoint
    call_id: UUID
    model_name: str | None
    request: TornadoRequest
    services: Services
    span: spans.CallSpan | None

    @property
    def known_principal(self) -> Principal | None:
        """The principal, or None before the key is checked."""


def begin_span(
    traced: TracedRequest,
    model: ModelSpec,
    attributes: Callable[..., spans.Attributes],
    *arguments: Any,
) -> spans.CallSpan:
    """Begin the span of the request's call; `attributes(*arguments)` returns further attributes."""
    span = traced.span = _begin(traced, model, attributes, *arguments)
    if span.sampled:
        span.event(spans.REQUEST_READ)
    return span


def end_refused(traced: TracedRequest, error: GatewayError) -> None:
    """End the span of a refused request; begin it first if it has none."""
    span = traced.span
    if span is None:
        named = traced.model_name
        known = None if named is None else traced.services.current.registry.resolve(named)
        span = traced.span = _begin(traced, known, dict)
    end_call(span, shown("rejected", error))


def _begin(
    traced: TracedRequest,
    model: ModelSpec | None,
    attributes: Callable[..., spans.Attributes],
    *arguments: Any,
) -> spans.CallSpan:
    if traced.services.tracing.source is None:
        return spans.UNSAMPLED
    operation = operation_of(traced.endpoint.protocol)
    return traced.services.tracing.start_call(
        name=operation if model is None else f"{operation} {model.id}",
        header=traced.request.headers.get,
        trace_id=traced.call_id.int,
        began=traced.request.submitted_at,
        attributes=lambda: {
            genai.OPERATION_NAME: operation,
            **_of_every_call(traced, model),
            **attributes(*arguments),
        },
        is_stranger=traced.known_principal is None,
    )


def _of_every_call(traced: TracedRequest, model: ModelSpec | None) -> spans.Attributes:
    """Return the attributes of every call; an unknown model's name is left out, as any text may."""
    known: dict[str, spans.AttributeValue] = {
        "gw.protocol": traced.endpoint.protocol,
        "gw.call": traced.call_id.hex,
    }
    if traced.known_principal is not None:
        known["gw.account"] = traced.known_principal.account_id
    if model is not None:
        known[genai.PROVIDER_NAME] = model.owned_by
        known[genai.REQUEST_MODEL] = model.id
    return known


def log_fields(span: spans.CallSpan | None) -> Mapping[str, Any]:
    return {} if span is None else span.log_fields
