"""POST /v1/responses (spec: Chat, responses protocol)."""

from __future__ import annotations

from channels import families
from channels.dialects import responses
from channels.dialects.dialect import RESPONSES
from channels.dialects.responses import address as adapter
from gw.api.chat.handler import ConversationHandler, NativeSpeech


class ResponsesHandler(ConversationHandler):
    """The responses protocol."""

    shape = families.RESPONSES.error_shape
    route = "responses"
    protocol = families.RESPONSES.protocol
    dialect = RESPONSES

    async def on_post(self) -> None:
        if self.is_light():
            request = self.read(lambda: responses.read_request(self.body))
        else:
            request = await self.read_elsewhere()

        native = NativeSpeech(
            write=responses.upstream_body,
            options=lambda candidate, channel, model: {
                "upstream_model": candidate.upstream_model,
                "default_max_tokens": model.max_output_tokens,
            },
            address=lambda candidate, channel, body: adapter.request(channel, body),
        )
        await self.converse(request, native)
