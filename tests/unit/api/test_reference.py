"""The reference of the public API: whole, valid, true to the guards, and served."""

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any, TypedDict

import pytest
from msgspec import Meta

from gw import app
from gw.api.endpoint import Endpoint
from gw.api.logs.filters import ATTRIBUTED
from gw.api.logs.list_query import read_list_query
from gw.api.logs.summary import read_summary_query
from gw.api.logs.visibility import Visibility
from gw.api.reference import logs as logs_reference
from gw.api.reference import operation as stated
from gw.api.reference.document import document
from gw.api.reference.headers import HEADERS
from gw.api.reference.paths import shown_paths
from gw.api.reference.schemas import Undescribed
from gw.http.cors import EXPOSED
from gw.instants import EPOCH
from gw.keys.end_users import EndUserKey
from loadtests.rig.response import Response
from tests.support.aio import run
from tests.support.reference import Json, Reference
from tests.support.rows import cases, each
from tests.unit.api.fakes import FakeConfig, World
from tests.unit.api.guards import GUARDS, Guard, path_of
from tests.unit.api.test_endpoint_rows import Reads
from tests.unit.http.client import request, served


@cache
def reference() -> Reference:
    return Reference(json.loads(app.description().body))


def found(value: Json) -> Json:
    return reference().found(value)


def operation_at(path: str, method: str) -> Json:
    one = reference().operation(method, path)
    assert one is not None, f"{method} {path} is not described"
    return one


@each("row", app.routes())
def test_every_method_of_every_row_is_described(row: Endpoint) -> None:
    for method in row.methods:
        assert operation_at(path_of(row), method)["x-route"] == row.route


def refused() -> Iterator[tuple[Guard, Endpoint, str]]:
    for row in app.routes():
        for guard in GUARDS:
            if guard.applies(row) and not guard.is_of_path:
                yield from ((guard, row, method) for method in guard.methods(row))


@each("guard, row, method", refused)
def test_what_stops_a_request_is_among_its_responses(
    guard: Guard, row: Endpoint, method: str
) -> None:
    refusal = guard.refusal_of(row)
    response = found(operation_at(path_of(row), method)["responses"][str(refusal.http_status)])
    assert f"`{refusal.kind.code}`" in response["description"]
    for name in guard.headers(row):
        if name not in ("connection", "upgrade"):
            assert name in {one.lower() for one in response["headers"]}


def test_every_example_is_what_its_schema_allows() -> None:
    from jsonschema import Draft202012Validator  # takes a second, in every worker

    count = 0
    components = {"components": reference().document["components"]}
    for path, method, one in reference().operations():
        for content in one.get("requestBody", {}).get("content", {}).values():
            validator = Draft202012Validator({**content["schema"], **components})
            for example in content.get("examples", {}).values():
                assert [e.message for e in validator.iter_errors(example["value"])] == [], path
                count += 1
        for parameter in map(found, one["parameters"]):
            if "example" in parameter:
                Draft202012Validator(parameter["schema"]).validate(parameter["example"])
        for response in map(found, one["responses"].values()):
            for content in response.get("content", {}).values():
                validator = Draft202012Validator({**content.get("schema", {}), **components})
                for example in content.get("examples", {}).values():
                    assert validator.is_valid(example["value"]), (path, method, example)
    assert count > 20


def test_every_call_with_a_json_body_has_an_example() -> None:
    bare = [
        path
        for path, _, one in reference().operations()
        for kind, content in one.get("requestBody", {}).get("content", {}).items()
        if kind == "application/json" and not content.get("examples")
    ]
    assert bare == []


def test_names_of_operations_are_unique() -> None:
    names = [one["operationId"] for _, _, one in reference().operations()]
    assert len(names) == len(set(names))


def test_every_header_that_a_page_may_read_is_described() -> None:
    assert {name.lower() for name in EXPOSED} <= {name.lower() for name in HEADERS}


