"""Counts the input tokens of a request before the call, in three protocols.

Free at any balance; the key's allowlist and the account's limits apply. The header `X-Token-Count`
states whether an upstream counted or the gateway estimated (`gw/calls/counting.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from channels.dialects.counting import read_count
from channels.dialects.messages.dialect import VERSION_HEADER
from channels.dialects.table import CHAT_DIALECTS, counting_of
from channels.errors import InvalidRequest
from channels.json.weight import TRANSLATED_VALUES_MAX
from gw.api.chat.gemini import unfit_model
from gw.api.chat.messages import version_of
from gw.api.chat.provider_headers import provider_headers
from gw.api.handler import ApiHandler
from gw.api.model_call import ModelCall
from gw.calls.counting import CountRequest
from gw.errors import GatewayError, invalid_request

HEADER = "X-Token-Count"
# A longer body is parsed and counted in a helper process.
HERE_BYTES_MAX = 512 * 1024


async def count(
    handler: ApiHandler,
    *,
    model: str = "",
    own: Mapping[str, str] | None = None,
) -> None:
    """Respond with the count. `model` is the path's, if it has one. Raises GatewayError."""
    call, protocol = ModelCall(handler), handler.endpoint.protocol
    body = handler.request.body
    is_here = len(body) <= HERE_BYTES_MAX and call.weight <= TRANSLATED_VALUES_MAX

    async def of_body(job: Callable[..., Any], *arguments: Any) -> tuple[Any, bytes | None]:
        try:
            if is_here:
                return job(body, *arguments)  # type: ignore[no-any-return]
            return await call.offload(job, *arguments)
        except InvalidRequest as invalid:
            raise invalid_request(invalid) from None

    named, _ = await of_body(read_count, protocol)
    call.find_model(model if counting_of(protocol).is_in_path else named, {})
    call.require_served()
    found = await handler.services.chat_calls.counter.count(
        CountRequest(
            protocol=protocol,
            model=call.model,
            demand=call.demand,
            of_body=of_body,
            own=own or {},
            own_headers=provider_headers(handler.request.headers, CHAT_DIALECTS[protocol]),
        )
    )
    handler.set_header(HEADER, "estimate" if found.is_estimate else "upstream")
    handler.write(found.body)


class CountTokensHandler(ApiHandler):
    """`POST /v1/messages/count_tokens`."""

    async def on_post(self) -> None:
        own = {VERSION_HEADER: version_of(self)}
        await count(self, own=own)


class NativeCountHandler(ApiHandler):
    """`POST /v1beta/models/{model}:countTokens`."""

    def unknown_path(self) -> GatewayError:
        return unfit_model()

    async def on_post(self, model_id: str = "", verb: str = "") -> None:
        await count(self, model=model_id)


class InputTokensHandler(ApiHandler):
    """`POST /v1/responses/input_tokens`."""

    async def on_post(self) -> None:
        await count(self)
