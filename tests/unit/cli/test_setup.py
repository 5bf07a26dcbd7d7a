"""`gw setup`: what each client's files hold, and that what was in them stays."""

import json
import stat
import tomllib
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml

from channels.prices import PriceSpec
from channels.registry import ModelSpec
from gw.cli.client_files import BACKUP
from gw.cli.main import main
from gw.setup.client import Access, ClientFile
from gw.setup.clients import CLIENTS
from gw.setup.formats import WRITERS, toml_text
from gw.setup.merging import Unmergeable, merged_text
from tests.support.specs import make_model
from tests.tidy.files import ROOT

CONFIG = str(ROOT / "ops/examples/families.yaml")
KEY = "sk-platform-" + "a" * 64
URL = "https://gateway.example"
BEARER = {"Authorization": f"Bearer {KEY}"}

READERS: dict[str, Callable[[str], Any]] = {
    ".json": json.loads,
    ".toml": tomllib.loads,
    ".yaml": yaml.safe_load,
}


def run(
    capsys: pytest.CaptureFixture[str], client: str, home: Path, *more: str, code: int = 0
) -> dict[str, Any]:
    options = ["--config", CONFIG, "--home", str(home), "--url", URL, "--json", *more]
    assert main(["setup", client, *options]) == code
    captured = capsys.readouterr()
    found: dict[str, Any] = json.loads(captured.out or captured.err)
    return found


def values_of(path: Path) -> Any:
    text = path.read_text(encoding="utf-8")
    if path.name == ".env":
        return dict(line.split("=", 1) for line in text.splitlines())
    return READERS[path.suffix.replace(".yml", ".yaml")](text)


def written(capsys: pytest.CaptureFixture[str], client: str, home: Path, *more: str) -> list[Any]:
    files = run(capsys, client, home, "--write", "--key", KEY, *more)["files"]
    return [values_of(Path(one["path"])) for one in files]


