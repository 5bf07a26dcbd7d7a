"""A value of a checked request body as Python's objects."""

from __future__ import annotations

import json

import msgspec

from channels.errors import InvalidRequest


def value_in(text: bytes | msgspec.Raw) -> object:
    """Decode JSON text of any depth that was checked. Raises InvalidRequest for a number that is
    too long, and RecursionError.
    """
    try:
        return msgspec.json.decode(text)
    except msgspec.ValidationError:  # an integer beyond 64 bits
        pass
    try:
        return json.loads(bytes(text))
    except ValueError:
        raise InvalidRequest("The request body holds a number of too many digits.") from None
