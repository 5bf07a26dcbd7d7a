"""The overview and its stream: all processes for operators, their account for owners."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from tornado.iostream import StreamClosedError

from channels.shares import ShareRefused
from gw import accounts
from gw.console.board import Board
from gw.console.figures import SQL, WINDOW_SECONDS, Figures
from gw.console.pages import ConsoleHandler
from gw.console.rendering import Renderer
from gw.console.savings import saved_nano_usd
from gw.console.texts import TEXTS
from gw.error_bodies import dumps

OWNER_SECONDS = 2.0
# An idle stream sends a comment, which keeps it open in proxies.
KEEP_SECONDS = 15.0
# The session is checked once per this many events.
LOOK_EVERY = 5


class OverviewHandler(ConsoleHandler):
    """The current page, which the stream updates."""

    async def on_get(self) -> None:
        account_id = self.who.account_id
        if account_id is None:
            boards = self.services.figures.boards
            values = fleet_values(boards[-1] if boards else Board())
            self.page("overview.html", values=values, tiles=self._tiles(), account=None)
            return
        account = await accounts.show(self.services.database, account_id)
        values = await OwnerBoard(self, account_id).values()
        self.page("overview.html", values=values, tiles=[], account=account)

    def _tiles(self) -> list[dict[str, Any]]:
        boards = self.services.figures.boards
        if boards and boards[-1].channels:
            return tiles_of(boards[-1])
        sample = self.services.figures.sample()
        return [
            {"id": name, **msgspec.structs.asdict(one), "state_text": TEXTS(f"state.{one.state}")}
            for name, one in sorted(sample.channels.items())
        ]


class StreamHandler(ConsoleHandler):
    """Server-sent events, at most one a second: the figures as the page shows them."""

    _task: asyncio.Task[None] | None = None
    _looks = 0

    async def on_get(self) -> None:
        figures = self.services.figures
        try:
            with figures.streams.held(self.who.owner):
                await self._stream(figures)
        except ShareRefused:
            self.refuse(503, "error.streams")

    async def _stream(self, figures: Figures) -> None:
        self.set_header("Content-Type", "text/event-stream")
        self.set_header("X-Accel-Buffering", "no")
        event = figures.watch()
        self._task = asyncio.current_task()
        try:
            self.write("retry: 3000\n\n")
            await self.flush()
            account_id = self.who.account_id
            if account_id is None:
                await self._fleet(figures, event)
            else:
                await self._own(OwnerBoard(self, account_id))
        except (StreamClosedError, asyncio.CancelledError):
            return  # disconnected
        finally:
            figures.leave(event)
            self._task = None

    async def _fleet(self, figures: Figures, event: asyncio.Event) -> None:
        while await self._is_good():
            event.clear()
            try:
                async with asyncio.timeout(KEEP_SECONDS):
                    await event.wait()
            except TimeoutError:
                await self._send(": \n\n")
                continue
            board = figures.boards[-1]
            await self._event({"values": fleet_values(board), "tiles": tiles_of(board)})

    async def _own(self, board: OwnerBoard) -> None:
        while await self._is_good():
            await self._event({"values": await board.values(), "tiles": []})
            await self.services.clock.sleep(OWNER_SECONDS)

    async def _event(self, body: Any) -> None:
        await self._send(f"data: {dumps(body).decode()}\n\n")

    async def _send(self, text: str) -> None:
        self.write(text)
        await self.flush()

    async def _is_good(self) -> bool:
        """Whether the session is valid, which is checked at intervals."""
        self._looks += 1
        if self._looks % LOOK_EVERY == 0:
            await self.identify()
        return self.session is not None

    def on_connection_close(self) -> None:
        super().on_connection_close()
        if self._task is not None:
            self._task.cancel()


def fleet_values(board: Board) -> dict[str, Any]:
    """Return the figures as texts, by the id of their element, with the numbers of plots."""
    show = Renderer()
    first = board.first_byte_seconds
    return {
        "calls": f"{board.calls_per_second:,.1f}",
        "spend": f"{board.usd_per_hour:,.4f}",
        "first_byte": "–" if first is None else f"≤ {first * 1000:,.0f} ms",
        "errors": f"{board.errors_per_second:,.2f}",
        "in_flight": show.count(board.in_flight),
        "cached": _share(board.cached_share),
        "saved": show.usd(board.saved_nano_usd),
        "balance": show.usd(board.balance_nano_usd),
        "held": show.usd(board.held_nano_usd),
        "accounts": show.count(board.accounts),
        "processes": show.count(board.processes),
        "line": {"calls": board.calls_per_second, "spend": board.usd_per_hour},
    }


def tiles_of(board: Board) -> list[dict[str, Any]]:
    """Return the channels' tiles in the form of the stream."""
    return [
        {**msgspec.structs.asdict(one), "state_text": TEXTS(f"state.{one.state}")}
        for one in board.channels
    ]


def _share(share: float | None) -> str:
    return "–" if share is None else f"{share * 100:.1f} %"


class OwnerBoard:
    """One account's figures of the day, and the changes since the last read."""

    def __init__(self, handler: ConsoleHandler, account_id: str) -> None:
        self._services = handler.services
        self._account_id = account_id
        self._last: tuple[float, int, int, int] | None = None

    def __repr__(self) -> str:
        return f"<OwnerBoard {self._account_id}>"

    async def values(self) -> dict[str, Any]:
        """Return the figures in the form of `fleet_values`. Raises StoreError."""
        database = self._services.database
        ((balance, held, *sums),) = await database.fetch_all(SQL["today"], (self._account_id,))
        calls, errors, cost, entered, cached = map(int, sums)
        saved = sum(
            [
                saved_nano_usd(model) * tokens
                for name, tokens in await database.fetch_all(
                    SQL["saved_today"], (self._account_id,)
                )
                if (model := self._services.current.registry.models.get(name)) is not None
            ]
        )
        now = self._services.clock.monotonic()
        before, self._last = self._last, (now, calls, errors, cost)
        seconds = WINDOW_SECONDS if before is None else max(now - before[0], 1.0)
        moved = [0, 0, 0]
        if before is not None:
            moved = [max(0, calls - before[1]), max(0, errors - before[2]), cost - before[3]]
        show = Renderer()
        return {
            "calls": f"{moved[0] / seconds:,.1f}",
            "spend": f"{moved[2] / seconds * 3600 / 1e9:,.4f}",
            "errors": f"{moved[1] / seconds:,.2f}",
            "cached": _share(cached / entered if entered else None),
            "saved": show.usd(int(saved)),
            "balance": show.usd(balance),
            "held": show.usd(held),
            "calls_today": show.count(calls),
            "errors_today": show.count(errors),
            "spent_today": show.usd(cost),
            "line": {"calls": moved[0] / seconds, "spend": moved[2] / seconds * 3600 / 1e9},
        }
