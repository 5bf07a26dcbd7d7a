"""What stops a request before its endpoint does anything, as a table.

Each guard has the request that it must stop, and the refusal; `test_guards.py` sends it to each row
of the gateway's table that the guard is for.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from channels.families import EMBEDDINGS
from channels.family import ErrorShape
from gw.api.checks import (
    LOG_REQUESTS_PER_MINUTE,
    Check,
    FundsCheck,
    KeyCheck,
    KeyKindCheck,
    LimitsCheck,
    LogRateCheck,
    TextCheck,
)
from gw.api.endpoint import Endpoint
from gw.app import routes
from gw.errors import (
    IDEMPOTENCY_KEY_REUSE,
    INVALID_API_KEY,
    INVALID_IDEMPOTENCY_KEY,
    INVALID_REQUEST,
    LOGS_RATE_LIMITED,
    METHOD_NOT_ALLOWED,
    MODEL_NOT_FOUND,
    NO_CHANNEL_AVAILABLE,
    PERMISSION_DENIED,
    QUOTA_EXCEEDED,
    RATE_LIMIT_EXCEEDED,
    REQUEST_TOO_LARGE,
    UPGRADE_REQUIRED,
    ErrorKind,
    GatewayError,
)
from gw.http.tornado.handler import METHODS
from gw.keys.principal import KeyRefused
from tests.support.aio import waited
from tests.unit.api.fakes import KEY, World, make_principal

# More than the row of any endpoint accepts.
BODY_BYTES_MAX = 300_000
FORM = b'--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nm\r\n--b--\r\n'
FORM_TYPE = "multipart/form-data; boundary=b"

HEADING = """## Endpoints

The rows are in `gw/app.py`; `tests/unit/api/test_guards.py` sends the requests. A fault in a
message to `/mcp` is told in the words of JSON-RPC.
"""

Rule = Callable[[Endpoint], bool]


class Refusal(NamedTuple):
    """An error, and its status, which may be the endpoint's own."""

    kind: ErrorKind
    http_status: int


@dataclass(frozen=True, kw_only=True)
class Guard:
    """What stops a request: for which endpoints, by what, and what its client is told.

    `methods` are those of the endpoint that have this guard; `query` and `lines` stand in the
    head. `before_key`: it refuses before anybody knows whose the request is.
    """

    name: str
    check: type[Check] | None = None  # by which it is refused, if it is one
    error: ErrorKind | Callable[[Endpoint], Refusal]
    applies: Rule
    arrange: Callable[[World], Any] = lambda world: None
    methods: Callable[[Endpoint], Sequence[str]] = lambda row: row.methods
    query: str = ""
    key: str | None = KEY
    lines: Callable[[Endpoint], Sequence[str]] = lambda row: ()
    body: Callable[[Endpoint], bytes] = lambda row: b""
    part: str = "x"  # of the path, where it has one
    headers: Callable[[Endpoint], Mapping[str, str]] = lambda row: {}
    is_of_path: bool = False  # its error has the shape of errors of the path
    before_key: bool = False

    def refusal_of(self, row: Endpoint) -> Refusal:
        """The error of a request to this endpoint."""
        if isinstance(self.error, ErrorKind):
            return Refusal(self.error, self.error.http_status)
        return self.error(row)

    def shape_of(self, row: Endpoint) -> ErrorShape:
        """The shape of the refusal."""
        if not self.is_of_path:
            return row.shape
        path = path_of(row)
        if path.startswith("/v1beta"):
            return ErrorShape.GEMINI
        return ErrorShape.MESSAGES if path.startswith("/v1/messages") else ErrorShape.CHAT


def path_of(row: Endpoint, part: str = "x") -> str:
    """A path of the endpoint, with this part where it may have any."""
    path = row.path.replace("(?:/v1)?", "/v1").replace("v1(?:beta)?", "v1beta")
    path = path.replace("(?::|%3[Aa])", ":")
    path = re.sub(r"\((\w+)(?:\|\w+)*\)", r"\1", path)
    return re.sub(r"\((?:\[\^/\]\+|\.\+)\)", lambda _: part, path)


def has_key(row: Endpoint) -> bool:
    return row.auth != "none"


def takes_body(row: Endpoint) -> bool:
    return row.body != "none"


def has_part(row: Endpoint) -> bool:
    return path_of(row) != path_of(row, "y")


def post(row: Endpoint) -> Sequence[str]:
    return ("POST",)


def limit_of(row: Endpoint) -> int:
    return min(row.body_bytes_max or BODY_BYTES_MAX, BODY_BYTES_MAX)


