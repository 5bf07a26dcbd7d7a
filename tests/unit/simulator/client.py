"""Requests to a simulator, each on a connection of its own."""

import json
from typing import Any

from loadtests.rig.async_connection import exchange
from loadtests.rig.response import Response
from loadtests.simulator.server import Simulator

KEY = "upstream-key"


async def chat(
    simulator: Simulator, *, text: str = "hello out there", sim: object = None
) -> Response:
    """A chat call of this text, with a directive when given."""
    body: dict[str, Any] = {"model": "model-a", "messages": [{"role": "user", "content": text}]}
    if sim is not None:
        body["sim"] = sim
    return await call(
        simulator, "POST", "/v1/chat/completions", body, authorization=f"Bearer {KEY}"
    )


async def call(
    simulator: Simulator, method: str, path: str, value: object = None, **headers: str
) -> Response:
    """Any request, its value as JSON; `x_api_key` names the header x-api-key."""
    url = f"http://{simulator.host}:{simulator.port}"
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    body = None if value is None else json.dumps(value).encode()
    return await exchange(url, method, path, body, headers=named)
