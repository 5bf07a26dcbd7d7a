"""The playground: one prompt to any model by any of the four protocols.

The process calls the public listener with a key of the account, which it unseals for the request
and never writes into a page. So the call is checked, held, served, settled and logged like any
other, and its response is streamed.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import closing
from typing import Any
from urllib.parse import quote

from actors.store.queries import load
from actors.wallet.money import format_usd
from channels.errors import UpstreamError
from channels.http.interfaces import UpstreamRequest, UpstreamResponse
from gw.admin import audit
from gw.console.calls import find_seen
from gw.console.changes import change
from gw.console.pages import ConsoleHandler
from gw.console.texts import TEXTS
from gw.error_bodies import dumps
from gw.keys import store
from gw.keys.key import KeyRecord
from gw.keys.principal import AGENT
from gw.keys.sealing import KeySealer
from gw.keys.store import UnknownKey
from gw.nouns.refused import Invalid

SQL = load("gw.console", "playground.sql")
PROTOCOLS = ("chat-completions", "messages", "responses", "native-content")
PROMPT_CHARACTERS_MAX = 20_000
OUTPUT_TOKENS = 500
OPEN_SECONDS = 300.0


class PlaygroundHandler(ConsoleHandler):
    """The form, which is submitted to `PlayHandler`."""

    async def on_get(self) -> None:
        account_id = self.who.account_id or self.parameters.text("account")
        account = None if account_id is None else await self.account(account_id)
        found = await self.services.database.fetch_all(SQL["playable"], {"account": account_id})
        models = self.services.current.registry.models.values()
        self.page(
            "playground.html",
            account=account,
            keys=found,
            models=[one.id for one in models if one.callable and one.endpoint_type is None],
            protocols=PROTOCOLS,
            describes=self.services.current.config.describe,
        )


def may_play(key: KeyRecord, handler: ConsoleHandler) -> bool:
    """Whether the playground may call with this key."""
    return key.is_revealable and key.kind != AGENT and key.status_at(handler.now) == "active"


class PlayHandler(ConsoleHandler):
    """Sends the prompt and streams the response."""

    async def on_post(self) -> None:
        key_id, prompt = self.field("key"), self.get_body_argument("prompt", "")
        if len(prompt) > PROMPT_CHARACTERS_MAX:
            self.refuse(400, "error.long")
        async with change(self, is_booked=False) as (transaction, actor):
            try:
                key = await store.show(transaction, key_id)
            except UnknownKey:
                self.refuse(404, "error.not_found")
            if self.who.account_id not in (None, key.account_id):
                self.refuse(404, "error.not_found")
            if not may_play(key, self):
                raise Invalid(TEXTS("playground.no_key"))
            sealed = await store.read_sealed(transaction, key_id)
            assert sealed is not None
            # The call log has the call itself; the audit trail has the use of the key.
            await audit.note(
                transaction, actor, "playground.call", key_id, account_id=key.account_id
            )
        text = KeySealer(self.services.secret).unseal(sealed, key_id=key_id)
        path, body = request_of(
            self.field("protocol"),
            self.field("model"),
            prompt,
            is_streamed=self.field("stream") == "on",
        )
        base = self.services.gateway_url()
        config = self.services.current.config
        if config.tls is not None and config.public_url:
            base = config.public_url  # the certificate's name
        sent = UpstreamRequest(
            "POST",
            base + path,
            (("Authorization", f"Bearer {text}"), ("Content-Type", "application/json")),
            json.dumps(body).encode(),
        )
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                response = await self.services.http.open(sent)
                with closing(response):
                    await self._pass_on(response)
        except (UpstreamError, TimeoutError):
            if not self._headers_written:
                self.refuse(502, "playground.unreachable")
        await self.finish()

    async def _pass_on(self, response: UpstreamResponse) -> None:
        self.set_status(response.status)
        # Never HTML: an upstream's text is shown as text.
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.set_header("x-call-trace", response.header("x-gateway-trace") or "")
        async for chunk in response.chunks():
            self.write(chunk)
            await self.flush()


class CostHandler(ConsoleHandler):
    """The cost of a call of the playground, after its settlement."""

    async def on_get(self) -> None:
        trace = self.parameters.text("trace") or ""
        record = await find_seen(self, trace)
        for _ in range(20):
            if record is not None:
                break
            await self.services.clock.sleep(0.1)
            record = await find_seen(self, trace)
        if record is None:
            self.refuse(404, "error.call")
        text = TEXTS("playground.cost", usd=format_usd(record.cost_nano_usd))
        self.set_header("Content-Type", "application/json")
        await self.finish(dumps({"href": f"/calls/{record.id}", "text": text}))


def request_of(
    protocol: str, model: str, prompt: str, *, is_streamed: bool
) -> tuple[str, dict[str, Any]]:
    """Return path and body of a prompt in a protocol."""
    messages = [{"role": "user", "content": prompt}]
    if protocol == "messages":
        body = {"model": model, "max_tokens": OUTPUT_TOKENS, "messages": messages}
        return "/v1/messages", {**body, "stream": is_streamed}
    if protocol == "responses":
        return "/v1/responses", {"model": model, "input": prompt, "stream": is_streamed}
    if protocol == "native-content":
        way = "streamGenerateContent?alt=sse" if is_streamed else "generateContent"
        contents = [{"role": "user", "parts": [{"text": prompt}]}]
        return f"/v1beta/models/{quote(model, safe='')}:{way}", {"contents": contents}
    return "/v1/chat/completions", {"model": model, "messages": messages, "stream": is_streamed}
