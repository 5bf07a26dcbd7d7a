"""What endpoints ask of catalogs: the union over the channels in force, in the file's order.

Beside the calls: a question takes no slot of its channel, says nothing of its health and is free.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from actors.catalogs.memory import Question, ReplyMemory
from actors.clock import Clock
from channels.errors import UpstreamError
from channels.http.interfaces import Wire
from channels.media.dialects import DIALECTS
from channels.media.model import Exchange, MediaDialect, MediaRequest, MediaResponse
from channels.media.perform import perform
from channels.media.replies import (
    CatalogReply,
    CatalogValue,
    Failed,
    PresetAvatar,
    PresetVoice,
    Refused,
    Template,
    TemplateDetail,
)
from channels.media.send import send
from channels.registry import ChannelSpec
from metrics.logs import EventLog

# For one list, however many requests it takes: the templates of some upstreams are asked for one
# by one.
LIST_SECONDS = 30.0
AVATARS, VOICES, TEMPLATES = "avatars", "voices", "clips"  # protocols


class CatalogItem(Protocol):
    """Something that is listed."""

    @property
    def id(self) -> str: ...


I = TypeVar("I", bound=CatalogItem)  # noqa: E741
I_co = TypeVar("I_co", bound=CatalogItem, covariant=True)


@dataclass(frozen=True, slots=True)
class Offer(Generic[I_co]):
    """Something that a channel lists, and which one."""

    item: I_co
    channel_id: str


class CatalogUnavailable(Exception):
    """No channel told what it has. `reply` is the first one's; None: there is no such channel."""

    def __init__(self, reply: Refused | Failed | None) -> None:
        super().__init__(repr(reply))
        self.reply = reply


class Catalogs:
    """The catalogs of the channels in force. One per process."""

    def __init__(
        self,
        *,
        wire: Wire,
        channels: Callable[[], Mapping[str, ChannelSpec]],
        fresh_seconds: float,
        clock: Clock,
    ) -> None:
        self._wire = wire
        self._channels = channels
        self._clock = clock
        self._memory = ReplyMemory(fresh_seconds=fresh_seconds, clock=clock)
        self._log = EventLog("actors.catalogs")

    def __repr__(self) -> str:
        return f"<Catalogs {self._memory!r}>"

    async def close(self) -> None:
        """Ask nobody any more."""
        await self._memory.close()

    async def templates(self, scene: str) -> Sequence[Template]:
        """The templates of a scene. Raises CatalogUnavailable."""
        channels = self._speaking(TEMPLATES)
        if not channels:
            raise CatalogUnavailable(None)
        offers = await self._union(channels, "templates", lambda d: d.templates(scene), scene)
        return [offer.item for offer in offers]

    async def template(self, template_id: str) -> TemplateDetail | None:
        """One template as a whole; None where no channel knows it. Raises CatalogUnavailable."""
        channels = self._speaking(TEMPLATES)
        if not channels:
            raise CatalogUnavailable(None)
        trouble: Refused | Failed | None = None
        for channel in channels:
            reply = await self._reply(
                channel, "template", lambda d: d.template(template_id), template_id
            )
            if isinstance(reply, CatalogValue):
                found: TemplateDetail = reply.value
                return found
            if reply is not None and not (isinstance(reply, Refused) and reply.status == 404):
                trouble = trouble or reply
        if trouble is not None:
            raise CatalogUnavailable(trouble)
        return None

    async def preset_avatars(self) -> Sequence[Offer[PresetAvatar]]:
        """The avatars that everybody may use. Raises CatalogUnavailable."""
        channels = self._speaking(AVATARS)
        return await self._union(channels, "avatars", lambda d: d.preset_avatars())

    async def preset_voices(self) -> Sequence[Offer[PresetVoice]]:
        """The voices that everybody may use. Raises CatalogUnavailable."""
        channels = self._speaking(VOICES)
        return await self._union(channels, "voices", lambda d: d.preset_voices())

    def _speaking(self, protocol: str) -> list[tuple[ChannelSpec, MediaDialect]]:
        return [
            (channel, DIALECTS[channel.dialect_of(protocol)])
            for channel in self._channels().values()
            if protocol in channel.protocols
        ]

    async def _union(
        self,
        channels: Iterable[tuple[ChannelSpec, MediaDialect]],
        what: str,
        exchange_of: Callable[[MediaDialect], Exchange[CatalogReply[tuple[I, ...]]] | None],
        argument: str = "",
    ) -> Sequence[Offer[I]]:
        """What all of them list, the first of an id; a channel that fails is left out, but where
        all of them do."""
        channels = list(channels)
        replies = await asyncio.gather(
            *(self._reply(channel, what, exchange_of, argument) for channel in channels)
        )
        found: dict[str, Offer[I]] = {}
        for (channel, _), reply in zip(channels, replies, strict=True):
            if isinstance(reply, CatalogValue):
                for item in reply.value:
                    found.setdefault(item.id, Offer(item, channel.id))
        failed = [reply for reply in replies if isinstance(reply, Refused | Failed)]
        if failed and not any(isinstance(reply, CatalogValue) for reply in replies):
            raise CatalogUnavailable(failed[0])
        return list(found.values())

    async def _reply(
        self,
        spoken_to: tuple[ChannelSpec, MediaDialect],
        what: str,
        exchange_of: Callable[[MediaDialect], Exchange[CatalogReply[Any]] | None],
        argument: str = "",
    ) -> CatalogReply[Any] | None:
        """A channel's reply; None where its dialect has no such list."""
        channel, dialect = spoken_to
        exchange = exchange_of(dialect)
        if exchange is None:
            return None
        return await self._memory.reply(
            Question(channel, what, argument), lambda: self._ask(channel, exchange)
        )

    async def _ask(
        self, channel: ChannelSpec, exchange: Exchange[CatalogReply[Any]]
    ) -> CatalogReply[Any]:
        """Ask a channel. Never raises, but when it is cancelled."""

        async def sent(request: MediaRequest, response_bytes_max: int) -> MediaResponse:
            return await send(self._wire, channel, request, response_bytes_max, now=self._clock.now)

        try:
            async with asyncio.timeout(LIST_SECONDS):
                reply: CatalogReply[Any] = await perform(exchange, sent, self._clock.sleep)
        except (UpstreamError, TimeoutError) as error:
            reply = Failed(status=502, message="The upstream did not answer.")
            self._log.warning("catalog_not_read", channel=channel.id, error=repr(error))
        else:
            if not isinstance(reply, CatalogValue):
                self._log.info("catalog_refused", channel=channel.id, status=reply.status)
        return reply
