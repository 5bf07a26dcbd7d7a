"""Every page has the guards that its row states, and what passes them reaches its handler."""

from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from tornado.escape import xhtml_escape
from tornado.web import HTTPError

from actors.store.errors import StoreError, StoreUnavailable
from gw import errors
from gw.console.application import routes
from gw.console.page import Page
from gw.console.pages import ROUTE, ConsoleHandler, ConsoleNotFoundHandler, ShownError
from gw.console.texts import TEXTS
from gw.http.rows import MisstatedRow
from gw.http.served_path import PathHandler
from metrics.prometheus import Metrics
from tests.support.aio import eventually
from tests.support.logs import logs
from tests.support.rows import cases, each
from tests.unit.console.fakes import OPERATOR, OWNER, World, cookie
from tests.unit.console.guards import FORM_TYPE, GUARDS, Guard, body_of, path_of
from tests.unit.http.client import request
from tests.unit.http.path_guards import walk


def walked() -> Iterator[tuple[Guard, Page, str]]:
    return walk(GUARDS, routes())


def head_of(method: str, path: str, token: str, *lines: str) -> str:
    return request(method, path, cookie(token), *lines, key=None)


@each("guard, page, method", walked)
async def test_request_is_stopped(guard: Guard, page: Page, method: str) -> None:
    world, session = World(), guard.session(page)
    body = b""
    if method == "POST":
        body = body_of(page, session) if guard.body is None else guard.body(page)
    more = (f"Content-Type: {FORM_TYPE}", cookie(session))
    head = guard.head(page, method, path_of(page, guard.account), body, *more, key=None)
    async with world.served([page]) as address:
        response = await address.request(head, body)
    assert response.status == guard.status
    assert guard.headers(page, method).items() <= response.headers.items()
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["x-frame-options"] == "DENY"
    shown = xhtml_escape(TEXTS(f"error.{guard.text}"))
    assert (shown in response.body.decode()) == (method != "HEAD")


def test_every_guard_is_somewhere() -> None:
    assert {guard.name for guard, *_ in walked()} == {guard.name for guard in GUARDS}


class Reached(ConsoleHandler):
    """Stands in for the handler of a page."""

    async def on_get(self, *parts: str) -> None:
        await self.finish("reached")

    on_post = on_get


def reached(page: Page) -> Page:
    """The row with a handler that only responds."""
    methods = {f"on_{method.lower()}": Reached.on_get for method in page.methods}
    return replace(page, handler=type("Handler", (ConsoleHandler,), methods))


def allowed() -> Iterator[tuple[Page, str, str]]:
    for page in routes():
        for method in page.methods:
            audience = page.audience(method)
            yield page, method, OPERATOR
            if audience != "operators":
                yield page, method, OWNER
            if audience == "everybody":
                yield page, method, ""


@each("page, method, token", allowed)
async def test_request_for_whom_the_page_is_passes(page: Page, method: str, token: str) -> None:
    body = body_of(page, token) if method == "POST" else b""
    lines = (f"Content-Length: {len(body)}", f"Content-Type: {FORM_TYPE}", "Origin: http://gateway")
    async with World().served([reached(page)]) as address:
        response = await address.request(head_of(method, path_of(page), token, *lines), body)
    assert (response.status, response.body) == (200, b"" if method == "HEAD" else b"reached")
    assert ("immutable" in response.headers["cache-control"]) == page.is_cached


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


AWAY = StoreUnavailable("away")
# What a page raises, the status of the response, and whether it is the gateway's own failure.
RAISED = [
    (RuntimeError("a defect"), 500, True),
    (AWAY, 503, True),
    (StoreError("slow"), 504, True),
    (errors.GatewayError(errors.INTERNAL_ERROR, "broken"), 500, True),
    (caused(errors.GatewayError(errors.NO_CHANNEL_AVAILABLE, "away"), AWAY), 503, True),
    (errors.GatewayError(errors.UPSTREAM_TIMEOUT, "late"), 504, False),
    (HTTPError(404), 404, False),
    (ShownError(503, "too many of them"), 503, False),
]