@pytest.mark.parametrize("client", CLIENTS)
def test_what_is_written_is_what_is_printed_and_is_written_once(
    client: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    printed = run(capsys, client, tmp_path, "--key", KEY)
    assert list(tmp_path.iterdir()) == []
    assert {one["outcome"] for one in printed["files"]} == {"printed"}
    first = run(capsys, client, tmp_path, "--key", KEY, "--write")
    for one in first["files"]:
        path = Path(one["path"])
        assert path.read_text(encoding="utf-8") == one["text"]
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert one["outcome"] == "written"
    again = run(capsys, client, tmp_path, "--key", KEY, "--write")
    assert {one["outcome"] for one in again["files"]} == {"unchanged"}
    assert not list(tmp_path.rglob(f"*{BACKUP}"))
    assert KEY in json.dumps(first)
    assert KEY not in json.dumps(run(capsys, client, tmp_path))


def test_each_client_has_address_key_model_and_tools(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    settings, state = written(capsys, "claude-code", tmp_path, "--model", "claude-sonnet-4-5")
    assert settings["env"]["ANTHROPIC_BASE_URL"] == URL
    assert settings["env"]["ANTHROPIC_AUTH_TOKEN"] == KEY
    assert settings["env"]["ANTHROPIC_MODEL"] == "claude-sonnet-4-5"
    assert settings["env"]["CLAUDE_CODE_ATTRIBUTION_HEADER"] == "0"
    assert state["mcpServers"]["gateway"]["headers"] == BEARER
    (codex,) = written(capsys, "codex", tmp_path, "--model", "gpt-5")
    assert (codex["model"], codex["model_provider"]) == ("gpt-5", "gateway")
    provider = codex["model_providers"]["gateway"]
    assert (provider["base_url"], provider["wire_api"]) == (f"{URL}/v1", "responses")
    assert provider["supports_websockets"] is True
    assert provider["experimental_bearer_token"] == KEY
    assert codex["mcp_servers"]["gateway"] == {"url": f"{URL}/mcp", "http_headers": BEARER}
    gemini, env = written(capsys, "gemini", tmp_path)
    assert gemini["security"]["auth"]["selectedType"] == "gemini-api-key"
    assert gemini["model"]["name"].startswith("gemini")
    assert env == {"GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": URL}
    (opencode,) = written(
        capsys, "opencode", tmp_path, "--model", "claude-opus-4-5", "--model", "deepseek-v3"
    )
    assert opencode["model"] == "gateway-messages/claude-opus-4-5"
    packages = {name: one["npm"] for name, one in opencode["provider"].items()}
    assert packages == {
        "gateway-messages": "@ai-sdk/anthropic",
        "gateway": "@ai-sdk/openai-compatible",
    }
    assert list(opencode["provider"]["gateway"]["models"]) == ["deepseek-v3"]
    assert opencode["small_model"] == "gateway/deepseek-v3"
    (cursor,) = written(capsys, "cursor", tmp_path)
    assert cursor["mcpServers"]["gateway"]["url"] == f"{URL}/mcp"
    (cline,) = written(capsys, "cline", tmp_path)
    assert cline["mcpServers"]["gateway"]["type"] == "streamableHttp"
    aider, metadata = written(capsys, "aider", tmp_path, "--model", "gpt-5")
    assert aider["model"] == "openai/gpt-5"
    assert aider["openai-api-base"] == f"{URL}/v1"
    assert aider["weak-model"] == "openai/gpt-5"
    assert list(metadata) == ["openai/gpt-5"]
    (continued,) = written(capsys, "continue", tmp_path, "--model", "gpt-5")
    assert continued["schema"] == "v1"
    assert continued["models"][0]["apiBase"] == f"{URL}/v1"
    assert continued["mcpServers"][0]["requestOptions"]["headers"] == BEARER


def test_small_tasks_go_to_the_cheapest_model_that_calls_tools() -> None:
    def of(name: str, given: int, output: int, tenths: int = 10, *flags: str) -> ModelSpec:
        price = PriceSpec(input=Decimal(given), output=Decimal(output))
        multiplier = Decimal(tenths) / 10
        return make_model(id=name, price=price, multiplier=multiplier, capabilities=flags)

    def small(*models: ModelSpec) -> str:
        return Access(URL, KEY, models).small_model.id

    big, cheap = of("big", 3, 15, 10, "tools"), of("cheap", 1, 5)
    assert small(big) == "big"
    assert small(big, cheap, of("last", 5, 25)) == "cheap"
    assert small(of("longer", 1, 6), cheap, of("equal", 1, 5)) == "cheap"
    assert small(cheap, of("reduced", 3, 15, 3)) == "reduced"
    assert small(cheap, of("painter", 0, 1, 10, "image_gen")) == "cheap"
    assert small(of("painter", 0, 1, 10, "image_gen")) == "painter"


def test_a_model_that_the_client_cannot_reach_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for client, model in (("codex", "deepseek-v3"), ("gemini", "gpt-5"), ("codex", "gone")):
        run(capsys, client, tmp_path, "--model", model, code=1)
    run(capsys, "codex", tmp_path, "--write", code=1)  # without a key
    run(capsys, "codex", tmp_path, "--url", "gateway", code=1)
    only = run(capsys, "codex", tmp_path, "--no-mcp")["files"]
    assert "mcp" not in only[0]["text"]


# What may be in a client's files, and what of it has to be there afterwards, byte for byte.
THERE = {
    ".claude/settings.json": ('{"env": {"A": "1"}, "hooks": {"x": []}}', ()),
    ".codex/config.toml": (
        '# mine\nmodel = "old" # why\napproval_policy = "never"\n\n[mcp_servers.other]\n'
        'command = "x" # kept\n\n[model_providers.gateway]\nname = "Old"\nquery_params = {a = "b"}'
        "\n\n[[list]]\na = 1\n",
        (
            "# mine\n",
            'approval_policy = "never"',
            'command = "x" # kept',
            'query_params = {a = "b"}',
        ),
    ),
    ".gemini/.env": ("# mine\nexport GEMINI_API_KEY=old\nOTHER=1\n", ("# mine\n", "OTHER=1\n")),
    ".aider.conf.yml": ("# mine\ndark-mode: true\nmodel: old\n", ("# mine\n", "dark-mode: true")),
    ".continue/config.yaml": (
        "name: Mine\nversion: 1.0.0\nschema: v1\nmodels:\n- name: other\n  model: x\nrules:\n- a\n",
        (),
    ),
}


@pytest.mark.parametrize("path", THERE)
def test_what_is_there_stays_and_has_a_copy(
    path: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    client = next(name for name in CLIENTS if name.split("-")[0] in path)
    text, kept = THERE[path]
    file = tmp_path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(0o644)
    before = {} if path.endswith(".env") else READERS[file.suffix.replace("yml", "yaml")](text)
    run(capsys, client, tmp_path, "--key", KEY, "--write")
    assert file.with_name(file.name + BACKUP).read_text() == text
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    merged = file.read_text()
    assert [one for one in kept if one not in merged] == []
    assert KEY in merged
    if before:
        after = values_of(file)
        for name in before.keys() & {"hooks", "approval_policy", "dark-mode", "rules", "list"}:
            assert after[name] == before[name]
    if client == "continue":
        assert values_of(file)["models"][0]["name"] == "other"
        assert values_of(file)["name"] == "Mine"
    if client == "claude-code":
        assert values_of(file)["env"]["A"] == "1"
    again = run(capsys, client, tmp_path, "--key", KEY, "--write")["files"]
    assert {one["outcome"] for one in again} == {"unchanged"}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (".claude/settings.json", b'{"env": {'),
        (".claude/settings.json", b"[]"),
        (".codex/config.toml", b"model = \n"),
        (".codex/config.toml", b"model_providers.gateway = {name = 'inline'}\n"),
        (".continue/config.yaml", b"a: [\n"),
        (".gemini/settings.json", b'// a comment\n{"a": 1}'),
        (".aider.conf.yml", b"\xff\xfe"),
    ],
)
def test_a_file_that_cannot_be_merged_is_left_alone(
    path: str, text: bytes, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    client = next(name for name in CLIENTS if name.split("-")[0] in path)
    file = tmp_path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text)
    refused = run(capsys, client, tmp_path, "--key", KEY, "--write", code=1)
    assert refused["error"]["code"] == "not_merged"
    assert file.read_bytes() == text
    assert [one for one in tmp_path.rglob("*") if one.is_file()] == [file]


def test_a_key_is_made_or_revealed_only_where_every_file_can_be_merged(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / ".codex/config.toml"
    file.parent.mkdir()
    file.write_text("=")
    # The database would have to be opened for it, and the configuration has none that is there.
    refused = run(capsys, "codex", tmp_path, "--account", "acct_x", "--write", code=1)
    assert refused["error"]["code"] == "not_merged"


def test_toml_is_written_as_it_is_read() -> None:
    values = {
        "text": 'a "quoted" \\ line\nand \x7f ü',
        "number": 1,
        "switch": True,
        "list": ["a", "b"],
        "table": {"odd name": 1, "inner": {"x": "y"}, "only": {"deep": {"z": 1}}},
    }
    assert tomllib.loads(toml_text(values)) == values
    file = ClientFile("x", "toml", values)
    assert tomllib.loads(merged_text(file, "other = 1\n[table]\nkept = 2\n")) == {
        **values,
        "other": 1,
        "table": {**values["table"], "kept": 2},  # type: ignore[dict-item]
    }
    with pytest.raises(Unmergeable):
        merged_text(file, "table = {kept = 2}\n")
    assert set(WRITERS) == {"json", "toml", "yaml", "env"}
