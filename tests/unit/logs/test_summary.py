"""Sums of the call log: what is asked for, in which parts, and what is kept."""

from datetime import UTC, datetime, timedelta

import pytest
from tornado.escape import parse_qs_bytes

from gw.api.logs.summary import SummaryQuery, read_summary_query
from gw.api.logs.visibility import Scope, Visibility
from gw.api.logs.window import Window
from gw.errors import GatewayError
from tests.support.rows import cases

NOW = datetime(2026, 11, 21, 8, 30, tzinfo=UTC)


def read(query: str, now: datetime = NOW) -> SummaryQuery:
    def see(scope: Scope) -> Visibility:
        return Visibility(scope, "acct_1", "key_1" if scope == "key" else None)

    return read_summary_query(parse_qs_bytes(query, keep_blank_values=True), see=see, now=now)


def refusal(query: str) -> str:
    with pytest.raises(GatewayError) as raised:
        read(query)
    assert (raised.value.http_status, raised.value.kind.code) == (400, "invalid_request")
    return raised.value.message


def test_the_window_is_thirty_days_unless_requested() -> None:
    assert read("").window == Window(NOW - timedelta(days=30), NOW)
    assert read("period=today").window.start == NOW.replace(hour=0, minute=0)
    assert read("period=all&from=2026-01-01&to=2026-01-02").window.start.month == 1


@cases("name", "model", "status", "unit_type", "error_code", "ref")
def test_row_filters_are_refused_and_empty_ones_are_none(name: str) -> None:
    assert refusal(f"{name}=success").startswith(f"`{name}` ")
    assert read(f"{name}=") == read("")


def test_a_window_is_at_most_365_days() -> None:
    assert "365 days" in refusal("period=all")
    assert read("from=2025-01-01&to=2025-12-31").window.end == datetime(2026, 1, 1, tzinfo=UTC)
    assert "365 days" in refusal("from=2024-01-01&to=2024-12-31")  # a leap year
    assert "365 days" in refusal("from=2025-01-01T00:00:00Z&to=2026-01-01T00:00:01Z")


@cases(
    "query",
    "period=90d",
    "from=2026-01-01",
    "to=2026-01-01",
    "scope=all",
    "key_id=key_1",
    "from=x&to=y",
)
def test_the_rest_is_refused_as_for_a_list(query: str) -> None:
    refusal(query)


def test_the_same_question_stays_the_same_as_time_goes_on() -> None:
    later = NOW + timedelta(seconds=20)
    for query in ("", "period=7d", "from=2026-01-01&to=2026-02-01"):
        assert read(query).asked == read(query, later).asked
    assert read("").asked == read("period=30d").asked
    assert read("period=7d").asked != read("").asked
    assert read("scope=account").visibility != read("").visibility


@cases("by", "end_user", "session", "run", "key", "model", "label.team", "label.a.b_c-1")
def test_calls_may_be_grouped_by_one_of_what_they_have(by: str) -> None:
    assert read(f"by={by}").by == by
    assert read("by=").by is None


@cases(
    "query", "by=cost", "by=label.", "by=label.Team", "by=label", "by=key&by=key", "by=key,model"
)
def test_calls_are_grouped_by_nothing_else(query: str) -> None:
    assert refusal(query).startswith("`")


@cases("query", "end_user=a", "session=a", "run=a", "label.team=a")
def test_filters_of_whom_calls_were_for_are_refused_too(query: str) -> None:
    assert "the summary takes no such filter" in refusal(query)


def test_users_are_seen_by_whoever_sees_the_account() -> None:
    scopes: list[Scope] = []

    def see(scope: Scope) -> Visibility:
        scopes.append(scope)
        return Visibility(scope, "acct_1", None)

    read_summary_query(parse_qs_bytes("by=user"), see=see, now=NOW)
    assert scopes == ["key", "account"]
