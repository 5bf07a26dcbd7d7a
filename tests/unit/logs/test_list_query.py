"""Which rows of the call log a query asks for, and how pages are joined."""

import string
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tornado.escape import parse_qs_bytes

from channels.conversation import label_of
from gw.api.logs.cursor import CursorSeal, LogCursor, PagePosition
from gw.api.logs.filters import Filters
from gw.api.logs.list_query import LogListQuery, read_list_query
from gw.api.logs.pages import enough
from gw.api.logs.visibility import Scope, Visibility
from gw.api.logs.window import EARLIEST, LATEST, Window
from gw.errors import GatewayError
from gw.keys.end_users import EndUserKey
from tests.support.rows import cases

NOW = datetime(2026, 11, 21, 8, 30, 15, 250_000, tzinfo=UTC)
END_USERS = EndUserKey(b"a key for tests only")
SEAL = CursorSeal(b"k" * 32)
OWN = Visibility("key", "acct_1", "key_1")
WHOLE = Visibility("account", "acct_1", None)
NAMES = (
    *("scope", "key_id", "period", "from", "to", "model", "status", "unit_type", "error_code"),
    *("ref", "order", "limit", "cursor", "include"),
)
KEY_TEXT = "sk-platform-" + "a1" * 32


def see(scope: Scope) -> Visibility:
    return OWN if scope == "key" else WHOLE


def read(query: str = "") -> LogListQuery:
    arguments = parse_qs_bytes(query.encode(), keep_blank_values=True)
    return read_list_query(arguments, see=see, seal=SEAL, end_users=END_USERS, now=NOW)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def refusal(query: str) -> str:
    with pytest.raises(GatewayError) as raised:
        read(query)
    assert (raised.value.http_status, raised.value.kind.code) == (400, "invalid_request")
    return raised.value.message


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type,misc]


def test_nothing_given_is_the_defaults_and_so_is_everything_empty() -> None:
    default = read()
    assert default == LogListQuery(
        visibility=OWN,
        filters=Filters(),
        window=Window(NOW - timedelta(days=30), NOW),
        order="desc",
        after=None,
        limit=50,
        with_attempts=True,
        with_in_flight=False,
    )
    empty = "&".join(f"{name}=" for name in NAMES)
    assert read(empty) == default
    assert read("status=,%20,&limit=%20") == default
    assert read("something=else&key=sk-platform-1") == default


@cases(
    "period, start",
    ("today", utc(2026, 11, 21)),
    ("7d", NOW - timedelta(days=7)),
    ("30d", NOW - timedelta(days=30)),
    ("this_month", utc(2026, 11, 1)),
    ("all", utc(1970, 1, 1)),
)
def test_periods_end_now(period: str, start: datetime) -> None:
    assert read(f"period={period}").window == Window(start, NOW)


def test_reference_finds_a_row_of_any_age_unless_a_period_is_given() -> None:
    assert read("ref=abc").window == Window(utc(1970, 1, 1), NOW)
    assert read("ref=abc&period=7d").window == Window(NOW - timedelta(days=7), NOW)
    dated = read("ref=abc&from=2026-11-01&to=2026-11-02")
    assert dated.window == Window(utc(2026, 11, 1), utc(2026, 11, 3))
    assert read("ref=&status=error").window == Window(NOW - timedelta(days=30), NOW)


@cases(
    "since, until, window",
    ("2026-11-01", "2026-11-01", (utc(2026, 11, 1), utc(2026, 11, 2))),
    ("2026-11-01", "2026-11-02T03:04:05Z", (utc(2026, 11, 1), utc(2026, 11, 2, 3, 4, 5))),
    ("2026-11-01t02:00:00z", "2026-11-01", (utc(2026, 11, 1, 2), utc(2026, 11, 2))),
    ("2026-11-01T02:00:00%2B02:00", "2026-11-01", (utc(2026, 11, 1), utc(2026, 11, 2))),
    ("2026-11-01T02:00:00+02:00", "2026-11-01", (utc(2026, 11, 1), utc(2026, 11, 2))),
    ("2026-10-31T20:00:00-04:00", "2026-11-01", (utc(2026, 11, 1), utc(2026, 11, 2))),
    (
        "2026-11-01T00:00:00.1234567Z",
        "2026-11-01T00:00:00.5Z",
        (utc(2026, 11, 1, 0, 0, 0, 123_456), utc(2026, 11, 1, 0, 0, 0, 500_000)),
    ),
    ("2016-12-31T23:59:60Z", "2017-01-01", (utc(2017, 1, 1), utc(2017, 1, 2))),
    ("0001-01-01", "9999-12-31", (EARLIEST, LATEST + timedelta(days=1))),
    ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", (EARLIEST, LATEST)),
    ("2026-11-01T00:00:00Z", "2026-11-01T00:00:00Z", (utc(2026, 11, 1), utc(2026, 11, 1))),
)
def test_from_and_to_in_both_forms_mixed(
    since: str, until: str, window: tuple[datetime, datetime]
) -> None:
    assert read(f"from={since}&to={until}").window == Window(*window)
    assert read(f"from={since}&to={until}&period=nonsense").window == Window(*window)


