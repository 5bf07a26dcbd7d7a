"""Validates a body against a table of fields: types and ranges as a struct, errors as sentences.

A null field counts as absent. Lengths are Unicode code points as in JSON, without trimming or
normalising. Broken JSON, lone surrogates and duplicate members are refused by the parser of members
(`channels/json/json_object.py`).
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address
from itertools import product
from types import MappingProxyType
from typing import Annotated, Generic, NoReturn, TypeVar

import msgspec
from msgspec import Meta, Struct

from channels.dialects.faults import described, invalid_member
from channels.dialects.logged_parameters import counts, setting
from channels.dialects.validation import (
    MODEL_CHARACTERS_MAX,
    check_model,
    lookalikes_of,
    read_members,
)
from channels.errors import InvalidRequest
from channels.json.json_object import InvalidJson, JsonObject
from channels.links import scope_of
from channels.media.canonical import ClipVideo, GeneralVideo, MotionVideo, Submission
from channels.storable_text import STORABLE, STORABLE_WORDS

# Validates links that an upstream will fetch (contract for media §4, User URLs).
#
# Nothing is resolved or fetched here: a link is refused by its text alone. A host is parsed like in
# browsers, and like in older libraries: addresses in every notation, digits and dots of other
# scripts, labels in Punycode. Every interpretation of an ambiguous host must be public.

URL_CHARACTERS_MAX = 2048
HOST_CHARACTERS_MAX = 253
LABEL_CHARACTERS_MAX = 63
# An image may be embedded in the request where allowed; its bytes are not validated.
DATA_HEAD_CHARACTERS_MAX = 256

ALLOWED = "an http or https URL that is publicly reachable"

_SCHEME = re.compile(r"https?://", re.IGNORECASE)
_AUTHORITY_END = re.compile(r"[/?#]")
_PORT = re.compile(r"[0-9]{0,5}", re.ASCII)
_DATA = re.compile(r"data:image/[\w.+-]+(?:;[\w.+=-]+)*,", re.IGNORECASE | re.ASCII)
# Suffixes of non-public names: reserved names, and those of the host itself in /etc/hosts.
_PRIVATE_NAMES = (
    *(".localhost", ".local", ".internal", ".localdomain", ".home.arpa"),
    *(".localhost4", ".localhost6", ".localdomain4", ".localdomain6"),
    *(".ip6-localhost", ".ip6-loopback", ".ip6-localnet", ".ip6-mcastprefix"),
    *(".ip6-allnodes", ".ip6-allrouters", ".ip6-allhosts"),
)
# The dots of IDNA.
_DOTS = str.maketrans("\u3002\uff0e\uff61", "...")
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+", re.IGNORECASE | re.ASCII)
_ASCII_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?", re.ASCII)


def fault_of(url: str) -> str | None:
    """Return the reason to refuse a link, which follows its name; None for a valid one."""
    if len(url) > URL_CHARACTERS_MAX:
        return f"is longer than {URL_CHARACTERS_MAX} characters"
    scheme = _SCHEME.match(url)
    if scheme is None:
        return f"expected {ALLOWED}"
    if not url.isprintable() or " " in url or "\\" in url:
        return "must not contain spaces, backslashes or control characters"
    end = _AUTHORITY_END.search(url, scheme.end())
    authority = url[scheme.end() : end.start() if end else len(url)]
    if "@" in authority:
        return "must not contain a user name"
    host, port = _host_and_port(authority)
    if not host or not _PORT.fullmatch(port) or (port and not 0 < int(port) <= 65_535):
        return "must name a host"
    return None if _is_public(host) else "must be publicly reachable: this host is not"


def is_embedded_image(url: str) -> bool:
    """Whether a link is an embedded image."""
    return _DATA.match(url[:DATA_HEAD_CHARACTERS_MAX]) is not None and url.isascii()


def _host_and_port(authority: str) -> tuple[str, str]:
    """Return the host, with brackets, and the text after its colon."""
    if authority.startswith("["):
        host, bracket, rest = authority.partition("]")
        is_good = bracket and (not rest or rest.startswith(":"))
        return (host + bracket, rest[1:]) if is_good else ("", "")
    host, _, port = authority.partition(":")
    return host, port


def _is_public(host: str) -> bool:
    if host.startswith("["):
        return ":" in host and _is_public_address(host[1:-1])
    name = unicodedata.normalize("NFKC", host).translate(_DOTS).casefold()
    name = name.removesuffix(".")
    labels = name.split(".")
    if len(name) > HOST_CHARACTERS_MAX or not all(map(_is_label, labels)):
        return False
    if f".{name}".endswith(_PRIVATE_NAMES):
        return False
    if _NUMBER.fullmatch(labels[-1]):  # then it is an address or invalid
        addresses = list(_ipv4_readings(labels))
        return bool(addresses) and all(_is_public_address(str(one)) for one in addresses)
    return True


def _is_public_address(text: str) -> bool:
    return scope_of(text) == "global"


def _is_label(label: str) -> bool:
    if not 0 < len(label) <= LABEL_CHARACTERS_MAX:
        return False
    if not label.isascii():
        # Letters, digits and marks of other scripts.
        return all(c in "-_" or unicodedata.category(c)[0] in "LMN" for c in label)
    if not _ASCII_LABEL.fullmatch(label):
        return False
    return not label.startswith("xn--") or _is_punycode(label.removeprefix("xn--"))


def _is_punycode(encoded: str) -> bool:
    """Whether a label is valid, normalised Punycode of a label that needs it."""
    try:
        label = encoded.encode("ascii").decode("punycode")
    except (UnicodeError, OverflowError, ValueError):
        return False
    return not label.isascii() and unicodedata.normalize("NFKC", label).casefold() == label


def _ipv4_readings(labels: list[str]) -> Iterator[IPv4Address]:
    """Yield every address that one to four numbers may mean.

    A number is decimal, hexadecimal after 0x, octal after 0, which other parsers read as decimal;
    the last one fills the remaining bytes.
    """
    if len(labels) > 4 or not all(map(_NUMBER.fullmatch, labels)):
        return
    for numbers in product(*map(_number_readings, labels)):
        *firsts, last = numbers
        if all(one < 256 for one in firsts) and last < 256 ** (5 - len(numbers)):
            value = last
            for position, one in enumerate(firsts):
                value += one << (8 * (3 - position))
            yield IPv4Address(value)


def _number_readings(label: str) -> set[int]:
    if label.startswith("0x"):
        return {int(label[2:] or "0", 16)}
    readings = {int(label)}
    if label.startswith("0") and not set(label) & {"8", "9"}:
        readings.add(int(label, 8))
    return readings


Body = TypeVar("Body", bound=Struct)

# Texts that the contract defines only as strings: a ratio, a language.
WORD_CHARACTERS_MAX = 64
# Ids of avatars, voices, templates.
REFERENCE_CHARACTERS_MAX = 256
# Titles, tags, descriptions without a length in the contract.
LINE_CHARACTERS_MAX = 1000
DURATION_SECONDS_MAX = 3600

Model = Annotated[str, Meta(min_length=1, max_length=MODEL_CHARACTERS_MAX)]
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

MODEL_WORDS = f"a string of 1 to {MODEL_CHARACTERS_MAX} characters"
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
        self._names = lookalikes_of(body.__struct_fields__)

    def __repr__(self) -> str:
        return f"<FieldTable {self._decoder.type.__name__}>"

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
    return check_model(_NAMED.read(body).model)


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


# A media request in the call log: its settings, without its content.
#
# Of texts, links and files only lengths and numbers; see `channels/dialects/validation.py`.

# Fields that are settings, by their names for clients.
_SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        **{name: name for name in ("resolution", "ratio", "watermark", "video_mode")},
        **{name: name for name in ("avatar", "voice", "face_count", "style_id", "language")},
        **{name: name for name in ("material_composition", "preprocess", "instrumental")},
        **{name: name for name in ("response_format", "speed", "source_kind")},
        "asked_duration": "duration",
        "is_async": "async",
    }
)
# Fields written by a person, logged by their length.
_TEXTS = ("prompt", "lyrics", "input", "text")


def parameters_of(request: Submission) -> dict[str, str]:
    """Return the parameters of a validated request, as text."""
    parameters: dict[str, str] = {}
    for field, name in _SETTINGS.items():
        value = getattr(request, field, None)
        if isinstance(value, bool):
            parameters[name] = "true" if value else "false"
        elif value is not None:
            parameters[name] = setting(value) if isinstance(value, str) else str(value)
    lengths = {f"{name}_characters": len(getattr(request, name, None) or "") for name in _TEXTS}
    return parameters | counts(**lengths) | counts(**_pieces(request))


def _pieces(request: Submission) -> dict[str, int]:
    """Return the numbers of files in a request."""
    if isinstance(request, GeneralVideo | MotionVideo):
        found = Counter(item.type for item in request.content)
        return {
            "texts": found["text"],
            "images": found["image_url"],
            "videos": found["video_url"],
            "audios": found["audio_url"],
        }
    return {"materials": len(request.materials)} if isinstance(request, ClipVideo) else {}


# The query of a list of tasks: number, states, position (spec: Limits).

LIMIT_DEFAULT = 30
LIMIT_MAX = 100
ALL = "all"
STATUS_CHARACTERS_MAX = 400

_TASK_STATES = ("queued", "running", "succeeded", "failed", "expired", "cancelled")


@dataclass(frozen=True, slots=True)
class ListKind:
    """One kind of list: the prefix of its ids, and its names of states."""

    prefix: str
    states: tuple[str, ...]


VIDEOS = ListKind("vid_", _TASK_STATES)
MUSIC = ListKind("mus_", ("processing", "succeeded", "failed", "expired", "cancelled"))
SPEECH = ListKind("tts_", ("pending", "succeeded", "failed"))

_WHOLE = re.compile(r"[0-9]{1,1000}", re.ASCII)
_ID = re.compile(r"[0-9a-f]{32}", re.ASCII)


@dataclass(frozen=True, slots=True)
class TaskListQuery:
    """A query of tasks, newest first. No `states`: all of them."""

    limit: int
    states: frozenset[str]
    before: str | None


def read_list(query: Mapping[str, str], kind: ListKind) -> TaskListQuery:
    """Validate a query; an empty parameter counts as absent. Raises InvalidRequest."""
    return TaskListQuery(
        limit=_limit(query.get("limit", "")),
        states=_states(query.get("status", ""), kind),
        before=_before(query.get("before", ""), kind),
    )


def _limit(text: str) -> int:
    if not text:
        return LIMIT_DEFAULT
    if not _WHOLE.fullmatch(text) or not text.strip("0"):
        raise InvalidRequest(
            f"limit: expected an integer of at least 1, found {described(text)}.", "limit"
        )
    digits = text.lstrip("0")
    return min(int(digits), LIMIT_MAX) if len(digits) < 4 else LIMIT_MAX


def _states(text: str, kind: ListKind) -> frozenset[str]:
    words = {word.strip() for word in text[: STATUS_CHARACTERS_MAX + 1].split(",")} - {""}
    for word in sorted(words):
        if word != ALL and word not in kind.states:
            allowed = ", ".join((*kind.states, ALL))
            raise InvalidRequest(
                f"status: expected words of {allowed}, found {described(word)}.", "status"
            )
    return frozenset() if ALL in words else frozenset(words)


def _before(text: str, kind: ListKind) -> str | None:
    if not text:
        return None
    if not text.startswith(kind.prefix) or not _ID.fullmatch(text.removeprefix(kind.prefix)):
        raise InvalidRequest(
            f"before: expected the id of a task of this list, found {described(text)}.", "before"
        )
    return text
