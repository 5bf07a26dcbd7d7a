"""Prices and media of a configuration: what is read, what is a fault, what is cautioned."""

from dataclasses import replace
from decimal import Decimal
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.dialects.table import CHAT_DIALECTS
from channels.families import FAMILIES
from channels.media.dialects import DIALECTS
from channels.prices import PriceSpec, PriceStep, TierPrice
from channels.registry import VideoSpec
from gw.config.faults import ConfigFaults
from gw.config.reload import changes, check_price_moves
from gw.price_list.writing import price
from tests.support.prices import spec_of
from tests.support.rows import cases
from tests.unit.config.reading import fault_of, faults_of, places_of, read

TEXT = """\
channels:
  - id: first-one
    base_url: https://a.example
    api_key: key-of-first
    protocols: [chat, responses]
    tools: [web_search]
  - id: other-one
    base_url: https://b.example
    api_key: key-of-other
    protocols: [chat]
models:
  - id: m
    channels: [first-one, {entry}]
    price: {price}
    unpriced: {unpriced}
    endpoint_type: {kind}
"""


def written(
    price: str = "input: 1, output: 2",
    *,
    entry: str = "other-one",
    unpriced: str = "refuse",
    kind: str = "null",
) -> str:
    plain = f"{{{price}}}"
    return TEXT.format(price=plain, entry=entry, unpriced=unpriced, kind=kind)


def test_every_dimension_is_read() -> None:
    text = written(
        "input: 1, output: '2.50', cache_write_1h: 3, per_web_search: {low: 0.01, high: 0.03},"
        "above_tokens: [{above: 5, output: 4}, {above: 9, input: 2}],"
        "service_tiers: {priority: {factor: 2},"
        " flex: {input: 0.5, above_tokens: [{above: 5, input: 1}]}}",
        entry='{id: other-one, as: n, price: {factor: "1.1", output: 3},'
        " cost: {input: 0.7, output: 1}}",
        unpriced="standard",
    )
    model = read(text).registry.models["m"]
    assert not model.refuses_unpriced
    price = model.price
    assert (price.output, price.cache_write_1h) == (Decimal("2.50"), Decimal(3))
    assert price.per_web_search == {"low": Decimal("0.01"), "high": Decimal("0.03")}
    assert price.above_tokens == (
        PriceStep(5, {"output": Decimal(4)}),
        PriceStep(9, {"input": Decimal(2)}),
    )
    assert price.service_tiers == {
        "priority": TierPrice(Decimal(2)),
        "flex": TierPrice(None, {"input": Decimal("0.5")}, (PriceStep(5, {"input": Decimal(1)}),)),
    }
    first, second = model.bindings
    assert (first.price, first.cost) == (None, None)
    assert second.price is not None
    assert second.price.stated() == {"output": "3", "factor": "1.1"}
    assert second.cost is not None
    assert second.cost.stated() == {"input": "0.7", "output": "1"}
    assert second.upstream_model == "n"


PLAIN = "input: 1, output: 2, "


@cases(
    "price, path, found",
    ("audio_inptu: 1", "price.audio_inptu", "unknown key"),
        ("audio_input: -1", "price.audio_input", "-1"),
        ("above_tokens: [{above: 9, input: 2}, {above: 9, input: 3}]",
         "price.above_tokens[1].above", "9 after 9"),
        ("above_tokens: [{above: 9}]", "price.above_tokens[0]", "a step without a price"),
        ("above_tokens: [{input: 9}]", "price.above_tokens[0].above", "nothing"),
        ("above_tokens: [{above: -1, input: 9}]", "price.above_tokens[0].above", "-1"),
        ("above_tokens: {above: 1}", "price.above_tokens", "a mapping"),
        (f"above_tokens: [{', '.join(f'{{above: {n}, input: 1}}' for n in range(11))}]",
         "price.above_tokens", "11 steps"),
        ("service_tiers: {express: {factor: 2}}", "price.service_tiers.express", "unknown key"),
        ("service_tiers: {flex: {factor: 0}}", "price.service_tiers.flex.factor", "0"),
        ("service_tiers: {flex: {factor: 2, input: 1}}", "price.service_tiers.flex",
         "a factor and prices"),
        ("service_tiers: {flex: {}}", "price.service_tiers.flex", "no price"),
        ("per_web_search: {huge: 1}", "price.per_web_search.huge", "huge"),
        ("per_web_search: [1]", "price.per_web_search", "a list"),
        ("factor: 2", "price.factor", "unknown key"),
)  # fmt: skip
def test_what_cannot_be_a_price_is_a_fault(price: str, path: str, found: str) -> None:
    fault = fault_of(written(PLAIN + price))
    assert fault.path == f"models[0].{path}"
    assert found in fault.found


