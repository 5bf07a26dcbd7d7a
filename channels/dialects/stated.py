"""What a whole response that is forwarded unread states beside its content."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeVar

from msgspec import Raw, Struct
from msgspec.json import Decoder

from channels.dialects.error_body import failure_of, member_of
from channels.dialects.meter import fit_name
from channels.errors import UpstreamMalformed
from channels.json.lenient import UNREADABLE, raw_of, read_loosely
from channels.json.weight import EVENT_VALUES_MAX, values_in

T = TypeVar("T")
# The beginning of a list of objects, within its first bytes.
_ENTRIES = re.compile(rb"\[\s*\{")
_HEAD_BYTES = 64


class Stated(Struct, frozen=True):
    """The model that served, what is to be billed, and the error; None where nothing is stated."""

    model: str | None = None
    tokens: int | None = None
    searches: int | None = None
    error: str | None = None


def members_in(body: bytes, decoder: Decoder[T], *, what: str) -> T:
    """Return the members of a response that are read. Raises UpstreamMalformed.

    Servers of one's own write numbers that are none and halves of characters: what a strict decoder
    rejects for one of them was still made, and is read loosely.
    """
    try:
        return decoder.decode(body)
    except UNREADABLE as error:
        fault = UpstreamMalformed(f"{what} that cannot be read: {error}")
    if values_in(body) > EVENT_VALUES_MAX:
        raise fault
    try:
        return decoder.decode(raw_of(read_loosely(body, mends=False)))
    except UNREADABLE:
        raise fault from None


def has_entries(raw: Raw) -> bool:
    """Whether this is a list of objects that is not empty, without decoding it.

    Every request has something to respond to, so an empty list is no response.
    """
    return _ENTRIES.match(bytes(memoryview(raw)[:_HEAD_BYTES])) is not None


def object_of(value: object) -> Mapping[str, object]:
    """Return a value that is an object; an empty one in place of anything else."""
    return value if isinstance(value, Mapping) else {}


def members_of(raw: Raw) -> Mapping[str, object]:
    """Return the members of an object; none of anything else."""
    return object_of(member_of(raw))


def model_of(raw: Raw) -> str | None:
    """Return the name of the model that served."""
    name = member_of(raw)
    return fit_name(name) if isinstance(name, str) else None


def error_of(raw: Raw, *, lacking: str) -> str:
    """Return the message of the error in a response without content.

    Raises UpstreamMalformed, which says what is lacking, if it has none either.
    """
    failure = failure_of(raw)
    if failure is None:
        raise UpstreamMalformed(lacking)
    return failure
