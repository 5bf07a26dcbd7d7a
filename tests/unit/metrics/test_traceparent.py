"""The W3C header: what is read, what is ignored."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics.spans import TraceParent, parse, render
from tests.support.rows import each

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"


@pytest.mark.parametrize(
    ("header", "is_sampled"),
    [
        (f"00-{TRACE}-{SPAN}-01", True),
        (f"00-{TRACE}-{SPAN}-00", False),
        (f"00-{TRACE}-{SPAN}-03", True),  # other flags are not ours
        (f"00-{TRACE}-{SPAN}-fe", False),
        (f"cc-{TRACE}-{SPAN}-01", True),  # a later version, read as far as we know it
        (f"cc-{TRACE}-{SPAN}-01-what-the-future-will-be-like", True),
        (f"cc-{TRACE}-{SPAN}-00-", False),
    ],
)
def test_wellformed_header_is_read(header: str, is_sampled: bool) -> None:
    assert parse(header) == TraceParent(
        trace_id=int(TRACE, 16), span_id=int(SPAN, 16), is_sampled=is_sampled
    )


@each(
    "header",
    [
        "",
        "00",
        f"ff-{TRACE}-{SPAN}-01",
        f"0-{TRACE}-{SPAN}-01",
        f"000-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE}-{SPAN.upper()}-01",
        f"00-{TRACE}-{SPAN}-0A",
        f"0A-{TRACE}-{SPAN}-01",
        f"00-{TRACE[:-1]}-{SPAN}-01",
        f"00-{TRACE}0-{SPAN}-01",
        f"00-{TRACE}-{SPAN[:-1]}-01",
        f"00-{TRACE[:-1]}g-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE}-{SPAN}-01.",
        f"cc-{TRACE}-{SPAN}-01.what",
        f"00-{TRACE}-{SPAN}",
        f"00_{TRACE}_{SPAN}_01",
        f" 00-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01\n",
        f"00-{TRACE}-{SPAN}-01,00-{TRACE}-{SPAN}-01",  # the header came twice
        f"00-{TRACE}-{SPAN}-٠١",
    ],
)
def test_malformed_header_is_ignored(header: str) -> None:
    assert parse(header) is None


@given(st.integers(1, 2**128 - 1), st.integers(1, 2**64 - 1), st.booleans())
def test_written_header_is_read_back(trace_id: int, span_id: int, is_sampled: bool) -> None:
    header = render(trace_id=trace_id, span_id=span_id, is_sampled=is_sampled)
    assert parse(header) == TraceParent(trace_id=trace_id, span_id=span_id, is_sampled=is_sampled)


@given(st.text(max_size=60))
def test_any_text_is_read_without_raising(header: str) -> None:
    parse(header)
