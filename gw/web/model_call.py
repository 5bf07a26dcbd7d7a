"""What the endpoints share that call a model: read the request, resolve its model, say who calls.

Whatever the protocol; running the call is a use-case of `gw/calls`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

from actors.wallet.messages import CallFacts
from channels.errors import InvalidRequest
from channels.protocols.checking import model_in
from channels.registry import ModelSpec
from gw.calls.models import resolve_model
from gw.web.base import BaseHandler
from gw.web.errors import invalid_request
from metrics.masks import redact


class AskedOfModel(Protocol):
    """A checked request of any protocol; `parameters` is what the call log shows of it."""

    @property
    def model(self) -> str: ...

    @property
    def parameters(self) -> Mapping[str, str]: ...


A = TypeVar("A", bound=AskedOfModel)


class ModelCallHandler(BaseHandler):
    """One call of a model, which costs money."""

    billed = True
    limited = True

    # Set by `read`.
    _model: ModelSpec
    _detail: dict[str, Any]

    def read(self, read_request: Callable[[], A]) -> A:
        """Read the request, which names its model. Raises GatewayError."""
        try:
            request = read_request()
        except InvalidRequest as invalid:
            raise invalid_request(invalid) from None
        self.model_name = request.model
        registry = self.services.registry()
        is_known = registry.resolve(request.model) is not None
        # What is no model may be anything, a key in the wrong place too.
        named = request.model if is_known else redact(request.model)
        self._detail = self.row_detail = {"request": {"model": named, **request.parameters}}
        self._model = resolve_model(registry, request.model, self.principal)
        return request

    def named_model(self) -> str | None:
        """Of a request that cannot be read, too: its row is found by the model it was meant for."""
        return self.model_name or model_in(self.body)

    def facts(self) -> CallFacts:
        """What is known of the call before it is admitted."""
        return CallFacts(
            call_id=self.call_id,
            account_id=self.principal.account_id,
            key_id=self.principal.key_id,
            protocol=self.protocol,
            model=self._model.id,
            submitted_at=self.submitted_at,
        )
