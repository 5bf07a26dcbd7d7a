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
from channels.families import RESPONSES
from channels.json.weight import TRANSLATED_VALUES_MAX
from gw.api.chat.gemini import GeminiHandler
from gw.api.chat.messages import MessagesHandler
from gw.api.chat.provider_headers import provider_headers
from gw.api.handler import ApiHandler
from gw.api.model_call import ModelCall
from gw.calls.counting import CountRequest
from gw.errors import invalid_request

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
    call = ModelCall(handler)
    body = handler.request.body
    is_here = len(body) <= HERE_BYTES_MAX and call.weight <= TRANSLATED_VALUES_MAX

    async def of_body(job: Callable[..., Any], *arguments: Any) -> tuple[Any, bytes | None]:
        try:
            if is_here:
                return job(body, *arguments)  # type: ignore[no-any-return]
            return await call.offload(job, *arguments)
        except InvalidRequest as invalid:
            raise invalid_request(invalid) from None

    named, _ = await of_body(read_count, handler.protocol)
    call.find_model(model if counting_of(handler.protocol).is_in_path else named, {})
    call.require_served()
    found = await handler.services.chat_calls.counter.count(
        CountRequest(
            protocol=handler.protocol,
            model=call.model,
            of_body=of_body,
            own=own or {},
            own_headers=provider_headers(handler.request.headers, CHAT_DIALECTS[handler.protocol]),
        )
    )
    handler.set_header(HEADER, "estimate" if found.is_estimate else "upstream")
    handler.write(found.body)


class CountTokensHandler(MessagesHandler):
    """`POST /v1/messages/count_tokens`."""

    route = "count_tokens"
    billed = False

    async def on_post(self) -> None:
        own = {VERSION_HEADER: self._version()}
        await count(self, own=own)


class NativeCountHandler(GeminiHandler):
    """`POST /v1beta/models/{model}:countTokens`."""

    route = "native_count"
    billed = False

    async def on_post(self, model_id: str = "", verb: str = "") -> None:
        await count(self, model=model_id)


class InputTokensHandler(ApiHandler):
    """`POST /v1/responses/input_tokens`."""

    route = "input_tokens"
    protocol = RESPONSES.protocol
    limited = True

    async def on_post(self) -> None:
        await count(self)
