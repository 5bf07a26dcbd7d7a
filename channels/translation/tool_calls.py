"""Tool calls and losses in translations: reports, error names, arguments, open calls, identifiers.

Arguments arrive in pieces; each piece is scanned once, however small the pieces are.
"""

from __future__ import annotations

import hashlib
import re
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from channels.conversation import naming_members
from channels.dialects.error_body import code_in, message_in
from channels.errors import InvalidRequest
from channels.translation.call_arguments import (
    NO_ARGUMENTS_CHARACTERS_MAX,
    may_say_no_arguments,
    object_in,
)
from channels.translation.model import (
    CallBegan,
    ClientProtocol,
    Event,
    Media,
    Part,
    Request,
    Response,
    StreamFailed,
    Thinking,
    ToolCall,
)

# Losses of a translation: field names, in the client's own spelling.
#
# The gateway sends them in `X-Protocol-Warning`, or refuses the call if the client requested
# strictness (spec: Translation paths). Each encoder knows which fields its target lacks; the
# client's spelling is below.

# A client's unknown members are named in a response header, which no name may break or fill.
_UNFIT = re.compile(r"[^A-Za-z0-9_.\[\]$@-]")
NAME_CHARACTERS_MAX = 80
NAMES_MAX = 40


class LossReport:
    """Fields dropped or changed by one translation, each once, in the order of detection."""

    __slots__ = ("_fields", "_more")

    def __init__(self) -> None:
        self._fields: dict[str, None] = {}  # a set that keeps its order
        self._more = 0  # further fields, only counted

    def __repr__(self) -> str:
        return f"<LossReport {self.warning() or 'nothing dropped'}>"

    @property
    def dropped(self) -> list[str]:
        """The fields; of a shortened report, the first ones."""
        return list(self._fields)

    def shortened(self) -> LossReport:
        """Return a report with at most as many names as a warning has."""
        short = LossReport()
        short._fields = dict.fromkeys(self.dropped[:NAMES_MAX])
        short._more = self._more + len(self._fields) - len(short._fields)
        return short

    def drop(self, field: str) -> None:
        """Add a field in the client's spelling, e.g. `response_format` or `tools.web_search`."""
        self._fields[_UNFIT.sub("_", field[:NAME_CHARACTERS_MAX])] = None

    def warning(self) -> str | None:
        """Return the value of `X-Protocol-Warning`; None if nothing was dropped.

        Printable ASCII. Names beyond 40 are only counted.
        """
        if not self._fields:
            return None
        names = self.dropped[:NAMES_MAX]
        more = self._more + len(self._fields) - len(names)
        return "; ".join([*names, f"{more} more"] if more else names)


# The client's spelling of canonical fields, for reporting losses.
#
# Each client protocol has its own names (its `ORIGIN`). Members outside the model are named as
# received.


def spelled_media(origin: ClientProtocol, media: Media) -> str:
    """Return the client's name of a medium, which may differ for one given by URL."""
    if media.url is not None and (name := origin.names.get("media.url")) is not None:
        return name
    return spelled(origin, media.kind)


def spelled(origin: ClientProtocol, field: str) -> str:
    """Return the client's name of a canonical field; by default the field's own."""
    return origin.names.get(field, field)


# Members of a request that only the client's own protocol has: reported, never silently lost.
#
# Decoders keep them in `extras`, in the client's spelling; an encoder of another protocol carries
# those that it can and reports the rest here. A member whose value is the default behaviour (`n` of
# 1, `store` false) loses nothing, and is not reported.


def report_members(request: Request, report: LossReport, *, carried: Collection[str] = ()) -> None:
    """Report the members in `request.extras` that neither `carried` has nor the gateway obeys."""
    extras = request.extras
    if extras:
        carried = {*carried, *naming_members(extras)}
    report_extras(request.origin, "", extras, report, carried=carried)


def report_extras(
    origin: ClientProtocol,
    prefix: str,
    extras: Mapping[str, Any],
    report: LossReport,
    *,
    carried: Collection[str] = (),
) -> None:
    """Report the extras of a part, a tool or the request; `prefix` precedes each name.

    `prefix` is "" or ends in a dot: `messages.` with `cache_control` is `messages.cache_control`.
    """
    if not extras:
        return
    neutral = origin.neutral
    for name, value in extras.items():
        field = prefix + name
        if value is None or name in carried:
            continue
        if field in neutral and neutral[field] == value:
            continue
        report.drop(field)


