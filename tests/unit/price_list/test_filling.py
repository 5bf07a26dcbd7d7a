"""Filling a file from a list, and reading the exports of providers."""

import io
import json
import re
from collections.abc import Iterator, Sequence
from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.prices import PriceSpec
from channels.registry import ModelSpec
from gw.config.faults import ConfigFaults
from gw.config.load import load_text
from gw.price_list.exports.export import NoExport
from gw.price_list.exports.pieces import CHUNK, LINE_MAX, PIECE_MAX
from gw.price_list.exports.reading import read_export
from gw.price_list.filling import Filled, fill
from tests.support.rows import cases, each
from tests.unit.price_list.lists import FIREWORKS, GROQ, OPENAI, UNPRICED, list_of

SOURCE = Path("/etc/gw.yaml")
CHANNELS = """\
channels:  # who serves
  - {id: groq-1, kind: groq, api_key: key-of-groq}
  - id: openai-1
    base_url: https://api.openai.com
    api_key: "${KEY:-key-of-openai}"
    protocols: [chat]
"""
LIST = list_of(GROQ, FIREWORKS, OPENAI, UNPRICED)


def filled(text: str, *, is_replacing: bool = False, only: Sequence[str] = ()) -> Filled:
    found = fill(text, {}, LIST, source=SOURCE, is_replacing=is_replacing, only=frozenset(only))
    again = fill(found.text, {}, LIST, source=SOURCE, is_replacing=is_replacing)
    if not only:
        assert (again.text, again.added, again.priced) == (found.text, [], [])
    assert is_kept(text, found.text) or is_replacing
    return found


def is_kept(text: str, new: str) -> bool:
    """Every character of the text is in the new one, in its order, but for what says nothing."""
    rest = iter(new)
    written = re.sub(r"\[\]|\{\}|~|null|\s", "", text)
    return all(character in rest for character in written)


def models_of(text: str) -> dict[str, ModelSpec]:
    return dict(load_text(text, {}, source=SOURCE).registry.models)


NO_MODELS = [
    CHANNELS,
    CHANNELS.rstrip(),
    CHANNELS + "models:\n",
    CHANNELS + "models:  # none yet\n# later\n",
    CHANNELS + "models: []  # none yet\ndrain_seconds: 3\n",
    CHANNELS + "models: ~\n",
    "models: []\n" + CHANNELS,
    CHANNELS.replace("\n", "\r\n") + "models: []\r\n",
]


@each("text", NO_MODELS)
def test_models_are_added_where_there_were_none(text: str) -> None:
    found = filled(text)
    assert (found.added, found.unpriced) == (["oss", "gpt"], ["gpt-new"])
    models = models_of(found.text)
    assert models["gpt"].price == PriceSpec(input=Decimal("1.25"), output=Decimal(10))
    assert models["gpt"].aliases == ("gpt-old",)
    assert models["oss"].bindings[0].upstream_model == "openai/oss"
    assert "https://provider.example/prices, 2026-10-03" in found.text
    assert ("\r\n" in text) == ("\r\n" in found.text)
    assert "\n" not in found.text.replace("\r\n", "") or "\r\n" not in text


MINE = """\
  # the first
  - id: mine  # mine alone
    channels: [groq-1]
    price: {input: 7, output: 8}
    # its promotion ends in May
  # after it
"""


@cases("tail", "", "drain_seconds: 3\n", "\n\n# the end\n")
@cases("indent", "", "  ")
def test_models_are_added_behind_those_that_are_there(tail: str, indent: str) -> None:
    mine = "".join(f"{line.removeprefix('  ')}\n" for line in MINE.splitlines())
    text = f"{CHANNELS}models:\n{mine if not indent else MINE}{tail}"
    found = filled(text)
    models = models_of(found.text)
    assert list(models) == ["mine", "oss", "gpt"]
    assert models["mine"].price == PriceSpec(input=Decimal(7), output=Decimal(8))
    lines = [line.strip() for line in found.text.splitlines()]
    assert lines.index("# its promotion ends in May") < lines.index("- id: oss")


OWN = "{input: 3, output: 4}"


def own(price: str) -> str:
    return f"{CHANNELS}models:\n  - id: gpt\n    channels: [openai-1]\n    price: {price}\n"


def test_own_price_stays_unless_it_is_to_be_replaced() -> None:
    found = filled(own(OWN))
    assert (found.added, found.priced, found.replaced) == (["oss"], [], [])
    assert models_of(found.text)["gpt"].price.input == Decimal(3)
    replaced = filled(own(OWN), is_replacing=True)
    assert replaced.replaced == ["gpt"]
    assert models_of(replaced.text)["gpt"].price.input == Decimal("1.25")
    block = own("\n      input: 3  # ours\n      output: 4")
    assert models_of(filled(block, is_replacing=True).text)["gpt"].price.output == Decimal(10)


