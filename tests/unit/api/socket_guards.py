"""What stops a message of a WebSocket, as a table; `test_socket_guards.py` sends them all."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from gw.app import routes
from gw.http.body import SMALL_BODY_BYTES
from tests.unit.api.fakes import World
from tests.unit.api.guards import GUARDS, knows

RESPONSES = next(row for row in routes() if row.route == "responses")
OF_HEAD = {
    *("no key", "NUL in the query", "compressed body", "size of its chunks"),
    *("malformed `x-gateway-labels`", "repeated `x-gateway-run`"),
}
CLOSES = {"draining", "size of the body", "other kind of body"}
HEADING = """## Messages of a WebSocket

Of `GET /v1/responses`; `tests/unit/api/test_socket_guards.py` sends each on a socket that is open,
and compares its error with that of the same POST. Its head is the hand-shake's. A message that is
not text closes the socket by 1003, one of more bytes than a body may have by 1009, and an idle
socket is closed by 1012 when the process drains.
"""


@dataclass(frozen=True)
class Case:
    """What must stop a message: what has changed since the socket opened, and the body."""

    name: str
    arrange: Callable[[World], Any] = lambda world: None
    body: bytes = b'{"model": "gpt", "input": "Hello"}'
    status: int = 0


def body(**members: Any) -> bytes:
    return json.dumps({"model": "gpt", "input": "Hello", **members}).encode()


LARGE = body(input="x" * (2 * SMALL_BODY_BYTES))


def room_for(owner: str) -> Callable[[World], None]:
    """Somebody has as much as one account may have, which is half of all, or all."""

    def take(world: World) -> None:
        bodies = world.bodies
        assert bodies.take(bodies.each_bytes if owner == "acct_1" else bodies.limit_bytes, owner)

    return take


OF_BODIES = (
    Case("unknown model", body=body(model="nothing"), status=400),
    Case("model that the key may not use", knows(allowed_models=frozenset({"o"})), status=400),
    Case("member of another type", body=body(max_output_tokens="many"), status=400),
    Case(
        "drain since its begin",
        lambda world: vars(world.in_flight).update(is_refusing=True),
        status=503,
    ),
    Case("no model", body=b'{"input": "Hello"}', status=400),
    Case("account's part of the bodies", room_for("acct_1"), LARGE, 503),
    Case("room for bodies", room_for("acct_2"), LARGE, 503),
    Case("database away", lambda world: vars(world.money).update(is_down=True), status=503),
)


def walk() -> Iterator[tuple[Case, bool]]:
    rows = [one for one in GUARDS if one.applies(RESPONSES) and "POST" in one.methods(RESPONSES)]
    assert {one.name for one in rows} >= OF_HEAD | CLOSES
    for guard in rows:
        if guard.name not in OF_HEAD | CLOSES:
            sent = guard.body(RESPONSES) or Case.body
            status = guard.refusal_of(RESPONSES).http_status
            yield Case(guard.name, guard.arrange, sent, status), True
            yield Case(guard.name, guard.arrange, sent, status), False
    for case in OF_BODIES:
        yield case, False


def section() -> str:
    """The part of the matrix that shows messages."""
    lines = ["| Stopped by | Status |", "| --- | --- |"]
    lines += [
        f"| {name} | {status} |" for name, status in {c.name: c.status for c, _ in walk()}.items()
    ]
    return "\n".join([HEADING, *lines, ""])
