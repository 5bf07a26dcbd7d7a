"""The forms of exports, one reader each, recognised by their members or columns.

Of OpenAI the pages of the usage and costs API and the CSV files of the dashboard; of Anthropic the
usage and cost reports and the CSV files of the console; of Google the rows of the Cloud Billing
export as JSON or CSV, and the CSV file of the cost table.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from fractions import Fraction
from typing import Any

from gw.price_list.exports import export, values


def form_of_object(piece: export.Piece) -> tuple[str, export.PieceReader]:
    for provider, reader, keys in (
        ("openai", _openai_bucket, {"start_time", "results"}),
        ("anthropic", _anthropic_bucket, {"starting_at", "results"}),
        ("google", _google_row, {"sku", "usage_start_time", "cost"}),
    ):
        if keys <= piece.keys():
            return provider, reader
    raise export.NoExport(f"no known export has objects with {named(piece)}")


def form_of_row(piece: export.Piece) -> tuple[str, export.PieceReader]:
    for provider, reader, keys in CSV_FORMS:
        if keys <= piece.keys():
            return provider, reader
    raise export.NoExport(f"no known export has the columns {named(piece)}")


def named(piece: export.Piece) -> str:
    names = [str(name)[:40] for name in list(piece)[:6]]
    return ", ".join(names) + (", …" if len(piece) > len(names) else "")


def _openai_bucket(piece: export.Piece) -> Iterator[export.ExportEntry]:
    """Parse a bucket of `/v1/organization/usage/…` or `/v1/organization/costs`."""
    day = values.day_of_unix(piece["start_time"])
    yield export.ExportEntry(day, None, {})
    for result in piece["results"]:
        if result.get("amount") is not None:
            amount = result["amount"]
            yield _openai_cost(day, result.get("line_item"), amount["value"], amount["currency"])
        elif result.get("input_tokens") is not None:
            yield _openai_tokens(day, result)


def _openai_tokens(day: date, result: export.Piece) -> export.ExportEntry:
    if not result.get("model"):
        raise export.NoExport("it names no models: request it with group_by[]=model")
    figures = {
        "input": values.count_of(result["input_tokens"]),
        "cached": values.count_of(result.get("input_cached_tokens")),
        "output": values.count_of(result.get("output_tokens")),
    }
    if "input_cache_write_tokens" in result:
        figures["cache_write"] = values.count_of(result["input_cache_write_tokens"])
    return export.ExportEntry(day, result["model"], figures)


def _openai_cost(day: date, line_item: Any, value: Any, currency: str) -> export.ExportEntry:
    """Return the cost of one `line_item`: a model and what was billed, `gpt-5, input`."""
    if not line_item:
        raise export.NoExport("it names no models: request it with group_by[]=line_item")
    model = str(line_item).partition(", ")[0]
    return export.ExportEntry(day, model, {"cost": values.nano_usd_of(value, currency)})


def _openai_csv_tokens(piece: export.Piece) -> Iterator[export.ExportEntry]:
    yield _openai_tokens(values.day_of_unix(piece["start_time"]), piece)


def _openai_csv_cost(piece: export.Piece) -> Iterator[export.ExportEntry]:
    day = values.day_of_unix(piece["start_time"])
    value, currency = piece["amount_value"], piece["amount_currency"]
    yield _openai_cost(day, piece["line_item"], value or "0", currency or "usd")


def _anthropic_bucket(piece: export.Piece) -> Iterator[export.ExportEntry]:
    """Parse a bucket of `/v1/organizations/usage_report/messages` or `…/cost_report`."""
    day = values.day_of_text(piece["starting_at"])
    yield export.ExportEntry(day, None, {})
    for result in piece["results"]:
        if result.get("amount") is not None:
            # A decimal number of cents.
            cents = values.nano_usd_of(result["amount"], result.get("currency") or "USD")
            name = result.get("model") or result.get("description")
            if not name:
                raise export.NoExport("it names no models: request it with group_by[]=description")
            yield export.ExportEntry(day, name, {"cost": cents / 100})
            continue
        if not result.get("model"):
            raise export.NoExport("it names no models: request it with group_by[]=model")
        written = result.get("cache_creation") or {}
        yield export.ExportEntry(
            day,
            result["model"],
            _of_anthropic(
                fresh=result["uncached_input_tokens"],
                cached=result.get("cache_read_input_tokens"),
                written=(
                    written.get("ephemeral_5m_input_tokens"),
                    written.get("ephemeral_1h_input_tokens"),
                ),
                output=result["output_tokens"],
            ),
        )


def _anthropic_csv_tokens(piece: export.Piece) -> Iterator[export.ExportEntry]:
    prefix = "usage_input_tokens_cache_write"
    figures = _of_anthropic(
        fresh=piece["usage_input_tokens_no_cache"],
        cached=piece.get("usage_input_tokens_cache_read"),
        written=[piece.get(name) for name in (prefix, f"{prefix}_5m", f"{prefix}_1h")],
        output=piece["usage_output_tokens"],
    )
    yield export.ExportEntry(
        values.day_of_text(piece["usage_date_utc"]), piece["model_version"], figures
    )


def _of_anthropic(*, fresh: Any, cached: Any, written: Any, output: Any) -> export.Figures:
    """Return the figures; Anthropic's `input` excludes the tokens of caches."""
    writes = sum(map(values.count_of, written), Fraction())
    read_from_cache = values.count_of(cached)
    return {
        "input": values.count_of(fresh) + read_from_cache + writes,
        "cached": read_from_cache,
        "cache_write": writes,
        "output": values.count_of(output),
    }


