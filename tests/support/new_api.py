"""A database of new-api for tests: its tables, as its program makes them, with rows in them."""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from loadtests.rig.transactions import transaction

# The types are those of PostgreSQL; SQLite takes them, too. "group" and "key" are reserved words.
TABLES = """
CREATE TABLE channels (id bigint PRIMARY KEY, type bigint DEFAULT 0, key text NOT NULL,
    openai_organization text, test_model text, status bigint DEFAULT 1, name text,
    weight bigint DEFAULT 0, created_time bigint, base_url text DEFAULT '', other text,
    balance numeric, models text, "group" varchar(64) DEFAULT 'default', used_quota bigint,
    model_mapping text, status_code_mapping varchar(1024) DEFAULT '', priority bigint DEFAULT 0,
    auto_ban bigint DEFAULT 1, tag text, setting text, param_override text, header_override text,
    remark varchar(255), channel_info json);
CREATE TABLE options (key text PRIMARY KEY, value text);
CREATE TABLE users (id bigint PRIMARY KEY, username text, password text NOT NULL, role bigint,
    status bigint DEFAULT 1, email text, quota bigint DEFAULT 0, used_quota bigint DEFAULT 0,
    "group" varchar(64) DEFAULT 'default', aff_code varchar(32), aff_quota bigint DEFAULT 0,
    deleted_at timestamp);
CREATE TABLE tokens (id bigint PRIMARY KEY, user_id bigint, key char(48), status bigint DEFAULT 1,
    name text, expired_time bigint DEFAULT -1, remain_quota bigint DEFAULT 0,
    unlimited_quota boolean, model_limits_enabled boolean, model_limits text,
    allow_ips text DEFAULT '', used_quota bigint DEFAULT 0, "group" text DEFAULT '',
    deleted_at timestamp);
"""
RATIOS: Mapping[str, Any] = {
    "ModelRatio": {"llama-3": 0.3, "odd": 0.123456789, "gpt-4o": 1.25, "half": 1},
    "CompletionRatio": {"llama-3": 4, "odd": 1, "gpt-4o": 4},
    "CacheRatio": {"llama-3": 0.1},
    "CreateCacheRatio": {"llama-3": 1.25},
    "ModelPrice": {"painted": 0.04},
    "GroupRatio": {"default": 1, "vip": 0.8},
}
CHANNELS: Sequence[Mapping[str, Any]] = (
    {
        "id": 1,
        "type": 1,
        "name": "first",
        "key": "sk-first-upstream",
        "models": "gpt-4o,llama-3,half,painted",
        "model_mapping": json.dumps({"llama-3": "meta/llama-3"}),
        "priority": 10,
        "openai_organization": "org-of-ours",
    },
    {
        "id": 2,
        "type": 43,
        "name": "second",
        "key": "sk-a-of-second\nsk-b-of-second\nsk-c-of-second",
        "models": "odd,llama-3",
        "weight": 5,
        "group": "default,vip",
        "channel_info": json.dumps(
            {"is_multi_key": True, "multi_key_status_list": {"1": 2}, "multi_key_mode": "polling"}
        ),
    },
    {"id": 3, "type": 41, "name": "vertex", "key": "{}", "models": "gemini-2.5-pro"},
    {"id": 4, "type": 1, "name": "off", "key": "sk-off-upstream", "models": "x", "status": 2},
)
USERS: Sequence[Mapping[str, Any]] = (
    {"id": 1, "username": "root", "quota": 5_000_000, "aff_code": "aaaa"},
    {"id": 2, "username": "Ann", "quota": 617_284, "aff_code": "bbbb", "group": "vip"},
    {"id": 3, "username": "Bob", "quota": -500, "aff_code": "cccc", "status": 2},
    {"id": 4, "username": "gone", "quota": 9, "deleted_at": "2026-01-01 00:00:00"},
)
TOKENS: Sequence[Mapping[str, Any]] = (
    {"id": 1, "user_id": 2, "key": "k1", "name": "laptop", "unlimited_quota": True},
    {
        "id": 2,
        "user_id": 2,
        "key": "k2",
        "name": "capped",
        "remain_quota": 250_000,
        "unlimited_quota": False,
        "expired_time": 1_900_000_000,
        "model_limits_enabled": True,
        "model_limits": "llama-3,nobody-has-it",
        "allow_ips": "10.0.0.1",
    },
    {"id": 3, "user_id": 2, "key": "k3", "name": "off", "status": 2, "unlimited_quota": True},
    {"id": 4, "user_id": 2, "key": "k4", "name": "gone", "deleted_at": "2026-01-01 00:00:00"},
)


def rows(ratios: Mapping[str, Any] = RATIOS) -> dict[str, list[dict[str, Any]]]:
    """The rows of each table."""
    return {
        "channels": [dict(row) for row in CHANNELS],
        "options": [{"key": key, "value": json.dumps(value)} for key, value in ratios.items()],
        "users": [{"password": "hash", **row} for row in USERS],
        "tokens": [dict(row) for row in TOKENS],
    }


def make_sqlite(path: Path, tables: Mapping[str, list[dict[str, Any]]] | None = None) -> str:
    """Make the database in a file and return its address."""
    with sqlite3.connect(path) as connection:
        connection.executescript(TABLES)
        for sql, values in _inserts(tables or rows(), "?"):
            connection.execute(sql, values)
    connection.close()
    return f"sqlite:///{path}"


def make_postgresql(url: str) -> None:
    """Make the tables in an empty database."""
    with transaction(url) as cursor:
        cursor.execute(TABLES)
        for sql, values in _inserts(rows(), "%s"):
            cursor.execute(sql, values)


def _inserts(
    tables: Mapping[str, list[dict[str, Any]]], mark: str
) -> list[tuple[str, tuple[Any, ...]]]:
    found = []
    for table, lines in tables.items():
        for row in lines:
            names = ", ".join(f'"{name}"' for name in row)
            marks = ", ".join(mark for _ in row)
            sql = f'INSERT INTO "{table}" ({names}) VALUES ({marks})'  # names are those above
            found.append((sql, tuple(row.values())))
    return found
