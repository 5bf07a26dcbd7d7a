"""Every endpoint has the guards that its row states: in its shape, for nothing, without a trace."""

from collections.abc import Iterator
from inspect import isawaitable
from typing import Any

from channels.family import ErrorShape
from gw.api.checks import CHECKS
from gw.api.endpoint import Endpoint
from gw.app import routes
from loadtests.rig.response import Response
from tests.support.rows import each
from tests.tidy.files import ROOT
from tests.unit.api.fakes import FakeConfig, World
from tests.unit.api.guards import BODY_BYTES_MAX, GUARDS, Guard, path_of
from tests.unit.api.matrix import page
from tests.unit.http.client import request, served

# Walked with a memory of keys and balances, and without: checks then wait.
ALSO_WITHOUT_MEMORY = ("chat_completions", "logs")


def walk() -> Iterator[tuple[Guard, Endpoint, str, bool]]:
    for guard in GUARDS:
        for row in routes():
            for method in guard.methods(row) if guard.applies(row) else ():
                yield guard, row, method, True
                if row.route in ALSO_WITHOUT_MEMORY:
                    yield guard, row, method, False


def check_error(response: Response, guard: Guard, row: Endpoint) -> None:
    """The refusal has its status, its name in the shape of the endpoint, and its headers."""
    kind, status = guard.refusal_of(row)
    assert response.status == status
    if response.body:
        check_body(response, guard, row)
    assert response.headers["content-type"] == "application/json"
    assert len(response.headers["x-gateway-trace"]) == 32
    assert response.headers.get("x-should-retry") == ("false" if kind.is_final else None)
    assert guard.headers(row).items() <= response.headers.items()
    limits = {name for name in response.headers if "ratelimit" in name}
    assert bool(limits) == (status == 429 or (row.log_rate and not guard.before_key)), limits


def check_body(response: Response, guard: Guard, row: Endpoint) -> None:
    kind, status = guard.refusal_of(row)
    body = response.json
    error: dict[str, Any] = body["error"]
    shape = guard.shape_of(row)
    if shape is ErrorShape.MESSAGES:
        expected: dict[str, Any] = {"type": kind.messages_type}
    elif shape is ErrorShape.GEMINI:
        expected = {"code": status, "status": kind.gemini_status}
    else:
        expected = {"type": kind.chat_type, "code": kind.code}
    assert (response.status, {name: error.get(name) for name in expected}) == (status, expected)
    assert (body.get("type") == "error") == (shape is ErrorShape.MESSAGES), body
    if shape in (ErrorShape.CHAT, ErrorShape.IMAGES):
        assert ("param" in error) == (shape is ErrorShape.IMAGES), body


@each("guard, row, method, remembers", walk)
async def test_request_is_stopped(
    guard: Guard, row: Endpoint, method: str, remembers: bool
) -> None:
    world = World(config=FakeConfig(max_body_bytes=BODY_BYTES_MAX))
    world.keys.remembers = world.money.remembers = remembers
    if isawaitable(arranging := guard.arrange(world)):
        await arranging
    taken, body = world.limits.in_flight("acct_1"), guard.body(row)
    lines = list(guard.lines(row))
    if not any(line.startswith(("Content-Length", "Transfer")) for line in lines):
        lines.append(f"Content-Length: {len(body)}")
    head = request(method, path_of(row, guard.part) + guard.query, *lines, key=guard.key)
    async with served(world.application(row)) as address:
        response = await address.request(head, body)
    assert bool(response.body) == (method != "HEAD")
    check_error(response, guard, row)
    # Nothing is charged, and no permit, place or byte is kept.
    assert set(world.money.requested) <= {"available"}
    assert world.limits.in_flight("acct_1") == taken
    assert (len(world.in_flight), world.overload.waiting, world.bodies.used_bytes) == (0, 0, 0)
    status = guard.refusal_of(row).http_status
    written = [(one.protocol, one.http_status) for one in world.refusals]
    has_row = row.billed and method == "POST" and not guard.before_key
    assert written == ([(row.protocol, status)] if has_row else [])


def test_every_guard_is_somewhere_and_the_page_shows_them() -> None:
    assert {guard.name for guard, *_ in walk()} == {guard.name for guard in GUARDS}
    assert {guard.check for guard in GUARDS} == {*map(type, CHECKS), None}
    printed = (ROOT / "ops/endpoints.md").read_text(encoding="utf-8")
    assert printed == page(), "python -m tests.unit.api.matrix > ops/endpoints.md"


def test_nothing_else_is_open_to_strangers_and_agents() -> None:
    assert {row.route for row in routes() if row.auth == "none"} == {
        "media_file",
        "openapi",
        "public_catalog",
        "video_content",
        "wiki_download",
    }
    assert {row.route for row in routes() if row.agent_keys_allowed} == {"chat_completions"}
