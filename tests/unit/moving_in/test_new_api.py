"""What is made of new-api's rows: channels, ratios as prices, quota as money, and what stays."""

import json
import os
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from actors.wallet.money import MAX_NANO_USD
from channels.prices import PriceSpec
from channels.registry import Binding
from gw.config.faults import ConfigFaults
from gw.moving_in.new_api.conversion import plan_of
from gw.moving_in.new_api.tables import read_tables, shown
from gw.moving_in.plan import Plan, SecretText
from gw.price_list.reading import bundled
from tests.support.new_api import RATIOS, make_sqlite, rows
from tests.support.rows import cases, each

LIST = bundled()


def plan(tmp_path: Path, source: str = "new-api", **ratios: Any) -> Plan:
    url = make_sqlite(tmp_path / "one-api.db", rows({**RATIOS, **ratios}))
    return plan_of(read_tables(url), LIST, source=source, origin="there")


def tables(**more: Any) -> dict[str, Any]:
    return {"channels": [], "options": [], "users": [], "tokens": [], **more}


def user(**more: Any) -> Mapping[str, Any]:
    names = ("id", "username", "status", "quota", "group", "deleted_at", "aff_code", "aff_quota")
    return {**dict.fromkeys((*names, "created_at")), "id": 1, "username": "u", "status": 1, **more}


def channel(**more: Any) -> Mapping[str, Any]:
    names = (
        *("id", "type", "key", "status", "name", "base_url", "models", "group", "model_mapping"),
        *("priority", "weight", "other", "openai_organization", "param_override"),
        *("header_override", "status_code_mapping", "setting", "channel_info"),
    )
    usual = {"id": 1, "type": 1, "key": "sk-upstream", "status": 1, "name": "c", "models": "m"}
    return {**dict.fromkeys(names), **usual, **more}


def left(found: Plan) -> dict[str, str]:
    return {one.what: one.reason for one in found.left}


def test_channels_come_with_their_keys_and_models(tmp_path: Path) -> None:
    found = plan(tmp_path)
    first, second = found.channels.values()
    assert list(found.channels) == ["first", "second"]
    assert (first.kind, first.keys, first.priority) == (
        "openai",
        (SecretText("sk-first-upstream"),),
        1,
    )
    assert first.headers == (("OpenAI-Organization", SecretText("org-of-ours")),)
    # The second of three keys is disabled over there; what is tried first there is here, too.
    assert (second.kind, second.priority) == ("deepseek", 11)
    assert second.keys == (SecretText("sk-a-of-second"), SecretText("sk-c-of-second"))
    bound = found.models["llama-3"].bindings
    assert bound == [Binding("first", "meta/llama-3"), Binding("second")]


def test_ratios_become_prices_exactly(tmp_path: Path) -> None:
    found = plan(tmp_path)
    assert found.models["llama-3"].price == PriceSpec(
        input=Decimal("0.6"),
        output=Decimal("2.4"),
        cached_input=Decimal("0.06"),
        cache_write=Decimal("0.75"),
    )
    odd = found.models["odd"].price
    assert odd is not None
    assert odd.input == Decimal("0.246913578")
    assert found.models["half"].price is None  # no ratio of its output, and not in the list
    assert "the ratio of half" in left(found)
    assert "painted" not in found.models
    assert any(what.startswith("what new-api makes of") for what in left(found))


def test_price_of_the_list_is_taken_where_there_is_no_ratio(tmp_path: Path) -> None:
    found = plan(tmp_path, ModelRatio={"llama-3": 0.3})
    assert found.models["gpt-4o"].price == LIST.of("openai", "gpt-4o").price  # type: ignore[union-attr]
    assert found.models["gpt-4o"].rows


def test_another_unit_of_quota_changes_prices_and_money(tmp_path: Path) -> None:
    found = plan(tmp_path, QuotaPerUnit=1_000_000)
    price = found.models["llama-3"].price
    assert price is not None
    assert price.input == Decimal("0.3")
    assert found.accounts[0].balance_nano_usd == 5_000_000_000


@pytest.mark.parametrize("unit", [0, -1, "many", "NaN"])
def test_unit_of_quota_that_is_none_is_refused(unit: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigFaults, match="QuotaPerUnit"):
        plan(tmp_path, QuotaPerUnit=unit)


