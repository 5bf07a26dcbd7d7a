"""Check a request body against its dialect's table of members, and say what is wrong with it.

The same steps for every dialect: the body as members (`channels/json/members.py`), no member that
only looks like one we act on, then the types. The tables are in
`channels/dialects/*/schema.py`, the words for a fault in `type_errors.py`.

A chat dialect has two tables: the documented types, and those of the members that the gateway
itself must read. What is not as documented and fits the second goes to an upstream of the same
protocol, which judges it (contract §7); a translation refuses it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Generic, TypeVar

import msgspec

from channels.dialects.type_errors import described, invalid_member
from channels.errors import InvalidRequest
from channels.json.members import InvalidJson, JsonObject

Body = TypeVar("Body")
Lenient = TypeVar("Lenient")

# No registry has longer model ids, and a refused id is repeated in responses and rows.
MODEL_CHARACTERS_MAX = 256

_TOO_DEEP = "The request body is nested too deeply."


class _Named(msgspec.Struct, gc=False):
    model: str | None = None


_MODEL = msgspec.json.Decoder(_Named)

_VERSION = re.compile(r"(?:_preview)?(?:_\d{4}_\d{2}_\d{2})?\Z")


def lookalikes_of(names: Iterable[str]) -> dict[str, str]:
    """Members we act on, by the name an upstream that ignores case would take for them."""
    return {name.casefold(): name for name in names}


def read_body(
    body: bytes,
    decoder: msgspec.json.Decoder[Body],
    *,
    names: Mapping[str, str],
    allowed: Mapping[str, str],
) -> tuple[JsonObject, Body]:
    """The members as they came, and as types. Raises InvalidRequest naming the member at fault.

    `names` is made by `lookalikes_of`; `allowed` says in words what each member may be. Of what is
    in long strings the types hold the ends only (`channels/json/outline.py`).
    """
    members = read_members(body, names)
    return members, decode_members(members, decoder, allowed)


def read_members(body: bytes, names: Mapping[str, str]) -> JsonObject:
    """The members as they came. Raises InvalidRequest for one that looks like one we act on."""
    members = JsonObject.parse(body)
    for name in members.raw:
        meant = names.get(name.casefold())
        if meant is not None and meant != name:
            # We bill by the one we read, an upstream may read either.
            raise InvalidRequest(f"{described(name)} is not a member; did you mean {meant}?", name)
    return members


def decode_members(
    members: JsonObject, decoder: msgspec.json.Decoder[Body], allowed: Mapping[str, str]
) -> Body:
    """The members as types. Raises InvalidRequest naming the member at fault."""
    try:
        return decoder.decode(members.outline)
    except msgspec.ValidationError as error:
        raise invalid_member(members.body, error, allowed) from None
    except RecursionError:
        raise InvalidJson(_TOO_DEEP) from None


class Tables(Generic[Body, Lenient]):
    """Both tables of a chat dialect; `allowed` says in words what each member may be."""

    __slots__ = ("_allowed", "_documented", "_lenient")

    def __init__(
        self, documented: type[Body], lenient: type[Lenient], allowed: Mapping[str, str]
    ) -> None:
        self._documented = msgspec.json.Decoder(documented)
        self._lenient = msgspec.json.Decoder(lenient)
        self._allowed = allowed

    def __repr__(self) -> str:
        return f"<Tables of {self._documented.type.__module__}>"

    def read(self, members: JsonObject) -> tuple[Body | Lenient, InvalidRequest | None]:
        """The members as documented; or else as far as we must read them, and what is at fault.

        Raises InvalidRequest where that cannot be read either.
        """
        try:
            return self._documented.decode(members.outline), None
        except msgspec.ValidationError as error:
            fault = invalid_member(members.body, error, self._allowed)
        except RecursionError:
            raise InvalidJson(_TOO_DEEP) from None
        return decode_members(members, self._lenient, self._allowed), fault


def read_inner(members: JsonObject, name: str) -> JsonObject | None:
    """The members of an object within the body, to be edited; None where it is null or not there.

    Raises InvalidRequest for a member that is there twice.
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
    """The type of a provider's tool without its version: `web_search_preview_2025_03_11`."""
    return _VERSION.sub("", tool_type)


def check_model(model: str) -> str:
    """A model's name as it may be repeated in responses and rows. Raises InvalidRequest."""
    if not model.isprintable():
        raise InvalidRequest("model: control characters are not allowed.", "model")
    return model


def is_repeatable(model: str) -> bool:
    """Whether what may be no model's name at all can stand in a row."""
    return len(model) <= MODEL_CHARACTERS_MAX and model.isprintable()


def model_in(body: bytes) -> str | None:
    """The model that a body names which may be unfit otherwise; None where it names none."""
    try:
        model = _MODEL.decode(body).model
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return model if model and is_repeatable(model) else None
