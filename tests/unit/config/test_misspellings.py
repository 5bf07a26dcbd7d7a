"""Misspelled keys and values, and keys that are missing: each with its place and a suggestion."""

from __future__ import annotations

import pytest

from tests.unit.config.reading import channel, check_fault, fault_of, faults_of, model, places_of

# text, line, path, part of what was found, part of what is allowed, part of the hint
BAD_CHOICES = [
    (
        "translations:\n  - chat_to_messages\n  - chat_to_nativ",
        3,
        "translations[1]",
        '"chat_to_nativ"',
        "native_to_messages",
        "did you mean chat_to_native?",
    ),
    (
        "translations: [chat_to_native, chat_to_native]",
        1,
        "translations[1]",
        '"chat_to_native" again',
        "once",
        "",
    ),
    (
        channel("tools: [Web-Search]"),
        6,
        "channels[0].tools[0]",
        '"Web-Search"',
        "one of web_search, image_generation",
        "did you mean web_search?",
    ),
    (
        channel("max_tokens_param: max_completion_token"),
        6,
        "channels[0].max_tokens_param",
        "max_completion_token",
        "max_tokens, max_completion_tokens",
        "did you mean max_completion_tokens?",
    ),
    (
        channel().replace("[chat]", "[chat, mesages]"),
        5,
        "channels[0].protocols[1]",
        '"mesages"',
        "chat, messages, responses, native, images",
        "did you mean messages?",
    ),
    (
        channel().replace("[chat]", "[native_content]"),
        5,
        "channels[0].protocols[0]",
        '"native_content"',
        "native",
        "did you mean native?",
    ),
    (channel().replace("[chat]", "[]"), 5, "channels[0].protocols", "an empty", "at least 1", ""),
    (channel().replace("[chat]", ""), 5, "channels[0].protocols", "nothing", "at least 1", ""),
    (
        model("capabilities: [tool]"),
        10,
        "models[0].capabilities[0]",
        '"tool"',
        "video_gen",
        "did you mean tools?",
    ),
    (
        model("endpoint_type: chat"),
        10,
        "models[0].endpoint_type",
        '"chat"',
        "null for a chat model, or images_generations",
        "",
    ),
    (
        model("endpoint_type: video_generations"),
        10,
        "models[0].endpoint_type",
        '"video_generations"',
        "contents_generations_tasks",
        "did you mean videos_generations?",
    ),
]


@pytest.mark.parametrize("case", BAD_CHOICES, ids=lambda case: f"{case[2]}-{case[3]}"[:80])
def test_value_out_of_a_list_is_a_fault_with_its_place(
    case: tuple[str, int, str, str, str, str],
) -> None:
    check_fault(*case)


@pytest.mark.parametrize(
    ("text", "path", "hint"),
    [
        ("lisen: 127.0.0.1:80", "lisen", "did you mean listen?"),
        ("max-body-mb: 1", "max-body-mb", "did you mean max_body_mb?"),
        ("Channels: []", "Channels", "did you mean channels?"),
        ("models:\n  - {id: m, alias: [x]}", "models[0].alias", "did you mean aliases?"),
        ("timeouts: {chatt: 5, chat: 6}", "timeouts.chatt", "did you mean chat?"),
        (channel("maxConcurrency: 5"), "channels[0].maxConcurrency", "max_concurrency?"),
        (channel("health: {failure: 5}"), "channels[0].health.failure", "failures?"),
        (channel("cooldown: 5"), "channels[0].cooldown", "cooldown belongs under health"),
        (model("input: 5"), "models[0].input", "input belongs under price"),
        (model(price="{input: 1, output: 1, inputs: 1}"), "models[0].price.inputs", "input?"),
        (
            model().replace("[a]", "[{id: a, As: b}]"),
            "models[0].channels[0].As",
            "did you mean as?",
        ),
        ("zzz: 1", "zzz", ""),
        ('"a b\\n": 1', '["a b\\n"]', ""),
        ('"": 1', '[""]', ""),
    ],
)
def test_unknown_key_is_a_fault_with_a_suggestion(text: str, path: str, hint: str) -> None:
    fault = fault_of(text)
    assert fault.path == path
    assert fault.found.startswith("the unknown key ")
    assert fault.allowed.startswith("the keys ")
    assert hint in fault.hint
    assert bool(fault.hint) is bool(hint)


def test_required_keys_that_are_absent_are_faults() -> None:
    assert places_of("channels:\n  - {}\nmodels:\n  - display_name: x") == [
        (2, "channels[0].api_key"),
        (2, "channels[0].base_url"),
        (2, "channels[0].id"),
        (2, "channels[0].protocols"),
        (4, "models[0].id"),
    ]
    assert "required" in faults_of("models: [{}]")[0].allowed


def test_misspelled_required_key_is_one_fault() -> None:
    fault = fault_of(channel().replace("base_url", "base_ulr"))
    assert (fault.line, fault.path) == (3, "channels[0].base_ulr")
    assert fault.hint == "did you mean base_url?"
