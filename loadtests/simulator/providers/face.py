"""A provider as a port plays it: its faces with their keys, checks and errors, its list of models.

A face is the dialect it is closest to, with what `table.py` states of the provider on top.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from loadtests.simulator import directives, script
from loadtests.simulator.answers import Answer
from loadtests.simulator.ask import Ask, Refusal
from loadtests.simulator.dialects.base import JSON, Stream
from loadtests.simulator.directives import Directive, DirectiveError
from loadtests.simulator.exchange import Exchange
from loadtests.simulator.faults import FaultBook
from loadtests.simulator.providers.table import (
    ANYBODY,
    BEARER,
    Face,
    Failure,
    FailureRefusal,
    Provider,
)
from loadtests.simulator.script import Script

WRONG_KEY: Final = "wrong-"


class FaceDialect:
    """One face of a provider as a dialect of the simulator."""

    def __init__(self, provider: Provider, face: Face) -> None:
        self.face = face
        self.name = face.dialect.name
        self.stream_type = face.dialect.stream_type
        self.uses_crlf = face.dialect.uses_crlf
        self._provider = provider
        self._inner = face.dialect

    def __repr__(self) -> str:
        return f"<FaceDialect {self._provider.name} {self.name}>"

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
            is_answer = (directive.status or 200) < 300
            return msgspec.structs.replace(directive, headers=headers) if is_answer else directive
        failure = self.face.failures.get(directive.situation)
        if failure is None:
            known = ", ".join(self.face.failures)
            raise DirectiveError(f"sim: {self!r} has no such situation, but {known}")
        return msgspec.structs.replace(
            directive,
            status=failure.status,
            body=msgspec.Raw(failure.bytes(model=model, param="param", key=key)),
            headers={**failure.headers, **(directive.headers or {})},
        )

    def plain(self, ask: Ask, answer: Answer) -> bytes:
        return self._inner.plain(ask, answer)

    def stream(self, ask: Ask, answer: Answer, *, is_finished: bool) -> Stream:
        return self._inner.stream(ask, answer, is_finished=is_finished)

    def error(self, status: int, message: str) -> bytes:
        return self._inner.error(status, message)

    def error_frames(self, ask: Ask, answer: Answer, index: int, message: str) -> list[bytes]:
        if self.face.stream_failure is None:
            return self._inner.error_frames(ask, answer, index, message)
        text = self.face.stream_failure.replace("{model}", ask.model)
        return [text.encode()]


def plain(provider: Provider, models: Sequence[str]) -> Provider:
    """The provider with other models, and without headers of its own."""
    return msgspec.structs.replace(provider, models=tuple(models), headers={})


class Played:
    """A provider ready to answer."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._faces = [FaceDialect(provider, face) for face in provider.faces]

    def __repr__(self) -> str:
        return f"<Played {self._provider.name}>"

    def dialect(self, path: str) -> FaceDialect | None:
        """The face that a path is of; None for a path that the provider does not have."""
        return next((face for face in self._faces if face.face.is_at(path)), None)

    def listing(self, exchange: Exchange, faults: FaultBook) -> Script | None:
        """The list of models, if this is its path; standing directives may have it fail."""
        listing = self._provider.listing
        if exchange.method != "GET" or exchange.path != listing.path:
            return None
        exchange.protocol = "models"
        face = self._faces[0]
        try:
            exchange.api_key = _key_of(exchange, listing.keys, face.face.failures)
            taken = faults.take(exchange.api_key, exchange.port)
            directive = directives.merge([fault.layer for fault in taken])
            directive = face.situated(directive, "", exchange.api_key)
        except Refusal as refusal:
            return script.refusal_script(face, refusal)
        instead = script.instead_script(face.error, directive)
        if instead is not None:
            return instead
        return script.body_script(200, directive, listing.body(self._provider.models), JSON)


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
        scheme, _, key = exchange.header(b"authorization").decode("latin-1").partition(" ")
        return key.strip() if scheme.lower() == BEARER else ""
    return exchange.header(way.encode()).decode("latin-1").strip()
