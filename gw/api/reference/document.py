"""The public API in OpenAPI 3.1, made from the rows of its table (`gw/app.py`).

Made once, at the start of a process: a row, a method or a member that lacks its description does
not start.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from channels.family import ErrorShape
from gw import errors
from gw.api.checks import LOG_REQUESTS_PER_MINUTE
from gw.api.credentials import HEADERS as KEY_HEADERS
from gw.api.endpoint import Endpoint
from gw.api.reference import headers
from gw.api.reference.operation import Content, Operation, Parameter, Response
from gw.api.reference.paths import ShownPath, shown_paths
from gw.api.reference.refusals import AFTER_HOLDS, OF_UPSTREAM, Refusal, refusals_of
from gw.api.reference.schemas import Schemas, Undescribed, content_of
from gw.config.config import Config, Timeouts
from gw.config.keys import keys_of
from gw.error_bodies import BODIES, dumps
from metrics.version import release

ABOUT = """\
One gateway in front of many model providers, prepaid from one balance per account.

- **Keys.** `sk-platform-` and 64 hexadecimal digits. An agent's key works only on\
 `POST /v1/chat/completions`.
- **Errors** have the shape of their endpoint's protocol. An unknown path is 404 `not_found`, a\
 method that an endpoint lacks 405 `method_not_allowed`, a WebSocket where there is none 426\
 `upgrade_required`; under `/v1beta` and `/v1/messages` they have the shape of that protocol.
- **Bodies** are JSON in UTF-8, never compressed. Members that are not listed are ignored, or\
 forwarded where that is said; clients ignore members of responses that they do not know.
- **Streams** are server-sent events; one that ends without its last event has failed. Their\
 schema is that of one event, whose `data` is JSON.