def names_read(read: Any) -> set[str]:
    """The parameters that a reader looks for."""
    names: set[str] = set()

    class Query(dict[str, Any]):
        def get(self, name: str, default: Any = None) -> Any:
            names.add(name)
            return default

    read(Query())
    return names


END_USERS = EndUserKey(b"a key for tests only")


def see(scope: Any) -> Visibility:
    return Visibility("key", "acct_1", "key_1")


def test_the_parameters_of_the_log_are_those_that_it_reads() -> None:
    def read(query: Any) -> None:
        read_list_query(query, see=see, seal=None, end_users=END_USERS, now=EPOCH)  # type: ignore[arg-type]

    (listed,) = logs_reference.LIST
    assert {one.name for one in listed.parameters} - {"label.KEY"} == names_read(read)


def test_the_parameters_of_a_summary_are_those_that_it_reads() -> None:
    (summary,) = logs_reference.SUMMARY
    read = names_read(lambda query: read_summary_query(query, see=see, now=EPOCH))
    refused_there = {"model", "status", "unit_type", "error_code", "ref", *ATTRIBUTED}
    assert {one.name for one in summary.parameters} == read - refused_there


class Silent(TypedDict):
    """A body with a member that says nothing of itself."""

    described: Annotated[int, Meta(description="Something.")]
    silent: int


def row_with(*describes: stated.Operation, path: str = "/door") -> Endpoint:
    return Endpoint("door", path, ("GET",), Reads, auth="none", describes=describes)


def operation(**members: Any) -> stated.Operation:
    return stated.Operation(
        **{"name": "open", "tag": "Doors", "summary": "Open.", "responses": ()} | members
    )


@cases(
    "row, fault",
    (row_with(), "has no description of GET"),
    (row_with(operation(method="POST")), "has no POST"),
    (row_with(operation(), operation()), "open is there twice"),
    (row_with(operation(), path="/door/([^/]+)"), "without names"),
    (row_with(operation(responses=stated.answers(Silent, "It."))), "Silent.silent"),
    (
        row_with(operation(responses=(stated.Response(headers=("X-New",)),))),
        "headers without a description: X-New",
    ),
)
def test_what_is_not_described_does_not_start(row: Endpoint, fault: str) -> None:
    with pytest.raises(Undescribed, match=re.escape(fault)):
        document([row])


def test_paths_are_written_with_their_parts_by_name() -> None:
    assert shown_paths(r"(?:/v1)?/a/([^/]+)/b/(.+)", ("x", "y")) == [
        ("/v1/a/{x}/b/{y}", ""),
        ("/a/{x}/b/{y}", ""),
    ]
    assert shown_paths(r"/m/(.+)(?::|%3[Aa])(one|two)", ("m",)) == [
        ("/m/{m}:one", "one"),
        ("/m/{m}:two", "two"),
    ]


def ask(*lines: str, method: str = "GET", **config: Any) -> Response:
    async def scene() -> Response:
        world = World(config=FakeConfig(**config))
        async with served(world.application()) as address:
            return await address.request(request(method, "/openapi.json", *lines, key=None))

    return run(scene())


def test_it_is_served_without_a_key_and_once() -> None:
    first = ask()
    assert (first.status, first.json) == (200, reference().document)
    assert first.headers["content-type"] == "application/json"
    assert "max-age" in first.headers["cache-control"]
    tag = first.headers["etag"]
    for known in (tag, f'"other", W/{tag}', "*"):
        again = ask(f"If-None-Match: {known}")
        assert (again.status, again.body, again.headers["etag"]) == (304, b"", tag)
        assert "content-type" not in again.headers
    assert ask('If-None-Match: "other"').status == 200


def test_it_can_be_turned_off() -> None:
    response = ask(describe=False)
    assert (response.status, response.code) == (404, "not_found")


def test_pages_of_other_origins_may_read_it() -> None:
    response = ask("Origin: https://a.example", cors_origins=("https://a.example",))
    assert response.headers["access-control-allow-origin"] == "https://a.example"
