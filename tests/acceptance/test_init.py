"""`gw init` with two sets of keys: each configuration is free of faults, and its first call works.

Nothing is changed in what was written but the addresses: the simulator stands for the providers,
on the paths that are theirs.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from channels.kinds import KINDS
from gw.cli.main import main
from loadtests.rig.client import Client
from loadtests.rig.processes import GatewayProcess, SimulatorProcess
from loadtests.rig.upstream import Upstream

pytestmark = pytest.mark.long

KEY = "key-of-the-operator"
# The keys that are set; for each call a model, the client's path, and where the provider is asked.
SETS = [
    (
        ["ANTHROPIC_API_KEY", "GEMINI_API_KEY"],
        [
            ("claude-haiku-4-5", "/v1/messages", "/v1/messages"),
            (
                "gemini-2.5-flash",
                "/v1beta/models/gemini-2.5-flash:generateContent",
                "/v1beta/models/gemini-2.5-flash:generateContent",
            ),
        ],
    ),
    (
        ["DEEPSEEK_API_KEY", "ZHIPUAI_API_KEY", "MISTRAL_API_KEY"],
        [
            ("deepseek-flash", "/v1/messages", "/anthropic/v1/messages"),
            ("glm-4.7", "/v1/chat/completions", "/api/paas/v4/chat/completions"),
            ("codestral-latest", "/v1/chat/completions", "/v1/chat/completions"),
        ],
    ),
]
# What each set is given of the documented members for one short question.
REQUESTED = {"role": "user", "content": "Hello"}
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [REQUESTED]},
    "/v1/messages": {"messages": [REQUESTED], "max_tokens": 100},
    "/v1/responses": {"input": "Hello"},
}
GEMINI_BODY = {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]}


@pytest.fixture
def upstream() -> Iterator[SimulatorProcess]:
    process = SimulatorProcess()
    try:
        yield process
    finally:
        process.close()


@pytest.fixture
def keys(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> list[str]:
    """Set these keys and no other, and go to an empty folder."""
    for kind in KINDS.values():
        for name in (*kind.variables, kind.url_variable, "GW_CONFIG"):
            if name:
                monkeypatch.delenv(name, raising=False)
    names: list[str] = request.param
    for name in names:
        monkeypatch.setenv(name, KEY)
    monkeypatch.chdir(tmp_path)
    return names


def redirect(config: Path, url: str, database_url: str) -> None:
    """Let every channel keep its path and lead to `url`; take free ports and this database."""
    text = config.read_text(encoding="utf-8")
    for channel in yaml.safe_load(text)["channels"]:
        prefix = urlsplit(KINDS[channel["kind"]].base_url).path
        line = f"    kind: {channel['kind']}\n"
        assert line in text
        text = text.replace(line, f"{line}    base_url: {url}{prefix}\n")
    text = text.replace("listen: 127.0.0.1:8080", "listen: 127.0.0.1:0")
    text = text.replace(
        "admin_listen: 127.0.0.1:${GW_ADMIN_PORT:-9090}", "admin_listen: 127.0.0.1:0"
    )
    text = text.replace("${GW_DATABASE_URL:-}", json.dumps(database_url))
    config.write_text(f"{text}\nshed_delay_ms: 0\n", encoding="utf-8")


def called(url: str, key: str, model: str, path: str) -> dict[str, Any]:
    body = BODIES.get(path, GEMINI_BODY)
    if path in BODIES:
        body = {**body, "model": model}
    response = Client(url, key).send("POST", path, body)
    assert response.status == 200, response
    record: dict[str, Any] = response.json
    return record


@pytest.mark.parametrize(
    ("keys", "calls"), SETS, indirect=["keys"], ids=["-".join(keys) for keys, _ in SETS]
)
def test_first_configuration_of_these_keys_serves_a_first_call(
    keys: list[str],
    calls: list[tuple[str, str, str]],
    tmp_path: Path,
    database_url: str,
    upstream: SimulatorProcess,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def gw(*arguments: str) -> Any:
        assert main([*arguments, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    assert gw("init")["next"] == ["gw check-config", "gw serve"]
    checked = gw("check-config")
    assert (checked["ok"], checked["channels"]) == (True, len(keys))
    listed = {model for row in gw("matrix")["rows"] for model in row["models"]}
    assert {model for model, _, _ in calls} <= listed
    assert checked["models"] == len(listed)
    config = tmp_path / "gw.yaml"
    assert KEY not in config.read_text()
    redirect(config, upstream.url, database_url)
    assert gw("check-config")["ok"]
    account = gw("account", "create", "first", "--credit-usd", "5")["id"]
    key = gw("key", "create", "--account", account, "--name", "first")["key"]
    gateway = GatewayProcess(config)
    try:
        for model, path, requested in calls:
            assert called(gateway.url, key, model, path)
            last = Upstream(upstream.url).last_request()
            assert (last["path"], last["status"], last["api_key"]) == (requested, 200, KEY)
        assert gateway.terminate() == 0, gateway.log()
    finally:
        gateway.close()
    assert gw("ledger", "verify", "--costs")["ok"] is True
    assert 4 < float(gw("account", "show", account)["balance_usd"]) < 5