def report_media(origin: ClientProtocol, media: Media, report: LossReport) -> None:
    """Report a medium that cannot be expressed.

    Raises InvalidRequest for one that the client sent in the place of another kind: it would not
    find its own part in the report.
    """
    if media.member is not None:
        path = f"{origin.parts}{media.member}"
        raise InvalidRequest(
            f"{path}: the channel of this model speaks another protocol, which has no place for "
            f"{media.mime_type}.",
            path,
        )
    report.drop(spelled_media(origin, media))


def report_part(origin: ClientProtocol, part: Part, report: LossReport) -> None:
    """Report a part that cannot be expressed, or not in this position, if it can be lost."""
    if isinstance(part, Media):
        report_media(origin, part, report)
    elif isinstance(part, Thinking):
        report.drop(spelled(origin, "thinking"))


# The names of an error in each protocol, for an error that an upstream reports within its stream.
#
# The keys are codes that an upstream may use in any dialect; the names are the specification's
# (spec: Errors). HTTP errors have a status and are handled by `gw/errors.py`. An upstream without
# funds is the operator's problem: the client gets an upstream error, not its own balance.


@dataclass(frozen=True, slots=True)
class ErrorNames:
    """One kind of error: chat's code and type, messages' type, gemini's status and number."""

    chat_code: str
    chat_type: str
    messages_type: str
    gemini_status: str
    http_status: int


_BAD = "invalid_request_error"

INVALID = ErrorNames("invalid_request", _BAD, _BAD, "INVALID_ARGUMENT", 400)
UNAUTHENTICATED = ErrorNames(
    "invalid_api_key", "authentication_error", "authentication_error", "UNAUTHENTICATED", 401
)
FORBIDDEN = ErrorNames(
    "permission_denied", "permission_error", "permission_error", "PERMISSION_DENIED", 403
)
NOT_FOUND = ErrorNames("not_found", _BAD, "not_found_error", "NOT_FOUND", 404)
TOO_LARGE = ErrorNames("request_too_large", _BAD, "request_too_large", "INVALID_ARGUMENT", 413)
RATE_LIMITED = ErrorNames(
    "rate_limit_exceeded", "rate_limit_error", "rate_limit_error", "RESOURCE_EXHAUSTED", 429
)
TIMED_OUT = ErrorNames("upstream_timeout", "api_error", "api_error", "DEADLINE_EXCEEDED", 504)
OVERLOADED = ErrorNames("upstream_error", "api_error", "overloaded_error", "UNAVAILABLE", 503)
OTHER = ErrorNames("upstream_error", "api_error", "api_error", "INTERNAL", 500)

_WORDS: dict[str, ErrorNames] = {
    "400": INVALID,
    "422": INVALID,
    "invalid_request": INVALID,
    "invalid_request_error": INVALID,
    "invalid_argument": INVALID,
    "failed_precondition": INVALID,
    "out_of_range": INVALID,
    "context_length_exceeded": INVALID,
    "401": UNAUTHENTICATED,
    "invalid_api_key": UNAUTHENTICATED,
    "authentication_error": UNAUTHENTICATED,
    "unauthenticated": UNAUTHENTICATED,
    "403": FORBIDDEN,
    "permission_denied": FORBIDDEN,
    "permission_error": FORBIDDEN,
    "404": NOT_FOUND,
    "not_found": NOT_FOUND,
    "not_found_error": NOT_FOUND,
    "model_not_found": NOT_FOUND,
    "413": TOO_LARGE,
    "request_too_large": TOO_LARGE,
    "429": RATE_LIMITED,
    "rate_limit_error": RATE_LIMITED,
    "rate_limit_exceeded": RATE_LIMITED,
    "resource_exhausted": RATE_LIMITED,
    "408": TIMED_OUT,
    "504": TIMED_OUT,
    "timeout_error": TIMED_OUT,
    "deadline_exceeded": TIMED_OUT,
    "503": OVERLOADED,
    "529": OVERLOADED,
    "overloaded_error": OVERLOADED,
    "server_overloaded": OVERLOADED,
    "unavailable": OVERLOADED,
}


def failure_named(code: str | None) -> ErrorNames:
    """Return the names for an upstream's code or number; `OTHER` for an unknown one."""
    return OTHER if code is None else _WORDS.get(code.lower(), OTHER)


# For an upstream that reports a failure without a reason.
UNNAMED = StreamFailed(None, "The upstream reported an error.")


def failure_in(error: Any, names: Iterable[str] = ("code", "type")) -> StreamFailed | None:
    """Return the failure in an upstream's `error` member; None if it states none.

    `names` are the members that may have its code, the most trusted first.
    """
    if not error:
        return None
    return StreamFailed(code_in(error, names), message_in(error) or UNNAMED.message)


