"""The admin API in OpenAPI 3.1, made from the table of routes and the types of the code."""

from __future__ import annotations

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from msgspec import Struct

from gw.api.admin.server import IDEMPOTENCY_HEADER, REPLAYED_HEADER
from gw.api.admin.table import NoQuery, Route
from gw.api.reference.schemas import Schemas, content_of
from gw.error_bodies import dumps
from metrics.version import release

# Errors of every route.
EVERY = (400, 401, 429, 500, 503)
OF_CHANGES = (403, 413, 422)


class ErrorMembers(Struct, frozen=True):
    """An error: a code for programs, a message for people, the id of the request's trace."""

    code: str
    message: str
    trace_id: str


class ErrorBody(Struct, frozen=True):
    """The body of every error."""

    error: ErrorMembers


def description(routes: Sequence[Route]) -> bytes:
    """Return the whole document as JSON."""
    types: list[Any] = [ErrorBody]
    for route in routes:
        types += [route.response, route.query, *([route.body] if route.body is not None else [])]
    schemas = Schemas(types)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        operation = _operation(route, schemas)
        paths.setdefault(f"/admin/v1/{route.path}", {})[route.method.lower()] = operation
    for route in routes:  # its members are listed as parameters
        schemas.components.pop(schemas.name(route.query), None)
    for schema in schemas.components.values():
        if "properties" in schema:
            schema.setdefault("additionalProperties", False)
    paths["/admin/v1/openapi.json"] = {"get": _own_operation(schemas)}
    return dumps(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "Admin API of the model gateway",
                "version": release(),
                "description": "Tokens are made by `gw admin token create`.",
            },
            "security": [{"token": []}],
            "paths": paths,
            "components": {
                "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
                "schemas": schemas.components,
            },
        }
    )


def _own_operation(schemas: Schemas) -> dict[str, Any]:
    return {
        "operationId": "describe",
        "summary": "This document.",
        "responses": {
            "200": {"description": "OK", "content": content_of({"type": "object"})},
            **{str(status): _error(status, schemas) for status in EVERY},
        },
    }


def _operation(route: Route, schemas: Schemas) -> dict[str, Any]:
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"\{(\w+)\}", route.path)
    ]
    if route.query is not NoQuery:
        parameters += [
            {"name": name, "in": "query", "required": False, "schema": schema}
            for name, schema in schemas.members(route.query).items()
        ]
    ok: dict[str, Any] = {
        "description": HTTPStatus(route.status).phrase,
        "content": content_of(schemas.of(route.response)),
    }
    if route.takes_idempotency_key:
        parameters.append(
            {
                "name": IDEMPOTENCY_HEADER,
                "in": "header",
                "required": False,
                "description": "The same key and body have one effect and get one response.",
                "schema": {"type": "string", "minLength": 1, "maxLength": 255},
            }
        )
        ok["headers"] = {
            REPLAYED_HEADER: {
                "description": "`true`: the response to an earlier request under the key.",
                "schema": {"type": "string"},
            }
        }
    statuses = {*EVERY, *route.refuses}
    if route.names_things:
        statuses.add(404)
    if route.is_change:
        statuses |= {*OF_CHANGES, 409}
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "parameters": parameters,
        "responses": {
            str(route.status): ok,
            **{str(status): _error(status, schemas) for status in sorted(statuses)},
        },
    }
    if route.body is not None:
        operation["requestBody"] = {
            "required": True,
            "content": content_of(schemas.of(route.body)),
        }
    return operation


def _error(status: int, schemas: Schemas) -> dict[str, Any]:
    return {
        "description": HTTPStatus(status).phrase,
        "content": content_of(schemas.of(ErrorBody)),
    }