def unserved(row: Endpoint) -> Sequence[str]:
    """The methods that the endpoint does not have."""
    return [method for method in METHODS if method not in row.methods]


def knows(**members: Any) -> Callable[[World], Any]:
    return lambda world: world.keys.known.update({KEY: make_principal(**members)})


async def full(world: World) -> None:
    """Another request of the account is under way, and no more may be."""
    world.keys.known[KEY] = make_principal(concurrency_limit=1)
    await waited(world.limits.enter("acct_1", rpm=None, concurrency=None))


async def requested_too_often(world: World) -> None:
    """The account has made the requests of its minute."""
    world.keys.known[KEY] = make_principal(rpm_limit=1)
    (await waited(world.limits.enter("acct_1", rpm=1, concurrency=None))).leave()


async def read_too_often(world: World) -> None:
    """The key has read its call log as often as it may."""
    for _ in range(LOG_REQUESTS_PER_MINUTE):
        await world.services.logs.rates.take("logs:key_1", LOG_REQUESTS_PER_MINUTE)


def poor(world: World) -> None:
    world.money.available_nano_usd = 0


def all_slots_taken(world: World) -> None:
    world.overload.limit = 0


def begin_ending(world: World) -> None:
    world.in_flight.refuse_new()


def use_key(world: World) -> None:
    """The key was used, with another request."""
    world.kept.reused.add(("acct_1", "k"))


def sized(row: Endpoint) -> Sequence[str]:
    return (f"Content-Length: {limit_of(row) + 1}",)


def unfit_part(row: Endpoint) -> Refusal:
    """The endpoint's own error for an id that nothing can have."""
    handler: Any = row.handler
    error: GatewayError = handler.unknown_path(None)
    return Refusal(error.kind, error.http_status)


def json_type(row: Endpoint) -> Sequence[str]:
    return ("Content-Type: application/json",)


def form_type(row: Endpoint) -> Sequence[str]:
    return (f"Content-Type: {FORM_TYPE}",)


def challenge(row: Endpoint) -> Mapping[str, str]:
    return {"www-authenticate": row.challenge}


def malformed(row: Endpoint) -> Refusal:
    """A body is invalid; those of embeddings read none, because no model is configured."""
    if row.family is not None and row.family.endpoint_types == EMBEDDINGS.endpoint_types:
        return Refusal(MODEL_NOT_FOUND, 404)
    return Refusal(INVALID_REQUEST, 400)


def is_read_here(row: Endpoint) -> bool:
    """Whether a body's faults are told in the endpoint's shape; those of JSON-RPC are its own."""
    return row.route != "mcp"


