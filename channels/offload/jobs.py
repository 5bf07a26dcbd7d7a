"""What is done with a large body in a process of its own: read, written anew, translated, metered.

Each job takes the body and small arguments, and gives a small result and perhaps a body. All of
them start from the bytes: nothing is kept between two jobs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from channels.dialects import chat, images, messages, responses
from channels.dialects import gemini as native
from channels.dialects.dialect import DIALECTS, Meter
from channels.errors import UpstreamMalformed
from channels.json.members import JsonObject
from channels.json.text import dumps
from channels.offload.values import check_values
from channels.translation.losses import Report
from channels.translation.paths import translation_between
from channels.translation.session import TranslatedCall, request_of
from channels.translation.strip_signatures import without_foreign

_READERS: Mapping[str, Callable[..., Any]] = {
    "chat": chat.read_request,
    "messages": messages.read_request,
    "responses": responses.read_request,
    "native": native.read_request,
    "images": images.read_request,
}
_WRITERS: Mapping[str, Callable[..., bytes]] = {
    "chat": chat.upstream_body,
    "messages": messages.upstream_body,
    "responses": responses.upstream_body,
    "native": native.upstream_body,
    "images": images.upstream_body,
}
# Names that a translation changed and that are known again in the answer; history names many.
NAMES_MAX = 10_000

NOTHING = JsonObject(b"{}", {})


class Translated(Struct, frozen=True):
    """What a translated call needs of its request once its body is made."""

    report: Report
    names: Mapping[str, str]


class Metered(Struct, frozen=True):
    """What a whole answer was read as; `fault` is why there is no body for the client."""

    meter: Meter
    fault: UpstreamMalformed | None = None


def read_request(body: bytes, protocol: str, path: Mapping[str, Any]) -> tuple[Any, None]:
    """The checked request, without its body. Raises InvalidRequest."""
    check_values(body)
    return _without_body(_READERS[protocol](body, **path)), None


def passthrough_body(request: Any, protocol: str, options: Mapping[str, Any]) -> bytes:
    """The body of a checked request for a channel that speaks the client's protocol."""
    written = _WRITERS[protocol](request, **options)
    if protocol != "images":
        written = without_foreign(protocol, written, request.object.outline)
    return written


def native_body(
    body: bytes, protocol: str, path: Mapping[str, Any], options: Mapping[str, Any]
) -> tuple[None, bytes | None]:
    """The body for a channel that speaks the client's protocol; None where it is the client's."""
    written = passthrough_body(_READERS[protocol](body, **path), protocol, options)
    return None, None if written is body else written


def translated_body(
    body: bytes,
    client: str,
    upstream: str,
    options: Mapping[str, Any],
    dropped: Sequence[str],
) -> tuple[Translated, bytes]:
    """The body for a channel of another protocol; `dropped` is lost besides. Raises InvalidRequest.

    RecursionError is for whoever tells the client of it.
    """
    call = TranslatedCall(translation_between(client, upstream), request_of(body), redact=str)
    written = dumps(call.upstream_body(**options))
    for name in dropped:
        call.report.drop(name)
    names = dict(list(call.names.items())[:NAMES_MAX])
    return Translated(call.report.shortened(), names), written


def metered(
    body: bytes,
    protocol: str,
    client: str | None,
    names: Mapping[str, str],
    said: Mapping[str, Any],
) -> tuple[Metered, bytes | None]:
    """A whole answer, metered, and translated to a `client` of another protocol.

    `said` are id, time and model for an answer that names neither. Raises UpstreamMalformed.
    """
    meter = DIALECTS[protocol].new_meter()
    meter.body(body)
    if client is None:
        return Metered(meter), None
    call = TranslatedCall.resumed(
        translation_between(client, protocol), names=names, report=Report(), redact=str
    )
    named = {
        "id": meter.response_id or said["id"],
        "created": said["created"],
        "model": meter.response_model or said["model"],
    }
    try:
        return Metered(meter), call.answer(body, **named)
    except UpstreamMalformed as fault:
        return Metered(meter, fault), None


def _without_body(request: Any) -> Any:
    """The request with nothing in it that grows with its body."""
    if isinstance(request, images.ImagesRequest):
        return dataclasses.replace(request, object=NOTHING)
    members: dict[str, Any] = {"object": NOTHING}
    if isinstance(request, native.NativeRequest) and request.config is not None:
        members["config"] = NOTHING
    if isinstance(request, chat.ChatRequest):
        members["usage_options"] = b"{}"
    return replace(request, **members)
