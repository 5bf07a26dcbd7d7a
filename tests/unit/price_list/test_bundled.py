"""The list of prices: read, bundled, compared, offered."""

from datetime import date
from decimal import Decimal
from pathlib import Path

from channels.families import FAMILIES, MODEL_TYPES
from channels.kinds import KINDS
from channels.prices import PriceSpec
from channels.registry import Binding, Registry
from gw.config.load import load_text
from gw.price_list.comparison import PriceChange, compare, leaps
from gw.price_list.offers import Offer, Provided, dearest, offers, price_of, provided_by
from gw.price_list.reading import bundled
from gw.price_list.starter import kinds_found, missing, starter
from tests.support.rows import cases, each
from tests.unit.price_list.lists import FIREWORKS, GROQ, HEAD, OPENAI, UNPRICED, faults_of, list_of

LIST = bundled()
PROVIDERS = sorted({row.provider for row in LIST.rows})


def test_list_has_about_a_hundred_models_of_many_providers() -> None:
    assert len({row.model for row in LIST.rows}) > 90
    assert len(PROVIDERS) > 10


def test_no_source_is_younger_than_the_list() -> None:
    dates = [row.source.dated for row in LIST.rows if row.source.dated is not None]
    assert max(dates) <= LIST.dated
    assert all(row.source.url.startswith("https://") for row in LIST.rows)


def test_no_price_is_zero() -> None:
    free = [
        row.model
        for row in LIST.rows
        if row.price is not None
        and any(amount == 0 for amount in (row.price.input, row.price.output, row.price.per_image))
    ]
    assert not free


def test_cached_input_is_never_dearer_than_input() -> None:
    for row in LIST.rows:
        if row.price is not None and row.price.cached_input is not None:
            assert row.price.input is not None
            assert row.price.cached_input <= row.price.input, row.model


def test_long_prompts_and_an_hours_cache_cost_more() -> None:
    steps = hours = 0
    for row in LIST.rows:
        price = row.price
        if price is None:
            continue
        assert "prompts" not in row.note, "what the price can state is no note"
        for step in price.above_tokens or ():
            steps += 1
            for name in step.prices:
                assert step.prices[name] > getattr(price, name), (row.model, name)
        if price.cache_write is not None and row.model.startswith("claude"):
            hours += row.provider != "openrouter"
            assert price.input is not None
            expected = None if row.provider == "openrouter" else 2 * price.input
            assert price.cache_write_1h == expected, row.model
    assert steps > 15
    assert hours > 15


def test_every_row_is_served_by_its_provider() -> None:
    for row in LIST.rows:
        family = next(
            one for one in FAMILIES.values() if row.endpoint_type in MODEL_TYPES[one.protocol]
        )
        spoken = KINDS[row.provider].protocols
        if family.is_chat:
            assert any(FAMILIES[protocol].is_chat for protocol in spoken), row
        else:
            assert family.channel_protocol(row.model) in spoken, row


@each("provider", PROVIDERS)
def test_first_configuration_of_each_provider_is_free_of_faults(provider: str) -> None:
    kind = KINDS[provider]
    environ = {
        name: "https://own.example" if name == kind.url_variable else "own-1"
        for name in missing(kind, {})
    }
    text = starter([kind], environ, LIST)
    config = load_text(text, environ, source=Path("/etc/gw.yaml"))
    names = {row.model for row in LIST.rows if row.provider == provider and row.price is not None}
    assert set(config.registry.models) == names
    for row in LIST.rows:
        if row.provider == provider and row.price is not None:
            model = config.registry.models[row.model]
            (binding,) = model.bindings
            assert (binding.upstream_model or model.id) == row.upstream
            assert model.price == row.price
            assert str(row.source) in text
        elif row.provider == provider:
            assert f"# - id: {row.model}\n" in text


