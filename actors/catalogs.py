"""The lists of media upstreams that are the same for every account: templates, preset avatars and
preset voices.

Replies are cached, with one request at a time for each (`reply_memory.py`); endpoints read the list
of one channel, or the union of the channels in force, in the file's order.

Independent of calls: a question takes no slot of its channel, does not count for its health and is
free.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from actors.clock import Clock
from actors.reply_memory import Question, ReplyMemory
from channels.errors import UpstreamError, UpstreamUnreachable
from channels.http.interfaces import UpstreamClient
from channels.media import exchanges, model, replies
from channels.media.dialects import DIALECTS
from channels.registry import ChannelSpec
from metrics.logs import EventLog

# The time for one list with all its requests: some upstreams return templates one by one.
LIST_SECONDS = 30.0
AVATARS, VOICES, TEMPLATES = "avatars", "voices", "clips"  # protocols


class CatalogItem(Protocol):
    """An item of a list."""

    @property
    def id(self) -> str: ...


I = TypeVar("I", bound=CatalogItem)  # noqa: E741
I_co = TypeVar("I_co", bound=CatalogItem, covariant=True)


@dataclass(frozen=True, slots=True)
class Offer(Generic[I_co]):
    """An item that a channel lists, and the channel."""

    item: I_co
    channel_id: str


class CatalogUnavailable(Exception):
    """No channel returned its list. `reply` is the first one's; None: there is no such channel."""

    def __init__(self, reply: replies.Refused | replies.Failed | None) -> None:
        super().__init__(repr(reply))
        self.reply = reply


class Catalogs:
    """The catalogs of the channels in force. One per process."""

    def __init__(
        self,
        *,
        http: UpstreamClient,
        channels: Callable[[], Mapping[str, ChannelSpec]],
        fresh_seconds: float,
        clock: Clock,
    ) -> None:
        self._http = http
        self._channels = channels
        self._clock = clock
        self._memory = ReplyMemory(fresh_seconds=fresh_seconds, clock=clock)
        self._log = EventLog("actors.catalogs")

    async def close(self) -> None:
        """Cancel all requests."""
        await self._memory.close()

    async def templates(self, scene: str) -> Sequence[replies.Template]:
        """Return the templates of a scene. Raises CatalogUnavailable."""
        channels = self._speaking(TEMPLATES)
        if not channels:
            raise CatalogUnavailable(None)
        offers = await self._union(channels, "templates", lambda d: d.templates(scene), scene)
        return [offer.item for offer in offers]

    async def template(self, template_id: str) -> replies.TemplateDetail | None:
        """Return a whole template; None if no channel has it. Raises CatalogUnavailable."""
        channels = self._speaking(TEMPLATES)
        if not channels:
            raise CatalogUnavailable(None)
        trouble: replies.Refused | replies.Failed | None = None
        for channel in channels:
            reply = await self._reply(
                channel, "template", lambda d: d.template(template_id), template_id
            )
            if isinstance(reply, replies.CatalogValue):
                found: replies.TemplateDetail = reply.value
                return found
            if reply is not None and not (
                isinstance(reply, replies.Refused) and reply.status == 404
            ):
                trouble = trouble or reply
        if trouble is not None:
            raise CatalogUnavailable(trouble)
        return None

    async def preset_avatars(self) -> Sequence[Offer[replies.PresetAvatar]]:
        """Return the avatars that all accounts may use. Raises CatalogUnavailable."""
        channels = self._speaking(AVATARS)
        return await self._union(channels, "avatars", lambda d: d.preset_avatars())

    async def preset_voices(self) -> Sequence[Offer[replies.PresetVoice]]:
        """Return the voices that all accounts may use. Raises CatalogUnavailable."""
        channels = self._speaking(VOICES)
        return await self._union(channels, "voices", lambda d: d.preset_voices())

    def _speaking(self, protocol: str) -> list[tuple[ChannelSpec, model.MediaDialect]]:
        return [
            (channel, DIALECTS[channel.dialect_of(protocol)])
            for channel in self._channels().values()
            if protocol in channel.protocols
        ]

    async def _union(
        self,
        channels: Iterable[tuple[ChannelSpec, model.MediaDialect]],
        what: str,
        exchange_of: Callable[
            [model.MediaDialect], model.Exchange[replies.CatalogReply[tuple[I, ...]]] | None
        ],
        argument: str = "",
    ) -> Sequence[Offer[I]]:
        """Return the union of their lists, the first item of each id; a channel that fails is left
        out, unless all fail."""
        channels = list(channels)
        given = await asyncio.gather(
            *(self._reply(channel, what, exchange_of, argument) for channel in channels)
        )
        found: dict[str, Offer[I]] = {}
        for (channel, _), reply in zip(channels, given, strict=True):
            if isinstance(reply, replies.CatalogValue):
                for item in reply.value:
                    found.setdefault(item.id, Offer(item, channel.id))
        failed = [reply for reply in given if isinstance(reply, replies.Refused | replies.Failed)]
        if failed and not any(isinstance(reply, replies.CatalogValue) for reply in given):
            raise CatalogUnavailable(failed[0])
        return list(found.values())

    async def _reply(
        self,
        spoken_to: tuple[ChannelSpec, model.MediaDialect],
        what: str,
        exchange_of: Callable[
            [model.MediaDialect], model.Exchange[replies.CatalogReply[Any]] | None
        ],
        argument: str = "",
    ) -> replies.CatalogReply[Any] | None:
        """Return a channel's reply; None if its dialect has no such list."""
        channel, dialect = spoken_to
        exchange = exchange_of(dialect)
        if exchange is None:
            return None
        return await self._memory.reply(
            Question(channel, what, argument), lambda: self._ask(channel, exchange)
        )

    async def _ask(
        self, channel: ChannelSpec, exchange: model.Exchange[replies.CatalogReply[Any]]
    ) -> replies.CatalogReply[Any]:
        """Ask a channel. Raises only when cancelled."""

        try:
            async with asyncio.timeout(LIST_SECONDS):
                reply: replies.CatalogReply[Any] = await exchanges.perform_with(
                    channel,
                    exchange,
                    self._http,
                    self._clock,
                    body_bytes_max=model.CATALOG_BYTES_MAX,
                )
        except (UpstreamError, TimeoutError) as error:
            message = str(error) or "The upstream did not answer."
            is_unreachable = isinstance(error, UpstreamUnreachable)
            reply = replies.Failed(status=502, message=message, is_unreachable=is_unreachable)
            self._log.warning("catalog_not_read", channel=channel.id, error=repr(error))
        else:
            if not isinstance(reply, replies.CatalogValue):
                self._log.info("catalog_refused", channel=channel.id, status=reply.status)
        return reply
