"""Check a request body against its dialect's table of members, and describe what is wrong with it.

The same steps for every dialect: the body as members (`channels/json.py`), no member that
only looks like one we act on, then the types. The tables are in
`channels/dialects/*/request.py`, the words for a fault are below.

A chat dialect has two tables: the documented types, and those of the members that the gateway
itself must read. What is not as documented and fits the second goes to an upstream of the same
protocol, which judges it (contract §7); a translation refuses it.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Annotated, Any, Generic, TypeVar

import msgspec

from channels.errors import InvalidRequest
from channels.json import InvalidJson, JsonObject

# Describe what is wrong with a request body: which member, what was found, what is allowed.
#
# For the reader's type errors, whatever the dialect; each dialect brings its own words.

# "Expected … - at `$.messages[0].role`"; no path where the fault is in the body as a whole.
_PATH = re.compile(r" - at `\$\.?(.*)`\Z", re.S)
_MISSING = re.compile(r"Object missing required field `(.*?)`")
_STEP = re.compile(r"\[(\d+)\]|([^.\[\]]+)")

# A number up to this length is a setting; a longer one may be anything.
_NUMBER_CHARACTERS_MAX = 20
# A value that a reader's own reason quotes.
_QUOTED = re.compile(r" '.*'", re.S)
_ABSENT = object()


def invalid_member(
    body: bytes, error: msgspec.ValidationError, allowed: Mapping[str, str]
) -> InvalidRequest:
    """Make the client's error of a reader's; `allowed` has `messages[].role` for any index."""
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
    """A JSON value by its kind and size: what a client wrote is quoted in no error and no row."""
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

    The gateway bills by the one that it reads, an upstream may read either.
    """
    for name in members.raw:
        meant = names.get(name.casefold())
        if meant is not None and meant != name:
            raise InvalidRequest(f"{name!a} is not a member; did you mean {meant}?", name)


def _characters(count: int) -> str:
    return "1 character" if count == 1 else f"{count} characters"


def _value_at(body: bytes, path: str) -> Any:
    """The value a path leads to; a number too large to read stays as its text."""
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
    """Members we act on, by the name an upstream that ignores case would take for them."""
    return {name.casefold(): name for name in names}


def read_body(
    body: bytes,
    decoder: msgspec.json.Decoder[Body],
    *,
    names: Mapping[str, str],
    allowed: Mapping[str, str],
) -> tuple[JsonObject, Body]:
    """The members as received, and as types. Raises InvalidRequest naming the member at fault.

    `names` is made by `lookalikes_of`; `allowed` has in words what each member may be. Of what is
    in long strings the types hold the ends only (`channels/json.py`).
    """
    members = read_members(body, names)
    return members, decode_members(members, decoder, allowed)


def read_members(body: bytes, names: Mapping[str, str]) -> JsonObject:
    """The members as received. Raises InvalidRequest for one that looks like one we act on."""
    members = JsonObject.parse(body)
    refuse_lookalikes(members, names)
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
    """Both tables of a chat dialect; `allowed` has in words what each member may be."""

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


# A request's parameters as the call log shows them: how a response was requested, never what.
#
# Made from what the request's reader has already parsed. Nothing that a person wrote is taken: of
# texts, files and schemas only their number; of strings only short ones, as settings are. Which
# members there are is each dialect's own table (`<dialect>/parameters.py`).

# Settings are words such as `high`. What is longer may be anything, and is described by its length.
SETTING_CHARACTERS_MAX = 40
NUMBER_BYTES_MAX = 32
NAMES_MAX = 20
NAME_CHARACTERS_MAX = 64

_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])


class Typed(msgspec.Struct, gc=False):
    """An object that states of what type it is."""

    type: str | None = None


_TYPED = msgspec.json.Decoder(Typed)


def settings(
    members: Mapping[str, msgspec.Raw], names: Container[str], *, within: str = ""
) -> dict[str, str]:
    """The members of these names that are numbers, booleans or short strings, in their order.

    An object with a `type` is described by it, an array by its length; null is as good as nothing.
    """
    texts: dict[str, str] = {}
    for name, raw in members.items():
        if name in names:
            text = _shown(bytes(raw))
            if text is not None:
                texts[within + name] = text
    return texts


def setting(text: str) -> str:
    """A string as it may be shown."""
    if len(text) <= SETTING_CHARACTERS_MAX and text.isprintable():
        return text
    return f"({len(text)} characters)"


def names_of(names: Sequence[str]) -> str:
    """How many tools there are, and the first of their names."""
    shown = [name for name in names[:NAMES_MAX] if name.isprintable()]
    listed = ", ".join(name[:NAME_CHARACTERS_MAX] for name in shown)
    more = ", …" if len(names) > len(shown) else ""
    return f"{len(names)}: {listed}{more}"


def counts(**found: int) -> dict[str, str]:
    """What there is any of, as text."""
    return {name: str(count) for name, count in found.items() if count}


def _shown(raw: bytes) -> str | None:
    first = raw[:1]
    try:
        if first == b'"':
            return setting(msgspec.json.decode(raw, type=str))
        if first == b"[":
            return str(len(_ARRAY.decode(raw)))
        if first == b"{":
            kind = _TYPED.decode(raw).type
            return "(object)" if kind is None else setting(kind)
    except msgspec.DecodeError:
        return "(object)"  # its type is no string
    if raw == b"null":
        return None
    return raw.decode() if len(raw) <= NUMBER_BYTES_MAX else "(number)"