# Characters that open or close an object or a text; others are skipped.
_MARK = re.compile(r'["{}\[\]]|\\.?', re.S)
_TEXT_MARK = re.compile(r'"|\\.?', re.S)


class Arguments:
    """The arguments of one call, in pieces."""

    __slots__ = ("_depth", "_is_done", "_is_in_text", "_pieces", "_seen", "_tail")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._seen = 0  # pieces already scanned
        self._depth = 0  # open brackets
        self._is_in_text = False
        self._tail = ""  # a backslash at the end of a piece
        self._is_done: bool | None = None  # whether the closed value is an object

    def __repr__(self) -> str:
        return f"<Arguments in {len(self._pieces)} pieces>"

    def add(self, piece: str) -> None:
        """Add a piece."""
        self._pieces.append(piece)

    def text(self) -> str:
        """Return all pieces."""
        return "".join(self._pieces)

    def is_whole(self) -> bool:
        """Whether they are one complete object, which nothing can follow."""
        while self._seen < len(self._pieces):
            piece = self._pieces[self._seen]
            self._seen += 1
            if self._is_done is not None:
                self._is_done = self._is_done and not piece.strip()
            elif self._look_at(self._tail + piece):
                self._is_done = object_in(self.text()) is not None
                self._seen = len(self._pieces)
        return self._is_done is True

    def _look_at(self, text: str) -> bool:
        """Count the brackets; return whether the last one was closed."""
        self._tail = ""
        position = 0
        while True:
            found = (_TEXT_MARK if self._is_in_text else _MARK).search(text, position)
            if found is None:
                return False
            position = found.end()
            mark = found[0]
            if mark == '"':
                self._is_in_text = not self._is_in_text
            elif mark == "\\":
                self._tail = mark  # the escaped character is in the next piece
            elif mark in "{[":
                self._depth += 1
            elif mark in "}]":
                self._depth -= 1
                if self._depth <= 0:
                    return True


class WaitingArguments:
    """Arguments of a call kept before its name, or because they may mean no arguments."""

    __slots__ = ("_pieces", "_size")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._size = 0

    def __repr__(self) -> str:
        return f"<WaitingArguments {self._size} characters>"

    def __bool__(self) -> bool:
        return self._size > 0

    def add(self, piece: str) -> None:
        """Add a piece."""
        self._pieces.append(piece)
        self._size += len(piece)

    def text(self) -> str:
        """Return all that is kept."""
        return "".join(self._pieces)

    def take(self) -> str | None:
        """Take all that is kept; None while it may still mean no arguments."""
        if self._size <= NO_ARGUMENTS_CHARACTERS_MAX and may_say_no_arguments(self.text()):
            return None
        text = self.text()
        self._pieces.clear()
        self._size = 0
        return text


# The calls of a request without a result, for results that do not name theirs by id.
#
# Every operation takes constant time, however many calls are open.


@dataclass(slots=True)
class _Call:
    id: str
    is_open: bool = True


class OpenCalls:
    """Calls in their order. Ids and names may repeat."""

    __slots__ = ("_by_id", "_by_name", "_by_name_and_id", "_in_order")

    def __init__(self) -> None:
        self._in_order: deque[_Call] = deque()
        self._by_name: dict[str, deque[_Call]] = {}
        self._by_id: dict[str, list[_Call]] = {}
        self._by_name_and_id: dict[tuple[str, str], deque[_Call]] = {}

    def __repr__(self) -> str:
        return f"<OpenCalls {sum(call.is_open for call in self._in_order)}>"

    def add(self, name: str, call_id: str) -> None:
        """Add a call."""
        call = _Call(call_id)
        self._in_order.append(call)
        self._by_name.setdefault(name, deque()).append(call)
        self._by_id.setdefault(call_id, []).append(call)
        self._by_name_and_id.setdefault((name, call_id), deque()).append(call)

    def oldest(self, name: str | None = None) -> str | None:
        """Return the id of the first call without a result, of this name if given."""
        call = _first_open(self._in_order if name is None else self._by_name.get(name))
        return None if call is None else call.id

    def resolve(self, call_id: str) -> None:
        """Close all calls of this id."""
        for call in self._by_id.pop(call_id, ()):
            call.is_open = False

    def resolve_named(self, name: str, call_id: str) -> None:
        """Close the first open call of this name and id, if there is one."""
        call = _first_open(self._by_name_and_id.get((name, call_id)))
        if call is not None:
            call.is_open = False


def _first_open(calls: deque[_Call] | None) -> _Call | None:
    """Return the first open call; drop those before it."""
    while calls:
        if calls[0].is_open:
            return calls[0]
        calls.popleft()
    return None