GUARDS = (
    Guard(
        name="draining",
        error=NO_CHANNEL_AVAILABLE,
        applies=lambda row: True,
        arrange=begin_ending,
        headers=lambda row: {"retry-after": "1", "connection": "close"},
        before_key=True,
    ),
    Guard(
        name="overload",
        error=NO_CHANNEL_AVAILABLE,
        applies=lambda row: row.billed,
        arrange=all_slots_taken,
        methods=post,
        headers=lambda row: {"retry-after": "1"},
        before_key=True,
    ),
    Guard(
        name="method",
        error=METHOD_NOT_ALLOWED,
        applies=lambda row: True,
        methods=unserved,
        headers=lambda row: {"allow": ", ".join(row.methods)},
        is_of_path=True,
        before_key=True,
    ),
    Guard(
        name="hand-shake",
        error=UPGRADE_REQUIRED,
        applies=lambda row: "GET" not in row.methods,
        methods=lambda row: ("GET",),
        lines=lambda row: ("Connection: Upgrade", "Upgrade: websocket"),
        headers=lambda row: {"upgrade": "HTTP/1.1"},
        is_of_path=True,
        before_key=True,
    ),
    Guard(
        name="no key",
        check=KeyCheck,
        error=INVALID_API_KEY,
        applies=has_key,
        key=None,
        headers=challenge,
        before_key=True,
    ),
    Guard(
        name="key in the query",
        check=KeyCheck,
        error=INVALID_API_KEY,
        applies=lambda row: row.auth == "two_headers",
        key=None,
        query=f"?key={KEY}",
        headers=challenge,
        before_key=True,
    ),
    Guard(
        name="revoked key",
        check=KeyCheck,
        error=INVALID_API_KEY,
        applies=has_key,
        arrange=lambda world: world.keys.known.update({KEY: KeyRefused("revoked")}),
        headers=challenge,
        before_key=True,
    ),
    Guard(
        name="log rate",
        check=LogRateCheck,
        error=LOGS_RATE_LIMITED,
        applies=lambda row: row.log_rate,
        arrange=read_too_often,
        headers=lambda row: {"retry-after": "60", "x-ratelimit-limit": "60"},
    ),
    Guard(
        name="agent's key",
        check=KeyKindCheck,
        error=PERMISSION_DENIED,
        applies=lambda row: has_key(row) and not row.agent_keys_allowed,
        arrange=knows(kind="agent", agent_id="agent_1"),
    ),
    Guard(
        name="requests a minute",
        check=LimitsCheck,
        error=RATE_LIMIT_EXCEEDED,
        applies=lambda row: row.limited,
        arrange=requested_too_often,
        headers=lambda row: {"retry-after": "60", "x-ratelimit-limit-requests": "1"},
    ),
    Guard(
        name="concurrency",
        check=LimitsCheck,
        error=RATE_LIMIT_EXCEEDED,
        applies=lambda row: row.limited,
        arrange=full,
        headers=lambda row: {"x-ratelimit-limit-concurrency": "1"},
    ),
    Guard(
        name="funds",
        check=FundsCheck,
        error=QUOTA_EXCEEDED,
        applies=lambda row: row.billed,
        arrange=poor,
        methods=post,
    ),
    Guard(name="NUL in the path", check=TextCheck, error=unfit_part, applies=has_part, part="%00"),
    Guard(
        name="NUL in the query",
        check=TextCheck,
        error=INVALID_REQUEST,
        # A signed link's is judged with its signature.
        applies=lambda row: has_key(row) or not has_part(row),
        query="?a=%00",
    ),
    Guard(
        name="compressed body",
        error=INVALID_REQUEST,
        applies=takes_body,
        methods=post,
        lines=lambda row: ("Content-Encoding: gzip", "Content-Length: 1"),
    ),
    Guard(
        name="size of the body",
        error=REQUEST_TOO_LARGE,
        applies=takes_body,
        methods=post,
        lines=sized,
    ),
    Guard(
        name="size of its chunks",
        error=REQUEST_TOO_LARGE,
        applies=takes_body,
        methods=post,
        lines=lambda row: ("Transfer-Encoding: chunked",),
        body=lambda row: b"%x\r\n%b\r\n" % (limit_of(row) + 1, b" " * (limit_of(row) + 1)),
    ),
    Guard(
        name="invalid `Idempotency-Key`",
        error=INVALID_IDEMPOTENCY_KEY,
        applies=lambda row: row.idempotent,
        methods=post,
        lines=lambda row: ("Idempotency-Key: two words",),
    ),
    Guard(
        name="used `Idempotency-Key`",
        error=IDEMPOTENCY_KEY_REUSE,
        applies=lambda row: row.idempotent,
        arrange=use_key,
        methods=post,
        lines=lambda row: ("Idempotency-Key: k", "Content-Length: 0"),
    ),
    Guard(
        name="malformed `x-gateway-labels`",
        error=INVALID_REQUEST,
        applies=lambda row: row.billed,
        methods=post,
        lines=lambda row: ("x-gateway-labels: team=a, team=b",),
    ),
    Guard(
        name="repeated `x-gateway-run`",
        error=INVALID_REQUEST,
        applies=lambda row: row.billed,
        methods=post,
        lines=lambda row: ("x-gateway-run: a", "x-gateway-run: a"),
    ),
    Guard(
        name="malformed body",
        error=malformed,
        applies=lambda row: takes_body(row) and is_read_here(row),
        methods=post,
        lines=lambda row: json_type(row) if row.body == "json" else form_type(row),
        body=lambda row: b"{" if row.body == "json" else b"--b",
    ),
    Guard(
        name="other kind of body",
        error=malformed,
        applies=lambda row: takes_body(row) and is_read_here(row),
        methods=post,
        lines=lambda row: form_type(row) if row.body == "json" else json_type(row),
        body=lambda row: FORM if row.body == "json" else b'{"model": "m"}',
    ),
)


def section() -> str:
    """The part of the matrix that shows endpoints."""
    lines = [["Endpoint", "Path", *(guard.name for guard in GUARDS)]]
    lines.append(["---"] * len(lines[0]))
    for row in routes():
        met = [str(g.refusal_of(row).http_status) if g.applies(row) else "" for g in GUARDS]
        lines.append([row.route, f"`{' '.join(row.methods)} {path_of(row, '…')}`", *met])
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return f"{HEADING}\n{table}\n"