@cases(
    "model",
    "- id: gpt\n    channels: [openai-1]",
    "- id: gpt\n    price:\n    channels: [openai-1]",
    "- id: gpt\n    price: {}  # to come\n    channels: [openai-1]",
    "- id: gpt\n    price: null\n    channels:\n      - openai-1  # alone",
    "- {id: gpt, channels: [openai-1]}",
    "- {id: gpt, channels: [openai-1], }",
    "- id: other\n    channels: [{id: openai-1, as: gpt}]",
    '- id: gpt\n    channels: [openai-1]\n    aliases:\n      - "x"  # the last',
)
def test_price_that_is_missing_is_filled_in(model: str) -> None:
    found = filled(f"{CHANNELS}models:\n  {model}\n# end\n", only=["gpt", "other"])
    assert found.priced == [next(iter(models_of(found.text)))]
    (filled_model, *_) = models_of(found.text).values()
    assert filled_model.price == PriceSpec(input=Decimal("1.25"), output=Decimal(10))


def test_price_that_nobody_knows_stays_a_fault() -> None:
    text = f"{CHANNELS}models:\n  - id: gpt-new\n    channels: [openai-1]\n"
    found = filled(text)
    assert found.without_price == ["gpt-new"]
    with pytest.raises(ConfigFaults) as caught:
        load_text(found.text, {}, source=SOURCE)
    assert [fault.path for fault in caught.value.faults] == [
        "models[0].price.input",
        "models[0].price.output",
    ]


def test_alias_of_a_model_that_is_there_is_not_taken_again() -> None:
    text = f"{CHANNELS}models:\n  - id: mine\n    aliases: [gpt-old]\n    callable: false\n"
    assert filled(text).added == ["oss"]


def test_only_the_models_that_are_named_are_added() -> None:
    assert filled(CHANNELS, only=["gpt"]).added == ["gpt"]
    assert filled(CHANNELS, only=["nobody"]).added == []


@cases(
    "text, line",
    (CHANNELS + "models: [{id: m, callable: false}]\n", 7),
    (CHANNELS + "models: &all\n  - {id: m, callable: false}\n", 7),
    ("{channels: [{id: groq-1, kind: groq, api_key: key-of-groq}]}", 1),
    (CHANNELS + "drain_seconds: 3\n...\n", 1),
)
def test_form_that_cannot_be_added_to_is_a_fault_of_its_line(text: str, line: int) -> None:
    with pytest.raises(ConfigFaults) as caught:
        filled(text)
    assert [fault.line for fault in caught.value.faults] == [line]


def test_other_faults_of_the_file_are_reported_first() -> None:
    with pytest.raises(ConfigFaults) as caught:
        filled(CHANNELS.replace("kind: groq", "kind: grok"))
    assert "channels[0].kind" in [fault.path for fault in caught.value.faults]


COMMENTS = st.sampled_from(["", "# a", "    # b", "  # c", "\n"])


@given(st.lists(st.tuples(COMMENTS, st.booleans(), COMMENTS), max_size=4), st.booleans())
def test_every_line_stays_wherever_comments_stand(
    parts: list[tuple[str, bool, str]], is_ended: bool
) -> None:
    text = f"{CHANNELS}models:\n"
    for number, (before, has_price, after) in enumerate(parts):
        text += f"{before}\n  - id: m{number}\n    channels: [groq-1]\n"
        price = "price: {input: 1, output: 2}  # ours"
        text += f"    {price if has_price else 'callable: false'}\n"
        text += f"{after}\n"
    if not is_ended:
        text = text.rstrip("\n")
    found = filled(text)
    assert list(models_of(found.text)) == [*(f"m{n}" for n in range(len(parts))), "oss", "gpt"]


DAY, UNIX = date(2026, 5, 1), 1_777_593_600


def page(*buckets: dict[str, Any]) -> str:
    return json.dumps({"object": "page", "data": buckets, "has_more": False, "next_page": None})


def bucket(*results: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "object": "bucket",
        "start_time": UNIX,
        "end_time": UNIX + 86400,
        **more,
        "results": results,
    }


def report(*results: dict[str, Any]) -> str:
    day = {"starting_at": "2026-05-01T00:00:00Z", "ending_at": "2026-05-02T00:00:00Z"}
    return json.dumps({"data": [{**day, "results": results}], "has_more": False})


