"""POST /v1/messages (spec: Chat, messages protocol; contract §5: version header)."""

from __future__ import annotations

from channels.dialects.messages import VERSION
from channels.dialects.messages.dialect import DIALECT, VERSION_HEADER
from gw.api.base import ApiHandler
from gw.api.chat.handler import converse
from gw.api.model_call import ModelCall
from gw.errors.table import INVALID_REQUEST, GatewayError

# The specification's role-named header, and the name that official client libraries send.
VERSION_HEADERS = ("messages-api-version", VERSION_HEADER)
# Names of features that the client wants to try, which mean something to this protocol's channels.
BETA_HEADER = "anthropic-beta"
BETA_CHARACTERS_MAX = 2048


class MessagesHandler(ApiHandler):
    """The messages protocol."""

    shape = DIALECT.family.error_shape
    route = "messages"
    protocol = DIALECT.protocol
    limited = billed = True

    async def on_post(self) -> None:
        own = {VERSION_HEADER: self._version()}
        own_headers = self._betas()
        call = ModelCall(self)
        request = await call.read(DIALECT)
        await converse(call, DIALECT, request, own=own, own_headers=own_headers)

    def _version(self) -> str:
        """The client's version of the protocol; a missing one is the first there was."""
        for name in VERSION_HEADERS:
            version: str = self.request.headers.get(name, "").strip()
            if version:
                break
        else:
            return VERSION
        accepted: tuple[str, ...] = self.settings["messages_versions"]
        if version not in accepted:
            raise GatewayError(
                INVALID_REQUEST,
                f"{name}: this version is not supported; use one of {', '.join(accepted)}.",
                param=name,
            )
        return version

    def _betas(self) -> tuple[tuple[str, str], ...]:
        """The one header of the client's that goes to a channel beside the version; often none.

        Raises GatewayError for a value that is no list of names.
        """
        value = self.request.headers.get(BETA_HEADER, "").strip()
        if not value:
            return ()
        if len(value) > BETA_CHARACTERS_MAX or not (value.isascii() and value.isprintable()):
            raise GatewayError(
                INVALID_REQUEST,
                f"{BETA_HEADER}: expected names with commas between them, "
                f"{BETA_CHARACTERS_MAX} characters at most.",
                param=BETA_HEADER,
            )
        return ((BETA_HEADER, value),)
