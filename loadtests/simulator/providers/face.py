"""A provider's face played on the dialect it is closest to: keys, checks, errors of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from loadtests.simulator.answers import Answer
from loadtests.simulator.ask import Ask, Refusal
from loadtests.simulator.dialects.base import Stream, encode
from loadtests.simulator.directives import Directive, DirectiveError
from loadtests.simulator.exchange import Exchange
from loadtests.simulator.providers.model import (
    ANYBODY,
    BEARER,
    WRONG_KEY,
    Face,
    Failure,
    Provider,
)


class FailureRefusal(Refusal):
    """The provider refuses the request in words of its own."""

    def __init__(
        self, failure: Failure, *, model: str = "", param: str = "", key: str = ""
    ) -> None:
        lines = "".join(f"{name}: {value}\r\n" for name, value in failure.headers.items())
        body = _filled(failure.body, model=model, param=param, key=key)
        super().__init__(failure.status, "", lines=lines.encode("latin-1"), body=body)


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
        return key_of(exchange, self.face.keys, self.face.failures)

    def read(self, exchange: Exchange) -> Ask:
        try:
            ask = self._inner.read(exchange)
        except FailureRefusal:
            raise
        except Refusal as refusal:
            if "bad_parameter" not in self.face.failures:
                raise
            failure = self.face.failures["bad_parameter"]
            raise FailureRefusal(failure, param=refusal.message) from refusal
        if ask.model not in self._provider.models and "unknown_model" in self.face.failures:
            raise FailureRefusal(self.face.failures["unknown_model"], model=ask.model)
        body: Mapping[str, Any] = msgspec.json.decode(exchange.body)
        for check in self.face.checks:
            found = check(body, ask)
            if found is not None:
                raise FailureRefusal(found[0], model=ask.model, param=found[1])
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
            body=msgspec.Raw(_filled(failure.body, model=model, param="param", key=key)),
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


def key_of(exchange: Exchange, keys: tuple[str, ...], failures: Mapping[Any, Failure]) -> str:
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


def _filled(body: Any, *, model: str, param: str, key: str) -> bytes:
    """The bytes of a failure's body."""
    if body is None:
        return b""
    text = body.encode() if isinstance(body, str) else encode(body)
    for mark, value in ((b"{model}", model), (b"{param}", param), (b"{key}", key)):
        inside = value.encode() if isinstance(body, str) else encode(value)[1:-1]
        text = text.replace(mark, inside)
    return bytes(text)
