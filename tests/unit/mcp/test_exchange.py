"""Messages of MCP, exchanged and of any shape."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.mcp.envelope import PostHead
from gw.mcp.exchange import BATCH_BYTES_MAX, BATCH_MAX, Exchange, HandledMessage
from gw.mcp.json_rpc import (
    CAPABILITIES,
    HANDSHAKE,
    META_CAPABILITIES,
    META_SERVER,
    META_VERSION,
    SERVER_INFO,
    STATELESS,
    SUPPORTED,
)
from tests.support.aio import run
from tests.support.rows import cases, each
from tests.unit.mcp.fakes import JSON, META, FakeToolbox, message, post, stateless

PING = message("ping")
NOTIFICATION = {"jsonrpc": "2.0", "method": "notifications/initialized"}
POSTED = {"jsonrpc": "2.0", "id": 4, "result": {}}


def code(reply: tuple[int, Any]) -> tuple[int, int, Any]:
    """Status, error code and id of a reply that is an error."""
    status, value = reply
    assert value.keys() == {"jsonrpc", "id", "error"}
    assert value["jsonrpc"] == "2.0"
    assert value["error"]["message"].endswith(".")
    return status, value["error"]["code"], value["id"]


@cases("content_type", None, "", "text/plain", "application/jsonp")
async def test_a_content_type_that_is_not_json_is_415(content_type: str | None) -> None:
    assert code(await post(PING, content_type=content_type)) == (415, -32600, None)


@cases("content_type", "application/json", "Application/JSON; charset=utf-8")
async def test_json_is_json_in_any_case_and_with_parameters(content_type: str) -> None:
    assert (await post(PING, content_type=content_type))[0] == 200


@cases(
    "accept, status",
    (None, 200),
    (" ", 200),
    ("*/*", 200),
    ("application/*;q=0.1", 200),
    ("text/event-stream, Application/Json; q=0.5", 200),
    ("application/json;q=0", 406),
    ("application/json; q=0.000, text/html", 406),
    ("text/event-stream", 406),
    ("application/jsonp", 406),
)
async def test_accept_must_leave_room_for_json(accept: str | None, status: int) -> None:
    reply = await post(PING, accept=accept)
    assert reply[0] == status
    if status != 200:
        assert code(reply) == (406, -32600, None)


@cases(
    "body",
    b"",
    b"{",
    b"\xff",
    b'"\xff"',
    b"[" * 200_000,
    b"NaN",
    b"1e999",
    b"{} {}",
    b"\xef\xbb\xbf{}",
)
async def test_what_is_not_json_is_a_parse_error(body: bytes) -> None:
    assert code(await post(body)) == (400, -32700, None)


@cases(
    "value, request_id",
    (1, None),
    ("ping", None),
    (None, None),
    ({}, None),
    ({"jsonrpc": "2.0", "id": 1}, 1),
    ({"jsonrpc": "1.0", "id": 1, "method": "ping"}, 1),
    ({"id": "a", "method": "ping"}, "a"),
    ({"jsonrpc": "2.0", "id": None, "method": "ping"}, None),
    ({"jsonrpc": "2.0", "id": True, "method": "ping"}, None),
    ({"jsonrpc": "2.0", "id": [1], "method": "ping"}, None),
    ({"jsonrpc": "2.0", "id": 1, "method": 5}, 1),
    ({"jsonrpc": "2.0", "method": None}, None),
)
async def test_what_is_no_request_is_refused(value: Any, request_id: Any) -> None:
    assert code(await post(value)) == (400, -32600, request_id)


@cases("request_id", 0, -1, 1.5, "", "é", 2**53, 10**30)
async def test_an_id_comes_back_as_it_went(request_id: Any) -> None:
    assert await post(message("ping", request_id)) == (
        200,
        {"jsonrpc": "2.0", "id": request_id, "result": {}},
    )


@each("version", [None, *SUPPORTED])
@cases(
    "value",
    NOTIFICATION,
    POSTED,
    {"jsonrpc": "2.0", "id": None, "error": {"code": 1, "message": "x"}},
)
async def test_notifications_and_posted_responses_are_accepted(
    value: Any, version: str | None
) -> None:
    assert await post(value, version=version) == (202, None)


@cases("value", PING, NOTIFICATION, [PING])
@cases("version", "", "2026-01-01", "2025-11-25,2025-11-25", "x" * 5000)
async def test_a_version_that_is_not_served_is_refused(value: Any, version: str) -> None:
    status, reply = await post(value, version=version)
    assert (status, reply["error"]["code"]) == (400, -32022)
    assert reply["id"] == (1 if value is PING else None)
    data = reply["error"]["data"]
    assert data["supported"] == list(SUPPORTED)
    assert version.startswith(data["requested"])
    assert len(data["requested"]) <= 60


@each("wanted", [*HANDSHAKE, STATELESS, "1999-01-01", ""])
async def test_a_handshake_is_of_a_version_that_has_one(wanted: str) -> None:
    request = message("initialize", protocolVersion=wanted, capabilities={}, clientInfo={})
    status, reply = await post(request)
    result = reply["result"]
    assert status == 200
    assert result.pop("instructions")
    assert result == {
        "protocolVersion": wanted if wanted in HANDSHAKE else "2025-11-25",
        "capabilities": CAPABILITIES,
        "serverInfo": SERVER_INFO,
    }


@cases("params", {}, {"protocolVersion": 5}, {"protocolVersion": None})
async def test_a_handshake_names_its_version(params: dict[str, Any]) -> None:
    request = message("initialize", **params, clientInfo={})
    assert code(await post(request)) == (200, -32602, 1)


@each("version", [None, *HANDSHAKE])
async def test_methods_of_the_handshake_era(version: str | None) -> None:
    assert await post(PING, version=version) == (200, {"jsonrpc": "2.0", "id": 1, "result": {}})
    _, listed = await post(message("tools/list"), version=version)
    assert listed["result"].keys() == {"tools"}
    (tool,) = listed["result"]["tools"]
    assert tool["annotations"] == {
        "readOnlyHint": True,
        "destructiveHint": False,
        "idempotentHint": True,
        "openWorldHint": False,
    }
    for unknown in ("server/discover", "resources/list", "tools/lists", "", "Ping"):
        assert code(await post(message(unknown), version=version)) == (200, -32601, 1)


async def test_a_tool_gives_the_same_as_a_value_and_as_text() -> None:
    call = message("tools/call", name="echo", arguments={"q": "é\u0001你"})
    _, reply = await post(call)
    found = {"name": "echo", "arguments": {"q": "é\u0001你"}}
    text = '{"name":"echo","arguments":{"q":"é\\u0001你"}}'
    assert reply["result"] == {
        "content": [{"type": "text", "text": text}],
        "structuredContent": found,
        "isError": False,
    }


async def test_a_tool_that_fails_says_why() -> None:
    _, reply = await post(message("tools/call", name="echo", arguments={"fail": 1}))
    text = {"type": "text", "text": "Ask for something else."}
    assert reply["result"] == {"content": [text], "isError": True}


BAD_CALLS: list[Any] = [
    {"name": "nothing"},
    {"name": "Echo"},
    {"name": None},
    {"name": ["echo"]},
    {"arguments": {}},
    {"name": "echo", "arguments": []},
    {"name": "echo", "arguments": "{}"},
    {"name": "echo", "arguments": None},
]


@each("params", BAD_CALLS)
async def test_a_call_that_is_none_is_a_protocol_error(params: dict[str, Any]) -> None:
    assert code(await post(message("tools/call", **params))) == (200, -32602, 1)
    head, request = stateless("tools/call", **params)
    named = params.get("name")
    assert code(await post(request, head, name=named if isinstance(named, str) else None)) == (
        400,
        -32602,
        1,
    )


@cases("params", [], "x", 5, False)
async def test_params_are_an_object(params: Any) -> None:
    for method in ("ping", "tools/list", "tools/call", "initialize"):
        request = {**message(method), "params": params}
        assert code(await post(request)) == (200, -32602, 1)


@cases("version", None, "2024-11-05", "2025-03-26")
async def test_a_batch_is_answered_in_order(version: str | None) -> None:
    batch = [
        message("ping", "a"),
        NOTIFICATION,
        message("nothing", "b"),
        5,
        POSTED,
        message("tools/call", "c", name="echo", arguments={"fail": 1}),
    ]
    status, replies = await post(batch, version=version)
    assert status == 200
    assert [reply["id"] for reply in replies] == ["a", "b", None, "c"]
    assert [reply.get("error", {}).get("code") for reply in replies] == [None, -32601, -32600, None]


async def test_a_batch_without_requests_is_accepted() -> None:
    assert await post([NOTIFICATION, POSTED]) == (202, None)


@cases(
    "batch",
    [],
    [PING] * (BATCH_MAX + 1),
    [PING, message("initialize", protocolVersion="2025-03-26")],
)
async def test_a_batch_that_will_not_do(batch: list[Any]) -> None:
    assert code(await post(batch)) == (400, -32600, None)


@cases("version", "2025-06-18", "2025-11-25", STATELESS)
async def test_later_versions_have_no_batches(version: str) -> None:
    assert code(await post([PING], version=version)) == (400, -32600, None)


async def test_the_responses_of_a_batch_have_a_bound() -> None:
    text = "x" * (BATCH_BYTES_MAX // 6)
    batch = [message("tools/call", n, name="echo", arguments={"q": text}) for n in range(BATCH_MAX)]
    _, replies = await post(batch)
    refused = [one["id"] for one in replies if "error" in one]
    # Each is there twice, as a value and as text.
    assert refused == list(range(3, BATCH_MAX))
    assert {one["error"]["code"] for one in replies if "error" in one} == {-32600}


async def test_discovery() -> None:
    head, request = stateless("server/discover")
    status, reply = await post(request, head)
    result = reply["result"]
    assert status == 200
    assert result.pop("instructions")
    assert result.pop("ttlMs") > 0
    assert result == {
        "supportedVersions": list(SUPPORTED),
        "capabilities": CAPABILITIES,
        "cacheScope": "public",
        "resultType": "complete",
        "_meta": {META_SERVER: SERVER_INFO},
    }


async def test_results_without_a_handshake_are_complete() -> None:
    head, request = stateless("tools/list")
    result = (await post(request, head))[1]["result"]
    assert result.keys() == {"tools", "ttlMs", "cacheScope", "resultType", "_meta"}
    head, request = stateless("tools/call", name="echo", arguments={"fail": 1})
    status, reply = await post(request, head)
    assert (status, reply["result"]["resultType"], reply["result"]["isError"]) == (
        200,
        "complete",
        True,
    )


@cases("method", "initialize", "ping", "resources/list", "subscriptions/listen")
async def test_an_unknown_method_is_404_without_a_handshake(method: str) -> None:
    head, request = stateless(method, protocolVersion=STATELESS)
    assert code(await post(request, head)) == (404, -32601, 1)


@cases(
    "meta",
    None,
    "x",
    {},
    {META_VERSION: STATELESS},
    {META_CAPABILITIES: {}},
    {META_VERSION: STATELESS, META_CAPABILITIES: None},
)
async def test_the_envelope_is_needed(meta: Any) -> None:
    head, _ = stateless("tools/list")
    request = {**message("tools/list"), "params": {"_meta": meta}}
    assert code(await post(request, head)) == (400, -32602, 1)
    others: list[Any] = [{}, None, []]
    for params in others:
        assert code(await post({**request, "params": params}, head)) == (400, -32602, 1)


@cases(
    "fields",
    {"version": None},
    {"version": "2025-11-25"},
    {"method": None},
    {"method": "tools/list"},
    {"method": "tools/call,tools/call"},
    {"name": None},
    {"name": "Echo"},
    {"name": "=?base64?ZWNobyE=?="},
    {"name": "=?base64?ZWNo?="},
    {"name": "=?base64?*?="},
    {"name": "=?base64?/w==?="},
)
async def test_headers_say_what_the_message_says(fields: dict[str, Any]) -> None:
    head, request = stateless("tools/call", name="echo")
    assert (await post(request, head))[0] == 200
    assert code(await post(request, head, **fields)) == (400, -32020, 1)


async def test_a_name_may_be_encoded() -> None:
    head, request = stateless("tools/call", name="echo")
    assert (await post(request, head, name="=?base64?ZWNobw==?="))[0] == 200


@cases("version", "2027-01-01", "")
async def test_a_version_in_the_message_alone_is_looked_at(version: str) -> None:
    request = message("tools/list", _meta={**META, META_VERSION: version})
    status, reply = await post(request)
    assert (status, reply["error"]["code"]) == (400, -32022)
    assert reply["error"]["data"]["requested"] == version


async def test_the_meta_of_a_handshake_version_may_hold_anything() -> None:
    metas: list[Any] = [{META_VERSION: 5}, {META_VERSION: "2025-11-25"}, {"progressToken": 1}, []]
    for meta in metas:
        request = message("tools/list", _meta=meta)
        assert (await post(request, version="2025-11-25"))[0] == 200


async def test_what_is_counted_has_no_name_of_a_stranger() -> None:
    seen: list[HandledMessage] = []
    for value in (
        PING,
        message("x" * 100),
        message("tools/call", name="y"),
        message("tools/call", name="echo"),
        message("tools/call", name="echo", arguments={"fail": 1}),
        NOTIFICATION,
        {"jsonrpc": "2.0", "method": "notifications/z"},
        5,
        b"{",
    ):
        await post(value, observed=seen)
    assert [(one.method, one.tool, one.outcome, one.code) for one in seen] == [
        ("ping", "", "ok", 0),
        ("", "", "refused", -32601),
        ("tools/call", "", "error", -32602),
        ("tools/call", "echo", "ok", 0),
        ("tools/call", "echo", "tool_error", 0),
        ("notifications/initialized", "", "ok", 0),
        ("", "", "ok", 0),
        ("", "", "refused", -32600),
        ("", "", "refused", -32700),
    ]
    assert all(one.seconds >= 0 for one in seen)


async def test_a_fault_of_ours_is_of_the_request_that_met_it() -> None:
    exchange = Exchange(JSON, FakeToolbox())
    call = message("tools/call", 7, name="echo", arguments={"break": 1})
    with pytest.raises(RuntimeError):
        await exchange.reply(json.dumps(call).encode())
    assert exchange.request is not None
    assert exchange.request.id == 7
    exchange.failed(-32603)
    (served,) = exchange.served
    assert (served.tool, served.outcome, served.code) == ("echo", "error", -32603)


WORDS = st.sampled_from(
    ["initialize", "ping", "tools/list", "tools/call", "server/discover", "echo", "2.0", *SUPPORTED]
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | WORDS
KEYS = st.text() | st.sampled_from(
    ["jsonrpc", "id", "method", "params", "name", "arguments", "_meta", "result", "protocolVersion"]
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner), max_leaves=10
)
METAS = st.fixed_dictionaries({}, optional={META_VERSION: SCALARS, META_CAPABILITIES: VALUES})
PARAMS = VALUES | st.fixed_dictionaries(
    {}, optional={"name": SCALARS, "arguments": VALUES, "_meta": METAS | VALUES}
)
MESSAGES = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0") | SCALARS},
    optional={"id": SCALARS, "method": WORDS | SCALARS, "params": PARAMS},
)
FIELDS = st.none() | st.just("application/json") | WORDS | st.text()
HEADS = st.builds(
    PostHead, content_type=FIELDS, accept=FIELDS, version=FIELDS, method=FIELDS, name=FIELDS
)
STATUSES = {200, 202, 400, 404, 406, 415}


def check(reply: tuple[int, Any]) -> None:
    """A status of the protocol, with a body that fits."""
    status, value = reply
    assert status in STATUSES
    assert (value is None) == (status == 202)
    for one in value if isinstance(value, list) else [value] if value is not None else []:
        assert one["jsonrpc"] == "2.0"
        assert ("result" in one) != ("error" in one)
        assert status == 200 or "error" in one


@given(MESSAGES | st.lists(MESSAGES | VALUES) | VALUES, HEADS)
def test_any_message_has_its_reply(value: Any, head: PostHead) -> None:
    body = json.dumps(value).encode()
    check(run(post(body, head)))
    check(run(post(body, head, content_type="application/json", accept=None)))


@given(st.binary(), HEADS)
def test_any_body_has_its_reply(body: bytes, head: PostHead) -> None:
    check(run(post(body, head, content_type="application/json", accept=None)))
