"""`gw init`: what it writes of which environment, and that the result can be read."""

import json
from pathlib import Path
from typing import Any

import pytest

from channels.kinds import KINDS
from gw.cli.main import main

SETTINGS = {name for kind in KINDS.values() for _, name in kind.settings}
SECRET = "sk-of-the-operator"
VARIABLES = {
    name
    for kind in KINDS.values()
    for name in (
        *kind.variables,
        kind.url_variable,
        *kind.ambient,
        *(variable for _, variable in kind.settings),
    )
    if name
}


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run in a folder of its own, with no key set."""
    monkeypatch.chdir(tmp_path)
    for name in (*VARIABLES, "GW_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def done(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, Any]:
    assert main([*arguments, "--json"]) == code
    record: dict[str, Any] = json.loads(capsys.readouterr().out)
    return record


def keys_of(*providers: str) -> dict[str, str]:
    return {f"{name}_API_KEY": SECRET for name in providers}


AZURE = {"AZURE_OPENAI_ENDPOINT": "https://r.openai.azure.com/"}
AWS = {"AWS_REGION": "us-east-1"}
GOOGLE = {"GOOGLE_CLOUD_PROJECT": "p-1", "GOOGLE_CLOUD_LOCATION": "us-east5"}
GOOGLE["GOOGLE_APPLICATION_CREDENTIALS"] = "key.json"


@pytest.mark.parametrize(
    ("environ", "kinds"),
    [
        (keys_of("OPENAI"), ["openai"]),
        (keys_of("ANTHROPIC", "GOOGLE"), ["anthropic", "gemini"]),
        (keys_of("GROQ", "OPENROUTER", "DEEPSEEK"), ["deepseek", "groq", "openrouter"]),
        (keys_of("AZURE_OPENAI", "MISTRAL") | AZURE, ["azure-openai", "mistral"]),
        ({"AWS_PROFILE": "team", **AWS}, ["bedrock"]),
        ({"AWS_BEARER_TOKEN_BEDROCK": SECRET, **AWS, **GOOGLE}, ["vertex", "bedrock"]),
        (keys_of("AZURE_OPENAI", "XAI") | {"GROQ_API_KEY": ""}, ["xai"]),
    ],
    ids=lambda value: "-".join(value),
)
def test_keys_that_are_set_become_channels_that_can_be_read(
    environ: dict[str, str],
    kinds: list[str],
    empty_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    record = done(capsys, "init")
    assert record["file"] == str(empty_folder / "gw.yaml")
    assert [one["kind"] for one in record["channels"]] == kinds
    assert record["next"] == ["gw check-config", "gw serve"]
    text = (empty_folder / "gw.yaml").read_text()
    assert SECRET not in text
    checked = done(capsys, "check-config")
    assert (checked["ok"], checked["channels"]) == (True, len(kinds))
    shown = done(capsys, "matrix")["kinds"]
    assert [one["kind"] for one in shown] == kinds


def test_every_kind_can_be_named_and_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    named = [word for name in KINDS for word in ("--provider", name)]
    record = done(capsys, "init", *named)
    assert [one["kind"] for one in record["channels"]] == list(KINDS)
    unset = {name for one in record["channels"] for name in one["unset"]}
    assert unset <= VARIABLES
    for name in unset:
        host = f"{name.lower().replace('_', '-')}.example"
        monkeypatch.setenv(name, host if name in SETTINGS else f"https://{host}")
    assert done(capsys, "check-config")["channels"] == len(KINDS)


def test_provider_whose_key_is_not_set_is_written_and_reported(
    empty_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", "--provider", "groq", "--provider", "ollama"]) == 0
    shown = capsys.readouterr().out
    assert "GROQ_API_KEY" in shown
    assert "api_key: ${GROQ_API_KEY}" in (empty_folder / "gw.yaml").read_text()
    faults = done(capsys, "check-config", code=2)["error"]["faults"]
    assert [fault["path"] for fault in faults] == ["channels[0].api_key"]
    assert "GROQ_API_KEY" in faults[0]["found"]


def test_file_that_is_there_stays_unless_it_is_forced(
    empty_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = empty_folder / "gw.yaml"
    path.write_text("mine")
    record = done(capsys, "init", "--provider", "ollama", code=1)
    assert record["error"]["code"] == "file_exists"
    assert path.read_text() == "mine"
    done(capsys, "init", "--provider", "ollama", "--force")
    assert done(capsys, "check-config")["channels"] == 1


def test_no_key_at_all_is_refused_with_what_was_looked_for(
    empty_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = done(capsys, "init", code=1)
    assert record["error"]["code"] == "no_provider"
    assert "OPENAI_API_KEY" in record["error"]["message"]
    assert not (empty_folder / "gw.yaml").exists()


def test_unknown_provider_is_a_fault_of_the_command_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    record = done(capsys, "init", "--provider", "opnai", code=2)
    assert record["error"]["code"] == "usage"
    assert "openai" in record["error"]["message"]


def test_file_of_another_name_is_named_to_the_next_commands(
    empty_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = done(capsys, "init", "--provider", "vllm", "--config", "other.yaml")
    path = empty_folder / "other.yaml"
    assert record["next"] == [f"gw check-config --config {path}", f"gw serve --config {path}"]
    assert path.exists()


def test_variable_names_the_file_for_the_next_commands_too(
    empty_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GW_CONFIG", "named.yaml")
    record = done(capsys, "init", "--provider", "vllm")
    assert record["file"] == str(empty_folder / "named.yaml")
    assert record["next"] == ["gw check-config", "gw serve"]
