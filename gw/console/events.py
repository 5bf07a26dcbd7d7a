"""The newest events as a page, for operators."""

from __future__ import annotations

import json

from gw.admin import events
from gw.api.logs.rows import Rendering
from gw.console.pages import ConsoleHandler

SHOWN = 50


class EventsHandler(ConsoleHandler):
    """A page of events, the newest first."""

    async def on_get(self) -> None:
        before = self.parameters.whole("before", least=1, most=2**63 - 1)
        current = self.services.current
        rendering = Rendering(credits_per_usd=current.config.credits_per_usd, redact=current.redact)
        found = await events.newest(
            self.services.database,
            before=before,
            limit=SHOWN + 1,
            show_call=rendering.settled,
        )
        self.page(
            "events.html",
            events=found[:SHOWN],
            before=found[SHOWN - 1].sequence if len(found) > SHOWN else None,
            text_of=lambda data: json.dumps(data, ensure_ascii=False),
        )
