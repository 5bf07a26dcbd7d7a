"""`gw matrix`: what it prints of a configuration, for people, programs and documents"""

import json
from pathlib import Path

import pytest

from gw.cli.main import main

FILE = """\
translations: [chat_to_messages]
channels:
  - id: a
    base_url: https://a.example
    api_key: k
    protocols: [chat, responses]
    tools: [web_search]
  - {id: b, base_url: "https://b.example", api_key: k, protocols: [messages]}
models:
  - {id: one, channels: [a], price: {input: 1, output: 2}}
  - {id: two, channels: [a, b], price: {input: 1, output: 2}}
  - {id: uno, channels: [a], price: {input: 1, output: 2}}
"""
T1 = "openai_chat_to_anthropic_messages"


@pytest.fixture
def matrix_config(tmp_path: Path) -> str:
    path = tmp_path / "gw.yaml"
    path.write_text(FILE)
    return str(path)


def message_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["matrix", *arguments]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def test_people_get_a_table_and_the_models_of_its_rows(
    matrix_config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = message_of(capsys, "--config", matrix_config).splitlines()
    assert lines[0].split() == [
        *("row", "chat_completions", "messages", "responses", "native_content"),
        *("built-in", "tools"),
    ]
    # Of the two that the model has no channel for, each has a translation that is not switched on.
    assert "no channel (messages_to_chat or messages_to_responses is off)" in lines[1]
    assert "no channel (native_to_chat or native_to_responses is off)" in lines[1]
    assert lines[1].endswith("web_search")
    assert f"native, else translated: {T1}" in lines[2]
    assert lines[2].endswith("web_search (chat_completions, responses)")
    assert lines[-2:] == ["1  one, uno", "2  two"]


def test_programs_get_one_object(matrix_config: str, capsys: pytest.CaptureFixture[str]) -> None:
    record = json.loads(message_of(capsys, "--config", matrix_config, "--json"))
    assert record["file"] == matrix_config
    assert record["translations"] == ["chat_to_messages"]
    first, second = record["rows"]
    assert first["models"] == ["one", "uno"]
    assert first["protocols"]["native_content"] == {
        "served": "no_channel",
        "translations": [],
        "switched_off": ["native_to_chat", "native_to_responses"],
        "tools": [],
    }
    assert second["protocols"]["chat_completions"] == {
        "served": "native",
        "translations": [T1],
        "switched_off": [],
        "tools": ["web_search"],
    }


def test_documents_get_a_markdown_table(
    matrix_config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = message_of(capsys, "--config", matrix_config, "--markdown").splitlines()
    assert lines[0].startswith("| Models | chat_completions |")
    assert lines[1] == "| --- | --- | --- | --- | --- | --- |"
    assert lines[2] == "| `one`, `uno` | native | no channel | native | no channel | web_search |"
    assert f"native, else translated: `{T1}`" in lines[3]


def test_faulty_configuration_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "gw.yaml"
    path.write_text("models: [{id: m, channels: [gone]}]\n")
    assert main(["matrix", "--config", str(path)]) == 2
    assert "gone" in capsys.readouterr().err
