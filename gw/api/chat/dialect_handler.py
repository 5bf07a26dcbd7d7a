"""POST of a dialect that is served by its record alone, that of its endpoint's family."""

from __future__ import annotations

from channels.dialects.table import CHAT_DIALECTS
from gw.api.chat.conversation import converse
from gw.api.handler import ApiHandler
from gw.api.model_call import ModelCall


class DialectHandler(ApiHandler):
    """One call in the protocol of the endpoint's family."""

    async def on_post(self) -> None:
        call, dialect = ModelCall(self), CHAT_DIALECTS[self.endpoint.protocol]
        await converse(call, dialect, await call.read_request(dialect))
