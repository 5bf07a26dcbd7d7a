"""The work on a body: parse, edit, translate, meter.

It is done in the loop for an ordinary body, in a separate process for a large one; the caller
decides by its weight (`gw/calls/offloading.py`). Each job takes the body and small
arguments, and returns a small result and perhaps a body. Every job starts from the bytes: no state
is kept between two jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from channels.conversation import members_in
from channels.dialects.hosting import Hosted
from channels.dialects.meter import Meter
from channels.dialects.table import CHAT_DIALECTS, DIALECTS
from channels.errors import InvalidRequest, UpstreamMalformed
from channels.json.weight import COUNTED_BYTES_MAX
from channels.media.dialects import DIALECTS as MEDIA_DIALECTS
from channels.media.requests import GeneralVideo
from channels.translation.identifiers import ClientsOwn
from channels.translation.inner_values import VALUES_MAX, _check
from channels.translation.session import translated_response


def check_values(body: bytes) -> None:
    """Raise InvalidRequest for an unchecked body with more than VALUES_MAX values.

    A model reads each as at least one token, and none reads so many; but each takes memory and time
    here that its two or three bytes do not show. They are counted up to the bound, and only if the
    body is long enough for so many.
    """
    if body.count(b",") + body.count(b"{") + body.count(b"[") > VALUES_MAX:
        _check((body,))


class Metered(Struct, frozen=True):
    """A metered whole response; `fault` is why there is no body for the client."""

    meter: Meter
    fault: UpstreamMalformed | None = None


def read_request(body: bytes, protocol: str, path: Mapping[str, Any]) -> tuple[Any, None]:
    """Return the checked request, without its body. Raises InvalidRequest."""
    check_values(body)
    dialect = DIALECTS[protocol]
    return dialect.without_body(dialect.read_request(body, **path)), None


def rewritten(
    body: bytes, reading: Callable[[bytes], tuple[Any, bytes]]
) -> tuple[Any, bytes | None]:
    """Return what `reading` finds in a body, and the body that it makes of it.

    Raises InvalidRequest.
    """
    check_values(body)
    return reading(body)


def read_form_request(
    body: bytes, reading: Callable[[bytes, str | None], Any], content_type: str | None
) -> tuple[Any, None]:
    """Return the checked form, which refers to the body's offsets. Raises InvalidRequest."""
    return reading(body, content_type), None


def passthrough_job(
    body: bytes,
    protocol: str,
    path: Mapping[str, Any],
    options: Mapping[str, Any],
    hosted: Hosted | None = None,
) -> tuple[None, bytes | None]:
    """Return the body for a channel of the client's protocol; None if it is the client's own."""
    request = DIALECTS[protocol].read_request(body, **path)
    written = DIALECTS[protocol].passthrough_body(request, options, hosted)
    return None, None if written is body else written


def metered(
    body: bytes,
    protocol: str,
    client: str | None,
    names: Mapping[str, str],
    fallback: Mapping[str, Any],
    called: Collection[str] = (),
) -> tuple[Metered, bytes | None]:
    """Meter a whole response, and translate it for a `client` of another protocol.

    `fallback` are id, time and model for a response without them, `called` are ids of
    earlier calls. Raises UpstreamMalformed.
    """
    meter = CHAT_DIALECTS[protocol].new_meter()
    read = meter.take_body(body)
    if client is None:
        return Metered(meter), None
    try:
        written = translated_response(
            read,
            meter,
            protocol,
            client,
            ClientsOwn(names, called),
            id=meter.response_id or fallback["id"],
            created=fallback["created"],
            model=meter.response_model or fallback["model"],
        )
    except UpstreamMalformed as fault:
        return Metered(meter, fault), None
    return Metered(meter), written


class ReadSubmission(Struct, frozen=True):
    """What was made of a submission's body, and the members that name its end user."""

    made: Any
    members: Mapping[str, Raw]


def read_submission(
    body: bytes, reading: Callable[..., Any], *arguments: Any
) -> tuple[ReadSubmission, None]:
    """Return the result of `reading` without what grows with the body. Raises InvalidRequest.

    `reading` is a function of this program that makes a request of a media endpoint from a body and
    some small arguments.
    """
    check_values(body)
    made = reading(body, *arguments)
    members = members_in(body)
    if isinstance(made, GeneralVideo) and made.may_be_long:
        return ReadSubmission(made.without_body(), members), None
    if isinstance(made, msgspec.Struct) and len(msgspec.json.encode(made)) > COUNTED_BYTES_MAX:
        raise InvalidRequest(f"The request is longer than {COUNTED_BYTES_MAX} bytes.")
    return ReadSubmission(made, members), None


def submission_body(
    body: bytes,
    reading: Callable[..., Any],
    arguments: tuple[Any, ...],
    wire: str,
    upstream_model: str,
    idempotency_key: str,
) -> tuple[None, bytes]:
    """Return the body for a channel of this wire, for a request that passed `read_submission`."""
    request = replace(reading(body, *arguments), model=upstream_model)
    exchange = MEDIA_DIALECTS[wire].submit(request, idempotency_key=idempotency_key)
    return None, exchange.request.body
