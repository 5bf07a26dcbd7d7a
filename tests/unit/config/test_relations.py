"""Values that do not fit together: ids that clash, channels that are not there, prices missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from channels.families import ENDPOINT_TYPES
from gw.config.config import Certificate
from tests.unit.config.reading import SOURCE, channel, fault_of, faults_of, model, places_of, read


def test_certificate_and_key_go_together() -> None:
    folder = SOURCE.parent
    read_back = read("tls: {certificate: a.pem, key: /srv/b.pem}").tls
    assert read_back == Certificate(folder / "a.pem", Path("/srv/b.pem"))
    fault = fault_of("tls:\n  certificate: a.pem\n")
    assert (fault.path, fault.allowed) == ("tls.key", "a file, where there is a certificate")
    fault = fault_of("tls: {key: b.pem, certificate: ''}")
    assert (fault.line, fault.path) == (1, "tls.certificate")


@pytest.mark.parametrize("log", [None, 3, 4])
def test_entries_are_kept_longer_than_the_log(log: int | None) -> None:
    text = f"retention_months: {'null' if log is None else log}\nledger_retention_months: "
    config = read("retention_months: 3\nledger_retention_months: 4\n")
    assert config.ledger_retention_months == 4
    assert read(text + "null\n").ledger_retention_months is None
    fault = fault_of(text + "3\n")
    assert (fault.line, fault.path) == (2, "ledger_retention_months")


def test_two_channels_with_one_id_are_a_fault() -> None:
    other = channel().removeprefix("channels:\n")
    faults = faults_of(channel() + other + other)
    assert [(fault.line, fault.path) for fault in faults] == [
        (6, "channels[1].id"),
        (10, "channels[2].id"),
    ]
    assert faults[1].found == '"a", which is channels[0] already'


def test_two_models_with_one_id_are_a_fault() -> None:
    fault = fault_of("models:\n  - id: m\n  - id: n\n  - display_name: x\n    id: m\n")
    assert (fault.line, fault.path) == (5, "models[2].id")
    assert fault.found == '"m", which is models[0].id already'


def test_alias_that_clashes_is_a_fault_wherever_it_stands() -> None:
    text = """\
        models:
          - {id: m, aliases: [n, m, x]}
          - {id: n, aliases: [x, y, y]}
        """
    faults = faults_of(text)
    assert [(fault.path, fault.found) for fault in faults] == [
        ("models[0].aliases[0]", '"n", which is models[1].id already'),
        ("models[0].aliases[1]", '"m", which is models[0].id already'),
        ("models[1].aliases[0]", '"x", which is models[0].aliases[2] already'),
        ("models[1].aliases[2]", '"y", which is models[1].aliases[1] already'),
    ]
    assert {fault.line for fault in faults} == {2, 3}


def test_unknown_channel_is_a_fault_with_a_suggestion() -> None:
    fault = fault_of(model().replace("- id: a", "- id: openai-a").replace("[a]", "[opnai-a]"))
    assert (fault.line, fault.path) == (8, "models[0].channels[0]")
    assert fault.found == 'the unknown channel "opnai-a"'
    assert fault.allowed == "one of openai-a"
    assert fault.hint == "did you mean openai-a?"


def test_unknown_channel_without_any_channel_is_a_fault() -> None:
    fault = fault_of(
        "models:\n  - id: m\n    callable: no\n    channels:\n      - {as: x, id: a}\n"
    )
    assert (fault.line, fault.path) == (5, "models[0].channels[0].id")
    assert fault.allowed == "none"


def test_channel_bound_twice_is_a_fault() -> None:
    text = model().replace("[a]", "[a, {id: a, as: other}]")
    fault = fault_of(text)
    assert (fault.line, fault.path) == (8, "models[0].channels[1].id")
    assert fault.found == 'the channel "a" again'


def test_channels_that_could_not_be_read_are_not_called_unknown() -> None:
    assert places_of("channels: 5\nmodels: [{id: m, callable: no, channels: [a]}]") == [
        (1, "channels")
    ]
    text = model().replace("- id: a", "- id: 5")
    assert places_of(text) == [(2, "channels[0].id")]


def test_channel_with_another_fault_is_still_known() -> None:
    assert places_of(model().replace("[chat]", "[char]")) == [(5, "channels[0].protocols[0]")]


def test_two_listeners_on_one_address_are_a_fault() -> None:
    fault = fault_of("admin_listen: localhost:80\nlisten: localhost:80\n")
    assert (fault.line, fault.path) == (1, "admin_listen")
    fault = fault_of("listen: 127.0.0.1:9090\n")
    assert fault.path == "admin_listen"
    fault = fault_of("admin_listen: localhost:80\nconsole_listen: localhost:80\n")
    assert fault.path == "console_listen"
    read("listen: localhost:0\nadmin_listen: localhost:0\nconsole_listen: localhost:0\n")
    assert read('console_listen: ""\n').console_listen is None


def test_chat_model_that_can_be_called_needs_both_prices() -> None:
    assert places_of(model(price="{input: 1}")) == [(9, "models[0].price.output")]
    assert places_of(model(price="{output: 1}")) == [(9, "models[0].price.input")]
    assert places_of(model(price="{cached_input: 1}")) == [
        (9, "models[0].price.input"),
        (9, "models[0].price.output"),
    ]
    assert places_of(channel() + "models:\n  - {id: m, channels: [a]}\n") == [
        (7, "models[0].price.input"),
        (7, "models[0].price.output"),
    ]


def test_price_that_was_refused_is_not_called_missing_too() -> None:
    assert places_of(model(price="{input: -1, output: 1}")) == [(9, "models[0].price.input")]
    assert places_of(model(price="5")) == [(9, "models[0].price")]


def test_price_of_nothing_is_a_price() -> None:
    assert read(model(price="{input: 0, output: 0}")).registry.models["m"].price.input == 0


@pytest.mark.parametrize("text", ["callable: false", "channels: []"])
def test_model_that_reaches_no_upstream_needs_no_price(text: str) -> None:
    entry = f"models: [{{id: m, {text}}}]"
    assert read(channel() + entry).registry.models["m"].price.input is None


@pytest.mark.parametrize("endpoint_type", ENDPOINT_TYPES)
def test_media_model_needs_the_price_of_its_unit(endpoint_type: str) -> None:
    entry = f"endpoint_type: {endpoint_type}"
    units = ENDPOINT_TYPES[endpoint_type].prices
    for unit in units:
        read(model(entry, price=f"{{{unit}: 0.5}}"))
    if not units:  # free
        assert read(model(entry, price="{output: 1}")).registry.models
        return
    fault = fault_of(model(entry, price="{output: 1}"))
    assert (fault.line, fault.path) == (9, "models[0].price")
    assert fault.allowed == f"{' or '.join(units)} for {endpoint_type}"


def test_price_of_large_images_and_its_threshold_belong_together() -> None:
    entry = "endpoint_type: images_generations"
    read(model(entry, price="{per_image: 1, per_image_large: 2, area_threshold_mp: 2.36}"))
    fault = fault_of(model(entry, price="{per_image: 1, per_image_large: 2}"))
    assert (fault.line, fault.path) == (9, "models[0].price.area_threshold_mp")
    fault = fault_of(model(entry, price="{per_image: 1, area_threshold_mp: 2}"))
    assert fault.path == "models[0].price.per_image_large"


def test_price_by_a_unit_that_the_endpoint_is_not_billed_by_is_a_fault() -> None:
    fault = fault_of(model(price="{input: 1, output: 1, per_image: 1}"))
    assert (fault.line, fault.path) == (9, "models[0].price.per_image")
    assert fault.found == "per_image, which a chat model is not billed by"
    assert fault.hint == "a model billed so says endpoint_type: images_generations"
    entry = "endpoint_type: images_generations"
    fault = fault_of(model(entry, price="{per_image: 1, per_second: 2}"))
    assert fault.path == "models[0].price.per_second"
    assert "per_image, per_image_large, area_threshold_mp, per_reference" in fault.allowed
    read(model(entry, price="{per_image: 1, per_reference: 0.1, input: 5}"))


def test_model_that_reaches_no_upstream_may_list_any_price() -> None:
    read(model("callable: false", price="{input: 1, output: 1, per_image: 1}"))


def test_model_of_agents_is_one_for_chat_that_can_be_called() -> None:
    models = """\
channels:
  - {id: a, base_url: "https://a.example", api_key: k, protocols: [chat]}
models:
  - {id: m, channels: [a], price: {input: 1, output: 1}, aliases: [latest]}
  - {id: soon, callable: false}
  - {id: p, endpoint_type: images_generations}
"""
    for name in ("m", "latest", '""'):
        assert read(f"agents: {{default_model: {name}}}\n{models}")
    for name in ("soon", "p", "late"):
        fault = fault_of(f"agents: {{default_model: {name}}}\n{models}")
        assert (fault.line, fault.path) == (1, "agents.default_model")
        assert fault.allowed == "a chat model that can be called"
