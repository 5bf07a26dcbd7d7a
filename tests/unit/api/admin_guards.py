"""What stops a request to the admin listener, as a table; `test_admin_guards.py` sends them all."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from msgspec import Struct

from gw.admin.tokens import PREFIX as TOKEN_PREFIX
from gw.admin_services import ROUTES
from gw.api.admin.server import FAILURES_PER_MINUTE, description_route
from gw.api.admin.table import REQUESTS_PER_MINUTE, Route
from gw.http.admin import API_PATH, PATHS
from gw.http.admin_api import PREFIX
from gw.http.served_path import IGNORED_BYTES_MAX, ServedPath
from gw.http.tornado.handler import METHODS
from tests.unit.api.admin_fakes import AdminWorld
from tests.unit.http import path_guards
from tests.unit.http.path_guards import PathGuard

TOKEN = TOKEN_PREFIX + "a" * 64
HEADING = """## Admin listener

The rows are in `gw/http/admin.py` and, of the admin API, in `gw/api/admin/`;
`tests/unit/api/test_admin_guards.py` sends the requests. The listener serves until its process
ends, while calls are drained too; its connections give way like the console's.
"""


class Anything(Struct):
    """A body that lacks nothing."""


@dataclass(frozen=True, kw_only=True)
class AdminRow:
    """One method and path of the listener: of its own, or a route of the API."""

    served: ServedPath
    route: Route | None = None

    @property
    def path(self) -> str:
        return self.served.path if self.route is None else PREFIX + self.route.path

    @property
    def methods(self) -> Sequence[str]:
        return self.served.methods if self.route is None else (self.route.method,)

    @property
    def allowed(self) -> Sequence[str]:
        """Every method of the path."""
        if self.route is None:
            return self.served.methods
        return [one.method for one in routes() if one.path == self.route.path]


def routes() -> Sequence[Route]:
    return (*ROUTES, description_route(lambda: b"{}"))


def rows() -> Iterator[AdminRow]:
    for served in PATHS:
        yield AdminRow(served=served)
    for route in routes():
        yield AdminRow(served=API_PATH, route=route)


def path_of(row: AdminRow) -> str:
    """A path of the row."""
    return re.sub(r"\{\w+\}", "one", row.path)


@dataclass(frozen=True, kw_only=True)
class Guard(PathGuard[AdminRow]):
    """A guard of the listener. `code` is the error's, which is the status on its own paths."""

    code: str
    arrange: Callable[[AdminWorld], Any] = lambda world: None
    changed: Callable[[Route], Route] = lambda route: route
    token: str | None = TOKEN
    query: str = ""
    body: Callable[[AdminRow], bytes] = lambda row: b""


def of_api(row: AdminRow) -> Sequence[str]:
    return row.methods if row.route is not None else ()


def with_body(row: AdminRow) -> Sequence[str]:
    return row.methods if row.route is not None and row.route.body is not None else ()


def changing(row: AdminRow) -> Sequence[str]:
    return row.methods if row.route is not None and row.route.is_change else ()


def idempotent(row: AdminRow) -> Sequence[str]:
    return row.methods if row.route is not None and row.route.takes_idempotency_key else ()


def too_much(row: AdminRow) -> bytes:
    assert row.route is not None
    return b" " * (row.route.body_bytes_max + 1)


def without_members(route: Route) -> Route:
    return route if route.body is None else replace(route, body=Anything)


def allowed_by(row: AdminRow, method: str) -> Mapping[str, str]:
    methods = API_PATH.methods if row.route is not None and method == "HEAD" else row.allowed
    return {"allow": ", ".join(methods)}


async def use_up(world: AdminWorld) -> None:
    for _ in range(REQUESTS_PER_MINUTE):
        await world.limiter.take("admin:adm_1", REQUESTS_PER_MINUTE)


def fail_often(world: AdminWorld) -> None:
    world.database.token = None
    for _ in range(FAILURES_PER_MINUTE):
        world.api.failures.add("127.0.0.1")


