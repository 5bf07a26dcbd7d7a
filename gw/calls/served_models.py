"""Which model of a chain serves a conversation, as all processes on one database know it.

A conversation begins at the first model, and stays with the one that served it last. What differs
from what was known is sent to the other processes within a second; they take it over in the order
in which it was sent, and so does the sender, so that all of them agree. What is lost on the way
costs its conversation one cache.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from hashlib import blake2b
from itertools import islice

from channels.registry import ModelSpec

# How long a conversation stays with its model, from its last call.
SECONDS = 3600.0
# Conversations remembered, at some 300 bytes each. Beyond it the one called longest ago is
# forgotten, which begins at the first model again.
CONVERSATIONS_MAX = 32_768
# What has to be sent, beyond which the oldest is dropped; and how much of it at once, in a
# notification of at most 8000 bytes, and in how many of these a second.
NEWS_MAX, NEWS_AT_ONCE, SENT_MAX = 8192, 200, 8
# The kind of change, before what is sent (`gw/runtime/pushes.py`).
KIND = "served"
# Hex digits of a conversation with its chain, and of a model.
_NAME, _MODEL = 20, 12

# A model, until when it is kept, and when the others were told of it; monotonic seconds.
_Served = tuple[str, float, float]


class ServedModels:
    """Conversations and their models, the one called longest ago first. One per process."""

    def __init__(self) -> None:
        self._served: OrderedDict[str, _Served] = OrderedDict()
        self._news: dict[str, str] = {}  # to be sent, the oldest first

    def __len__(self) -> int:
        """Return the number of conversations remembered."""
        return len(self._served)

    def order(self, model: ModelSpec, pin: str, now: float) -> tuple[ModelSpec, ...]:
        """Return a chain's models, that of the conversation `pin` first; `now` in monotonic s."""
        served, until, _ = self._served.get(_name_of(model, pin), ("", 0.0, 0.0))
        if until <= now:
            return model.chain
        return tuple(sorted(model.chain, key=lambda one: _digest(one.id, _MODEL) != served))

    def keep(self, model: ModelSpec, pin: str, served: str, now: float) -> None:
        """Keep the model that has served a conversation."""
        name, served_model = _name_of(model, pin), _digest(served, _MODEL)
        known, _, told_at = self._served.get(name, ("", 0.0, 0.0))
        if not known and served == model.chain[0].id:
            return  # as every process begins
        if known != served_model or now - told_at > SECONDS / 2:
            told_at = now
            self._news.pop(name, None)
            self._news[name] = served_model
            if len(self._news) > NEWS_MAX:
                del self._news[next(iter(self._news))]
        self._remember(name, served_model, now, told_at)

    async def share(self, send: Callable[[str], Awaitable[None]]) -> None:
        """Send the other processes what has changed; called every second.

        Raises what `send` raises: it is sent again then.
        """
        for _ in range(SENT_MAX):
            part = list(islice(self._news.items(), NEWS_AT_ONCE))
            if not part:
                return
            await send(f"{KIND}:" + "".join(name + served for name, served in part))
            for name, served in part:
                if self._news.get(name) == served:
                    del self._news[name]

    def heard(self, told: str, now: float) -> None:
        """Take over what a process has sent, but for what has changed here since."""
        for start in range(0, len(told), _NAME + _MODEL):
            name = told[start : start + _NAME]
            if name not in self._news:
                self._remember(name, told[start + _NAME : start + _NAME + _MODEL], now, now)

    def _remember(self, name: str, served: str, now: float, told_at: float) -> None:
        self._served.pop(name, None)
        self._served[name] = (served, now + SECONDS, told_at)
        if len(self._served) > CONVERSATIONS_MAX:
            self._served.popitem(last=False)


def _name_of(model: ModelSpec, pin: str) -> str:
    return _digest(f"{model.id}\0{pin}", _NAME)


def _digest(text: str, digits: int) -> str:
    """Return so many hex digits for a text: of the same length in every notification."""
    return blake2b(text.encode("utf-8", "replace"), digest_size=digits // 2).hexdigest()
