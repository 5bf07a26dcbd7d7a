"""What is done with a body: read, written anew, translated, metered.

With an ordinary body it is done in the loop, with a large one in a process of its own; who asks
decides by its weight (`gw/calls/request.py`, `gw/calls/chat.py`). Each job takes the body
and small arguments, and gives a small result and perhaps a body. All of them start from the bytes:
nothing is kept between two jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from channels.dialects.dialect import Hosted, Meter
from channels.dialects.table import CHAT_DIALECTS, DIALECTS
from channels.errors import InvalidRequest, UpstreamMalformed
from channels.json import COUNTED_BYTES_MAX
from channels.media.canonical import GeneralVideo
from channels.media.dialects import DIALECTS as MEDIA_DIALECTS
from channels.translation.session import (
    VALUES_MAX,
    TranslatedCall,
    _check,
    translation_between,
)
from channels.translation.tool_calls import LossReport

# How many values a body holds, and how many it may.
#
# A model reads each as a token at least, and none reads so many; but each takes memory and time
# here that its two or three bytes do not show.


def check_values(body: bytes) -> None:
    """Raise InvalidRequest for a body, not yet checked, that holds more than VALUES_MAX.

    They are counted up to there, and only where the body could hold so many.
    """
    if body.count(b",") + body.count(b"{") + body.count(b"[") > VALUES_MAX:
        _check((body,))


class Metered(Struct, frozen=True):
    """What a whole response was read as; `fault` is why there is no body for the client."""

    meter: Meter
    fault: UpstreamMalformed | None = None


def read_request(body: bytes, protocol: str, path: Mapping[str, Any]) -> tuple[Any, None]:
    """The checked request, without its body. Raises InvalidRequest."""
    check_values(body)
    dialect = DIALECTS[protocol]
    return dialect.without_body(dialect.read_request(body, **path)), None


def passthrough_job(
    body: bytes,
    protocol: str,
    path: Mapping[str, Any],
    options: Mapping[str, Any],
    hosted: Hosted | None = None,
) -> tuple[None, bytes | None]:
    """The body for a channel that speaks the client's protocol; None where it is the client's."""
    request = DIALECTS[protocol].read_request(body, **path)
    written = DIALECTS[protocol].passthrough_body(request, options, hosted)
    return None, None if written is body else written


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


# What is done with a large body of a media endpoint in a process of its own: read, written anew.
#
# For the bodies that `channels/media` sends. `reading` is a function of this program that
# makes a request of a body and some small arguments; both jobs begin with it.


def read_submission(body: bytes, reading: Callable[..., Any], *arguments: Any) -> tuple[Any, None]:
    """What `reading` makes of the body, without what grows with it. Raises InvalidRequest."""
    check_values(body)
    made = reading(body, *arguments)
    if isinstance(made, GeneralVideo) and made.may_be_long:
        return made.without_body(), None
    if isinstance(made, msgspec.Struct) and len(msgspec.json.encode(made)) > COUNTED_BYTES_MAX:
        raise InvalidRequest(f"The request is longer than {COUNTED_BYTES_MAX} bytes.")
    return made, None


def submission_body(
    body: bytes,
    reading: Callable[..., Any],
    arguments: tuple[Any, ...],
    wire: str,
    upstream_model: str,
    idempotency_key: str,
) -> tuple[None, bytes]:
    """The body for a channel of this wire, of a request that has passed `read_submission`."""
    request = replace(reading(body, *arguments), model=upstream_model)
    exchange = MEDIA_DIALECTS[wire].submit(request, idempotency_key=idempotency_key)
    return None, exchange.request.body
