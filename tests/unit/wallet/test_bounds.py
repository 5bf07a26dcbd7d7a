"""What is possible in one response, and what is charged of the rest."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from actors.wallet.bounds import (
    FILM_MILLISECONDS,
    LINKED_TOKENS,
    MARGIN,
    OUTPUT_TOKENS,
    SLACK_MILLISECONDS,
    SLACK_TOKENS,
    TOOL_CALLS,
    TOOL_ROUNDS,
    Bounds,
    bounded,
    bounds_of,
    possible_film,
)
from channels.dialects.token_counts import TOKENS_MAX, Usage, UsageParts, with_parts
from tests.support.rows import cases
from tests.support.specs import make_model


def bounds(
    context: int | None = None, ceiling: int | None = None, request: int | None = None, **more: Any
) -> Bounds:
    model = make_model("a", context_size=context, max_output_tokens=ceiling)
    known = {"body_bytes": 100, "choices": 1, "runs_tools": False, **more}
    return bounds_of(model, max_tokens=request, **known)


@cases(
    "found, expected",
    (bounds(128_000, 4_000, 10), Bounds(128_000, 10, 4_000)),
    (bounds(128_000, 4_000), Bounds(128_000, 4_000, 4_000)),
    (bounds(128_000), Bounds(128_000, 128_000, OUTPUT_TOKENS)),
    (bounds(), Bounds(100 + LINKED_TOKENS, OUTPUT_TOKENS, OUTPUT_TOKENS)),
    # A maximum above the model's is forwarded and held in full, up to the context.
    (bounds(128_000, 4_000, 9_000), Bounds(128_000, 9_000, 4_000)),
    (bounds(128_000, 4_000, 2**53), Bounds(128_000, 128_000, 4_000)),
    (bounds(8_000, 400, 10, choices=3), Bounds(8_000, 30, 1_200)),
    (bounds(8_000, 400, 10, choices=10**9), Bounds(8_000, 1_280, 51_200)),
    (bounds(8_000, 400, 10, runs_tools=True), Bounds(8_000, 10, 400, rounds=TOOL_ROUNDS)),
)
def test_limits_are_the_models_and_the_requests(found: Bounds, expected: Bounds) -> None:
    assert found == expected


SMALL = bounds(1_000, 500, 100)


@cases(
    "usage, doubted",
    (Usage(MARGIN * 1_000, MARGIN * 100 + SLACK_TOKENS), {}),
    (Usage(MARGIN * 1_000 + 1, 5), {"input": 2_001}),
    (Usage(5, MARGIN * 100 + SLACK_TOKENS + 1), {"output": 4_297}),
    # Reasoning and media may come on top of the request's maximum.
    (Usage(5, 5_000, reasoning_tokens=4_900), {}),
    (Usage(5, 9_000, reasoning_tokens=8_900), {"output": 9_000}),
    (Usage(5, 5_000, parts=UsageParts(image_output_tokens=4_900)), {}),
    # Tools read the context again.
    (Usage(5 * 1_000, 5, parts=UsageParts(web_searches=1)), {}),
    (Usage(65 * 1_000, 5, parts=UsageParts(web_searches=1)), {"input": 65_000}),
    (Usage(5, 5, parts=UsageParts(web_searches=TOOL_CALLS)), {}),
    (Usage(5, 5, parts=UsageParts(web_searches=9_999)), {"web_searches": 9_999}),
)
def test_what_is_beyond_the_margin_is_doubted(usage: Usage, doubted: dict[str, int]) -> None:
    assert SMALL.doubted(usage) == doubted


TOKENS = st.integers(0, 10_000) | st.integers(0, TOKENS_MAX)
PARTS = st.builds(
    UsageParts,
    audio_input_tokens=TOKENS,
    image_input_tokens=TOKENS,
    cached_audio_tokens=TOKENS,
    audio_output_tokens=TOKENS,
    cache_write_1h_tokens=TOKENS,
    web_searches=TOKENS,
    code_sessions=TOKENS,
    service_tier=st.sampled_from([None, "flex"]),
)


@st.composite
def usages(draw: st.DrawFn) -> Usage:
    given, made = draw(TOKENS), draw(TOKENS)
    cached = draw(st.integers(0, given))
    written = draw(st.integers(0, given - cached))
    usage = Usage(given, made, cached, written, draw(st.integers(0, made)))
    parts = draw(st.none() | PARTS)
    return usage if parts is None else with_parts(usage, parts)


@given(usage=usages(), limits=st.sampled_from([SMALL, bounds(), bounds(9, 9, 9, runs_tools=True)]))
def test_nothing_is_charged_beyond_the_bounds(usage: Usage, limits: Bounds) -> None:
    doubted = limits.doubted(usage)
    estimate = limits.estimate(Usage(10**7, 10**7))
    found = bounded(usage, doubted, estimate) if doubted else usage
    assert limits.doubted(found) == {}
    assert (found == usage) == (not doubted)
    if found.parts is not None:
        assert with_parts(found, found.parts) == found
        assert usage.parts is not None
        assert found.parts.service_tier == usage.parts.service_tier


@cases(
    "stated, held, is_open, charged",
    (8_000, 5_000, False, 8_000),
    (MARGIN * 5_000 + SLACK_MILLISECONDS, 5_000, False, 20_000),
    (20_001, 5_000, False, 5_000),
    (5_000_000, 5_000, False, 5_000),
    (600_000, 5_000, True, 600_000),
    (5_000_000, 5_000, True, FILM_MILLISECONDS),
    (5_000_000, 3_600_000, True, 5_000_000),
)
def test_a_film_is_as_long_as_it_can_be(
    stated: int, held: int, is_open: bool, charged: int
) -> None:
    assert possible_film(stated, held, is_open=is_open) == charged
