"""Client connections over which one call follows another, and old ones that know one call each."""

from __future__ import annotations

import http.client
import json
import socket
from typing import Any
from urllib.parse import urlsplit

from tests.support.client import CHAT, chat_body
from tests.support.house import House
from tests.support.tenants import Tenant
from tests.support.waiting import until


def test_kept_connection_survives_whatever_ends_well(h: House, tenant: Tenant) -> None:
    """Errors, refusals and streams that the upstream cut: none of them costs the connection."""
    parts = urlsplit(h.gateway.url)
    assert parts.hostname is not None
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=30)
    good = {"Authorization": f"Bearer {tenant.key}"}

    def ask(method: str, path: str, body: Any = None, **headers: str) -> int:
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection.request(method, path, data, {**good, **headers})
        with connection.getresponse() as answer:
            answer.read()
            return answer.status

    try:
        connection.connect()
        local = connection.sock.getsockname()
        statuses = [
            ask("POST", CHAT, chat_body()),
            ask("POST", CHAT, chat_body(stream=True)),
            ask("POST", CHAT, chat_body(stream=True, sim={"events": 9, "cut_after_events": 4})),
            ask("GET", "/v1/models"),
            ask("POST", CHAT, b"no JSON"),
            ask("POST", CHAT, chat_body(model="nothing")),
            ask("POST", CHAT, chat_body(), Authorization="Bearer junk"),
            ask("GET", CHAT),
            ask("GET", "/nowhere"),
            ask("POST", CHAT, chat_body(sim={"status": 429})),
            ask("POST", CHAT, chat_body(stream=True, sim={"status": 500})),
            ask("POST", CHAT, chat_body(stream=True)),
        ]
        assert statuses == [200, 200, 200, 200, 400, 400, 401, 405, 404, 429, 500, 200]
        assert connection.sock.getsockname() == local  # it has never been made anew
    finally:
        connection.close()


def test_client_of_http_1_0_is_streamed_to_and_closed(h: House, tenant: Tenant) -> None:
    body = json.dumps(chat_body(stream=True, sim={"text": "Hello you"})).encode()
    head = (
        f"POST {CHAT} HTTP/1.0\r\nAuthorization: Bearer {tenant.key}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    parts = urlsplit(h.gateway.url)
    with socket.create_connection((parts.hostname, parts.port), timeout=30) as sock:
        sock.sendall(head.encode() + body)
        with sock.makefile("rb") as answer:
            whole = answer.read()  # up to the end of the connection
    head_lines, _, events = whole.partition(b"\r\n\r\n")
    assert head_lines.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"transfer-encoding" not in head_lines.lower()
    assert events.startswith(b"data: {")
    assert events.endswith(b"\n\ndata: [DONE]\n\n")


def test_calls_sent_ahead_are_answered_in_order(h: House, tenant: Tenant) -> None:
    parts = urlsplit(h.gateway.url)
    requests = []
    for number in range(3):
        body = json.dumps(chat_body(sim={"text": f"answer {number}"})).encode()
        requests.append(
            f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nx-api-key: {tenant.key}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
    with socket.create_connection((parts.hostname, parts.port), timeout=30) as sock:
        sock.sendall(b"".join(requests))
        seen = b""
        while seen.count(b"HTTP/1.1 200 OK") < 3 or b"answer 2" not in seen:
            piece = sock.recv(65536)
            assert piece, seen
            seen += piece
    places = [seen.index(f"answer {number}".encode()) for number in range(3)]
    assert places == sorted(places)
    until(lambda: len(h.rows(tenant)) == 3, what="three rows")


def test_upstream_that_closes_after_its_answer_is_called_anew(h: House, tenant: Tenant) -> None:
    h.upstream.fault("one", headers={"Connection": "close"})
    for _ in range(5):
        assert tenant.client.chat().status == 200
    assert h.upstream.requested("one", "two") == [5, 0]


def test_upstream_that_was_restarted_is_called_without_a_failure(h: House, tenant: Tenant) -> None:
    """The connections that were kept to it are gone, which is noticed before one is used."""
    calls = [tenant.client.begin_chat(sim={"delay_headers_ms": 50}) for _ in range(5)]
    assert [call.reply().status for call in calls] == [200] * 5
    h.restart_upstream()
    calls = [tenant.client.begin_chat() for _ in range(5)]
    assert [call.reply().status for call in calls] == [200] * 5
    assert h.upstream.requested("one", "two") == [5, 0]
