"""A configuration of LiteLLM is moved in, and its clients' next calls are served from here."""

import json
from pathlib import Path
from typing import Any

import pytest

from gw.cli.main import main
from gw.moving_in.writing import read_env_file
from loadtests.rig.client import Client
from loadtests.rig.processes import GatewayProcess, SimulatorProcess
from loadtests.rig.upstream import Upstream

pytestmark = pytest.mark.long

LITELLM = """\
model_list:
  - model_name: gpt
    litellm_params:
      model: openai/gpt-4o
      api_base: {url}/v1
      api_key: key-of-the-first
      order: 1
  - model_name: gpt
    litellm_params:
      model: openai/gpt-4o-eu
      api_base: {url}/v1/
      api_key: key-of-the-second
      order: 2
    model_info: {{input_cost_per_token: 1e-6, output_cost_per_token: 2e-6}}
  - model_name: claude
    litellm_params:
      model: anthropic/claude-sonnet-5
      api_base: {url}
      api_key: key-of-the-third
general_settings: {{master_key: sk-1234}}
"""
HEAD = """\
listen: 127.0.0.1:0
admin_listen: 127.0.0.1:0
shed_delay_ms: 0
secret: a secret for tests only
database_url: {database_url}
"""


def test_clients_of_litellm_are_served_after_the_move(
    tmp_path: Path,
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def gw(*arguments: str) -> Any:
        assert main([*arguments, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GW_CONFIG", raising=False)
    (tmp_path / "gw.yaml").write_text(HEAD.format(database_url=json.dumps(database_url)))
    simulator = SimulatorProcess()
    try:
        (tmp_path / "litellm.yaml").write_text(LITELLM.format(url=simulator.url))
        record = gw("import", "litellm", "litellm.yaml")
        assert record["models"] == ["gpt", "claude"]
        assert [one["what"] for one in record["left"]] == ["general_settings.master_key"]
        # Of two deployments one has no price of its own, and none that is known.
        assert record["unpriced"] == ["gpt"]
        config = tmp_path / "gw.yaml"
        text = config.read_text()
        waiting = "# price: not known; without one this is a fault of the configuration"
        assert waiting in text
        config.write_text(text.replace(waiting, "price: {input: 1, output: 2}"))
        for name, value in read_env_file((tmp_path / "gw.env").read_text()).items():
            monkeypatch.setenv(name, value)
        assert gw("check-config")["models"] == 2
        account = gw("account", "create", "moved", "--credit-usd", "5")["id"]
        key = gw("key", "create", "--account", account, "--name", "anew")["key"]
        gateway = GatewayProcess(config)
        try:
            client, upstream = Client(gateway.url, key), Upstream(simulator.url)
            request = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 50}
            reply = client.send("POST", "/v1/chat/completions", {"model": "gpt", **request})
            assert reply.status == 200, reply
            last = upstream.last_request()
            assert (last["api_key"], last["path"]) == ("key-of-the-first", "/v1/chat/completions")
            reply = client.send("POST", "/v1/messages", {"model": "claude", **request})
            assert reply.status == 200, reply
            assert upstream.last_request()["api_key"] == "key-of-the-third"
            assert gateway.terminate() == 0, gateway.log()
        finally:
            gateway.close()
        assert gw("ledger", "verify", "--costs")["ok"] is True
    finally:
        simulator.close()
