"""Runs `gw` commands in this process and takes what they say apart."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gw.cli.main import main

CONFIGURATION = """\
database_url: {database_url}
data_dir: {data_dir}
secret: {secret}
channels:
  - {{id: a, base_url: "https://a.example", api_key: k, protocols: [chat]}}
models:
  - {{id: gpt-large, channels: [a], price: {{input: 1, output: 2}}, aliases: [gpt-latest]}}
  - {{id: gpt-small, channels: [a], price: {{input: 1, output: 2}}}}
  - {{id: gpt-soon, callable: false}}
  - {{id: picture, channels: [], endpoint_type: images_generations, price: {{per_image: "1"}}}}
agents: {{default_model: gpt-latest}}
"""


@dataclass(frozen=True)
class Finished:
    """What a command left behind."""

    exit_code: int
    out: str
    err: str


class Gw:
    """The command line over one database."""

    def __init__(self, folder: Path, url: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.config = folder / "gw.yaml"
        self._capsys = capsys
        self.write_config(database_url=json.dumps(url), data_dir=folder / "var")

    def write_config(self, *, database_url: str, data_dir: Path, secret: str = '""') -> None:
        self.config.write_text(
            CONFIGURATION.format(database_url=database_url, data_dir=data_dir, secret=secret)
        )

    def use_secret(self, secret: str) -> None:
        """Configure a secret instead of the generated one."""
        self.config.write_text(self.config.read_text().replace('secret: ""', f"secret: {secret}"))

    def run(self, *arguments: str) -> Finished:
        """Run a command as a person would."""
        self._capsys.readouterr()
        exit_code = main([*arguments, "--config", str(self.config)])
        captured = self._capsys.readouterr()
        return Finished(exit_code, captured.out, captured.err)

    def run_json(self, *arguments: str) -> dict[str, Any]:
        """Run a command that must succeed, as a program would."""
        message = self.run(*arguments, "--json")
        assert message.exit_code == 0, message.err
        assert [line for line in message.err.splitlines() if not line.startswith('{"ts"')] == []
        return one_object(message.out)

    def logs(self, *arguments: str) -> list[dict[str, Any]]:
        """Run a command that must succeed; the events that it logs, without their times."""
        events = [json.loads(line) for line in self.run(*arguments, "--json").err.splitlines()]
        return [{key: one[key] for key in one.keys() - {"ts", "message"}} for one in events]

    def refuses(self, *arguments: str, exit_code: int = 1) -> tuple[str, str]:
        """Run a command that must be refused; return the code and the message."""
        message = self.run(*arguments, "--json")
        assert message.exit_code == exit_code
        error = one_object(message.out)["error"]
        assert message.err.endswith(f"error: {error['message']}\n")  # perhaps after a line of usage
        return error["code"], error["message"]


def one_object(out: str) -> dict[str, Any]:
    """The one JSON object on stdout."""
    assert out.endswith("\n")
    value = json.loads(out)
    assert isinstance(value, dict)
    return value