"""
_MIB = 1024 * 1024
_BODY_BYTES_MAX: int = keys_of(Config)["max_body_mb"].default
_FORM = "multipart/form-data"
_EVENT = "An event of the stream. An upstream's error amid it is passed on as it came."


def document(rows: Sequence[Endpoint]) -> bytes:
    """Return the whole document as JSON. Raises Undescribed."""
    return dumps(_Document(rows).made())


class _Document:
    def __init__(self, rows: Sequence[Endpoint]) -> None:
        self._rows = rows
        kinds = dict.fromkeys(BODIES.values())
        for row in rows:
            for one in row.describes:
                kinds |= dict.fromkeys(_kinds(one))
        self._schemas = Schemas(list(kinds))
        self._responses: dict[str, Any] = {}
        self._parameters: dict[str, Any] = {}
        self._names: set[str] = set()

    def made(self) -> dict[str, Any]:
        """Return the document as JSON values."""
        self._schemas.check()
        paths: dict[str, dict[str, Any]] = {}
        tags: dict[str, None] = {}
        for row in self._rows:
            for path, method, operation in _operations(row):
                tags[operation.tag] = None
                paths.setdefault(path, {})[method.lower()] = self._operation(row, operation, method)
        return {
            "openapi": "3.1.0",
            "info": {"title": "Model gateway", "version": release(), "description": ABOUT},
            "servers": [{"url": "/"}],
            "tags": [{"name": name} for name in tags],
            "paths": paths,
            "components": {
                "securitySchemes": _security_schemes(),
                "headers": {
                    name: {"description": text, "schema": schema}
                    for name, (text, schema) in headers.HEADERS.items()
                },
                "parameters": dict(sorted(self._parameters.items())),
                "responses": dict(sorted(self._responses.items())),
                "schemas": self._schemas.components,
            },
        }

    def _operation(self, row: Endpoint, operation: Operation, method: str) -> dict[str, Any]:
        if operation.name in self._names:
            raise Undescribed(f"{row.route}: the name {operation.name} is there twice")
        self._names.add(operation.name)
        has_body = method != "HEAD"
        limits = list(_limits(row, operation))
        billed_by = _billed_by(row, operation)
        found: dict[str, Any] = {
            "operationId": operation.name,
            "tags": [operation.tag],
            "summary": operation.summary,
            "description": _described(operation.description, billed_by, limits),
            "x-route": row.route,
            "x-billed-by": billed_by,
            "x-limits": limits,
            "security": [{name: []} for name in _schemes_of(row)],
            "parameters": [self._parameter(one) for one in _parameters(row, operation)],
            "responses": {
                **{
                    str(one.status): self._response(row, operation, one, has_body=has_body)
                    for one in operation.responses
                },
                **self._refusals(row, operation, has_body=has_body),
            },
        }
        if operation.method == "POST":
            found["requestBody"] = self._body(row, operation)
        return found

    def _parameter(self, one: Parameter) -> Mapping[str, Any]:
        """Return a parameter; headers are referred to, since endpoints share them."""
        shown = _parameter(one)
        if one.place != "header" or self._parameters.setdefault(one.name, shown) != shown:
            return shown
        return {"$ref": f"#/components/parameters/{one.name}"}

    def _body(self, row: Endpoint, operation: Operation) -> dict[str, Any]:
        if not operation.body or (not operation.examples and row.body == "json"):
            raise Undescribed(f"{row.route}: {operation.name} has no body, or no example of it")
        schemas = [self._schemas.of(one) for one in operation.body]
        schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
        content: dict[str, Any] = {"schema": schema}
        if operation.examples:
            content["examples"] = {
                label: {"value": value} for label, value in operation.examples.items()
            }
        return {
            "required": True,
            "content": {_FORM if row.body == "form" else "application/json": content},
        }

    def _response(
        self, row: Endpoint, operation: Operation, response: Response, *, has_body: bool
    ) -> dict[str, Any]:
        names = ["x-gateway-trace", *response.headers]
        names += _limit_headers(row)
        if row.idempotent and operation.method == "POST":
            names.append(headers.REPLAYED)
        names += _warned(row, operation)
        found: dict[str, Any] = {
            "description": response.description,
            "headers": _headers(names),
        }
        if response.contents and has_body:
            found["content"] = {one.media_type: self._content(one) for one in response.contents}
        return found

    def _content(self, content: Content) -> dict[str, Any]:
        schema = self._schemas.of(content.schema)
        if not content.is_stream:
            return {"schema": schema}
        # An event of the stream: the standard has no schema for all of them in their order.
        data: dict[str, Any] = {
            "type": "string",
            "contentMediaType": "application/json",
            "contentSchema": schema,
        }
        if content.last is not None:
            data = {"anyOf": [data, {"type": "string", "const": content.last}]}
        return {
            "schema": {
                "type": "object",
                "description": _EVENT,
                "properties": {"event": {"type": "string"}, "data": data},
                "required": ["data"],
            }
        }

    def _refusals(self, row: Endpoint, operation: Operation, *, has_body: bool) -> dict[str, Any]:
        by_status: dict[int, list[Refusal]] = {}
        for one in refusals_of(row, operation):
            by_status.setdefault(one.http_status, []).append(one)
        found: dict[str, Any] = {
            str(status): self._refusal(row, operation, status, ones, has_body=has_body)
            for status, ones in sorted(by_status.items())
        }
        if operation.timeout is not None:
            bodies = [self._schemas.of(BODIES[shape]) for shape in _shapes(row, operation)]
            schema: Mapping[str, Any] = {} if operation.passes_bodies else _any_of(bodies)
            for name in ("4XX", "5XX"):
                found[name] = {
                    "description": "An upstream's status, passed on.",
                    "headers": _headers(["x-gateway-trace", *_warned(row, operation)]),
                    "content": content_of(schema),
                }
        return found

    def _refusal(
        self,
        row: Endpoint,
        operation: Operation,
        status: int,
        ones: Sequence[Refusal],
        *,
        has_body: bool,
    ) -> dict[str, Any]:
        """Return a reference to the response with these errors, which endpoints share."""
        shapes = _shapes(row, operation)
        names = list(dict.fromkeys(one.kind.code for one in ones))
        key = "-".join(
            [*(shape.name.lower() for shape in shapes), str(status), *sorted(names)]
            + (["translated"] if (passed_on := list(_passed_on(operation))) else [])
            + (["billed"] if (warned := list(_warned(row, operation, ones))) else [])
            + ([] if has_body else ["head"])
        )
        response: dict[str, Any] = {
            "description": "\n".join(f"- `{one.kind.code}`: {one.cause}." for one in ones),
            "headers": _headers([*_headers_of_refusal(row, status, ones), *passed_on, *warned]),
        }
        if has_body:
            schemas = [self._body_of(shape, ones) for shape in shapes]
            if operation.passes_bodies:
                schemas.append({"description": "An upstream's own body."})
            schemas += operation.other_bodies
            response["content"] = {
                "application/json": {
                    "schema": _any_of(schemas),
                    "examples": {
                        one.kind.code: {"value": json.loads(one.example(shapes[0]))} for one in ones
                    },
                }
            }
        if self._responses.setdefault(key, response) != response:
            key = f"{row.route}-{key}"
            self._responses[key] = response
        return {"$ref": f"#/components/responses/{key}"}

    def _body_of(self, shape: ErrorShape, ones: Sequence[Refusal]) -> Mapping[str, Any]:
        member = {ErrorShape.MESSAGES: "type", ErrorShape.GEMINI: "status"}.get(shape, "code")
        allowed = {"enum": list(dict.fromkeys(one.name(shape) for one in ones))}
        return {
            **self._schemas.of(BODIES[shape]),
            "properties": {"error": {"properties": {member: allowed}}},
        }


def _shapes(row: Endpoint, operation: Operation) -> Sequence[ErrorShape]:
    return tuple(dict.fromkeys((row.shape, *operation.shapes)))


def _kinds(operation: Operation) -> Iterator[Any]:
    """Yield the types of an operation."""
    contents = [one for response in operation.responses for one in response.contents]
    for kinds in (*operation.body, *(one.schema for one in contents)):
        for kind in kinds if isinstance(kinds, tuple) else (kinds,):
            if not isinstance(kind, Mapping):
                yield kind


def _operations(row: Endpoint) -> Iterator[tuple[str, str, Operation]]:
    """Yield each path and method of a row with its operation. Raises Undescribed."""
    for operation in row.describes:
        parts = [one.name for one in operation.parameters if one.place == "path"]
        paths = [one for one in shown_paths(row.path, parts) if one.verb == operation.verb]
        if operation.method not in row.methods or not paths:
            raise Undescribed(f"{row.route} has no {operation.method} {operation.verb}".rstrip())
        for number, shown in enumerate(paths):
            yield shown.path, operation.method, _at(operation, paths, number)
            if operation.method == "GET" and "HEAD" in row.methods:
                head = _at(operation, paths, number)
                yield shown.path, "HEAD", replace(head, name=f"{head.name}_head")
    given = {(one.method, one.verb) for one in row.describes}
    parts = [
        one.name for each in row.describes[:1] for one in each.parameters if one.place == "path"
    ]
    wanted = {
        (method, one.verb)
        for method in row.methods
        for one in shown_paths(row.path, parts)
        if method != "HEAD"
    }
    if wanted != given:
        missing = ", ".join(" ".join(one).rstrip() for one in sorted(wanted - given))
        raise Undescribed(f"endpoint {row.route} ({row.path}) has no description of {missing}")


def _at(operation: Operation, paths: Sequence[ShownPath], number: int) -> Operation:
    """Return the operation at one of its paths; the first is the main one."""
    if not number:
        return operation
    return replace(
        operation,
        name=f"{operation.name}_{number + 1}",
        summary=f"The same as `{paths[0].path}`.",
    )


def _parameters(row: Endpoint, operation: Operation) -> Iterator[Parameter]:
    yield from operation.parameters
    if row.idempotent and operation.method == "POST":
        yield headers.IDEMPOTENCY
    if row.billed and operation.method == "POST":
        yield from headers.ATTRIBUTION
        yield headers.DATA


def _parameter(one: Parameter) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": one.name,
        "in": one.place,
        "required": one.required,
        "description": one.description,
        "schema": one.schema,
    }
    if one.place == "query" and one.schema.get("type") == "array":
        found |= {"style": "form", "explode": False}
    return found if one.example is None else found | {"example": one.example}


def _schemes_of(row: Endpoint) -> list[str]:
    """Return where the endpoint takes the key from, in the order in which it is looked for."""
    if row.auth == "none":
        return []
    query = ["query-key"] if row.auth == "standard" else []
    return [*(name.lower() for name in KEY_HEADERS[row.auth]), *query, "bearer"]


def _security_schemes() -> dict[str, Any]:
    in_headers = {
        name.lower(): {"type": "apiKey", "in": "header", "name": name.lower()}
        for name in KEY_HEADERS["standard"]
    }
    return {
        "bearer": {"type": "http", "scheme": "bearer", "description": "`Authorization: Bearer …`"},
        **in_headers,
        "query-key": {"type": "apiKey", "in": "query", "name": "key"},
    }


def _limits(row: Endpoint, operation: Operation) -> Iterator[str]:
    """Yield what bounds a request, from the row and the configuration's defaults."""
    if row.limited:
        yield "Counts for the account's requests per minute and its concurrent requests."
    if row.log_rate:
        yield f"{LOG_REQUESTS_PER_MINUTE} requests per minute and key, on all log endpoints."
    if operation.method == "POST":
        most = row.body_bytes_max or _BODY_BYTES_MAX
        unless = "" if row.body_bytes_max else ", unless configured otherwise (`max_body_mb`)"
        size = f"{most // _MIB} MiB" if most >= _MIB else f"{most // 1024} KiB"
        yield f"A body of at most {size}{unless}."
    if isinstance(operation.timeout, float):
        yield f"{operation.timeout:g} seconds for the upstream."
    elif operation.timeout is not None:
        seconds: float = getattr(Timeouts(), operation.timeout)
        yield (
            f"{seconds:g} seconds for the upstream, unless configured otherwise"
            f" (`timeouts.{operation.timeout}`)."
        )
    yield from operation.limits


