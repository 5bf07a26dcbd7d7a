"""The bundled list of prices."""

from pathlib import Path

from channels.families import FAMILIES, MODEL_TYPES
from channels.kinds import KINDS
from gw.config.load import load_text
from gw.price_list.offers import provided_by
from gw.price_list.reading import bundled
from gw.price_list.starter import kinds_found, missing, starter
from tests.support.rows import each

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
