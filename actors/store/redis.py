"""The connection to Redis: batches of script calls with a short timeout.

One batch is sent at a time, so that commands of a process arrive in their order. Nothing is
retried: the caller that loses the link decides about its commands. Every exception of the client
library becomes RedisUnavailable here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar, cast

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

T = TypeVar("T")

# Far more than a reply takes within one site. A URL may set another value (`socket_timeout`).
REPLY_SECONDS = 0.05
CONNECT_SECONDS = 1.0
# A timeout is waited for in so many steps, so that a loop that was blocked for all of it still
# reads a reply that has arrived.
STEPS = 5


class RedisUnavailable(Exception):
    """Redis does not reply, or too late, or with an error."""


@dataclass(frozen=True, slots=True)
class ScriptCall:
    """One call of a script by name."""

    script: str
    keys: tuple[str, ...]
    arguments: tuple[str | int, ...]


class RedisLink:
    """One connection at a time; `connect` replaces a lost one."""

    def __init__(self, url: str, scripts: Mapping[str, str]) -> None:
        self._url = url
        self._scripts = scripts
        self._hashes: Mapping[str, str] = MappingProxyType({})
        self._client: Redis | None = None
        self._reply_seconds = REPLY_SECONDS

    async def connect(self) -> None:
        """Open a new connection and load the scripts. Raises RedisUnavailable."""
        await self.close()
        try:
            await self._open()
        except BaseException:
            await self.close()
            raise

    async def _open(self) -> None:
        client = Redis.from_url(
            self._url,
            protocol=2,  # the server pushes nothing
            socket_connect_timeout=CONNECT_SECONDS,
            socket_timeout=REPLY_SECONDS,
            retry=Retry(NoBackoff(), 0),
            max_connections=1,
        )
        self._client = client
        settings = client.connection_pool.connection_kwargs
        self._reply_seconds = settings["socket_timeout"]
        settings["socket_timeout"] = None  # `_await_reply` has the timeout instead (STEPS)
        hashes: dict[str, str] = {}
        seconds = CONNECT_SECONDS
        for name, text in self._scripts.items():
            hashes[name] = await self._await_reply(
                cast(Awaitable[Any], client.script_load(text)), seconds
            )
            seconds = self._reply_seconds  # connected: now the timeout of a batch
        self._hashes = hashes

    async def call(self, batch: Sequence[ScriptCall], *, timeout_factor: int = 1) -> list[Any]:
        """Send one batch and return its replies in order. Raises RedisUnavailable.

        `timeout_factor` multiplies the timeout for a large batch.
        """
        if self._client is None:
            raise RedisUnavailable("not connected")
        pipeline = self._client.pipeline(transaction=False)
        for call in batch:
            pipeline.evalsha(self._hashes[call.script], len(call.keys), *call.keys, *call.arguments)
        seconds = self._reply_seconds * timeout_factor
        replies: list[Any] = await self._await_reply(pipeline.execute(), seconds)
        return replies

    async def close(self) -> None:
        """Close the connection."""
        client, self._client = self._client, None
        if client is not None:
            try:
                await client.aclose()
            except (RedisError, OSError):
                return  # it was lost already

    async def _await_reply(self, question: Awaitable[T], seconds: float) -> T:
        task = asyncio.ensure_future(question)
        try:
            for _ in range(STEPS):
                await asyncio.wait({task}, timeout=seconds / STEPS)
                if task.done():
                    return task.result()
        except Exception as error:  # whatever the library raises, calls continue
            raise RedisUnavailable(f"{type(error).__name__}: {error}") from error
        finally:
            if not task.done():
                task.cancel()  # the client library then closes the connection
                await asyncio.wait({task})
                # Retrieve the unused result, so that asyncio does not log it.
                _ = task.cancelled() or task.exception()
        raise RedisUnavailable(f"no answer within {seconds:g} s")