@cases(
    "text",
    "yesterday",
    "2026-11-31",
    "2026-02-29",
    "2026-13-01",
    "2026-1-1",
    "20261101",
    "2026-W45-1",
    "2026-11-01T",
    "2026-11-01T10:00Z",
    "2026-11-01T10:00:00",
    "2026-11-01T24:00:00Z",
    "2026-11-01T10:61:00Z",
    "2026-11-01T10:00:61Z",
    "2026-11-01T10:00:00.Z",
    "2026-11-01T10:00:00%2B25:00",
    "2026-11-01T10:00:00%2B01:60",
    "0001-01-01T00:00:00%2B23:00",
    "9999-12-31T23:59:60Z",
    "１９９９-01-01",
    "1732176000",
)
def test_an_instant_that_is_none_is_refused(text: str) -> None:
    assert "`from` is a date" in refusal(f"from={text}&to=2026-11-30")
    assert "`to` is a date" in refusal(f"from=2026-11-01&to={text}")


def test_a_window_has_both_ends_in_order() -> None:
    assert "`to`" in refusal("from=2026-11-01")
    assert "`from`" in refusal("to=2026-11-01&period=7d")
    assert "`to`" in refusal("from=2026-11-01&to=")
    assert "after" in refusal("from=2026-11-02&to=2026-11-01")
    assert "after" in refusal("from=2026-11-01T00:00:01Z&to=2026-11-01T00:00:00Z")


def test_filters_are_lists_of_exact_values() -> None:
    query = read(
        "model=gpt-5,%20deep/seek:1&status=error,rejected,error&unit_type=image,chat"
        "&error_code=quota_exceeded&ref=task_1&model=third"
    )
    assert query.filters == Filters(
        models=("gpt-5", "deep/seek:1", "third"),
        statuses=("error", "rejected"),
        unit_types=("image", "chat"),
        error_codes=("quota_exceeded",),
        ref="task_1",
    )
    assert query.filters.trace is None


@cases(
    "ref",
    "0192f0c1a2b37c4d8e5f001122334455",
    "0192F0C1A2B37C4D8E5F001122334455",
    "0192f0c1-a2b3-7c4d-8e5f-001122334455",
)
def test_ref_may_be_a_trace_id_in_each_of_its_forms(ref: str) -> None:
    trace = read(f"ref={ref}").filters.trace
    assert trace is not None
    assert trace.hex == "0192f0c1a2b37c4d8e5f001122334455"


@cases("ref", "{0192f0c1a2b37c4d8e5f001122334455}", "0192f0c1-a2b37c4d8e5f", "x")
def test_another_ref_is_only_a_task_id(ref: str) -> None:
    filters = read(f"ref={ref}").filters
    assert (filters.ref, filters.trace) == (ref, None)


@cases(
    "query, name",
    ("status=succes", "status"),
    ("status=success,Error", "status"),
    ("unit_type=pictures", "unit_type"),
    ("order=up", "order"),
    ("order=DESC", "order"),
    ("scope=everything", "scope"),
    ("period=90d", "period"),
    ("include=attempts,everything", "include"),
    ("limit=0", "limit"),
    ("limit=201", "limit"),
    ("limit=-1", "limit"),
    ("limit=1.5", "limit"),
    ("limit=%2B5", "limit"),
    ("limit=ten", "limit"),
    ("limit=٣", "limit"),
    ("limit=" + "9" * 3000, "limit"),
    ("limit=5&limit=6", "limit"),
    ("order=asc&order=desc", "order"),
    ("key_id=key_2", "key_id"),
    ("scope=key&key_id=key_1", "key_id"),
    ("model=a%00b", "model"),
    ("ref=a%0Ab", "ref"),
    ("error_code=%FF", "error_code"),
    ("ref=" + "a" * 5000, "ref"),
    ("model=" + ",".join(map(str, range(101))), "model"),
    ("cursor=abc", "cursor"),
    ("cursor=" + "A" * 67, "cursor"),
)
def test_what_cannot_be_meant_is_refused_by_name(query: str, name: str) -> None:
    assert refusal(query).startswith(f"`{name}` ")


def test_a_refusal_says_what_is_allowed_and_hides_a_key() -> None:
    assert "success, error, interrupted, rejected" in refusal("status=succes")
    assert "chat" in refusal("unit_type=x")
    assert KEY_TEXT not in refusal(f"status={KEY_TEXT}")
    assert len(refusal("status=" + "y" * 3000)) < 200


@cases(
    "include, attempts, in_flight",
    ("attempts", True, False),
    ("in_flight", False, True),
    ("attempts,in_flight", True, True),
    ("none", False, False),
    ("none,in_flight", False, True),
)
def test_include(include: str, attempts: bool, in_flight: bool) -> None:
    query = read(f"include={include}")
    assert (query.with_attempts, query.with_in_flight) == (attempts, in_flight)


