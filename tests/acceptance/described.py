"""The reference as a judge: is what a client was sent what the document describes?

`conftest.py` has it look at every response that the client of the acceptance tests receives, so the
document cannot drift from the service.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs

from loadtests.rig.response import Response
from tests.support.reference import Reference

ROOT = Path(__file__).parents[2]
PAGE = "ops/reference/openapi.json"
# Of a stream the first and the last events are judged: in between they are all alike.
EVENTS_JUDGED = 8


@cache
def reference() -> Reference:
    """The document, which a tidy test compares with the one that is served."""
    return Reference(json.loads((ROOT / PAGE).read_text(encoding="utf-8")))


@cache
def _headers() -> frozenset[str]:
    """The gateway's own headers; others may be an upstream's, passed on, as may its rates."""
    described = (name.lower() for name in reference().document["components"]["headers"])
    return frozenset(one for one in described if one.startswith("x-")) - {
        "x-ratelimit-limit",
        "x-ratelimit-remaining",
        "x-ratelimit-reset",
    }


@cache
def _closed_components() -> Any:
    return _closed(reference().document["components"])


def _closed(value: Any) -> Any:
    """Schemas that allow no member but those that they list, unless they say so."""
    if isinstance(value, dict):
        inner = {name: _closed(one) for name, one in value.items()}
        if inner.get("type") == "object" and "properties" in inner:
            inner.setdefault("additionalProperties", False)
        return inner
    return [_closed(one) for one in value] if isinstance(value, list) else value


_VALIDATORS: dict[tuple[int, bool], Any] = {}


def _validator(schema: Mapping[str, Any], *, is_closed: bool) -> Any:
    """The validator of a schema of the document."""
    at = id(schema), is_closed
    if at not in _VALIDATORS:
        components = _closed_components() if is_closed else reference().document["components"]
        whole = {**schema, "components": components}
        _VALIDATORS[at] = jsonschema_rs.validator_for(whole, validate_formats=False)
    return _VALIDATORS[at]


def judge(method: str, target: str, response: Response) -> None:
    """Raise AssertionError for a response that is not as described."""
    listed = list(faults(method, target, response))
    assert not listed, f"{listed}: {response.status} {response.body[:1000]!r}"


def faults(
    method: str, target: str, response: Response, *, is_closed: bool = False
) -> Iterator[str]:
    """What of a response is not as described; nothing of one that broke, or of another listener.

    `is_closed`: nor may it have members that the document does not list.
    """
    operation = reference().operation(method, target.partition("?")[0])
    if operation is None or response.is_broken or response.status < 200:
        return
    for fault in _faults(operation, response, is_closed=is_closed):
        yield f"{method} {target}: {fault}"


def _faults(operation: Mapping[str, Any], response: Response, *, is_closed: bool) -> Iterator[str]:
    responses, status = operation["responses"], str(response.status)
    described = responses.get(status) or responses.get(f"{status[0]}XX")
    if described is None:
        yield f"the status {status}"
        return
    described = reference().found(described)
    known = {name.lower() for name in described.get("headers", {})}
    for name in response.headers.keys() & _headers() - known:
        yield f"the header {name}"
    content = described.get("content", {})
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not response.body or not content:
        return
    forms = [one for one in content if re.fullmatch(one.replace("*", r"[\w.+-]+"), kind)]
    if not forms:
        yield f"the type {kind!r}"
        return
    schema = content[forms[0]].get("schema", {})
    if kind == "application/json":
        yield from _judged(response.body, _validator(schema, is_closed=is_closed))
    elif kind == "text/event-stream":
        data = schema["properties"]["data"]
        data = data.get("anyOf", [data])[0]["contentSchema"]
        events = [one for one in response.events if one != b"[DONE]"]
        for event in dict.fromkeys((*events[:EVENTS_JUDGED], *events[-EVENTS_JUDGED:])):
            yield from _judged(event, _validator(data, is_closed=False), passes=_is_passed_on)


def _is_passed_on(event: Any) -> bool:
    """Whether it is an error of an upstream in a form of its own, as it came."""
    if not isinstance(event, dict):
        return False
    if "choices" in event:
        return event["choices"] is None
    return event.get("object") == "error" or bool(event.keys() & {"error", "code"})


def _judged(
    data: bytes, validator: Any, *, passes: Callable[[Any], bool] = lambda value: False
) -> Iterator[str]:
    try:
        value = json.loads(data)
    except ValueError as error:
        yield f"no JSON: {error}: {data[:200]!r}"
        return
    if not passes(value):
        for one in validator.iter_errors(value):
            yield f"{list(one.instance_path)}: {one.message[:300]}"
