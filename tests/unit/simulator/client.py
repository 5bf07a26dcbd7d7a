"""Requests to a simulator, each on a connection of its own."""

import json
from dataclasses import dataclass
from typing import Any

import aiohttp

from loadtests.simulator.server import Simulator

KEY = "upstream-key"


@dataclass
class Reply:
    """What came back; the names of headers in small letters."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


async def ask(simulator: Simulator, *, text: str = "hello out there", sim: object = None) -> Reply:
    """A chat call that says `text`, with a directive when given."""
    body: dict[str, Any] = {"model": "model-a", "messages": [{"role": "user", "content": text}]}
    if sim is not None:
        body["sim"] = sim
    return await call(
        simulator, "POST", "/v1/chat/completions", body, authorization=f"Bearer {KEY}"
    )


async def call(
    simulator: Simulator, method: str, path: str, value: object = None, **headers: str
) -> Reply:
    """Any request, its value as JSON; `x_api_key` names the header x-api-key."""
    url = f"http://{simulator.host}:{simulator.port}{path}"
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    body = b"" if value is None else json.dumps(value).encode()
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, url, data=body, headers=named) as response,
    ):
        names = {name.lower(): text for name, text in response.headers.items()}
        return Reply(response.status, names, await response.read())