# Tool names and call ids that a target accepts, derived from invalid ones.
#
# Clients of one protocol use names that another one forbids (too long, with dots or colons). The
# derived name is always the same for the same name, so a call and its result still match; names are
# restored in the response. Pure: no counters, no randomness.

# The limit of an end user's id. Some providers refuse more than 128 characters, others more than
# 64.
USER_CHARACTERS_MAX = 64

# The member of one provider's protocols that is an end user's id besides `user`.
USER_EXTRA = "safety_identifier"
_FORBIDDEN = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True)
class IdentifierLimits:
    """Maximum lengths of names and ids; letters, digits, `_` and `-` are allowed everywhere."""

    name_characters_max: int
    id_characters_max: int

    def name(self, name: str) -> str:
        """Return a tool's name in the form that the target accepts."""
        return _fitted(name, self.name_characters_max)

    def call_id(self, call_id: str) -> str:
        """Return a call's id in the form that the target accepts."""
        return _fitted(call_id, self.id_characters_max)

    def names_back(self, request: Request) -> Mapping[str, str]:
        """Map the changed tool names of a request back to the client's own."""
        own = {tool.name: tool.own_name or tool.name for tool in request.tools}
        names = list(own)
        names += [
            part.name for turn in request.turns for part in turn.parts if isinstance(part, ToolCall)
        ]
        found = {self.name(name): own.get(name, name) for name in names}
        return {fitted: name for fitted, name in found.items() if fitted != name}


def user_fitted(request: Request, report: LossReport) -> Request:
    """Return the request with an end user's id that every target accepts (contract §7: `user`).

    An id of more than 64 characters becomes its SHA-256 in hexadecimal, which has 64: it is stable
    for one user, and `report` names the member. `safety_identifier` is such an id as well.
    """
    if request.user is not None and len(request.user) > USER_CHARACTERS_MAX:
        report.drop(spelled(request.origin, "user"))
        request = replace(request, user=_digest(request.user, USER_CHARACTERS_MAX))
    identifier = request.extras.get(USER_EXTRA)
    if isinstance(identifier, str) and len(identifier) > USER_CHARACTERS_MAX:
        report.drop(USER_EXTRA)
        fitted = _digest(identifier, USER_CHARACTERS_MAX)
        request = replace(request, extras={**request.extras, USER_EXTRA: fitted})
    return request


# The member that names a conversation to a provider's cache of prompts.
CACHE_KEY = "prompt_cache_key"
# Longer ones are refused.
CACHE_KEY_CHARACTERS_MAX = 64


def cache_key_of(request: Request, report: LossReport, beside: str | None) -> str | None:
    """Return the key for the upstream's cache: the client's, else its name `beside` the body.

    `beside` is None for an upstream that takes none, which is reported if the client states a key,
    and empty if the headers name no conversation. A longer key becomes its SHA-256, which is the
    same for the same conversation.
    """
    stated = request.extras.get(CACHE_KEY)
    key = stated if isinstance(stated, str) and stated else None
    if key is not None and (beside is None or len(key) > CACHE_KEY_CHARACTERS_MAX):
        report.drop(CACHE_KEY)
    if beside is None:
        return None
    key = key or beside
    if len(key) > CACHE_KEY_CHARACTERS_MAX:
        key = _digest(key, CACHE_KEY_CHARACTERS_MAX)
    return key or None


def event_renamed(event: Event, names: Mapping[str, str]) -> Event:
    """Return an event with the client's own tool names, by the map of `names_back`."""
    if isinstance(event, CallBegan) and event.name in names:
        return replace(event, name=names[event.name])
    return event


def response_renamed(response: Response, names: Mapping[str, str]) -> Response:
    """Return a whole response with the client's own tool names."""
    parts = tuple(
        replace(part, name=names[part.name])
        if isinstance(part, ToolCall) and part.name in names
        else part
        for part in response.parts
    )
    return replace(response, parts=parts)


def made_id(*seeds: str) -> str:
    """Derive an id for a call without one; deterministic."""
    return "call_" + _digest("\0".join(seeds), 24)


def _fitted(text: str, limit: int) -> str:
    if text and len(text) <= limit and _FORBIDDEN.search(text) is None:
        return text
    # The hash keeps names distinct that truncation and replacement would make equal.
    digest = _digest(text, 8)
    return f"{_FORBIDDEN.sub('_', text)[: limit - len(digest) - 1]}_{digest}"


def _digest(text: str, size: int) -> str:
    data = text.encode("utf-8", "surrogatepass")
    return hashlib.sha256(data).hexdigest()[:size]
