"""Many client streams at once, for tests that pull the ground from under them."""

from dataclasses import dataclass
from typing import Any

import aiohttp

from loadtests.rig.deployment import Deployment


@dataclass
class Stream:
    """What one client saw: status, bytes, and whether the connection broke."""

    status: int = 0
    body: bytes = b""
    is_broken: bool = False
    trace: str = ""

    @property
    def is_complete(self) -> bool:
        return self.body.rstrip().endswith(b"data: [DONE]")


async def stream(session: aiohttp.ClientSession, h: Deployment, **body: Any) -> Stream:
    """One streaming call; never raises for what the gateway does."""
    seen = Stream()
    await follow(session, h, seen, **body)
    return seen


async def follow(
    session: aiohttp.ClientSession,
    h: Deployment,
    seen: Stream,
    *,
    path: str = "",
    key: str = "",
    **body: Any,
) -> None:
    """The same, noting in `seen` as it goes; with another URL and key than the deployment's own."""
    payload = {
        "model": "sim-model",
        "messages": [{"role": "user", "content": "Hello"}],
        "stream": True,
        **body,
    }
    headers = {"Authorization": f"Bearer {key or h.key}"}
    try:
        url = path or f"{h.gateway.url}/v1/chat/completions"
        async with session.post(url, json=payload, headers=headers) as response:
            seen.status = response.status
            seen.trace = response.headers.get("x-gateway-trace", "")
            async for chunk in response.content.iter_any():
                seen.body += chunk
    except (TimeoutError, aiohttp.ClientError, OSError):
        seen.is_broken = True


def unlimited() -> aiohttp.ClientSession:
    """A session that opens as many connections as it is asked for."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=120)
    )
