"""Tool names and call ids that a target accepts, derived from invalid ones.

Clients of one protocol use names that another one forbids (too long, with dots or colons). The
derived name is always the same for the same name, so a call and its result still match; names are
restored in the response. Pure: no counters, no randomness.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from channels.translation.events import CallBegan, Event
from channels.translation.losses import LossReport, spelled
from channels.translation.model import Request, ToolCall

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
        called = [
            part.name for turn in request.turns for part in turn.parts if isinstance(part, ToolCall)
        ]
        if not (called or request.tools):
            return {}
        own = {tool.name: tool.own_name or tool.name for tool in request.tools}
        names = dict.fromkeys((*own, *called))
        found = {self.name(name): own.get(name, name) for name in names}
        return {fitted: name for fitted, name in found.items() if fitted != name}


class CallIds:
    """Ids of a request's calls and results for a target that takes none twice.

    Some upstreams count their calls in each turn anew. The first of an id keeps it.
    """

    __slots__ = ("_limits", "_open", "_times")

    def __init__(self, limits: IdentifierLimits) -> None:
        self._limits = limits
        self._times: dict[str, int] = {}  # of each id its calls so far
        self._open: dict[str, list[int]] = {}  # those of the latest turn without a result

    def __repr__(self) -> str:
        return f"<CallIds {len(self._times)}>"

    def begin_turn(self) -> None:
        """Begin a turn of calls: its results are not those of earlier ones."""
        self._open.clear()

    def of_call(self, call_id: str) -> str:
        """Return the id of the next call."""
        times = self._times[call_id] = self._times.get(call_id, 0) + 1
        self._open.setdefault(call_id, []).append(times)
        return self._of(call_id, times)

    def of_result(self, call_id: str) -> str:
        """Return the id of the call that the next result is for."""
        calls = self._open.get(call_id)
        times = calls.pop(0) if calls else self._times.get(call_id, 1)
        return self._of(call_id, times)

    def _of(self, call_id: str, times: int) -> str:
        return self._limits.call_id(call_id) if times == 1 else made_id(call_id, str(times))


def user_fitted(request: Request, report: LossReport) -> Request:
    """Return the request with an end user's id that every target accepts (reference 3.3).

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

    `beside` is None for an upstream that takes none, and empty if the headers name no conversation.
    A longer key becomes its SHA-256, which is the same for the same conversation.
    """
    if beside is None:
        return None
    stated = request.extras.get(CACHE_KEY)
    key = stated if isinstance(stated, str) and stated else beside
    if len(key) > CACHE_KEY_CHARACTERS_MAX:
        if key is stated:
            report.drop(CACHE_KEY)
        key = _digest(key, CACHE_KEY_CHARACTERS_MAX)
    return key or None


# Ids with so many characters, the last of them letters and digits, are random: none comes again.
_RANDOM_CHARACTERS_MIN, _RANDOM_AT_END = 20, 12
# The limit of ids that are kept as long as a response.
CALLED_MAX = 10_000


def called_ids(request: Request) -> frozenset[str]:
    """Return the ids of a conversation's calls that its upstream may give to others, too.

    Some count their calls in each turn anew (`f:0`, `call_1`).
    """
    found: set[str] = set()
    for turn in request.turns:
        if turn.role != "assistant":
            continue
        for part in turn.parts:
            if isinstance(part, ToolCall) and not _is_random(part.id):
                found.add(part.id)
        if len(found) >= CALLED_MAX:
            break
    return frozenset(found)


def _is_random(call_id: str) -> bool:
    return len(call_id) >= _RANDOM_CHARACTERS_MIN and call_id[-_RANDOM_AT_END:].isalnum()


class ClientsOwn:
    """Gives the calls of one response the client's own names, and ids that none had before.

    Clients find a call by its id, in whichever turn it was; `called` are the conversation's.
    """

    __slots__ = ("_called", "_names")

    def __init__(self, names: Mapping[str, str], called: Collection[str]) -> None:
        self._names = names
        self._called = set(called)

    def __repr__(self) -> str:
        return f"<ClientsOwn {len(self._names)} names, {len(self._called)} ids>"

    def call(self, call: CallBegan) -> CallBegan:
        """Return the beginning of a call as the client knows it; to be asked once."""
        own_name = self._names.get(call.name, call.name)
        own_id, count = call.id, len(self._called)
        while own_id in self._called:
            own_id = made_id(call.id, str(count))
            count += 1
        self._called.add(own_id)
        if own_id is call.id and own_name is call.name:
            return call
        return replace(call, id=own_id, name=own_name)

    def events(self, events: Iterable[Event]) -> list[Event]:
        """Return the events of a response with its calls as the client knows them."""
        return [self.call(event) if type(event) is CallBegan else event for event in events]


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
