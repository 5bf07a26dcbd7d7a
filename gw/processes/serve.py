"""What a worker runs: the gateway, on the parent's port, talking to it (see `worker.py`)."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from dataclasses import replace
from typing import Any

from gw.config.config import Address, Config
from gw.config.load import load
from gw.run import run_gateway
from gw.serve import Gateway
from gw.web.fronts import Front


async def run_worker(config: Config, *, address: Address, front: Front) -> int:
    """Serve on `address`, which others share, until told to stop or left alone by the parent."""

    def placed(read: Config) -> Config:
        # Metrics and readiness are asked for by the parent alone.
        return replace(read, listen=address, admin_listen=Address("127.0.0.1", 0))

    def announce(gateway: Gateway) -> None:
        _say({"admin": gateway.admin_url})

    return await run_gateway(
        placed(config),
        read_again=lambda: placed(load(config.source, os.environ)),
        front=front,
        shares_port=True,
        announce=announce,
        on_reload=lambda is_accepted: _say({"reloaded": is_accepted}),
        lifeline=_parent_is_gone(),
    )


def _say(reply: dict[str, Any]) -> None:
    print(json.dumps(reply), flush=True)


async def _parent_is_gone() -> None:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    try:
        await reader.read()
    finally:
        transport.close()