def test_models_of_several_providers_have_all_of_them() -> None:
    kinds = [KINDS[name] for name in ("openai", "groq", "openrouter", "together", "fireworks")]
    environ = {name: "key-of-somebody" for kind in kinds for name in kind.variables}
    assert [kind.name for kind in kinds_found(environ)] == [
        kind.name for kind in KINDS.values() if kind in kinds
    ]
    config = load_text(starter(kinds, environ, LIST), environ, source=Path("/etc/gw.yaml"))
    models = config.registry.models
    bound = {binding.channel_id for binding in models["gpt-oss-120b"].bindings}
    assert bound == {"groq", "together", "fireworks"}
    assert [(one.channel_id, one.upstream_model) for one in models["gpt-5"].bindings] == [
        ("openai", None),
        ("openrouter", "openai/gpt-5"),
    ]
    # Who made a model serves it before who resells it.
    channels = config.registry.channels
    assert channels["openai"].priority < channels["openrouter"].priority
    assert len(provided_by(config.registry)) == len(kinds)


# --- The form of a price list, and every fault of one by its line ---


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


# --- What another list says otherwise, per million tokens and for what calls counted ---

TEXT = """\
channels:
  - {id: groq-1, kind: groq, api_key: key-of-groq}
  - {id: openai-1, kind: openai, api_key: key-of-openai}
  - {id: else-1, base_url: "https://else.example", api_key: key-of-else, protocols: [chat]}
models:
  - id: gpt
    channels: [openai-1]
    price: {input: 1.25, output: 8, cached_input: 0.25}
    multiplier: 2
  - {id: oss, channels: [{id: groq-1, as: openai/oss}], price: {input: 0.15, output: 0.6}}
  - {id: gone, channels: [openai-1], price: {input: 1, output: 1}}
  - {id: theirs, channels: [else-1], price: {input: 1, output: 1}}
"""


def registry() -> Registry:
    return load_text(TEXT, {}, source=Path("/etc/gw.yaml")).registry


def test_prices_that_differ_are_told_with_their_difference() -> None:
    found = compare(registry(), list_of(GROQ, OPENAI, UNPRICED, FIREWORKS))
    (one,) = found.differing
    assert one.model.id == "gpt"
    assert one.changes == (
        PriceChange("output", Decimal(8), Decimal(10), Decimal(2)),
        # Not said by the list: cached tokens would cost what input does.
        PriceChange("cached_input", Decimal("0.25"), None, Decimal(1)),
    )
    assert (found.new, found.unpriced, found.not_listed) == ((), ("gpt-new",), ("gone",))


MOVES = {
    "nine times dearer": ("{input: 11.24, output: 8, cached_input: 0.25}", []),
    "ten times dearer": ("{input: 12.5, output: 8, cached_input: 0.25}", ["input"]),
    "ten times cheaper": ("{input: 1.25, output: 0.8, cached_input: 0.25}", ["output"]),
    "to nothing": ("{input: 1.25, output: 0, cached_input: 0.25}", ["output"]),
    # It would cost what input does.
    "a member that goes, and moves": ("{input: 2.5, output: 8}", ["cached_input"]),
    "a member that goes": ("{input: 1.25, output: 8}", []),
    "a member that comes": (
        "{input: 1.25, output: 8, cached_input: 0.25, cache_write: 1, audio_input: 99}",
        [],
    ),
}


@each("price, expected", MOVES.values())
def test_prices_that_move_tenfold_are_found(price: str, expected: list[str]) -> None:
    row = f"{{provider: openai, id: gpt, price: {price}}}"
    (one,) = compare(registry(), list_of(row)).differing
    assert [change.member for change in leaps(one)] == expected


def test_new_models_of_the_list_are_named() -> None:
    more = "{provider: groq, id: fresh, price: {input: 1, output: 2}}"
    found = compare(registry(), list_of(more))
    assert found.new == ("fresh",)
    assert found.not_listed == ("oss",)  # the list has others of its provider


