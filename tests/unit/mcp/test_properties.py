"""Whatever is posted, in whatever head: a reply of the protocol, and never a fault of ours."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gw.mcp.exchange import META_CAPABILITIES, META_VERSION, SUPPORTED, Head
from tests.support.aio import run
from tests.unit.mcp.fakes import post

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
    Head, content_type=FIELDS, accept=FIELDS, version=FIELDS, method=FIELDS, name=FIELDS
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
def test_any_message_has_its_reply(value: Any, head: Head) -> None:
    body = json.dumps(value).encode()
    check(run(post(body, head)))
    check(run(post(body, head, content_type="application/json", accept=None)))


@given(st.binary(), HEADS)
def test_any_body_has_its_reply(body: bytes, head: Head) -> None:
    check(run(post(body, head, content_type="application/json", accept=None)))
