"""The admin API in OpenAPI 3.1, made from the table of routes and the types of the code."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec
from msgspec import Struct

from gw.api.admin.server import IDEMPOTENCY_HEADER, REPLAYED_HEADER
from gw.api.admin.table import NoQuery, Route
from gw.error_bodies import dumps
from metrics.version import release

# Errors of every route.
EVERY = (400, 401, 429, 500, 503)
OF_CHANGES = (403, 413, 422)
TEMPLATE = "#/components/schemas/{name}"


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
    references, schemas = msgspec.json.schema_components(types, ref_template=TEMPLATE)
    by_type = {id(kind): reference for kind, reference in zip(types, references, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        operation = _operation(route, by_type, schemas)
        paths.setdefault(f"/admin/v1/{route.path}", {})[route.method.lower()] = operation
    for route in routes:  # its members are listed as parameters
        schemas.pop(_name(by_type[id(route.query)]), None)
    for schema in schemas.values():
        if "properties" in schema:
            schema.setdefault("additionalProperties", False)
    paths["/admin/v1/openapi.json"] = {"get": _own_operation()}
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
                "schemas": schemas,
            },
        }
    )


def _own_operation() -> dict[str, Any]:
    return {
        "operationId": "describe",
        "summary": "This document.",
        "responses": {
            "200": {
                "description": "OK",
                "content": {"application/json": {"schema": {"type": "object"}}},
            },
            **{str(status): _error(status) for status in EVERY},
        },
    }


def _operation(
    route: Route, by_type: Mapping[int, Any], schemas: Mapping[str, Any]
) -> dict[str, Any]:
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"\{(\w+)\}", route.path)
    ]
    if route.query is not NoQuery:
        members = schemas[_name(by_type[id(route.query)])]["properties"]
        parameters += [
            {"name": name, "in": "query", "required": False, "schema": schema}
            for name, schema in members.items()
        ]
    ok: dict[str, Any] = {
        "description": HTTPStatus(route.status).phrase,
        "content": {"application/json": {"schema": by_type[id(route.response)]}},
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
    statuses = set(EVERY)
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
            **{str(status): _error(status) for status in sorted(statuses)},
        },
    }
    if route.body is not None:
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": by_type[id(route.body)]}},
        }
    return operation


def _error(status: int) -> dict[str, Any]:
    return {
        "description": HTTPStatus(status).phrase,
        "content": {"application/json": {"schema": {"$ref": TEMPLATE.format(name="ErrorBody")}}},
    }


def _name(reference: Mapping[str, str]) -> str:
    return reference["$ref"].rpartition("/")[2]
