"""Thousands of exchanges priced again: no bucket is below zero, counted twice, or without a price.

They come of the sheets' cases, of the transcripts and, where they are at hand, of the recordings:
each with every member of its usage left out, made zero, small, large, more than whole or no number,
and each stream cut behind every event.
"""

import copy
import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from actors.wallet.sheets import buckets, token_price
from channels.dialects.token_counts import Usage
from channels.errors import UpstreamMalformed
from channels.families import EACH_PRICES, SERVICE_TIERS, TOKEN_PART_PRICES, TOKEN_PRICES
from channels.http.sse import SseSplitter
from channels.prices import PriceSpec, PriceStep, TierPrice
from tests.unit.channels.recordings import stream_of
from tests.unit.channels.replay import new_meter
from tests.unit.channels.test_price_sheets import CASES
from tests.unit.channels.test_transcripts import RECORDED, TRANSCRIPTS, WHOLE, dialect_of

USAGES = frozenset(("usage", "usageMetadata"))
TOP = frozenset(("service_tier", "groundingMetadata"))
VALUES: tuple[Any, ...] = (0, 1, 777, 10**6, 2**31 - 1, 2**31, -1, None, "x", [], 1.5)
PRICES: dict[str, Any] = {
    **{name: Decimal(3) for name in (*TOKEN_PRICES, *TOKEN_PART_PRICES)},
    **{name: Decimal("0.01") for name in EACH_PRICES},
}
EVERYTHING = token_price(
    PriceSpec(
        **PRICES,
        above_tokens=(PriceStep(1000, {"input": Decimal(6)}),),
        regions={"us": Decimal("1.1")},
        service_tiers={name: TierPrice(factor=Decimal(2)) for name in SERVICE_TIERS},
    ),
    Decimal(1),
)
Path = tuple[str | int, ...]


def leaves(value: Any, path: Path = (), *, is_usage: bool = False) -> Iterator[Path]:
    """The members of every usage in a value, and those outside that say more of it."""
    if isinstance(value, dict):
        for name, one in value.items():
            is_part = is_usage or name in USAGES or name in TOP
            if is_part:
                yield (*path, name)
            yield from leaves(one, (*path, name), is_usage=is_part)
    elif isinstance(value, list):
        for index, one in enumerate(value):
            yield from leaves(one, (*path, index), is_usage=is_usage)


def variations(value: Any) -> Iterator[Any]:
    yield value
    for path in leaves(value):
        for other in (*VALUES, ...):
            changed = copy.deepcopy(value)
            holder = changed
            for step in path[:-1]:
                holder = holder[step]
            if other is ...:
                del holder[path[-1]]
            else:
                holder[path[-1]] = other
            yield changed


def check(usage: Usage) -> None:
    found = buckets(usage)
    assert min(found.values()) >= 0, usage
    assert sum(found.values()) == usage.input_tokens + usage.output_tokens, usage
    sheet = EVERYTHING.sheet
    assert sheet is not None
    parts = usage.parts
    unpriced = set()
    if parts is not None and parts.advisor_tokens:
        unpriced.add("advisor")  # of another model
    if parts is not None and parts.region not in (None, "us"):
        unpriced.add("regions")
    assert set(sheet.unpriced(usage)) == unpriced, usage
    fresh = usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens
    if parts is not None:
        # What the parts are disjoint by is their own, and not left to the arithmetic.
        audio = parts.audio_input_tokens - parts.cached_audio_tokens
        image = parts.image_input_tokens - parts.cached_image_tokens
        assert (found["audio_input"], found["image_input"]) == (audio, image)
        assert 0 <= audio + image <= fresh
        assert found["cache_write_1h"] == parts.cache_write_1h_tokens
        assert found["audio_output"] == parts.audio_output_tokens
        assert found["image_output"] == parts.image_output_tokens
        assert found["reasoning_output"] == usage.reasoning_tokens
        assert min(parts.web_searches, parts.file_searches, parts.code_sessions) >= 0
    if usage.input_tokens <= 1000 and parts is None:
        plain = 3000 * (usage.input_tokens + usage.output_tokens)
        assert EVERYTHING.cost_nano_usd(usage) == plain + 10**7


def wholes() -> Iterator[tuple[str, Any]]:
    for case in CASES:
        yield case.dialect, case.body
    for path in WHOLE:
        yield dialect_of(path).protocol, json.loads(path.read_bytes())


def read_whole(dialect: str, value: Any) -> Usage | None:
    meter = new_meter(dialect)
    try:
        meter.take_body(json.dumps(value).encode())
    except UpstreamMalformed:
        return None
    return meter.usage


def test_exchanges_of_every_kind_are_priced_again_with_nothing_left_over() -> None:
    exchanges = priced = 0
    for dialect, whole in wholes():
        for value in variations(whole):
            exchanges += 1
            usage = read_whole(dialect, value)
            if usage is not None:
                priced += 1
                check(usage)
    assert exchanges >= 3000
    assert priced >= exchanges / 2


def test_streams_are_priced_wherever_they_are_cut() -> None:
    cuts = 0
    for path in [*TRANSCRIPTS, *RECORDED]:
        meter, splitter = new_meter(dialect_of(path).protocol), SseSplitter()
        for event in splitter.feed(stream_of(path)):
            if event.data is None:
                continue
            meter.take_event(meter.read_event(event.data))
            partial = meter.partial_usage
            for usage in (meter.usage, None if partial is None else partial.input):
                if usage is not None:
                    cuts += 1
                    check(usage)
    assert cuts >= 150


def test_usage_stated_again_counts_once() -> None:
    """A stream that states its usage in several events, all of them whole, is charged the last."""
    usage = {"prompt_tokens": 9, "completion_tokens": 2, "num_search_queries": 1}
    chunk = {"choices": [{"index": 0, "delta": {"content": "x"}}], "usage": usage}
    grounded = {
        "candidates": [{"groundingMetadata": {"webSearchQueries": ["a"]}}],
        "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 2},
    }
    stated = {"input_tokens": 9, "server_tool_use": {"web_search_requests": 1}, "output_tokens": 2}
    search = {"type": "web_search_call", "status": "completed", "action": {"type": "search"}}
    done = {"type": "response.output_item.done", "output_index": 0, "item": search}
    counts = {"input_tokens": 9, "output_tokens": 2}
    response = {"status": "completed", "output": [search], "usage": counts}
    streams: dict[str, list[Any]] = {
        "chat": [chunk, chunk, chunk],
        "native": [grounded, grounded],
        "messages": [
            {"type": "message_start", "message": {"usage": stated}},
            {"type": "message_delta", "delta": {}, "usage": stated},
            {"type": "message_delta", "delta": {}, "usage": stated},
        ],
        "responses": [done, {"type": "response.completed", "response": response}],
    }
    for dialect, events in streams.items():
        meter = new_meter(dialect)
        for one in events:
            meter.take_event(meter.read_event(json.dumps(one).encode()))
        assert meter.usage is not None
        assert (meter.usage.input_tokens, meter.usage.output_tokens) == (9, 2)
        assert meter.usage.parts is not None
        assert meter.usage.parts.web_searches == 1, dialect
