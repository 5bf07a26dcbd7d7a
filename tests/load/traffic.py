"""What the clients of the load test do: a seeded mix of calls, and what each of them saw.

Nothing is asserted here but what one client can know of its own call; what must be true of all of
them is `test_load.py`.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import aiohttp

from tests.acceptance.pictures import PATH as IMAGES
from tests.acceptance.pictures import body as images_body
from tests.support.client import CHAT, chat_body
from tests.support.tenants import Tenant

TERMINATOR = b"data: [DONE]\n\n"
PACED = {"events": 12, "delay_event_ms": 8}


@dataclass(frozen=True)
class Kind:
    """One kind of call: how often, what is sent, how it may end. `leaves` is for the client."""

    weight: int
    members: Mapping[str, Any]
    statuses: frozenset[int] = frozenset({200})
    rows: frozenset[str] = frozenset({"success"})
    is_complete: bool = True
    leaves: bool = False
    makes_images: bool = False

    def request(self) -> tuple[str, Mapping[str, Any]]:
        """Path and body."""
        if self.makes_images:
            return IMAGES, images_body(**self.members)
        return CHAT, chat_body(**self.members)


def failing(*statuses: int) -> dict[str, Any]:
    """Ends as an error of one of these statuses."""
    return {"statuses": frozenset(statuses), "rows": frozenset({"error"}), "is_complete": False}


_LEFT = frozenset({"interrupted", "success"})  # it may have been answered a moment before
KINDS: Mapping[str, Kind] = {
    "plain": Kind(30, {}),
    "plain, late": Kind(8, {"sim": {"delay_headers_ms": 40}}),
    "stream": Kind(24, {"stream": True, "sim": PACED}),
    "stream with usage": Kind(
        6, {"stream": True, "stream_options": {"include_usage": True}, "sim": PACED}
    ),
    "no usage": Kind(5, {"stream": True, "sim": {**PACED, "no_usage": True}}),
    "tools": Kind(5, {"stream": True, "sim": {"tool_calls": 2}}),
    "large": Kind(2, {"sim": {"chars": 200_000}}),
    "refused": Kind(4, {"sim": {"status": 422}}, **failing(422)),
    # The last one tried decides, and it may be one that refuses.
    "broken everywhere": Kind(2, {"sim": {"status": 500}}, **failing(500, 502)),
    "lost everywhere": Kind(2, {"sim": {"refuse": True}}, **failing(502)),
    "malformed": Kind(2, {"sim": {"malformed": "json"}}, **failing(502)),
    "cut": Kind(4, {"stream": True, "sim": {**PACED, "cut_after_events": 5}}, **failing(200)),
    "reset": Kind(
        3, {"stream": True, "sim": {**PACED, "cut_after_events": 4, "cut": "reset"}}, **failing(200)
    ),
    "broken chunk": Kind(2, {"stream": True, "sim": {"malformed": "chunk"}}, **failing(200, 502)),
    "hangs": Kind(
        1,
        {"sim": {"hang": "headers"}},
        statuses=frozenset({504}),
        rows=frozenset({"interrupted"}),
        is_complete=False,
    ),
    "leaves a stream": Kind(
        6,
        {"stream": True, "sim": {"endless": True, "delay_event_ms": 4}},
        rows=frozenset({"interrupted"}),
        is_complete=False,
        leaves=True,
    ),
    "leaves a plain call": Kind(
        3, {"sim": {"delay_headers_ms": 120}}, rows=_LEFT, is_complete=False, leaves=True
    ),
    "images": Kind(6, {"n": 3, "sim": {"delay_headers_ms": 20}}, makes_images=True),
    "fewer images": Kind(2, {"n": 3, "sim": {"events": 1}}, makes_images=True),
    "refused images": Kind(2, {"sim": {"status": 422}}, makes_images=True, **failing(422)),
    "leaves images": Kind(
        3,
        {"n": 2, "sim": {"delay_headers_ms": 120}},
        rows=_LEFT,
        is_complete=False,
        leaves=True,
        makes_images=True,
    ),
}


@dataclass
class Seen:
    """One call as its client saw it; `status` 0 when it left before an answer."""

    kind: str
    status: int = 0
    trace: str = ""
    is_complete: bool = False
    fault: str = ""

    @property
    def is_as_expected(self) -> bool:
        """Whether a client that sends this kind of call may see this."""
        kind = KINDS[self.kind]
        if kind.leaves:
            return not self.fault and self.status in (0, 200)
        return (
            not self.fault and self.status in kind.statuses and self.is_complete == kind.is_complete
        )


@dataclass
class Traffic:
    """So many clients, each with a seed of its own, until told to stop."""

    seed: int
    tenants: Sequence[Tenant]
    clients: int
    seen: list[Seen] = field(default_factory=list)
    is_over: bool = False

    async def run(self, session: aiohttp.ClientSession) -> None:
        """Call and call again; returns when every client has ended its last call."""
        await asyncio.gather(*(self._client(session, number) for number in range(self.clients)))

    def counted(self) -> Counter[str]:
        """How many calls of each kind there were."""
        return Counter(one.kind for one in self.seen)

    async def _client(self, session: aiohttp.ClientSession, number: int) -> None:
        rng = Random(f"{self.seed}/{number}")
        names, weights = list(KINDS), [kind.weight for kind in KINDS.values()]
        name = names[number % len(names)]  # so that there is every kind, however slow they are
        while not self.is_over:
            seen = Seen(name)
            self.seen.append(seen)
            await self._call(session, self.tenants[number % len(self.tenants)], seen, rng)
            (name,) = rng.choices(names, weights)

    async def _call(
        self, session: aiohttp.ClientSession, tenant: Tenant, seen: Seen, rng: Random
    ) -> None:
        kind = KINDS[seen.kind]
        patience = rng.uniform(0.002, 0.1) if kind.leaves else 120.0
        try:
            async with asyncio.timeout(patience):
                await self._exchange(session, tenant, seen, kind)
        except TimeoutError:
            seen.fault = "" if kind.leaves else "no end"
        except (aiohttp.ClientError, OSError) as error:
            seen.fault = repr(error)

    async def _exchange(
        self, session: aiohttp.ClientSession, tenant: Tenant, seen: Seen, kind: Kind
    ) -> None:
        path, body = kind.request()
        async with session.post(
            tenant.client.url + path,
            data=json.dumps(body),
            headers={"Authorization": f"Bearer {tenant.key}"},
        ) as answer:
            seen.status = answer.status
            seen.trace = answer.headers["x-gateway-trace"]
            tail = b""
            async for piece in answer.content.iter_any():
                tail = (tail + piece)[-len(TERMINATOR) :]
            is_stream = answer.headers["Content-Type"].startswith("text/event-stream")
            seen.is_complete = tail == TERMINATOR if is_stream else answer.status == 200
