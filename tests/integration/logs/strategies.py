"""What Hypothesis draws for the call log: rows that crowd around the edges of hours and days."""

from datetime import datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from gw.api.logs.list_query import STATUSES
from tests.integration.logs.table import ACCOUNTS, HOURS_APART, START
from tests.support.call_log import Row

MODELS = ("m-1", "m-2", "m-3")
CODES = ("upstream_timeout", "quota_exceeded")
UNITS = ("image", "video")
ACCOUNT_OF = {key: account for account, keys in ACCOUNTS.items() for key in keys}
KEYS = tuple(ACCOUNT_OF)

# Around the edge of an hour, to the microsecond, several rows at the same instant.
instants = st.builds(
    lambda hours, microseconds: START + timedelta(hours=hours, microseconds=microseconds),
    st.sampled_from(HOURS_APART),
    st.sampled_from((-1, 0, 1, 2, 1_800_000_000)),
)


@st.composite
def row_lists(draw: st.DrawFn) -> list[Row]:
    """Up to thirty rows of both accounts."""
    count = draw(st.integers(min_value=0, max_value=30))
    rows = []
    for number in range(1, count + 1):
        status = draw(st.sampled_from(STATUSES))
        failed = status != "success"
        key_id = draw(st.sampled_from(KEYS))
        rows.append(
            Row(
                number=number,
                created_at=draw(instants),
                account_id=ACCOUNT_OF[key_id],
                key_id=key_id,
                model=draw(st.sampled_from(MODELS)),
                status=status,
                unit_type=draw(st.sampled_from((None, *UNITS))),
                error_code=draw(st.sampled_from(CODES)) if failed else None,
                cost_nano_usd=0 if status == "rejected" else draw(st.integers(0, 10**12)),
                input_tokens=draw(st.integers(0, 1000)),
                task_id=f"task_{number}" if draw(st.booleans()) else None,
            )
        )
    return rows


def some(*words: str) -> st.SearchStrategy[str]:
    """A comma-separated list of a few of the words, often none."""
    return st.lists(st.sampled_from(words), max_size=2, unique=True).map(",".join)


def _bound(instant: datetime) -> str:
    return instant.isoformat(timespec="microseconds").replace("+00:00", "Z")


dates = st.sampled_from(
    [(START + timedelta(days=days)).date().isoformat() for days in range(-1, 6)]
)
bounds = st.one_of(dates, instants.map(_bound))
windows: st.SearchStrategy[dict[str, str]] = st.one_of(
    st.sampled_from(("", "today", "7d", "30d", "this_month", "all")).map(lambda p: {"period": p}),
    st.tuples(bounds, bounds).map(lambda pair: {"from": min(pair), "to": max(pair)}),
)


@st.composite
def list_queries(draw: st.DrawFn) -> dict[str, Any]:
    """The parameters of a list, each filter often there and often not."""
    scope = draw(st.sampled_from(("", "key", "account")))
    parameters = {
        "scope": scope,
        **draw(windows),
        "model": draw(some(*MODELS, "m-unknown")),
        "status": draw(some(*STATUSES)),
        "unit_type": draw(some(*UNITS, "chat", "music")),
        "error_code": draw(some(*CODES, "unknown")),
        "order": draw(st.sampled_from(("", "desc", "asc"))),
        "limit": str(draw(st.integers(1, 6))),
    }
    if scope == "account":
        parameters["key_id"] = draw(st.sampled_from(("", *KEYS, "key_unknown")))
    if draw(st.integers(0, 7)) == 0:
        number = draw(st.integers(1, 30))
        parameters["ref"] = draw(st.sampled_from((f"task_{number}", f"{number:032x}", "nothing")))
    return parameters
