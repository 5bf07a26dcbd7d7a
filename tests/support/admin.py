"""A client of the admin API that holds every response against the API's own description."""

import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from jsonschema import Draft202012Validator


@dataclass(frozen=True)
class AdminReply:
    """A response: status, headers by names in lower case, JSON."""

    status: int
    headers: Mapping[str, str]
    body: Any

    @property
    def code(self) -> str:
        """The code of the error."""
        return str(self.body["error"]["code"])


@dataclass
class AdminClient:
    """Sends requests with a token; `seen` are the operations whose responses were held."""

    url: str
    token: str
    seen: set[tuple[str, str]] = field(default_factory=set)
    _description: dict[str, Any] | None = None

    @property
    def description(self) -> dict[str, Any]:
        """The description as it is served."""
        if self._description is None:
            reply = send(self.url, "GET", "openapi.json", token=self.token)
            assert reply.status == 200, reply
            self._description = reply.body
        return self._description

    def get(self, path: str) -> AdminReply:
        return self.send("GET", path)

    def post(self, path: str, body: Any = None, **headers: str) -> AdminReply:
        return self.send("POST", path, body, **headers)

    def patch(self, path: str, body: Any) -> AdminReply:
        return self.send("PATCH", path, body)

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> AdminReply:
        reply = send(self.url, method, path, body, token=self.token, headers=headers)
        self.hold(method, path.partition("?")[0], reply)
        return reply

    def hold(self, method: str, path: str, reply: AdminReply) -> None:
        """Fail unless the description has this status for this operation, and this form."""
        template = next(self._templates(path), None)
        operations = self.description["paths"].get(template, {})
        if template is None or method.lower() not in operations:
            assert reply.status in (404, 405), (method, path, reply)
            schema = {"$ref": "#/components/schemas/ErrorBody"}
        else:
            described = operations[method.lower()]["responses"]
            assert str(reply.status) in described, (method, path, reply)
            schema = described[str(reply.status)]["content"]["application/json"]["schema"]
            if reply.status < 300:
                self.seen.add((method, template))
        whole = {**schema, "components": self.description["components"]}
        Draft202012Validator(whole).validate(reply.body)

    def _templates(self, path: str) -> Iterator[str]:
        for template in self.description["paths"]:
            pattern = re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(template))
            if re.fullmatch(pattern, f"/admin/v1/{path}"):
                yield template


def send(
    url: str,
    method: str,
    path: str,
    body: Any = None,
    *,
    token: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> AdminReply:
    """One request; a body of bytes is sent as it is."""
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{url}/admin/v1/{path}", data=data, method=method)
    for name, value in (headers or {}).items():
        request.add_header(name.replace("_", "-"), value)
    if token is not None:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return _reply(response.status, response.headers, response.read())
    except urllib.error.HTTPError as error:
        with error:
            return _reply(error.code, error.headers, error.read())


def _reply(status: int, headers: Any, body: bytes) -> AdminReply:
    lower = {name.lower(): value for name, value in headers.items()}
    return AdminReply(status, lower, json.loads(body) if body else None)
