"""The output of keys: as a record, in a list, and with the text on request.

Only `create` and `reveal` print the text of a key (reference 1.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gw.admin.pagination import Page
from gw.cli import output
from gw.keys.key import KEY, KeyRecord
from gw.keys.key_requests import REQUEST, KeyRequest
from gw.keys.views import KeyTextView

REQUEST_COLUMNS = ("id", "agent_id", "name", "requested_by", "spend_cap_usd", "status")
VIEW_COLUMNS = ("viewed_at", "os_user", "host")

COLUMNS = ("id", "name", "kind", "prefix", "status", "models", "expires_at", "last_used_at")


def key_result(key: KeyRecord) -> output.Result:
    """Return one key without its text."""
    return output.Result(KEY.record(key), output.sheet(KEY.readable(key)))


def new_key_result(key: KeyRecord, text: str) -> output.Result:
    """Return a new key with its text."""
    shown = revealed_result(key, text)
    hint = "The key is not shown again unless it is revealed."
    return output.Result(shown.record, f"{shown.text}\n\n{hint}")


def new_keys_result(keys: Sequence[tuple[KeyRecord, str]]) -> output.Result:
    """Return new keys with their texts, in the order of their file."""
    records = [{"id": key.id, "key": text, **KEY.record(key)} for key, text in keys]
    return output.Result(
        {"keys": records}, output.table(records, ("id", "account_id", "name", "key"))
    )


def revealed_result(key: KeyRecord, text: str) -> output.Result:
    """Return a revealed key with its text."""
    first = {"id": key.id, "key": text}
    return output.Result({**first, **KEY.record(key)}, output.sheet({**first, **KEY.readable(key)}))


def key_list_result(page: Page[KeyRecord]) -> output.Result:
    """Return a page of the keys of an account."""
    records = [KEY.record(key) for key in page.data]
    readable = [KEY.readable(key) for key in page.data]
    rows = [{**one, "models": one["allowed_models"]} for one in readable]
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


def key_request_result(request: KeyRequest) -> output.Result:
    """Return a decided request for a key; of a pending one only its id."""
    record = REQUEST.record(request)
    shown = {name: record[name] for name in ("id", "status")}
    return output.Result(shown, output.sheet(record))


def key_requests_result(requests: Sequence[KeyRequest]) -> output.Result:
    """Return the requests of an account."""
    records = [REQUEST.record(request) for request in requests]
    return output.Result({"requests": records}, output.table(records, REQUEST_COLUMNS))