def _billed_by(row: Endpoint, operation: Operation) -> str:
    """Return what the endpoint's price is for, in the members of a model's price."""
    if operation.billed_by or not (row.billed and operation.method == "POST"):
        return operation.billed_by or "nothing: it is free at any balance"
    assert row.family is not None  # as its row states
    kinds = row.family.endpoint_types
    names = dict.fromkeys(price for kind in kinds for price in (*kind.prices, *kind.more_prices))
    prices = ", ".join(f"`{name}`" for name in names)
    if row.family.unit is None:
        return "tokens of input and output, as the upstream reports them"
    return f"the model's price: {prices}; rows have the unit `{row.family.unit.name}`"


def _described(text: str, billed_by: str, limits: Sequence[str]) -> str:
    lines = [text, f"Billed by {billed_by}.", "\n".join(f"- {one}" for one in limits)]
    return "\n\n".join(line for line in lines if line)


def _limit_headers(row: Endpoint) -> Sequence[str]:
    if row.log_rate:
        return headers.KEY_RATE
    return headers.ACCOUNT_LIMITS if row.limited else ()


def _headers_of_refusal(row: Endpoint, status: int, ones: Sequence[Refusal]) -> Iterator[str]:
    yield "x-gateway-trace"
    kinds = {one.kind for one in ones}
    if any(kind.is_final for kind in kinds) or status == 503:
        yield "x-should-retry"
    if status in (429, 503):
        yield "Retry-After"
    if errors.QUOTA_EXCEEDED in kinds:
        yield "x-gateway-budget"
    if errors.RATE_LIMIT_EXCEEDED in kinds:
        yield from headers.ACCOUNT_LIMITS
    if row.log_rate and status != 401:
        yield from headers.KEY_RATE
    if errors.INVALID_API_KEY in kinds:
        yield "WWW-Authenticate"
    if status == 416:
        yield "Content-Range"
    if errors.METHOD_NOT_ALLOWED in kinds:
        yield "Allow"


def _passed_on(operation: Operation) -> Iterator[str]:
    """Yield the headers of a translation: what it leads to may be an upstream's refusal."""
    stated = {name for response in operation.responses for name in response.headers}
    yield from (name for name in headers.TRANSLATED if name in stated)


def _warned(row: Endpoint, operation: Operation, ones: Sequence[Refusal] = ()) -> Iterator[str]:
    """Yield the header of a call that budgets warn of, if these errors may come after its hold."""
    is_held = not ones or any(one.cause == OF_UPSTREAM or one.kind in AFTER_HOLDS for one in ones)
    if row.billed and operation.method == "POST" and is_held:
        yield "x-gateway-budget-warning"


def _headers(names: Sequence[str]) -> dict[str, Any]:
    unknown = [name for name in names if name not in headers.HEADERS]
    if unknown:
        raise Undescribed(f"headers without a description: {', '.join(unknown)}")
    return {name: {"$ref": f"#/components/headers/{name}"} for name in dict.fromkeys(names)}


def _any_of(schemas: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    return schemas[0] if len(schemas) == 1 else {"anyOf": list(schemas)}
