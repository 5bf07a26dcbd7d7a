"""Which models of a list channels could serve, and at which price."""

from decimal import Decimal

from channels.prices import PriceSpec
from channels.registry import Binding
from gw.price_list.offers import Offer, Provided, dearest, offers, price_of
from tests.unit.price_list.lists import FIREWORKS, GROQ, OPENAI, UNPRICED, list_of

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
