"""What an upstream is sent: the client's own bytes, changed only where the specification says so.

Spec: Limits, Chat pre-charge 2; contract §5 and §7. And what it is never sent: the client's key.
"""

from __future__ import annotations

import pytest

from tests.support.house import House
from tests.support.tenants import Tenant

SAID = b'[{"role":"user","content":"Hi \\u00fc \xc3\xbc"}]'

UNCHANGED = {
    "explicit maximum": b'{"model":"m","max_tokens":9,"messages":%b}' % SAID,
    "above the ceiling": b'{"model":"m","max_tokens":90000,"messages":%b}' % SAID,
    "newer name for the older channel": b'{"model":"m","max_completion_tokens":9,"messages":%b}'
    % SAID,
    "newer name for the newer channel": b'{"model":"newer","max_completion_tokens":9,"messages":%b}'
    % SAID,
    "white space": b' {\n\t"model" : "m" ,\r\n "max_tokens": 9,  "messages":%b } \n' % SAID,
    "escapes": b'{"mod\\u0065l":"\\u006d","max_tokens":9,"messages":%b}' % SAID,
    "members nobody knows": b'{"model":"m","max_tokens":9,"x":{"y":[1.50,1E3,-0]},"messages":%b,'
    b'"seed":null,"logit_bias":{"50256":-100}}' % SAID,
    "no ceiling, no maximum": b'{"model":"open-ended","messages":%b}' % SAID,
    "stream that asks for usage": b'{"model":"m","max_tokens":9,"stream":true,'
    b'"stream_options":{ "include_usage" : true },"messages":%b}' % SAID,
    "stream false": b'{"model":"m","max_tokens":9,"stream":false,"messages":%b}' % SAID,
}
CHANGED = {
    "omitted maximum": (
        b'{"model":"m", "messages": %b }' % SAID,
        b'{"model":"m", "messages": %b ,"max_tokens":1000}' % SAID,
    ),
    "omitted maximum, newer name": (
        b'{"model":"newer","messages":%b}' % SAID,
        b'{"model":"newer","messages":%b,"max_completion_tokens":1000}' % SAID,
    ),
    "maximum null": (
        b'{"model":"m","max_tokens": null ,"messages":%b}' % SAID,
        b'{"model":"m","max_tokens": 1000 ,"messages":%b}' % SAID,
    ),
    "older name for the newer channel": (
        b'{"model":"newer","max_tokens" : 9,"messages":%b}' % SAID,
        b'{"model":"newer","max_completion_tokens" : 9,"messages":%b}' % SAID,
    ),
    "alias": (
        b'{"model" : "n", "max_tokens":9,"messages":%b}' % SAID,
        b'{"model" : "m", "max_tokens":9,"messages":%b}' % SAID,
    ),
    "stream without options": (
        b'{"model":"m","max_tokens":9,"stream":true,"messages":%b}' % SAID,
        b'{"model":"m","max_tokens":9,"stream":true,"messages":%b,'
        b'"stream_options":{"include_usage":true}}' % SAID,
    ),
    "stream that wants no usage": (
        b'{"model":"m","max_tokens":9,"stream":true,"messages":%b,'
        b'"stream_options":{"include_usage": false, "include_obfuscation":false}}' % SAID,
        b'{"model":"m","max_tokens":9,"stream":true,"messages":%b,'
        b'"stream_options":{"include_usage": true, "include_obfuscation":false}}' % SAID,
    ),
    "stream, everything omitted": (
        b'{"stream":true,"model":"m","messages":%b}' % SAID,
        b'{"stream":true,"model":"m","messages":%b,"max_tokens":1000,'
        b'"stream_options":{"include_usage":true}}' % SAID,
    ),
}


@pytest.mark.parametrize("body", UNCHANGED.values(), ids=UNCHANGED)
def test_body_that_needs_no_change_is_forwarded_as_it_is(
    h: House, tenant: Tenant, body: bytes
) -> None:
    assert tenant.client.chat(body).status == 200
    assert h.upstream.last_request()["body"].encode() == body


@pytest.mark.parametrize(("body", "forwarded"), CHANGED.values(), ids=CHANGED)
def test_only_what_must_change_changes(
    h: House, tenant: Tenant, body: bytes, forwarded: bytes
) -> None:
    assert tenant.client.chat(body).status == 200
    assert h.upstream.last_request()["body"].encode() == forwarded


@pytest.mark.parametrize("place", ["bearer", "x-api-key", "x-goog-api-key", "query", "all"])
def test_clients_key_never_reaches_an_upstream(h: House, tenant: Tenant, place: str) -> None:
    key = tenant.key
    headers = {
        "bearer": {"Authorization": f"Bearer {key}"},
        "x-api-key": {"x-api-key": key},
        "x-goog-api-key": {"x-goog-api-key": key},
        "query": {},
        "all": {"Authorization": f"Bearer {key}", "x-api-key": key, "x-alt-api-key": key},
    }[place]
    path = "/v1/chat/completions" + (f"?key={key}" if place in ("query", "all") else "")
    private = {"Cookie": f"key={key}", "X-Forwarded-For": "10.1.2.3", "X-Anything": key}
    call = type(tenant.client)(tenant.client.url, None).begin(
        "POST",
        path,
        {"model": "m", "messages": [{"role": "user", "content": "Hi"}]},
        headers={**headers, **private},
    )
    assert call.reply().status == 200
    sent = h.upstream.last_request()
    assert key not in repr(sent)
    assert (sent["path"], sent["query"]) == ("/v1/chat/completions", "")
    assert sent["headers"]["authorization"] == "Bearer key-of-one"
    assert set(sent["headers"]) <= {
        "accept",
        "accept-encoding",
        "authorization",
        "content-length",
        "content-type",
        "host",
        "user-agent",
    }


def test_no_header_of_the_upstream_reaches_a_client(h: House, tenant: Tenant) -> None:
    sim = {"headers": {"X-Upstream-Org": "org-1", "Set-Cookie": "a=b", "Server": "upstream"}}
    for stream in (False, True):
        reply = tenant.client.chat(model="m", stream=stream, sim=sim)
        assert reply.status == 200
        assert set(reply.headers) <= {
            "cache-control",
            "connection",
            "content-length",
            "content-type",
            "date",
            "transfer-encoding",
            "x-accel-buffering",
            "x-gateway-trace",
        }
