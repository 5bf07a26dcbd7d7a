"""POST /v1/responses (spec: Chat, responses protocol)."""

from __future__ import annotations

from actors.router import Candidate
from channels.adapters import responses as adapter
from channels.protocols import responses
from channels.protocols.dialect import RESPONSES
from channels.registry import ChannelSpec, ModelSpec
from channels.wire.http import UpstreamRequest
from gw.chat.handler import ConversationHandler


class ResponsesHandler(ConversationHandler):
    """The responses protocol."""

    shape = "chat"
    route = "responses"
    protocol = "responses"
    dialect = RESPONSES

    async def on_post(self) -> None:
        request = self.read(lambda: responses.read_request(self.body))

        def prepare(
            candidate: Candidate, channel: ChannelSpec, model: ModelSpec
        ) -> UpstreamRequest:
            body = responses.upstream_body(
                request,
                upstream_model=candidate.upstream_model,
                default_max_tokens=model.max_output_tokens,
            )
            return adapter.request(channel, body)

        await self.converse(request, prepare)
