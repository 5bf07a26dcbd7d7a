"""What the reference states of one method of an endpoint, beside what its row states already.

An endpoint's row (`gw/api/endpoint.py`) says who may call it, what it costs and what refuses it;
nothing of that is repeated here. Members of bodies have their descriptions where their types are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from channels.family import ErrorShape
from gw.errors import ErrorKind

Schema = Mapping[str, Any]

TEXT: Final[Schema] = {"type": "string"}
JSON = "application/json"
EVENTS = "text/event-stream"
BYTES: Final[Schema] = {"type": "string", "contentMediaType": "application/octet-stream"}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A value of the path, the query or a header. With an `example` it is in that of the call."""

    place: Literal["path", "query", "header"]
    name: str
    description: str
    schema: Schema = field(default_factory=lambda: TEXT)
    required: bool = False
    example: Any = None


def in_path(name: str, description: str, example: str) -> Parameter:
    """Return a part of the path, of any text."""
    return Parameter("path", name, description, required=True, example=example)


def in_query(
    name: str,
    description: str,
    schema: Schema = TEXT,
    *,
    required: bool = False,
    example: Any = None,
) -> Parameter:
    """Return a parameter of the query."""
    return Parameter("query", name, description, schema, required, example)


def in_header(name: str, description: str, schema: Schema = TEXT) -> Parameter:
    """Return a header of the request."""
    return Parameter("header", name, description, schema)


def words_of(allowed: Sequence[str], most: int = 100) -> Schema:
    """Return the schema of a list of words, which commas separate."""
    return {"type": "array", "items": {"type": "string", "enum": list(allowed)}, "maxItems": most}


def texts_of(most: int) -> Schema:
    """Return the schema of a list of texts, which commas separate."""
    return {"type": "array", "items": TEXT, "maxItems": most}


def one_of(allowed: Sequence[str], default: str | None = None) -> Schema:
    """Return the schema of one word."""
    found: dict[str, Any] = {"type": "string", "enum": list(allowed)}
    return found if default is None else found | {"default": default}


def whole(least: int, most: int | None = None, default: int | None = None) -> Schema:
    """Return the schema of a whole number."""
    found: dict[str, Any] = {"type": "integer", "minimum": least}
    if most is not None:
        found["maximum"] = most
    return found if default is None else found | {"default": default}


@dataclass(frozen=True, slots=True)
class Content:
    """One form of a body: its media type, and a type of the code, several or a schema.

    Of a stream `schema` is that of one event's data; OpenAPI 3.1 has no place for it, so that the
    document has it as the schema of one event. `last`: the data of its last event, if that is no
    JSON.
    """

    schema: Any
    media_type: str = JSON
    is_stream: bool = False
    last: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A response that is no error. `headers` are names of `headers.py`."""

    status: int = 200
    description: str = "The request succeeded."
    contents: Sequence[Content] = ()
    headers: Sequence[str] = ()


def answers(schema: Any, description: str, *headers: str) -> tuple[Response, ...]:
    """Return the one response of an endpoint that responds in JSON."""
    return (Response(description=description, contents=(Content(schema),), headers=headers),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method of an endpoint. `name` is unique: generated clients call it so.

    `verb`: the alternative of the path that it is, where the path has several. `body`: the types or
    schemas of the request's body, of which it has one; `examples` of it by their labels, each of
    which works in the demo. `raises`: the errors of the handler, beside those of the row's checks,
    each with its status where that is the endpoint's own. `timeout`: its time, by its name in the
    configuration or in seconds, where it calls an upstream, whose refusals are then passed on.
    `limits`: what else bounds it. `shapes`: further shapes of its errors, which a client's headers
    choose; `other_bodies`: schemas of errors that have none of them; `passes_bodies`: an upstream's
    refusal is passed on with its own body. `billed_by`: where that does not follow from the row.
    """

    name: str
    tag: str
    summary: str
    method: str = "GET"
    verb: str = ""
    description: str = ""
    parameters: Sequence[Parameter] = ()
    body: Sequence[Any] = ()
    examples: Mapping[str, Any] = field(default_factory=dict)
    responses: Sequence[Response]
    raises: Sequence[ErrorKind | tuple[ErrorKind, int]] = ()
    timeout: str | float | None = None
    limits: Sequence[str] = ()
    shapes: Sequence[ErrorShape] = ()
    billed_by: str = ""
    passes_bodies: bool = False
    other_bodies: Sequence[Any] = ()
