"""How commands that fail end."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from actors.store.embedded.errors import EmbeddedFault
from actors.store.errors import (
    ConstraintViolated,
    StatementRefused,
    StatementTimedOut,
    StoreUnavailable,
)
from actors.store.schema import MigrationFault
from actors.wallet.ledger import UnknownAccount
from gw.cli.failures import CommandRefused, UsageFault, failure_of
from gw.cli.main import main
from gw.keys.issue import NotRevealable
from gw.keys.sealing import WrongSecret
from gw.keys.secret_file import SecretFault
from gw.keys.store import HashIsTaken, KeyIsRevoked, UnknownKey
from tests.support.rows import cases


@cases(
    "error, exit_code, code, message",
    (UsageFault("x is wrong", "usage: gw x\n"), 2, "usage", "x is wrong"),
    (CommandRefused("not today", "closed"), 1, "closed", "not today"),
    (UnknownAccount("acct_1"), 1, "account_not_found", "there is no account acct_1"),
    (UnknownKey("key_1"), 1, "key_not_found", "there is no key key_1"),
    (KeyIsRevoked("key_1"), 1, "key_revoked", "revocation is for good"),
    (HashIsTaken("key_1"), 1, "key_exists", "imported before"),
    (NotRevealable("key_1"), 1, "key_not_revealable", "cannot be revealed"),
    (WrongSecret(), 1, "wrong_secret", "another secret"),
    (SecretFault("no entry"), 1, "secret_unavailable", "no entry"),
    (EmbeddedFault("no binaries"), 1, "embedded_database", "no binaries"),
    (MigrationFault("newer"), 1, "migration", "newer"),
    (StoreUnavailable("gone"), 1, "database_unavailable", "cannot be reached: gone"),
    (StatementTimedOut("slow"), 1, "database_unavailable", "slow"),
    (StatementRefused("22003", "too big"), 1, "database_refused", "too big"),
    (ConstraintViolated("c", "no"), 1, "database_refused", "no"),
)
def test_failure_is_put_into_words(
    error: Exception, exit_code: int, code: str, message: str
) -> None:
    failure = failure_of(error)
    assert failure is not None
    assert (failure.exit_code, failure.code) == (exit_code, code)
    assert message in failure.message


def test_fault_of_ours_is_not_dressed_up() -> None:
    assert failure_of(ValueError("bug")) is None


def test_configuration_that_is_missing_or_wrong_ends_with_its_faults(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "gw.yaml"
    for command in (["check-config"], ["account", "list"], ["ledger", "verify"], ["serve"]):
        assert main([*command, "--config", str(path)]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert "no such file" in captured.err
    path.write_text("listen: 8080\nchanels: []\nmodels: []\nchannels: []\n")
    assert main(["check-config", "--json", "--config", str(path)]) == 2
    captured = capsys.readouterr()
    error = json.loads(captured.out)["error"]
    assert error["code"] == "invalid_configuration"
    assert {fault["path"] for fault in error["faults"]} >= {"listen", "chanels"}
    assert "did you mean channels?" in captured.err
    assert "gw.yaml:2:1  chanels" in captured.err


def test_reader_that_has_gone_is_no_traceback(tmp_path: Path) -> None:
    config = tmp_path / "gw.yaml"
    config.write_text("channels: []\nmodels: []\n")
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "gw", "check-config", "--config", str(config)]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, timeout=60, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")


def test_ctrl_c_ends_quietly(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("gw.cli.main._carried_out", interrupted)
    assert main(["account", "list"]) == 130
