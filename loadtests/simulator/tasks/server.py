"""From a request about tasks or their files to the script of its answer."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import msgspec

from loadtests.simulator import directives, script
from loadtests.simulator.ask import Refusal
from loadtests.simulator.dialects.base import JSON, encode
from loadtests.simulator.directives import (
    Directive,
    DirectiveError,
    Fault,
    FaultBook,
    Layer,
    fault_of,
)
from loadtests.simulator.exchange import Exchange, Stats
from loadtests.simulator.script import Script, phrase
from loadtests.simulator.tasks import films, plain, shanjian, sounds
from loadtests.simulator.tasks.call import (
    PREFIX,
    SUBMIT,
    Call,
    Files,
    Json,
    Reply,
    Route,
    Wire,
    WireRefusal,
)
from loadtests.simulator.tasks.task import TaskBook, digest_of, replay_of

DEPTH_MAX: Final = 4  # how deep a directive may stand in a body
REFUSED_STATUS: Final = 400  # of a directive `code` that states none
OPEN: Final = "*"  # a place in a path where anything may stand
WIRES: Final[tuple[Wire, ...]] = (
    *plain.WIRES,
    films.ARK,
    films.OPENAI,
    sounds.SUNO,
    sounds.MINIMAX,
    shanjian.SHANJIAN,
)


@lru_cache(maxsize=1024)
def routes_of(path: str) -> list[tuple[Route, tuple[str, ...]]]:
    """The endpoints of a path with what stands in its open places, exact paths first."""
    segments = path.split("/")
    routes = [route for wire in WIRES for route in wire.routes]
    opened = [(route, _opened(route.path.split("/"), segments)) for route in routes]
    found = [(route, places) for route, places in opened if places is not None]
    return sorted(found, key=lambda pair: len(pair[1]))


def _opened(pattern: list[str], segments: list[str]) -> tuple[str, ...] | None:
    """What stands in a pattern's open places; None where the path is another."""
    if len(pattern) != len(segments):
        return None
    pairs = list(zip(pattern, segments, strict=True))
    if any(want != have and (want != OPEN or not have) for want, have in pairs):
        return None
    return tuple(have for want, have in pairs if want == OPEN)


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
                return self._answer(exchange, route, opened, faults)
        wire = found[0][0].wire
        exchange.protocol = wire.name
        return _refused(wire, Refusal(405, f"Method {exchange.method} is not allowed here."))

    def _answer(
        self, exchange: Exchange, route: Route, opened: tuple[str, ...], faults: FaultBook
    ) -> Script:
        try:
            exchange.api_key = route.wire.authenticate(exchange)
            body, own = _read(exchange)
            task_parts = self._task_parts(opened, exchange.api_key, route)
            try:
                directive, parts = _directive(exchange, route, faults, own, task_parts)
            except DirectiveError as error:
                raise Refusal(400, str(error)) from error
            return self._carried_out(
                Call(
                    exchange=exchange,
                    wire=route.wire,
                    api_key=exchange.api_key,
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
            task.polls += 1
            self._stats.polled()
        return task.parts

    def _carried_out(self, call: Call, route: Route) -> Script:
        directive, wire = call.directive, route.wire
        if directive.code is not None or (directive.status or 200) >= 300:
            return _stated(wire, directive)
        is_submit = route.part == SUBMIT
        if is_submit:
            self._check_limits(call)
            replayed = self._replayed(call)
            if replayed is not None:
                return replayed
        before = len(self.book)
        made = route.handler(call)
        reply = made if isinstance(made, Reply) else Reply(encode(made))
        if is_submit:
            self._keep(call, reply)
            if len(self.book) > before:
                self._stats.submitted()
        return _delivered(wire, directive, reply)

    def _check_limits(self, call: Call) -> None:
        """The limits that directives set; raises Refusal in the wire's own words."""
        minute, tasks = call.directive.minute_max, call.directive.open_tasks_max
        if minute is not None and not self.book.count(call.api_key, call.now, minute):
            raise call.wire.too_many("minute")
        if tasks is not None and self.book.open_tasks(call.api_key, call.now) >= tasks:
            raise call.wire.too_many("tasks")

    def _replayed(self, call: Call) -> Script | None:
        exchange, key = call.exchange, _key_of(call)
        replay = self.book.replay(call.api_key, key) if key else None
        if replay is None:
            return None
        if replay.asked != digest_of(exchange.target, exchange.body):
            raise Refusal(409, "The Idempotency-Key was used with another body.")
        if replay.body is None:
            message = "The answer under this Idempotency-Key was too large to keep."
            raise WireRefusal(409, message, "idempotency_response_not_cached")
        lines = b"Idempotency-Replayed: true\r\n"
        reply = Reply(replay.body, replay.status, replay.content_type, lines)
        return _delivered(call.wire, call.directive, reply)

    def _keep(self, call: Call, reply: Reply) -> None:
        exchange, key = call.exchange, _key_of(call)
        if key and reply.status < 300:
            replay = replay_of(
                exchange.target, exchange.body, reply.status, reply.content_type, reply.body
            )
            self.book.keep(call.api_key, key, replay)

    def _file(self, exchange: Exchange, faults: FaultBook) -> Script:
        exchange.protocol = "file"
        layers = faults.take_part("", exchange.port, "file")
        task = self.book.find(exchange.path.rpartition("/")[2].rpartition(".")[0])
        own = None if task is None else faults.part_of(task.parts, "file")
        directive = directives.merge([*layers, *([] if own is None else [own])])
        instead = script.instead_script(_file_error, directive)
        if instead is not None:
            return instead
        try:
            if exchange.method not in ("GET", "HEAD"):
                raise Refusal(405, f"MethodNotAllowed: {exchange.method}")
            part = self.files.open(exchange, self.clock())
        except Refusal as refusal:
            body = _file_error(refusal.status, refusal.message)
            return script.body_script(refusal.status, directive, body, b"application/xml")
        return script.pieces_script(
            part.status, directive, part.pieces, part.content_type, part.lines
        )


def _key_of(call: Call) -> str:
    """The request's idempotency key; empty where it means nothing to the wire."""
    if not call.wire.honours_keys:
        return ""
    return call.exchange.header(b"idempotency-key").decode("latin-1")


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
    try:
        if directives.TEXT_MARK.encode() in exchange.body:
            body = _without_directives(body, layers, 0)
        if body.get("sim") is not None:
            layers.append(directives.from_value(body["sim"]))
    except DirectiveError as error:
        raise Refusal(400, str(error)) from error
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
        layers = faults.take_part(exchange.api_key, exchange.port, route.part)
        mine = faults.part_of(task_parts, route.part)
        return directives.merge([*layers, *([] if mine is None else [mine])]), {}
    standing = [fault.layer for fault in faults.take(exchange.api_key, exchange.port)]
    parts: dict[str, Fault] = {}
    for layer in own:
        if layer.members.get("times") is not None:
            raise DirectiveError("sim: 'times' belongs to a standing directive, not a request")
        parts |= fault_of(layer).parts
    applied = [layer for layer in own if faults.applies(layer)]
    return directives.merge([*standing, *applied]), parts


def _stated(wire: Wire, directive: Directive) -> Script:
    """An error that a directive asks for, in the wire's shape."""
    status = directive.status or REFUSED_STATUS
    message = script.stated_message(directive, status)
    sent, body = wire.error(status, message, directive.code)
    if directive.status is not None:
        sent = directive.status
    instead = script.instead_script(lambda *_: body, directive)
    return instead or script.body_script(sent, directive, body, JSON)


def _delivered(wire: Wire, directive: Directive, reply: Reply) -> Script:
    def error(status: int, message: str) -> bytes:
        return wire.error(status, message, directive.code)[1]

    instead = script.instead_script(error, directive)
    if instead is not None:
        return instead
    if reply.pieces is not None:
        return script.pieces_script(
            reply.status, directive, reply.pieces, reply.content_type, reply.lines
        )
    status = directive.status or reply.status
    return script.body_script(status, directive, reply.body, reply.content_type, lines=reply.lines)


def _refused(wire: Wire, refusal: Refusal) -> Script:
    code = refusal.code if isinstance(refusal, WireRefusal) else None
    status, body = wire.error(refusal.status, refusal.message, code)
    return script.body_script(status, directives.ORDINARY, body, JSON)


def _file_error(status: int, message: str) -> bytes:
    """In the form of an object storage."""
    code, _, told = message.partition(": ")
    if not told:
        code, told = phrase(status).replace(" ", ""), message
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n'
        f"<Error><Code>{code}</Code><Message>{told}</Message></Error>"
    ).encode()