@logs("page_failed")
@each("page", routes())
async def test_page_that_breaks_is_counted_as_the_gateways_own_failure(page: Page) -> None:
    registry = CollectorRegistry()
    world, method = World(metrics=Metrics(registry)), page.methods[0]
    raised: list[Exception] = []

    async def broken(self: ConsoleHandler, *parts: str) -> None:
        raise raised[-1]

    methods = {f"on_{one.lower()}": broken for one in page.methods}
    page = replace(page, handler=type("Handler", (ConsoleHandler,), methods))
    body = body_of(page, OPERATOR) if method == "POST" else b""
    lines = (f"Content-Length: {len(body)}", f"Content-Type: {FORM_TYPE}")
    head, labels, counted = head_of(method, path_of(page), OPERATOR, *lines), {"route": ROUTE}, 0
    async with world.served([page]) as address:
        for error, status, is_own in RAISED:
            raised.append(error)
            response = await address.request(head, body)
            counted += is_own
            assert response.status == status, error
            assert registry.get_sample_value("gw_http_failures_total", labels) == counted, error
            of_status = {**labels, "status": str(status)}
            assert registry.get_sample_value("gw_http_responses_total", of_status)


@each("page", lambda: [page for page in routes() if page.readers != "everybody"])
async def test_connection_of_a_complete_request_is_kept(page: Page) -> None:
    """A page that is being made gives way to nobody, a form that is being sent to everybody."""
    world = World()
    async with AsyncExitStack() as stack, world.served([reached(page)], connections_max=1) as one:
        path, method = path_of(page), page.methods[-1]
        body = body_of(page, OPERATOR) if method == "POST" else b""
        lines = (f"Content-Length: {len(body)}", f"Content-Type: {FORM_TYPE}")
        head = head_of(method, path, OPERATOR, *lines).replace("\n", "\r\n").encode()
        sent = await stack.enter_async_context(one.client())
        if method == "POST":
            await sent.send(head + body[:-1])
            sent, slow = await stack.enter_async_context(one.client()), sent
            assert await slow.ended()
        world.database.may_respond.clear()
        await sent.send(head + body)
        await eventually(lambda: world.database.waiting == 1)
        assert await (await stack.enter_async_context(one.client())).ended()
        world.database.may_respond.set()
        assert (await sent.response()).body == b"reached"


def handlers(base: type[PathHandler] = ConsoleHandler) -> Iterator[type[PathHandler]]:
    for one in base.__subclasses__():
        if one.__module__.startswith("gw."):
            yield one
            yield from handlers(one)


def test_every_handler_has_a_row_and_none_goes_round_what_stands_before_it() -> None:
    rows = {page.handler for page in routes()}
    bases = {base for row in rows for base in row.__mro__[1:]}
    assert {*handlers()} - bases - {ConsoleNotFoundHandler} == rows
    before = {"prepare", "data_received", "identify", "check", "is_known_host", "_serve"}
    before |= {method.lower() for method in PathHandler.SUPPORTED_METHODS}
    for one in handlers():
        assert not before & vars(one).keys(), one


FORM = {"methods": ("POST",), "body_bytes_max": 1}


class Posts(ConsoleHandler):
    async def on_post(self) -> None:
        """Nothing."""


class Reads(ConsoleHandler):
    async def on_get(self) -> None:
        """Nothing."""


@cases(
    "handler, members, fault",
    (Posts, {}, r"states \('GET',\), Posts has \('POST',\)"),
    (Posts, {"methods": ("POST",)}, "states its bytes"),
    (Reads, {"body_bytes_max": 1}, "only a POST has a body"),
    (Reads, {"senders": "operators"}, "only a form has senders"),
    (Posts, {**FORM, "readers": "operators", "senders": "sessions"}, "not for more"),
    (Reads, {"readers": "everybody", "of_account": True}, "an account is for sessions"),
    (Reads, {"is_cached": True}, "cached is for everybody"),
)
def test_page_that_its_handler_contradicts_is_named(
    handler: type[ConsoleHandler], members: dict[str, Any], fault: str
) -> None:
    with pytest.raises(MisstatedRow, match=f"^path /door: .*{fault}"):
        Page("/door", handler, **members)


async def test_console_takes_each_page_once_and_nothing_else() -> None:
    row = Page("/door", Reads)
    for pages, named in (
        ([], "without rows"),
        ([row, row], "/door: it is there twice"),
        ([row, ("/door", Reads)], "has no row"),
    ):
        with pytest.raises(MisstatedRow, match=named):
            async with World().served(pages):  # type: ignore[arg-type]
                raise AssertionError