USED = {
    "object": "organization.usage.completions.result",
    "input_tokens": 1000,
    "input_cached_tokens": 800,
    "output_tokens": 500,
    "num_model_requests": 5,
    "model": "gpt-5.4-mini",
}
SPENT = {
    "object": "organization.costs.result",
    "amount": {"value": 0.1234567891234, "currency": "usd"},
    "line_item": "gpt-5.4-mini, input",
}
MESSAGES = {
    "uncached_input_tokens": 1500,
    "cache_creation": {"ephemeral_1h_input_tokens": 1000, "ephemeral_5m_input_tokens": 500},
    "cache_read_input_tokens": 200,
    "output_tokens": 50,
    "model": "claude-opus-5",
    "server_tool_use": {"web_search_requests": 10},
}
CENTS = {"currency": "USD", "amount": "123.78912", "description": "x", "model": "claude-opus-5"}
SKU = "Generate content {} token count gemini 2.5 flash short input text"
ROW = {
    "service": {"id": "AEFD", "description": "Gemini API"},
    "sku": {"id": "1", "description": SKU.format("cached input")},
    "usage_start_time": "2026-05-01 23:00:00 UTC",
    "usage": {"amount": "7", "unit": "count"},
    "cost": 0.5,
    "currency": "USD",
}
COMPUTE = {**ROW, "service": {"description": "Compute Engine"}}
CONSOLE = (
    "usage_date_utc,model_version,api_key,workspace,usage_type,context_window,"
    "usage_input_tokens_no_cache,usage_input_tokens_cache_write_5m,"
    "usage_input_tokens_cache_write_1h,usage_input_tokens_cache_read,usage_output_tokens,"
    "web_search_count,inference_geo,speed\n"
    '2026-05-01 02:00,claude-opus-5,"a, b",Default,standard,≤ 200k,1500,500,1000,200,50,0,,\n'
)
TABLE = (
    "Invoice number,123\n\n"
    "Service description,SKU description,Usage start date,Usage amount,Cost ($),"
    "Unrounded cost ($)\n"
    f'Gemini API,{SKU.format("output")},2026-05-01,"1,000",0.50,0.5000001\n'
    "Compute Engine,N1,2026-05-01,1,9,9\n"
    "Total\n"
)
TOKENS = {"input": 1000, "cached": 800, "output": 500}
COUNTED = {"input": 3200, "cached": 200, "cache_write": 1500, "output": 50}
CACHED = {"input": 7, "cached": 7, "cost": 5 * 10**8}
# A form, the provider, and the entries of models.
FORMS: dict[str, tuple[str, str, list[tuple[str, dict[str, Any]]]]] = {
    "usage of OpenAI": (page(bucket(), bucket(USED)), "openai", [("gpt-5.4-mini", TOKENS)]),
    "with what was written to a cache": (
        page(bucket({**USED, "input_cache_write_tokens": 3})),
        "openai",
        [("gpt-5.4-mini", {**TOKENS, "cache_write": 3})],
    ),
    "two pages": (
        page(bucket(USED)) + "\n" + page(bucket(USED)),
        "openai",
        [("gpt-5.4-mini", TOKENS)] * 2,
    ),
    "a list of pages": (f"[{page(bucket(USED))}]", "openai", [("gpt-5.4-mini", TOKENS)]),
    "costs of OpenAI": (
        page(bucket(SPENT)),
        "openai",
        [("gpt-5.4-mini", {"cost": Fraction(1234567891234, 10**4)})],
    ),
    "usage of the dashboard": (
        "start_time,end_time,start_time_iso,num_model_requests,model,input_tokens,"
        f"output_tokens,input_cached_tokens\r\n{UNIX},{UNIX},x,5,gpt-5.4-mini,1000,500,800\r\n",
        "openai",
        [("gpt-5.4-mini", TOKENS)],
    ),
    "costs of the dashboard": (
        f'start_time,amount_value,amount_currency,line_item\n{UNIX},0.5,usd,"gpt-5, output"\n',
        "openai",
        [("gpt-5", {"cost": 5 * 10**8})],
    ),
    "usage of Anthropic": (report(MESSAGES), "anthropic", [("claude-opus-5", COUNTED)]),
    "costs of Anthropic, in cents": (
        report(CENTS),
        "anthropic",
        [("claude-opus-5", {"cost": 1_237_891_200})],
    ),
    "usage of the console": (CONSOLE, "anthropic", [("claude-opus-5", COUNTED)]),
    "costs of the console": (
        "usage_date_utc,model,token_type,cost_usd\n2026-05-01,claude-opus-5,output,0.25\n",
        "anthropic",
        [("claude-opus-5", {"cost": 25 * 10**7})],
    ),
    "rows of Cloud Billing": (
        "\n".join(map(json.dumps, (ROW, COMPUTE))),
        "google",
        [(SKU.format("cached input"), CACHED)],
    ),
    "rows as CSV": (
        "service_description,sku_description,usage_start_time,usage_amount,cost,currency\n"
        f"Vertex AI,{SKU.format('cached input')},2026-05-01T00:00:00+00:00,7.0,0.5,USD\n",
        "google",
        [(SKU.format("cached input"), CACHED)],
    ),
    "the cost table": (
        TABLE,
        "google",
        [(SKU.format("output"), {"output": 1000, "cost": Fraction(5000001, 10**7) * 10**9})],
    ),
}


