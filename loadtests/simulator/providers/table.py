"""Providers as data, and as a port plays them.

Each file `*.yaml` of this folder is a row of the table, or a list of rows. `failures` are error
answers by situation, a word of the directive `situation`: `[status, body, headers]`. A body is
JSON, a text is sent as it is. `{model}`, `{param}` and `{key}` in a text are replaced by the
request's model, the parameter at fault and the key that was sent. `failure_headers` stand on all
of them. A messages face derives its failures from these in that protocol's form (`own_failures`:
it does not). `listing` is the list of models: in `entry`, `$model` is replaced by the id, in
`whole`, `$entries` by all of them. `parts` hold anchors. A face is the dialect it is closest to,
with what its row states of the provider on top.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import msgspec
import yaml

from loadtests.simulator import directives, script
from loadtests.simulator.ask import Ask, Refusal
from loadtests.simulator.completions import Completion
from loadtests.simulator.dialects.base import JSON, Dialect, Stream, encode
from loadtests.simulator.dialects.chat import DONE, ChatDialect, ChatTraits, filled
from loadtests.simulator.dialects.gemini import GeminiDialect
from loadtests.simulator.dialects.messages import ERROR_TYPES, MessagesDialect
from loadtests.simulator.dialects.responses import ResponsesDialect
from loadtests.simulator.directives import Directive, DirectiveError, FaultBook
from loadtests.simulator.exchange import Exchange
from loadtests.simulator.script import Script

# How a key is sent: as a bearer token, or in a header of this name; some want none.
BEARER: Final = "bearer"
ANYBODY: Final = "anybody"
REQUEST_ID: Final = "req_011CSHoEeqs5C35K2UUqR7Fy"


class Failure(msgspec.Struct, frozen=True, array_like=True):
    """An error answer."""

    status: int
    body: Any
    headers: dict[str, str] = {}

    def bytes(self, **marks: str) -> bytes:
        """The body with its marks replaced; `model`, `param` and `key` are empty unless given."""
        text = self.body.encode() if isinstance(self.body, str) else encode(self.body)
        for name, value in {"model": "", "param": "", "key": "", **marks}.items():
            inside = value.encode() if isinstance(self.body, str) else encode(value)[1:-1]
            text = text.replace(b"{%b}" % name.encode(), inside)
        return text


class FailureRefusal(Refusal):
    """The provider refuses the request with one of its failures."""

    def __init__(self, failure: Failure, **marks: str) -> None:
        lines = "".join(f"{name}: {value}\r\n" for name, value in failure.headers.items())
        body = failure.bytes(**marks)
        super().__init__(failure.status, "", lines=lines.encode("latin-1"), body=body)


class Check(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a face checks before it answers. The failure's `{param}` is the member at fault.

    The body has none of `refused` (with `models`: only for these) and no other members than
    `known`; no assistant's turn has one of `refused_of_assistants` or another than
    `known_of_assistants` (`{turn}` is its number); the ids of tool calls match `call_ids`.
    """

    failure: Failure
    refused: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    known: frozenset[str] | None = None
    refused_of_assistants: tuple[str, ...] = ()
    known_of_assistants: frozenset[str] | None = None
    call_ids: str | None = None

    def check(self, body: Mapping[str, Any], ask: Ask) -> None:
        """Raise FailureRefusal for the first member at fault."""
        if self.models and ask.model not in self.models:
            return
        for param, turn in self._faults(body):
            raise FailureRefusal(self.failure, model=ask.model, param=param, turn=turn)

    def _faults(self, body: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        yield from ((name, "") for name in self.refused if body.get(name) is not None)
        if self.known is not None:
            yield from ((name, "") for name in body if name not in self.known)
        for number, turn in enumerate(body.get("messages", ())):
            if turn["role"] == "assistant":
                yield from ((name, str(number)) for name in self._faults_of_assistant(turn))
            if self.call_ids is not None:
                ids = [call["id"] for call in turn.get("tool_calls") or ()]
                ids += [turn["tool_call_id"]] if turn["role"] == "tool" else []
                yield from ((one, "") for one in ids if not re.fullmatch(self.call_ids, one))

    def _faults_of_assistant(self, turn: Mapping[str, Any]) -> Iterator[str]:
        yield from (name for name in self.refused_of_assistants if name in turn)
        if self.known_of_assistants is not None:
            yield from (name for name in turn if name not in self.known_of_assistants)


class _StreamFailure(msgspec.Struct, forbid_unknown_fields=True):
    """An event within a stream: `data` is a body, or a situation whose body it has."""

    data: Any
    event: str = ""
    has_done: bool = False


class _DeploymentChat(ChatDialect):
    """The deployment is in the path, and the version of the API in the query."""

    def __init__(self, traits: ChatTraits, no_version: Failure) -> None:
        super().__init__(traits)
        self._no_version = no_version

    def read(self, exchange: Exchange) -> Ask:
        if not exchange.parameters().get("api-version"):
            raise FailureRefusal(self._no_version)
        ask = super().read(exchange)
        return msgspec.structs.replace(ask, model=exchange.path.split("/")[3])


_DIALECTS: Mapping[str, Callable[[], Dialect]] = {
    "messages": MessagesDialect,
    "responses": ResponsesDialect,
    "native": GeminiDialect,
}


def _in_messages(failure: Failure) -> Failure:
    """The same failure in the form of the messages protocol."""
    message = failure.body
    while isinstance(message, Mapping):
        message = message.get("error") or message.get("message") or message.get("detail")
    error = {"type": ERROR_TYPES.get(failure.status, "api_error"), "message": str(message)}
    body = {"type": "error", "error": error, "request_id": REQUEST_ID}
    return Failure(failure.status, body, failure.headers)


class Face(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """One protocol of a provider.

    `path` is a pattern that matches a whole path. `keys` are the ways in which a key is accepted,
    `stream_failure` is a situation that ends a stream, or an event, and then the text of it (None:
    the dialect's own). `counts_cached`: its usage reports how much of the input came from a cache.
    `no_version` makes it a deployment's. `dialect` is its name at first.
    """

    path: str
    dialect: Any
    keys: tuple[str, ...] = (BEARER,)
    failures: dict[str, Failure] = {}
    own_failures: bool = False
    stream_failure: str | _StreamFailure | None = None
    checks: tuple[Check, ...] = ()
    counts_cached: bool = True
    traits: ChatTraits = ChatTraits()
    no_version: Failure | None = None

    def complete(self, failures: Mapping[str, Failure], headers: Mapping[str, str]) -> None:
        """Fill in what it has of its provider."""
        if self.dialect == "messages" and not self.own_failures:
            failures = {name: _in_messages(failure) for name, failure in failures.items()}
        for name, failure in {**failures, **self.failures}.items():
            own = {**headers, **failure.headers}
            self.failures[name] = msgspec.structs.replace(failure, headers=own)
        if self.dialect != "chat":
            self.dialect = _DIALECTS[self.dialect]()
        elif self.no_version is not None:
            self.dialect = _DeploymentChat(self.traits, self.no_version)
        else:
            self.dialect = ChatDialect(self.traits)
        if self.stream_failure is not None:
            self.stream_failure = self._event(self.stream_failure)

    def _event(self, written: str | _StreamFailure) -> str:
        found = _StreamFailure(written) if isinstance(written, str) else written
        body = self.failures[found.data].body if isinstance(found.data, str) else found.data
        name = f"event: {found.event}\n" if found.event else ""
        end = DONE.decode() if found.has_done else ""
        return f"{name}data: {json.dumps(body, ensure_ascii=False)}\n\n{end}"


# Of a list of models, unless a provider has its own.
_ENTRY = {"id": "$model", "object": "model", "created": 1_700_000_000, "owned_by": "provider"}
_WHOLE = {"object": "list", "data": "$entries"}


class Listing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The list of models: its path, its keys and what stands in it."""

    path: str = "/v1/models"
    keys: tuple[str, ...] = (BEARER,)
    entry: dict[str, Any] = {}
    whole: Any = None

    def body(self, models: tuple[str, ...]) -> bytes:
        """The answer for these models."""
        entry, whole = self.entry or _ENTRY, self.whole or _WHOLE
        entries = [filled(entry, {"model": id, "title": id.title()}) for id in models]
        named = [{"name": model, "model": model} for model in models]
        values = {"entries": entries, "names": named, "first": models[0], "last": models[-1]}
        return encode(filled(whole, values))


class Provider(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """One provider. `name` is the `kind` of its channels; `sources` are where its facts are from.

    `models` are those it has, the first one for ordinary tests; `headers` stand on every answer
    that is no error.
    """

    name: str
    sources: dict[str, str]
    models: tuple[str, ...]
    faces: tuple[Face, ...]
    headers: dict[str, str] = {}
    failure_headers: dict[str, str] = {}
    failures: dict[str, Failure]
    listing: Listing = Listing()
    parts: Any = None


def _providers() -> Iterator[Provider]:
    # The safe loader in C, where there is one, is ten times as fast.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    for path in sorted(Path(__file__).parent.glob("*.yaml")):
        with path.open(encoding="utf-8") as text:
            read = yaml.load(text, Loader=loader)
        for row in msgspec.convert(read if isinstance(read, list) else [read], list[Provider]):
            for face in row.faces:
                face.complete(row.failures, row.failure_headers)
            yield row


PROVIDERS: Mapping[str, Provider] = MappingProxyType({row.name: row for row in _providers()})


WRONG_KEY: Final = "wrong-"


class FaceDialect(Dialect):
    """One face of a provider as a dialect of the simulator."""

    def __init__(self, provider: Provider, face: Face) -> None:
        self.face = face
        self.name = face.dialect.name
        self.stream_type = face.dialect.stream_type
        self.uses_crlf = face.dialect.uses_crlf
        self._provider = provider
        self._inner: Dialect = face.dialect

    def authenticate(self, exchange: Exchange) -> str:
        return _key_of(exchange, self.face.keys, self.face.failures)

    def read(self, exchange: Exchange) -> Ask:
        failures = self.face.failures
        try:
            ask = self._inner.read(exchange)
        except FailureRefusal:
            raise
        except Refusal as refusal:
            if "bad_parameter" not in failures:
                raise
            raise FailureRefusal(failures["bad_parameter"], param=refusal.message) from refusal
        if ask.model not in self._provider.models and "unknown_model" in failures:
            raise FailureRefusal(failures["unknown_model"], model=ask.model)
        body: Mapping[str, Any] = msgspec.json.decode(exchange.body)
        for check in self.face.checks:
            check.check(body, ask)
        return ask

    def situated(self, directive: Directive, model: str, key: str) -> Directive:
        """The directive with the situation it names, and the provider's headers. DirectiveError."""
        if directive.situation is None:
            headers = {**self._provider.headers, **(directive.headers or {})}
            is_response = (directive.status or 200) < 300
            return msgspec.structs.replace(directive, headers=headers) if is_response else directive
        failure = self.face.failures.get(directive.situation)
        if failure is None:
            known = ", ".join(self.face.failures)
            raise DirectiveError(f"sim: {self._provider.name} has no such situation, but {known}")
        return msgspec.structs.replace(
            directive,
            status=failure.status,
            body=msgspec.Raw(failure.bytes(model=model, param="param", key=key)),
            headers={**failure.headers, **(directive.headers or {})},
        )

    def plain(self, ask: Ask, response: Completion) -> bytes:
        return self._inner.plain(ask, response)

    def stream(self, ask: Ask, response: Completion) -> Stream:
        return self._inner.stream(ask, response)

    def error(self, status: int, message: str) -> bytes:
        return self._inner.error(status, message)

    def error_frames(self, ask: Ask, response: Completion, index: int, message: str) -> list[bytes]:
        failure = self.face.stream_failure
        if not isinstance(failure, str):
            return self._inner.error_frames(ask, response, index, message)
        return [failure.replace("{model}", ask.model).encode()]


def plain(provider: Provider, models: Sequence[str]) -> Provider:
    """The provider with other models, and without headers of its own."""
    return msgspec.structs.replace(provider, models=tuple(models), headers={})


class Played:
    """A provider ready to answer."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._faces = [FaceDialect(provider, face) for face in provider.faces]

    def dialect(self, path: str) -> FaceDialect | None:
        """The face that a path is of; None for a path that the provider does not have."""
        return next((face for face in self._faces if re.fullmatch(face.face.path, path)), None)

    def listing(self, exchange: Exchange, faults: FaultBook) -> Script | None:
        """The list of models, if this is its path; standing directives may have it fail."""
        listing = self._provider.listing
        if exchange.method != "GET" or exchange.path != listing.path:
            return None
        exchange.protocol = "models"
        face = self._faces[0]
        try:
            exchange.api_key = _key_of(exchange, listing.keys, face.face.failures)
            directive = directives.merge(faults.take(exchange.api_key))
            directive = face.situated(directive, "", exchange.api_key)
        except Refusal as refusal:
            return script.refusal_script(face, refusal)
        whole = listing.body(self._provider.models)
        instead = script.instead_script(face.error, directive)
        return instead or script.body_script(200, directive, whole, JSON)


def _key_of(exchange: Exchange, keys: tuple[str, ...], failures: Mapping[str, Failure]) -> str:
    """The key of a request; raises FailureRefusal without one, and for a wrong one."""
    for way in keys:
        key = _key_in(exchange, way)
        if key.startswith(WRONG_KEY):
            raise FailureRefusal(failures["bad_key"], key=key)
        if key:
            return key
    raise FailureRefusal(failures.get("no_key", failures["bad_key"]))


def _key_in(exchange: Exchange, way: str) -> str:
    if way == ANYBODY:
        return ANYBODY
    if way == BEARER:
        return exchange.bearer
    return exchange.header(way.encode()).decode("latin-1").strip()
