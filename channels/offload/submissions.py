"""What is done with a large body of a media endpoint in a process of its own: read, written anew.

The counterpart of `jobs.py` for what `channels/media` sends. `reading` is a function of this
program that makes a request of a body and some small arguments; both jobs begin with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from channels.errors import InvalidRequest
from channels.media.dialects import DIALECTS
from channels.media.requests import GeneralVideo
from channels.offload.values import check_values
from channels.offload.weight import COUNTED_BYTES_MAX


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
    exchange = DIALECTS[wire].submit(request, idempotency_key=idempotency_key)
    return None, exchange.request.body
