"""What media models and their channels say: wires, tiers, prices by resolution, the public URL."""

from __future__ import annotations

from decimal import Decimal

from channels.dialects.table import CHAT_DIALECTS
from channels.families import FAMILIES
from channels.media.dialects import DIALECTS
from channels.registry import VideoSpec
from tests.support.rows import cases
from tests.unit.config.reading import fault_of, faults_of, places_of, read

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


def written(
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


# --- Wires ---


def test_wire_names_the_dialect_of_a_protocol() -> None:
    channel = read(written(wire="{videos: ark, avatars: }")).registry.channels["ark"]
    assert channel.wire == {"videos": "ark"}
    assert channel.dialect_of("videos") == "ark"
    assert channel.dialect_of("avatars") == "plain"


def test_wires_are_the_contracts() -> None:
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
    fault = fault_of(written(wire=wire))
    assert (fault.line, fault.path) == (6, path)
    assert found in fault.found
    assert allowed in fault.allowed


def test_channel_whose_protocols_were_refused_is_not_blamed_for_its_wire() -> None:
    text = written().replace("[videos, avatars]", "videos")
    assert places_of(text) == [(5, "channels[0].protocols")]


# --- What a video model takes ---


@cases(
    "model_id, video, spec",
    ("film", "{}", VideoSpec()),
    (
        "film",
        "{tier: mini, real_person: true}",
        VideoSpec(tier="mini", real_person=True),
    ),
    ("film", "{third_party: yes, multimodal: on}", VideoSpec(None, False, True, True)),
    ("film-lite", "{}", VideoSpec(tier="lite")),
    ("film-lite", "{tier: full}", VideoSpec(tier="full")),
    ("elite", "{}", VideoSpec()),
)
def test_video_model(model_id: str, video: str, spec: VideoSpec) -> None:
    assert read(written(model_id=model_id, video=video)).registry.models[model_id].video == spec


@cases(
    "changes, found",
    ({"model_id": "dh-motion"}, '"dh-motion", which is of another kind by its id'),
    ({"model_id": "clip-news"}, '"clip-news", which is of another kind by its id'),
    (
        {"endpoint_type": "videos_avatars", "price": "{per_call: 1}"},
        "a model of videos_avatars",
    ),
    ({"endpoint_type": "null", "price": "{input: 1, output: 1}"}, "a chat model"),
)
def test_video_on_a_model_of_another_kind_is_a_fault(changes: dict[str, str], found: str) -> None:
    fault = fault_of(written(video="{tier: mini}", **changes))
    assert (fault.line, fault.path) == (12, "models[0].video")
    assert fault.found == f"video on {found}"
    read(written(**changes))  # which says nothing


def test_tier_that_is_none_of_them() -> None:
    tier, unknown = faults_of(written(video="{tier: light, real: true}"))
    assert (tier.path, unknown.path) == ("models[0].video.tier", "models[0].video.real")
    assert "lite, mini, fast, full" in tier.allowed


# --- Prices ---


def test_price_by_resolution_stands_beside_the_usual_one() -> None:
    text = written(price='{per_second: "0.1", per_second_by_resolution: {1080p: "0.2", 4k: 0.5}}')
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
    fault = fault_of(written(price=price))
    assert (fault.line, fault.path) == (11, f"models[0].price.{path}")


def test_price_by_resolution_needs_the_usual_one_and_a_video() -> None:
    fault = fault_of(written(price="{per_second_by_resolution: {4k: 1}}"))
    assert (fault.path, fault.found) == (
        "models[0].price",
        "no price by the unit that is billed",
    )
    price = "{per_call: 1, per_second_by_resolution: {4k: 1}}"
    fault = fault_of(written(endpoint_type="videos_avatars", price=price))
    assert fault.path == "models[0].price.per_second_by_resolution"


# --- Where clients reach it ---


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
    "api.example",
    "ftp://api.example",
    "https://",
    "https://300.1.1.1",
    "https://api.example:0",
    "https://api.example?x=1",
    "'https://api.example#x'",
    "https://u:hidden@api.example",
    "5",
)
def test_public_url_that_cannot_be(text: str) -> None:
    fault = fault_of(f"public_url: {text}")
    assert (fault.line, fault.path) == (1, "public_url")
    assert "hidden" not in repr(fault)


# --- What is hardly meant ---


def test_model_whose_channels_do_not_speak_what_it_needs() -> None:
    def told(**changes: str) -> list[str]:
        return [one.message for one in read(written(**changes)).cautions]

    assert told() == []
    assert told(model_id="dh-avatar", wire="{}") == []
    assert told(model_id="clip-news") == [
        "none of these channels speaks clips: every call is answered 503"
    ]
    assert told(model_id="dh-motion", wire="{avatars: shanjian}") == [
        "the wire shanjian makes dh-avatar alone: every call is answered 503"
    ]
    assert told(model_id="dh-avatar", wire="{avatars: shanjian}") == []
