"""Validates a body against a table of fields: types and ranges as a struct, errors as sentences.

A null field counts as absent. Lengths are Unicode code points as in JSON, without trimming or
normalising. Broken JSON, lone surrogates and duplicate members are refused by the parser of members
(`channels/json/json_object.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Generic, NoReturn, TypeVar

import msgspec
from msgspec import Meta, Struct

from channels.dialects import validation
from channels.dialects.faults import described, invalid_member
from channels.dialects.validation import read_members
from channels.errors import InvalidRequest
from channels.json.json_object import InvalidJson, JsonObject
from channels.storable_text import STORABLE, STORABLE_WORDS
from gw.media.user_urls import fault_of

Body = TypeVar("Body", bound=Struct)

# Texts of which only the type is judged: a ratio, a language.
WORD_CHARACTERS_MAX = 64
# Ids of avatars, voices, templates.
REFERENCE_CHARACTERS_MAX = 256
# Titles, tags, descriptions without a documented length.
LINE_CHARACTERS_MAX = 1000
DURATION_SECONDS_MAX = 3600

Model = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=validation.MODEL_CHARACTERS_MAX,
        description="The model's id.",
    ),
]
Word = Annotated[str, Meta(max_length=WORD_CHARACTERS_MAX, pattern=STORABLE)]
Reference = Annotated[
    str, Meta(min_length=1, max_length=REFERENCE_CHARACTERS_MAX, pattern=STORABLE)
]
Line = Annotated[str, Meta(max_length=LINE_CHARACTERS_MAX, pattern=STORABLE)]
Number = int | float
Seconds = (
    Annotated[int, Meta(gt=0, le=DURATION_SECONDS_MAX)]
    | Annotated[float, Meta(gt=0, le=DURATION_SECONDS_MAX)]
)

MODEL_WORDS = f"a string of 1 to {validation.MODEL_CHARACTERS_MAX} characters"
WORD_WORDS = f"a string of at most {WORD_CHARACTERS_MAX} characters {STORABLE_WORDS}"
REFERENCE_WORDS = f"a string of 1 to {REFERENCE_CHARACTERS_MAX} characters {STORABLE_WORDS}"
LINE_WORDS = f"a string of at most {LINE_CHARACTERS_MAX} characters {STORABLE_WORDS}"
SECONDS_WORDS = f"a number of seconds above 0 and up to {DURATION_SECONDS_MAX}"
FLAG_WORDS = "a boolean"


class Named(Struct, gc=False):
    """The model, on which the other fields depend."""

    model: Model


class FieldTable(Generic[Body]):
    """One kind of body: its types, and the allowed values of each field as a sentence."""

    __slots__ = ("_allowed", "_decoder", "_names")

    def __init__(self, body: type[Body], allowed: Mapping[str, str]) -> None:
        self._decoder = msgspec.json.Decoder(body)
        self._allowed = allowed
        self._names = validation.lookalikes_of(body.__struct_fields__)

    def members(self, body: bytes) -> JsonObject:
        """Return the members, unvalidated. Raises InvalidRequest."""
        return read_members(body, self._names)

    def fields(self, members: JsonObject) -> Body:
        """Return the typed fields, without unknown ones. Raises InvalidRequest with the field."""
        try:
            return self._decoder.decode(members.body)
        except msgspec.ValidationError as error:
            raise invalid_member(members.body, error, self._allowed) from None
        except msgspec.DecodeError as error:
            raise InvalidJson(f"The request body cannot be read: {error}.") from None
        except RecursionError:
            raise InvalidJson("The request body is nested too deeply.") from None

    def read(self, body: bytes) -> Body:
        """Parse and validate a body."""
        return self.fields(self.members(body))


_NAMED = FieldTable(Named, {"model": MODEL_WORDS})


def model_of(body: bytes) -> str:
    """Return the model of a body. Raises InvalidRequest."""
    return validation.check_model(_NAMED.read(body).model)


def refuse(name: str, message: str) -> NoReturn:
    """Raise InvalidRequest: the field, with a colon unless a sentence begins, and the reason."""
    raise InvalidRequest(f"{name} {message}.", name.removesuffix(":"))


def require(name: str, words: str) -> NoReturn:
    """Raise InvalidRequest for a missing field."""
    raise InvalidRequest(f"{name} is missing: expected {words}.", name)


def check_one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    """Raise InvalidRequest for a value that is not allowed."""
    if value not in allowed:
        expected = ", ".join(allowed)
        refuse(f"{name}:", f"expected one of {expected}, found {described(value)}")


def url(name: str, value: str) -> str:
    """Return a valid link. Raises InvalidRequest."""
    fault = fault_of(value)
    if fault is not None:
        refuse(f"{name}:" if fault.startswith("expected") else name, fault)
    return value


def url_if_any(name: str, value: str | None) -> str | None:
    """Like `url`, for an optional field."""
    return None if value is None else url(name, value)


def required_url(name: str, value: str | None) -> str:
    """Like `url`, for a required field."""
    return require(name, "an http or https URL") if value is None else url(name, value)
