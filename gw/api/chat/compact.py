"""POST /v1/responses/compact: a conversation made into one item."""

from __future__ import annotations

from channels.dialects.responses.dialect import COMPACT
from channels.dialects.responses.dialect import DIALECT as RESPONSES
from gw.api.chat.conversation import converse
from gw.api.handler import ApiHandler
from gw.api.model_call import ModelCall
from gw.errors import INVALID_REQUEST, GatewayError


class CompactHandler(ApiHandler):
    """`POST /v1/responses/compact`: a conversation made into one item, billed by its usage."""

    async def on_post(self) -> None:
        call = ModelCall(self)
        request = await call.read_request(RESPONSES)
        if request.stream:
            raise GatewayError(
                INVALID_REQUEST,
                "stream: a compaction comes whole; leave it out or send false.",
                param="stream",
            )
        await converse(call, RESPONSES, request, address=COMPACT)
