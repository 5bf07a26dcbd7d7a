"""The form of a price list, and every fault of one by its line"""

from datetime import date
from decimal import Decimal

from channels.prices import PriceSpec
from tests.support.rows import cases, each
from tests.unit.price_list.lists import FIREWORKS, HEAD, UNPRICED, faults_of, list_of


def test_row_is_read_with_its_source_and_date() -> None:
    (row,) = list_of(FIREWORKS).rows
    assert (row.provider, row.model, row.upstream) == ("fireworks", "oss", "f/oss")
    assert row.price == PriceSpec(
        input=Decimal("0.2"), output=Decimal("0.5"), cached_input=Decimal("0.02")
    )
    assert str(row.source) == "https://copy.example, undated"
    assert (row.context_size, row.note) == (100, "beware")


def test_row_without_a_price_has_none_and_not_zero() -> None:
    found = list_of(UNPRICED, "{provider: groq, id: free, price: {input: 0, output: 0}}")
    assert [row.price for row in found.rows] == [
        None,
        PriceSpec(input=Decimal(0), output=Decimal(0)),
    ]
    assert found.dated == date(2026, 11, 22)
    assert found.rows[0].source.dated == date(2026, 10, 3)


BAD_ROWS = [
    ("{provider: opnai, id: m, source: page}", "models[0].provider"),
    ("{provider: openai, source: page}", "models[0].id"),
    ("{provider: openai, id: m}", "models[0].source"),
    ("{provider: openai, id: m, source: pag}", "models[0].source"),
    ("{provider: openai, id: m, source: page, price: {input: 1}}", "models[0].price"),
    ("{provider: openai, id: m, source: page, price: {input: -1, output: 1}}", None),
    ("{provider: openai, id: m, source: page, price: {per_image: 1}}", None),
    ("{provider: openai, id: m, source: page, price: {in: 1, output: 1}}", None),
    ("{provider: ark, id: m, source: page, endpoint_type: audio_speech, price: {input: 1}}", None),
    ("{provider: openai, id: m, source: page, context: 1}", "models[0].context"),
    ("just text", "models[0]"),
]


@each("row, path", BAD_ROWS)
def test_bad_row_is_a_fault_of_its_line(row: str, path: str | None) -> None:
    faults = faults_of(f"{HEAD}  - {row}\n")
    assert {line for line, _ in faults} == {6}
    assert path is None or path in [found for _, found in faults]
    assert all(found.startswith("models[0]") for _, found in faults)


def test_model_of_a_provider_stands_once() -> None:
    row = "  - {provider: openai, id: a, source: page}\n"
    other = "  - {provider: openai, id: b, as: a, source: page}\n"
    elsewhere = "  - {provider: groq, id: a, source: page}\n"
    assert faults_of(HEAD + row + elsewhere + other) == [(8, "models[2]")]


@cases("dated", "2026-13-01", "yesterday", "20261122", "7", "")
def test_bad_date_is_a_fault(dated: str) -> None:
    assert faults_of(HEAD.replace("2026-11-22", dated))[0] == (1, "dated")


@cases("text", "", "models: []", "- 1", "dated: [", "\x00")
def test_text_that_is_no_list_is_refused(text: str) -> None:
    assert faults_of(text)
