"""What the endpoints share that call a model: read the request, resolve its model, say who calls.

Whatever the protocol; running the call is a use-case of `gw/calls`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

from actors.wallet.messages import CallFacts
from channels.dialects.validate import model_in
from channels.errors import InvalidRequest
from channels.offload.jobs import read_request
from channels.offload.process import Job
from channels.offload.weight import COUNTED_BYTES_MAX, READ_VALUES_MAX, weight_of
from channels.registry import ModelSpec
from gw.api.base import ApiHandler
from gw.calls.models import resolve_model
from gw.calls.request import offloaded
from gw.errors.table import invalid_request
from metrics.redact import redact


class ParsedModelRequest(Protocol):
    """A checked request of any protocol; `parameters` is what the call log shows of it."""

    @property
    def model(self) -> str: ...

    @property
    def parameters(self) -> Mapping[str, str]: ...


A = TypeVar("A", bound=ParsedModelRequest)


class ModelCallHandler(ApiHandler):
    """One call of a model, which costs money."""

    billed = True
    limited = True

    # Values that its body may hold (`channels/offload/weight.py`).
    weight: int = 0
    # Set by `read`.
    _model: ModelSpec
    _detail: dict[str, Any]

    def is_light(self) -> bool:
        """Weigh the body: may it be read here and now? One that may not is `read_elsewhere`."""
        self.weight = weight_of(self.request.body)
        return self.weight <= READ_VALUES_MAX

    @property
    def is_heavy(self) -> bool:
        """Whether the body was read elsewhere, and nothing of it is here but its bytes."""
        return self.weight > READ_VALUES_MAX

    async def read_elsewhere(self, **path: Any) -> Any:
        """`read` for a heavy body; `path` is what its reader has to know of the path."""
        try:
            request, _ = await self.offload(read_request, self.protocol, path)
        except InvalidRequest as invalid:
            raise invalid_request(invalid) from None
        return self.read(lambda: request)

    async def offload(self, job: Job, *arguments: Any) -> tuple[Any, bytes | None]:
        """Have a job done on the body. Raises what the job raises, or GatewayError."""
        return await offloaded(self.services.offload, job, self.request.body, *arguments)

    def read(self, reading: Callable[[], A]) -> A:
        """Read the request, which names its model. Raises GatewayError."""
        try:
            request = reading()
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
        if self.model_name is None and len(self.request.body) <= COUNTED_BYTES_MAX:
            return model_in(self.request.body)
        return self.model_name

    def facts(self) -> CallFacts:
        """What is known of the call before it is admitted."""
        return CallFacts(
            call_id=self.call_id,
            account_id=self.principal.account_id,
            key_id=self.principal.key_id,
            protocol=self.protocol,
            model=self._model.id,
            submitted_at=self.request.submitted_at,
        )
