"""What the call log must answer, worked out over a plain list of the same rows."""

from datetime import UTC, date, datetime, timedelta

from gw.api.logs.visibility import Scope, Visibility
from tests.integration.logs.table import NOW
from tests.support.call_log import Row


def see(scope: Scope) -> Visibility:
    return Visibility(scope, "acct_a", "key_a" if scope == "key" else None)


def window_of(parameters: dict[str, str]) -> tuple[datetime, datetime]:
    if "from" in parameters:
        return _edge(parameters["from"], False), _edge(parameters["to"], True)
    today = datetime(NOW.year, NOW.month, NOW.day, tzinfo=UTC)
    starts = {
        "today": today,
        "7d": NOW - timedelta(days=7),
        "30d": NOW - timedelta(days=30),
        "this_month": today.replace(day=1),
        "all": datetime(1970, 1, 1, tzinfo=UTC),
    }
    return starts[parameters["period"] or ("all" if "ref" in parameters else "30d")], NOW


def _edge(text: str, is_end: bool) -> datetime:
    if "T" in text:
        return datetime.fromisoformat(text.replace("Z", "+00:00"))
    day = date.fromisoformat(text) + timedelta(days=is_end)
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def expected(rows: list[Row], parameters: dict[str, str]) -> list[int]:
    start, end = window_of(parameters)

    def wanted(name: str, value: str) -> bool:
        listed = parameters[name].split(",") if parameters[name] else None
        return listed is None or value in listed

    found = [
        row
        for row in rows
        if row.account_id == "acct_a"
        and (parameters["scope"] == "account" or row.key_id == "key_a")
        and parameters.get("key_id", "") in ("", row.key_id)
        and start <= row.created_at < end
        and wanted("model", row.model)
        and wanted("status", row.status)
        and wanted("unit_type", row.unit_type or "chat")
        and wanted("error_code", row.error_code or "no code")
        and parameters.get("ref") in (None, row.task_id, row.request_id.hex)
    ]
    found.sort(key=lambda row: (row.created_at, row.id), reverse=parameters["order"] != "asc")
    return [row.id for row in found]