def test_accounts_come_with_balances_and_keys_made_anew(tmp_path: Path) -> None:
    found = plan(tmp_path)
    root, ann, bob = found.accounts
    assert (root.name, root.balance_nano_usd, root.is_enabled) == ("root", 10_000_000_000, True)
    assert (ann.name, ann.balance_nano_usd) == ("Ann", 1_234_568_000)
    assert (bob.balance_nano_usd, bob.is_enabled) == (0, False)
    laptop, capped = ann.keys
    assert (laptop.name, laptop.models, laptop.expires_at, laptop.spend_cap_nano_usd) == (
        *("laptop", None, None, None),
    )
    assert capped.models == ("llama-3",)
    assert capped.expires_at == datetime.fromtimestamp(1_900_000_000, UTC)
    assert capped.spend_cap_nano_usd == 500_000_000
    assert {
        "the debt of user 3 (Bob)",
        "user 4 (gone)",
        "the ratio 0.8 of group vip (user 2 (Ann))",
        "key off of user 2 (Ann)",
        "addresses of key capped of user 2 (Ann)",
        "model nobody-has-it of key capped of user 2 (Ann)",
        "channel 3 (vertex)",
        "channel 4 (off)",
        "some keys of channel 2 (second)",
        "weight of channel 2 (second)",
        "group default,vip of channel 2 (second)",
        "model painted",
    } <= left(found).keys()
    assert all(left(found).values())


def test_ids_of_accounts_follow_from_the_installation(tmp_path: Path) -> None:
    first, again, other = (
        [one.id for one in plan_of_users(source).accounts] for source in ("a", "a", "b")
    )
    assert first == again
    assert not set(first) & set(other)
    assert all(one.startswith("acct_") and len(one) == 25 for one in first)


def plan_of_users(source: str) -> Plan:
    users = [user(id=number, aff_code=f"code{number}") for number in range(3)]
    return plan_of(tables(users=users), LIST, source=source, origin="there")


@given(st.integers(-(10**9), 10**12), st.sampled_from([500_000, 1_000_000, 7]))
@example(quota=28_000_000_000, unit=7)
@example(quota=28_000_000_001, unit=7)
def test_money_is_the_quota_to_the_nearest_nano_usd(quota: int, unit: int) -> None:
    options = [{"key": "QuotaPerUnit", "value": str(unit)}]
    there = tables(users=[user(quota=quota)], options=options)
    exact = Fraction(max(quota, 0), unit) * 10**9
    if exact > MAX_NANO_USD:
        with pytest.raises(ConfigFaults, match="more than the ledger holds"):
            plan_of(there, LIST, source="s", origin="there")
        return
    (account,) = plan_of(there, LIST, source="s", origin="there").accounts
    assert abs(account.balance_nano_usd - exact) <= Fraction(1, 2)


@cases("quota", "much", 10**25, "Infinity")
def test_money_that_is_none_is_refused(quota: Any) -> None:
    with pytest.raises(ConfigFaults, match="quota of user 1"):
        plan_of(tables(users=[user(quota=quota)]), LIST, source="s", origin="there")


ADDRESSES = [
    ({"type": 1}, ("openai", "", "")),
    ({"type": 1, "base_url": "https://api.openai.com/"}, ("openai", "", "")),
    ({"type": 1, "base_url": "https://own.example"}, ("", "https://own.example", "")),
    (
        {"type": 8, "base_url": "https://own.example/v2/chat/completions"},
        ("", "https://own.example", "/v2/chat/completions"),
    ),
    ({"type": 17}, ("dashscope", "", "")),
    (
        {"type": 17, "base_url": "https://dashscope-intl.aliyuncs.com"},
        ("dashscope", "https://dashscope-intl.aliyuncs.com/compatible-mode", ""),
    ),
    ({"type": 25}, ("moonshot", "https://api.moonshot.cn", "")),
    ({"type": 14}, ("anthropic", "", "")),
    (
        {"type": 3, "base_url": "https://r.openai.azure.com", "other": "2025-01-01"},
        ("azure-openai-deployments", "https://r.openai.azure.com", ""),
    ),
]


@each("row, expected", ADDRESSES)
def test_type_and_address_say_where_a_channel_leads(
    row: dict[str, Any], expected: tuple[str, str, str]
) -> None:
    found = plan_of(tables(channels=[channel(**row)]), LIST, source="s", origin="there")
    (one,) = found.channels.values()
    assert (one.kind, one.base_url, one.chat_path) == expected
    assert one.query == ((("api-version", "2025-01-01"),) if row["type"] == 3 else ())


UNREACHABLE = [
    {"type": 3},
    {"type": 8},
    {"type": 999},
    {"type": 1, "base_url": "nowhere"},
    {"type": 1, "base_url": "https://user:password@own.example"},
    {"type": 1, "status": 3},
]


@each("row", UNREACHABLE)
def test_channel_that_cannot_be_had_here_stays(row: dict[str, Any]) -> None:
    found = plan_of(tables(channels=[channel(**row)]), LIST, source="s", origin="there")
    assert (found.channels, found.models) == ({}, {})
    (one,) = found.left
    assert one.what == "channel 1 (c)"
    assert "password" not in one.reason


def test_kinds_that_make_tasks_have_a_channel_for_each_key() -> None:
    info = json.dumps({"is_multi_key": True})
    row = channel(type=45, key="key-of-one\nkey-of-two", channel_info=info)
    found = plan_of(tables(channels=[row]), LIST, source="s", origin="there")
    assert [one.keys for one in found.channels.values()] == [
        (SecretText("key-of-one"),),
        (SecretText("key-of-two"),),
    ]
    assert len(found.models["m"].bindings) == 2


