"""An agent's key works on one endpoint: this walks the router, so that a new one is fenced too."""

from __future__ import annotations

import re

from channels.families import ErrorShape
from gw.api.base import ApiHandler
from gw.app import routes
from tests.support.client import Reply
from tests.support.house import House

ALLOWED = {("POST", "/v1/chat/completions")}
# What asks for no key at all: nobody is told apart there.
PUBLIC = {
    "/api/v1/models/public",
    "/v1/media/x",
    "/v1/videos/generations/x/content",
    "/api/v1/ext/wiki/sources/x",
}
FORBIDDEN = (403, "permission_error", "permission_denied")


def path_of(pattern: str) -> str:
    """A path that a route takes."""
    path = pattern.replace("(?:/v1)?", "/v1").replace("v1(?:beta)?", "v1beta")
    path = path.replace("(?::|%3[Aa])", ":").replace("(generateContent|stream", "(stream")
    path = re.sub(r"\((\w+)\)", r"\1", path)
    path = re.sub(r"\((?:\.\+|\[\^/\]\+)\)", "x", path)
    assert re.fullmatch(pattern, path), (pattern, path)
    return path


ENDPOINTS: list[tuple[str, str, type[ApiHandler]]] = [
    (method, path_of(route[0]), route[1])
    for route in routes()
    if issubclass(route[1], ApiHandler)
    for method in route[1].allowed_methods()
]


def refusal(reply: Reply, shape: ErrorShape) -> tuple[int, str, str]:
    """Status and words of an error in the endpoint's own shape."""
    error = reply.json["error"]
    if shape is ErrorShape.MESSAGES:
        assert reply.json["type"] == "error"
        return reply.status, error["type"], "permission_denied"
    if shape is ErrorShape.GEMINI:
        assert (error["code"], error["status"]) == (403, "PERMISSION_DENIED")
        return reply.status, "permission_error", "permission_denied"
    return reply.status, error["type"], error["code"]


def test_every_route_is_walked() -> None:
    assert len({path for _, path, _ in ENDPOINTS}) == len(routes())
    public = {path for _, path, handler in ENDPOINTS if handler.auth == "none"}
    assert public == PUBLIC


def test_an_agents_key_is_refused_by_every_other_endpoint_before_anything_else(h: House) -> None:
    # Neither money nor a free slot, and a body that is none: the fence comes first.
    tenant = h.tenant(nano_usd=0, rpm=1)
    agent = h.agent(tenant)
    for method, path, handler in ENDPOINTS:
        if handler.auth == "none" or (method, path) in ALLOWED:
            continue
        body = None if method in ("GET", "DELETE") else b"{"
        reply = agent.client.send(method, path, body)
        assert refusal(reply, handler.shape) == FORBIDDEN, (method, path)
    assert agent.client.get("/v1/nothing").status == 404
    assert {row["status"] for row in h.rows(tenant)} <= {"rejected"}
