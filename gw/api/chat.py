"""The endpoints of the chat protocols but chat-completions (`completions.py`).

How a request is read is its dialect's; how the call is run is `model_call.py`.
"""

from __future__ import annotations

from channels.dialects import gemini
from channels.dialects.dialect import ChatDialect
from channels.dialects.gemini.dialect import DIALECT as GEMINI
from channels.dialects.messages import VERSION
from channels.dialects.messages.dialect import DIALECT as MESSAGES
from channels.dialects.messages.dialect import VERSION_HEADER
from channels.dialects.validate import is_repeatable
from channels.http.sse import SseEvent
from gw.api.base import ApiHandler
from gw.api.model_call import ModelCall, converse
from gw.errors import INVALID_REQUEST, GatewayError


def endpoint(dialect: ChatDialect) -> type[ApiHandler]:
    """The endpoint of a dialect that is served by its record alone."""
    family = dialect.family

    class DialectHandler(ApiHandler):
        protocol = family.protocol
        route = family.protocol
        shape = family.error_shape
        limited = billed = True

        async def on_post(self) -> None:
            call = ModelCall(self)
            await converse(call, dialect, await call.read(dialect))

    DialectHandler.__name__ = f"{family.dialect.title()}Handler"
    DialectHandler.__doc__ = f"The {family.public_name} protocol."
    return DialectHandler


# POST /v1beta/models/{model}:generateContent and :streamGenerateContent (spec: native-content).
#
# A stream is server-sent events with `alt=sse` and one JSON array without it (contract §5); the
# upstream is asked for events either way.

STREAM = "streamGenerateContent"


class GeminiHandler(ApiHandler):
    """The native-content protocol."""

    shape = GEMINI.family.error_shape
    route = "native"
    protocol = GEMINI.protocol
    limited = billed = True

    def named_model(self) -> str | None:
        named: str = self.path_args[0]
        return self.model_name or (named if is_repeatable(named) else None)

    def unknown_path(self) -> GatewayError:
        return GatewayError(INVALID_REQUEST, "model: control characters are not allowed.")

    async def on_post(self, model_id: str = "", verb: str = "") -> None:
        path = {"model": model_id, "stream": verb == STREAM}
        call = ModelCall(self)
        request = await call.read(GEMINI, **path)
        is_sse = self.get_query_argument("alt", "") == "sse"
        framing = None if is_sse else ArrayStream()
        await converse(call, GEMINI, request, path=path, framing=framing)


class ArrayStream:
    """A stream as the elements of one JSON array; an array left open was cut."""

    content_type = gemini.CONTENT_TYPE
    keeps_events = False

    def __init__(self) -> None:
        self._framing = gemini.ArrayFraming()

    def event(self, event: SseEvent) -> bytes:
        return b"" if event.data is None else self._framing.element(event.data)

    def end(self) -> bytes:
        return self._framing.end()

    def broken(self, message: str) -> bytes:
        return b""


# POST /v1/messages (spec: Chat, messages protocol; contract §5: version header).

# The specification's role-named header, and the name that official client libraries send.
VERSION_HEADERS = ("messages-api-version", VERSION_HEADER)
# Names of features that the client wants to try, which mean something to this protocol's channels.
BETA_HEADER = "anthropic-beta"
BETA_CHARACTERS_MAX = 2048


class MessagesHandler(ApiHandler):
    """The messages protocol."""

    shape = MESSAGES.family.error_shape
    route = "messages"
    protocol = MESSAGES.protocol
    limited = billed = True

    async def on_post(self) -> None:
        own = {VERSION_HEADER: self._version()}
        own_headers = self._betas()
        call = ModelCall(self)
        request = await call.read(MESSAGES)
        await converse(call, MESSAGES, request, own=own, own_headers=own_headers)

    def _version(self) -> str:
        """The client's version of the protocol; a missing one is the first there was."""
        for name in VERSION_HEADERS:
            version: str = self.request.headers.get(name, "").strip()
            if version:
                break
        else:
            return VERSION
        accepted = self.services.config.messages_versions
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
