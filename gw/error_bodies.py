"""An error as the body of the endpoint's protocol (reference 1.7), and the JSON of every response.

Three shapes, and the images endpoint's variant of the first. Knows nothing of HTTP beyond the
status number that the gemini shape repeats.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import ujson
from msgspec import Meta

from channels.family import ErrorShape
from gw.errors import GatewayError
from metrics.log_redaction import without_keys

_Message = Annotated[str, Meta(description="What is wrong, for people; its words may change.")]
_Type = Annotated[str, Meta(description="The class of the error.")]
_Code = Annotated[str, Meta(description="The error, for programs.")]
_Param = Annotated[str | None, Meta(description="The member or parameter at fault, where known.")]


class ChatErrorMembers(TypedDict):
    """An error of the first shape."""

    message: _Message
    type: _Type
    code: _Code
    param: NotRequired[_Param]


class ChatError(TypedDict):
    """The body of an error in the first shape."""

    error: Annotated[ChatErrorMembers, Meta(description="The error.")]


class ImagesErrorMembers(TypedDict):
    """An error of the first shape that always names a member, or null."""

    message: _Message
    type: _Type
    code: _Code
    param: _Param


class ImagesError(TypedDict):
    """The body of an error in the first shape, with `param`."""

    error: Annotated[ImagesErrorMembers, Meta(description="The error.")]


class MessagesErrorMembers(TypedDict):
    """An error of the messages protocol."""

    type: _Type
    message: _Message
    details: NotRequired[Annotated[Any, Meta(description="What the provider's libraries read.")]]


class MessagesError(TypedDict):
    """The body of an error of the messages protocol."""

    type: Annotated[Literal["error"], Meta(description="Always `error`.")]
    error: Annotated[MessagesErrorMembers, Meta(description="The error.")]


class GeminiErrorMembers(TypedDict):
    """An error of the native-content protocol."""

    code: Annotated[int, Meta(description="The status of the response.")]
    message: _Message
    status: Annotated[str, Meta(description="The error, for programs.")]
    details: NotRequired[Annotated[Any, Meta(description="What the provider's libraries read.")]]


class GeminiError(TypedDict):
    """The body of an error of the native-content protocol."""

    error: Annotated[GeminiErrorMembers, Meta(description="The error.")]


BODIES: Mapping[ErrorShape, Any] = MappingProxyType(
    {
        ErrorShape.CHAT: ChatError,
        ErrorShape.IMAGES: ImagesError,
        ErrorShape.MESSAGES: MessagesError,
        ErrorShape.GEMINI: GeminiError,
    }
)


def render(shape: ErrorShape, error: GatewayError) -> bytes:
    """Render `error` as a JSON body in UTF-8."""
    return dumps(_body(shape, error, without_keys(_encodable(error.message))))


def dumps(value: Any) -> bytes:
    """Write JSON the way every response of the gateway is written: UTF-8, `/` as it is.

    Strings must be encodable; money must be strings already (a Decimal would become a float).
    """
    text: str = ujson.dumps(
        value, ensure_ascii=False, escape_forward_slashes=False, allow_nan=False
    )
    return text.encode()


def _body(
    shape: ErrorShape, error: GatewayError, message: str
) -> ChatError | ImagesError | MessagesError | GeminiError:
    kind = error.kind
    if shape is ErrorShape.MESSAGES:
        of_messages: MessagesErrorMembers = {"type": kind.messages_type, "message": message}
        if error.details is not None:
            of_messages["details"] = error.details
        return {"type": "error", "error": of_messages}
    if shape is ErrorShape.GEMINI:
        of_gemini: GeminiErrorMembers = {
            "code": error.http_status,
            "message": message,
            "status": kind.gemini_status,
        }
        details = _retry_info(error) if error.details is None else error.details
        if details is not None:
            of_gemini["details"] = details
        return {"error": of_gemini}
    shown: ChatErrorMembers = {"message": message, "type": kind.chat_type, "code": kind.code}
    if shape is ErrorShape.IMAGES:
        return {"error": {**shown, "param": error.param}}
    if error.upstream_param is not None:
        shown["param"] = error.upstream_param
    return {"error": shown}


def _retry_info(error: GatewayError) -> list[dict[str, str]] | None:
    """Return when to come back after a 429, as clients of the gemini shape read it."""
    seconds = error.headers.get("Retry-After", "")
    if error.http_status != 429 or not seconds.isdecimal():
        return None
    return [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{seconds}s"}]


def _encodable(text: str) -> str:
    """Replace lone surrogates, which a client's own JSON may have put into a message."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
