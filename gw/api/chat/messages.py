"""POST /v1/messages (reference 2.1, 1.9)."""

from __future__ import annotations

from channels.dialects.messages.dialect import DIALECT as MESSAGES
from channels.dialects.messages.dialect import VERSION, VERSION_HEADER
from gw.api.chat.conversation import converse
from gw.api.handler import ApiHandler
from gw.api.model_call import ModelCall
from gw.errors import INVALID_REQUEST, GatewayError

# The protocol's role-named header, and the name that official client libraries send.
VERSION_HEADERS = ("messages-api-version", VERSION_HEADER)


class MessagesHandler(ApiHandler):
    """The messages protocol."""

    async def on_post(self) -> None:
        own = {VERSION_HEADER: version_of(self)}
        call = ModelCall(self)
        request = await call.read_request(MESSAGES)
        await converse(call, MESSAGES, request, own=own)


def version_of(handler: ApiHandler) -> str:
    """Return the client's version of the protocol; a missing one is the first there was.

    Raises GatewayError.
    """
    for name in VERSION_HEADERS:
        version: str = handler.request.headers.get(name, "").strip()
        if version:
            break
    else:
        return VERSION
    supported = handler.services.config.messages_versions
    if version not in supported:
        raise GatewayError(
            INVALID_REQUEST,
            f"{name}: this version is not supported; use one of {', '.join(supported)}.",
            param=name,
        )
    return version
