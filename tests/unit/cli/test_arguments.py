"""Values of options: read, or refused."""

from argparse import ArgumentTypeError
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.cli.arguments import (
    count,
    identifier,
    instant,
    label,
    sha256_hex,
)
from gw.cli.output import rfc3339
from gw.nouns import values
from gw.nouns.member import as_option, or_none
from tests.support.rows import cases

Reader = Callable[[str], Any]
usd, usd_or_more = as_option(values.usd), as_option(values.usd_or_more)


@cases(
    "read, text, value",
    (label, " Ann's key ", "Ann's key"),
    (label, "Größe 7 – 密钥", "Größe 7 – 密钥"),
    (label, "x" * 200, "x" * 200),
    (identifier, "acct_0123", "acct_0123"),
    (usd, "1", 1_000_000_000),
    (usd, "-0.000000001", -1),
    (usd, "4000000000", 4 * 10**18),
    (usd_or_more, "0", 0),
    (usd_or_more, "12.5", 12_500_000_000),
    (count, "1", 1),
    (count, "2147483647", 2**31 - 1),
    (count, "007", 7),
    (or_none(count), "none", None),
    (or_none(count), "5", 5),
    (sha256_hex, "aB" * 32, b"\xab" * 32),
    (instant, "2027-01-31T12:00:00Z", datetime(2027, 1, 31, 12, tzinfo=UTC)),
    (instant, "1999-01-31t12:00:00z", datetime(1999, 1, 31, 12, tzinfo=UTC)),
    (instant, "2027-01-31 12:00:00+02:00", datetime(2027, 1, 31, 10, tzinfo=UTC)),
    (instant, "2027-01-31T12:00:00-00:30", datetime(2027, 1, 31, 12, 30, tzinfo=UTC)),
    (instant, "2027-01-31T12:00:00.5Z", datetime(2027, 1, 31, 12, 0, 0, 500_000, tzinfo=UTC)),
    (
        instant,
        "2027-01-31T12:00:00.123456789Z",
        datetime(2027, 1, 31, 12, 0, 0, 123_456, tzinfo=UTC),
    ),
)
def test_value_is_read(read: Reader, text: str, value: object) -> None:
    assert read(text) == value


@cases(
    "read, text",
    (label, ""),
    (label, "  "),
    (label, "x" * 201),
    (label, "two\nlines"),
    (label, "bell\a"),
    (label, "\x1b[31mred"),
    (label, "\udcff"),
    (identifier, ""),
    (identifier, "acct_\n"),
    (identifier, "ключ"),
    (usd, ""),
    (usd, "1e3"),
    (usd, "1,5"),
    (usd, "NaN"),
    (usd, "0.0000000001"),
    (usd, "4000000001"),
    (usd_or_more, "-1"),
    (count, "0"),
    (count, "-1"),
    (count, "1.5"),
    (count, ""),
    (count, "none"),
    (count, "٣"),
    (count, "2147483648"),
    (count, "9" * 5000),
    (or_none(count), "None"),
    (sha256_hex, "ab" * 31),
    (sha256_hex, "ab" * 33),
    (sha256_hex, "xy" * 32),
    (sha256_hex, "ab" * 32 + "\n"),
    (instant, "tomorrow"),
    (instant, "2027-01-31"),
    (instant, "2027-01-31T12:00:00"),
    (instant, "2027-01-31T12:00Z"),
    (instant, "2027-02-30T12:00:00Z"),
    (instant, "2027-01-31T24:00:00Z"),
    (instant, "2027-01-31T12:00:60Z"),
    (instant, "2027-01-31T12:00:00+0200"),
    (instant, "2027-01-31T12:00:00+24:00"),
    (instant, "0001-01-01T00:00:00+01:00"),
    (instant, "9999-12-31T23:59:59-01:00"),
    (instant, "1798761600"),
    (instant, "2027-01-31T12:00:00Z\n"),
)
def test_value_is_refused(read: Reader, text: str) -> None:
    with pytest.raises(ArgumentTypeError) as caught:
        read(text)
    assert str(caught.value)


@given(
    st.datetimes(
        min_value=datetime(2, 1, 1),
        max_value=datetime(9998, 1, 1),
        timezones=st.integers(min_value=-1439, max_value=1439).map(
            lambda minutes: timezone(timedelta(minutes=minutes))
        ),
    )
)
def test_every_time_is_read_and_written_in_utc(moment: datetime) -> None:
    read = instant(moment.isoformat())
    assert read == moment
    written = rfc3339(read)
    assert written is not None
    assert written.endswith("Z")
    assert instant(written) == moment


@given(st.text(max_size=40))
def test_no_text_is_more_than_refused(text: str) -> None:
    for read in (label, identifier, usd, usd_or_more, count, instant, sha256_hex):
        try:
            read(text)
        except ArgumentTypeError:
            continue