@cases(
    "entry, path, found",
    ("{factor: 0}", "price.factor", "0"),
    ("{inptu: 1}", "price.inptu", "unknown key"),
    ("{per_image: 1}", "price", "a price by the unit"),
)
def test_a_channels_price_is_checked_alike(entry: str, path: str, found: str) -> None:
    fault = fault_of(written(entry=f"{{id: other-one, price: {entry}}}"))
    assert fault.path == f"models[0].channels[1].{path}"
    assert found in fault.found


@cases(
    "kind, price",
    ("images_generations", "per_image: 1"),
    ("videos_generations", "per_second: 1"),
    ("audio_speech", "per_character: 1"),
    ("music_generations", "per_generation: 1"),
)
def test_what_is_sold_by_the_piece_costs_the_same_on_each_channel(kind: str, price: str) -> None:
    for own in ('factor: "2"', price, "input: 1"):
        fault = fault_of(written(price, kind=kind, entry=f"{{id: other-one, price: {{{own}}}}}"))
        assert fault.path == "models[0].channels[1].price"
        assert fault.allowed == "a price of tokens on a channel of a chat model"


def test_dimensions_are_of_chat_models() -> None:
    fault = fault_of(written("per_image: 1, per_request: 1", kind="images_generations"))
    assert fault.path == "models[0].price.per_request"


def cautions(price: str, speaks: str = "protocols: [chat]", **changes: str) -> list[str]:
    found = read(written(price, **changes).replace("protocols: [chat]", speaks)).cautions
    return [
        one.message.rpartition(" (")[0].partition(":")[0] for one in found if ".price" in one.path
    ]


def test_searches_that_cost_nothing_are_cautioned_at_the_channel_that_states_the_tool() -> None:
    (found,) = read(written()).cautions
    assert found.path == "channels[0].tools"
    assert found.message.endswith("no per_web_search in the price of m")
    assert read(written(PLAIN + "per_web_search: 0")).cautions == ()


def test_what_can_be_reported_without_a_price_is_cautioned() -> None:
    assert cautions(PLAIN + "cache_write: 3, cached_input: 3") == []
    searches = PLAIN + "per_web_search: 0, "
    writes = searches + "cache_write: 3, per_request: 0"
    assert cautions(writes) == []
    assert cautions(writes, "protocols: [messages]") == ["no cache_write_1h"]
    tiers = "service_tiers: {flex: {input: 1}}, above_tokens: [{above: 1, input: 9}]"
    lacking = "service_tiers.flex has prices of its own and no above_tokens"
    assert cautions(searches + tiers) == [lacking] * 2
    sold = "unpriced is standard, so that dearer service tiers are served at the standard price"
    assert cautions(searches, unpriced="standard") == [sold] * 2


@cases(
    "tier, entry, what",
    ("priority", None, ["ask for priority, and service_tiers has no price of it"]),
    ("priority", "factor: 1.75", ["ask for priority, which costs service_tiers.priority and the"]),
    ("priority", "input: 2", []),
    ("default", "factor: 1.75", []),
)
def test_a_tier_of_a_channels_headers_has_its_price_once(
    tier: str, entry: str | None, what: list[str]
) -> None:
    tiers = "" if entry is None else ", service_tiers: {priority: {factor: 1.75}}"
    found = read(f"""
channels: [{{id: cloud-one, kind: bedrock, region: us-east-1, api_key: key-of-it,
  headers: {{X-Amzn-Bedrock-Service-Tier: {tier}}}}}]
models: [{{id: m, price: {{input: 1, output: 2, per_web_search: 0{tiers}}},
  channels: [{{id: cloud-one, price: {{{entry or "output: 2"}}}}}]}}]
""")
    reported = [one.message for one in found.cautions if "headers" in one.message]
    assert [
        text.partition("headers ")[2][: len(one)] for text, one in zip(reported, what, strict=True)
    ] == what
    request = None if tier == "default" else tier
    assert found.registry.models["m"].bindings[0].tier == request


def test_a_reload_names_what_moved_and_refuses_a_slip() -> None:
    step = "above_tokens: [{above: 5, input: %s}]"
    before, after = read(written(PLAIN + step % "2")), read(written(PLAIN + step % "3"))
    assert changes(before, after) == ["model m: price.above_tokens.5.input 2 to 3"]
    check_price_moves(before, after)
    own = "{id: other-one, price: {output: %s}}"
    slipped = read(written(entry=own % "30"))
    check_price_moves(read(written(entry=own % "3")), slipped)
    with pytest.raises(ConfigFaults, match="output on other-one"):
        check_price_moves(read(written(entry=own % "2")), slipped)


