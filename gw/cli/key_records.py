"""How a key is shown: as a record, in a list, and with its text where that is asked for.

The text of a key is printed by `create` and `reveal` only (spec: API key).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from actors.wallet.money import format_usd
from gw.cli.model_options import shown_models
from gw.cli.output import Result, rfc3339, sheet, table
from gw.keys.requests import KeyRequest
from gw.keys.store import KeyRecord
from gw.keys.views import View

REQUEST_COLUMNS = ("id", "agent_id", "name", "requested_by", "spend_cap_usd", "status")
VIEW_COLUMNS = ("viewed_at", "os_user", "host")
COLUMNS = ("id", "name", "kind", "prefix", "status", "models", "expires_at", "last_used_at")


def key_result(key: KeyRecord) -> Result:
    """One key without its text."""
    record = key_record(key)
    return Result(record, _sheet(record))


def new_key_result(key: KeyRecord, text: str) -> Result:
    """A key that has just been made."""
    record = {"id": key.id, "key": text, **key_record(key)}
    return Result(record, f"{_sheet(record)}\n\nThe key is not shown again unless it is revealed.")


def revealed_result(key: KeyRecord, text: str) -> Result:
    """A key whose text was asked for again."""
    record = {"id": key.id, "key": text, **key_record(key)}
    return Result(record, _sheet(record))


def key_list_result(keys: Sequence[KeyRecord]) -> Result:
    """The keys of an account."""
    records = [key_record(key) for key in keys]
    rows = [{**record, "models": shown_models(record["allowed_models"])} for record in records]
    return Result({"keys": records}, table(rows, COLUMNS))


def key_views_result(views: Sequence[View]) -> Result:
    """Who has been shown a key's text, oldest first."""
    records = [
        {"viewed_at": rfc3339(view.viewed_at), "os_user": view.os_user, "host": view.host}
        for view in views
    ]
    text = table(records, VIEW_COLUMNS) if records else "nobody has revealed this key"
    return Result({"views": records}, text)


def key_record(key: KeyRecord) -> dict[str, Any]:
    """A key as `--json` shows it; amounts are decimal strings, times RFC 3339 or null."""
    return {
        "id": key.id,
        "account_id": key.account_id,
        "name": key.name,
        "kind": key.kind,
        "agent_id": key.agent_id,
        "user": key.user,
        "requested_by": key.requested_by,
        "prefix": key.prefix,
        "status": status(key, datetime.now(UTC)),
        "enabled": key.enabled,
        "revealable": key.is_revealable,
        "allowed_models": key.allowed_models,
        "expires_at": rfc3339(key.expires_at),
        "account_logs": key.account_logs,
        "spend_cap_usd": _usd_or_none(key.spend_cap_nano_usd),
        "spent_usd": format_usd(key.spent_nano_usd),
        "last_used_at": rfc3339(key.last_used_at),
        "created_at": rfc3339(key.created_at),
        "revoked_at": rfc3339(key.revoked_at),
    }


def key_request_result(request: KeyRequest) -> Result:
    """What became of a request for a key; of one that waits, no more than its id."""
    record = key_request_record(request)
    shown = {name: record[name] for name in ("id", "status")}
    return Result(shown, sheet(record))


def key_requests_result(requests: Sequence[KeyRequest]) -> Result:
    """The requests of an account."""
    records = [key_request_record(request) for request in requests]
    return Result({"requests": records}, table(records, REQUEST_COLUMNS))


def key_request_record(request: KeyRequest) -> dict[str, Any]:
    """A request for a key as `--json` shows it."""
    return {
        "id": request.id,
        "account_id": request.account_id,
        "agent_id": request.agent_id,
        "name": request.name,
        "requested_by": request.requested_by,
        "spend_cap_usd": format_usd(request.spend_cap_nano_usd),
        "status": request.status,
        "created_at": rfc3339(request.created_at),
        "decided_at": rfc3339(request.decided_at),
        "decided_by": request.decided_by,
    }


def status(key: KeyRecord, now: datetime) -> str:
    """What a request with this key would meet, its account apart."""
    if key.revoked_at is not None:
        return "revoked"
    if not key.enabled:
        return "disabled"
    if key.expires_at is not None and key.expires_at <= now:
        return "expired"
    return "active"


def _sheet(record: Mapping[str, Any]) -> str:
    return sheet({**record, "allowed_models": shown_models(record["allowed_models"])})


def _usd_or_none(amount_nano_usd: int | None) -> str | None:
    return None if amount_nano_usd is None else format_usd(amount_nano_usd)
