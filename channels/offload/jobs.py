"""What is done with a body: read, written anew, translated, metered.

With an ordinary body it is done in the loop, with a large one in a process of its own; who asks
decides by its weight (`gw/calls/request.py`, `gw/calls/chat_upstream.py`). Each job takes the body
and small arguments, and gives a small result and perhaps a body. All of them start from the bytes:
nothing is kept between two jobs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from channels.dialects.dialect import Meter
from channels.dialects.hosting import Hosted
from channels.dialects.table import CHAT_DIALECTS, DIALECTS
from channels.errors import UpstreamMalformed
from channels.json.text import dumps
from channels.offload.values import check_values
from channels.translation.losses import LossReport
from channels.translation.paths import translation_between
from channels.translation.session import TranslatedCall, request_of

# Names that a translation changed and that are known again in the response; history names many.
NAMES_MAX = 10_000


class Translated(Struct, frozen=True):
    """What a translated call needs of its request once its body is made."""

    report: LossReport
    names: Mapping[str, str]


class Metered(Struct, frozen=True):
    """What a whole response was read as; `fault` is why there is no body for the client."""

    meter: Meter
    fault: UpstreamMalformed | None = None


def read_request(body: bytes, protocol: str, path: Mapping[str, Any]) -> tuple[Any, None]:
    """The checked request, without its body. Raises InvalidRequest."""
    check_values(body)
    dialect = DIALECTS[protocol]
    return dialect.without_body(dialect.read_request(body, **path)), None


def passthrough_body(
    request: Any, protocol: str, options: Mapping[str, Any], hosted: Hosted | None = None
) -> bytes:
    """The body of a checked request for a channel that speaks the client's protocol."""
    dialect = DIALECTS[protocol]
    written = dialect.upstream_body(request, **options)
    if dialect.without_foreign is not None:
        written = dialect.without_foreign(written, request.object.outline)
    return written if hosted is None else _hosted(written, protocol, hosted)


def passthrough_job(
    body: bytes,
    protocol: str,
    path: Mapping[str, Any],
    options: Mapping[str, Any],
    hosted: Hosted | None = None,
) -> tuple[None, bytes | None]:
    """The body for a channel that speaks the client's protocol; None where it is the client's."""
    request = DIALECTS[protocol].read_request(body, **path)
    written = passthrough_body(request, protocol, options, hosted)
    return None, None if written is body else written


def translated_body(
    body: bytes,
    client: str,
    upstream: str,
    options: Mapping[str, Any],
    dropped: Sequence[str],
    hosted: Hosted | None = None,
) -> tuple[Translated, bytes]:
    """The body for a channel of another protocol; `dropped` is lost besides. Raises InvalidRequest.

    RecursionError is handled where the client is told of it.
    """
    call = TranslatedCall(translation_between(client, upstream), request_of(body), redact=str)
    written = dumps(call.upstream_body(**options))
    for name in dropped:
        call.report.drop(name)
    names = dict(list(call.names.items())[:NAMES_MAX])
    if hosted is not None:
        written = _hosted(written, upstream, hosted)
    return Translated(call.report.shortened(), names), written


def _hosted(body: bytes, protocol: str, hosted: Hosted) -> bytes:
    return CHAT_DIALECTS[protocol].hostings[hosted.wire].body(body, hosted.headers)


def metered(
    body: bytes,
    protocol: str,
    client: str | None,
    names: Mapping[str, str],
    fallback: Mapping[str, Any],
) -> tuple[Metered, bytes | None]:
    """A whole response, metered, and translated to a `client` of another protocol.

    `fallback` are id, time and model for a response that names neither. Raises UpstreamMalformed.
    """
    meter = CHAT_DIALECTS[protocol].new_meter()
    meter.body(body)
    if client is None:
        return Metered(meter), None
    call = TranslatedCall.resumed(
        translation_between(client, protocol), names=names, report=LossReport(), redact=str
    )
    named = {
        "id": meter.response_id or fallback["id"],
        "created": fallback["created"],
        "model": meter.response_model or fallback["model"],
    }
    try:
        return Metered(meter), call.translate_response(body, **named)
    except UpstreamMalformed as fault:
        return Metered(meter, fault), None
