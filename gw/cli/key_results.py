"""The output of keys: as a record, in a list, and with the text on request.

Only `create` and `reveal` print the text of a key (spec: API key).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from actors.wallet.money import format_usd
from gw.admin import keys as admin
from gw.admin.pagination import Page
from gw.cli import output
from gw.cli.model_options import shown_models
from gw.keys.key_requests import KeyRequest
from gw.keys.store import KeyRecord
from gw.keys.views import KeyTextView

REQUEST_COLUMNS = ("id", "agent_id", "name", "requested_by", "spend_cap_usd", "status")
VIEW_COLUMNS = ("viewed_at", "os_user", "host")

COLUMNS = ("id", "name", "kind", "prefix", "status", "models", "expires_at", "last_used_at")


def key_result(key: KeyRecord) -> output.Result:
    """Return one key without its text."""
    record = key_record(key)
    return output.Result(record, _sheet(record))


def new_key_result(key: KeyRecord, text: str) -> output.Result:
    """Return a new key with its text."""
    record = {"id": key.id, "key": text, **key_record(key)}
    return output.Result(
        record, f"{_sheet(record)}\n\nThe key is not shown again unless it is revealed."
    )


def new_keys_result(keys: Sequence[tuple[KeyRecord, str]]) -> output.Result:
    """Return new keys with their texts, in the order of their file."""
    records = [{"id": key.id, "key": text, **key_record(key)} for key, text in keys]
    return output.Result(
        {"keys": records}, output.table(records, ("id", "account_id", "name", "key"))
    )


def revealed_result(key: KeyRecord, text: str) -> output.Result:
    """Return a revealed key with its text."""
    record = {"id": key.id, "key": text, **key_record(key)}
    return output.Result(record, _sheet(record))


def key_list_result(page: Page[KeyRecord]) -> output.Result:
    """Return a page of the keys of an account."""
    records = [key_record(key) for key in page.data]
    rows = [{**one, "models": shown_models(one["allowed_models"])} for one in records]
    record: dict[str, Any] = {"keys": records}
    if page.next_cursor is None:
        return output.Result(record, output.table(rows, COLUMNS))
    text = f"{output.table(rows, COLUMNS)}\n\nmore: --cursor {page.next_cursor}"
    return output.Result({**record, "next_cursor": page.next_cursor}, text)


def key_views_result(views: Sequence[KeyTextView]) -> output.Result:
    """Return the views of a key's text, oldest first."""
    records = [
        {"viewed_at": output.rfc3339(view.viewed_at), "os_user": view.os_user, "host": view.host}
        for view in views
    ]
    text = output.table(records, VIEW_COLUMNS) if records else "nobody has revealed this key"
    return output.Result({"views": records}, text)


def key_record(key: KeyRecord) -> dict[str, Any]:
    """Return a key for `--json`; amounts are decimal strings, times RFC 3339 or null."""
    record: dict[str, Any] = msgspec.to_builtins(admin.view(key))
    return record


def key_request_result(request: KeyRequest) -> output.Result:
    """Return a decided request for a key; of a pending one only its id."""
    record = key_request_record(request)
    shown = {name: record[name] for name in ("id", "status")}
    return output.Result(shown, output.sheet(record))


def key_requests_result(requests: Sequence[KeyRequest]) -> output.Result:
    """Return the requests of an account."""
    records = [key_request_record(request) for request in requests]
    return output.Result({"requests": records}, output.table(records, REQUEST_COLUMNS))


def key_request_record(request: KeyRequest) -> dict[str, Any]:
    """Return a request for a key for `--json`."""
    return {
        "id": request.id,
        "account_id": request.account_id,
        "agent_id": request.agent_id,
        "name": request.name,
        "requested_by": request.requested_by,
        "spend_cap_usd": format_usd(request.spend_cap_nano_usd),
        "status": request.status,
        "created_at": output.rfc3339(request.created_at),
        "decided_at": output.rfc3339(request.decided_at),
        "decided_by": request.decided_by,
    }


def _sheet(record: Mapping[str, Any]) -> str:
    return output.sheet({**record, "allowed_models": shown_models(record["allowed_models"])})