@given(st.randoms(use_true_random=False))
def test_what_a_price_list_writes_is_read_as_it_was(random: Random) -> None:
    spec = replace(fit(spec_of(random)), input=Decimal(1), output=Decimal(2))
    text = written(price(spec).removeprefix("{").removesuffix("}"))
    assert read(text).registry.models["m"].price == spec


def fit(spec: PriceSpec) -> PriceSpec:
    """A price as a model may have it: no step, and no tier, without a price."""

    def steps(found: tuple[PriceStep, ...]) -> tuple[PriceStep, ...]:
        return tuple(one for one in found if one.prices)

    tiers = {
        name: TierPrice(one.factor, one.prices, steps(one.above_tokens))
        for name, one in (spec.service_tiers or {}).items()
        if one.factor is not None or one.prices
    }
    above = steps(spec.above_tokens or ())
    return replace(spec, factor=None, above_tokens=above or None, service_tiers=tiers or None)


CHANNEL = """\
channels:
  - id: ark
    base_url: https://a.example
    api_key: key-of-ark
    protocols: [videos, avatars]
    wire: {wire}
models:
  - id: {model_id}
    endpoint_type: {endpoint_type}
    channels: [ark]
    price: {price}
    video: {video}
"""


def media_written(
    *,
    wire: str = "{videos: ark}",
    model_id: str = "film",
    endpoint_type: str = "videos_generations",
    price: str = "{per_second: 0.1}",
    video: str = "{}",
) -> str:
    return CHANNEL.format(
        wire=wire, model_id=model_id, endpoint_type=endpoint_type, price=price, video=video
    )


def test_wire_names_the_dialect_of_a_protocol() -> None:
    channel = read(media_written(wire="{videos: ark, avatars: }")).registry.channels["ark"]
    assert channel.wire == {"videos": "ark"}
    assert channel.dialect_of("videos") == "ark"
    assert channel.dialect_of("avatars") == "plain"


def test_wires_are_the_documented_ones() -> None:
    """Contract for media, §1; `images` has one way alone."""
    media = {name: row for name, row in FAMILIES.items() if row.wires and not row.is_chat}
    others = {name: set(row.wires) - {"plain"} for name, row in media.items()}
    assert others == {
        "videos": {"ark", "openai"},
        "music": {"suno"},
        "speech": {"minimax"},
        "avatars": {"shanjian"},
        "clips": {"shanjian"},
        "voices": {"shanjian"},
        "transcripts": set(),
    }
    assert {wire for row in media.values() for wire in row.wires} == DIALECTS.keys()


def test_wires_of_chat_are_its_dialects_hostings() -> None:
    """Each names one that there is, the usual one aside."""
    for name, dialect in CHAT_DIALECTS.items():
        usual = {"plain"} if FAMILIES[name].wires else set()
        assert set(FAMILIES[name].wires) == usual | dialect.hostings.keys()


@cases(
    "wire, path, found, allowed",
    ("{videos: suno}", "channels[0].wire.videos", '"suno"', "plain, ark, openai"),
    ("{videos: arc}", "channels[0].wire.videos", '"arc"', "plain, ark, openai"),
    ("{images: plain}", "channels[0].wire.images", "unknown key", "the keys chat, messages"),
    ("{music: suno}", "channels[0].wire.music", "not among", "the protocols videos, avatars"),
    ("ark", "channels[0].wire", '"ark"', "a mapping of chat, messages, videos"),
)
def test_wire_that_cannot_be(wire: str, path: str, found: str, allowed: str) -> None:
    fault = fault_of(media_written(wire=wire))
    assert (fault.line, fault.path) == (6, path)
    assert found in fault.found
    assert allowed in fault.allowed


def test_channel_whose_protocols_were_refused_is_not_blamed_for_its_wire() -> None:
    text = media_written().replace("[videos, avatars]", "videos")
    assert places_of(text) == [(5, "channels[0].protocols")]