@cases("limit, value", ("1", 1), ("200", 200), ("0007", 7))
def test_limits_within_bounds(limit: str, value: int) -> None:
    assert read(f"limit={limit}").limit == value


def test_a_key_narrows_the_account_scope() -> None:
    assert read("scope=account").visibility == WHOLE
    narrowed = read("scope=account&key_id=key_2").visibility
    assert narrowed == Visibility("account", "acct_1", "key_2")


@settings(deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(NAMES),
        st.lists(st.one_of(st.binary(max_size=80), st.text(max_size=40).map(_bytes)), max_size=3),
    )
)
def test_whatever_comes_is_read_or_refused(query: dict[str, list[bytes]]) -> None:
    try:
        found = read_list_query(query, see=see, seal=SEAL, end_users=END_USERS, now=NOW)
    except GatewayError as error:
        status, code = error.http_status, error.kind.code
    else:
        assert 1 <= found.limit <= 200
        assert EARLIEST <= found.window.start <= found.window.end
        return
    assert (status, code) == (400, "invalid_request")


PLACE = PagePosition(utc(2026, 11, 3, 4, 5, 6, 7), 2**40)
CURSOR = LogCursor(Window(utc(2026, 10, 1), utc(2026, 11, 5)), "asc", PLACE)


def test_a_cursor_carries_window_order_and_place() -> None:
    text = SEAL.write(CURSOR, OWN)
    query = read(f"cursor={text}&period=today&include=in_flight&limit=3")
    assert (query.window, query.order, query.after) == (CURSOR.window, "asc", PLACE)
    assert (query.limit, query.with_in_flight) == (3, False)
    assert read(f"cursor={text}&order=asc").order == "asc"
    assert "order=asc" in refusal(f"cursor={text}&order=desc")
    assert "together" in refusal(f"cursor={text}&from=2026-11-01")


def test_a_cursor_of_another_visibility_opens_nothing() -> None:
    text = SEAL.write(CURSOR, OWN)
    assert "next_cursor" in refusal(f"scope=account&cursor={text}")
    for foreign in (
        WHOLE,
        Visibility("key", "acct_1", "key_2"),
        Visibility("key", "acct_2", "key_1"),
        Visibility("account", "acct_1", "key_1"),
    ):
        assert "next_cursor" in refusal(f"cursor={SEAL.write(CURSOR, foreign)}")
    assert "next_cursor" in refusal(f"cursor={CursorSeal(b'x' * 32).write(CURSOR, OWN)}")


def test_a_cursor_with_one_character_changed_is_refused() -> None:
    text = SEAL.write(CURSOR, OWN)
    for place in range(len(text)):
        other = "A" if text[place] != "A" else "B"
        assert "next_cursor" in refusal(f"cursor={text[:place]}{other}{text[place + 1 :]}")
    for last in set(string.ascii_letters + string.digits + "-_") - {
        text[-1]
    }:  # of which some mean the same bytes
        assert "next_cursor" in refusal(f"cursor={text[:-1]}{last}")
    for broken in (text[:-1], text + "A", text[:-1] + "%3D", text.replace(text[5], "%2B")):
        assert "next_cursor" in refusal(f"cursor={broken}")


NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR, HALF = timedelta(hours=1), timedelta(minutes=30)
# Five rows in each of four hours, the newest first.
BUSY = [(NOON - number * HOUR, 5) for number in range(4)]
OLDEST, END = BUSY[-1][0], NOON + HOUR


@cases(
    "changes, hours",
    ({}, 2),
    ({"limit": 5}, 1),
    ({"limit": 21}, 4),
    ({"last": NOON + HALF}, 3),
    ({"after_at": NOON}, 3),
    ({"after_at": END}, 2),
    ({"first": NOON - HALF}, 4),
)
def test_hour_counts_whose_rows_are_all_still_to_be_shown(
    changes: dict[str, Any], hours: int
) -> None:
    params = {"first": OLDEST, "last": END, "after_at": None, "limit": 10, **changes}
    assert enough(BUSY, HOUR, params) == BUSY[:hours]


def test_filters_by_whom_calls_were_for() -> None:
    digest = END_USERS.digest(OWN.account_id, "a, b")
    query = "end_user=a, b&session=s&run=r,q&label.team=x,y&label.a.b=1"
    assert dict(read(query).filters.attributed) == {
        "end_user": ("a, b", digest),
        "session": ("s", label_of("s")),
        "run": ("r", "q"),
        "label.team": ("x", "y"),
        "label.a.b": ("1",),
    }
    assert read("end_user=&session=&run=&label.team=").filters == Filters()


@cases(
    "query",
    "end_user=a&end_user=b",
    "label.=a",
    "label.Team=a",
    f"label.{'k' * 33}=a",
    "&".join(f"label.k{n}=a" for n in range(9)),
)
def test_such_filters_that_are_malformed_are_refused(query: str) -> None:
    assert refusal(query).startswith("`")
