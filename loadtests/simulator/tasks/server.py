"""From a request about tasks or their files to the script of its answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final

import msgspec

from loadtests.simulator import directives, script
from loadtests.simulator.ask import Refusal
from loadtests.simulator.dialects.base import JSON, bearer, encode
from loadtests.simulator.directives import Directive, Fault, FaultBook, Layer, fault_of
from loadtests.simulator.exchange import Exchange, Stats
from loadtests.simulator.files import PREFIX, Files, Reply
from loadtests.simulator.script import Script, phrase
from loadtests.simulator.tasks import films, shanjian, sounds
from loadtests.simulator.tasks.call import SUBMIT, Call, Json, Route, Wire
from loadtests.simulator.tasks.plain import wires
from loadtests.simulator.tasks.task import TaskBook

DEPTH_MAX: Final = 4  # how deep a directive may stand in a body
REFUSED_STATUS: Final = 400  # of a directive `code` that states none
WIRES: Final[tuple[Wire, ...]] = (
    *wires.WIRES,
    films.ARK,
    films.OPENAI,
    sounds.SUNO,
    sounds.MINIMAX,
    shanjian.SHANJIAN,
)


@lru_cache(maxsize=1024)
def routes_of(path: str) -> list[tuple[Route, tuple[str, ...]]]:
    """The endpoints of a path with what stands in its open places, exact paths first."""
    routes = [route for wire in WIRES for route in wire.routes]
    found = [(one, match.groups()) for one in routes if (match := one.pattern.fullmatch(path))]
    return sorted(found, key=lambda pair: len(pair[1]))


class TaskServer:
    """Every wire of tasks, on one memory of them."""

    def __init__(
        self, seed: int, stats: Stats, *, clock: Callable[[], float], task_seconds: float
    ) -> None:
        self.book = TaskBook(seed)
        self.files = Files(seed)
        self.clock = clock
        self._stats = stats
        self._task_seconds = task_seconds

    def begin(self, exchange: Exchange, faults: FaultBook) -> Script | None:
        """The script of an answer; None for a path that is none of ours."""
        path = exchange.path
        if path.startswith(PREFIX):
            return self._file(exchange, faults)
        found = routes_of(path)
        if not found:
            return None
        for route, opened in found:
            if route.method == exchange.method:
                exchange.protocol = route.protocol
                if route.query:
                    opened = (exchange.parameters().get(route.query, ""),)
                return self._respond(exchange, route, opened, faults)
        wire = found[0][0].wire
        exchange.protocol = wire.name
        return _refused(wire, Refusal(405, f"Method {exchange.method} is not allowed here."))

    def _respond(
        self, exchange: Exchange, route: Route, opened: tuple[str, ...], faults: FaultBook
    ) -> Script:
        try:
            exchange.api_key = bearer(exchange)
            body, own = _read(exchange)
            task_parts = self._task_parts(opened, exchange.api_key, route)
            directive, parts = _directive(exchange, route, faults, own, task_parts)
            return self._carried_out(
                Call(
                    exchange=exchange,
                    wire=route.wire,
                    path=opened,
                    body=body,
                    directive=directive,
                    book=self.book,
                    files=self.files,
                    now=self.clock(),
                    usual_seconds=self._task_seconds,
                    parts=parts,
                ),
                route,
            )
        except Refusal as refusal:
            return _refused(route.wire, refusal)

    def _task_parts(self, opened: tuple[str, ...], api_key: str, route: Route) -> dict[str, Fault]:
        """What the submit of the task in question wants of its later requests; counts a poll."""
        task = self.book.find(opened[0], api_key) if opened else None
        if task is None:
            return {}
        if route.part == "poll":
            self._stats.count(polls=1)
        return task.parts

    def _carried_out(self, call: Call, route: Route) -> Script:
        directive, wire = call.directive, route.wire
        if directive.code is not None or (directive.status or 200) >= 300:
            return _stated(wire, directive)
        if route.part == SUBMIT:
            return _delivered(wire, directive, self._replay_or_serve(call, route))
        return _delivered(wire, directive, route.respond(call))

    def _replay_or_serve(self, call: Call, route: Route) -> Reply:
        """A submit; with the `Idempotency-Key` of an earlier one that one's answer."""
        exchange = call.exchange
        key = (call.api_key, exchange.header(b"idempotency-key").decode("latin-1"))
        is_keyed = call.wire.honours_keys and bool(key[1])
        if is_keyed and key in self.book.replays:
            kept: Reply
            request, kept = self.book.replays[key]
            if request != _digest(exchange):
                raise Refusal(409, "The Idempotency-Key was used with another body.")
            return replace(kept, lines=b"Idempotency-Replayed: true\r\n")
        tasks = len(self.book)
        reply = route.respond(call)
        if len(self.book) > tasks:
            self._stats.count(tasks=1)
        if is_keyed:
            self.book.replays[key] = (_digest(exchange), reply)
        return reply

    def _file(self, exchange: Exchange, faults: FaultBook) -> Script:
        exchange.protocol = "file"
        task = self.book.find(exchange.path.rpartition("/")[2].rpartition(".")[0])
        own = {} if task is None else task.parts
        directive = directives.merge(faults.take_part("", "file", own))
        if instead := script.instead_script(_file_error, directive):
            return instead
        try:
            if exchange.method != "GET":
                raise Refusal(405, f"MethodNotAllowed: {exchange.method}")
            reply = self.files.open(exchange, self.clock())
        except Refusal as refusal:
            body = _file_error(refusal.status, refusal.message)
            return script.body_script(refusal.status, directive, body, b"application/xml")
        return _delivered(films.ARK, directive, reply)


