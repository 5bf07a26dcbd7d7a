"""The lists of media upstreams that are the same for every account: templates, preset avatars and
preset voices.

Replies are cached, with one request at a time for each; endpoints read the list of one channel, or
the union of all channels.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from actors.clock import Clock
from channels.errors import UpstreamError, UpstreamUnreachable
from channels.http.interfaces import UpstreamClient
from channels.media.canonical import (
    CatalogReply,
    CatalogValue,
    Failed,
    PresetAvatar,
    PresetVoice,
    Refused,
    Template,
    TemplateDetail,
)
from channels.media.dialects import DIALECTS
from channels.media.model import (
    CATALOG_BYTES_MAX,
    Exchange,
    MediaDialect,
    MediaRequest,
    MediaResponse,
    perform,
    send,
)
from channels.registry import ChannelSpec
from metrics.logs import EventLog

# Caches replies of upstreams; concurrent callers wait for the same request.
#
# A good reply is used until it is too old, and longer while no better one is available.

T = TypeVar("T")

# Templates are cached one by one, and clients choose their ids: the oldest is dropped.
REPLIES_MAX = 1000
# After a failure the old reply is used for so long before the upstream is asked again.
RETRY_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Question:
    """A question to a channel: the name of a list, and an argument."""

    channel: ChannelSpec
    what: str
    argument: str = ""

    @property
    def key(self) -> Key:
        return self.channel.id, self.what, self.argument


Key: TypeAlias = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class _Remembered:
    """A good reply of a channel with that configuration; refreshed at `ask_at`."""

    channel: ChannelSpec
    reply: CatalogValue[Any]
    ask_at: float  # monotonic seconds


class ReplyMemory:
    """Caches good replies for `fresh_seconds`. One per process."""

    def __init__(self, *, fresh_seconds: float, clock: Clock) -> None:
        self._fresh_seconds = fresh_seconds
        self._clock = clock
        self._remembered: OrderedDict[Key, _Remembered] = OrderedDict()
        self._asking: dict[Key, asyncio.Task[Any]] = {}

    def __repr__(self) -> str:
        return f"<ReplyMemory {len(self)} replies {len(self._asking)} asked for>"

    def __len__(self) -> int:
        return len(self._remembered)

    async def reply(
        self, question: Question, ask: Callable[[], Awaitable[CatalogReply[T]]]
    ) -> CatalogReply[T]:
        """Return the reply to a question, from `ask` unless a fresh one is cached.

        A cancelled caller does not cancel the question, which other callers share.
        """
        known = self._find(question)
        if known is not None and self._clock.monotonic() < known.ask_at:
            return known.reply
        task = self._asking.get(question.key)
        if task is None:
            task = asyncio.create_task(self._ask(question, ask), name="catalog")
            self._asking[question.key] = task
            task.add_done_callback(lambda done: self._asked(question.key, done))
        await asyncio.wait([task])
        reply: CatalogReply[T] = task.result()
        return reply

    async def close(self) -> None:
        """Cancel all requests."""
        asking = list(self._asking.values())
        for task in asking:
            task.cancel()
        if asking:
            await asyncio.wait(asking)

    def _asked(self, key: Key, done: asyncio.Task[Any]) -> None:
        self._asking.pop(key, None)
        if not done.cancelled():
            done.exception()  # raised in each caller; there may be none left to retrieve it

    def _find(self, question: Question) -> _Remembered | None:
        known = self._remembered.get(question.key)
        return known if known is not None and known.channel == question.channel else None

    async def _ask(
        self, question: Question, ask: Callable[[], Awaitable[CatalogReply[T]]]
    ) -> CatalogReply[T]:
        reply = await ask()
        if isinstance(reply, CatalogValue):
            self._remember(question, reply, self._fresh_seconds)
            return reply
        if _is_gone(reply):
            self._remembered.pop(question.key, None)
            return reply
        known = self._find(question)
        if known is None:
            return reply
        self._remember(question, known.reply, min(RETRY_SECONDS, self._fresh_seconds))
        return known.reply

    def _remember(self, question: Question, reply: CatalogValue[Any], seconds: float) -> None:
        ask_at = self._clock.monotonic() + seconds
        self._remembered[question.key] = _Remembered(question.channel, reply, ask_at)
        self._remembered.move_to_end(question.key)
        if len(self) > REPLIES_MAX:
            self._remembered.popitem(last=False)


def _is_gone(reply: Refused | Failed) -> bool:
    """Whether the upstream reports that it does not exist, so that no old reply applies."""
    return isinstance(reply, Refused) and reply.status == 404


# The catalogs of the channels in force, as a union in the file's order.
#
# Independent of calls: a question takes no slot of its channel, does not count for its health and
# is free.

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

    def __init__(self, reply: Refused | Failed | None) -> None:
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

    def __repr__(self) -> str:
        return f"<Catalogs {self._memory!r}>"

    async def close(self) -> None:
        """Cancel all requests."""
        await self._memory.close()

    async def templates(self, scene: str) -> Sequence[Template]:
        """Return the templates of a scene. Raises CatalogUnavailable."""
        channels = self._speaking(TEMPLATES)
        if not channels:
            raise CatalogUnavailable(None)
        offers = await self._union(channels, "templates", lambda d: d.templates(scene), scene)
        return [offer.item for offer in offers]

    async def template(self, template_id: str) -> TemplateDetail | None:
        """Return a whole template; None if no channel has it. Raises CatalogUnavailable."""
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
        """Return the avatars that all accounts may use. Raises CatalogUnavailable."""
        channels = self._speaking(AVATARS)
        return await self._union(channels, "avatars", lambda d: d.preset_avatars())

    async def preset_voices(self) -> Sequence[Offer[PresetVoice]]:
        """Return the voices that all accounts may use. Raises CatalogUnavailable."""
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
        """Return the union of their lists, the first item of each id; a channel that fails is left
        out, unless all fail."""
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
        """Return a channel's reply; None if its dialect has no such list."""
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
        """Ask a channel. Raises only when cancelled."""

        async def sent(request: MediaRequest, response_bytes_max: int) -> MediaResponse:
            return await send(self._http, channel, request, response_bytes_max, now=self._clock.now)

        try:
            async with asyncio.timeout(LIST_SECONDS):
                reply: CatalogReply[Any] = await perform(
                    exchange, sent, self._clock.sleep, body_bytes_max=CATALOG_BYTES_MAX
                )
        except (UpstreamError, TimeoutError) as error:
            message = str(error) or "The upstream did not answer."
            is_unreachable = isinstance(error, UpstreamUnreachable)
            reply = Failed(status=502, message=message, is_unreachable=is_unreachable)
            self._log.warning("catalog_not_read", channel=channel.id, error=repr(error))
        else:
            if not isinstance(reply, CatalogValue):
                self._log.info("catalog_refused", channel=channel.id, status=reply.status)
        return reply