GUARDS = (
    Guard(
        name="size beyond reading",
        status=413,
        code="request_too_large",
        methods=with_body,
        lines=lambda row: (f"Content-Length: {IGNORED_BYTES_MAX + 1}",),
        headers=lambda row, method: {"connection": "close"},
    ),
    Guard(
        name="unknown host",
        status=421,
        code="421",
        methods=lambda row: () if row.served.any_host else row.methods,
        host="rebound.example.com",
    ),
    Guard(
        name="method",
        status=405,
        code="method_not_allowed",
        methods=lambda row: [one for one in METHODS if one not in row.allowed],
        headers=allowed_by,
    ),
    Guard(
        name="no token",
        status=401,
        code="invalid_token",
        methods=of_api,
        token=None,
        headers=lambda row, method: {"www-authenticate": "Bearer"},
    ),
    Guard(
        name="revoked token",
        status=401,
        code="invalid_token",
        methods=of_api,
        arrange=lambda world: vars(world.database).update(token=None),
        headers=lambda row, method: {"www-authenticate": "Bearer"},
    ),
    Guard(
        name="failures of the address",
        status=429,
        code="rate_limit_exceeded",
        methods=of_api,
        arrange=fail_often,
        headers=lambda row, method: {"retry-after": "60"},
    ),
    Guard(
        name="database away",
        status=503,
        code="database_unavailable",
        methods=of_api,
        arrange=lambda world: vars(world.database).update(is_away=True),
        headers=lambda row, method: {"retry-after": "1"},
    ),
    Guard(
        name="requests a minute",
        status=429,
        code="rate_limit_exceeded",
        methods=of_api,
        arrange=use_up,
        headers=lambda row, method: {"retry-after": "60"},
    ),
    Guard(
        name="token that only reads",
        status=403,
        code="permission_denied",
        methods=changing,
        arrange=lambda world: vars(world.database).update(scope="read"),
    ),
    Guard(
        name="size of the body",
        status=413,
        code="request_too_large",
        methods=with_body,
        body=too_much,
    ),
    Guard(
        name="size of its chunks",
        status=413,
        code="request_too_large",
        methods=with_body,
        lines=lambda row: ("Transfer-Encoding: chunked",),
        body=lambda row: b"%x\r\n%b\r\n0\r\n\r\n" % (len(too_much(row)), too_much(row)),
    ),
    Guard(
        name="NUL in the query", status=400, code="invalid_request", methods=of_api, query="?a=%00"
    ),
    Guard(
        name="unknown parameter", status=400, code="invalid_request", methods=of_api, query="?a=b"
    ),
    Guard(
        name="malformed body",
        status=400,
        code="invalid_request",
        methods=with_body,
        body=lambda row: b"{",
    ),
    Guard(
        name="unknown member",
        status=400,
        code="invalid_request",
        methods=with_body,
        body=lambda row: b'{"no such member": 1}',
    ),
    Guard(
        name="invalid `Idempotency-Key`",
        status=400,
        code="invalid_request",
        methods=idempotent,
        changed=without_members,
        lines=lambda row: ("Idempotency-Key: two words",),
    ),
    Guard(
        name="used `Idempotency-Key`",
        status=409,
        code="idempotency_key_reuse",
        methods=idempotent,
        changed=without_members,
        lines=lambda row: ("Idempotency-Key: k",),
    ),
)


def section() -> str:
    """The part of the matrix that shows the admin listener."""
    columns = ("Path", "Token", "Requests a minute", "Body bytes")
    return path_guards.section(HEADING, columns, GUARDS, ((row, _cells(row)) for row in rows()))


def _cells(row: AdminRow) -> Sequence[str]:
    route, scope, rate, size = row.route, "", "", ""
    if route is not None:
        scope = "write" if route.is_change else "read"
        rate = str(route.requests_per_minute)
        size = "" if route.body is None else str(route.body_bytes_max)
    path = re.sub(r"\{\w+\}", "…", row.path)
    return f"`{' '.join(row.methods)} {path}`", scope, rate, size


def code_of(body: bytes) -> str:
    """The code of an error."""
    return str(msgspec.json.decode(body)["error"]["code"])