def _anthropic_csv_cost(piece: export.Piece) -> Iterator[export.ExportEntry]:
    name = piece["model"] or piece.get("cost_type") or piece.get("token_type")
    cost = values.nano_usd_of(piece["cost_usd"] or "0", "USD")
    yield export.ExportEntry(values.day_of_text(piece["usage_date_utc"]), name, {"cost": cost})


# The services with SKUs of models. An export contains those of all other services, too.
_GOOGLE_SERVICES = ("gemini api", "generative language api", "vertex ai", "agent platform")


def _google_row(piece: export.Piece) -> Iterator[export.ExportEntry]:
    """Parse a row of the export to BigQuery, as `bq extract` writes it in JSON."""
    usage = piece.get("usage") or {}
    service, sku = (piece.get(name) or {} for name in ("service", "sku"))
    day = values.day_of_text(piece["usage_start_time"])
    yield from _of_google(
        day,
        str(service.get("description") or ""),
        str(sku["description"]),
        usage.get("amount"),
        values.nano_usd_of(piece["cost"], piece.get("currency") or "USD"),
    )


def _google_csv(piece: export.Piece) -> Iterator[export.ExportEntry]:
    """Parse such a row of a CSV file, whose columns join the names by a point or an underscore."""

    def value(*names: str) -> Any:
        return next((piece[one] for one in (".".join(names), "_".join(names)) if one in piece), "")

    cost = values.nano_usd_of(piece["cost"] or "0", piece.get("currency") or "USD")
    day = values.day_of_text(piece["usage_start_time"])
    service, sku = value("service", "description"), value("sku", "description")
    yield from _of_google(day, service, sku, value("usage", "amount"), cost)


def _google_cost_table(piece: export.Piece) -> Iterator[export.ExportEntry]:
    """Parse a row of the cost table; its days are in the Pacific time zone."""
    if not piece["SKU description"]:
        return  # a row of totals
    unrounded = piece.get("Unrounded cost ($)")
    cost = values.nano_usd_of(unrounded or piece["Cost ($)"] or "0", "USD")
    day = values.day_of_text(piece["Usage start date"])
    service, sku = piece["Service description"], piece["SKU description"]
    yield from _of_google(day, service, sku, piece.get("Usage amount"), cost)


def _of_google(
    day: date, service: str, sku: str, amount: Any, cost: Fraction
) -> Iterator[export.ExportEntry]:
    if not any(one in service.lower() for one in _GOOGLE_SERVICES):
        return
    words = sku.lower()
    figures = {"cost": cost}
    if "token" in words or "predictions" in words:
        count = values.count_of(amount)
        if "output" in words:
            figures["output"] = count
        elif "storage" not in words:
            figures["input"] = count
            if "cach" in words:
                figures["cached"] = count
    yield export.ExportEntry(day, sku, figures)


CSV_FORMS: tuple[tuple[str, export.PieceReader, set[str]], ...] = (
    ("openai", _openai_csv_tokens, {"start_time", "model", "input_tokens", "output_tokens"}),
    ("openai", _openai_csv_cost, {"start_time", "amount_value", "amount_currency", "line_item"}),
    (
        "anthropic",
        _anthropic_csv_tokens,
        {"usage_date_utc", "model_version", "usage_input_tokens_no_cache", "usage_output_tokens"},
    ),
    ("anthropic", _anthropic_csv_cost, {"usage_date_utc", "model", "cost_usd"}),
    ("google", _google_csv, {"sku_description", "usage_start_time", "cost"}),
    ("google", _google_csv, {"sku.description", "usage_start_time", "cost"}),
    (
        "google",
        _google_cost_table,
        {"Service description", "SKU description", "Usage start date", "Cost ($)"},
    ),
)
