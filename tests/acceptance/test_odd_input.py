"""Requests that look odd and are good all the same: each is answered, upstream once, and paid once.

The counterpart of `test_bad_input.py`: strictness must not hit what clients really send.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.acceptance.bad_inputs.case import (
    ALIAS,
    CHAT,
    GOOD,
    MODEL,
    Case,
    chat_json,
    chunked,
    request,
)
from tests.acceptance.bad_inputs.stand import FUNDS_NANO_USD, SETTINGS, Stand
from tests.support.house import House

__all__ = ["SETTINGS"]


# 10 tokens in at 1 USD, 5 out at 10 USD per million, on every call.
SIM = {"usage": {"input": 10, "output": 5}}
COST_NANO_USD = 60_000
PLAIN = chat_json(sim=SIM)
DEEP = b"[" * 100 + b"]" * 100
CHUNKED = "Transfer-Encoding: chunked"


def with_member(text: bytes) -> bytes:
    return PLAIN[:-1] + b"," + text + b"}"


_BODIES = {
    "white space all over": json.dumps(json.loads(PLAIN), indent=3)
    .replace("\n", "\r\n\t")
    .encode(),
    "white space around": b"\r\n\t " + PLAIN + b" \r\n",
    "everything in escapes": PLAIN.replace(b'"model"', rb'"\u006d\u006F\u0064el"').replace(
        b'"sim-model"', rb'"sim\u002dmodel"'
    ),
    "an alias": chat_json(model=ALIAS, sim=SIM),
    "surrogates in a pair": chat_json(messages=[{"role": "user", "content": "😀"}], sim=SIM),
    "characters beyond the first plane": json.dumps(
        {**json.loads(PLAIN), "user": "😀 \u2028 \ufeff"}, ensure_ascii=False
    ).encode(),
    "an escaped NUL": with_member(rb'"user":"a\u0000b"'),
    "900 members nobody knows": with_member(
        b",".join(b'"x%d":{"y":[%d]}' % (n, n) for n in range(900))
    ),
    "a hundred deep": with_member(b'"x":' + DEEP),
    "an integer of 400 digits": with_member(b'"x":' + b"9" * 400),
    "nulls": with_member(
        b'"stream":null,"max_tokens":null,"max_completion_tokens":null,"temperature":null,'
        b'"tools":null,"tool_choice":null,"stream_options":null,"response_format":null,"n":null'
    ),
    "both names of the maximum": with_member(b'"max_tokens":9,"max_completion_tokens":9'),
    "the bounds of numbers": with_member(b'"max_tokens":1,"n":1,"temperature":0'),
    "the other bound": with_member(b'"temperature":2.0'),
    "empty tools": with_member(b'"tools":[]'),
    "names that differ in more than case": with_member(b'"models":1,"mode":2,"max_token":3'),
    "content in parts": chat_json(
        messages=[{"role": "user", "content": [{"type": "text", "text": "Hello", "x": 1}]}], sim=SIM
    ),
    "every role": chat_json(
        messages=[
            {"role": "developer", "content": "Be brief."},
            {"role": "system", "content": [{"type": "text", "text": "Be kind."}]},
            {"role": "user", "content": "Hello", "name": "me"},
            {
                "role": "assistant",
                "tool_calls": [
                    {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{"}}
                ],
            },
            {"role": "tool", "content": "1", "tool_call_id": "a"},
            {"role": "function", "content": "1", "name": "f"},
            {"role": "assistant", "content": None},
        ],
        sim=SIM,
    ),
}
_CONTENT_TYPES = (
    "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x",
    "application/json; charset=utf-8", "application/vnd.api+json", "",
)  # fmt: skip
_WIRES = {
    "one chunk": request(CHUNKED, body=chunked(PLAIN), length=False),
    "chunks of one byte": request(
        CHUNKED, body=chunked(*[PLAIN[n : n + 1] for n in range(len(PLAIN))]), length=False
    ),
    "chunks with zeros before their size": request(
        CHUNKED, body=b"000%x\r\n%b\r\n000\r\n\r\n" % (len(PLAIN), PLAIN), length=False
    ),
    "chunked in capitals": request("TRANSFER-ENCODING: CHUNKED", body=chunked(PLAIN), length=False),
    "a length with zeros before": request(
        f"Content-Length: 000{len(PLAIN)}", body=PLAIN, length=False
    ),
    "an absolute target": request(body=PLAIN, target=f"http://gateway{CHAT}"),
    "the key in the query": request(body=PLAIN, target=f"{CHAT}?key={{KEY}}", key=None),
    "an empty line before": b"\r\n" + request(body=PLAIN),
    "an expectation that is nonsense": request("Expect: nothing", body=PLAIN),
    "two hundred headers": request(*[f"X-{n}: {n}" for n in range(200)], body=PLAIN),
    "a header of 60 KB": request("X: " + "a" * 60_000, body=PLAIN),
    "values that are not ASCII": request("X-Name: \xe4\xff", "session_id: \xfc", body=PLAIN),
}

CASES = (
    *(Case(f"body: {name}", request(body=body), (GOOD,)) for name, body in _BODIES.items()),
    *(
        Case(f"content type: {value!r}", request(f"Content-Type: {value}", body=PLAIN), (GOOD,))
        for value in _CONTENT_TYPES
    ),
    *(Case(f"wire: {name}", wire, (GOOD,)) for name, wire in _WIRES.items()),
    Case("HTTP/1.0", request(body=PLAIN, version="HTTP/1.0"), (GOOD,), stays=False),
    Case("five in a row", request(body=PLAIN) * 5, (GOOD,) * 5),
)


@pytest.fixture(scope="module")
def stand(shared: House) -> Iterator[Stand]:
    """The house of this module; at the end there is one paid row for each call."""
    built = Stand(shared)
    yield built
    built.check_quiet()
    built.check_no_fault()
    rows = shared.rows(built.tenant)
    assert {row["request_id"].replace("-", "") for row in rows} == set(built.traces)
    assert {(row["status"], row["model"], row["cost_nano_usd"]) for row in rows} == {
        ("success", MODEL, COST_NANO_USD)
    }
    spent = COST_NANO_USD * len(rows)
    assert shared.balance_nano_usd(built.tenant) == FUNDS_NANO_USD - spent
    assert shared.upstream.stats()["requests"] == len(rows)
    assert shared.verify()["ok"]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_odd_but_good_request_is_answered_and_paid_once(stand: Stand, case: Case) -> None:
    stand.check(case)
