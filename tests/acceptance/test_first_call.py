"""The first thing a user does: one call, one stream, one look at the balance."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.support.house import House, house

pytestmark = pytest.mark.long


def post(h: House, body: dict[str, Any]) -> tuple[dict[str, str], bytes]:
    request = urllib.request.Request(
        f"{h.gateway.url}/v1/chat/completions",
        data=json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {h.key}"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return dict(answer.headers), answer.read()


def test_call_and_stream_move_the_balance_exactly(database_url: str, tmp_path: Path) -> None:
    with house(database_url, tmp_path, usd="1") as h:
        sim = {"usage": {"input": 1000, "output": 100, "cached": 400}}
        said = {"role": "user", "content": "Hello"}
        headers, body = post(h, {"model": "sim-model", "messages": [said], "sim": sim})
        assert json.loads(body)["choices"][0]["message"]["content"]
        assert len(headers["X-Gateway-Trace"]) == 32
        _, streamed = post(
            h, {"model": "sim-model", "messages": [said], "sim": sim, "stream": True}
        )
        assert streamed.rstrip().endswith(b"data: [DONE]")
        assert b'"usage":{' not in streamed
        # Each: 600 fresh x 1 + 400 cached x 0.1 + 100 out x 10 USD per million.
        assert h.client.get("/v1/key/balance").status == 200  # waits for what is not settled yet
        account = h.gw("account", "show", h.account)
        assert account["balance_usd"] == "0.99672"  # 1 - 2 x 0.00164
