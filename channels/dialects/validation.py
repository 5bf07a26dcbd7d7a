"""The check of a request body against its dialect's table of members.

The same steps for every dialect: the body as members (`channels/json/json_object.py`), no member
that differs from a known one only in case, then the types. The members are each dialect's own, and
`faults.py` describes what is wrong.

A chat dialect has two tables: the documented types, and their lenient twin with the members that
the gateway itself needs (`lenient_twin.py`). An undocumented body that fits the twin is sent to an
upstream of the same protocol, which judges it (reference 1.5); a translation refuses it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Generic, TypeVar

import msgspec

from channels.dialects.faults import invalid_member
from channels.dialects.lenient_twin import twin_of
from channels.dialects.member_words import words_of
from channels.errors import InvalidRequest
from channels.json.json_object import InvalidJson, JsonObject


def refuse_lookalikes(members: JsonObject, names: Mapping[str, str]) -> None:
    """Raise InvalidRequest for a member that differs in case from one of `names` (`lookalikes_of`).

    Billing uses the member that the gateway reads, and an upstream may read either.
    """
    for name in members.raw:
        meant = names.get(name.casefold())
        if meant is not None and meant != name:
            raise InvalidRequest(f"{name!a} is not a member; did you mean {meant}?", name)


Body = TypeVar("Body", bound=msgspec.Struct)


class AnyObject(msgspec.Struct, gc=False):
    """Any object; only the upstream uses its members."""


# No registry has longer model ids, and a refused id is repeated in responses and rows.
MODEL_CHARACTERS_MAX = 256
# The type of a tool is repeated in responses, too.
TOOL_TYPE_CHARACTERS_MAX = 64
# The largest integer that every JSON reader agrees on.
INTEGER_MAX = 2**53 - 1
Count = Annotated[int, msgspec.Meta(ge=1, le=INTEGER_MAX)]

_TOO_DEEP = "The request body is nested too deeply."


class _Named(msgspec.Struct, gc=False):
    model: str | None = None


_MODEL = msgspec.json.Decoder(_Named)

_VERSION = re.compile(r"(?:_preview)?(?:_\d{4}_\d{2}_\d{2})?\Z")


def lookalikes_of(names: Iterable[str]) -> dict[str, str]:
    """Map the names under which an upstream that ignores case reads them to the known members."""
    return {name.casefold(): name for name in names}


def read_body(
    body: bytes,
    decoder: msgspec.json.Decoder[Body],
    *,
    names: Mapping[str, str],
    allowed: Mapping[str, str],
) -> tuple[JsonObject, Body]:
    """Return the members as received, and as types. Raises InvalidRequest with the faulty member.

    `names` is made by `lookalikes_of`; `allowed` has the texts of each member. The types have only
    the ends of long strings (`channels/json/outline.py`).
    """
    members = read_members(body, names)
    return members, decode_members(members, decoder, allowed)


def read_members(body: bytes, names: Mapping[str, str]) -> JsonObject:
    """Return the members as received. Raises InvalidRequest for one that resembles a known one."""
    members = JsonObject.parse(body)
    refuse_lookalikes(members, names)
    return members


def decode_members(
    members: JsonObject, decoder: msgspec.json.Decoder[Body], allowed: Mapping[str, str]
) -> Body:
    """Return the members as types. Raises InvalidRequest with the faulty member."""
    try:
        return decoder.decode(members.outline)
    except msgspec.ValidationError as error:
        raise invalid_member(members.body, error, allowed) from None
    except RecursionError:
        raise InvalidJson(_TOO_DEEP) from None


class Tables(Generic[Body]):
    """Both tables of a chat dialect, made from its body; `allowed` has the words of each member."""

    __slots__ = ("_documented", "_lenient", "allowed")

    def __init__(self, documented: type[Body]) -> None:
        lenient = twin_of(documented)
        self._documented = msgspec.json.Decoder(documented)
        self._lenient = msgspec.json.Decoder(lenient)
        self.allowed: Mapping[str, str] = words_of(documented, lenient)

    def __repr__(self) -> str:
        return f"<Tables of {self._documented.type.__module__}>"

    def read(self, members: JsonObject) -> tuple[Body, InvalidRequest | None]:
        """Return the members as documented, or else by the lenient twin, and the fault.

        Raises InvalidRequest if both fail. With a fault, the members have the types that their
        declarations say are enough.
        """
        try:
            return self._documented.decode(members.outline), None
        except msgspec.ValidationError as error:
            fault = invalid_member(members.body, error, self.allowed)
        except RecursionError:
            raise InvalidJson(_TOO_DEEP) from None
        return decode_members(members, self._lenient, self.allowed), fault


def read_inner(members: JsonObject, name: str) -> JsonObject | None:
    """Return the members of an inner object for editing; None if it is null or missing.

    Raises InvalidRequest for a duplicate member.
    """
    raw = members.raw.get(name)
    if raw is None:
        return None
    text = bytes(raw)
    if text == b"null":
        return None
    try:
        return JsonObject.parse(text)
    except InvalidJson as error:
        param = f"{name}.{error.param}" if error.param else name
        raise InvalidRequest(f"{param}: {error.message}", param) from None


def unversioned(tool_type: str) -> str:
    """Return the type of a provider's tool without its version: `web_search_preview_2025_03_11`."""
    return _VERSION.sub("", tool_type)


def check_model(model: str) -> str:
    """Return a model's name fit for responses and rows. Raises InvalidRequest."""
    if not model.isprintable():
        raise InvalidRequest("model: control characters are not allowed.", "model")
    return model


def is_repeatable(model: str) -> bool:
    """Whether a text that may be no model's name is fit for a row."""
    return len(model) <= MODEL_CHARACTERS_MAX and model.isprintable()


def model_in(body: bytes) -> str | None:
    """Return the model of a body that may be invalid otherwise; None if it has none."""
    try:
        model = _MODEL.decode(body).model
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return model if model and is_repeatable(model) else None
