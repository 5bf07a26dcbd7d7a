"""Paths to handlers: the short way takes a path exactly where the list of rules would."""

from __future__ import annotations

from gw.api.base import GatewayApplication, NotFoundHandler
from gw.app import routes
from gw.http.application import Routes, Target
from gw.http.tornado_adapter import RequestHeaders, TornadoRequest
from tests.support.rows import cases
from tests.unit.api.fakes import World

NOWHERE = Target(NotFoundHandler, {})


def asked(path: str) -> TornadoRequest:
    request = TornadoRequest("GET", path, "HTTP/1.1", RequestHeaders({"Host": ["gateway"]}), "")
    request.read_target()
    return request


def of(*rules: tuple[str, type[NotFoundHandler]]) -> Routes:
    application = GatewayApplication(list(rules), services=World().services)
    return Routes(application.wildcard_router.rules, NOWHERE)


@cases(
    "path, handler, parts",
    ("/v1/chat/completions", "AgentCompletionsHandler", []),
    ("/v1/chat/completions?key=x", "AgentCompletionsHandler", []),
    ("/v1/logs", "LogListHandler", []),
    ("/v1/logs/summary", "SummaryHandler", []),
    ("/v1/logs/call%201", "LogDetailHandler", [b"call 1"]),
    ("/dashboard/billing/usage", "UsageHandler", []),
    ("/v1/dashboard/billing/usage", "UsageHandler", []),
    ("/v1beta/models/a/b:generateContent", "GeminiHandler", [b"a/b", b"generateContent"]),
    ("/v1beta/models/a%3AgenerateContent", "GeminiHandler", [b"a", b"generateContent"]),
    ("/v1/models/a:b%3agenerateContent", "GeminiHandler", [b"a:b", b"generateContent"]),
    ("/v1/chat/completions/", "NotFoundHandler", []),
    ("/V1/chat/completions", "NotFoundHandler", []),
    ("", "NotFoundHandler", []),
)
def test_path_finds_its_endpoint(path: str, handler: str, parts: list[bytes]) -> None:
    application = GatewayApplication(list(routes()), services=World().services)
    target = application.routes.find(asked(path))
    assert (target.handler.__name__, list(target.path_args)) == (handler, parts)


def test_every_path_without_a_part_of_its_own_has_the_short_way() -> None:
    rules = list(routes())
    plain = [rule for rule in rules if "(" not in rule[0]]
    application = GatewayApplication(rules, services=World().services)
    assert repr(application.routes) == f"<Routes {len(rules)} rules {len(plain)} exact>"


def test_earlier_rule_goes_before_an_exact_one() -> None:
    class Any(NotFoundHandler):
        pass

    class Exact(NotFoundHandler):
        pass

    assert of((r"/a/.*", Any), (r"/a/b", Exact)).find(asked("/a/b")).handler is Any
    assert of((r"/a/b", Exact), (r"/a/.*", Any)).find(asked("/a/b")).handler is Exact
    assert of((r"/a.b", Exact)).find(asked("/a-b")).handler is Exact  # a pattern all the same