def _digest(exchange: Exchange) -> bytes:
    return blake2b(exchange.target + b"\0" + exchange.body, digest_size=16).digest()


def _read(exchange: Exchange) -> tuple[Json, list[Layer]]:
    """The body as an object, without its directives; raises Refusal 400."""
    if exchange.method != "POST":
        return {}, []
    try:
        body = msgspec.json.decode(exchange.body or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refusal(400, f"The body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise Refusal(400, "The body is not an object.")
    layers: list[Layer] = []
    if directives.TEXT_MARK.encode() in exchange.body:
        body = _without_directives(body, layers, 0)
    if body.get("sim") is not None:
        layers.append(directives.from_value(body["sim"]))
    return body, layers


def _without_directives(value: Any, layers: list[Layer], depth: int) -> Any:
    """The value without the directives in its texts, which are added to `layers`."""
    if isinstance(value, str):
        layer, text = directives.from_text(value)
        if layer is not None:
            layers.append(layer)
        return text
    if depth < DEPTH_MAX and isinstance(value, dict):
        return {
            name: _without_directives(inner, layers, depth + 1) for name, inner in value.items()
        }
    if depth < DEPTH_MAX and isinstance(value, list):
        return [_without_directives(inner, layers, depth + 1) for inner in value]
    return value


def _directive(
    exchange: Exchange,
    route: Route,
    faults: FaultBook,
    own: list[Layer],
    task_parts: dict[str, Fault],
) -> tuple[Directive, dict[str, Fault]]:
    """What applies to this request, and, for a submit, what will to its task's later ones."""
    if route.part != SUBMIT:
        layers = faults.take_part(exchange.api_key, route.part, task_parts)
        return directives.merge(layers), {}
    layers = [*faults.take(exchange.api_key), *faults.own(own)]
    parts = {name: fault for layer in own for name, fault in fault_of(layer).parts.items()}
    return directives.merge(layers), parts


def _stated(wire: Wire, directive: Directive) -> Script:
    """An error that a directive asks for, in the wire's shape."""
    status = directive.status or REFUSED_STATUS
    message = script.stated_message(directive, status)
    sent, result = wire.error(status, message, directive.code)
    body = encode(result)
    instead = script.instead_script(lambda *_: body, directive)
    return instead or script.body_script(directive.status or sent, directive, body, JSON)


def _delivered(wire: Wire, directive: Directive, reply: Reply) -> Script:
    def error(status: int, message: str) -> bytes:
        return encode(wire.error(status, message, directive.code)[1])

    return script.instead_script(error, directive) or script.reply_script(reply, directive)


def _refused(wire: Wire, refusal: Refusal) -> Script:
    status, result = wire.error(refusal.status, refusal.message, None)
    return script.body_script(status, directives.ORDINARY, encode(result), JSON)


def _file_error(status: int, message: str) -> bytes:
    """In the form of an object storage."""
    code, _, result = message.partition(": ")
    if not result:
        code, result = phrase(status).replace(" ", ""), message
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n'
        f"<Error><Code>{code}</Code><Message>{result}</Message></Error>"
    ).encode()
