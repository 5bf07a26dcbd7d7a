"""Check a request body against its dialect's table of members, and describe its faults.

The same steps for every dialect: the body as members (`channels/json/json_object.py`), no member
that differs from a known one only in case, then the types. The tables are each dialect's own.

A chat dialect has two tables: the documented types, and those of the members that the gateway
itself needs. An undocumented body that fits the second is sent to an upstream of the same protocol,
which judges it (contract §7); a translation refuses it.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Annotated, Any, Generic, TypeVar

import msgspec

from channels.errors import InvalidRequest
from channels.json.json_object import InvalidJson, JsonObject

# Descriptions of faults: the member, the value found, the allowed values.
#
# For the decoder's type errors, in any dialect; each dialect has its own texts.

# "Expected … - at `$.messages[0].role`"; no path if the fault is in the body as a whole.
_PATH = re.compile(r" - at `\$\.?(.*)`\Z", re.S)
_MISSING = re.compile(r"Object missing required field `(.*?)`")
_STEP = re.compile(r"\[(\d+)\]|([^.\[\]]+)")

# A number up to this length is a setting; a longer one may be anything.
_NUMBER_CHARACTERS_MAX = 20
# A value quoted in a decoder's own message.
_QUOTED = re.compile(r" '.*'", re.S)
_ABSENT = object()


def invalid_member(
    body: bytes, error: msgspec.ValidationError, allowed: Mapping[str, str]
) -> InvalidRequest:
    """Convert a decoder's error to the client's; `allowed` has `messages[].role` for any index."""
    reason = str(error)
    path = found[1] if (found := _PATH.search(reason)) else ""
    if missing := _MISSING.match(reason):
        path = f"{path}.{missing[1]}" if path else missing[1]
    words = allowed.get(re.sub(r"\[\d+\]", "[]", path))
    if words is None:
        reason = _QUOTED.sub("", reason)
        return InvalidRequest(f"{path or 'The request body'}: {reason}", path or None)
    try:
        value = _value_at(body, path)
    except RecursionError:
        return InvalidRequest(f"{path}: expected {words}, found too deep a nesting.", path)
    if value is _ABSENT:
        return InvalidRequest(f"{path} is missing: expected {words}.", path)
    return InvalidRequest(f"{path}: expected {words}, found {described(value)}.", path)


def described(value: Any) -> str:
    """Describe a JSON value by its kind and size: a client's content is never quoted."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"a string of {_characters(len(value))}" if value else "an empty string"
    if isinstance(value, list):
        return "an array" if value else "an empty array"
    if isinstance(value, Mapping):
        return "an object"
    size = len(value) if isinstance(value, msgspec.Raw) else len(str(value))
    if size > _NUMBER_CHARACTERS_MAX:
        return f"a number of {_characters(size)}"
    number = bytes(value).decode("ascii") if isinstance(value, msgspec.Raw) else str(value)
    return f"the number {number}"


def refuse_lookalikes(members: JsonObject, names: Mapping[str, str]) -> None:
    """Raise InvalidRequest for a member that differs in case from one of `names` (`lookalikes_of`).

    Billing uses the member that the gateway reads, and an upstream may read either.
    """
    for name in members.raw:
        meant = names.get(name.casefold())
        if meant is not None and meant != name:
            raise InvalidRequest(f"{name!a} is not a member; did you mean {meant}?", name)


def _characters(count: int) -> str:
    return "1 character" if count == 1 else f"{count} characters"


def _value_at(body: bytes, path: str) -> Any:
    """Return the value at a path; a number too large to decode stays as its text."""
    value: Any = msgspec.Raw(body)
    for index, name in _STEP.findall(path):
        if index:
            value = msgspec.json.decode(value, type=list[msgspec.Raw])[int(index)]
        else:
            value = msgspec.json.decode(value, type=dict[str, msgspec.Raw]).get(name, _ABSENT)
        if value is _ABSENT:
            return _ABSENT
    try:
        return msgspec.json.decode(value)
    except msgspec.ValidationError:
        return value


Body = TypeVar("Body")
Lenient = TypeVar("Lenient")


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


class Tables(Generic[Body, Lenient]):
    """Both tables of a chat dialect; `allowed` has the texts of each member."""

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
        """Return the members as documented, or else by the lenient table, and the fault.

        Raises InvalidRequest if both fail.
        """
        try:
            return self._documented.decode(members.outline), None
        except msgspec.ValidationError as error:
            fault = invalid_member(members.body, error, self._allowed)
        except RecursionError:
            raise InvalidJson(_TOO_DEEP) from None
        return decode_members(members, self._lenient, self._allowed), fault


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


# A request's parameters for the call log: its settings, never its content.
#
# Made from what the parser has already decoded. User content is never copied: of texts, files and
# schemas only the number; of strings only short ones, as settings are. Each dialect has its own
# table of members.

# Settings are words such as `high`. A longer string may be anything, and is shown as its length.
SETTING_CHARACTERS_MAX = 40
NUMBER_BYTES_MAX = 32
NAMES_MAX = 20
NAME_CHARACTERS_MAX = 64

_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])


class Typed(msgspec.Struct, gc=False):
    """An object with a type."""

    type: str | None = None


_TYPED = msgspec.json.Decoder(Typed)


def settings(
    members: Mapping[str, msgspec.Raw], names: Container[str], *, within: str = ""
) -> dict[str, str]:
    """Return the named members that are numbers, booleans or short strings, in order.

    An object with a `type` is shown as that, an array as its length; null counts as missing.
    """
    texts: dict[str, str] = {}
    for name in filter(names.__contains__, members):
        text = str(members[name], "utf-8")
        if text[0] in '"[{n' or len(text) > NUMBER_BYTES_MAX:
            if text == "null":
                continue
            text = _shown(text)
        texts[within + name] = text
    return texts


def setting(text: str) -> str:
    """Return a string in the form for the call log."""
    if len(text) <= SETTING_CHARACTERS_MAX and text.isprintable():
        return text
    return f"({len(text)} characters)"


def names_of(names: Sequence[str]) -> str:
    """Return the number of tools, and their first names."""
    shown = [name for name in names[:NAMES_MAX] if name.isprintable()]
    listed = ", ".join(name[:NAME_CHARACTERS_MAX] for name in shown)
    more = ", …" if len(names) > len(shown) else ""
    return f"{len(names)}: {listed}{more}"


def counts(**found: int) -> dict[str, str]:
    """Return the positive counts as text."""
    return {name: str(count) for name, count in found.items() if count}


def _shown(text: str) -> str:
    try:
        if text[0] == '"':
            return setting(msgspec.json.decode(text, type=str))
        if text[0] == "[":
            return str(len(_ARRAY.decode(text)))
        if text[0] == "{":
            kind = _TYPED.decode(text).type
            return "(object)" if kind is None else setting(kind)
    except msgspec.DecodeError:
        return "(object)"  # its type is not a string
    return "(number)"