@cases(
    "model_id, video, spec",
    ("film", "{}", VideoSpec()),
    ("film", "{tier: mini, real_person: true}", VideoSpec(tier="mini", real_person=True)),
    ("film", "{third_party: yes, multimodal: on}", VideoSpec(None, False, True, True)),
    ("film-lite", "{}", VideoSpec(tier="lite")),
    ("film-lite", "{tier: full}", VideoSpec(tier="full")),
    ("elite", "{}", VideoSpec()),
)
def test_video_model(model_id: str, video: str, spec: VideoSpec) -> None:
    assert (
        read(media_written(model_id=model_id, video=video)).registry.models[model_id].video == spec
    )


@cases(
    "changes, found",
    ({"model_id": "dh-motion"}, '"dh-motion", which is of another kind by its id'),
    ({"model_id": "clip-news"}, '"clip-news", which is of another kind by its id'),
    ({"endpoint_type": "videos_avatars", "price": "{per_call: 1}"}, "a model of videos_avatars"),
    ({"endpoint_type": "null", "price": "{input: 1, output: 1}"}, "a chat model"),
)
def test_video_on_a_model_of_another_kind_is_a_fault(changes: dict[str, str], found: str) -> None:
    fault = fault_of(media_written(video="{tier: mini}", **changes))
    assert (fault.line, fault.path) == (12, "models[0].video")
    assert fault.found == f"video on {found}"
    read(media_written(**changes))  # which says nothing


def test_tier_that_is_none_of_them() -> None:
    tier, unknown = faults_of(media_written(video="{tier: light, real: true}"))
    assert (tier.path, unknown.path) == ("models[0].video.tier", "models[0].video.real")
    assert "lite, mini, fast, full" in tier.allowed


def test_price_by_resolution_stands_beside_the_usual_one() -> None:
    text = media_written(
        price='{per_second: "0.1", per_second_by_resolution: {1080p: "0.2", 4k: 0.5}}'
    )
    price = read(text).registry.models["film"].price
    assert price.per_second == Decimal("0.1")
    assert price.per_second_by_resolution == {"1080p": Decimal("0.2"), "4k": Decimal("0.5")}


@cases(
    "price, path",
    ("{per_second: 1, per_second_by_resolution: {fast: -1}}", "per_second_by_resolution.fast"),
    ("{per_second: 1, per_second_by_resolution: {}}", "per_second_by_resolution"),
    ("{per_second: 1, per_second_by_resolution: 0.2}", "per_second_by_resolution"),
    ("{per_second: 1, per_second_by_resolution: [4k]}", "per_second_by_resolution"),
)
def test_price_by_resolution_that_cannot_be(price: str, path: str) -> None:
    fault = fault_of(media_written(price=price))
    assert (fault.line, fault.path) == (11, f"models[0].price.{path}")


def test_price_by_resolution_needs_the_usual_one_and_a_video() -> None:
    fault = fault_of(media_written(price="{per_second_by_resolution: {4k: 1}}"))
    assert (fault.path, fault.found) == ("models[0].price", "no price by the unit that is billed")
    price = "{per_call: 1, per_second_by_resolution: {4k: 1}}"
    fault = fault_of(media_written(endpoint_type="videos_avatars", price=price))
    assert fault.path == "models[0].price.per_second_by_resolution"


@cases(
    "text, expected",
    ("''", ""),
    ("", ""),
    ("https://api.example", "https://api.example"),
    ("https://api.example/", "https://api.example"),
    ("http://10.0.0.1:8080/media/", "http://10.0.0.1:8080/media"),
    ("'http://[::1]:8080'", "http://[::1]:8080"),
)
def test_public_url(text: str, expected: str) -> None:
    assert read(f"public_url: {text}").public_url == expected


@cases(
    "text",
    "api.example", "ftp://api.example", "https://", "https://300.1.1.1", "https://api.example:0",
    "https://api.example?x=1", "'https://api.example#x'", "https://u:hidden@api.example", "5",
)  # fmt: skip
def test_public_url_that_cannot_be(text: str) -> None:
    fault = fault_of(f"public_url: {text}")
    assert (fault.line, fault.path) == (1, "public_url")
    assert "hidden" not in repr(fault)


def test_model_whose_channels_do_not_speak_what_it_needs() -> None:
    def notified(**changes: str) -> list[str]:
        return [one.message for one in read(media_written(**changes)).cautions]

    assert notified() == []
    assert notified(model_id="dh-avatar", wire="{}") == []
    assert notified(model_id="clip-news") == [
        "none of these channels speaks clips: every call is answered 503"
    ]
    assert notified(model_id="dh-motion", wire="{avatars: shanjian}") == [
        "the wire shanjian makes dh-avatar alone: every call is answered 503"
    ]
    assert notified(model_id="dh-avatar", wire="{avatars: shanjian}") == []
