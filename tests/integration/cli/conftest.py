"""`gw`: the command line, over a fresh database; `account`: an account in it."""

from pathlib import Path

import pytest

from tests.integration.cli.command import Gw


@pytest.fixture
def gw(tmp_path: Path, database_url: str, capsys: pytest.CaptureFixture[str]) -> Gw:
    """Run commands with a configuration that names the test's own database."""
    return Gw(tmp_path, database_url, capsys)


@pytest.fixture
def account(gw: Gw) -> str:
    """The id of an account without any money."""
    account_id: str = gw.run_json("account", "create", "Ann")["id"]
    return account_id