@each("text, provider, expected", FORMS.values())
def test_known_exports_are_read(
    text: str, provider: str, expected: list[tuple[str, dict[str, Any]]]
) -> None:
    for content in (text, "\ufeff" + text):
        export = read_export(io.StringIO(content))
        entries = list(export.entries)
        assert export.provider == provider
        assert {one.day for one in entries} == {DAY}
        found = [(one.model, dict(one.figures)) for one in entries if one.model is not None]
        assert found == expected


def test_instant_is_taken_to_utc() -> None:
    row = {**ROW, "usage_start_time": "2026-05-01 20:00:00-07:00"}
    (entry,) = read_export(io.StringIO(json.dumps(row))).entries
    assert entry.day == date(2026, 5, 2)


WRONG = {
    "nothing": ("", "it is empty"),
    "no JSON": ("{", "it is no JSON that can be read to its end"),
    "cut short": (page(bucket(USED))[:-80], "it is no JSON that can be read to its end"),
    "another object": ('{"a": 1}', "no known export has objects with a"),
    "a list of numbers": ("[1]", "'1' stands where an object should be"),
    "other columns": ("a,b\n1,2\n", "no known export has the columns a, b"),
    "prose": ("Dear customer,\nplease pay.\n", "no known export has the columns Dear customer, "),
    "no models": (page(bucket({**USED, "model": None})), "group_by[]=model"),
    "no line items": (page(bucket({**SPENT, "line_item": None})), "group_by[]=line_item"),
    "another currency": (
        page(bucket({**SPENT, "amount": {"value": 1, "currency": "eur"}})),
        "its amounts are in eur",
    ),
    "a negative count": (page(bucket({**USED, "input_tokens": -1})), "'-1' is no count"),
    "half a token": (page(bucket({**USED, "input_tokens": 1.5})), "'1.5' is no count"),
    "no number": (page(bucket({**USED, "input_tokens": "x"})), "'x' is no number"),
    "not a number": (page(bucket(USED)).replace("1000", "NaN"), "no number of an account"),
    "without bounds": (page(bucket(USED)).replace("1000", "1e999"), "no number of an account"),
    "results of a list": (page(bucket()).replace("[]}", "[[1]]}"), "bucket or row 1"),
    "results of texts": (report().replace('"results": []', '"results": ["x"]'), "bucket or row 1"),
    "a missing member": (report({"model": "m"}), "'uncached_input_tokens' is missing"),
    "no day": (json.dumps({**ROW, "usage_start_time": "yesterday"}), "'yesterday' is no day"),
    "no instant": (page(bucket(USED, start_time="x")), "'x' is no instant"),
    "two forms": (page(bucket(USED)) + report(MESSAGES), "of another form than the first"),
    "nested": ('{"a": ' + "[" * 100_000, "it is nested too deeply"),
    "a line without an end": ("start_time," + "x" * (LINE_MAX + CHUNK), "a line is longer than"),
}


@each("text, message", WRONG.values())
def test_what_is_no_export_is_refused(text: str, message: str) -> None:
    with pytest.raises(NoExport) as raised:
        list(read_export(io.StringIO(text)).entries)
    assert message in str(raised.value)


class Endless:
    """A file of any size, of which nothing is kept; `most` is the most that was asked for."""

    def __init__(self, pieces: Iterator[str]) -> None:
        self._pieces = pieces
        self.most = 0
        self.given = 0

    def read(self, size: int) -> str:
        self.most = max(self.most, size)
        text = next(self._pieces, "")
        self.given += len(text)
        return text


def test_file_of_any_size_is_read_piece_by_piece() -> None:
    one = json.dumps(bucket(USED))
    count = 40_000
    file = Endless(iter(['{"data": [', *[f"{one},\n"] * count, "]}"]))
    assert sum(entry.model is not None for entry in read_export(file).entries) == count
    assert (file.given > PIECE_MAX // 2, file.most) == (True, CHUNK)


def test_bucket_without_an_end_is_given_up() -> None:
    file = Endless(iter(['{"data": [{"start_time": 1, "results": ["'] + ["x" * CHUNK] * 100_000))
    with pytest.raises(NoExport, match="is longer than"):
        read_export(file)
    assert file.given < 3 * PIECE_MAX
