"""The compatibility matrix: the specification's families, and what else a configuration can be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from channels.families import CHAT_PROTOCOLS, PUBLIC_NAMES
from channels.registry import Registry
from gw.api.catalog import supported_protocols
from gw.api.matrix import MatrixCell, compatibility
from gw.config.config import Config
from gw.config.load import load, load_text
from tests.support.specs import make_channel, make_model

FAMILIES = Path(__file__).parents[3] / "ops/examples/families.yaml"
T1 = "openai_chat_to_anthropic_messages"
T2 = "openai_chat_to_gemini_native"
T3 = "anthropic_messages_to_openai_chat"
T4 = "gemini_native_to_openai_chat"
T6 = "anthropic_messages_to_gemini_native"

# The specification's table: models of the family, then chat, messages, responses, native.
SPECIFIED = [
    (2, ["native", "native", "native", None]),
    (5, [T1, "native", "native", None]),
    (2, [T2, "native", "native", "native"]),
    (1, [T2, None, None, "native"]),
    (6, [T1, "native", None, None]),
    (3, ["native", "native", "native", "native"]),
    (5, ["native", None, None, None]),
]
BY_DEFAULT = ("chat_to_messages", "chat_to_native")
ALL = (*BY_DEFAULT, "messages_to_chat", "native_to_chat", "native_to_messages")


def shown(cell: MatrixCell) -> str | None:
    return "native" if cell.is_passthrough else ", ".join(cell.headers) or None


@pytest.fixture
def families() -> Config:
    return load(FAMILIES, {})


def test_example_has_the_families_of_the_specification(families: Config) -> None:
    rows = compatibility(families.registry, families.translations)
    assert [(len(row.models), list(map(shown, row.cells))) for row in rows] == SPECIFIED
    assert [row.cells[0].tools for row in rows] == [("web_search", "image_generation")] + [()] * 6


def test_public_catalog_lists_exactly_the_passthrough_cells(families: Config) -> None:
    for row in compatibility(families.registry, families.translations):
        passthrough = [
            PUBLIC_NAMES[protocol]
            for protocol, cell in zip(CHAT_PROTOCOLS, row.cells, strict=True)
            if cell.is_passthrough
        ]
        for model_id in row.models:
            model = families.registry.models[model_id]
            assert supported_protocols(families.registry, model) == passthrough


def cells(
    *channels: tuple[str, dict[str, Any]], enabled: tuple[str, ...] = ALL, **model: Any
) -> list[str | None]:
    specs = [
        make_channel(name, **{**more, "protocols": frozenset(more["protocols"].split())})
        for name, more in channels
    ]
    registry = Registry.of(specs, [make_model(*(spec.id for spec in specs), **model)])
    (row,) = compatibility(registry, enabled)
    return list(map(shown, row.cells))


def test_with_all_translations_on_a_lone_channel_is_reached_by_the_rest() -> None:
    assert cells(("a", {"protocols": "chat"})) == ["native", T3, None, T4]
    assert cells(("a", {"protocols": "messages"})) == [T1, "native", None, T6]
    assert cells(("a", {"protocols": "native"})) == [T2, None, None, "native"]
    assert cells(("a", {"protocols": "responses"})) == [None, None, "native", None]


def test_what_is_switched_off_is_no_way() -> None:
    channel = ("a", {"protocols": "messages native"})
    assert cells(channel, enabled=()) == [None, "native", None, "native"]
    assert cells(channel, enabled=("chat_to_messages",)) == [T1, "native", None, "native"]


def test_channel_of_several_protocols_is_spoken_to_in_its_own() -> None:
    assert cells(("a", {"protocols": "messages native"}))[0] == T2
    assert cells(("a", {"protocols": "messages chat"}))[3] == T4


def test_translations_are_shown_in_the_order_in_which_channels_are_tried() -> None:
    second = ("a", {"protocols": "native", "priority": 2})
    first = ("b", {"protocols": "messages", "priority": 1})
    assert cells(second, first)[0] == f"{T1}, {T2}"


def test_translated_channels_behind_passthrough_ones_are_told_too() -> None:
    specs = [make_channel("a"), make_channel("b", protocols=frozenset({"messages"}), priority=0)]
    (row,) = compatibility(Registry.of(specs, [make_model("a", "b")]), BY_DEFAULT)
    assert row.cells[0] == MatrixCell(is_passthrough=True, headers=(T1,), tools=())
    assert row.cells[0].served == "native"


def test_models_of_other_endpoints_have_no_channel_and_placeholders_no_row() -> None:
    channel = make_channel("a", protocols=frozenset({"chat", "native", "images"}))
    media = make_model("a", id="painter", endpoint_type="images_generations")
    registry = Registry.of([channel], [media, make_model("a", id="later", callable=False)])
    (row,) = compatibility(registry, ALL)
    assert row.models == ("painter",)
    assert {cell.served for cell in row.cells} == {"no_channel"}


def test_tools_that_a_models_flags_leave_out_are_not_run_on_chat_completions() -> None:
    spec = make_channel(
        "a",
        protocols=frozenset({"chat", "responses"}),
        tools=frozenset({"web_search", "image_generation"}),
    )
    model = make_model("a", capabilities=frozenset({"web_search"}))
    (row,) = compatibility(Registry.of([spec], [model]), ALL)
    assert row.cells[0].tools == ("web_search",)
    assert row.cells[2].tools == ("web_search", "image_generation")


def test_tools_are_those_of_the_channels_that_run_them_there() -> None:
    specs = [
        make_channel("a", tools=frozenset({"web_search"})),
        make_channel(
            "b", protocols=frozenset({"responses"}), tools=frozenset({"image_generation"})
        ),
    ]
    (row,) = compatibility(Registry.of(specs, [make_model("a", "b")]), ALL)
    assert [cell.tools for cell in row.cells] == [
        ("image_generation",),  # chat-completions runs them over a channel's responses protocol
        (),
        ("image_generation",),
        (),
    ]


def test_models_of_a_cloud_are_reached_in_the_protocol_that_they_have() -> None:
    models = "".join(
        f"  - {{id: {name}, channels: [one], price: {{input: 1, output: 2}}}}\n"
        for name in ("claude-sonnet@20250929", "gemini-pro")
    )
    channel = "channels: [{id: one, kind: vertex, project: p, region: r}]"
    config = load_text(f"{channel}\nmodels:\n{models}", {}, source=Path("/etc/gw.yaml"))
    rows = compatibility(config.registry, ALL)
    assert {row.models: list(map(shown, row.cells)) for row in rows} == {
        ("claude-sonnet@20250929",): [T1, "native", None, T6],
        ("gemini-pro",): [T2, None, None, "native"],
    }
    (_, gemini) = config.registry.models.values()
    assert supported_protocols(config.registry, gemini) == ["native_content"]