def test_price_of_a_resolution_is_told_on_its_own() -> None:
    text = TEXT.partition("models:")[0] + (
        "  - {id: ark-1, kind: ark, api_key: key-of-ark}\nmodels:\n"
        "  - {id: v, channels: [ark-1], endpoint_type: videos_generations,"
        " price: {per_second: 0.1, per_second_by_resolution: {1080p: 0.2}}}\n"
    )
    row = (
        "{provider: ark, id: v, endpoint_type: videos_generations,"
        " price: {per_second: 0.1, per_second_by_resolution: {1080p: 0.3}}}"
    )
    (one,) = compare(load_text(text, {}, source=Path("/x")).registry, list_of(row)).differing
    member = "per_second_by_resolution.1080p"
    assert one.changes == (PriceChange(member, Decimal("0.2"), Decimal("0.3"), Decimal("0.1")),)


CHAT = frozenset({"chat"})


def provided(*names: str) -> list[Provided]:
    return [Provided(f"{name}-1", name, CHAT) for name in names]


def offered(*rows: str, by: list[Provided]) -> dict[str, Offer]:
    return {offer.model: offer for offer in offers(list_of(*rows), by)}


def test_model_of_two_providers_is_served_by_both_for_the_dearer_price() -> None:
    offer = offered(GROQ, FIREWORKS, by=provided("groq", "fireworks"))["oss"]
    assert offer.bindings == (Binding("groq-1", "openai/oss"), Binding("fireworks-1", "f/oss"))
    # Groq says nothing of cached tokens: there they cost what input does.
    assert offer.price == PriceSpec(
        input=Decimal("0.2"), output=Decimal("0.6"), cached_input=Decimal("0.15")
    )
    assert offer.context_size == 100


def test_two_channels_of_one_provider_stand_in_for_each_other() -> None:
    both = [Provided("a-1", "openai", CHAT), Provided("a-2", "openai", CHAT)]
    offer = offered(OPENAI, by=both)["gpt"]
    assert offer.bindings == (Binding("a-1"), Binding("a-2"))


def test_channel_of_a_model_with_an_unknown_price_does_not_serve_it() -> None:
    unknown = "{provider: fireworks, id: oss, as: f/oss}"
    offer = offered(GROQ, unknown, by=provided("groq", "fireworks"))["oss"]
    assert offer.bindings == (Binding("groq-1", "openai/oss"),)
    assert offered(UNPRICED, by=provided("openai"))["gpt-new"].price is None


def test_model_is_not_offered_by_a_channel_that_does_not_speak_its_endpoint() -> None:
    picture = (
        "{provider: openai, id: p, endpoint_type: images_generations, price: {per_image: 0.04}}"
    )
    assert not offered(picture, by=provided("openai"))
    speaking = [Provided("a-1", "openai", frozenset({"images"}))]
    assert offered(picture, by=speaking)["p"].price == PriceSpec(per_image=Decimal("0.04"))
    assert not offered(OPENAI, by=speaking)


def test_prices_by_other_units_are_not_mixed() -> None:
    second = "{provider: ark, id: v, endpoint_type: videos_generations, price: {per_second: 0.1}}"
    call = "{provider: gateway, id: v, endpoint_type: videos_generations, price: {per_call: 1}}"
    films = frozenset({"videos"})
    by = [Provided("ark-1", "ark", films), Provided("gw-1", "gateway", films)]
    offer = offered(second, call, by=by)["v"]
    assert [one.channel_id for one in offer.bindings] == ["ark-1"]
    assert price_of(list_of(second, call).rows) is None


def test_dearest_of_tables_has_every_resolution() -> None:
    first = PriceSpec(
        per_second=Decimal(1), per_second_by_resolution={"1080p": Decimal(2), "4k": Decimal(5)}
    )
    other = PriceSpec(per_second=Decimal(2), per_second_by_resolution={"1080p": Decimal(3)})
    assert dearest([first, other]) == PriceSpec(
        per_second=Decimal(2), per_second_by_resolution={"1080p": Decimal(3), "4k": Decimal(5)}
    )
    small = PriceSpec(per_image=Decimal(1), area_threshold_mp=Decimal(2))
    large = PriceSpec(per_image=Decimal(1), area_threshold_mp=Decimal(3))
    assert dearest([small, large]).area_threshold_mp == Decimal(2)