def test_odd_columns_are_left_and_never_break_the_import() -> None:
    row = channel(
        key="two words",
        models=" ,m, m,a b,",
        model_mapping="[1",
        param_override='{"temperature": 0}',
        setting="{}",
    )
    found = plan_of(tables(channels=[row]), LIST, source="s", origin="there")
    assert list(found.models) == ["m"]
    assert {"some keys of channel 1 (c)", "param_override of channel 1 (c)"} <= left(found).keys()
    assert "setting of channel 1 (c)" not in left(found)


@cases("number, kind", (33, "bedrock"), (41, "vertex"))
def test_channel_whose_credentials_have_another_form_says_what_to_do(
    number: int, kind: str
) -> None:
    row = channel(type=number, key='{"private_key": "hidden"}', name="cloud")
    found = plan_of(tables(channels=[row]), LIST, source="s", origin="there")
    assert not found.channels
    reason = left(found)["channel 1 (cloud)"]
    assert f"write a channel of kind {kind}" in reason
    assert "hidden" not in reason


@cases(
    "url", "mysql://root:word@tcp/x", "root:word@tcp(db:3306)/x", "root:word@unix(/run/m)/x", "word"
)
def test_address_is_shown_without_its_password(url: str) -> None:
    assert "word" not in shown(url)


def test_database_that_is_none_of_new_api_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE channels (id integer, key text)")
    connection.close()
    for url, found in [
        (f"sqlite:///{path}", "a table channels without type"),
        (f"sqlite:///{tmp_path / 'nowhere.db'}", "no file"),
        ("mysql://root:word@db/one-api", "a database of mysql, which is not read"),
        ("root:word@tcp(db:3306)/new-api", "a database of mysql, which is not read"),
        ("nothing", "no address of a database"),
    ]:
        with pytest.raises(ConfigFaults, match=found) as caught:
            read_tables(url)
        assert "word@" not in str(caught.value)
    (tmp_path / "text.db").write_text("no database" * 100)
    with pytest.raises(ConfigFaults, match="not a database"):
        read_tables(f"sqlite:///{tmp_path / 'text.db'}")


# Databases that would run a stranger's code: what is done to a good one, before it is read.
CODE: dict[str, str] = {
    "a view": "ALTER TABLE options RENAME TO hidden; CREATE VIEW options AS SELECT * FROM hidden",
    "a view of a recursion": (
        "ALTER TABLE tokens RENAME TO hidden; CREATE VIEW tokens AS WITH RECURSIVE n(i) AS"
        " (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT * FROM hidden, n"
    ),
    "a virtual table": ("DROP TABLE options; CREATE VIRTUAL TABLE options USING fts5(key, value)"),
    "a generated column": (
        "ALTER TABLE users ADD COLUMN created_at text AS (hex(zeroblob(1000000000)))"
    ),
    "a generated column that is stored": (
        "DROP TABLE options; CREATE TABLE options (key text, value text AS (upper(key)) STORED)"
    ),
    "no table": "DROP TABLE users",
}


@each("script", CODE.values())
def test_database_of_a_stranger_runs_no_code(tmp_path: Path, script: str) -> None:
    path = tmp_path / "stranger.db"
    path.unlink(missing_ok=True)
    url = make_sqlite(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)
    with pytest.raises(ConfigFaults, match=r"plain table|generated"):
        read_tables(url)


def test_database_is_read_for_so_long_and_from_a_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = make_sqlite(tmp_path / "large.db")
    with closing(sqlite3.connect(tmp_path / "large.db")) as connection:
        row = [(f"k{number}", "v") for number in range(20_000)]
        connection.executemany("INSERT INTO options VALUES (?, ?)", row)
        connection.commit()
    assert len(read_tables(url)["options"]) > 20_000
    monkeypatch.setattr("gw.moving_in.new_api.tables.STATEMENT_MS", -1)
    with pytest.raises(ConfigFaults, match="interrupted"):
        read_tables(url)
    os.mkfifo(tmp_path / "pipe.db")
    with pytest.raises(ConfigFaults, match="no file"):
        read_tables(f"sqlite:///{tmp_path}/pipe.db")


@each(
    "base_url",
    [
        "https://stranger.example/${GW_SECRET}",
        "https://${GW_SECRET}.stranger.example",
        "https://stranger.example/$x",
        "https://stranger.example/{x}",
    ],
)
def test_address_with_a_variable_stays(base_url: str) -> None:
    for number in (1, 8):
        found = plan_of(
            tables(channels=[channel(id=1, type=number, base_url=base_url)]),
            LIST,
            source="s",
            origin="o",
        )
        assert found.channels == {}
        assert any("address" in one.reason for one in found.left)
