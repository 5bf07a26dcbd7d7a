"""POST /v1/responses (spec: Chat, responses protocol)."""

from __future__ import annotations

from channels import families
from channels.dialects import responses
from gw.api.chat.handler import ConversationHandler


class ResponsesHandler(ConversationHandler):
    """The responses protocol."""

    shape = families.RESPONSES.error_shape
    route = "responses"
    protocol = families.RESPONSES.protocol

    async def on_post(self) -> None:
        if self.is_light():
            request = self.read(lambda: responses.read_request(self.body))
        else:
            request = await self.read_elsewhere()
        await self.converse(request)
