"""What `gw models diff` says of calls that were made, on a real PostgreSQL."""

from pathlib import Path

import pytest

from loadtests.rig.transactions import transaction
from tests.integration.cli.command import Gw

CALL_ROW = """
    INSERT INTO call_logs (created_at, submitted_at, account_id, key_id, request_id, protocol,
        model, status, input_tokens, output_tokens, cached_tokens, cost_nano_usd, latency_ms,
        detail)
    VALUES (now() - %s * interval '1 day', now(), 'acct_a', 'key_a', gen_random_uuid(), 'chat', %s,
        'success', %s, %s, %s, %s, 1, '{"cache_write": 100000}')
"""
PRICES = """
dated: 2026-11-22
sources: {page: {url: "https://provider.example", dated: 2026-11-01}}
models:
  - provider: openai
    id: gpt-large
    source: page
    price: {input: 2, output: 4, cached_input: 1, cache_write: 3}
  - {provider: openai, id: gpt-small, source: page, price: {input: 1, output: 1}}
"""


def test_diff_tells_what_the_calls_of_the_last_days_would_have_cost_more(
    gw: Gw, database_url: str, tmp_path: Path
) -> None:
    text = gw.config.read_text().replace("https://a.example", "https://api.openai.com")
    gw.config.write_text(text)
    gw.run_json("account", "list")  # makes the tables
    with transaction(database_url) as cursor:
        for row in [
            (1, "gpt-large", 1_000_000, 500_000, 300_000, 7),
            (2, "gpt-large", 1_000_000, 500_000, 300_000, 7),
            (40, "gpt-large", 9_000_000, 9_000_000, 0, 7),  # too long ago
            (1, "gpt-large", 9_000_000, 9_000_000, 0, 0),  # nobody paid for it
            (1, "gpt-small", 1_000_000, 1_000_000, 0, 7),
            (1, "gone", 1_000_000, 1_000_000, 0, 7),
        ]:
            cursor.execute(CALL_ROW, row)
    prices = tmp_path / "prices.yaml"
    prices.write_text(PRICES)
    record = gw.run_json("models", "diff", str(prices))
    assert record["calls"] == [
        # Each: 600k fresh at 1 more, 300k cached as dear, 100k written and 500k out at 2 more.
        {"model": "gpt-large", "calls": 2, "more_usd": "3.6"},
        {"model": "gpt-small", "calls": 1, "more_usd": "-1"},
    ]
    assert (record["days"], record["more_usd"]) == (30, "2.6")
    assert gw.run_json("models", "diff", str(prices), "--days", "2")["more_usd"] == "0.8"
    message = gw.run("models", "diff", str(prices))
    assert "3.6" in message.out


DIMENSIONS = """
dated: 2026-11-22
sources: {page: {url: "https://provider.example", dated: 2026-11-01}}
models:
  - provider: openai
    id: gpt-large
    source: page
    price:
      input: 1
      output: 2
      above_tokens: [{above: 200000, input: 2, output: 4}]
      service_tiers: {priority: {factor: 3}}
      per_web_search: "0.01"
"""


def test_each_call_is_priced_by_what_its_row_counts(
    gw: Gw, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gw.price_list.repricing.ROWS_MAX", 2)
    text = gw.config.read_text().replace("https://a.example", "https://api.openai.com")
    gw.config.write_text(text)
    gw.run_json("account", "list")  # makes the tables
    calls = [
        (200_000, 0, "{}", 0),  # a short prompt, and the like
        (200_001, 1000, "{}", 200_001 + 2000),  # a long one: twice as much
        (1000, 0, '{"reported": {"service_tier": "priority"}}', 2000),
        (0, 0, '{"reported": {"web_searches": 2}}', 20_000),
        (0, 0, '{"reported": {"web_searches": 1}, "reasoning": 5}', 10_000),
    ]
    with transaction(database_url) as cursor:
        for given, output, detail, _ in calls:
            row = CALL_ROW.replace("""'{"cache_write": 100000}'""", "%s")
            cursor.execute(row, (1, "gpt-large", given, output, 0, 7, detail))
    prices = tmp_path / "prices.yaml"
    prices.write_text(DIMENSIONS)
    record = gw.run_json("models", "diff", str(prices))
    micro_usd = sum(more for *_, more in calls)
    assert record["calls"][0]["calls"] == len(calls)
    assert record["more_usd"] == f"{micro_usd / 10**6:.6f}".rstrip("0")
